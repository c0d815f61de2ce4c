/* harness: what tests share that run the shim in their own process, over the recorder. */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "exported.h"
#include "fake_pool.h"
#include "recorder.h"
#include "shim/shim.h"
#include "unit/test.h"

/* The shim's exported function, called with these types: CALL(cuMemFree_v2, (CUdeviceptr), (8)). */
#define CALL(symbol, types, args) (((CUresult(*) types)shim_function(#symbol))args)

/* The recorder's state; loads it if the shim has not yet. */
static inline struct recorder *the_recorder(void)
{
    void *library = dlopen(getenv("VRAMPOOL_DRIVER"), RTLD_NOW);
    if (!library) fail_msg("%s", dlerror());
    struct recorder *(*get)(void) = (struct recorder * (*)(void)) dlsym(library, "recorder");
    assert_non_null(get);
    return get();
}

/* The name of the symbol that the real library was called by last. */
static inline const char *last_name(void)
{
    static const char *const names[] = {
#define NAME(name) #name,
        SHIM_SYMBOLS(NAME)
#undef NAME
    };
    return names[the_recorder()->last->symbol];
}

/* The pool was told `log` since it was last asked. */
static inline void check_log(const char *log)
{
    assert_string_equal(fake_pool()->log, log);
    fake_pool()->log[0] = '\0';
}

/* A function of the driver itself, not the shim's. */
static inline void *real_function(const char *name)
{
    return dlsym(dlopen(getenv("VRAMPOOL_DRIVER"), RTLD_NOW), name);
}

/* As a program starts: cuInit, a context, a first allocation; its address. */
static inline CUdeviceptr start_program(void)
{
    CUdeviceptr address = 0;
    the_recorder()->context = (void *)0xc0;
    assert_int_equal(CALL(cuInit, (unsigned), (0)), CUDA_SUCCESS);
    assert_int_equal(CALL(cuMemAlloc_v2, (CUdeviceptr *, size_t), (&address, 4096)), CUDA_SUCCESS);
    check_log("alloc:1000 ");
    return address;
}

static inline uint64_t argument(unsigned index)
{
    return the_recorder()->last->integers[index];
}

#endif
