#include "pool/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/random.h"
#include "base/units.h"

enum { COPIES = 4, MOMENTS = 4 };

static const uint64_t most_bytes = 4 * MIB;
static const double clearly = 1.1;

struct probe {
    vp_pool *pool;
    CUstream stream;
    uint64_t bytes;
    CUdeviceptr near;
    uint64_t *words; /* pinned */
    CUevent moments[MOMENTS];
};

/* Where a card's chunks go, as it was: others may attach the same card meanwhile. */
struct refuges {
    uint32_t count, place[VP_MAX_PLACES];
};

static struct refuges refuges_of(vp_pool *pool, unsigned card)
{
    struct refuges refuges;
    pool_lock(pool);
    refuges.count = pool->move.refuges[card];
    memcpy(refuges.place, pool->move.refuge[card], sizeof refuges.place);
    pool_unlock(pool);
    return refuges;
}

/* Which of a card's rates is that of a place. */
static unsigned index_of(const struct frame_place *place)
{
    return place->kind == VP_PLACE_HOST ? RATES_HOST : (unsigned)place->id;
}

/* ---- Order ---- */

/* There and back; of what is not known nothing speaks against it. */
static double rate_of(const struct rate *rate)
{
    if (rate->out_gbps <= 0 || rate->in_gbps <= 0) return 0;
    return 2 / (1 / rate->out_gbps + 1 / rate->in_gbps);
}

/* How many of the first are cards no slower than the first by a tenth. */
static uint32_t count_near(const vp_pool *pool, unsigned card, const struct rate *rates)
{
    const struct move *move = &pool->move;
    double first = 0;
    for (uint32_t i = 0; i < move->refuges[card]; i++) {
        const struct frame_place *place = &pool->frames.place[move->refuge[card][i]];
        double gbps = rate_of(&rates[index_of(place)]);
        if (i == 0) first = gbps;
        if (place->kind != VP_PLACE_CARD || clearly * gbps < first) return i;
    }
    return move->refuges[card];
}

void probe_order(vp_pool *pool, unsigned card, const struct rate *rates)
{
    struct move *move = &pool->move;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < move->refuges[card]; i++) {
        unsigned place = move->refuge[card][i];
        const struct frame_place *there = &pool->frames.place[place];
        const struct rate *rate = &rates[index_of(there)];
        bool broken = rate->out_gbps == RATE_BROKEN || rate->in_gbps == RATE_BROKEN;
        if (broken && there->kind == VP_PLACE_CARD) continue;
        double gbps = rate_of(rate);
        uint32_t at = kept++;
        for (; at > 0 && gbps > 0; at--) {
            unsigned before = move->refuge[card][at - 1];
            double other = rate_of(&rates[index_of(&pool->frames.place[before])]);
            if (other <= 0 || gbps <= clearly * other) break;
            move->refuge[card][at] = before;
        }
        move->refuge[card][at] = place;
    }
    move->refuges[card] = kept;
    move->near[card] = count_near(pool, card, rates);
}

/* ---- Measuring ---- */

static void fill_words(uint64_t *words, uint64_t bytes, uint64_t seed)
{
    struct random random = {seed};
    for (uint64_t i = 0; i < bytes / sizeof *words; i++) words[i] = random_next(&random);
}

static bool holds_words(const uint64_t *words, uint64_t bytes, uint64_t seed)
{
    struct random random = {seed};
    for (uint64_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != random_next(&random)) return false;
    return true;
}

static CUresult queue_copies(const struct probe *probe, CUdeviceptr to, CUdeviceptr from,
                             CUevent before, CUevent after)
{
    const struct driver *driver = probe->pool->driver;
    CUresult result = driver->cuEventRecord(before, probe->stream);
    for (unsigned i = 0; i < COPIES && result == CUDA_SUCCESS; i++)
        result = driver->cuMemcpyAsync(to, from, probe->bytes, probe->stream);
    if (result == CUDA_SUCCESS) result = driver->cuEventRecord(after, probe->stream);
    return result;
}

/* There, forgotten here, and back. */
static CUresult queue_all(const struct probe *probe, CUdeviceptr far)
{
    const struct driver *driver = probe->pool->driver;
    CUdeviceptr words = (CUdeviceptr)(uintptr_t)probe->words;
    const CUevent *at = probe->moments;
    CUresult result = driver->cuMemcpyAsync(probe->near, words, probe->bytes, probe->stream);
    if (result == CUDA_SUCCESS) result = queue_copies(probe, far, probe->near, at[0], at[1]);
    if (result == CUDA_SUCCESS)
        result = driver->cuMemsetD8Async(probe->near, 0, probe->bytes, probe->stream);
    if (result == CUDA_SUCCESS) result = queue_copies(probe, probe->near, far, at[2], at[3]);
    if (result == CUDA_SUCCESS)
        result = driver->cuMemcpyAsync(words, probe->near, probe->bytes, probe->stream);
    return result;
}

static double gbps_between(const struct probe *probe, unsigned first)
{
    float ms = 0;
    CUresult result = probe->pool->driver->cuEventElapsedTime(&ms, probe->moments[first],
                                                              probe->moments[first + 1]);
    double bytes = (double)probe->bytes * COPIES;
    return result == CUDA_SUCCESS && ms > 0 ? bytes / (1e6 * (double)ms) : 0;
}

