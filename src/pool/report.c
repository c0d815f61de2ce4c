/* What is said about a pool: counters, the line at exit, the report. */
#include "pool/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"

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

void vp_stats_read(vp_pool *pool, vp_stats *stats)
{
    pool_lock(pool);
    const struct move_counts *counts = &pool->move.counts;
    memset(stats, 0, sizeof *stats);
    stats->live_bytes = pool->segments.live_bytes;
    stats->peak_bytes = pool->segments.peak_bytes;
    stats->in_bytes = counts->in_bytes;
    stats->out_bytes = counts->out_bytes;
    stats->moved_bytes = counts->in_bytes + counts->out_bytes;
    stats->fetches = counts->fetches;
    stats->evictions = counts->evictions;
    stats->clean_drops = counts->clean_drops;
    stats->drops = counts->drops;
    stats->cancels = counts->recalls;
    stats->in_place = counts->in_place;
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

void pool_log_summary(vp_pool *pool)
{
    vp_stats stats;
    vp_stats_read(pool, &stats);
    char line[800], size[16];
    int used = snprintf(line, sizeof line, "vrampool: peak %s",
                        units_format_size(stats.peak_bytes, size, sizeof size));
    for (unsigned i = 0; i < pool->frames.places; i++) {
        vp_place_info_t info;
        fill_place(pool, i, &info);
        if (info.peak_bytes && used < (int)sizeof line - 64)
            used += snprintf(line + used, sizeof line - (size_t)used, ", %s %s", info.name,
                             units_format_size(info.peak_bytes, size, sizeof size));
    }
    fprintf(stderr, "%s, moved %s\n", line,
            units_format_size(stats.moved_bytes, size, sizeof size));
}

static void write_places(vp_pool *pool, FILE *file)
{
    fprintf(file, "  \"places\": [");
    for (unsigned i = 0; i < pool->frames.places; i++) {
        vp_place_info_t info;
        vp_status status = vp_place_info(pool, i, &info);
        if (status != VP_OK) continue;
        fprintf(file,
                "%s\n    {\"name\": \"%s\", \"kind\": \"%s\", \"capacity_bytes\": %llu, "
                "\"used_bytes\": %llu, "
                "\"reserve_bytes\": %llu, \"peak_bytes\": %llu}",
                i ? "," : "", info.name, info.kind == VP_PLACE_CARD ? "card" : "host",
                (unsigned long long)info.capacity_bytes, (unsigned long long)info.used_bytes,
                (unsigned long long)info.reserve_bytes, (unsigned long long)info.peak_bytes);
    }
    fprintf(file, "\n  ]\n");
}

vp_status vp_report(vp_pool *pool, const char *path)
{
    bool to_stderr = strcmp(path, "-") == 0;
    FILE *file = to_stderr ? stderr : fopen(path, "we");
    if (!file) {
        log_error("the report cannot be written to %s: %s", path, strerror(errno));
        return VP_IO;
    }
    vp_stats stats;
    vp_stats_read(pool, &stats);
    fprintf(file, "{\n  \"version\": \"" VP_VERSION "\",\n");
#define WRITE(name, text) fprintf(file, "  \"" #name "\": %llu,\n", (unsigned long long)stats.name);
    VP_STATS(WRITE)
#undef WRITE
    fprintf(file, "  \"chunk_bytes\": %llu,\n",
            (unsigned long long)(pool->segments.chunk_pages * pool->page_bytes));
    write_places(pool, file);
    fprintf(file, "}\n");
    bool failed = ferror(file) != 0;
    if (!to_stderr) failed |= fclose(file) != 0;
    if (failed) log_error("the report in %s is not whole: %s", path, strerror(errno));
    return failed ? VP_IO : VP_OK;
}
