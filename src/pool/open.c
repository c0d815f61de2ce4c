/* Opening and closing a pool: places, address ranges, contexts. */
#include "pool/internal.h"
#include "pool/timeline.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/setting.h"
#include "base/units.h"
#include "machine/host.h"
#include "pool/probe.h"

/* Where the pool would like to lie: high, so that floats and indices rarely look like its
 * addresses. */
static const CUdeviceptr wishes[] = {0x600000000000, 0x500000000000, 0};

static const uint64_t address_bytes_most = 64 * TIB, address_bytes_least = 64 * GIB;

void vp_options_init(vp_options *options)
{
    memset(options, 0, sizeof *options);
    options->struct_size = sizeof *options;
    options->compute_cards = 1;
    options->lend_cards = ~1u;
    options->host_bytes = VP_DEFAULT_BYTES;
    options->host_sharers = 1;
}

static vp_status driver_failed(const vp_pool *pool, const char *call, CUresult result)
{
    log_error("%s failed: %s", call, driver_error_name(pool->driver, result));
    return VP_DRIVER;
}

static vp_status reserve(vp_pool *pool, uint64_t most, uint64_t least, vp_addr *base,
                         uint64_t *bytes)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (*bytes = most; *bytes >= least; *bytes /= 2) {
        for (unsigned i = 0; i < sizeof wishes / sizeof *wishes; i++) {
            CUdeviceptr at;
            result = pool->driver->cuMemAddressReserve(&at, *bytes, pool->page_bytes, wishes[i], 0);
            if (result != CUDA_SUCCESS) continue;
            *base = at;
            return VP_OK;
        }
    }
    return driver_failed(pool, "cuMemAddressReserve", result);
}

static CUmemAllocationProp card_prop(int card)
{
    CUmemAllocationProp prop;
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = card;
    return prop;
}

/* The card whose word is taken where all are thought to be alike. */
static int first_card(const vp_pool *pool)
{
    return __builtin_ctz(pool->options.compute_cards);
}

/* The host location that this driver, in this container, lets us allocate from. */
static vp_status probe_host(vp_pool *pool, CUmemAllocationProp *prop)
{
    const struct driver *driver = pool->driver;
    int node = 0, card = first_card(pool);
    if (driver->cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, card) !=
            CUDA_SUCCESS ||
        node < 0)
        node = 0;
    const CUmemLocation locations[] = {{CU_MEM_LOCATION_TYPE_HOST_NUMA, node},
                                       {CU_MEM_LOCATION_TYPE_HOST, 0}};
    CUresult result = CUDA_SUCCESS;
    *prop = card_prop(card);
    for (unsigned i = 0; i < 2; i++) {
        prop->location = locations[i];
        CUmemGenericAllocationHandle handle;
        result = driver->cuMemCreate(&handle, pool->page_bytes, prop, 0);
        if (result != CUDA_SUCCESS) continue;
        pool_give_handle(pool, handle);
        return VP_OK;
    }
    log_error("host memory cannot be pooled: cuMemCreate for it fails with %s; in a container, add "
              "--cap-add SYS_NICE, or run with --host 0",
              driver_error_name(driver, result));
    return VP_UNSUPPORTED;
}

static vp_status find_page(vp_pool *pool)
{
    CUmemAllocationProp prop = card_prop(first_card(pool));
    size_t bytes = 0;
    CUresult result = pool->driver->cuMemGetAllocationGranularity(&bytes, &prop,
                                                                  CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) return driver_failed(pool, "cuMemGetAllocationGranularity", result);
    pool->page_bytes = bytes;
    return VP_OK;
}

/* What is free on a card, less the headroom. */
static uint64_t usable_bytes(vp_pool *pool, unsigned card, uint64_t *free_of_all)
{
    size_t free_bytes = 0, total_bytes = 0;
    CUcontext current = NULL;
    if (pool_current_context(pool, &current) != CUDA_SUCCESS) current = NULL;
    CUdevice device = -1;
    bool here =
        current && pool->driver->cuCtxGetDevice(&device) == CUDA_SUCCESS && device == (int)card;
    if (here)
        pool->driver->cuMemGetInfo_v2(&free_bytes, &total_bytes);
    else if (pool->driver->cuDeviceTotalMem_v2(&total_bytes, (CUdevice)card) == CUDA_SUCCESS)
        free_bytes = total_bytes;
    uint64_t headroom = pool_headroom_bytes(total_bytes);
    *free_of_all = free_bytes;
    return free_bytes > headroom ? free_bytes - headroom : 0;
}

