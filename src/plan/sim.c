#include "plan/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

enum {
    QUEUE = 64,
    IN_DEPTH = 3, /* chunks mapped for each way in, the one that is copied included; */
    THREADS = 4,
    MIN_STEPS = 3,
    MEAN_STEPS = 4,
    SIZES = 64,
};
static const uint64_t in_depth_bytes = 128 * MIB; /* of them, at most, if that is more than one */
#define NEVER UINT64_MAX

/* Bytes on their way over a link. */
struct flow {
    double left, rate;  /* bytes, and bytes a ns */
    uint64_t delay_end; /* nothing flows before */
    uint64_t start;
    bool active;
    struct executor_action action;
};

/* Each refuge's: a way in and a way out, and what the running op does in place over them. */
enum { FLOW_IN, FLOW_OUT, FLOW_READ, FLOW_WRITE, FLOWS };
_Static_assert(FLOWS *PLAN_REFUGES <= 64, "a bit for each flow");

/* A thread that works on one action at a time. */
struct thread {
    uint64_t end; /* NEVER: idle */
    struct executor_action action;
};

struct queue {
    struct executor_action actions[QUEUE];
    uint32_t first, count;
};

/* Frames by size: free ones, and what is not made into frames. */
struct frames {
    uint64_t bytes[SIZES], free[SIZES];
    uint32_t sizes;
    uint64_t unmade_bytes;
};

struct device {
    bool running; /* the op `done` */
    uint64_t end; /* of its time in HBM, once what it does in place is over; NEVER before */
    uint64_t start;
    uint64_t idle_since;
};

struct sim {
    const struct sim_task *task;
    const struct shape *shape;
    const struct plan_costs *costs;
    const struct sim_watch *watch; /* set in the last step */
    struct executor executor;
    struct device device;
    struct flow flow[PLAN_REFUGES][FLOWS];
    uint64_t flowing; /* bits: the flows for which rates were set last */
    struct thread threads[THREADS];
    uint32_t fetching[PLAN_REFUGES];    /* being mapped; */
    struct queue to_copy[PLAN_REFUGES]; /* mapped, waiting for the way in */
    struct queue to_unmap;              /* copied out */
    struct frames frames;
    uint64_t *read_bytes, *write_bytes; /* of each op position and refuge, in place */
    uint64_t now, step_start, events;
    struct sim_result step; /* of the step that runs */
};

const char *sim_stall_name(enum sim_stall stall)
{
    static const char *const names[] = {
#define NAME(name, words) #name,
        SIM_STALLS(NAME)
#undef NAME
    };
    return names[stall];
}

const char *sim_stall_words(enum sim_stall stall)
{
    static const char *const texts[] = {
#define WORDS(name, words) words,
        SIM_STALLS(WORDS)
#undef WORDS
    };
    return texts[stall];
}

static void push(struct queue *queue, const struct executor_action *action)
{
    assert(queue->count < QUEUE);
    queue->actions[(queue->first + queue->count++) % QUEUE] = *action;
}

static struct executor_action pop(struct queue *queue)
{
    assert(queue->count > 0);
    struct executor_action action = queue->actions[queue->first];
    queue->first = (queue->first + 1) % QUEUE;
    queue->count--;
    return action;
}

/* Costs. */

/* Setting access waits for the pieces that are being copied out: for half of one on average; of
 * several, for the one that ends last. */
static uint64_t access_ns(const struct sim *sim, const struct machine_call_cost *cost,
                          uint64_t bytes)
{
    double longest_ns = 0;
    unsigned pieces = 0;
    for (uint32_t i = 0; i < sim->costs->refuges; i++) {
        const struct flow *out = &sim->flow[i][FLOW_OUT];
        if (!out->active || out->rate <= 0) continue;
        uint64_t piece = out->action.bytes < sim->costs->piece_bytes ? out->action.bytes
                                                                     : sim->costs->piece_bytes;
        double piece_ns = (double)piece / sim->costs->refuge[i].out.both_gbps;
        if (piece_ns > longest_ns) longest_ns = piece_ns;
        pieces++;
    }
    return plan_call_ns(cost, bytes) + (uint64_t)(longest_ns * pieces / (pieces + 1));
}

