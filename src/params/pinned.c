#include "params/pinned.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/units.h"

_Atomic(vp_addr) pinned_first, pinned_end;

static const uint64_t whole_bytes = MIB, part_bytes = 64 * KIB;

/* Launches read; whoever frees memory must not wait for all that go on launching. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static struct pinned_range *ranges; /* under `lock`, like the rest: by address, none overlap */
static size_t range_count, range_room;

/* The first range that ends behind `at`. */
static size_t find(vp_addr at)
{
    size_t low = 0, high = range_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].end > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Two words, read apart: a range on the list is between whatever is read. */
static void show_hull(void)
{
    atomic_store(&pinned_first, range_count ? ranges[0].start : 0);
    atomic_store(&pinned_end, range_count ? ranges[range_count - 1].end : 0);
}

static void drop(size_t first, size_t end)
{
    if (first == end) return; /* perhaps there is no list yet */
    memmove(&ranges[first], &ranges[end], (range_count - end) * sizeof *ranges);
    range_count -= end - first;
}

static bool grow(void)
{
    if (range_count < range_room) return true;
    size_t room = range_room ? 2 * range_room : 64;
    struct pinned_range *grown = realloc(ranges, room * sizeof *grown);
    if (!grown) return false;
    ranges = grown;
    range_room = room;
    return true;
}

static bool add(const struct pinned_range *range)
{
    size_t first = find(range->start), end = first;
    while (end < range_count && ranges[end].start < range->end) end++;
    drop(first, end);
    if (!grow()) return false;
    memmove(&ranges[first + 1], &ranges[first], (range_count - first) * sizeof *ranges);
    ranges[first] = *range;
    range_count++;
    return true;
}

void pinned_add(const struct pinned_range *range)
{
    if (!range->start || range->end <= range->start) return;
    pthread_rwlock_wrlock(&lock);
    bool added = add(range);
    show_hull();
    pthread_rwlock_unlock(&lock);
    if (!added)
        log_warn("out of memory: addresses of the pool in pinned host memory at %#llx are not seen",
                 (unsigned long long)range->start);
}

bool pinned_remove(const void *start, struct pinned_range *range)
{
    pthread_rwlock_wrlock(&lock);
    vp_addr at = (uintptr_t)start;
    size_t i = find(at);
    bool found = i < range_count && ranges[i].start == at;
    if (found) {
        *range = ranges[i];
        drop(i, i + 1);
        show_hull();
    }
    pthread_rwlock_unlock(&lock);
    return found;
}

void pinned_context_ends(const void *context)
{
    pthread_rwlock_wrlock(&lock);
    size_t kept = 0;
    for (size_t i = 0; i < range_count; i++)
        if (ranges[i].context != context) ranges[kept++] = ranges[i];
    range_count = kept;
    show_hull();
    pthread_rwlock_unlock(&lock);
}

void pinned_forget(void)
{
    static const pthread_rwlock_t fresh = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    lock = fresh;
    ranges = NULL; /* somebody may have been changing it: left alone */
    range_count = range_room = 0;
    show_hull();
}

/* ---- Looking through it ---- */

static vp_addr round_up(vp_addr at)
{
    return (at + sizeof(vp_addr) - 1) & ~(vp_addr)(sizeof(vp_addr) - 1);
}

/* What to look at for an address in the range: from an aligned address on, as pointers are. */
static struct pinned_range piece_of(const struct pinned_range *range, vp_addr at)
{
    struct pinned_range piece = *range;
    if (range->end - range->start > whole_bytes) {
        vp_addr aligned = at & ~(vp_addr)(sizeof(vp_addr) - 1);
        if (aligned > piece.start) piece.start = aligned;
        if (piece.end - piece.start > part_bytes) piece.end = piece.start + part_bytes;
    }
    piece.start = round_up(piece.start);
    return piece;
}

/* Words that are addresses in [base, base + bytes), and how many were found; one that comes again
 * at once counts once. */
struct harvest {
    vp_addr base, last;
    uint64_t bytes;
    vp_addr *words;
    unsigned room, found;
};

static void scan_words(struct harvest *harvest, const void *memory, size_t bytes)
{
    for (size_t at = 0; at + sizeof(vp_addr) <= bytes; at += sizeof(vp_addr)) {
        vp_addr word;
        memcpy(&word, (const char *)memory + at, sizeof word);
        if (word - harvest->base >= harvest->bytes || word == harvest->last) continue;
        harvest->last = word;
        if (harvest->found < harvest->room) harvest->words[harvest->found] = word;
        harvest->found++;
    }
}

/* Copies what is there of our own memory, from the start on; returns how much that is. */
static size_t read_own(vp_addr from, void *to, size_t bytes)
{
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)from, bytes}; /* NOLINT */
    int before = errno;
    ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    if (got < 0 && (errno == EPERM || errno == ENOSYS)) { /* some containers forbid it */
        memcpy(to, there.iov_base, bytes);
        got = (ssize_t)bytes;
    }
    errno = before;
    return got < 0 ? 0 : (size_t)got;
}

static void scan_registered(struct harvest *harvest, const struct pinned_range *piece)
{
    vp_addr part[2048];
    for (vp_addr at = piece->start; at < piece->end; at += sizeof part) {
        size_t bytes = piece->end - at < sizeof part ? piece->end - at : sizeof part;
        size_t got = read_own(at, part, bytes);
        scan_words(harvest, part, got);
        if (got < bytes) return;
    }
}

unsigned pinned_scan(const vp_addr *named, unsigned count, vp_addr base, uint64_t bytes,
                     vp_addr *words, unsigned room)
{
    struct harvest harvest = {.base = base, .bytes = bytes, .words = words, .room = room};
    vp_addr seen = 0; /* where the piece before began: parameters name one range again and again */
    pthread_rwlock_rdlock(&lock);
    for (unsigned i = 0; i < count; i++) {
        size_t at = find(named[i]);
        if (at == range_count || ranges[at].start > named[i]) continue;
        struct pinned_range piece = piece_of(&ranges[at], named[i]);
        if (piece.start == seen) continue;
        seen = piece.start;
        harvest.last = 0;
        if (piece.start >= piece.end) continue;
        if (piece.registered)
            scan_registered(&harvest, &piece);
        else
            scan_words(&harvest, (const void *)(uintptr_t)piece.start, /* NOLINT */
                       piece.end - piece.start);
    }
    pthread_rwlock_unlock(&lock);
    return harvest.found;
}