/* What the pool may hold on a card, as asked or what is usable; *lent_bytes: what the card lends
 * beside that, where it computes too. */
static uint64_t card_capacity(vp_pool *pool, unsigned card, uint64_t *lent_bytes)
{
    const vp_options *options = &pool->options;
    uint64_t free_bytes, usable = usable_bytes(pool, card, &free_bytes);
    bool computes = (options->compute_cards >> card & 1) != 0;
    uint64_t lends = options->lend_cards >> card & 1 ? options->lend_bytes[card] : 0;
    uint64_t own = !computes && lends ? lends : options->hbm_bytes;
    uint64_t beside = computes ? lends : 0;
    if (own + beside > usable)
        log_warn("card %u has %.1f GiB to spare; --hbm and --lend ask for %.1f GiB", card,
                 (double)usable / GIB, (double)(own + beside) / GIB);
    if (beside > usable) beside = usable;
    *lent_bytes = beside;
    return own && own + beside < free_bytes ? own : usable - beside;
}

static vp_status host_capacity(vp_pool *pool, uint64_t *bytes)
{
    *bytes = pool->options.host_bytes;
    if (*bytes != VP_DEFAULT_BYTES) return VP_OK;
    struct host_memory memory;
    vp_status status = host_memory_read("", &memory);
    if (status == VP_OK) *bytes = host_memory_share(&memory, pool->options.host_sharers);
    return status;
}

