/* driver: the CUDA driver as a table of function pointers, loaded at run time.
 *
 * The table is filled from the real library or from the emulator's, which exports the same symbols;
 * nothing above this part knows which. It never changes after loading, so any thread may read it.
 */
#ifndef DRIVER_DRIVER_H
#define DRIVER_DRIVER_H

#include <stdbool.h>

#include "driver/abi.h"
#include "driver/calls.h"
#include "vrampool.h"

struct driver {
#define DRIVER_FIELD(need, symbol, arguments) CUresult(*symbol) arguments;
    DRIVER_CALLS(DRIVER_FIELD)
#undef DRIVER_FIELD
    void *library;   /* from dlopen; NULL for a table filled by hand */
    char path[4096]; /* the file it was loaded from, absolute */
};

/* Loads the library at `path` (an absolute path) and fills the table.
 * VP_NOT_FOUND: no such library, or it lacks a required call (then it is older than driver 550);
 * logged. */
vp_status driver_load(struct driver *driver, const char *path);
void driver_unload(struct driver *driver);

/* Finds the real libcuda.so.1: $VRAMPOOL_DRIVER, then as the loader would: LD_LIBRARY_PATH, the
 * loader's cache, the usual folders. Never returns the file `self` (the shim's own path; may be
 * NULL), nor a copy of the shim elsewhere: those carry a note of the name DRIVER_SHIM_NOTE.
 * Writes an absolute path. VP_NOT_FOUND: none; the log names the places searched. */
#define DRIVER_SHIM_NOTE "vrampool-shim"
vp_status driver_find(const char *self, char *path, size_t path_size) VP_MUST_USE;

/* The same with `root` before every path but $VRAMPOOL_DRIVER, for tests. */
vp_status driver_find_under(const char *root, const char *self, char *path,
                            size_t path_size) VP_MUST_USE;

/* The error's name, such as CUDA_ERROR_OUT_OF_MEMORY; never NULL. */
const char *driver_error_name(const struct driver *driver, CUresult error);

#endif
