/* What tests of the pool over the emulator share: a driver that plays a small machine. */
#ifndef TESTS_UNIT_POOL_FIXTURE_H
#define TESTS_UNIT_POOL_FIXTURE_H

#include "test.h"

#include "base/log.h"
#include "base/units.h"
#include "emu/emu.h"
#include "machine/machine.h"
#include "pool/internal.h"

static struct driver driver;
static struct machine machine;

/* The primary context of card 0 is current then. */
static inline void play(const char *name)
{
    CUcontext context;
    log_set_level(LOG_QUIET);
    assert_int_equal(machine_from_name(name, &machine), VP_OK);
    struct emu_options options = {.machine = &machine, .seed = 1, .free_running = true};
    assert_int_equal(emu_open(&options), VP_OK);
    emu_driver(&driver);
    assert_int_equal(driver.cuInit(0), CUDA_SUCCESS);
    assert_int_equal(driver.cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(driver.cuCtxSetCurrent(context), CUDA_SUCCESS);
}

#endif