static void add_access(vp_pool *pool, unsigned place, int card)
{
    CUmemAccessDesc *desc = &pool->access[place][pool->accesses[place]++];
    memset(desc, 0, sizeof *desc);
    desc->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc->location.id = card;
    desc->flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* Adds a place in a card's memory; returns its index. */
static unsigned add_place(vp_pool *pool, unsigned card, const char *kind, uint64_t bytes)
{
    char name[16];
    snprintf(name, sizeof name, "%s%u", kind, card);
    unsigned place =
        frame_place_add(&pool->frames, name, VP_PLACE_CARD, (int)card, bytes / pool->page_bytes);
    pool->place_prop[place] = card_prop((int)card);
    for (unsigned i = 0; i < pool->cards; i++)
        if ((pool->options.compute_cards >> i & 1) && (pool->reach[i] >> card & 1))
            add_access(pool, place, (int)i);
    return place;
}

static vp_status add_host(vp_pool *pool)
{
    uint64_t bytes = 0;
    vp_status status = host_capacity(pool, &bytes);
    if (status != VP_OK) return status;
    CUmemAllocationProp prop = {0}; /* stays so where the host gives nothing */
    if (bytes >= pool->page_bytes && (status = probe_host(pool, &prop)) != VP_OK) return status;
    pool->host_place =
        frame_place_add(&pool->frames, "host0", VP_PLACE_HOST, 0, bytes / pool->page_bytes);
    pool->place_prop[pool->host_place] = prop;
    for (unsigned i = 0; i < pool->cards; i++)
        if (pool->options.compute_cards >> i & 1) add_access(pool, pool->host_place, (int)i);
    return VP_OK;
}

static uint64_t most_reserve(const vp_pool *pool, unsigned card)
{
    return pool->frames.place[pool->move.home[card]].capacity_pages / SETTING_RESERVE_PART;
}

/* Whether chunks of the card may be used in place in the memory of another: all cards whose kernels
 * may use them reach that too, and atomics are the same there. */
static bool is_usable(const vp_pool *pool, unsigned card, unsigned peer)
{
    for (unsigned user = 0; user < pool->cards; user++) {
        if (!(pool->options.compute_cards >> user & 1)) continue;
        if (!(pool->reach[user] >> card & 1)) continue;
        if (!(pool->reach[user] >> peer & 1)) return false;
        if (user != peer && !(pool->native_atomics[user] >> peer & 1)) return false;
    }
    return true;
}

/* Whether chunks of the card may go to the place. */
static bool is_refuge(const vp_pool *pool, unsigned card, unsigned place)
{
    const struct frame_place *there = &pool->frames.place[place];
    unsigned owner = (unsigned)there->id;
    if (there->kind != VP_PLACE_CARD || !(pool->reach[card] >> owner & 1)) return false;
    bool home = pool->move.home[owner] == place;
    if (home && (pool->options.compute_cards >> owner & 1)) return pool->shares && owner != card;
    return true;
}

/* Where chunks of a card go when they must leave: what it lends itself, peers that it can reach,
 * the host. */
static void find_refuges(vp_pool *pool, unsigned card)
{
    struct move *move = &pool->move;
    for (unsigned own = 2; own-- > 0;) {
        for (unsigned place = 0; place < pool->frames.places; place++) {
            unsigned owner = (unsigned)pool->frames.place[place].id;
            if ((owner == card) != own || !is_refuge(pool, card, place)) continue;
            move->refuge[card][move->refuges[card]++] = place;
            if (!is_usable(pool, card, owner)) move->usable[card] &= ~(UINT32_C(1) << place);
        }
    }
    uint32_t near = move->refuges[card];
    move->near[card] = near; /* for all that is known */
    move->ways[card] = near < 1 ? 1 : near < MOVE_WAYS ? near : MOVE_WAYS;
    move->refuge[card][move->refuges[card]++] = pool->host_place;
    uint64_t reserve = move_reserve_pages(move);
    move->low_pages[card] = reserve <= most_reserve(pool, card) ? reserve : 0;
}

/* What was asked to be kept free is less than a card can spare. */
static vp_status check_reserve(const vp_pool *pool)
{
    uint64_t asked = pool->options.reserve_bytes;
    for (unsigned i = 0; i < pool->cards; i++) {
        if (!asked || !(pool->options.compute_cards >> i & 1)) continue;
        uint64_t most = most_reserve(pool, i) * pool->page_bytes;
        if (asked <= most) continue;
        log_error(
            "--reserve %lluM is too much: of card %u at most %lluM may be kept free, a sixth; "
            "ask for less, or leave it out for two chunks",
            (unsigned long long)(asked / MIB), i, (unsigned long long)(most / MIB));
        return VP_INVALID;
    }
    return VP_OK;
}

static uint32_t choose_chunk_pages(const vp_pool *pool)
{
    uint64_t bytes = pool->options.chunk_bytes;
    if (!bytes) {
        uint64_t least = UINT64_MAX;
        for (unsigned i = 0; i < pool->frames.places; i++) {
            const struct frame_place *place = &pool->frames.place[i];
            bool computes = place->kind == VP_PLACE_CARD && pool->move.home[place->id] == i &&
                            (pool->options.compute_cards >> place->id & 1);
            if (computes && place->capacity_pages < least) least = place->capacity_pages;
        }
        bytes = setting_chunk_bytes(least * pool->page_bytes, pool->page_bytes);
    }
    uint64_t pages = bytes / pool->page_bytes;
    if (pages > FRAME_MAX_PAGES) pages = FRAME_MAX_PAGES;
    if (pages < 1) pages = 1;
    return 1u << (31 - __builtin_clz((unsigned)pages));
}

static vp_status lay_out(vp_pool *pool)
{
    uint32_t used = pool->options.compute_cards | pool->options.lend_cards;
    for (unsigned i = 0; i < pool->cards; i++) {
        uint64_t lent_bytes;
        if (!(used >> i & 1)) continue;
        pool->move.home[i] = add_place(pool, i, "card", card_capacity(pool, i, &lent_bytes));
        if (lent_bytes >= pool->page_bytes) add_place(pool, i, "lent", lent_bytes);
    }
    vp_status status = add_host(pool);
    if (status != VP_OK) return status;
    uint32_t chunk_pages = choose_chunk_pages(pool);
    uint64_t asked = pool->options.chunk_bytes;
    if (asked && asked != chunk_pages * pool->page_bytes) {
        log_error(
            "chunks of %llu KiB cannot be: here they may have %llu KiB, or that times 2, 4, … "
            "up to %d",
            (unsigned long long)(asked >> 10), (unsigned long long)(pool->page_bytes >> 10),
            FRAME_MAX_PAGES);
        return VP_INVALID;
    }
    segments_create(&pool->segments, &pool->space, &pool->order, chunk_pages);
    pool->move.reserve_pages = units_div_up(pool->options.reserve_bytes, pool->page_bytes);
    for (unsigned i = 0; i < pool->cards; i++)
        if (pool->options.compute_cards >> i & 1) find_refuges(pool, i);
    for (unsigned i = 0; i < pool->cards; i++) /* their order may change later */
        for (uint32_t k = 0; k < pool->move.refuges[i]; k++)
            pool->refuge_places |= UINT32_C(1) << pool->move.refuge[i][k];
    return check_reserve(pool);
}

static vp_status lay_out_addresses(vp_pool *pool)
{
    vp_addr base;
    uint64_t bytes, capacity = 0;
    vp_status status = reserve(pool, address_bytes_most, address_bytes_least, &base, &bytes);
    if (status != VP_OK) return status;
    status = space_create(&pool->space, base, bytes, pool->page_bytes);
    if (status != VP_OK) {
        pool_give_range(pool, base, bytes);
        return status;
    }
    for (unsigned i = 0; i < pool->frames.places; i++)
        capacity += pool->frames.place[i].capacity_pages;
    /* A slot of a chunk's size for each frame, were all of them of one page. */
    uint64_t slots = capacity + 1, slot_bytes = pool->segments.chunk_pages * pool->page_bytes;
    status =
        reserve(pool, slots * slot_bytes, slots * slot_bytes / 8 + 1, &pool->alias_base, &bytes);
    pool->alias_next = pool->alias_base;
    pool->alias_end = pool->alias_base + (status == VP_OK ? bytes : 0);
    return status;
}

static vp_status make_guards(vp_pool *pool)
{
    if (pool->options.verify) return VP_OK; /* there, reading past the end is to be seen */
    for (unsigned i = 0; i < pool->cards; i++) {
        if (!(pool->options.compute_cards >> i & 1)) continue;
        CUmemAllocationProp prop = card_prop((int)i);
        CUresult result = pool->driver->cuMemCreate(&pool->guards[i], pool->page_bytes, &prop, 0);
        if (result != CUDA_SUCCESS) return driver_failed(pool, "cuMemCreate", result);
    }
    return VP_OK;
}

static bool can_access(const vp_pool *pool, unsigned card, unsigned peer)
{
    int can = 0;
    CUresult result = pool->driver->cuDeviceCanAccessPeer(&can, (CUdevice)card, (CUdevice)peer);
    return result == CUDA_SUCCESS && can;
}

static bool has_atomics(const vp_pool *pool, unsigned card, unsigned peer)
{
    int native = 0;
    if (!pool->driver->cuDeviceGetP2PAttribute) return false;
    CUresult result = pool->driver->cuDeviceGetP2PAttribute(
        &native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, (CUdevice)card, (CUdevice)peer);
    return result == CUDA_SUCCESS && native;
}

/* Which card reaches whose memory; asked once, so that all that follows from it agrees. */
static void find_reach(vp_pool *pool)
{
    for (unsigned card = 0; card < pool->cards; card++) {
        pool->reach[card] = 1u << card;
        for (unsigned peer = 0; peer < pool->cards; peer++) {
            if (peer == card || !can_access(pool, card, peer)) continue;
            pool->reach[card] |= 1u << peer;
            if (has_atomics(pool, card, peer)) pool->native_atomics[card] |= 1u << peer;
        }
    }
}

static vp_status check_cards(vp_pool *pool)
{
    int count = 0;
    CUresult result = pool->driver->cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS) return driver_failed(pool, "cuDeviceGetCount", result);
    if (count > VP_MAX_CARDS) count = VP_MAX_CARDS;
    pool->cards = (unsigned)count;
    uint32_t all = count >= 32 ? ~0u : (1u << count) - 1;
    pool->options.compute_cards &= all;
    pool->shares = pool->options.lend_cards != 0;
    uint32_t sized = 0;
    for (unsigned i = 0; i < pool->cards; i++)
        if (pool->options.lend_bytes[i]) sized |= UINT32_C(1) << i;
    pool->options.lend_cards &= all & (~pool->options.compute_cards | sized);
    if (!pool->options.compute_cards) {
        log_error("none of the cards chosen to compute exists: the machine has %d", count);
        return VP_INVALID;
    }
    for (unsigned i = 0; i < pool->cards; i++) {
        int can = 0;
        pool->driver->cuDeviceGetAttribute(
            &can, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, (CUdevice)i);
        if (can || !((pool->options.compute_cards | pool->options.lend_cards) >> i & 1)) continue;
        log_error("card %u has no virtual memory management, which vrampool needs", i);
        return VP_UNSUPPORTED;
    }
    find_reach(pool);
    return VP_OK;
}

