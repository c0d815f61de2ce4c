#include "install.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* Folders relative to the one the command is in: the build folder's layout, then the installed
 * one's. */
static const char *const shim_places[] = {"shim/libcuda.so.1", INSTALL_LIB "/libcuda.so.1"};
static const char *const emulator_places[] = {"src/libvrampool-emu.so",
                                              INSTALL_LIB "/libvrampool-emu.so"};
static const char *const python_places[] = {"python/vrampool_hook", INSTALL_PYTHON};

static const char *const machine_places[] = {"machines", INSTALL_MACHINES};

static bool find(const char *folder, const char *const places[2], char found[PATH_MAX])
{
    for (unsigned i = 0; i < 2; i++) {
        char path[2 * PATH_MAX], real[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", folder, places[i]);
        /* The path with its links resolved: no `..`, and it stays right when the program moves. */
        if (access(path, R_OK) == 0 && realpath(path, real)) {
            strcpy(found, real);
            return true;
        }
    }
    found[0] = '\0';
    return false;
}

static bool find_self(char self[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
    if (length <= 0) return false;
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    return true;
}

bool install_machines(char folder[PATH_MAX])
{
    char self[PATH_MAX];
    return find_self(self) && find(self, machine_places, folder);
}

vp_status install_find(struct install *install)
{
    char self[PATH_MAX];
    if (!find_self(self)) {
        log_error("cannot tell where this command is: /proc/self/exe is not readable");
        return VP_NOT_FOUND;
    }
    find(self, python_places, install->python);
    if (!find(self, shim_places, install->shim)) {
        log_error("the preloaded library is missing: neither %s/%s nor %s/%s; build or install "
                  "vrampool again",
                  self, shim_places[0], self, shim_places[1]);
        return VP_NOT_FOUND;
    }
    if (!find(self, emulator_places, install->emulator)) {
        log_error("the emulated driver is missing: neither %s/%s nor %s/%s; build or install "
                  "vrampool again",
                  self, emulator_places[0], self, emulator_places[1]);
        return VP_NOT_FOUND;
    }
    return VP_OK;
}
