#include "pool/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "base/sample.h"
#include "base/units.h"
#include "machine/machine.h"
#include "pool/internal.h"

unsigned vp_place_count(vp_pool *pool)
{
    return pool->frames.places;
}

static void fill_place(const vp_pool *pool, unsigned index, vp_place_info_t *info)
{
    const struct frame_place *place = &pool->frames.place[index];
    memcpy(info->name, place->name, sizeof info->name);
    info->kind = place->kind;
    info->capacity_bytes = place->capacity_pages * pool->page_bytes;
    info->used_bytes = place->used_pages * pool->page_bytes;
    info->reserve_bytes = place->free_pages * pool->page_bytes;
    info->peak_bytes = place->peak_pages * pool->page_bytes;
}

vp_status vp_place_info(vp_pool *pool, unsigned place, vp_place_info_t *info)
{
    if (place >= pool->frames.places) return VP_NOT_FOUND;
    pool_lock(pool);
    fill_place(pool, place, info);
    pool_unlock(pool);
    return VP_OK;
}

/* Times translations of addresses in use; a cheap sample, so that the report need not be taken on
 * trust. */
static uint64_t measure_lookup_ns(vp_pool *pool)
{
    enum { ROUNDS = 20000 };
    vp_addr addresses[64];
    unsigned count = 0;
    list_each(node, &pool->segments.all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        if (count == 64) break;
        addresses[count++] = segment->base;
    }
    if (!count) return 0;
    uint64_t began = pool_now_ns(pool), sum = 0;
    for (unsigned i = 0; i < ROUNDS; i++)
        sum += space_lookup(&pool->space, addresses[(i * 2654435761u >> 16) % count] + i % 4096);
    uint64_t took = pool_now_ns(pool) - began;
    __asm__ volatile("" : : "r"(sum));
    return (took + ROUNDS / 2) / ROUNDS ? (took + ROUNDS / 2) / ROUNDS : 1;
}

/* The most that the pools which cuMemAllocAsync allocates from have held of cards that compute. */
static uint64_t driver_pool_bytes(const vp_pool *pool)
{
    const struct driver *driver = pool->driver;
    uint64_t sum = 0;
    if (!driver->cuDeviceGetMemPool || !driver->cuMemPoolGetAttribute) return 0;
    for (unsigned card = 0; card < pool->cards; card++) {
        CUmemoryPool of_card;
        uint64_t bytes = 0;
        if (!(pool->computes >> card & 1)) continue;
        CUresult result = driver->cuDeviceGetMemPool(&of_card, (CUdevice)card);
        if (result == CUDA_SUCCESS)
            result =
                driver->cuMemPoolGetAttribute(of_card, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &bytes);
        if (result == CUDA_SUCCESS) sum += bytes;
    }
    return sum;
}

void vp_stats_read(vp_pool *pool, vp_stats *stats)
{
    uint64_t in_driver_pools = driver_pool_bytes(pool);
    pool_lock(pool);
    const struct move_counts *counts = &pool->move.counts;
    memset(stats, 0, sizeof *stats);
    stats->live_bytes = pool->segments.live_bytes;
    stats->peak_bytes = pool->segments.peak_bytes;
    stats->in_bytes = counts->in_bytes;
    stats->out_bytes = counts->out_bytes;
    stats->moved_bytes = counts->in_bytes + counts->out_bytes + counts->relocated_bytes;
    stats->relocations = counts->relocations;
    stats->fetches = counts->fetches;
    stats->evictions = counts->evictions;
    stats->clean_drops = counts->clean_drops;
    stats->early_copies = counts->early_copies;
    stats->drops = counts->drops;
    stats->cancels = counts->recalls;
    stats->in_place = counts->in_place;
    stats->driver_pool_bytes = in_driver_pools;
    stats->relief_bytes = pool->relief_pages * pool->page_bytes;
    for (unsigned i = 0; i < pool->order.count; i++)
        stats->operations += pool->order.stream[i]->entered;
    stats->holds = pool->holds;
    stats->hold_map_ns = pool->hold_for_ns[MOVE_FOR_MAP];
    stats->hold_in_ns = pool->hold_for_ns[MOVE_FOR_IN];
    stats->hold_room_ns = pool->hold_for_ns[MOVE_FOR_ROOM];
    stats->hold_alone_ns = pool->hold_for_ns[MOVE_FOR_ALONE];
    for (unsigned i = 0; i < MOVE_CAUSES; i++) stats->hold_ns += pool->hold_for_ns[i];
    stats->throttle_ns = pool->throttle_ns;
    stats->touch_p99_percent = verify_ratio_percent(pool);
    stats->host_wait_ns = atomic_load_explicit(&pool->host_wait_ns, memory_order_relaxed);
    foresee_stats(pool, stats);
    stats->lookup_ns = pool->edge ? 0 : measure_lookup_ns(pool);
    pool_unlock(pool);
}