static uint64_t map_ns(const struct sim *sim, uint64_t bytes)
{
    return plan_call_ns(&sim->costs->map, bytes) + access_ns(sim, &sim->costs->access, bytes);
}

static uint32_t size_index(struct frames *frames, uint64_t bytes)
{
    for (uint32_t i = 0; i < frames->sizes; i++)
        if (frames->bytes[i] == bytes) return i;
    if (frames->sizes == SIZES) return SIZES; /* too many to tell apart: made and released */
    frames->bytes[frames->sizes] = bytes;
    frames->free[frames->sizes] = 0;
    return frames->sizes++;
}

/* A frame of this size is taken; the time that making it, and releasing others for it, costs. */
static uint64_t take_frame(struct sim *sim, uint64_t bytes)
{
    struct frames *frames = &sim->frames;
    uint32_t index = size_index(frames, bytes);
    uint64_t ns = 0;
    if (index < SIZES && frames->free[index]) {
        frames->free[index]--;
        return 0;
    }
    for (uint32_t i = frames->sizes; frames->unmade_bytes < bytes && i-- > 0;) {
        while (frames->free[i] && frames->unmade_bytes < bytes) {
            frames->free[i]--;
            frames->unmade_bytes += frames->bytes[i];
            ns += plan_call_ns(&sim->costs->unmap, frames->bytes[i]) +
                  plan_call_ns(&sim->costs->release, frames->bytes[i]);
        }
    }
    assert(frames->unmade_bytes >= bytes);
    frames->unmade_bytes -= bytes;
    return ns + plan_call_ns(&sim->costs->make, bytes) + map_ns(sim, bytes);
}

static void give_frame(struct sim *sim, uint64_t bytes)
{
    uint32_t index = size_index(&sim->frames, bytes);
    if (index < SIZES)
        sim->frames.free[index]++;
    else
        sim->frames.unmade_bytes += bytes;
}

/* Links: on each way one copy at a time, beside what the running op does in place. */

static const struct plan_way *way_of(const struct sim *sim, unsigned number)
{
    const struct plan_refuge *refuge = &sim->costs->refuge[number / FLOWS];
    bool in = number % FLOWS == FLOW_IN || number % FLOWS == FLOW_READ;
    return in ? &refuge->in : &refuge->out;
}

static struct flow *flow_of(struct sim *sim, unsigned number)
{
    return &sim->flow[number / FLOWS][number % FLOWS];
}

/* What all flows together claim of a direction of a link. */
static double claimed(const struct sim *sim, uint64_t flowing, uint32_t link)
{
    double share = 0;
    for (uint64_t left = flowing; left; left &= left - 1) {
        const struct plan_way *way = way_of(sim, (unsigned)__builtin_ctzll(left));
        for (uint32_t i = 0; i < way->claims; i++)
            if (way->claim[i].link == link) share += way->claim[i].share;
    }
    return share;
}

/* All that claim one full link slow down alike. (What they leave of others is not given away.) */
static double rate_of(const struct sim *sim, uint64_t flowing, const struct plan_way *way)
{
    double most = 1;
    bool both = false;
    for (uint32_t i = 0; i < way->claims; i++) {
        double share = claimed(sim, flowing, way->claim[i].link);
        if (share > most) most = share;
        both |= claimed(sim, flowing, way->claim[i].link ^ 1) > 0;
    }
    return (both ? way->both_gbps : way->gbps) / most;
}

static void set_rates(struct sim *sim)
{
    uint64_t flowing = 0;
    unsigned flows = sim->costs->refuges * FLOWS;
    for (unsigned i = 0; i < flows; i++) {
        const struct flow *flow = flow_of(sim, i);
        if (flow->active && flow->delay_end <= sim->now && flow->left > 0) flowing |= 1ull << i;
    }
    if (flowing == sim->flowing) return;
    sim->flowing = flowing;
    for (unsigned i = 0; i < flows; i++)
        flow_of(sim, i)->rate = flowing >> i & 1 ? rate_of(sim, flowing, way_of(sim, i)) : 0;
}

static void start_flow(struct sim *sim, struct flow *flow, const struct executor_action *action,
                       double bytes, uint64_t delay_ns)
{
    assert(!flow->active);
    *flow = (struct flow){
        .left = bytes, .delay_end = sim->now + delay_ns, .start = sim->now, .active = true};
    if (action) flow->action = *action;
    sim->flowing = ~UINT64_C(0); /* its rate is to be set */
}