static vp_status build(vp_pool *pool)
{
    vp_status status = check_cards(pool);
    if (pool->options.strict && pool->options.verify) {
        log_error("--strict keeps all memory mapped, --verify maps as little as can be: not both");
        status = VP_INVALID;
    }
    if (status == VP_OK) status = find_page(pool);
    if (status == VP_OK) status = frame_table_create(&pool->frames);
    order_create(&pool->order);
    slabs_create(&pool->slabs);
    params_create(&pool->params, pool->driver);
    move_create(&pool->move, &pool->segments, &pool->frames, &pool->order);
    pool->move.always_mapped = pool->options.always_mapped || pool->options.strict;
    pool->move.strict = pool->options.strict;
    pool->move.policy = (vp_policy)pool->options.policy;
    pool->move.stocks = true;
    if (pool->options.ahead_ops) pool->move.ahead_ops = pool->options.ahead_ops;
    pool->move.attached = 0;
    if (status == VP_OK) status = lay_out(pool);
    if (status == VP_OK) status = lay_out_addresses(pool);
    if (status == VP_OK) status = make_guards(pool);
    list_init(&pool->keepers);
    if (status == VP_OK) status = vet_create(pool);
    if (status == VP_OK && pool->options.record_path)
        status = record_create(pool, pool->options.record_path);
    if (status == VP_OK && pool->options.timeline_path)
        status = timeline_create(pool, pool->options.timeline_path);
    return status;
}

