#include "program.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "cli.h"

/* Tensors above 20 MiB must own their segment, so that they can leave alone. */
#define SPLIT_KEY     "max_split_size_mb"
#define SPLIT_SETTING SPLIT_KEY ":21"

static bool list_has(const char *list, const char *entry)
{
    size_t length = strlen(entry);
    for (const char *at = list; (at = strstr(at, entry)); at += length) {
        bool begins = at == list || at[-1] == ':';
        if (begins && (at[length] == ':' || at[length] == '\0')) return true;
    }
    return false;
}

static void must_set(const char *name, const char *value)
{
    if (setenv(name, value, 1) != 0) {
        log_error("cannot set %s: %s", name, strerror(errno));
        abort(); /* out of memory before anything has begun */
    }
}

static void set_joined(const char *name, const char *first, char separator, const char *second)
{
    char *joined;
    if (asprintf(&joined, "%s%c%s", first, separator, second) < 0) abort();
    must_set(name, joined);
    free(joined);
}

vp_status program_preload(const char *shim)
{
    if (strpbrk(shim, ": \t\n")) {
        log_error("%s: the loader cannot preload a library whose path has a blank or a colon; "
                  "put vrampool elsewhere",
                  shim);
        return VP_UNSUPPORTED;
    }
    const char *before = getenv("LD_PRELOAD");
    if (!before || !*before)
        must_set("LD_PRELOAD", shim);
    else if (!list_has(before, shim))
        set_joined("LD_PRELOAD", before, ':', shim);
    return VP_OK;
}

uint64_t program_emulate(struct machine *machine, uint64_t host_bytes, const char *emulator)
{
    static char text[MACHINE_TEXT_BYTES];
    if (host_bytes == PROGRAM_DEFAULT_HOST) {
        host_bytes = 4 * machine->hbm_bytes[0];
        if (host_bytes > machine->host_bytes) host_bytes = machine->host_bytes;
    }
    if (host_bytes > machine->host_bytes) machine->host_bytes = host_bytes;
    vp_status status = machine_to_text(machine, text, sizeof text);
    assert(status == VP_OK); /* it fits, whatever the machine */
    must_set(env_name(ENV_EMULATE), status == VP_OK ? text : "");
    must_set(env_name(ENV_DRIVER), emulator);
    return host_bytes;
}

/* PyTorch ≥ 2.9 reads PYTORCH_ALLOC_CONF and warns of the older name alone; earlier ones know only
 * that. The hook sees to settings that a script makes itself, and to expandable segments. */
static void set_allocator(void)
{
    static const char *const names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
    bool set = false;
    for (unsigned i = 0; i < 2; i++) {
        const char *value = getenv(names[i]);
        if (!value || !*value) continue;
        set = true;
        if (!strstr(value, SPLIT_KEY)) set_joined(names[i], value, ',', SPLIT_SETTING);
    }
    for (unsigned i = 0; i < 2 && !set; i++) must_set(names[i], SPLIT_SETTING);
}

void program_prepare_frameworks(const struct install *install)
{
    set_allocator();
    /* JAX would take three quarters of the whole pool, the host's memory too, as one block. */
    static const char preallocate[] = "XLA_PYTHON_CLIENT_PREALLOCATE";
    if (!getenv(preallocate)) must_set(preallocate, "false");
    if (!install->python[0]) return;
    must_set(env_name(ENV_PYTHON_DIR), install->python);
    const char *before = getenv("PYTHONPATH");
    if (!before || !*before)
        must_set("PYTHONPATH", install->python);
    else if (!list_has(before, install->python))
        set_joined("PYTHONPATH", install->python, ':', before);
}

int program_exec(char **argv)
{
    assert(argv[0]);
    execvp(argv[0], argv);
    return cli_fail(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN, "cannot run %s: %s",
                    argv[0], strerror(errno));
}
