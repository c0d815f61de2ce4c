/* pool: everything put together. What the shim, and vrampool.h, call.
 *
 * One operation (a launch, a copy, a memset) goes: pool_op_begin, then pool_op_touch* for all that
 * it may touch, then pool_op_enter, which returns when the operation may go to the driver; then the
 * driver call; then pool_op_leave. Between enter and leave the touched chunks stay where they are.
 *
 *     struct pool_op op;
 *     pool_op_begin(&op, pool, POOL_COPY, stream, "cuMemcpyDtoDAsync_v2");
 *     pool_op_touch_range(&op, to, bytes);
 *     pool_op_touch_range(&op, from, bytes);
 *     CUresult result = pool_op_enter(&op);
 *     if (result == CUDA_SUCCESS) result = real(to, from, bytes, stream);
 *     return pool_op_leave(&op, result);
 *
 * All of it may be called from any thread; an operation belongs to the thread that began it. */
#ifndef POOL_POOL_H
#define POOL_POOL_H

#include <stdbool.h>

#include "driver/driver.h"
#include "move/move.h"
#include "params/params.h"
#include "vrampool.h"

enum pool_op_kind { POOL_KERNEL, POOL_COPY, POOL_MEMSET, POOL_GRAPH };

/* On the caller's stack; the lists behind it belong to the thread. */
struct pool_op {
    vp_pool *pool;
    enum pool_op_kind kind;
    CUstream stream;  /* CU_STREAM_PER_THREAD for NULL in a per-thread-default-stream call */
    const char *name; /* of the copy or memset; a kernel's is in `function` */
    void *handle;     /* the CUfunction or CUkernel, NULL otherwise */
    uint64_t shape;   /* hash of the launch's dimensions; 0: not known */
    struct param_function *function;
    void *const *params, *const *extra;
    uint32_t host_count;  /* pieces of host memory it copies that hold addresses of the pool */
    uint32_t word_count;  /* addresses and ranges named so far */
    bool has_ranges;      /* some of them are ranges */
    bool keeps;           /* not run, but kept within reach */
    uint32_t slot;        /* of the stream */
    uint64_t sequence;    /* its number in the stream; 0: nothing in the pool is touched */
    bool unclear;         /* may touch anything: runs alone */
    struct vet_slot *vet; /* where what it wrote is looked at, if it runs alone */
    uint64_t tables;      /* state of the tables when it was looked what it touches */
    struct measure_sample *sample; /* where its time is taken, if it is */
    bool verifying;                /* holds the lock of verify mode */
    uint64_t patience_ns;          /* how long it may be held; 0: until it can run */
    bool overflown;                /* more addresses than can be kept */
    struct pool_thread *thread;
    struct move_request request;
};

/* Opens a pool over a loaded driver table that outlives it. The calling thread has called cuInit;
 * contexts of the cards are retained as needed. Otherwise like vp_open. */
vp_status pool_open(const struct driver *driver, const vp_options *options,
                    vp_pool **pool) VP_MUST_USE;

void pool_op_begin(struct pool_op *op, vp_pool *pool, enum pool_op_kind kind, CUstream stream,
                   const char *name);

/* The operation may touch the block at `address` (anything outside the pool is ignored). */
void pool_op_touch(struct pool_op *op, CUdeviceptr address);
void pool_op_touch_range(struct pool_op *op, CUdeviceptr address, uint64_t bytes);

/* A kernel: finds the function's parameter layout and touches whatever its parameters, or the
 * buffer in `extra`, name. Reads the parameter memory, which the program must have given right, as
 * for the driver. */
void pool_op_touch_params(struct pool_op *op, void *function, void **params, void **extra);

/* A copy from host memory, or one row of it: looks through the bytes for addresses of the pool that
 * the destination will then hold, be that memory of the pool or not. */
void pool_op_scan_host(struct pool_op *op, CUdeviceptr to, const void *from, uint64_t bytes);

/* Nothing is known about what the operation may touch: it runs with no move in flight. */
void pool_op_touch_anything(struct pool_op *op);

/* Waits until the operation may be handed to the driver. CUDA_ERROR_OUT_OF_MEMORY where what it
 * needs cannot be made reachable (logged with numbers); the caller then returns that error and
 * still calls pool_op_leave. */
CUresult pool_op_enter(struct pool_op *op);

/* The driver call has returned `result`; returns what the program is to be told. */
CUresult pool_op_leave(struct pool_op *op, CUresult result);

/* Memory calls as the program makes them; errors are the driver's. pool_mem_free and pool_mem_range
 * return CUDA_ERROR_NOT_FOUND where the address is not the pool's: then it is the driver's
 * business. */
CUresult pool_mem_alloc(vp_pool *pool, CUdeviceptr *address, size_t bytes);
CUresult pool_mem_free(vp_pool *pool, CUdeviceptr address);
CUresult pool_mem_info(vp_pool *pool, size_t *free_bytes, size_t *total_bytes);
struct pool_range {
    CUdeviceptr base;
    size_t bytes;
    uint64_t number; /* of the block: no other one in this process ever has the same */
    unsigned card;
};
CUresult pool_mem_range(vp_pool *pool, CUdeviceptr address, struct pool_range *range);
bool pool_owns(const vp_pool *pool, CUdeviceptr address);
uint64_t pool_card_bytes(const vp_pool *pool, unsigned card); /* what cuDeviceTotalMem is to say */

/* A driver call of the program's failed for memory of a card, or of the host: gives frames of that
 * place back to the driver, reserve frames first, then those of chunks that can leave, without
 * breaking what is promised. `bytes`: what the call needs; 0: not known. False: there is nothing to
 * give. Else the call is made once more, and pool_relief_ends told how it went: what the driver
 * then has left is the pool's again. Waits for copies; not to be called between pool_op_enter and
 * _leave. */
enum { POOL_HOST = VP_MAX_CARDS };
struct pool_relief {
    unsigned place;
    uint64_t unmade_pages, given_pages;
};
bool pool_relieve(vp_pool *pool, unsigned card, uint64_t bytes, struct pool_relief *relief);
void pool_relief_ends(vp_pool *pool, struct pool_relief *relief, bool helped);

/* What the operation names will be used without passing through us: it is brought within reach, and
 * stays mapped where it then is until `owner` ends. In place of pool_op_enter and _leave; a
 * POOL_GRAPH operation. Errors as of pool_op_enter. */
CUresult pool_op_keep(struct pool_op *op, const void *owner);

/* `to` keeps what `from` keeps, too; in its place. An owner keeps something; an owner ends. */
void pool_keeper_copies(vp_pool *pool, const void *to, const void *from);
void pool_keeper_moves(vp_pool *pool, const void *to, const void *from);
bool pool_keeper_exists(vp_pool *pool, const void *owner);
void pool_keeper_ends(vp_pool *pool, const void *owner);

/* Streams and contexts come to an end (called before the driver's call); captures begin and end.
 * What was captured is kept by `graph` from then on; NULL: there is none. */
void pool_stream_ends(vp_pool *pool, CUstream stream);
void pool_context_ends(vp_pool *pool, CUcontext context);
void pool_capture_begins(vp_pool *pool, CUstream stream);
void pool_capture_ends(vp_pool *pool, CUstream stream, const void *graph);

/* A module or library is about to be unloaded: its function handles may come to mean other
 * functions. */
void pool_functions_end(vp_pool *pool);

/* At exit, where the driver may be shutting down: what is recorded and the timeline go to their
 * files, and the line with peaks and moved bytes to stderr. */
void pool_flush_files(vp_pool *pool);
void pool_log_summary(vp_pool *pool);

#endif
