#include "plan/translate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cuckoo.h"

/* Times that no machine file has. The cache is taken to be as fast as a GPU's second-level TLB,
 * about 100 cycles; the filter is two rows of on-chip memory, read at once. The controller takes a
 * lookup (7 ns on average, bench/lookup) and a cache miss for the request and for the answer. */
enum { CACHE_NS = 60, FILTER_NS = 10, SERVICE_NS = 100, HBM_NS = 600 };

enum { MOST_ENTRIES = 1 << 24 };

enum { NOWHERE = UINT8_MAX };
#define NO_PAGE UINT32_MAX

struct entry {
    uint32_t page;
    uint64_t used; /* the turn in which it was asked for last */
};

struct card {
    struct entry *entries; /* TRANSLATE_WAYS of each set */
    uint32_t sets, ways;
    struct cuckoo remote;
    bool blind; /* the filter was full once: everything seems remote */
    struct translate_count count[VP_MAX_CARDS + 1];
};

struct translate {
    unsigned cards;
    uint32_t page_count;
    uint32_t host_ns[VP_MAX_CARDS]; /* there and back */
    uint32_t table_ns;
    uint8_t *place;   /* of each page */
    uint64_t free_ns; /* when the controller has done what it was asked for so far */
    uint64_t turn, moves;
    struct translate_times times;
    struct card card[VP_MAX_CARDS];
};

static bool make_card(const struct machine *machine, unsigned number, uint64_t page_bytes,
                      uint32_t page_count, struct card *card)
{
    uint64_t entries = machine->hbm_bytes[number] / 100 * TRANSLATE_PERCENT / page_bytes;
    if (entries > MOST_ENTRIES) entries = MOST_ENTRIES;
    card->ways = entries < TRANSLATE_WAYS ? (uint32_t)entries + !entries : TRANSLATE_WAYS;
    card->sets = (uint32_t)entries / card->ways + (entries < card->ways);
    card->entries = malloc((size_t)card->sets * card->ways * sizeof *card->entries);
    if (!card->entries) return false;
    for (uint32_t i = 0; i < card->sets * card->ways; i++)
        card->entries[i] = (struct entry){.page = NO_PAGE};
    return cuckoo_create(page_count, TRANSLATE_FILTER_BITS, &card->remote) == VP_OK;
}

vp_status translate_create(const struct machine *machine, uint64_t page_bytes, uint32_t page_count,
                           struct translate **translate)
{
    assert(page_bytes > 0 && page_count < NO_PAGE);
    struct translate *made = calloc(1, sizeof *made);
    bool fine = made && (made->place = malloc(page_count + 1u));
    if (fine) {
        made->cards = machine->cards;
        made->page_count = page_count;
        made->table_ns = machine->hbm_latency_ns ? machine->hbm_latency_ns : HBM_NS;
        memset(made->place, NOWHERE, page_count + 1u);
    }
    for (unsigned i = 0; fine && i < machine->cards; i++) {
        made->host_ns[i] = machine->path[i][machine->cards].latency_ns;
        fine = make_card(machine, i, page_bytes, page_count, &made->card[i]);
    }
    if (!fine) {
        translate_destroy(made);
        return VP_NO_HOST_MEMORY;
    }
    *translate = made;
    return VP_OK;
}

void translate_destroy(struct translate *translate)
{
    if (!translate) return;
    for (unsigned i = 0; i < translate->cards; i++) {
        free(translate->card[i].entries);
        cuckoo_destroy(&translate->card[i].remote);
    }
    free(translate->place);
    free(translate);
}

/* The cache. */

/* Neighbours lie in different sets, so that a range of pages up to the cache's size fits. */
static struct entry *set_of(const struct card *card, uint32_t page)
{
    return &card->entries[(size_t)(page % card->sets) * card->ways];
}

static struct entry *find_entry(const struct card *card, uint32_t page)
{
    struct entry *set = set_of(card, page);
    for (uint32_t i = 0; i < card->ways; i++)
        if (set[i].page == page) return &set[i];
    return NULL;
}

/* In the place of the entry that was not asked for for longest. */
static void enter(struct card *card, uint32_t page, uint64_t turn)
{
    struct entry *set = set_of(card, page), *oldest = set;
    for (uint32_t i = 0; i < card->ways; i++) {
        if (set[i].page == page) {
            oldest = &set[i];
            break;
        }
        if (set[i].used < oldest->used) oldest = &set[i];
    }
    *oldest = (struct entry){page, turn};
}

static void forget(struct card *card, uint32_t page)
{
    struct entry *entry = find_entry(card, page);
    if (entry) *entry = (struct entry){.page = NO_PAGE};
}

/* The filter. */

static void set_remote(struct card *card, uint32_t page, bool was, bool is)
{
    if (card->blind || was == is) return;
    if (!is) {
        bool removed = cuckoo_remove(&card->remote, page);
        assert(removed);
        (void)removed;
    } else if (!cuckoo_add(&card->remote, page)) {
        card->blind = true;
    }
}

static bool seems_remote(const struct card *card, uint32_t page)
{
    return card->blind || cuckoo_has(&card->remote, page);
}

/* The controller does one thing at a time. Returns when it has done what it is asked for at
 * `asked_ns`. */
static uint64_t serve(struct translate *translate, uint64_t asked_ns)
{
    uint64_t start_ns = asked_ns > translate->free_ns ? asked_ns : translate->free_ns;
    translate->free_ns = start_ns + SERVICE_NS;
    return translate->free_ns;
}