static uint64_t flow_end(const struct sim *sim, const struct flow *flow)
{
    if (!flow->active) return NEVER;
    if (flow->delay_end > sim->now) return flow->delay_end;
    if (flow->left <= 0) return sim->now;
    return flow->rate > 0 ? sim->now + (uint64_t)(flow->left / flow->rate) + 1 : NEVER;
}

/* The device. */

static void note_wait(struct sim *sim)
{
    const struct executor *executor = &sim->executor;
    if (sim->device.running || sim->now == sim->device.idle_since) return;
    enum sim_stall cause = SIM_STALL_in;
    if (executor->done == executor->launched) {
        enum executor_wait wait = executor_waits(executor);
        cause = wait == EXECUTOR_WAITS_ROOM  ? SIM_STALL_room
                : wait == EXECUTOR_WAITS_MAP ? SIM_STALL_map
                                             : SIM_STALL_in;
    }
    sim->step.stall_ns[cause] += sim->now - sim->device.idle_since;
    sim->device.idle_since = sim->now;
}

static uint32_t op_position(const struct sim *sim)
{
    return (uint32_t)(sim->executor.done % sim->shape->op_count);
}

static bool start_op(struct sim *sim)
{
    struct device *device = &sim->device;
    if (device->running || !executor_can_run(&sim->executor)) return false;
    uint32_t at = op_position(sim);
    device->running = true;
    device->start = sim->now;
    device->end = NEVER;
    bool all = sim->executor.options.mode == EXECUTOR_INPLACE;
    double factor = all ? sim->costs->all_in_place : sim->costs->in_place;
    for (uint32_t i = 0; i < sim->costs->refuges; i++) {
        uint64_t reads = sim->read_bytes[at * sim->costs->refuges + i];
        uint64_t writes = sim->write_bytes[at * sim->costs->refuges + i];
        if (reads) start_flow(sim, &sim->flow[i][FLOW_READ], NULL, (double)reads * factor, 0);
        if (writes) start_flow(sim, &sim->flow[i][FLOW_WRITE], NULL, (double)writes * factor, 0);
        sim->step.traffic[i].in_place_bytes += reads;
        sim->step.in_place_bytes += reads;
    }
    return true;
}

static bool works_in_place(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->costs->refuges; i++)
        if (sim->flow[i][FLOW_READ].active || sim->flow[i][FLOW_WRITE].active) return true;
    return false;
}

/* What the op does in place is over: the rest takes as long as in HBM. */
static bool finish_in_place(struct sim *sim)
{
    struct device *device = &sim->device;
    if (!device->running || device->end != NEVER) return false;
    if (works_in_place(sim)) return false;
    sim->step.stall_ns[SIM_STALL_in_place] += sim->now - device->start;
    device->end = sim->now + sim->shape->ops[op_position(sim)].duration_ns;
    return true;
}

static bool end_op(struct sim *sim)
{
    struct device *device = &sim->device;
    if (!device->running || device->end > sim->now) return false;
    if (sim->watch && sim->watch->ran)
        sim->watch->ran(sim->watch->context, &sim->executor, op_position(sim),
                        device->start - sim->step_start, sim->now - sim->step_start);
    device->running = false;
    device->idle_since = sim->now;
    executor_op_ended(&sim->executor);
    return true;
}

/* How far the host may be ahead of the device. Who evicts on demand learns that a victim is idle
 * from a mark recorded then, behind all that is launched: the device has to catch up first. */
static uint64_t lead_ops(const struct sim *sim)
{
    const struct executor_options *options = &sim->executor.options;
    if (options->mode == EXECUTOR_DEMAND || options->mode == EXECUTOR_LRU) return 1;
    return sim->shape->op_count < options->lead_ops ? sim->shape->op_count : options->lead_ops;
}

