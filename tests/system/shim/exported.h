/* exported: the shim's functions, found by name, for tests that are linked with it. */
#ifndef TESTS_EXPORTED_H
#define TESTS_EXPORTED_H

#include <dlfcn.h>

#include "driver/abi.h"
#include "unit/test.h"

/* Ties the test to the shim: by dlsym alone the linker would leave the library out. */
CUresult cuInit(unsigned flags);
static void *const shim_tie __attribute__((used)) = (void *)cuInit;

static inline void *shim_function(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    if (!function) fail_msg("%s is not exported", name);
    return function;
}

#endif
