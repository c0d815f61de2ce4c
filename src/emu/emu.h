/* emu: a CUDA driver on the CPU.
 *
 * It emulates the cards of a `struct machine`, with the driver's own symbols (cuMemCreate,
 * cuLaunchKernel, …) and the real rules of the virtual-memory calls. As a static library it is
 * called in process, through emu_driver's table or by name; as libvrampool-emu.so it is loaded in
 * place of libcuda.so.1.
 *
 * Time is virtual. Each host thread has a clock, which driver calls move by their cost in
 * machine->costs. What a call queues runs when its time comes, never at the call: kernels and
 * copies take effect piece by piece at seeded instants between their start and their end, so that a
 * race shows. The device has been worked off up to the clock of whoever called last. Nothing
 * depends on the real clock: the same seed and the same calls give the same run. Work that is
 * queued earlier than the device's own time (by a thread whose clock lags behind that of another)
 * starts at the device's time: call from the thread whose clock is least where that matters.
 *
 * Copies between two places take turns, those of different pairs run at once and share the links
 * that their routes (machine/route.h) have in common.
 *
 * There is one emulator in a process, as there is one driver. Without `free_running` all calls come
 * from one thread, which plays several with emu_set_thread. Device addresses are [2^48, 2^49) and
 * never host pointers. */
#ifndef EMU_EMU_H
#define EMU_EMU_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"
#include "emu/emu_kernel.h"
#include "machine/machine.h"

#define EMU_ADDRESS_FIRST (UINT64_C(1) << 48)
#define EMU_ADDRESS_END   (UINT64_C(1) << 49)

enum { EMU_MAX_THREADS = 64 };

struct emu_options {
    const struct machine *machine; /* copied */
    uint64_t seed;
    bool carry_data;   /* false: no bytes are kept or copied; kernels read zeros or scratch */
    bool free_running; /* many real threads, one clock; who waits lets time pass, not who works */
    unsigned threads;  /* how many emu_set_thread may choose from; 0: one */
    unsigned jitter_percent; /* device work takes up to so much longer than the machine says */
};

/* Opens the emulator. cuInit is still to be called. VP_INVALID: a machine that contradicts itself,
 * or an emulator is open already. */
vp_status emu_open(const struct emu_options *options) VP_MUST_USE;

/* Ends the emulator, whatever still runs. Notes what was never given back as findings, which stay
 * readable until the next emu_open. Handles are dead. */
void emu_close(void);

/* Fills a driver table with the emulator's functions. */
void emu_driver(struct driver *table);

/* Names a kernel's host function, and its cost (NULL: see emu_kernel.h), ahead of dlsym. May be
 * called before emu_open and stays; the last registration of a name holds. `name` is not copied.
 * VP_QUOTA: too many. */
vp_status emu_kernel_register(const char *name, emu_kernel_fn function,
                              emu_cost_fn cost) VP_MUST_USE;

/* ---- Time ---- */

/* Chooses which host thread the next calls come from (not with free_running). Threads have each a
 * clock, a current context and a per-thread default stream. */
void emu_set_thread(unsigned thread);

uint64_t emu_now_ns(void);    /* the current thread's clock */
uint64_t emu_device_ns(void); /* how far the device has been worked off */

/* The current thread computes for so long; device work due meanwhile is done. */
void emu_advance_ns(uint64_t duration_ns);

/* When the device next does something; false: it is idle. */
bool emu_next_event_ns(uint64_t *at_ns);

/* Lets the device finish all that is queued. The current thread's clock moves with it. */
void emu_run_until_idle(void);

/* ---- Looking inside ---- */

/* Reads or writes device memory at once: no time passes, nobody's rights are asked, no conflict is
 * noted. False: some byte is not mapped (then nothing is copied), or the emulator carries no data.
 */
bool emu_peek(CUdeviceptr address, void *out, size_t bytes);
bool emu_poke(CUdeviceptr address, const void *in, size_t bytes);

/* The place (card, or machine.cards for the host) of the memory mapped at an address; -1: none. */
int emu_place(CUdeviceptr address);

/* ---- Failures on request ---- */

/* The nth call (1: the next) of `symbol`, counted from now, returns `error` and has no effect. One
 * such request a symbol; nth 0 takes it back. Per-thread-stream variants count as the call itself.
 * VP_NOT_FOUND: no such call. */
vp_status emu_fail_call(const char *symbol, uint64_t nth, CUresult error) VP_MUST_USE;

/* How often `symbol` was called since emu_open. */
uint64_t emu_call_count(const char *symbol);

/* How often the request for `symbol` has struck since emu_open. */
uint64_t emu_fail_count(const char *symbol);

/* All symbols that emu_fail_call takes. */
const char *const *emu_call_names(size_t *count);

/* The card falls off the bus: all its contexts return CUDA_ERROR_UNKNOWN from now on, and contexts
 * of other cards are lost when they use its memory. It is a relay no more. */
void emu_lose_card(unsigned card);

/* On a routed machine: so many more of the lanes between two cards (or a card and MACHINE_SWITCH)
 * die, all of a link, or what a card passes on for others. Copies that are queued or under way go
 * on over what is left, or another way, through the host at last, and none of their bytes is lost.
 * Access that was granted stays, at the rate of the way that is left; what is asked for later is
 * judged by that way. VP_NOT_FOUND: no such link or card (logged). */
vp_status emu_lose_lanes(unsigned a, unsigned b, unsigned lanes) VP_MUST_USE;
vp_status emu_lose_link(unsigned a, unsigned b) VP_MUST_USE;
vp_status emu_lose_relay(unsigned card) VP_MUST_USE;

/* The machine as it is now, with what was lost. */
struct machine emu_machine(void);

/* ---- Findings ---- */

/* Copies that are queued from now on may read what others are writing: their bytes are evidence at
 * best, and no conflict is noted. They are still held to all other rules. */
void emu_allow_torn_reads(bool allowed);

/* What a correct program never causes. X(name, what). */
#define EMU_FINDINGS(X)                                                                            \
    X(conflicts, "two operations in flight touched the same bytes, one of them writing")           \
    X(faults, "an operation touched what was not mapped for its card")                             \
    X(unmaps_in_use, "memory was unmapped under running or queued work")                           \
    X(frees_in_use, "memory was freed under running or queued work")                               \
    X(lost_handles, "physical handles never released")                                             \
    X(lost_mappings, "mappings never unmapped")                                                    \
    X(lost_reservations, "address ranges never freed")                                             \
    X(lost_allocations, "allocations of device or host memory never freed")                        \
    X(lost_streams, "streams never destroyed")                                                     \
    X(lost_events, "events never destroyed")

struct emu_findings {
#define EMU_FINDING_FIELD(name, text) uint64_t name;
    EMU_FINDINGS(EMU_FINDING_FIELD)
#undef EMU_FINDING_FIELD
    uint64_t untracked; /* accesses too scattered to be remembered: conflicts there may go unseen */
    char
        first[512]; /* the first finding as a sentence, with names, addresses and times; or empty */
};

/* Everything found since emu_open. */
struct emu_findings emu_findings(void);

/* The sum of all counters but `untracked`. */
uint64_t emu_findings_count(void);

#endif