/* The host launches what it may. */
static bool launch(struct sim *sim)
{
    struct executor *executor = &sim->executor;
    uint64_t lead = lead_ops(sim);
    bool any = false;
    while (executor->launched - executor->done < lead) {
        uint32_t at = (uint32_t)(executor->launched % sim->shape->op_count);
        if (!executor_launch(executor)) break;
        uint32_t refuges = sim->costs->refuges;
        memcpy(&sim->read_bytes[at * refuges], executor->in_place_read_bytes,
               refuges * sizeof *sim->read_bytes);
        memcpy(&sim->write_bytes[at * refuges], executor->in_place_write_bytes,
               refuges * sizeof *sim->write_bytes);
        any = true;
    }
    return any;
}

/* Threads. */

static void note_swapped(struct sim *sim, const struct executor_action *action)
{
    uint32_t gap = executor_gap(&sim->executor, action->item);
    if (sim->task->swapped && gap != SHAPE_NEVER) sim->task->swapped[gap] = 1;
}

static void note_moved(struct sim *sim, const struct executor_action *action, uint64_t start)
{
    if (!sim->watch || !sim->watch->moved) return;
    uint64_t from = start > sim->step_start ? start - sim->step_start : 0;
    sim->watch->moved(sim->watch->context, action, from, sim->now - sim->step_start);
}

static void end_action(struct sim *sim, const struct executor_action *action)
{
    if (action->kind == EXECUTOR_EVICT || action->kind == EXECUTOR_DROP ||
        action->kind == EXECUTOR_STRIP)
        give_frame(sim, action->bytes);
    executor_ended(&sim->executor, action);
}

static uint64_t action_ns(struct sim *sim, const struct executor_action *action)
{
    const struct plan_costs *costs = sim->costs;
    switch (action->kind) {
    case EXECUTOR_FETCH:
        return take_frame(sim, action->bytes) + map_ns(sim, action->bytes) + costs->queue_ns +
               (sim->executor.items[action->item].host_mapped
                    ? plan_call_ns(&costs->refuge[action->refuge].unmap, action->bytes)
                    : 0);
    case EXECUTOR_READY: return take_frame(sim, action->bytes) + map_ns(sim, action->bytes);
    case EXECUTOR_HOST:
        return plan_call_ns(&costs->map, action->bytes) +
               access_ns(sim, &costs->refuge[action->refuge].access, action->bytes);
    case EXECUTOR_EVICT:
    case EXECUTOR_DROP:
    case EXECUTOR_STRIP: return plan_call_ns(&costs->unmap, action->bytes);
    case EXECUTOR_SAVE: break;
    }
    return 0;
}

static uint64_t begin(struct sim *sim, struct thread *thread, const struct executor_action *action)
{
    uint64_t ns = action_ns(sim, action);
    thread->action = *action;
    thread->end = sim->now + ns;
    return ns;
}

static void end_work(struct sim *sim, struct thread *thread)
{
    struct executor_action action = thread->action;
    thread->end = NEVER;
    if (action.kind != EXECUTOR_FETCH) {
        end_action(sim, &action);
        return;
    }
    executor_queued(&sim->executor, &action);
    sim->fetching[action.refuge]--;
    push(&sim->to_copy[action.refuge], &action);
}

static bool begin_unmap(struct sim *sim, struct thread *thread)
{
    struct executor_action action;
    if (sim->to_unmap.count) {
        action = pop(&sim->to_unmap);
    } else {
        if (!executor_next(&sim->executor, EXECUTOR_REMAP, &action)) return false;
        sim->step.kinds[action.kind]++;
        note_swapped(sim, &action);
    }
    sim->step.unmap_ns += begin(sim, thread, &action);
    return true;
}

static bool begin_fetch(struct sim *sim, struct thread *thread)
{
    struct executor_action action;
    uint32_t busy = 0, depth = (uint32_t)(in_depth_bytes / sim->shape->chunk_bytes);
    if (depth > IN_DEPTH) depth = IN_DEPTH;
    for (uint32_t i = 0; i < sim->costs->refuges; i++) {
        uint32_t mapped = sim->to_copy[i].count + sim->fetching[i] + sim->flow[i][FLOW_IN].active;
        if (mapped && mapped >= depth) busy |= 1u << i;
    }
    executor_set_busy(&sim->executor, EXECUTOR_IN, busy);
    if (!executor_next(&sim->executor, EXECUTOR_IN, &action)) return false;
    sim->step.kinds[action.kind]++;
    sim->fetching[action.refuge]++;
    sim->step.fetch_ns += begin(sim, thread, &action);
    return true;
}

