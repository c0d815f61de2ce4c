#include "fiber.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef WITH_ASAN /* it must know which stack is in use */
#include <sanitizer/common_interface_defs.h>
#endif

enum { STACK_BYTES = 1 << 20 };

struct fiber {
    ucontext_t context;
    void (*body)(void *);
    void *argument;
    void *stack;
    bool alive;
    const void *stack_bottom; /* for the sanitizer */
    size_t stack_bytes;
};

static struct fiber fibers[FIBERS + 1];
static unsigned current = FIBER_MAIN;
static void (*call_resumed)(unsigned index);

static void change(unsigned to, bool ends)
{
    struct fiber *from = &fibers[current], *next = &fibers[to];
#ifdef WITH_ASAN
    void *fake = NULL;
    __sanitizer_start_switch_fiber(ends ? NULL : &fake, next->stack_bottom, next->stack_bytes);
#endif
    current = to;
    swapcontext(&from->context, &next->context);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
    call_resumed(current);
}

static unsigned any_alive(void)
{
    unsigned index = 0;
    while (index < FIBERS && !fibers[index].alive) index++;
    return index; /* FIBER_MAIN once none is */
}

static void enter(void)
{
#ifdef WITH_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
    if (!fibers[FIBER_MAIN].stack_bottom) {
        fibers[FIBER_MAIN].stack_bottom = bottom;
        fibers[FIBER_MAIN].stack_bytes = bytes;
    }
#endif
    call_resumed(current);
    fibers[current].body(fibers[current].argument);
    fibers[current].alive = false;
    change(any_alive(), true);
}

void fiber_start(unsigned index, void (*body)(void *), void *argument)
{
    struct fiber *fiber = &fibers[index];
    assert(index < FIBERS && !fiber->alive);
    if (!fiber->stack) {
        fiber->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert(fiber->stack != MAP_FAILED);
    }
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    fiber->context.uc_link = NULL;
    fiber->stack_bottom = fiber->stack;
    fiber->stack_bytes = STACK_BYTES;
    fiber->body = body;
    fiber->argument = argument;
    fiber->alive = true;
    makecontext(&fiber->context, enter, 0);
}

void fiber_run_all(void (*resumed)(unsigned index))
{
    call_resumed = resumed;
    if (any_alive() != FIBER_MAIN) change(any_alive(), false);
    assert(current == FIBER_MAIN && any_alive() == FIBER_MAIN);
}

unsigned fiber_current(void)
{
    return current;
}

bool fiber_is_alive(unsigned index)
{
    return index < FIBERS && fibers[index].alive;
}

void fiber_switch(unsigned index)
{
    assert(fiber_is_alive(index) && current != FIBER_MAIN);
    if (index != current) change(index, false);
}

void fiber_free_stacks(void)
{
    for (unsigned i = 0; i < FIBERS; i++) {
        if (fibers[i].stack) munmap(fibers[i].stack, STACK_BYTES);
        fibers[i].stack = NULL;
    }
}
