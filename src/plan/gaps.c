#include "plan/gaps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "plan/heap.h"

/* More than any gap's worth that has a cost. */
#define FOR_NOTHING (UINT64_C(1) << 62)

/* Of a gap, beside the prices of its copies. */
#define LEAST_COST 0.02F

void gaps_destroy(struct gaps *gaps)
{
    free(gaps->gap);
    free(gaps->by_worth);
    free(gaps->away);
    free(gaps->fixed);
    free(gaps->save_for);
    free(gaps->occupied);
    memset(gaps, 0, sizeof *gaps);
}

static uint64_t bytes_of(const struct gaps *gaps, uint32_t index)
{
    return gaps->shape->chunks[gaps->gap[index].chunk].bytes;
}

/* Time of an op position that may lie beyond the step. */
static uint64_t start_ns(const struct shape *shape, uint64_t at)
{
    uint64_t round = at / shape->op_count;
    return round * shape->ops[shape->op_count].start_ns + shape->ops[at % shape->op_count].start_ns;
}

static bool is_written(const struct shape *shape, const struct shape_role *role)
{
    for (uint32_t use = 0; use < role->use_count; use++)
        if (shape->uses[role->first_use + use].writes) return true;
    return false;
}

static void fill_gap(struct gaps *gaps, uint32_t chunk_index, uint32_t use)
{
    const struct shape *shape = gaps->shape;
    const struct shape_chunk *chunk = &shape->chunks[chunk_index];
    const struct shape_role *role = &shape->roles[chunk->role];
    struct gap *gap = &gaps->gap[chunk->first_gap + use];
    gap->chunk = chunk_index;
    gap->from = shape->uses[role->first_use + use].at;
    gap->to = (uint32_t)shape_use_at(shape, role, use + 1);
    gap->dies = use + 1 == role->use_count && role->end != SHAPE_NEVER;
    if (gap->to <= gap->from + 1) {
        gap->to = gap->from + 1;
        return;
    }
    gap->ns = start_ns(shape, gap->to) - start_ns(shape, gap->from + 1ull);
    gap->written = is_written(shape, role);
    gaps->by_worth[gaps->worth_count++] = chunk->first_gap + use;
}

struct sorted {
    uint64_t worth;
    uint32_t index;
};

/* Multiples of these, cut to 32 bits, come out evenly, wherever one stops: of the parts of 2^32 by
 * the golden ratio, and by the plastic number's square, which is independent of it. */
static const uint32_t golden = 2654435769U, plastic = 2447445413U;

static int best_first(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    if (x->worth != y->worth) return x->worth > y->worth ? -1 : 1;
    return x->index * golden < y->index * golden ? -1 : 1; /* spread over the step */
}

static void sort_by_worth(struct gaps *gaps, struct sorted *sorted)
{
    qsort(sorted, gaps->worth_count, sizeof *sorted, best_first);
    for (uint32_t i = 0; i < gaps->worth_count; i++) gaps->by_worth[i] = sorted[i].index;
}

vp_status gaps_weigh(struct gaps *gaps, double in, double out, double spread)
{
    struct sorted *sorted = malloc((gaps->worth_count + 1u) * sizeof *sorted);
    assert(in >= 0 && out >= 0 && spread >= 0 && spread <= 1);
    if (!sorted) return VP_NO_HOST_MEMORY;
    for (uint32_t i = 0; i < gaps->worth_count; i++) {
        uint32_t index = gaps->by_worth[i];
        const struct gap *gap = &gaps->gap[index];
        double more = spread * ((double)(index * plastic) / 0x1p31 - 1);
        double cost = (gap->dies ? 0 : in * (1 + more)) + (gap->written ? out * (1 - more) : 0);
        uint64_t worth = cost > 0 ? (uint64_t)((double)gap->ns * 64 / cost) : gap->ns + FOR_NOTHING;
        sorted[i] = (struct sorted){worth, index};
    }
    sort_by_worth(gaps, sorted);
    free(sorted);
    return VP_OK;
}