static bool begin_map(struct sim *sim, struct thread *thread)
{
    struct executor_action action;
    if (!executor_next(&sim->executor, EXECUTOR_MAP, &action)) return false;
    sim->step.kinds[action.kind]++;
    sim->step.map_ns += begin(sim, thread, &action);
    return true;
}

/* Any thread does whatever there is; what it looks for first differs. */
static bool work_on_maps(struct sim *sim, unsigned number)
{
    struct thread *thread = &sim->threads[number];
    bool any = thread->end <= sim->now;
    if (any) end_work(sim, thread);
    if (thread->end != NEVER) return any;
    if (number == 0)
        return begin_unmap(sim, thread) || begin_fetch(sim, thread) || begin_map(sim, thread) ||
               any;
    if (number == 1)
        return begin_fetch(sim, thread) || begin_unmap(sim, thread) || begin_map(sim, thread) ||
               any;
    return begin_map(sim, thread) || begin_fetch(sim, thread) || begin_unmap(sim, thread) || any;
}

/* Copies. */

static bool work_on_way_in(struct sim *sim, uint32_t refuge)
{
    struct flow *flow = &sim->flow[refuge][FLOW_IN];
    bool any = false;
    if (flow->active && flow->delay_end <= sim->now && flow->left <= 0) {
        flow->active = false;
        sim->step.in_bytes += flow->action.bytes;
        sim->step.traffic[refuge].in_bytes += flow->action.bytes;
        sim->step.traffic[refuge].in_busy_ns += sim->now - flow->start;
        note_moved(sim, &flow->action, flow->start);
        executor_ended(&sim->executor, &flow->action);
        any = true;
    }
    if (flow->active || sim->to_copy[refuge].count == 0) return any;
    struct executor_action action = pop(&sim->to_copy[refuge]);
    start_flow(sim, flow, &action, (double)action.bytes, sim->costs->refuge[refuge].in.start_ns);
    return true;
}

static void end_copy_out(struct sim *sim, struct flow *flow)
{
    struct executor_action *action = &flow->action;
    flow->active = false;
    sim->step.out_bytes += action->bytes;
    sim->step.traffic[action->refuge].out_bytes += action->bytes;
    sim->step.traffic[action->refuge].out_busy_ns += sim->now - flow->start;
    note_moved(sim, action, flow->start);
    if (action->kind == EXECUTOR_EVICT && executor_copied(&sim->executor, action))
        push(&sim->to_unmap, action);
    else
        executor_ended(&sim->executor, action);
}

static bool end_copies_out(struct sim *sim)
{
    bool any = false;
    for (uint32_t i = 0; i < sim->costs->refuges; i++) {
        struct flow *flow = &sim->flow[i][FLOW_OUT];
        if (!flow->active || flow->delay_end > sim->now || flow->left > 0) continue;
        end_copy_out(sim, flow);
        any = true;
    }
    return any;
}

static bool start_copies_out(struct sim *sim)
{
    struct executor_action action;
    bool any = false;
    uint32_t busy = 0;
    for (uint32_t i = 0; i < sim->costs->refuges; i++)
        if (sim->flow[i][FLOW_OUT].active) busy |= 1u << i;
    while (busy + 1 < UINT64_C(1) << sim->costs->refuges &&
           sim->to_unmap.count + sim->costs->refuges < QUEUE) {
        executor_set_busy(&sim->executor, EXECUTOR_OUT, busy);
        if (!executor_next(&sim->executor, EXECUTOR_OUT, &action)) return any;
        sim->step.kinds[action.kind]++;
        if (action.kind == EXECUTOR_EVICT) note_swapped(sim, &action);
        start_flow(sim, &sim->flow[action.refuge][FLOW_OUT], &action, (double)action.bytes,
                   sim->costs->refuge[action.refuge].out.start_ns);
        busy |= 1u << action.refuge;
        any = true;
    }
    return any;
}

static bool work_in_place(struct sim *sim)
{
    bool any = false;
    for (uint32_t i = 0; i < sim->costs->refuges; i++) {
        for (unsigned k = FLOW_READ; k <= FLOW_WRITE; k++) {
            struct flow *flow = &sim->flow[i][k];
            if (!flow->active || flow->left > 0) continue;
            flow->active = false;
            any = true;
        }
    }
    return any;
}