vp_status pool_open_stepped(const struct driver *driver, const vp_options *options,
                            const struct pool_edge *edge, vp_pool **out)
{
    vp_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return VP_NO_HOST_MEMORY;
    pool->driver = driver;
    pool->options = *options;
    pool->edge = edge;
    pool->sample = SAMPLE_AT_EASE;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutex_init(&pool->verifying, NULL);
    pthread_mutex_init(&pool->recording, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pool->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    vp_status status = build(pool);
    if (status == VP_OK && !edge) status = pool_start_mover(pool);
    if (status != VP_OK) {
        vp_close(pool);
        return status;
    }
    *out = pool;
    return VP_OK;
}

vp_status pool_open(const struct driver *driver, const vp_options *options, vp_pool **pool)
{
    return pool_open_stepped(driver, options, NULL, pool);
}

static vp_status make_lane(vp_pool *pool, struct pool_lane *lane)
{
    const struct driver *driver = pool->driver;
    CUresult result = driver->cuStreamCreateWithPriority(&lane->stream, CU_STREAM_NON_BLOCKING, 0);
    if (result != CUDA_SUCCESS) lane->stream = NULL;
    for (unsigned i = 0; i < MOVE_COPIES && result == CUDA_SUCCESS; i++)
        result = driver->cuEventCreate(&lane->events[i], CU_EVENT_DISABLE_TIMING);
    for (unsigned i = 0; i < POOL_PIECES && result == CUDA_SUCCESS; i++)
        result = driver->cuEventCreate(&lane->piece_events[i], CU_EVENT_DISABLE_TIMING);
    return result == CUDA_SUCCESS ? VP_OK
                                  : driver_failed(pool, "making the mover's streams", result);
}

static void destroy_lane(vp_pool *pool, struct pool_lane *lane)
{
    digest_close(pool, lane);
    if (lane->stream) pool_give_stream(pool, lane->stream);
    for (unsigned i = 0; i < MOVE_COPIES; i++)
        if (lane->events[i]) pool_give_event(pool, lane->events[i]);
    for (unsigned i = 0; i < POOL_PIECES; i++)
        if (lane->piece_events[i]) pool_give_event(pool, lane->piece_events[i]);
    memset(lane, 0, sizeof *lane);
}

vp_status pool_attach(vp_pool *pool, unsigned card, CUcontext context)
{
    assert(card < VP_MAX_CARDS);
    struct pool_lane in[MOVE_WAYS] = {0}, out[MOVE_WAYS] = {0};
    bool digests = true;
    vp_status status = VP_OK;
    pool_lock(pool);
    uint32_t ways = pool->move.ways[card], kept = 0;
    pool_unlock(pool);
    for (uint32_t way = 0; way < ways && status == VP_OK; way++) {
        status = make_lane(pool, &in[way]);
        if (status == VP_OK) status = make_lane(pool, &out[way]);
        if (status == VP_OK) digest_open(pool, &in[way], &out[way]);
        digests = digests && in[way].digest && out[way].digest;
    }
    if (status == VP_OK) probe_card(pool, card, out[0].stream);
    pool_lock(pool);
    bool first = status == VP_OK && !pool->context[card];
    if (first) {
        uint32_t near = pool->move.near[card]; /* as measured now */
        kept = near < 1 ? 1 : near < ways ? near : ways;
        pool->move.ways[card] = kept;
        for (uint32_t way = 0; way < kept; way++) {
            pool->lanes[move_lane(card, way, false)] = in[way];
            pool->lanes[move_lane(card, way, true)] = out[way];
        }
        if (digests) pool->move.digests |= 1u << card;
        pool->context[card] = context;
        pool->computes |= 1u << card;
        pool->move.attached |= 1u << card;
    }
    pool_unlock(pool);
    for (uint32_t way = kept; way < ways; way++) {
        destroy_lane(pool, &in[way]);
        destroy_lane(pool, &out[way]);
    }
    return status;
}

/* Unmaps what is mapped at a segment's addresses. */
static void unmap_segment(vp_pool *pool, struct segment *segment)
{
    for (uint32_t i = 0; i < segment->chunk_count; i++) {
        struct chunk *chunk = &segment->chunks[i];
        bool mapped = chunk->state == CHUNK_RESIDENT || chunk->state == CHUNK_SETTLING ||
                      chunk->state == CHUNK_LEAVING || chunk->state == CHUNK_UNMAPPING ||
                      chunk->state == CHUNK_POISONED;
        if (mapped) pool_unmap(pool, chunk_address(chunk), chunk_bytes(&pool->segments, chunk));
    }
    if (segment->guard_pages)
        pool_unmap(pool, segment->base + segment->guard_pages * pool->page_bytes, pool->page_bytes);
    table_clear(segment);
    free(segment->slab);
}

static void release_memory(vp_pool *pool)
{
    const struct driver *driver = pool->driver;
    if (pool->segments.space)
        list_each(node, &pool->segments.all)
            unmap_segment(pool, list_entry(node, struct segment, all));
    for (uint64_t i = 0; i < pool->frames.count; i++) {
        struct frame *frame = pool->frames.by_number[i];
        CUresult result = frame ? pool_release_memory(pool, frame) : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS)
            log_error("memory of %s cannot be given back: %s",
                      pool->frames.place[frame->place].name, driver_error_name(driver, result));
    }
    pool_clear_residue(pool, 0, UINT64_MAX);
    for (unsigned i = 0; i < pool->cards; i++)
        if (pool->guards[i]) pool_give_handle(pool, pool->guards[i]);
    pool_give_orphans(pool);
    if (pool->space.bytes) pool_give_range(pool, pool->space.base, pool->space.bytes);
    if (pool->alias_end > pool->alias_base)
        pool_give_range(pool, pool->alias_base, pool->alias_end - pool->alias_base);
}