vp_status gaps_price(struct gaps *gaps, const float *in, const float *out)
{
    struct sorted *sorted = malloc((gaps->worth_count + 1u) * sizeof *sorted);
    if (!sorted) return VP_NO_HOST_MEMORY;
    uint32_t count = gaps->shape->op_count;
    for (uint32_t i = 0; i < gaps->worth_count; i++) {
        const struct gap *gap = &gaps->gap[gaps->by_worth[i]];
        float cost = LEAST_COST;
        if (!gap->dies) cost += in[gap->to % count];
        if (gap->written) cost += out[gap->from % count];
        sorted[i] =
            (struct sorted){(uint64_t)((double)gap->ns * 64 / (double)cost), gaps->by_worth[i]};
    }
    sort_by_worth(gaps, sorted);
    free(sorted);
    return VP_OK;
}

vp_status gaps_create(const struct shape *shape, struct gaps *gaps)
{
    size_t count = shape->gap_count + 1u;
    *gaps = (struct gaps){.shape = shape,
                          .gap = calloc(count, sizeof *gaps->gap),
                          .by_worth = malloc(count * sizeof *gaps->by_worth),
                          .away = calloc(count, sizeof *gaps->away),
                          .fixed = calloc(count, sizeof *gaps->fixed),
                          .save_for = malloc(count * sizeof *gaps->save_for),
                          .occupied = calloc(shape->op_count + 1u, sizeof *gaps->occupied)};
    bool ok = gaps->gap && gaps->by_worth && gaps->away && gaps->fixed && gaps->save_for &&
              gaps->occupied;
    for (uint32_t i = 0; ok && i < shape->chunk_count; i++) {
        const struct shape_role *role = &shape->roles[shape->chunks[i].role];
        for (uint32_t use = 0; use < role->use_count; use++) fill_gap(gaps, i, use);
    }
    ok = ok && gaps_weigh(gaps, 1, 1, 0) == VP_OK;
    if (!ok) {
        gaps_destroy(gaps);
        return VP_NO_HOST_MEMORY;
    }
    gaps_set(gaps, NULL);
    return VP_OK;
}

/* Adds to the bytes at home at the ops from `from` to before `to`; of as many steps as they span.
 */
static void add_bytes(struct gaps *gaps, uint64_t from, uint64_t to, uint64_t bytes)
{
    uint32_t at = (uint32_t)(from % gaps->shape->op_count);
    for (uint64_t op = from; op < to; op++) {
        gaps->occupied[at] += bytes;
        if (++at == gaps->shape->op_count) at = 0;
    }
}

static void choose(struct gaps *gaps, uint32_t index, bool away)
{
    const struct gap *gap = &gaps->gap[index];
    assert(gaps->away[index] != away);
    gaps->away[index] = away;
    uint64_t bytes = bytes_of(gaps, index);
    add_bytes(gaps, gap->from + 1ull, gap->to, away ? (uint64_t)0 - bytes : bytes);
}

void gaps_flip(struct gaps *gaps, uint32_t index)
{
    choose(gaps, index, !gaps->away[index]);
}

/* Enters a range for sum_ranges: where it begins and ends; whole rounds are returned. */
static uint64_t enter_range(struct gaps *gaps, uint64_t from, uint64_t to, uint64_t bytes)
{
    uint64_t count = gaps->shape->op_count, first = from % count, rest = (to - from) % count;
    gaps->occupied[first] += rest ? bytes : 0;
    if (rest && first + rest != count) gaps->occupied[(first + rest) % count] -= bytes;
    if (first + rest > count) gaps->occupied[0] += bytes;
    return (to - from) / count * bytes;
}

static void sum_ranges(struct gaps *gaps, uint64_t everywhere)
{
    for (uint32_t i = 0; i < gaps->shape->op_count; i++) {
        everywhere += gaps->occupied[i];
        gaps->occupied[i] = everywhere;
    }
}

void gaps_set(struct gaps *gaps, const uint8_t *away)
{
    const struct shape *shape = gaps->shape;
    uint64_t everywhere = 0;
    memset(gaps->occupied, 0, shape->op_count * sizeof *gaps->occupied);
    memset(gaps->away, 0, shape->gap_count);
    for (uint32_t i = 0; i < shape->chunk_count; i++) {
        const struct shape_role *role = &shape->roles[shape->chunks[i].role];
        if (role->use_count == 0) continue; /* never used: it has no place at home */
        bool persists = role->end == SHAPE_NEVER;
        uint64_t from = persists ? 0 : shape->uses[role->first_use].at;
        everywhere +=
            enter_range(gaps, from, persists ? shape->op_count : role->end, shape->chunks[i].bytes);
    }
    for (uint32_t i = 0; away && i < gaps->worth_count; i++) {
        uint32_t index = gaps->by_worth[i];
        if (!away[index]) continue;
        const struct gap *gap = &gaps->gap[index];
        gaps->away[index] = true;
        everywhere += enter_range(gaps, gap->from + 1ull, gap->to, 0 - bytes_of(gaps, index));
    }
    sum_ranges(gaps, everywhere);
}