void translate_place(struct translate *translate, uint32_t page, unsigned place, uint64_t now_ns)
{
    assert(page < translate->page_count && place <= translate->cards);
    unsigned before = translate->place[page];
    if (before == place) return;
    serve(translate, now_ns);
    translate->moves += before != NOWHERE;
    for (unsigned i = 0; i < translate->cards; i++) {
        struct card *card = &translate->card[i];
        forget(card, page);
        set_remote(card, page, before != NOWHERE && before != i, place != i);
    }
    translate->place[page] = (uint8_t)place;
    if (place < translate->cards) enter(&translate->card[place], page, ++translate->turn);
}

static unsigned bucket_of(uint64_t ns)
{
    unsigned shift = 0;
    while (ns >> shift >= 2 * TRANSLATE_STEPS) shift++;
    return shift * TRANSLATE_STEPS + (unsigned)(ns >> shift);
}

/* The longest time in a bucket. */
static uint64_t bucket_ns(unsigned bucket)
{
    if (bucket < 2 * TRANSLATE_STEPS) return bucket;
    unsigned shift = bucket / TRANSLATE_STEPS - 1;
    uint64_t first = TRANSLATE_STEPS + bucket % TRANSLATE_STEPS;
    return ((first + 1) << shift) - 1;
}

static void note(struct translate *translate, struct translate_count *count, uint64_t ns)
{
    count->asked++;
    count->time_ns += ns;
    if (ns > count->worst_ns) count->worst_ns = ns;
    translate->times.count[bucket_of(ns)]++;
}

uint64_t translate_ask(struct translate *translate, unsigned number, uint32_t page, uint64_t now_ns)
{
    assert(number < translate->cards && page < translate->page_count);
    assert(translate->place[page] != NOWHERE);
    unsigned place = translate->place[page];
    struct card *card = &translate->card[number];
    struct translate_count *count = &card->count[place];
    struct entry *entry = find_entry(card, page);
    uint64_t ns = CACHE_NS;
    if (entry) {
        entry->used = ++translate->turn;
        count->hits++;
        note(translate, count, ns);
        return ns;
    }
    ns += FILTER_NS;
    if (seems_remote(card, page)) {
        uint64_t there_ns = now_ns + ns + translate->host_ns[number] / 2;
        uint64_t done_ns = serve(translate, there_ns);
        count->controlled++;
        count->mistaken += place == number;
        count->waited_ns += done_ns - there_ns - SERVICE_NS;
        ns += translate->host_ns[number] + (done_ns - there_ns);
    } else {
        assert(place == number); /* otherwise memory that is not there would be read */
        count->local++;
        ns += translate->table_ns;
    }
    enter(card, page, ++translate->turn);
    note(translate, count, ns);
    return ns;
}

/* Counters. */

const struct translate_count *translate_count(const struct translate *translate, unsigned card,
                                              unsigned place)
{
    assert(card < translate->cards && place <= translate->cards);
    return &translate->card[card].count[place];
}

void translate_add(struct translate_count *sum, const struct translate_count *count)
{
    sum->asked += count->asked;
    sum->hits += count->hits;
    sum->local += count->local;
    sum->controlled += count->controlled;
    sum->mistaken += count->mistaken;
    sum->time_ns += count->time_ns;
    sum->waited_ns += count->waited_ns;
    if (count->worst_ns > sum->worst_ns) sum->worst_ns = count->worst_ns;
}

double translate_average_ns(const struct translate_count *count)
{
    return count->asked ? (double)count->time_ns / (double)count->asked : 0;
}

uint64_t translate_quantile_ns(const struct translate *translate, double share)
{
    assert(share >= 0 && share <= 1);
    uint64_t total = 0, seen = 0;
    for (unsigned i = 0; i < TRANSLATE_BUCKETS; i++) total += translate->times.count[i];
    for (unsigned i = 0; i < TRANSLATE_BUCKETS && total > 0; i++) {
        seen += translate->times.count[i];
        if ((double)seen > share * (double)(total - 1)) return bucket_ns(i);
    }
    return 0;
}

void translate_reset(struct translate *translate)
{
    memset(&translate->times, 0, sizeof translate->times);
    translate->moves = 0;
    for (unsigned i = 0; i < translate->cards; i++)
        memset(translate->card[i].count, 0, sizeof translate->card[i].count);
}

uint32_t translate_entries(const struct translate *translate, unsigned card)
{
    return translate->card[card].sets * translate->card[card].ways;
}

uint64_t translate_moves(const struct translate *translate)
{
    return translate->moves;
}

static bool card_is_valid(const struct translate *translate, unsigned number)
{
    const struct card *card = &translate->card[number];
    uint32_t remote = 0;
    for (uint32_t i = 0; i < card->sets * card->ways; i++) {
        uint32_t page = card->entries[i].page;
        if (page == NO_PAGE) continue;
        if (page >= translate->page_count || translate->place[page] == NOWHERE) return false;
        if (find_entry(card, page) != &card->entries[i]) return false; /* twice, or astray */
    }
    for (uint32_t page = 0; page < translate->page_count; page++) {
        if (translate->place[page] == NOWHERE || translate->place[page] == number) continue;
        remote++;
        if (!seems_remote(card, page)) return false;
    }
    return card->blind || card->remote.count == remote;
}

bool translate_is_valid(const struct translate *translate)
{
    for (unsigned i = 0; i < translate->cards; i++)
        if (!card_is_valid(translate, i)) return false;
    return true;
}