/* Memory of the place for the moment; not counted in its share. */
static void try_place(const struct probe *probe, unsigned place, struct rate *rate)
{
    struct frame far = {.pages = (uint32_t)(probe->bytes / probe->pool->page_bytes)};
    uint64_t seed = place + 1;
    if (pool_make_memory(probe->pool, place, probe->bytes, &far.handle, &far.alias) != CUDA_SUCCESS)
        return;
    fill_words(probe->words, probe->bytes, seed);
    CUresult result = far.alias ? queue_all(probe, far.alias) : CUDA_ERROR_INVALID_VALUE;
    pool_drain_stream(probe->pool, probe->stream);
    if (result == CUDA_SUCCESS) {
        rate->out_gbps = gbps_between(probe, 0);
        rate->in_gbps = gbps_between(probe, 2);
        if (!holds_words(probe->words, probe->bytes, seed))
            rate->out_gbps = rate->in_gbps = RATE_BROKEN;
    }
    if (pool_release_memory(probe->pool, &far) != CUDA_SUCCESS)
        log_warn("memory of %s that was tried out cannot be given back",
                 probe->pool->frames.place[place].name);
}

static CUresult begin(struct probe *probe)
{
    const struct driver *driver = probe->pool->driver;
    void *words = NULL;
    CUresult result = driver->cuMemAlloc_v2(&probe->near, probe->bytes);
    if (result != CUDA_SUCCESS) probe->near = 0;
    if (result == CUDA_SUCCESS) result = driver->cuMemHostAlloc(&words, probe->bytes, 0);
    if (result == CUDA_SUCCESS) probe->words = words;
    for (unsigned i = 0; i < MOMENTS && result == CUDA_SUCCESS; i++)
        result = driver->cuEventCreate(&probe->moments[i], 0);
    return result;
}

static void end(struct probe *probe)
{
    for (unsigned i = 0; i < MOMENTS; i++)
        if (probe->moments[i]) pool_give_event(probe->pool, probe->moments[i]);
    if (probe->words) pool_give_host(probe->pool, probe->words);
    if (probe->near && probe->pool->driver->cuMemFree_v2(probe->near) != CUDA_SUCCESS)
        log_warn("memory for trying out links cannot be given back");
}

static void measure(vp_pool *pool, unsigned card, const struct refuges *refuges, CUstream stream,
                    struct rate *rates)
{
    uint64_t chunk = pool->segments.chunk_pages * pool->page_bytes, began = pool_now_ns(pool);
    struct probe probe = {
        .pool = pool, .stream = stream, .bytes = chunk < most_bytes ? chunk : most_bytes};
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* this disturbs no capture of the program's */
    bool relaxes = pool_exchange_mode(pool, &mode) == CUDA_SUCCESS;
    bool ready = begin(&probe) == CUDA_SUCCESS;
    for (uint32_t i = 0; i < refuges->count && ready; i++) {
        unsigned place = refuges->place[i];
        const struct frame_place *there = &pool->frames.place[place];
        struct rate *rate = &rates[index_of(there)];
        if (there->capacity_pages * pool->page_bytes < probe.bytes) continue;
        try_place(&probe, place, rate);
        log_debug("card%u to %s: %.1f GB/s there, %.1f back", card, there->name, rate->out_gbps,
                  rate->in_gbps);
        if (rate->out_gbps == RATE_BROKEN)
            log_error("data does not arrive in %s from card%u as it was sent: it is not used. The "
                      "driver says that it can be: see dmesg for what may be wrong (IOMMU, ACS)",
                      there->name, card);
    }
    end(&probe);
    if (relaxes) pool_exchange_mode(pool, &mode);
    log_debug("the links of card%u were measured in %.1f ms", card,
              (double)(pool_now_ns(pool) - began) / NS_PER_MS);
}

/* ---- Remembering ---- */

/* The cards that are here, the driver, and how much was copied. */
static void name_cards(const vp_pool *pool, char *text, size_t size)
{
    int version = 0;
    char line[128] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    if (file && !fgets(line, sizeof line, file)) *line = '\0';
    if (file) fclose(file);
    pool->driver->cuDriverGetVersion(&version);
    size_t used = (size_t)snprintf(text, size, "%d %s %u", version, line, pool->cards);
    for (unsigned card = 0; card < pool->cards && used + 64 < size; card++) {
        CUuuid uuid = {{0}};
        if (pool->driver->cuDeviceGetUuid_v2(&uuid, (CUdevice)card) != CUDA_SUCCESS) break;
        text[used++] = ' ';
        for (unsigned i = 0; i < sizeof uuid.bytes; i++)
            used += (size_t)snprintf(text + used, size - used, "%02x",
                                     (unsigned)(unsigned char)uuid.bytes[i]);
    }
}

static bool is_complete(const vp_pool *pool, const struct refuges *refuges,
                        const struct rate *rates)
{
    for (uint32_t i = 0; i < refuges->count; i++) {
        const struct frame_place *place = &pool->frames.place[refuges->place[i]];
        if (place->capacity_pages && rates[index_of(place)].out_gbps == 0) return false;
    }
    return true;
}

void probe_card(vp_pool *pool, unsigned card, CUstream stream)
{
    char folder[RATES_PATH], cards[2048], boot[64];
    struct refuges refuges = refuges_of(pool, card);
    if (pool->edge || refuges.count < 2) return; /* nothing to choose from */
    bool keeps = pool->driver->cuDeviceGetUuid_v2 && rates_folder(folder, sizeof folder);
    struct rates known;
    rates_boot("", boot, sizeof boot);
    name_cards(pool, cards, sizeof cards);
    if (!keeps || !rates_load(folder, cards, boot, &known)) memset(&known, 0, sizeof known);
    if (!is_complete(pool, &refuges, known.of[card])) {
        measure(pool, card, &refuges, stream, known.of[card]);
        if (keeps && is_complete(pool, &refuges, known.of[card]) &&
            !rates_store(folder, cards, boot, &known))
            log_debug("the rates of links cannot be kept in %s: they are measured each time",
                      folder);
    }
    pool_lock(pool);
    probe_order(pool, card, known.of[card]);
    pool_unlock(pool);
}
