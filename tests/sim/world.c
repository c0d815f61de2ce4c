/* What a seed's world is like, and what must hold in it at any moment. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "sim.h"

enum { PAGE_BYTES = 4 << 10, PAGE_BYTES_LARGE = 64 << 10 };

static void choose_options(uint64_t page, uint64_t card_pages)
{
    vp_options *options = &sim.options;
    vp_options_init(options);
    unsigned computing = sim_chance(25) ? 1 : 1 + (unsigned)sim_below(sim.profile.cards);
    options->compute_cards = (1u << computing) - 1;
    options->lend_cards = (uint32_t)random_next(&sim.program);
    options->always_mapped = sim_chance(20);
    options->strict = sim_chance(8);
    uint64_t pages[] = {0, card_pages / 2, card_pages, 4 * card_pages};
    options->host_bytes = page * pages[sim_below(4)];
    options->chunk_bytes = page << sim_below(5);
    options->hbm_bytes = sim_chance(50) ? 0 : page * sim_between(card_pages / 4, card_pages);
    options->policy = sim_chance(70) ? VP_POLICY_PLAN : (uint32_t)sim_below(VP_POLICY_INPLACE + 1);
}

/* A card and chunks such that the pool has something to plan. */
static void choose_plans(struct profile *profile, uint64_t page, uint64_t card_pages)
{
    profile->paced = true;
    profile->forecasts = false;
    bool calm = sim_chance(60); /* the whole way to where copies are made early */
    if (calm) profile->failures = FAIL_NEVER;
    if (calm) profile->threads = 1;
    profile->actions = profile->threads > 1 ? (unsigned)sim_between(20, 300) : 0;
    sim.options.chunk_bytes = page << sim_below(card_pages < 64 ? 2 : 3);
    sim.options.hbm_bytes = sim_chance(50) ? 0 : page * sim_between(card_pages * 2 / 3, card_pages);
    sim.options.host_bytes = page * card_pages * sim_between(2, 8);
    sim.options.policy = sim_chance(90) ? VP_POLICY_PLAN : VP_POLICY_DEMAND;
}

static void choose_failures(struct profile *profile)
{
    uint64_t kind = sim_below(20);
    if (kind < 4) profile->failures = FAIL_SOMETIMES;
    if (kind >= 4 && kind < 10) profile->failures = FAIL_IN_BURSTS;
    if (kind >= 10) return;
    profile->failing_open = sim_chance(40);
    profile->failing_close = sim_chance(30);
}

void world_choose(void)
{
    struct profile *profile = &sim.profile;
    memset(profile, 0, sizeof *profile);
    profile->threads = (unsigned)sim_between(1, SIM_THREADS);
    profile->cards = (unsigned)(sim_chance(60) ? sim_between(1, 3) : sim_between(1, SIM_CARDS));
    profile->actions = (unsigned)sim_between(50, 800);
    profile->switch_percent = (unsigned)(sim_chance(30) ? 0 : sim_between(1, 50));
    profile->tables = sim_chance(60);
    profile->lose_card = sim_chance(6);
    profile->paced = sim_chance(50);
    profile->forecasts = sim_chance(40);
    profile->period = (unsigned)sim_between(4, 64);
    profile->inflation = (unsigned)sim_between(1, 4);
    profile->plans = sim_chance(30);
    profile->exact = true;
    choose_failures(profile);

    bool large = sim_chance(5);
    uint64_t page = large ? PAGE_BYTES_LARGE : PAGE_BYTES;
    uint64_t card_pages = large ? sim_between(40, 80) : sim_between(16, 128);
    if (profile->plans && card_pages < 40) card_pages += 40;
    machines_choose(page, card_pages);
    choose_options(page, card_pages);
    if (profile->plans) choose_plans(profile, page, card_pages);
    profile->largest_bytes = page * sim_between(4, card_pages);
    if (sim_chance(10)) { /* less host memory than the pool is told */
        sim.machine.host_bytes = page * sim_between(card_pages / 2, card_pages) + 8 * MIB;
        profile->exact = sim.options.host_bytes <= sim.machine.host_bytes - 8 * MIB;
    }
    sim.coverage.strict += sim.options.strict;
    if (!profile->lose_card && !sim.options.strict && !profile->plans && sim_chance(6)) {
        sim.options.verify = 1 + (uint32_t)sim_below(2);
        sim.coverage.verified++;
        profile->threads = 1; /* its lock is a real one, and fibers share one OS thread */
        if (sim.options.verify == 2) profile->tables = false;
    }
}

/* ---- What must hold ---- */

/* Whether there are places where data can lie and cannot be used: what work needs at once may then
 * be more than it can have, though all fits. */
static bool is_split(void)
{
    const vp_pool *pool = sim.pool;
    for (unsigned place = 0; place < pool->frames.places; place++)
        if (pool->severed[place]) return true;
    for (unsigned card = 0; card < pool->cards; card++)
        for (unsigned i = 0; i < pool->move.refuges[card]; i++)
            if (!(pool->move.usable[card] >> pool->move.refuge[card][i] & 1)) return true;
    return false;
}

