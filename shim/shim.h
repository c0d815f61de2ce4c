/* shim: a library with SONAME libcuda.so.1 that is preloaded into a program and so stands between
 * it and the CUDA driver.
 *
 * Every driver symbol is exported (symbols.txt). Each is a trampoline (generate.py) that jumps
 * through its slot. Slots lead to the resolver until the first call of any of them: then load.c
 * finds and loads the real library and fills every slot, with a wrapper of ours, or with the real
 * function, or with a stub that answers "not supported" where the real library lacks the symbol.
 * Before that call nothing happens at all, so that compilers and shells that inherit the preload do
 * not notice it.
 *
 *     trampoline ─ slot ─┬─ real function            calls that do not concern us
 *                        └─ wrapper ─ pool.h ─ real   launches, copies, memory (wrap.h, *.c here);
 *                                                     calls made once more with memory that the
 *                                                     pool gave back (retry.c, host.c)
 *
 * A wrapper passes its arguments on unchanged, whatever they are, unless the pool is open and they
 * concern it: errors stay the driver's. cuGetProcAddress hands out slots too (entry.c). With
 * VRAMPOOL=0 no wrapper is put in, and the library is one jump thick.
 *
 * What would escape a preload, libcuda by another of its names or by its path, is caught by our own
 * dlopen (dlopen.c). What does escape: dlmopen into another namespace. */
#ifndef SHIM_SHIM_H
#define SHIM_SHIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/rank.h"
#include "driver/driver.h"
#include "pool/pool.h"
#include "symbols.h"

enum shim_symbol {
#define SHIM_SYMBOL_ENUM(name) SHIM_##name,
    SHIM_SYMBOLS(SHIM_SYMBOL_ENUM)
#undef SHIM_SYMBOL_ENUM
        SHIM_COUNT
};

/* ---- load.c ---- */

/* The real library's functions; NULL where it lacks one. Written once, before any slot leads away
 * from the resolver. */
extern void *shim_reals[SHIM_COUNT] __attribute__((visibility("hidden")));

/* What the trampolines jump to (in trampolines.S). */
extern _Atomic(void *) shim_slots[SHIM_COUNT] __attribute__((visibility("hidden")));

/* Loads the real library unless that is done, and returns the symbol's slot. Called by the
 * resolver. */
void *shim_load(unsigned symbol);

/* The symbol's number; -1: not one of the driver's. */
int shim_symbol_find(const char *name);
const char *shim_symbol_name(int symbol);

/* One wrapper: the function that takes the symbol's place, and the first CUDA version whose
 * cuGetProcAddress answers with that symbol. Tables end with a NULL function. */
struct shim_wrap {
    enum shim_symbol symbol;
    int since;
    void *function;
};
extern const struct shim_wrap shim_entry_wraps[], shim_device_wraps[], shim_memory_wraps[],
    shim_launch_wraps[], shim_graph_wraps[], shim_copy_wraps[], shim_set_wraps[],
    shim_retry_wraps[], shim_texture_wraps[], shim_vmm_wraps[], shim_host_wraps[];

/* The wrapper of a symbol; NULL: it has none. */
const struct shim_wrap *shim_wrap_find(int symbol);

/* ---- state.c ---- */

/* What the environment says. It is read at the first driver call; a wrong value ends the process.
 */
struct shim_settings {
    bool off;         /* no wrapper is put in: the kill switch, or no pool wanted */
    unsigned visible; /* cards that the program sees, at most: the first ones */
    bool by_rank;     /* the cards follow from `rank`; fitted to the machine by cuInit */
    struct rank rank;
    const char *report; /* where the report goes at exit; NULL: nowhere */
    vp_options options;
};
extern struct shim_settings shim_settings;
extern struct driver shim_driver; /* the calls that the pool makes; filled unless `off` */

void shim_settings_read(void);

/* The pool; NULL: none is open, pass everything on. */
extern _Atomic(vp_pool *) shim_open_pool;
static inline vp_pool *shim_pool(void)
{
    return atomic_load_explicit(&shim_open_pool, memory_order_acquire);
}

/* The pool, opened now if the program has called cuInit and made a context current. */
vp_pool *shim_pool_wanted(void);

/* The driver has been initialised. */
void shim_state_initialised(void);

/* A context is about to be destroyed. Where the pool stands on it, the pool is closed first: report
 * and summary are written, the next allocation opens another. */
void shim_pool_context_ends(CUcontext context);

/* The calling thread has a context. */
bool shim_has_context(void);

/* ---- retry.c ---- */

/* A driver call that may fail for memory:
 *
 *     struct shim_retry retry = {0};
 *     do result = real(...);
 *     while (SHIM_RETRY(&retry, result, "cuFuncLoad", SHIM_ON_CARD, 0));
 *
 * `where` is a card, the current context's (SHIM_ON_CARD), or that and the host (SHIM_ON_HOST);
 * `bytes` what the call needs, 0: not known. Neither is looked at unless the call failed so. */
enum { SHIM_ON_CARD = -1, SHIM_ON_HOST = -2 };
struct shim_retry {
    vp_pool *pool; /* NULL: it has not failed */
    unsigned count;
    struct pool_relief reliefs[2];
};
bool shim_retry_again(struct shim_retry *retry, CUresult result, const char *call, int where,
                      uint64_t bytes);
#define SHIM_RETRY(retry, result, call, where, bytes)                                              \
    (((result) == CUDA_ERROR_OUT_OF_MEMORY || (retry)->pool) &&                                    \
     shim_retry_again(retry, result, call, where, bytes))

/* The card that an allocation is for, or SHIM_ON_HOST. */
int shim_card_of(const CUmemAllocationProp *prop);

/* ---- vmm.c ---- */

/* One handle more to what XLA has at the address; false: nothing. */
bool shim_vmm_retain(CUmemGenericAllocationHandle *handle, CUdeviceptr address);

/* ---- device.c ---- */

/* The card is one that the pool computes on. */
bool shim_computes(CUdevice device);

/* The primary context of a card as the program got it; NULL: it never asked for it. */
CUcontext shim_primary_context(unsigned card);

/* The pool asks for the thread's context at each launch on a default stream. The thread remembers
 * it until it makes a call that may change it; each such call has a wrapper that forgets. */
void shim_context_remember(struct driver *driver); /* from now on the driver's calls do so */
void shim_context_forget(void);
void shim_context_unseen(void); /* from now on it may change without that: nothing is remembered */

#endif
