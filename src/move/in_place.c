#include "move/in_place.h"

#include <assert.h>
#include <stddef.h>

static const double most_cost = 1.2;

static uint32_t hash(uint64_t function)
{
    return (uint32_t)(function * UINT64_C(0x9E3779B97F4A7C15) >> 40);
}

/* Where the function's entry is, or would be: the table never fills up. */
static uint32_t find(const struct in_place *costs, uint64_t function)
{
    assert(function != 0 && costs->count < IN_PLACE_FUNCTIONS);
    uint32_t at = hash(function) % IN_PLACE_FUNCTIONS;
    while (costs->functions[at].function && costs->functions[at].function != function)
        at = (at + 1) % IN_PLACE_FUNCTIONS;
    return at;
}

/* NULL: three quarters are taken, and more would be slow to search. */
static struct in_place_function *enter(struct in_place *costs, uint64_t function)
{
    struct in_place_function *entry = &costs->functions[find(costs, function)];
    if (entry->function) return entry;
    if (costs->count == IN_PLACE_FUNCTIONS / 4 * 3) return NULL;
    costs->count++;
    entry->function = function;
    return entry;
}

static double cost_of(const struct in_place *costs, const struct in_place_function *entry)
{
    if (costs->gbps <= 0 || entry->near_bytes <= 0 || entry->far_bytes <= 0) return -1;
    double near_ns = entry->near_ns / entry->near_bytes * entry->far_touched_bytes;
    double excess_ns = entry->far_ns > near_ns ? entry->far_ns - near_ns : 0;
    return excess_ns * costs->gbps / entry->far_bytes;
}

static void judge_anew(const struct in_place *costs, struct in_place_function *entry)
{
    if (cost_of(costs, entry) > most_cost) entry->bad = true;
}

void in_place_note_near(struct in_place *costs, uint64_t function, uint64_t bytes,
                        uint64_t duration_ns)
{
    struct in_place_function *entry = bytes ? enter(costs, function) : NULL;
    if (!entry) return;
    entry->near_ns += (double)duration_ns;
    entry->near_bytes += (double)bytes;
    judge_anew(costs, entry);
}

void in_place_note_far(struct in_place *costs, uint64_t function, uint64_t bytes,
                       uint64_t far_bytes, uint64_t duration_ns)
{
    assert(far_bytes <= bytes);
    struct in_place_function *entry = far_bytes ? enter(costs, function) : NULL;
    if (!entry) return;
    entry->far_ns += (double)duration_ns;
    entry->far_touched_bytes += (double)bytes;
    entry->far_bytes += (double)far_bytes;
    entry->far_count++;
    judge_anew(costs, entry);
}

void in_place_set_rate(struct in_place *costs, double gbps)
{
    costs->gbps = gbps;
    for (uint32_t i = 0; i < IN_PLACE_FUNCTIONS; i++)
        if (costs->functions[i].function) judge_anew(costs, &costs->functions[i]);
}

double in_place_cost(const struct in_place *costs, uint64_t function)
{
    return cost_of(costs, &costs->functions[find(costs, function)]);
}

enum in_place_verdict in_place_judge(const struct in_place *costs, uint64_t function)
{
    const struct in_place_function *entry = &costs->functions[find(costs, function)];
    if (entry->bad) return IN_PLACE_BAD;
    return cost_of(costs, entry) >= 0 ? IN_PLACE_PAYS : IN_PLACE_UNKNOWN;
}

uint64_t in_place_near_ns(const struct in_place *costs, uint64_t function, uint64_t bytes)
{
    const struct in_place_function *entry = &costs->functions[find(costs, function)];
    if (entry->near_bytes <= 0) return 0;
    return (uint64_t)(entry->near_ns / entry->near_bytes * (double)bytes);
}

bool in_place_wants(const struct in_place *costs, uint64_t function, bool far)
{
    const struct in_place_function *entry = &costs->functions[find(costs, function)];
    if (far) return !entry->bad && entry->far_count < IN_PLACE_ENOUGH;
    return entry->far_count && entry->near_bytes <= 0;
}
