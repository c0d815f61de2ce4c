/* What translation in layers would cost on an emulated machine: plan/translate.h, driven as the
 * benchmark drives links. In each place lies an operand; each card streams through all of them, one
 * after the other, a number of rounds each, at the rates of its links, and all cards at once, so
 * that they meet at the controller. A page is asked for once each time that a card comes to it:
 * what a card asks for again while it is there would be answered by the cache, so averages are from
 * above.
 *
 * And the other end: all memory in use, each card with one load after the other from anywhere in
 * it. There no cache helps, and the controller is what everybody waits for. */
#include <assert.h>
#include <stdlib.h>

#include "base/random.h"
#include "base/setting.h"
#include "bench.h"
#include "cli.h"
#include "plan/plan.h"
#include "plan/translate.h"

enum { ROUNDS = 100 /* as in the reference */, UNIFORM_ASKS = 1 << 18 };

struct stream {
    uint64_t now_ns;
    double page_ns; /* for the bytes of one page */
    uint32_t page, round;
    unsigned place;
};

struct drive {
    const struct machine *machine;
    struct translate *translate;
    uint64_t page_bytes;
    uint32_t pages; /* of each operand */
    struct stream stream[VP_MAX_CARDS];
    double cold_ns;
    uint64_t cold;
};

/* The card that is furthest behind asks for its next page. False: all have done their rounds. */
static bool ask_next(struct drive *drive)
{
    struct stream *next = NULL;
    for (unsigned card = 0; card < drive->machine->cards; card++) {
        struct stream *stream = &drive->stream[card];
        if (stream->round < ROUNDS && (!next || stream->now_ns < next->now_ns)) next = stream;
    }
    if (!next) return false;
    uint64_t ns = translate_ask(drive->translate, (unsigned)(next - drive->stream),
                                next->place * drive->pages + next->page, next->now_ns);
    if (next->round == 0) {
        drive->cold_ns += (double)ns;
        drive->cold++;
    }
    next->now_ns += ns + (uint64_t)next->page_ns;
    if (++next->page == drive->pages) {
        next->page = 0;
        next->round++;
    }
    return true;
}

/* Card c begins with place c, so that no two stream from the same place. */
static void stream_all(struct drive *drive)
{
    const struct machine *machine = drive->machine;
    unsigned places = machine->cards + 1;
    uint64_t now_ns = 0;
    for (uint32_t page = 0; page < places * drive->pages; page++)
        translate_place(drive->translate, page, page / drive->pages, now_ns);
    translate_reset(drive->translate);
    for (unsigned shift = 0; shift < places; shift++) {
        for (unsigned card = 0; card < machine->cards; card++)
            if (drive->stream[card].now_ns > now_ns) now_ns = drive->stream[card].now_ns;
        for (unsigned card = 0; card < machine->cards; card++) {
            unsigned place = (card + shift) % places;
            double gbps = machine->path[place][card].gbps;
            drive->stream[card] = (struct stream){
                .now_ns = now_ns, .page_ns = (double)drive->page_bytes / gbps, .place = place};
        }
        while (ask_next(drive)) {
        }
    }
}

/* Each place has its part of the pages, in order. */
static void place_all(struct translate *translate, const struct machine *machine,
                      uint64_t page_bytes, uint32_t pages, uint8_t *place_of)
{
    uint32_t page = 0;
    for (unsigned place = 0; place <= machine->cards; place++) {
        uint64_t bytes = place < machine->cards ? machine->hbm_bytes[place] : machine->host_bytes;
        for (uint64_t i = 0; i < bytes / page_bytes && page < pages; i++) {
            place_of[page] = (uint8_t)place;
            translate_place(translate, page++, place, 0);
        }
    }
    translate_reset(translate);
}

static struct translate_count ask_anywhere(struct translate *translate,
                                           const struct machine *machine, uint32_t pages,
                                           const uint8_t *place_of)
{
    struct random random = {.state = 1};
    struct translate_count sum = {0};
    uint64_t now_ns[VP_MAX_CARDS] = {0};
    for (unsigned i = 0; i < UNIFORM_ASKS; i++) {
        unsigned next = 0;
        for (unsigned card = 1; card < machine->cards; card++)
            if (now_ns[card] < now_ns[next]) next = card;
        uint32_t page = (uint32_t)random_below(&random, pages);
        now_ns[next] += translate_ask(translate, next, page, now_ns[next]) +
                        machine->path[next][place_of[page]].latency_ns;
    }
    for (unsigned card = 0; card < machine->cards; card++)
        for (unsigned place = 0; place <= machine->cards; place++)
            translate_add(&sum, translate_count(translate, card, place));
    return sum;
}

