#include "driver/driver.h"

#include <dlfcn.h>
#include <string.h>

#include "base/log.h"

enum need { OPTIONAL, REQUIRED };

static bool fill_table(struct driver *driver)
{
    const char *first = NULL;
    unsigned missing = 0;
#define FILL(need, symbol, arguments)                                                              \
    driver->symbol = (CUresult(*) arguments)dlsym(driver->library, #symbol);                       \
    if (!driver->symbol && need == REQUIRED && missing++ == 0) first = #symbol;
    DRIVER_CALLS(FILL)
#undef FILL
    if (missing)
        log_error("%s lacks %s%s; vrampool needs driver 550 or newer", driver->path, first,
                  missing > 1 ? " and other calls" : "");
    return missing == 0;
}

vp_status driver_load(struct driver *driver, const char *path)
{
    memset(driver, 0, sizeof *driver);
    if (strlen(path) >= sizeof driver->path) return VP_INVALID;
    strcpy(driver->path, path);
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!driver->library) {
        log_error("cannot load the CUDA driver library %s: %s", path, dlerror());
        return VP_NOT_FOUND;
    }
    if (fill_table(driver)) return VP_OK;
    dlclose(driver->library);
    driver->library = NULL;
    return VP_NOT_FOUND;
}

void driver_unload(struct driver *driver)
{
    if (driver->library) dlclose(driver->library);
    memset(driver, 0, sizeof *driver);
}

const char *driver_error_name(const struct driver *driver, CUresult error)
{
    const char *name = NULL;
    if (driver->cuGetErrorName && driver->cuGetErrorName(error, &name) == CUDA_SUCCESS && name)
        return name;
    return "an unknown CUDA error";
}
