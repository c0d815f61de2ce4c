/* What a correct program never causes: races, faults, memory that goes under work, leaks. */
#include "emu/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct emu_findings found;

void finding(uint64_t *counter, const char *format, ...)
{
    ++*counter;
    if (found.first[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(found.first, sizeof found.first, format, args);
    va_end(args);
}

/* ---- Races: which bytes each operation in flight has touched ---- */

enum { TOUCHES_MOST = 1 << 16, NAME_BYTES = 64 };

struct touch {
    uint64_t phys_id, start, end;
    int mode;
};

/* Ranges sorted by memory and start; of each mode those that adjoin are one. */
struct touches {
    struct touch *at;
    unsigned count, room;
};

/* Outlives its operation as long as another one runs that ran beside it: what that one touches
 * later may still clash. */
struct flight {
    struct list node;
    char name[NAME_BYTES];
    unsigned stream_id;
    struct context *context;
    uint64_t start_ns, end_ns; /* UINT64_MAX: it still runs */
    struct touches fresh, known;
};

static struct list flights = {&flights, &flights};

struct flight *flight_begin(struct op *op)
{
    struct flight *flight = calloc(1, sizeof *flight);
    assert(flight);
    snprintf(flight->name, sizeof flight->name, "%s", op->name);
    flight->stream_id = op->stream_id;
    flight->context = op->context;
    flight->start_ns = emu.device_ns;
    flight->end_ns = UINT64_MAX;
    list_push_back(&flights, &flight->node);
    return flight;
}

static void add(struct touches *touches, struct touch touch)
{
    if (touches->count == touches->room) {
        touches->room = touches->room ? 2 * touches->room : 16;
        touches->at = realloc(touches->at, touches->room * sizeof *touches->at);
        assert(touches->at);
    }
    touches->at[touches->count++] = touch;
}

/* Kernels walk a few buffers by turns: one of the last touches usually grows. */
void flight_touch(struct flight *flight, uint64_t phys_id, uint64_t offset, uint64_t bytes,
                  int mode)
{
    enum { LOOK_BACK = 8 };
    struct touches *fresh = &flight->fresh;
    for (unsigned back = 1; back <= LOOK_BACK && back <= fresh->count; back++) {
        struct touch *last = &fresh->at[fresh->count - back];
        if (last->phys_id != phys_id || last->mode != mode) continue;
        if (offset < last->start || offset > last->end) continue;
        if (offset + bytes > last->end) last->end = offset + bytes;
        return;
    }
    if (fresh->count + flight->known.count < TOUCHES_MOST)
        add(fresh, (struct touch){phys_id, offset, offset + bytes, mode});
    else
        found.untracked++;
}

static int compare(const void *a, const void *b)
{
    const struct touch *x = a, *y = b;
    if (x->phys_id != y->phys_id) return x->phys_id < y->phys_id ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->mode > y->mode) - (x->mode < y->mode);
}

static void sort(struct touches *touches)
{
    if (touches->count > 1) qsort(touches->at, touches->count, sizeof *touches->at, compare);
    unsigned kept = 0;
    for (unsigned i = 0; i < touches->count; i++) {
        struct touch *last = kept ? &touches->at[kept - 1] : NULL, next = touches->at[i];
        if (last && last->phys_id == next.phys_id && last->mode == next.mode &&
            next.start <= last->end) {
            if (next.end > last->end) last->end = next.end;
        } else {
            touches->at[kept++] = next;
        }
    }
    touches->count = kept;
}

static bool clash(const struct touch *a, const struct touch *b)
{
    return a->phys_id == b->phys_id && a->start < b->end && b->start < a->end &&
           ((a->mode | b->mode) & EMU_WRITE) && !(a->mode == EMU_ATOMIC && b->mode == EMU_ATOMIC);
}

static void report_clash(const struct flight *a, const struct flight *b, const struct touch *touch)
{
    finding(&found.conflicts,
            "conflict at %llu ns: %s in stream %u, running since %llu ns, and %s in stream %u, "
            "running since %llu ns, both touch bytes %llu to %llu of %s %llu, one of them writing",
            (unsigned long long)emu.device_ns, a->name, a->stream_id,
            (unsigned long long)a->start_ns, b->name, b->stream_id, (unsigned long long)b->start_ns,
            (unsigned long long)touch->start, (unsigned long long)touch->end - 1,
            touch->phys_id ? "memory" : "host memory", (unsigned long long)touch->phys_id);
}

/* One finding a pair of operations and check. Ranges of different modes may overlap within one
 * list, so the scan of the other list starts anew where the first range that can still reach lies.
 */
static void check_pair(const struct flight *flight, const struct flight *other)
{
    const struct touches *fresh = &flight->fresh, *known = &other->known;
    unsigned from = 0;
    for (unsigned i = 0; i < fresh->count; i++) {
        const struct touch *touch = &fresh->at[i];
        while (from < known->count && known->at[from].phys_id < touch->phys_id) from++;
        for (unsigned j = from; j < known->count; j++) {
            const struct touch *seen = &known->at[j];
            if (seen->phys_id != touch->phys_id || seen->start >= touch->end) break;
            if (!clash(touch, seen)) continue;
            report_clash(flight, other, touch);
            return;
        }
    }
}

void flight_check(struct flight *flight)
{
    if (!flight) return;
    struct touches *fresh = &flight->fresh, *known = &flight->known;
    if (fresh->count == 0) return;
    sort(fresh);
    list_each(node, &flights)
    {
        struct flight *other = list_entry(node, struct flight, node);
        if (other != flight && other->end_ns > flight->start_ns) check_pair(flight, other);
    }
    for (unsigned i = 0; i < fresh->count; i++) add(known, fresh->at[i]);
    fresh->count = 0;
    sort(known);
}

static void flight_free(struct flight *flight)
{
    list_remove(&flight->node);
    free(flight->fresh.at);
    free(flight->known.at);
    free(flight);
}

void flight_end(struct flight *flight)
{
    flight_check(flight);
    flight->end_ns = emu.device_ns;
    uint64_t oldest = UINT64_MAX;
    list_each(node, &flights)
    {
        struct flight *other = list_entry(node, struct flight, node);
        if (other->end_ns == UINT64_MAX && other->start_ns < oldest) oldest = other->start_ns;
    }
    list_each_safe(node, &flights)
    {
        struct flight *other = list_entry(node, struct flight, node);
        if (other->end_ns <= oldest) flight_free(other);
    }
}

/* ---- Faults ---- */

void op_fault(struct op *op, uint64_t address, int mode)
{
    op->faulted = true;
    struct mapping *mapping = mapping_at(address);
    if (mapping && is_gone(mapping)) {
        log_info("emulator: %s on card %u touched memory of card %d, which is lost: the context is "
                 "lost, too",
                 op->name, op->card, mapping->phys->place);
        return;
    }
    finding(&found.faults, "fault at %llu ns: %s in stream %u %s 0x%llx on card %u, %s",
            (unsigned long long)emu.device_ns, op->name, op->stream_id,
            mode & EMU_WRITE ? "writes" : "reads", (unsigned long long)address, op->card,
            !mapping ? "where nothing is mapped" : "which has no right to it");
    log_info("emulator: %s touched 0x%llx on card %u without a mapping: the context is lost",
             op->name, (unsigned long long)address, op->card);
}

/* ---- Memory that goes while work uses it ---- */

static bool side_hits(const struct side *side, uint64_t width, uint64_t height, uint64_t depth,
                      uint64_t start, uint64_t end)
{
    uint64_t last = side->address + (depth - 1) * side->slice + (height - 1) * side->pitch + width;
    return side->address < end && start < last;
}

static bool op_hits(const struct op *op, uint64_t start, uint64_t end)
{
    const struct copy *copy = &op->copy;
    const struct set *set = &op->set;
    if (op->kind == OP_COPY)
        return side_hits(&copy->from, copy->width, copy->height, copy->depth, start, end) ||
               side_hits(&copy->to, copy->width, copy->height, copy->depth, start, end);
    if (op->kind == OP_SET) return side_hits(&set->to, set->width, set->height, 1, start, end);
    return false;
}

/* Of a kernel only what it has touched so far is known: its parameters may name memory that is
 * dead. */
static bool flight_hits(const struct flight *flight, uint64_t start, uint64_t end)
{
    for (uint64_t at = start; at < end;) {
        struct mapping *mapping = mapping_at(at);
        if (!mapping) return false;
        for (unsigned i = 0; i < flight->known.count; i++)
            if (flight->known.at[i].phys_id == mapping->phys->id) return true;
        at = mapping->range.end;
    }
    return false;
}

static void context_hits(const struct context *context, uint64_t start, uint64_t end, bool freed)
{
    list_each(node, &context->ops)
    {
        const struct op *op = list_entry(node, struct op, in_context);
        bool used = op_hits(op, start, end);
        if (op->kind == OP_KERNEL && op->flight) used = flight_hits(op->flight, start, end);
        if (!used) continue;
        finding(freed ? &found.frees_in_use : &found.unmaps_in_use,
                "%s in use at %llu ns: 0x%llx to 0x%llx is %s while %s in stream %u, queued at "
                "%llu ns, %s",
                freed ? "free" : "unmap", (unsigned long long)clock_get(),
                (unsigned long long)start, (unsigned long long)end - 1,
                freed ? "freed" : "unmapped", op->name, op->stream_id,
                (unsigned long long)op->submit_ns, op->started ? "runs on it" : "waits to use it");
    }
}

void findings_memory_goes(uint64_t start, uint64_t end, bool freed)
{
    for (const struct context *context = emu.contexts; context; context = context->next)
        context_hits(context, start, end, freed);
}

/* ---- Leaks ---- */

static void lost_handle(void *object)
{
    const struct phys *phys = object;
    finding(&found.lost_handles, "leak: a handle of %llu bytes of place %d was never released",
            (unsigned long long)phys->bytes, phys->place);
}

static void lost_stream(void *object)
{
    const struct stream *stream = object;
    finding(&found.lost_streams, "leak: stream %llu was never destroyed",
            (unsigned long long)stream->id);
}

static void lost_event(void *object)
{
    (void)object;
    finding(&found.lost_events, "leak: an event was never destroyed");
}

static void lost_ranges(void)
{
    for (struct range *r = range_from(emu.mappings, 0); r; r = range_from(emu.mappings, r->end)) {
        const struct mapping *mapping = (struct mapping *)r;
        if (mapping->owner && !mapping->of_module)
            finding(&found.lost_allocations, "leak: %llu bytes at 0x%llx were never freed",
                    (unsigned long long)(r->end - r->start), (unsigned long long)r->start);
        if (!mapping->owner)
            finding(&found.lost_mappings, "leak: %llu bytes at 0x%llx were never unmapped",
                    (unsigned long long)(r->end - r->start), (unsigned long long)r->start);
    }
    for (struct range *r = range_from(emu.reservations, 0); r;
         r = range_from(emu.reservations, r->end))
        if (!((struct reservation *)r)->plain)
            finding(&found.lost_reservations,
                    "leak: the address range 0x%llx of %llu bytes was never "
                    "freed",
                    (unsigned long long)r->start, (unsigned long long)(r->end - r->start));
    for (struct range *r = range_from(emu.host_memories, 0); r;
         r = range_from(emu.host_memories, r->end))
        finding(&found.lost_allocations, "leak: %llu bytes of host memory were never %s",
                (unsigned long long)(r->end - r->start),
                ((struct host_memory *)r)->registered ? "unregistered" : "freed");
}

/* Called before anything is torn down. After a context was lost nobody could have tidied up. */
void findings_close(void)
{
    if (!emu.lossy) {
        handle_each(HANDLE_PHYS, lost_handle);
        handle_each(HANDLE_STREAM, lost_stream);
        handle_each(HANDLE_EVENT, lost_event);
        lost_ranges();
    }
}

void findings_drop(void)
{
    while (!list_empty(&flights)) flight_free(list_entry(flights.next, struct flight, node));
}

void findings_open(void)
{
    memset(&found, 0, sizeof found);
}

struct emu_findings emu_findings(void)
{
    lock_take();
    struct emu_findings copy = found;
    lock_drop();
    return copy;
}

uint64_t emu_findings_count(void)
{
    uint64_t sum = 0;
    lock_take();
#define ADD(name, text) sum += found.name;
    EMU_FINDINGS(ADD)
#undef ADD
    lock_drop();
    return sum;
}
