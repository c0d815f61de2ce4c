/* The program's blocks, and the reference memory: what every word of them must be. */
#include <inttypes.h>
#include <string.h>

#include "base/units.h"
#include "sim.h"

enum { ALIGNMENT = 512 };

static bool overlap(vp_addr a, uint64_t a_bytes, vp_addr b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static void check_new(vp_addr address, uint64_t bytes)
{
    if (address % ALIGNMENT) sim_fail("an allocation lies at %#" PRIx64, address);
    for (unsigned i = 0; i < SIM_BLOCKS; i++) {
        const struct sim_block *block = &sim.blocks[i];
        if (block->alive && overlap(address, bytes, block->address, 8 * block->words))
            sim_fail("an allocation of %" PRIu64 " bytes at %#" PRIx64
                     " lies over a live one of %" PRIu64 " bytes at %#" PRIx64,
                     bytes, address, 8 * block->words, block->address);
    }
    for (unsigned i = 0; i < SIM_PARENTS; i++) {
        const struct parent *parent = &sim.parents[i];
        if (parent->alive && overlap(address, bytes, parent->address, parent->bytes))
            sim_fail("an allocation at %#" PRIx64 " lies over a live segment at %#" PRIx64, address,
                     parent->address);
    }
}

static struct sim_block *vacant_block(void)
{
    for (unsigned i = 0; i < SIM_BLOCKS; i++)
        if (!sim.blocks[i].alive) return &sim.blocks[i];
    return NULL;
}

static void enter(struct sim_block *block, unsigned card, vp_addr address, uint64_t words)
{
    *block = (struct sim_block){.alive = true,
                                .address = address,
                                .words = words,
                                .value = calloc(words, sizeof *block->value),
                                .known = calloc(words, sizeof *block->known),
                                .card = card,
                                .writer = -1};
    assert(block->value && block->known);
}

static uint64_t choose_bytes(void)
{
    uint64_t chunk = sim.pool->segments.chunk_pages * sim.pool->page_bytes;
    uint64_t kind = sim_below(10), most = sim.profile.largest_bytes;
    if (kind < 3) return 8 * sim_between(1, 256);
    if (kind < 8) return 8 * sim_between(1, 4 * chunk / 8);
    return 8 * sim_between(1, most / 8);
}

/* Whether so much surely fits beside what is live: a place may lose up to a chunk. With several
 * cards that compute it is not so simple. */
static bool surely_fits(uint64_t bytes)
{
    const vp_pool *pool = sim.pool;
    uint64_t capacity = 0, pages = units_div_up(bytes, pool->page_bytes);
    if (pool->options.compute_cards != 1) return false;
    for (unsigned i = 0; i <= pool->move.refuges[0]; i++) {
        unsigned index = i ? pool->move.refuge[0][i - 1] : pool->move.home[0];
        bool usable = !i || (pool->move.usable[0] >> index & 1);
        if (pool->move.always_mapped && !usable) continue;
        uint64_t here = frame_capacity_pages(&pool->frames.place[index]) -
                        owed_reserved_pages(&pool->move, index);
        capacity += here > pool->segments.chunk_pages ? here - pool->segments.chunk_pages : 0;
    }
    return pool->segments.live_pages + pages <= capacity;
}

/* Allocates; 0: refused, which is a bug where there is room. */
static vp_addr allocate(struct thread *thread, uint64_t bytes)
{
    vp_addr address = 0;
    CUdeviceptr from_driver = 0;
    bool room = surely_fits(bytes), fine;
    if (sim_chance(50))
        fine = vp_alloc(sim.pool, thread->card, bytes, &address) == VP_OK;
    else
        fine = pool_mem_alloc(sim.pool, &from_driver, bytes) == CUDA_SUCCESS;
    if (from_driver) address = from_driver;
    if (fine) {
        sim.coverage.allocations++;
        check_new(address, bytes);
        return address;
    }
    sim.coverage.refused_allocations++;
    /* Another thread may have taken the room while the guard was mapped. */
    bool alone = sim.profile.threads == 1;
    if (room && alone && !sim.injected && !sim.card_lost)
        sim_fail("an allocation of %" PRIu64 " bytes is refused, with %" PRIu64 " pages live",
                 bytes, sim.pool->segments.live_pages);
    return 0;
}

struct sim_block *blocks_make(struct thread *thread, uint64_t bytes)
{
    vp_addr address = allocate(thread, bytes);
    sim_trace("alloc %" PRIu64 " bytes: %#" PRIx64, bytes, address);
    if (!address) return NULL;
    struct sim_block *block = vacant_block();
    if (block) {
        enter(block, thread->card, address, bytes / 8);
        return block;
    }
    vp_status status = vp_free(sim.pool, address);
    if (status != VP_OK) sim_fail("vp_free: %s", vp_status_text(status));
    return NULL;
}

void blocks_allocate(struct thread *thread)
{
    blocks_make(thread, choose_bytes());
}

/* ---- An allocator above ---- */

static struct parent *pick_parent(struct thread *thread)
{
    struct parent *parent = &sim.parents[sim_below(SIM_PARENTS)];
    if (parent->alive) return parent->card == thread->card ? parent : NULL;
    uint64_t bytes = units_round_up(choose_bytes() * 2 + ALIGNMENT, ALIGNMENT);
    vp_addr address = allocate(thread, bytes);
    if (!address) return NULL;
    if (parent->alive) { /* another thread was quicker */
        vp_status status = vp_free(sim.pool, address);
        if (status != VP_OK) sim_fail("vp_free: %s", vp_status_text(status));
        return NULL;
    }
    *parent =
        (struct parent){.alive = true, .address = address, .bytes = bytes, .card = thread->card};
    sim_trace("segment %" PRIu64 " bytes: %#" PRIx64, bytes, address);
    return parent;
}

static bool is_vacant(vp_addr address, uint64_t bytes)
{
    for (unsigned i = 0; i < SIM_BLOCKS; i++) {
        const struct sim_block *block = &sim.blocks[i];
        if (block->alive &&
            overlap(address, bytes, block->address, units_round_up(8 * block->words, ALIGNMENT)))
            return false;
    }
    return true;
}

void blocks_cut(struct thread *thread)
{
    struct parent *parent = pick_parent(thread);
    struct sim_block *block = vacant_block();
    if (!parent || !block) return;
    uint64_t bytes = ALIGNMENT * sim_between(1, parent->bytes / ALIGNMENT);
    if (sim_chance(60)) bytes = ALIGNMENT * sim_between(1, units_div_up(bytes, 4 * ALIGNMENT));
    vp_addr address =
        parent->address + ALIGNMENT * sim_between(0, (parent->bytes - bytes) / ALIGNMENT);
    if (!is_vacant(address, bytes)) return;
    sim_trace("note alive %#" PRIx64 ", %" PRIu64 " bytes", address, bytes);
    enter(block, parent->card, address, bytes / 8 - sim_below(8));
    block->parent = parent;
    block->ghosts = parent->ghosts;
    parent->blocks++;
    vp_note_alive(sim.pool, address, bytes);
    sim.coverage.notes++;
}

/* ---- Freeing ---- */

vp_addr blocks_stale_address(void)
{
    if (sim.stale_count && sim_chance(80))
        return sim.stale[sim_below(sim.stale_count)] + 8 * sim_below(64);
    return sim.pool->space.base + sim_below(1 << 24);
}

/* Addresses of the block that lie in memory lead nowhere from now on. */
static void cut_pointers(const struct sim_block *gone)
{
    for (unsigned i = 0; i < SIM_BLOCKS; i++) {
        struct sim_block *block = &sim.blocks[i];
        if (!block->alive || !block->pointers) continue;
        for (uint64_t k = 0; k < block->words; k++)
            if (block->value[k] - gone->address < 8 * gone->words && block->known[k])
                block->known[k] = KNOWN_DEAD;
    }
}

static void forget(struct sim_block *block)
{
    unsigned at = sim.stale_count < SIM_STALE ? sim.stale_count++ : (unsigned)sim_below(SIM_STALE);
    sim.stale[at] = block->address;
    cut_pointers(block);
    free(block->value);
    free(block->known);
    *block = (struct sim_block){0};
}

static void note_dead(struct sim_block *block)
{
    struct parent *parent = block->parent;
    vp_addr address = block->address;
    uint64_t bytes = units_round_up(8 * block->words, ALIGNMENT);
    parent->ghosts |= block->readers | block->ghosts;
    if (block->writer >= 0) parent->ghosts |= 1u << block->writer;
    parent->blocks--;
    sim_trace("note dead %#" PRIx64, address);
    forget(block);
    vp_note_dead(sim.pool, address, bytes);
}

void blocks_free(struct sim_block *block)
{
    sim.coverage.frees++;
    if (block->parent) {
        note_dead(block);
        return;
    }
    vp_addr address = block->address;
    sim_trace("free %#" PRIx64, address);
    forget(block);
    bool fine = sim_chance(50) ? vp_free(sim.pool, address) == VP_OK
                               : pool_mem_free(sim.pool, address) == CUDA_SUCCESS;
    if (!fine) sim_fail("freeing %#" PRIx64 " is refused", address);
}

static void free_parent(struct parent *parent)
{
    vp_addr address = parent->address;
    sim_trace("free segment %#" PRIx64, address);
    *parent = (struct parent){0};
    vp_status status = vp_free(sim.pool, address);
    if (status != VP_OK) sim_fail("vp_free: %s", vp_status_text(status));
}

void blocks_free_some(void)
{
    struct parent *parent = &sim.parents[sim_below(SIM_PARENTS)];
    if (sim_chance(15) && parent->alive && !parent->blocks) {
        free_parent(parent);
        return;
    }
    struct sim_block *block = &sim.blocks[sim_below(SIM_BLOCKS)];
    bool used = block->reading || block->writing || block->kept;
    if (block->alive && !used) blocks_free(block);
}

void blocks_free_all(void)
{
    for (unsigned i = 0; i < SIM_BLOCKS; i++)
        if (sim.blocks[i].alive) blocks_free(&sim.blocks[i]);
    for (unsigned i = 0; i < SIM_PARENTS; i++)
        if (sim.parents[i].alive) free_parent(&sim.parents[i]);
}

/* ---- Looking ---- */

struct sim_block *blocks_pick(unsigned card, uint64_t least_words)
{
    for (unsigned tries = 0; tries < 64; tries++) {
        struct sim_block *block = &sim.blocks[sim_below(SIM_BLOCKS)];
        if (block->alive && !block->lost && block->card == card && block->words >= least_words)
            return block;
    }
    return NULL;
}

struct sim_block *blocks_find(vp_addr address)
{
    for (unsigned i = 0; i < SIM_BLOCKS; i++) {
        struct sim_block *block = &sim.blocks[i];
        if (block->alive && address - block->address < 8 * block->words) return block;
    }
    return NULL;
}

void blocks_forget_stream(unsigned stream)
{
    uint32_t keep = ~(1u << stream);
    for (unsigned i = 0; i < SIM_BLOCKS; i++) {
        struct sim_block *block = &sim.blocks[i];
        block->readers &= keep;
        block->ghosts &= keep;
        if (block->writer == (int)stream) block->writer = -1;
    }
    for (unsigned i = 0; i < SIM_PARENTS; i++) sim.parents[i].ghosts &= keep;
}

bool blocks_is_poisoned(const struct sim_block *block)
{
    const struct segment *segment = segment_of(&sim.pool->segments, block->address);
    if (!segment) return false;
    uint32_t last = segment_chunk_at(segment, block->address + 8 * block->words - 1);
    for (uint32_t i = segment_chunk_at(segment, block->address); i <= last; i++)
        if (segment->chunks[i].state == CHUNK_POISONED) return true;
    return false;
}

void blocks_compare(const char *what, const uint64_t *got, const uint64_t *expected,
                    const uint8_t *known, uint64_t words)
{
    for (uint64_t i = 0; i < words; i++) {
        if (!known[i] || got[i] == expected[i]) continue;
        sim_fail("%s: word %" PRIu64 " of %" PRIu64 " is %#" PRIx64 ", not %#" PRIx64, what, i,
                 words, got[i], expected[i]);
    }
    sim.coverage.read_back_bytes += 8 * words;
}

/* ---- The reference memory ---- */

struct place blocks_pick_part(struct sim_block *block, uint64_t *words)
{
    if (*words > block->words) *words = block->words;
    if (sim_chance(60)) *words = sim_between(1, *words);
    return (struct place){block, sim_between(0, block->words - *words)};
}

void blocks_set_word(struct place place, uint64_t i, uint64_t value, uint8_t known)
{
    place_value(place)[i] = value;
    place_known(place)[i] = known;
}

void blocks_copy_words(struct place to, struct place from, uint64_t words, uint64_t delta)
{
    for (uint64_t i = 0; i < words; i++)
        blocks_set_word(to, i, place_value(from)[i] + delta, place_known(from)[i]);
    to.block->pointers |= from.block->pointers;
}

void blocks_mix_words(struct place to, const struct place *from, uint64_t words, uint64_t seed)
{
    for (uint64_t i = 0; i < words; i++) {
        bool known = place_known(to)[i] && (!from || place_known(*from)[i]);
        uint64_t other = from ? place_value(*from)[i] : 0;
        blocks_set_word(to, i, kernels_mix_value(place_value(to)[i], other, seed),
                        known ? KNOWN : UNKNOWN);
    }
}
