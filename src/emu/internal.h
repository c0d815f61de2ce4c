/* The emulator's own state, shared by its files and nobody else.
 *
 * Everything hangs off the one `struct emulator emu`, guarded by emu.lock. An operation (struct op)
 * is one node of a graph of what must come first: it becomes ready when its predecessors are done
 * and its submission's time has come, runs for a duration during which its pieces take effect, and
 * ends. All that happens on the device is an event in one heap ordered by virtual time.
 *
 *     call → op_submit → [waits for predecessors] → TIME_START → pieces → done → successors
 *
 * Which file does what: range.c address sets; engine.c time and operations; link.c engines, links,
 * and what of them is lost; memory.c physical memory and allocations; map.c reservations, mappings,
 * translation; copy.c copies and memsets; transfer.c their calls; module.c and ptx.c modules;
 * kernel.c launches; stream.c streams and events; capture.c stream capture; graph.c graphs;
 * device.c devices and contexts; pointer.c attributes; findings.c races and leaks; export.c the
 * exported symbols; control.c emu.h. */
#ifndef EMU_INTERNAL_H
#define EMU_INTERNAL_H

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "base/units.h"
#include "emu/abi_more.h"
#include "emu/calls.h"
#include "emu/emu.h"
#include "emu/range.h"
#include "machine/route.h"

/* clang-format off */
#define EMU_DECLARE(kind, variant, symbol, base, version, arguments, names) \
    CUresult symbol arguments; \
    CUresult do_##symbol arguments;
EMU_CALLS(EMU_DECLARE)
#undef EMU_DECLARE
/* clang-format on */

enum call {
#define EMU_CALL_ENUM(kind, variant, symbol, base, version, arguments, names) CALL_##symbol,
    EMU_CALLS(EMU_CALL_ENUM)
#undef EMU_CALL_ENUM
        CALL_COUNT
};
enum call_kind { CALL_FREE, CALL_INIT, CALL_LIVE, CALL_CTX, CALL_VMM };

/* ---- Handles ---- */

/* What programs hold. Never pointers: a stale or made-up one is an error, not a crash. */

enum handle_kind {
    HANDLE_CONTEXT = 1,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_PHYS,
    HANDLE_MODULE,
    HANDLE_FUNCTION,
    HANDLE_GRAPH,
    HANDLE_EXEC,
    HANDLE_NODE
};

uint64_t handle_new(enum handle_kind kind, void *object);
void *handle_get(enum handle_kind kind, uint64_t handle); /* NULL: no such handle */
void handle_free(uint64_t handle);
/* Calls `visit` for each live object of a kind. */
void handle_each(enum handle_kind kind, void (*visit)(void *object));

#define HANDLE_OF(type, object) ((type)(uintptr_t)(object)->handle)

/* ---- Memory ---- */

enum {
    EMU_PAGE_BYTES = 2 << 20
}; /* contents are kept in pages of at most this, made when first touched */

/* Physical memory. Lives while it has a reference or a mapping. */
struct phys {
    uint64_t handle; /* 0: an allocation, not a handle of its own */
    uint64_t id;     /* for findings; never used twice */
    uint64_t bytes;
    int place;
    bool in_slab; /* a small allocation, which shares a granule with others */
    unsigned references, mappings;
    CUmemAllocationProp prop;
    unsigned char **pages;
};

/* An address range taken: by cuMemAddressReserve, or by an allocation. */
struct reservation {
    struct range range;
    bool plain; /* an allocation's */
};

struct mapping {
    struct range range;
    struct phys *phys;
    uint64_t serial;              /* grows with each mapping made */
    struct context *owner;        /* of an allocation; NULL for cuMemMap */
    uint64_t asked_bytes;         /* of an allocation: what was asked for */
    bool async;                   /* from cuMemAllocAsync */
    bool of_module;               /* a module's variable */
    uint8_t rights[VP_MAX_CARDS]; /* CU_MEM_ACCESS_FLAGS_PROT_*, for cuMemMap */
};

/* Pinned host memory. */
struct host_memory {
    struct range range;
    bool registered; /* by cuMemHostRegister: the memory is the program's own */
    unsigned flags;
    uint64_t mapped_bytes;
    struct context *owner;
};

/* Something [address, address + bytes) translates to, as far as it is contiguous in host memory. */
struct spot {
    unsigned char *at;
    size_t bytes;
    uint64_t phys_id, offset; /* host memory: 0 and the address */
    int place;
    struct mapping *mapping; /* NULL for host memory */
};

enum translate {
    TRANSLATE_KERNEL,
    TRANSLATE_COPY,
    TRANSLATE_PEEK
}; /* whose rights are asked for */