/* Of a single card no link is used. */
static void look_at_links(const vp_pool *pool, struct links *links)
{
    memset(links, 0, sizeof *links);
    uint32_t used = pool->options.compute_cards | pool->options.lend_cards;
    if (!pool->edge && used & (used - 1)) links_look(pool->driver, pool->cards, links);
}

void pool_log_summary(vp_pool *pool)
{
    vp_stats stats;
    vp_stats_read(pool, &stats);
    char line[800], size[16];
    int used = snprintf(line, sizeof line, "vrampool: peak %s",
                        units_format_size(stats.peak_bytes, size, sizeof size));
    for (unsigned i = 0; i < pool->frames.places; i++) {
        vp_place_info_t info;
        if (vp_place_info(pool, i, &info) != VP_OK) continue;
        if (info.peak_bytes && used < (int)sizeof line - 64)
            used += snprintf(line + used, sizeof line - (size_t)used, ", %s %s", info.name,
                             units_format_size(info.peak_bytes, size, sizeof size));
    }
    fprintf(stderr, "%s, moved %s", line, units_format_size(stats.moved_bytes, size, sizeof size));
    struct links links;
    look_at_links(pool, &links);
    char fault[96];
    for (unsigned i = 0; links_text(&links, i, fault, sizeof fault); i++)
        fprintf(stderr, "%s %s", i ? "," : ";", fault);
    fputc('\n', stderr);
    if (pool->record && stats.moved_bytes)
        log_warn("memory moved while the trace was recorded, so its durations have waits in them; "
                 "for vrampool sim and tune record where the job fits, perhaps a smaller batch");
}

/* ---- predicting ---- */

/* The machine as it is known: the emulated one; else an H200, whose calls were measured, with the
 * rates that copies reached here. */
static void describe_machine(const vp_pool *pool, struct machine *machine)
{
    const char *emulated = env_get(ENV_EMULATE);
    if (emulated && machine_from_text(emulated, machine) == VP_OK) return;
    if (machine_from_name("h200", machine) != VP_OK) abort();
    struct measure_rates rates = {0};
    if (pool->measure) rates = measure_rates_of(pool->measure);
    struct machine_path *in = &machine->path[1][0], *out = &machine->path[0][1];
    double both = in->both_gbps / in->gbps;
    if (rates.in_gbps > 0) in->gbps = rates.in_gbps;
    if (rates.out_gbps > 0) out->gbps = rates.out_gbps;
    in->both_gbps = both * in->gbps;
    out->both_gbps = both * out->gbps;
}

/* What the pool may use of each place that the machine knows; of others it is taken for the host's.
 */
static void set_refuges(const vp_pool *pool, unsigned card, const struct machine *machine,
                        struct predict_setup *setup)
{
    unsigned from = card < machine->cards ? card : 0, places[PLAN_REFUGES];
    unsigned count = plan_find_places(machine, from, places);
    plan_costs_of(machine, from, places, count, &setup->costs);
    while (places[setup->host] != machine->cards) setup->host++;
    for (uint32_t i = 0; i < pool->move.refuges[card]; i++) {
        const struct frame_place *place = &pool->frames.place[pool->move.refuge[card][i]];
        uint32_t at = 0;
        while (at < count && (place->kind != VP_PLACE_CARD || places[at] != (unsigned)place->id))
            at++;
        setup->limits.refuge_bytes[at < count ? at : setup->host] +=
            place->capacity_pages * pool->page_bytes;
    }
}

void pool_predict_setup(vp_pool *pool, struct predict_setup *setup)
{
    static struct machine machine; /* large; under the lock */
    pool_lock(pool);
    describe_machine(pool, &machine);
    unsigned card = pool->computes ? (unsigned)__builtin_ctz(pool->computes) : 0;
    *setup = (struct predict_setup){
        .chunk_bytes = pool->segments.chunk_pages * pool->page_bytes,
        .page_bytes = pool->page_bytes,
        .peak_held_bytes = pool->segments.peak_needed_pages * pool->page_bytes,
        .policy = (enum plan_policy)pool->options.policy,
    };
    set_refuges(pool, card, &machine, setup);
    const struct frame_place *home = &pool->frames.place[pool->move.home[card]];
    setup->limits.hbm_bytes = home->capacity_pages * pool->page_bytes;
    setup->limits.quiet = true;
    pool_unlock(pool);
}

/* ---- collecting ---- */

const char *report_stall_name(enum report_stall stall)
{
    static const char *const names[] = {
#define NAME(name, words) #name,
        REPORT_STALLS(NAME)
#undef NAME
    };
    return names[stall];
}

const char *report_stall_words(enum report_stall stall)
{
    static const char *const words[] = {
#define WORDS(name, words) words,
        REPORT_STALLS(WORDS)
#undef WORDS
    };
    return words[stall];
}

static uint64_t median_ns(const struct report_step *step)
{
    double values[MEASURE_STEPS];
    for (uint32_t i = 0; i < step->count; i++) values[i] = (double)step->steps[i].step_ns;
    return step->count ? (uint64_t)sample_median(values, step->count) : 0;
}

