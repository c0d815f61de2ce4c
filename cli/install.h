/* Where the other parts of vrampool are, as seen from the running command: in its build folder, or
 * installed. */
#ifndef CLI_INSTALL_H
#define CLI_INSTALL_H

#include <limits.h>
#include <stdbool.h>

#include "vrampool.h"

struct install {
    char shim[PATH_MAX];     /* the library to preload */
    char emulator[PATH_MAX]; /* the emulated driver */
    char python[PATH_MAX];   /* the folder for PYTHONPATH; empty: not there */
};

/* Finds them all from /proc/self/exe. VP_NOT_FOUND: the shim or the emulator is missing (logged
 * with the places looked at). */
vp_status install_find(struct install *install) VP_MUST_USE;

/* The folder of the machine files that come with vrampool. False: it is not there. */
bool install_machines(char folder[PATH_MAX]);

#endif