struct phys *phys_new(int place, uint64_t bytes, bool in_slab, CUresult *error);
void phys_unref(struct phys *phys); /* frees it once nothing refers to it */
unsigned char *phys_at(struct phys *phys, uint64_t offset, uint64_t *contiguous);
uint64_t place_used(int place);
bool place_fits(int place, uint64_t bytes);

bool spot_find(uint64_t address, uint64_t bytes, unsigned card, int mode, enum translate how,
               struct spot *spot);
bool address_is_device(uint64_t address);
struct mapping *mapping_at(uint64_t address);
struct mapping *mapping_add(uint64_t address, uint64_t bytes, struct phys *phys);
void mapping_remove(struct mapping *mapping);
struct reservation *reservation_new(uint64_t bytes, uint64_t alignment, uint64_t hint, bool plain);
void reservation_free(struct reservation *reservation);
bool is_open(const struct mapping *mapping);
bool is_gone(const struct mapping *mapping); /* memory of a card that is lost */
bool right_of(const struct mapping *mapping, unsigned card, int mode);
struct host_memory *host_memory_at(uint64_t address);
CUresult memory_alloc(struct context *context, uint64_t bytes, bool async, CUdeviceptr *address);
void memory_free(struct mapping *mapping);
void memory_close(void);
void map_close(void);

/* ---- Contexts, streams, events ---- */

struct context {
    uint64_t handle, id;
    unsigned card, flags;
    bool primary;
    unsigned retains;
    CUresult lost; /* CUDA_SUCCESS, or what every call returns from now on */
    struct stream *legacy;
    struct list streams;  /* all, the legacy one and per-thread ones too */
    struct list ops;      /* not done, in order of submission */
    struct context *next; /* of all there are */
};

struct stream {
    uint64_t handle, id;
    struct context *context;
    struct list node;
    unsigned flags;
    int priority;
    bool legacy, per_thread;
    uint64_t thread; /* whose, if per_thread */
    struct op *last; /* NULL: nothing queued or running. Holds a reference. */
    struct capture *capture;
    struct node_set *tail; /* while capturing: what its next node depends on; owned */
};

struct event {
    uint64_t handle;
    unsigned flags;
    struct context *context;
    struct op *record;         /* NULL: never recorded. Holds a reference. */
    struct node_set *captured; /* last recorded while capturing: what waiting depends on; owned */
    uint64_t capture_id;
};

/* The thread that calls. */
enum { EMU_CONTEXT_STACK = 16 };
struct host_thread {
    uint64_t clock_ns;
    uint64_t
        stack[EMU_CONTEXT_STACK]; /* handles: another thread may destroy what is current here */
    unsigned depth;
    int capture_mode;
    uint64_t epoch, index;
};

struct context *context_current(void);
struct stream *stream_find(CUstream stream); /* as a call names it: also NULL, legacy, per-thread */
struct stream *stream_new(struct context *context, unsigned flags, int priority);
void stream_release(struct stream *stream);
void event_release(struct event *event);
void context_lose(struct context *context, CUresult error);
void device_close(void);
bool card_is_valid(CUdevice device);
uint64_t cards_hash(void);

/* ---- Operations ---- */

enum op_kind {
    OP_KERNEL,
    OP_COPY,
    OP_SET,
    OP_RECORD,
    OP_NOTHING,
    OP_HOST,
    OP_CALLBACK,
    OP_WRITE_VALUE,
    OP_WAIT_VALUE,
    OP_FREE
};
enum { OP_PIECES = 6 };

/* A copy's claim on one direction of a link, or of a card's path to the host. */
struct claim {
    uint16_t way;
    double share; /* of it, at the copy's full rate */
};

/* One side of a copy: rows of width bytes, pitch apart; slices of rows, slice bytes apart. */
struct side {
    uint64_t address;
    uint64_t pitch, slice;
};

struct copy {
    struct side from, to;
    uint64_t width, height, depth;
    unsigned char *staged; /* the source's bytes taken at the call; owned */
};

struct set {
    struct side to;
    uint64_t width, height; /* bytes, rows */
    uint32_t value;
    unsigned value_bytes; /* 1, 2 or 4 */
};

struct launch {
    struct function *function;
    unsigned grid[3], block[3], shared_bytes;
    unsigned char *params; /* owned */
    size_t params_bytes;
};

struct op {
    uint64_t id;
    enum op_kind kind;
    const char *name;
    unsigned references;
    bool ready, started, done, faulted;
    bool torn; /* may read what others are writing */
    struct context *context;
    unsigned card, stream_id;
    struct list in_context;
    unsigned waits_for; /* predecessors not done */
    struct op **successors;
    unsigned successor_count, successor_room;
    uint64_t submit_ns, start_ns, end_ns;

