#include <assert.h>
#include <string.h>

#include "base/units.h"
#include "fiber.h"
#include "replay.h"

/* A sleep ends so much late (the kernel's timer slack), or when somebody wakes the sleeper. */
static const uint64_t slack_ns = 55 * NS_PER_US, wake_ns = 5 * NS_PER_US;

/* Who waits for the device asks again so much later: the copier's queries take as long. */
static const uint64_t pause_ns = 1 * NS_PER_US;

_Static_assert((int)REPLAY_THREADS <= (int)FIBERS, "a fiber for each thread");

static struct {
    uint64_t at_ns; /* its clock, or when it wakes */
    bool sleeps;
    struct pool_thread lists;
} threads[FIBERS + 1];

static bool locked;

static void resumed(unsigned index)
{
    emu_set_thread(index == FIBER_MAIN ? 0 : index);
}

void replay_settle(void)
{
    unsigned self = fiber_current();
    if (self == FIBER_MAIN) return;
    assert(!locked);
    threads[self].at_ns = emu_now_ns();
    for (;;) {
        unsigned first = self;
        for (unsigned i = 0; i < FIBERS; i++)
            if (fiber_is_alive(i) && threads[i].at_ns < threads[first].at_ns) first = i;
        if (first == self) return;
        fiber_switch(first);
    }
}

static void sleep_until(uint64_t at_ns)
{
    unsigned self = fiber_current();
    uint64_t now_ns = emu_now_ns();
    threads[self].at_ns = at_ns;
    for (;;) {
        unsigned first = self;
        for (unsigned i = 0; i < FIBERS; i++)
            if (fiber_is_alive(i) && threads[i].at_ns < threads[first].at_ns) first = i;
        if (first == self) break;
        fiber_switch(first);
    }
    if (threads[self].at_ns > now_ns) emu_advance_ns(threads[self].at_ns - now_ns);
}

void replay_sleep(uint64_t ns)
{
    if (fiber_current() == FIBER_MAIN)
        emu_advance_ns(ns);
    else
        sleep_until(emu_now_ns() + ns);
}

/* ---- Hooks ---- */

static void take(void *context)
{
    replay_settle();
    assert(!locked);
    locked = true;
}

static void release(void *context)
{
    assert(locked);
    locked = false;
}

static void wait_for(void *context, uint64_t ns)
{
    release(context);
    threads[fiber_current()].sleeps = true;
    replay_sleep(ns + slack_ns);
    threads[fiber_current()].sleeps = false;
    take(context);
}

static void wake(void *context)
{
    uint64_t at_ns = emu_now_ns() + wake_ns;
    for (unsigned i = 0; i < FIBERS; i++)
        if (threads[i].sleeps && threads[i].at_ns > at_ns) threads[i].at_ns = at_ns;
}

static void pause_on_device(void *context)
{
    uint64_t event_ns, now_ns = emu_now_ns();
    bool any = emu_next_event_ns(&event_ns);
    replay_sleep(any && event_ns > now_ns + pause_ns ? event_ns - now_ns : pause_ns);
}

static uint64_t now_ns(void *context)
{
    return emu_now_ns();
}

static uint64_t thread(void *context)
{
    return (uint64_t)(uintptr_t)&threads[fiber_current()].lists;
}

const struct pool_edge replay_edge = {.locked = take,
                                      .unlocked = release,
                                      .wait = wait_for,
                                      .now_ns = now_ns,
                                      .thread = thread,
                                      .threads = true,
                                      .wake = wake,
                                      .pause = pause_on_device};

/* Calls that map take turns. The emulator would let time pass for who waits for his turn, and with
 * it the device's, ahead of threads whose clock is behind: so they wait here. */
enum call_kind { FREE, INIT, CTX, LIVE, VMM };
static uint64_t turn_ns;

static void before_call(enum call_kind kind)
{
    replay_settle();
    while (kind == VMM && emu_now_ns() < turn_ns) replay_sleep(turn_ns - emu_now_ns());
}

static CUresult after_call(enum call_kind kind, CUresult result)
{
    if (kind == VMM && emu_now_ns() > turn_ns) turn_ns = emu_now_ns();
    return result;
}

/* clang-format off */
#define WRAP(kind, variant, symbol, base, version, arguments, names) \
    __attribute__((unused)) static CUresult wrapped_##symbol arguments \
    { \
        before_call(kind); \
        return after_call(kind, symbol names); \
    }
EMU_CALLS(WRAP)
#undef WRAP
/* clang-format on */

void replay_wrap_driver(struct driver *driver)
{
    emu_driver(driver);
#define FILL(need, symbol, arguments) driver->symbol = wrapped_##symbol;
    DRIVER_CALLS(FILL)
#undef FILL
}

/* ---- Threads ---- */

static void (*program)(unsigned card);
static unsigned programs; /* that have not ended */

static void play_program(void *argument)
{
    program(fiber_current() - REPLAY_PROGRAM);
    if (--programs) return;
    vp_pool *pool = replay.pool;
    pool_lock(pool);
    pool->stopping = true;
    pool_wake(pool);
    pool_unlock(pool);
}

static void play_maps(void *pool)
{
    pool_map_main(pool);
}

static void play_copies(void *pool)
{
    pool_copy_main(pool);
}

static void play_stock(void *pool)
{
    pool_stock_main(pool);
}

static void play_student(void *argument)
{
    vp_pool *pool = argument;
    pool_lock(pool);
    while (!pool->foresee && !pool->stopping) pool_wait(pool, NS_PER_MS);
    pool_unlock(pool);
    if (pool->foresee) foresee_main(pool);
}

void replay_play(void (*body)(unsigned card))
{
    program = body;
    programs = replay.cards;
    uint64_t start_ns = emu_now_ns();
    for (unsigned i = 0; i <= FIBERS; i++) {
        threads[i].lists.id = i + 1;
        threads[i].at_ns = start_ns;
    }
    for (unsigned card = 0; card < replay.cards; card++)
        fiber_start(REPLAY_PROGRAM + card, play_program, NULL);
    fiber_start(REPLAY_MAPS, play_maps, replay.pool);
    fiber_start(REPLAY_STUDENT, play_student, replay.pool);
    fiber_start(REPLAY_STOCK, play_stock, replay.pool);
    for (unsigned i = 0; i < pool_copiers(replay.pool); i++)
        fiber_start(REPLAY_COPIES + i, play_copies, replay.pool);
    fiber_run_all(resumed);
    fiber_free_stacks();
}