static bool covers(const struct gaps *gaps, const struct gap *gap, uint32_t op)
{
    uint64_t first = gap->from + 1ull, count = gaps->shape->op_count;
    uint64_t behind = (op + count - first % count) % count; /* ops from the start of the inside */
    return first + behind < gap->to;
}

static uint32_t fullest(const struct gaps *gaps, const uint8_t *hopeless)
{
    uint32_t best = SHAPE_NEVER;
    for (uint32_t i = 0; i < gaps->shape->op_count; i++)
        if (!hopeless[i] && (best == SHAPE_NEVER || gaps->occupied[i] > gaps->occupied[best]))
            best = i;
    return best;
}

/* Makes the op fit, best gaps first; false: it cannot. */
static bool relieve(struct gaps *gaps, uint32_t op, uint64_t bytes)
{
    for (uint32_t i = 0; i < gaps->worth_count && gaps->occupied[op] > bytes; i++) {
        uint32_t index = gaps->by_worth[i];
        if (gaps->away[index] || gaps->fixed[index]) continue;
        if (covers(gaps, &gaps->gap[index], op)) choose(gaps, index, true);
    }
    return gaps->occupied[op] <= bytes;
}

static bool fits_without(const struct gaps *gaps, uint32_t index, uint64_t bytes)
{
    const struct gap *gap = &gaps->gap[index];
    uint64_t limit = bytes - bytes_of(gaps, index), count = gaps->shape->op_count;
    if (bytes < bytes_of(gaps, index)) return false;
    uint32_t at = (uint32_t)((gap->from + 1ull) % count);
    for (uint64_t op = gap->from + 1ull; op < gap->to; op++) {
        if (gaps->occupied[at] > limit) return false;
        if (++at == count) at = 0;
    }
    return true;
}

void gaps_fit(struct gaps *gaps, uint64_t bytes)
{
    uint8_t *hopeless = calloc(gaps->shape->op_count, 1);
    for (;;) {
        if (!hopeless) break; /* a plan that does not fit is only slow */
        uint32_t op = fullest(gaps, hopeless);
        if (op == SHAPE_NEVER || gaps->occupied[op] <= bytes) break;
        if (!relieve(gaps, op, bytes)) hopeless[op] = 1;
    }
    free(hopeless);
    for (uint32_t i = gaps->worth_count; i-- > 0;) {
        uint32_t index = gaps->by_worth[i];
        if (!gaps->away[index] || gaps->fixed[index]) continue;
        if (fits_without(gaps, index, bytes)) choose(gaps, index, false);
    }
}

/* A walk over the ops, once around, in order or against it. */
struct sweep {
    struct gaps *gaps;
    struct heap open;           /* gaps that cover the op; the one that covers longest first */
    uint32_t *first, *by_first; /* of each turn of the walk: the gaps that begin then */
    uint32_t start;             /* where it begins: where there is most room */
    bool back;
};

static uint32_t op_at(const struct sweep *sweep, uint32_t turn)
{
    uint32_t count = sweep->gaps->shape->op_count;
    return (sweep->start + (sweep->back ? count - turn : turn)) % count;
}

/* The turns at which the walk comes upon the gap and leaves it; beyond the last turn where it
 * covers the walk's start, too. */
static void turns_of(const struct sweep *sweep, uint32_t index, uint32_t *from, uint32_t *to)
{
    const struct gap *gap = &sweep->gaps->gap[index];
    uint32_t count = sweep->gaps->shape->op_count, length = gap->to - gap->from - 1;
    if (length > count) length = count;
    uint32_t near = (uint32_t)((sweep->back ? gap->to - 1ull : gap->from + 1ull) % count);
    *from = (sweep->back ? sweep->start + count - near : near + count - sweep->start) % count;
    *to = *from + length - 1;
}

