#include "plan/prices.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const float unknown = 0.5F, for_nothing = 0.02F, idle = 0.2F;
static const float short_wait_ns = 1000;

vp_status prices_create(uint32_t op_count, struct prices *prices)
{
    size_t bounds = 2 * (size_t)op_count + 1;
    assert(op_count > 0);
    *prices = (struct prices){.in = malloc(op_count * sizeof *prices->in),
                              .out = malloc(op_count * sizeof *prices->out),
                              .op_count = op_count,
                              .bounds_ns = calloc(bounds, sizeof *prices->bounds_ns),
                              .busy = malloc(bounds * sizeof *prices->busy)};
    if (!prices->in || !prices->out || !prices->bounds_ns || !prices->busy) {
        prices_destroy(prices);
        return VP_NO_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < op_count; i++) prices->in[i] = prices->out[i] = unknown;
    return VP_OK;
}

void prices_destroy(struct prices *prices)
{
    free(prices->in);
    free(prices->out);
    free(prices->bounds_ns);
    free(prices->busy);
    free(prices->moves);
    memset(prices, 0, sizeof *prices);
}

/* A new step is watched. */
static void forget(struct prices *prices)
{
    prices->move_count = 0;
    prices->exhausted = prices->over = false;
}

static void note_move(void *context, const struct executor_action *action, uint64_t start_ns,
                      uint64_t end_ns)
{
    struct prices *prices = context;
    if (prices->over) forget(prices);
    if (prices->move_count == prices->move_room && !prices->exhausted) {
        uint32_t room = prices->move_room ? 2 * prices->move_room : 1024;
        struct prices_move *wider = realloc(prices->moves, room * sizeof *wider);
        prices->exhausted = !wider;
        prices->moves = wider ? wider : prices->moves;
        prices->move_room = wider ? room : prices->move_room;
    }
    if (prices->exhausted) return;
    prices->moves[prices->move_count++] =
        (struct prices_move){start_ns, end_ns, action->kind == EXECUTOR_FETCH};
}

static void note_op(void *context, const struct executor *executor, uint32_t op, uint64_t start_ns,
                    uint64_t end_ns)
{
    struct prices *prices = context;
    if (prices->over) forget(prices);
    prices->bounds_ns[2 * op + 1] = start_ns;
    prices->bounds_ns[2 * op + 2] = end_ns;
}

struct sim_watch prices_watch(struct prices *prices)
{
    return (struct sim_watch){.context = prices, .moved = note_move, .ran = note_op};
}

/* The last bound that is not later. */
static uint32_t bound_at(const struct prices *prices, uint64_t time_ns)
{
    uint32_t low = 0, high = 2 * prices->op_count;
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (prices->bounds_ns[middle] <= time_ns)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void find_busy(struct prices *prices, bool in)
{
    const uint64_t *bounds_ns = prices->bounds_ns;
    uint32_t spans = 2 * prices->op_count;
    memset(prices->busy, 0, spans * sizeof *prices->busy);
    for (uint32_t i = 0; i < prices->move_count; i++) {
        const struct prices_move *move = &prices->moves[i];
        if (move->in != in) continue;
        for (uint32_t at = bound_at(prices, move->start_ns);
             at < spans && bounds_ns[at] < move->end_ns; at++) {
            uint64_t from = bounds_ns[at] > move->start_ns ? bounds_ns[at] : move->start_ns;
            uint64_t to = bounds_ns[at + 1] < move->end_ns ? bounds_ns[at + 1] : move->end_ns;
            if (to > from)
                prices->busy[at] += (float)(to - from) / (float)(bounds_ns[at + 1] - bounds_ns[at]);
        }
    }
}

/* Against the order of the ops, twice around: from where the device waits back to the pause. */
static void set_prices(struct prices *prices, bool in, float part)
{
    const uint64_t *bounds_ns = prices->bounds_ns;
    float *price = in ? prices->in : prices->out, wait_ns = 0;
    find_busy(prices, in);
    for (uint32_t turn = 2 * prices->op_count; turn-- > 0;) {
        uint32_t op = turn % prices->op_count;
        float waited_ns = (float)(bounds_ns[2 * op + 1] - bounds_ns[2 * op]);
        float ran_ns = (float)(bounds_ns[2 * op + 2] - bounds_ns[2 * op + 1]);
        float busy_waiting_ns = prices->busy[2 * op] * waited_ns;
        float busy_ns = busy_waiting_ns + prices->busy[2 * op + 1] * ran_ns;
        if (busy_ns < idle * (waited_ns + ran_ns)) wait_ns = 0;
        wait_ns += busy_waiting_ns;
        if (turn >= prices->op_count) continue;
        float now = wait_ns > short_wait_ns ? 1 : for_nothing;
        price[op] += part * (now - price[op]);
    }
}

vp_status prices_update(struct prices *prices, float part)
{
    prices->over = true;
    if (prices->exhausted) return VP_NO_HOST_MEMORY;
    set_prices(prices, true, part);
    set_prices(prices, false, part);
    return VP_OK;
}