static bool measure_uniform(struct bench *bench, uint64_t page_bytes)
{
    const struct machine *machine = &bench->described;
    uint64_t pages = machine->host_bytes / page_bytes;
    for (unsigned card = 0; card < machine->cards; card++)
        pages += machine->hbm_bytes[card] / page_bytes;
    struct translate *translate = NULL;
    uint8_t *place_of = pages < UINT32_MAX ? malloc(pages + 1) : NULL;
    bool fine =
        place_of && translate_create(machine, page_bytes, (uint32_t)pages, &translate) == VP_OK;
    if (fine) {
        place_all(translate, machine, page_bytes, (uint32_t)pages, place_of);
        struct translate_count sum = ask_anywhere(translate, machine, (uint32_t)pages, place_of);
        bench->translation.uniform_ns = translate_average_ns(&sum);
        bench->translation.uniform_hit_share = (double)sum.hits / (double)sum.asked;
        bench->translation.uniform_wait_ns =
            sum.controlled ? (double)sum.waited_ns / (double)sum.controlled : 0;
        translate_destroy(translate);
    }
    free(place_of);
    return fine;
}

/* Fills in bench->translation and each pair that a card is at one end of. */
static void read_counts(const struct drive *drive, struct bench *bench)
{
    struct bench_translation *all = &bench->translation;
    struct translate_count sum = {0};
    for (unsigned i = 0; i < bench->pairs; i++) {
        struct bench_pair *pair = &bench->pair[i];
        bool from_host = pair->from == bench->cards;
        const struct translate_count *count = translate_count(
            drive->translate, from_host ? pair->to : pair->from, from_host ? pair->from : pair->to);
        pair->translation_ns = translate_average_ns(count);
        if (pair->translation_ns > all->worst_pair_ns) all->worst_pair_ns = pair->translation_ns;
        if (!from_host) translate_add(&sum, count);
    }
    all->rounds = ROUNDS;
    all->page_bytes = drive->page_bytes;
    all->operand_bytes = drive->pages * drive->page_bytes;
    all->entries = translate_entries(drive->translate, 0);
    all->average_ns = translate_average_ns(&sum);
    all->p99_ns = (double)translate_quantile_ns(drive->translate, 0.99);
    all->cold_ns = drive->cold_ns / (double)drive->cold;
    all->hit_share = (double)sum.hits / (double)sum.asked;
    all->controller_share = (double)sum.controlled / (double)sum.asked;
    all->wait_ns = sum.controlled ? (double)sum.waited_ns / (double)sum.controlled : 0;
}

bool bench_translate(struct bench *bench)
{
    const struct machine *machine = &bench->described;
    struct drive drive = {.machine = machine};
    uint64_t least_bytes = machine->host_bytes;
    for (unsigned card = 0; card < machine->cards; card++)
        if (machine->hbm_bytes[card] < least_bytes) least_bytes = machine->hbm_bytes[card];
    drive.page_bytes = setting_chunk_bytes(machine->hbm_bytes[0], machine->granularity_bytes);
    uint64_t operand = bench->asked_bytes < least_bytes / 2 ? bench->asked_bytes : least_bytes / 2;
    drive.pages = (uint32_t)(operand / drive.page_bytes);
    if (drive.pages == 0) drive.pages = 1;
    if (translate_create(machine, drive.page_bytes, (machine->cards + 1) * drive.pages,
                         &drive.translate) != VP_OK) {
        cli_fail(1, "bench: no memory for the model of translation");
        return false;
    }
    stream_all(&drive);
    read_counts(&drive, bench);
    translate_destroy(drive.translate);
    if (measure_uniform(bench, drive.page_bytes)) return true;
    cli_fail(1, "bench: no memory for the model of translation");
    return false;
}