    /* Progress while running: `progress` of 1 was reached at `updated_ns`, growing by `rate` a ns.
     */
    double progress, rate, alone_rate, both_rate;
    double share; /* what others that share its links leave of that rate */
    uint64_t updated_ns;
    unsigned generation; /* of the event that is awaited; older ones are void */
    unsigned pieces, next_piece;
    double piece_at[OP_PIECES];
    uint64_t piece_first[OP_PIECES], piece_last[OP_PIECES]; /* bytes or blocks */

    struct engine *engine; /* NULL: none needed, or it has not started */
    struct op *engine_next;
    int from, to; /* places that a copy goes between, for the most part */
    double gbps;  /* of the path between them when its rates were set */
    struct claim claims[ROUTE_MAX_LINKS];
    unsigned claim_count;
    bool to_host; /* a copy from a card to the host: map calls are dearer meanwhile */

    struct flight *flight;
    union {
        struct copy copy;
        struct set set;
        struct launch launch;
        struct {
            CUhostFn function;
            emu_stream_callback callback;
            CUstream stream;
            void *data;
        } host;
        struct {
            uint64_t address, value;
            unsigned bytes, flags;
        } word;
        uint64_t address; /* to free */
    };
};

struct op *op_new(struct context *context, enum op_kind kind, const char *name);
void op_ref(struct op *op);
void op_unref(struct op *op);
void op_after(struct op *op, struct op *first); /* op waits for first; first may be NULL or done */
void op_launch(struct op *op);                  /* all its predecessors are named: it may start */
CUresult op_submit(struct stream *stream,
                   struct op *op); /* in stream order; takes over the reference */
CUresult op_wait(struct op *op);   /* lets time pass until it is done; op may be NULL */
bool op_is_done(struct op *op);    /* for queries: lets time jump if free running */
void op_free_payload(struct op *op);
bool stream_is_idle(struct stream *stream);

/* What running an operation means, by kind. */
void copy_start(struct op *op);
void set_start(struct op *op);
/* A launch or copy as asked for; the launch owns its parameters. */
CUresult launch_make(CUfunction function, void **params, void **extra, struct launch *launch);
CUresult copy_make(const CUDA_MEMCPY3D *asked, struct copy *copy);
/* All of so many rows and slices is mapped and open, or some host memory. */
bool side_is_memory(const struct side *side, uint64_t width, uint64_t height, uint64_t depth);

void kernel_start(struct op *op);
void op_run_timed(struct op *op, double alone_ns, double both_ns); /* pieces are set */
void copy_piece(struct op *op, uint64_t first, uint64_t last);
void set_piece(struct op *op, uint64_t first, uint64_t last);
void kernel_piece(struct op *op, uint64_t first, uint64_t last);
void op_cut(struct op *op, uint64_t total, bool by_progress);
void op_fault(struct op *op, uint64_t address, int mode);
bool word_condition(const struct op *op);
void word_write(struct op *op);

/* ---- Time ---- */

enum time_event { TIME_START, TIME_PIECE, TIME_ACCESS };
struct access_change; /* a cuMemSetAccess on its way */

uint64_t clock_get(void);
void clock_set(uint64_t ns); /* never backwards */
void charge(struct machine_call_cost cost, uint64_t bytes);
void charge_locked(struct machine_call_cost cost, uint64_t bytes); /* under the context lock */
void time_push(uint64_t at_ns, enum time_event what, void *object, unsigned generation);
bool time_step(void); /* the next event; false: none */
void time_run_until(uint64_t at_ns);
bool time_next(uint64_t *at_ns);
void time_unpark(void);
void time_jump(void);
void access_apply(struct access_change *change);
void op_rate(struct op *op, double rate); /* of a running operation, from now on */
void time_close(void);
struct random *emu_random(void);

/* ---- Links ---- */

void links_open(void);
void engine_enter(struct op *op); /* op->from, to: it runs now or once its turn comes */
void engine_leave(struct op *op);
bool loss_step(uint64_t at_ns); /* the next loss, if it comes by then */
bool losses_parse(const char *text);

/* ---- Findings ---- */

struct flight *flight_begin(struct op *op);
void flight_touch(struct flight *flight, uint64_t phys_id, uint64_t offset, uint64_t bytes,
                  int mode);
void flight_check(
    struct flight *flight); /* compares what was touched since the last check with others */
void flight_end(struct flight *flight);
void finding(uint64_t *counter, const char *format, ...) __attribute__((format(printf, 2, 3)));
void findings_memory_goes(uint64_t start, uint64_t end, bool freed);
void findings_open(void);
void findings_close(void);
void findings_drop(void);

