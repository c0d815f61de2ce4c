/* Without a pool (VRAMPOOL=0) the shim is one jump thick: every symbol leads to the real one, with
 * every argument, also in the very first call, which loads the library on its way. */
#include "shim/harness.h"

#include <string.h>

static const char *const names[] = {
#define NAME(name) #name,
    SHIM_SYMBOLS(NAME)
#undef NAME
};

typedef CUresult (*many)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, double,
                         double, double, double, double, double, double, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Calls with arguments of which no two are alike; `seed` tells calls apart. */
static CUresult call(many function, uint64_t seed)
{
    uint64_t s = seed << 32;
    double d = (double)seed;
    return function(s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, d + .1, d + .2, d + .3, d + .4,
                    d + .5, d + .6, d + .7, d + .8, s + 7, s + 8, s + 9, s + 10, s + 11, s + 12,
                    s + 13, s + 14);
}

static void check_recorded(const char *name, uint64_t seed)
{
    const struct recorded *last = the_recorder()->last;
    assert_string_equal(last_name(), name);
    for (unsigned i = 0; i < 14; i++) assert_int_equal(last->integers[i], (seed << 32) + i + 1);
    const double parts[] = {.1, .2, .3, .4, .5, .6, .7, .8};
    for (unsigned i = 0; i < 8; i++)
        assert_memory_equal(&last->floats[i], &(double){(double)seed + parts[i]}, sizeof(double));
}

/* Must be first: the resolver runs in this call alone. */
static void the_first_call_keeps_every_argument(void **state)
{
    assert_null(dlopen(getenv("VRAMPOOL_DRIVER"), RTLD_NOLOAD | RTLD_NOW));
    many function = (many)shim_function("cuLaunchKernel");
    CUresult result = call(function, 77);
    assert_int_equal(result, CUDA_SUCCESS);
    check_recorded("cuLaunchKernel", 77);
}

static void every_symbol_passes_everything_on(void **state)
{
    the_recorder()->echo = 1;
    for (unsigned i = 0; i < SHIM_COUNT; i++) {
        unsigned before = the_recorder()->calls;
        CUresult result = call((many)shim_function(names[i]), i + 1);
        assert_int_equal(result, 1000 + (int)i);
        assert_int_equal(the_recorder()->calls, before + 1);
        check_recorded(names[i], i + 1);
    }
}

static void proc_addresses_are_the_drivers_own(void **state)
{
    the_recorder()->echo = 0;
    void *function = NULL;
    int found = -1;
    CUresult result = CALL(cuGetProcAddress_v2, (const char *, void **, int, uint64_t, int *),
                           ("cuMemAlloc", &function, 12000, 0, &found));
    assert_int_equal(result, CUDA_SUCCESS);
    void *library = dlopen(getenv("VRAMPOOL_DRIVER"), RTLD_NOW);
    assert_ptr_equal(function, dlsym(library, "cuMemAlloc_v2"));
}

int main(void)
{
    setenv("VRAMPOOL", "0", 1);
    setenv("VRAMPOOL_HBM", "nonsense", 1); /* the kill switch works all the same */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_call_keeps_every_argument),
        cmocka_unit_test(every_symbol_passes_everything_on),
        cmocka_unit_test(proc_addresses_are_the_drivers_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