static void destroy_marks(vp_pool *pool)
{
    for (unsigned slot = 0; slot < pool->order.count; slot++)
        for (unsigned i = 0; i < ORDER_MARKS; i++) {
            CUevent event = pool->order.stream[slot]->marks[i].event;
            if (event) pool_give_event(pool, event);
        }
}

/* Each in its context. */
static void destroy_lanes(vp_pool *pool)
{
    for (unsigned i = 0; i < MOVE_LANES; i++) {
        unsigned card = move_lane_card(i);
        CUcontext before, context = card < pool->cards ? pool->context[card] : NULL;
        if (context) pool_enter_context(pool, context, &before);
        destroy_lane(pool, &pool->lanes[i]);
    }
}

void vp_close(vp_pool *pool)
{
    if (!pool) return;
    if (pool->movers) pool_stop_mover(pool);
    foresee_destroy(pool);
    for (unsigned card = 0; card < pool->cards; card++) {
        if (!pool->context[card]) continue;
        pool_drain_context(pool, pool->context[card]);
    }
    record_destroy(pool);
    vet_destroy(pool);
    keep_destroy(pool);
    destroy_marks(pool);
    destroy_lanes(pool);
    release_memory(pool);
    params_destroy(&pool->params);
    if (pool->slabs.spare.next) slabs_destroy(&pool->slabs);
    if (pool->segments.space) segments_destroy(&pool->segments);
    order_destroy(&pool->order);
    frame_table_destroy(&pool->frames);
    space_destroy(&pool->space);
    free(pool->alias_free);
    pthread_cond_destroy(&pool->changed);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->verifying);
    pthread_mutex_destroy(&pool->recording);
    timeline_destroy(pool);
    if (pool->owned_driver) driver_unload(pool->owned_driver);
    free(pool->owned_driver);
    free(pool);
}