/* ---- Modules ---- */

struct function {
    uint64_t handle;
    struct module *module;
    char *name;
    unsigned param_count;
    struct {
        uint32_t offset, bytes;
    } * params;
    size_t params_bytes;
    emu_kernel_fn run;
    emu_cost_fn cost;
};

bool function_bind(struct function *function);

/* digest_kernel.c */
enum { DIGEST_KERNEL_BASE_NS = 2000 };
void digest_kernel_run(struct emu_block *b);
uint64_t digest_kernel_cost(struct emu_block *b);
void module_close(void);

/* ---- Capture ---- */

bool capture_takes(struct stream *stream, struct op *op, CUresult *result);
CUresult capture_forbids(void); /* for calls that may not be made while the thread captures */
CUresult capture_waits(struct stream *stream, struct event *event);
CUresult capture_records(struct stream *stream, struct event *event);
CUresult capture_synchronize(struct stream *stream); /* for calls that would wait for the stream */
void capture_abandon(struct stream *stream);         /* the stream goes while it captures */
void capture_event_clear(struct event *event);
void capture_close(void);
void graph_close(void); /* after capture_close, which takes graphs along */

/* ---- The whole ---- */

/* Each pair of places has an engine, which does one copy at a time. */
struct engine {
    struct op *running, *first, **last; /* queue of copies that wait for it */
};

enum { EMU_MAX_LOSSES = 32 };
struct loss {
    uint64_t at_ns;
    enum { LOSE_LANES, LOSE_LINK, LOSE_RELAY, LOSE_CARD } what;
    unsigned a, b, lanes;
};

struct heap_entry {
    uint64_t at_ns, sequence;
    enum time_event what;
    unsigned generation;
    void *object;
};

struct emulator {
    pthread_mutex_t lock;
    pthread_cond_t called_back; /* a host function has returned */
    bool open, initialized;
    uint64_t epoch;
    struct emu_options options;
    struct machine machine;
    uint64_t cards_hash; /* what its cards are known by */
    struct random random;

    struct host_thread threads[EMU_MAX_THREADS];
    unsigned thread; /* the current one */
    uint64_t common_clock_ns, device_ns, lock_free_ns, thread_count;

    struct heap_entry *heap;
    size_t heap_count, heap_room;
    uint64_t sequence, next_op, next_phys, next_mapping, next_context, next_stream;
    struct engine engines[VP_MAX_CARDS + 1][VP_MAX_CARDS + 1]; /* [from][to] */
    struct op *flows[(VP_MAX_CARDS + 1) * VP_MAX_CARDS];       /* copies that run on engines */
    unsigned flow_count;
    struct route routes[VP_MAX_CARDS][VP_MAX_CARDS];
    struct loss losses[EMU_MAX_LOSSES]; /* to come, soonest first */
    unsigned loss_count;
    unsigned to_host_queued[VP_MAX_CARDS];
    struct op *parked;                      /* waits for a value that is not there yet */
    struct op *callbacks, **callbacks_last; /* host functions to be called, free running only */
    unsigned callbacks_running;

    struct range *reservations, *mappings, *host_memories;
    uint64_t address_cursor, map_generation;
    uint64_t used_bytes[VP_MAX_CARDS + 1], slab_bytes[VP_MAX_CARDS + 1];
    bool peer[VP_MAX_CARDS][VP_MAX_CARDS]; /* [who][whose memory] */
    struct context *contexts;
    struct context *primary[VP_MAX_CARDS];
    bool card_lost[VP_MAX_CARDS];
    uint64_t pool_bytes[VP_MAX_CARDS], pool_peak_bytes[VP_MAX_CARDS]; /* from cuMemAllocAsync */
    bool lossy; /* some context was lost: leaks are not the program's fault */

    uint64_t calls[CALL_COUNT], failed[CALL_COUNT], fail_in[CALL_COUNT];
    CUresult fail_with[CALL_COUNT];
    bool allow_torn_reads;
    unsigned char *scratch; /* what a faulting kernel, or one without data, reads and writes */
};

enum { EMU_SCRATCH_BYTES = 1 << 20 };

extern struct emulator emu;
extern _Thread_local bool
    emu_in_callback; /* this thread runs a host function: it may call no driver */

struct host_thread *thread_get(void);

/* Every exported function goes through these. call_enter takes the lock, also where it refuses. */
CUresult call_enter(enum call call, enum call_kind kind);
void call_leave(void);
void lock_take(void);
void lock_drop(void);
bool per_thread_default(void); /* whether NULL means the per-thread stream in this call */
const char *call_name(enum call call);

#endif