/* Everything that can happen now happens. */
static void settle(struct sim *sim)
{
    bool any = true;
    while (any) {
        any = work_in_place(sim);
        any |= end_op(sim);
        any |= launch(sim);
        any |= start_op(sim);
        any |= finish_in_place(sim);
        for (uint32_t i = 0; i < sim->costs->refuges; i++) any |= work_on_way_in(sim, i);
        any |= end_copies_out(sim);
        any |= start_copies_out(sim);
        for (unsigned i = 0; i < THREADS; i++) any |= work_on_maps(sim, i);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Moves the clock to the next event; false: there is none. */
static bool advance(struct sim *sim)
{
    uint64_t next = sim->device.running ? sim->device.end : NEVER;
    set_rates(sim);
    for (unsigned i = 0; i < THREADS; i++) next = earlier(next, sim->threads[i].end);
    unsigned flows = sim->costs->refuges * FLOWS;
    for (unsigned i = 0; i < flows; i++) next = earlier(next, flow_end(sim, flow_of(sim, i)));
    if (next == NEVER) return false;
    assert(next >= sim->now);
    double passed = (double)(next - sim->now);
    for (unsigned i = 0; i < flows; i++) {
        struct flow *flow = flow_of(sim, i);
        if (flow->active) flow->left -= flow->rate * passed;
    }
    uint64_t before = sim->now;
    sim->now = next;
    if (next > before) note_wait(sim);
    return true;
}

static void keep_most(uint64_t *most, uint64_t value)
{
    if (value > *most) *most = value;
}

static void note_used(struct sim *sim)
{
    const struct executor *executor = &sim->executor;
    keep_most(&sim->step.used_peak_bytes, executor->used_bytes);
    keep_most(&sim->step.host_peak_bytes, executor_refuge_bytes(executor));
    for (uint32_t i = 0; i < sim->costs->refuges; i++)
        keep_most(&sim->step.refuge_peak_bytes[i], executor->host_used_bytes[i]);
    if (sim->watch && sim->watch->used)
        sim->watch->used(sim->watch->context, sim->now - sim->step_start, executor->used_bytes,
                         executor->ready_bytes);
}

/* Gives up when the step takes longer than `most_ns`. */
static vp_status run_step(struct sim *sim, uint64_t until, uint64_t most_ns)
{
    memset(&sim->step, 0, sizeof sim->step);
    sim->step_start = sim->now;
    if (sim->task->swapped) memset(sim->task->swapped, 0, sim->shape->gap_count);
    uint64_t events = 0, most = 1000ull * (sim->shape->op_count + sim->shape->item_count);
    while (sim->executor.done < until) {
        sim->events++;
        if (events++ > most) return VP_NOT_READY; /* it moves, and gets nowhere */
        if (sim->now - sim->step_start > most_ns) return VP_NOT_READY;
        settle(sim);
        note_used(sim);
        if (sim->executor.done >= until) break;
        if (advance(sim)) continue;
        if (!executor_relent(&sim->executor)) return VP_QUOTA;
    }
    sim->step.step_ns = sim->now - sim->step_start;
    return VP_OK;
}

static bool is_steady(uint64_t now, uint64_t before)
{
    uint64_t apart = now > before ? now - before : before - now;
    return apart * 500 <= before;
}

/* Adds up steps, field by field. */
static void add_result(struct sim_result *sum, const struct sim_result *step)
{
    sum->step_ns += step->step_ns;
    for (unsigned i = 0; i < SIM_STALL_COUNT; i++) sum->stall_ns[i] += step->stall_ns[i];
    for (unsigned i = 0; i <= EXECUTOR_HOST; i++) sum->kinds[i] += step->kinds[i];
    sum->in_bytes += step->in_bytes;
    sum->out_bytes += step->out_bytes;
    sum->in_place_bytes += step->in_place_bytes;
    for (unsigned i = 0; i < PLAN_REFUGES; i++) {
        struct sim_traffic *all = &sum->traffic[i];
        const struct sim_traffic *one = &step->traffic[i];
        all->in_bytes += one->in_bytes;
        all->out_bytes += one->out_bytes;
        all->in_place_bytes += one->in_place_bytes;
        all->in_busy_ns += one->in_busy_ns;
        all->out_busy_ns += one->out_busy_ns;
        keep_most(&sum->refuge_peak_bytes[i], step->refuge_peak_bytes[i]);
    }
    sum->map_ns += step->map_ns;
    sum->unmap_ns += step->unmap_ns;
    sum->fetch_ns += step->fetch_ns;
    sum->held += step->held;
    keep_most(&sum->used_peak_bytes, step->used_peak_bytes);
    keep_most(&sum->host_peak_bytes, step->host_peak_bytes);
}

static void divide_result(struct sim_result *sum, uint64_t count)
{
    sum->step_ns /= count;
    for (unsigned i = 0; i < SIM_STALL_COUNT; i++) sum->stall_ns[i] /= count;
    for (unsigned i = 0; i <= EXECUTOR_HOST; i++) sum->kinds[i] /= count;
    sum->in_bytes /= count;
    sum->out_bytes /= count;
    sum->in_place_bytes /= count;
    for (unsigned i = 0; i < PLAN_REFUGES; i++) {
        struct sim_traffic *all = &sum->traffic[i];
        all->in_bytes /= count;
        all->out_bytes /= count;
        all->in_place_bytes /= count;
        all->in_busy_ns /= count;
        all->out_busy_ns /= count;
    }
    sum->map_ns /= count;
    sum->unmap_ns /= count;
    sum->fetch_ns /= count;
    sum->held /= count;
}

static vp_status run_steps(struct sim *sim, struct sim_result *result)
{
    uint64_t before = 0;
    uint32_t steps = 0;
    vp_status status;
    memset(result, 0, sizeof *result);
    for (; steps < SIM_STEPS; steps++) {
        uint64_t most_ns = sim->task->hopeless_ns && steps > 0 ? sim->task->hopeless_ns : NEVER;
        status = run_step(sim, sim->executor.done + sim->shape->op_count, most_ns);
        if (status != VP_OK) return status;
        bool steady = steps + 1 >= MIN_STEPS && is_steady(sim->step.step_ns, before);
        before = sim->step.step_ns;
        result->each_ns[steps] = before;
        if (steady || steps >= SIM_STEPS - MEAN_STEPS) add_result(result, &sim->step);
        if (steady) break;
    }
    if (steps == SIM_STEPS) divide_result(result, MEAN_STEPS);
    result->steps = steps;
    result->in_hbm_ns = sim->shape->ops[sim->shape->op_count].start_ns;
    if (!sim->task->watch) return VP_OK;
    sim->watch = sim->task->watch;
    return run_step(sim, sim->executor.done + sim->shape->op_count, NEVER);
}

vp_status sim_run(const struct sim_task *task, struct sim_result *result, uint32_t *op)
{
    struct sim *sim = calloc(1, sizeof *sim);
    memset(result, 0, sizeof *result);
    if (!sim) return VP_NO_HOST_MEMORY;
    sim->task = task;
    sim->shape = task->shape;
    sim->costs = task->costs;
    sim->device.end = NEVER;
    for (unsigned i = 0; i < THREADS; i++) sim->threads[i].end = NEVER;
    size_t counts = (size_t)sim->shape->op_count * sim->costs->refuges;
    sim->read_bytes = calloc(counts, sizeof *sim->read_bytes);
    sim->write_bytes = calloc(counts, sizeof *sim->write_bytes);
    vp_status status = VP_NO_HOST_MEMORY;
    if (sim->read_bytes && sim->write_bytes)
        status = executor_create(task->shape, task->options, task->plan, &sim->executor);
    if (status == VP_QUOTA && op) *op = 0; /* what lives all the time does not fit: nothing runs */
    if (status == VP_OK) {
        sim->frames.unmade_bytes = task->options->capacity_bytes - sim->executor.used_bytes;
        status = run_steps(sim, result);
        result->events = sim->events;
        if (status == VP_QUOTA && op) *op = op_position(sim);
        executor_destroy(&sim->executor);
    }
    free(sim->read_bytes);
    free(sim->write_bytes);
    free(sim);
    return status;
}