/* Whether the host would do alone. */
static bool fits_host(void)
{
    const vp_pool *pool = sim.pool;
    uint64_t pages = pool->segments.live_pages + pool->segments.chunk_pages;
    return pages <= pool->frames.place[pool->host_place].capacity_pages;
}

bool world_has_room(void)
{
    if (!sim.profile.exact || (is_split() && !fits_host())) return false;
    list_each(node, &sim.pool->segments.all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        if (segment->state == SEGMENT_LIVE && segment->captured) return false; /* never moves */
    }
    return true; /* the pool promises no more than it can keep */
}

/* Where the page table says a chunk is, it is. */
static void check_location(struct segment *segment, uint32_t index)
{
    struct chunk *chunk = &segment->chunks[index];
    bool mapped = chunk->state == CHUNK_RESIDENT || chunk->state == CHUNK_SETTLING ||
                  chunk->state == CHUNK_LEAVING;
    if (!mapped || segment->state != SEGMENT_LIVE) return;
    const vp_pool *pool = sim.pool;
    vp_addr address = chunk_address(chunk) + sim_below((uint64_t)chunk->pages * pool->page_bytes);
    vp_location location;
    if (vp_locate(sim.pool, address, &location) != VP_OK || !location.resident)
        sim_fail("%#" PRIx64 " is %s, and vp_locate does not find it", address,
                 move_state_name((enum chunk_state)chunk->state));
    const struct frame_place *place = &pool->frames.place[location.place];
    int real = place->kind == VP_PLACE_HOST ? (int)sim.machine.cards : place->id;
    if (emu_place(address) != real)
        sim_fail("vp_locate says that %#" PRIx64 " is in %s; the driver has it in place %d",
                 address, place->name, emu_place(address));
    const struct frame *frame = pool->frames.by_number[location.frame];
    uint64_t mine, theirs;
    bool same = !frame || !frame->alias || !emu_peek(address & ~UINT64_C(7), &mine, 8) ||
                !emu_peek((frame->alias + location.offset_bytes) & ~UINT64_C(7), &theirs, 8) ||
                mine == theirs;
    if (!frame || !same)
        sim_fail("vp_locate says that %#" PRIx64 " is in frame %" PRIu64 ", which holds other data",
                 address, location.frame);
}

void world_check(void)
{
    vp_pool *pool = sim.pool;
    if (!pool || sim.locked) return;
    if (!frame_table_is_valid(&pool->frames)) sim_fail("the table of frames contradicts itself");
    if (!segments_are_valid(&pool->segments)) sim_fail("the segments contradict themselves");
    if (!move_is_valid(&pool->move)) sim_fail("the chunks and their counts contradict each other");
    list_each(node, &pool->segments.all)
    {
        struct segment *segment = list_entry(node, struct segment, all);
        if (segment->chunk_count)
            check_location(segment, (uint32_t)sim_below(segment->chunk_count));
    }
}

void world_check_findings(void)
{
    if (sim.card_lost || emu_findings_count() == 0) return;
    struct emu_findings findings = emu_findings();
    sim_fail("the emulator found: %s", findings.first);
}

/* What is where, for people who look at a failure. */
void world_dump(void)
{
    for (unsigned i = 0; i < sim.pool->frames.places; i++) {
        const struct frame_place *place = &sim.pool->frames.place[i];
        printf("  %s: %" PRIu64 " pages, %" PRIu64 " used, %" PRIu64 " of them parked, %" PRIu64
               " free, %" PRIu64 " being made, %" PRIu64 " being released\n",
               place->name, place->capacity_pages, place->used_pages, place->parked_pages,
               place->free_pages, place->promised_pages, place->withdrawn_pages);
    }
    list_each(node, &sim.pool->segments.all)
    {
        const struct segment *segment = list_entry(node, struct segment, all);
        printf("  segment %#" PRIx64 ": %s, %" PRIu64 " pages, owner %u%s%s%s%s\n", segment->base,
               segment->state == SEGMENT_LIVE ? "live" : "not live", segment->pages,
               segment->generation, segment->noted ? ", noted" : "", segment->slab ? ", slab" : "",
               segment->has_prior ? ", used by its last owner" : "",
               segment->table ? ", table" : "");
        for (uint32_t i = 0; i < segment->chunk_count; i++) {
            const struct chunk *chunk = &segment->chunks[i];
            vp_addr address = segment->base + ((uint64_t)i << segment->chunk_shift);
            if (chunk->state == CHUNK_EMPTY) continue;
            printf("    %#" PRIx64 ": %s in place %d, mapped to place %d, %" PRIu64 " bytes live\n",
                   address, move_state_name((enum chunk_state)chunk->state),
                   chunk->frame ? (int)chunk->frame->place : -1, emu_place(address),
                   chunk->live_bytes);
        }
    }
}