static void average(struct report_step *step)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < step->count; i++) {
        if (step->steps[i].step_ns > 2 * step->step_ns) continue;
        used++;
#define ADD(name) step->counts.name += step->steps[i].counts.name;
        MEASURE_COUNTS(ADD)
#undef ADD
    }
#define DIVIDE(name)                                                                               \
    if (used) step->counts.name /= used;
    MEASURE_COUNTS(DIVIDE)
#undef DIVIDE
}

/* The device's idle time is known by its clock. What of it is whose fault follows from what
 * operations were held for, some of them while the device still had work. */
static void split_stall(struct report_step *step, double in_gbps)
{
    if (!step->compute_ns || step->step_ns <= step->compute_ns) return;
    const struct measure_counts *counts = &step->counts;
    uint64_t frames =
        counts->host_wait_ns < counts->hold_room_ns ? counts->host_wait_ns : counts->hold_room_ns;
    double weight[REPORT_STALL_COUNT] = {
        [REPORT_STALL_in] = (double)(counts->hold_in_ns + counts->wait_ns),
        [REPORT_STALL_room] = (double)(counts->hold_room_ns - frames),
        [REPORT_STALL_frames] = (double)frames,
        [REPORT_STALL_map] = (double)counts->hold_map_ns,
        [REPORT_STALL_alone] = (double)counts->hold_alone_ns,
        [REPORT_STALL_in_place] = in_gbps > 0 ? (double)counts->in_place_bytes / in_gbps : 0,
    };
    double sum = 0, stall_ns = (double)(step->step_ns - step->compute_ns);
    for (unsigned i = 0; i < REPORT_STALL_COUNT; i++) sum += weight[i];
    if (sum < stall_ns) weight[REPORT_STALL_other] = stall_ns - sum;
    if (sum < stall_ns) sum = stall_ns;
    for (unsigned i = 0; i < REPORT_STALL_COUNT; i++)
        step->stall_ns[i] = (uint64_t)(stall_ns * weight[i] / sum);
}

double report_fraction(const struct report_step *step)
{
    if (!step->step_ns || !step->compute_ns) return 0;
    double fraction = (double)step->compute_ns / (double)step->step_ns;
    return fraction < 1 ? fraction : 1;
}

struct collecting {
    vp_pool *pool;
    struct report *report;
};

static void collect_step(void *context, const struct step *step)
{
    struct collecting *collecting = context;
    struct report *report = collecting->report;
    struct report_step *to = &report->step;
    struct predict_setup setup;
    to->op_count = step->op_count;
    to->touch_count = step->touch_count;
    to->compute_ns = step_duration_ns(step);
    pool_predict_setup(collecting->pool, &setup);
    pool_lock(collecting->pool);
    to->count = measure_steps(collecting->pool->measure, to->steps);
    report->rates = measure_rates_of(collecting->pool->measure);
    pool_unlock(collecting->pool);
    to->step_ns = median_ns(to);
    average(to);
    split_stall(to, setup.costs.refuge[0].in.gbps);
    if (!to->compute_ns || predict_step(step, &setup, &to->predict) != VP_OK) return;
    to->predicted = true;
    predict_advise(step, &setup, &to->predict);
}

struct report *report_collect(vp_pool *pool)
{
    struct report *report = calloc(1, sizeof *report);
    if (!report) return NULL;
    vp_stats_read(pool, &report->stats);
    report->policy = plan_policy_name((enum plan_policy)pool->options.policy);
    report->chunk_bytes = pool->segments.chunk_pages * pool->page_bytes;
    report->reserve_bytes = move_reserve_pages(&pool->move) * pool->page_bytes;
    report->ahead_ops = pool->move.ahead_ops;
    for (unsigned i = 0; i < pool->frames.places; i++)
        if (vp_place_info(pool, i, &report->place[report->places]) == VP_OK) report->places++;
    look_at_links(pool, &report->links);
    struct collecting collecting = {pool, report};
    report->has_step = foresee_with_step(pool, collect_step, &collecting);
    return report;
}

static bool is_page(const char *path)
{
    size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".html") == 0;
}

vp_status vp_report(vp_pool *pool, const char *path)
{
    bool to_stderr = strcmp(path, "-") == 0;
    FILE *file = to_stderr ? stderr : fopen(path, "we");
    if (!file) {
        log_error("the report cannot be written to %s: %s", path, strerror(errno));
        return VP_IO;
    }
    struct report *report = report_collect(pool);
    if (report && is_page(path))
        report_write_html(report, file);
    else if (report)
        report_write_json(report, file);
    bool failed = ferror(file) != 0 || !report;
    free(report);
    if (!to_stderr) failed |= fclose(file) != 0;
    if (failed) log_error("the report in %s is not whole: %s", path, strerror(errno));
    return failed ? VP_IO : VP_OK;
}