static bool make_sweep(struct sweep *sweep, struct gaps *gaps, bool back)
{
    uint32_t count = gaps->shape->op_count;
    size_t numbers = gaps->shape->gap_count + 1u;
    *sweep = (struct sweep){.gaps = gaps, .back = back};
    sweep->open.key = malloc(numbers * sizeof *sweep->open.key);
    sweep->open.order = malloc(numbers * sizeof *sweep->open.order);
    sweep->open.place = malloc(numbers * sizeof *sweep->open.place);
    sweep->by_first = malloc(numbers * sizeof *sweep->by_first);
    sweep->first = calloc(count + 2u, sizeof *sweep->first);
    if (!sweep->open.key || !sweep->open.order || !sweep->open.place || !sweep->by_first ||
        !sweep->first)
        return false;
    memset(sweep->open.place, 0xff, numbers * sizeof *sweep->open.place);
    for (uint32_t op = 0; op < count; op++)
        if (gaps->occupied[op] < gaps->occupied[sweep->start]) sweep->start = op;
    uint32_t from, to;
    for (uint32_t i = 0; i < gaps->worth_count; i++) {
        turns_of(sweep, gaps->by_worth[i], &from, &to);
        sweep->first[from + 2]++;
    }
    for (uint32_t i = 1; i < count + 2; i++) sweep->first[i] += sweep->first[i - 1];
    for (uint32_t i = 0; i < gaps->worth_count; i++) {
        turns_of(sweep, gaps->by_worth[i], &from, &to);
        sweep->by_first[sweep->first[from + 1]++] = gaps->by_worth[i];
        if (to >= count) heap_set(&sweep->open, gaps->by_worth[i], ~(uint64_t)(to - count));
    }
    return true;
}

static void open_gaps(struct sweep *sweep, uint32_t turn)
{
    for (uint32_t i = sweep->first[turn]; i < sweep->first[turn + 1]; i++) {
        uint32_t from, to, index = sweep->by_first[i];
        turns_of(sweep, index, &from, &to);
        if (!sweep->gaps->away[index]) heap_set(&sweep->open, index, ~(uint64_t)to);
    }
}

void gaps_sweep(struct gaps *gaps, uint64_t bytes, bool back)
{
    struct sweep sweep;
    bool ok = make_sweep(&sweep, gaps, back);
    for (uint32_t turn = 0; ok && turn < gaps->shape->op_count; turn++) {
        open_gaps(&sweep, turn);
        while (gaps->occupied[op_at(&sweep, turn)] > bytes && sweep.open.count) {
            uint32_t index = heap_first(&sweep.open);
            bool over = sweep.open.key[index] > ~(uint64_t)turn;
            heap_remove(&sweep.open, index);
            if (!over) choose(gaps, index, true);
        }
    }
    free(sweep.open.key);
    free(sweep.open.order);
    free(sweep.open.place);
    free(sweep.by_first);
    free(sweep.first);
}

/* The gap for which a chunk can be copied out during gap `use`: the next one that was chosen, if no
 * use before it writes. */
static uint32_t find_save(const struct gaps *gaps, const struct shape_chunk *chunk, uint32_t use)
{
    const struct shape_role *role = &gaps->shape->roles[chunk->role];
    bool persists = role->end == SHAPE_NEVER;
    for (uint32_t i = 1; i < role->use_count; i++) {
        uint32_t next = use + i;
        if (next >= role->use_count) {
            if (!persists) return SHAPE_NEVER;
            next -= role->use_count;
        }
        if (gaps->shape->uses[role->first_use + next].writes) return SHAPE_NEVER;
        if (gaps->away[chunk->first_gap + next]) return chunk->first_gap + next;
    }
    return SHAPE_NEVER;
}

void gaps_find_saves(struct gaps *gaps)
{
    const struct shape *shape = gaps->shape;
    for (uint32_t i = 0; i < shape->chunk_count; i++) {
        const struct shape_chunk *chunk = &shape->chunks[i];
        const struct shape_role *role = &shape->roles[chunk->role];
        for (uint32_t use = 0; use < role->use_count; use++) {
            uint32_t index = chunk->first_gap + use;
            gaps->save_for[index] = gaps->away[index] ? SHAPE_NEVER : find_save(gaps, chunk, use);
        }
    }
}

bool gaps_are_valid(const struct gaps *gaps)
{
    struct gaps other;
    if (gaps_create(gaps->shape, &other) != VP_OK) return false;
    gaps_set(&other, gaps->away);
    bool same =
        memcmp(other.occupied, gaps->occupied, gaps->shape->op_count * sizeof *gaps->occupied) == 0;
    gaps_destroy(&other);
    return same;
}
