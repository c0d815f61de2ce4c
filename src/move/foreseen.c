/* What to do ahead of need, where it is foretold what will be used when.
 *
 * In: the absent chunk that is used next comes home as soon as there is room for it and for all
 * that will be born before its use. Out: operations ahead are walked through with the room there
 * is, what comes to live and die, and what is due to come back; where room runs short (the
 * frontier), the idle chunk whose use is furthest, beyond the frontier, leaves at once. Both links
 * so run side by side, as early as the room allows (Belady's choice, made early). While the link
 * out has nothing to do, what left at some time of the last period is copied ahead of that, and
 * stays: if it is not written until then, it leaves without a copy. Chunks of dead
 * blocks keep their frames mapped for the next block at that address, and give them up in the order
 * of furthest next use; those born soon are mapped ahead. */
#include <assert.h>
#include <string.h>

#include "move/backup.h"
#include "move/policy.h"
#include "move/refuge.h"

enum {
    IN_FLIGHT = 4,     /* copies in, queued at once: enough to keep the link busy */
    EARLY_OPS = 16,    /* who is used or leaves sooner is not copied early */
    CLEAN_PART = 24,   /* who leaves for nothing goes first if it is not used for so long */
    PAID_LEAVES = 3,   /* copied out more often than that in a row: it is written in each step */
    BEYOND_PART = 6,   /* who leaves is used that part of a period after room runs short */
    FREE_WAITS = 2000, /* looks in a row, some 0.1 s */
    /* Room kept free of forecasts, for sizes that do not fit and for errors, in reserves. What
     * comes in leaves more of it than what goes out makes: no swapping to and fro. */
    IN_RESERVES = 2,
    CLEAN_RESERVES = 3, /* room made at most by what leaves without a copy */
    SMALL_SOONER = 8,   /* who is small counts as used so many times as soon */
};

/* Blocks born within so many operations are mapped ahead: half as far again as the host launches
 * ahead of the device. */
static uint32_t soon_ops(const struct move *move)
{
    return move->ahead_ops + move->ahead_ops / 2;
}

static bool may_move(const struct chunk *chunk)
{
    return !chunk->wanted && !chunk->pins;
}

/* A chunk of the segment that may move and counts as `standing`, if there is one; *pages: what all
 * of these have. */
static struct chunk *find_chunk(const struct segment *segment, enum standing standing,
                                uint64_t *pages)
{
    struct chunk *found = NULL;
    *pages = 0;
    for (uint32_t i = 0; i < segment->chunk_count; i++) {
        struct chunk *chunk = &segment->chunks[i];
        if (chunk->standing != standing || !may_move(chunk)) continue;
        if (!found) found = chunk;
        *pages += chunk->pages;
    }
    return found;
}

/* The chunk of such standing that is used next, within `most` operations; *ahead: in how many. */
static struct chunk *find_nearest(const struct move *move, unsigned card, enum standing standing,
                                  uint32_t most, uint32_t *ahead)
{
    const struct outlooks *outlooks = &move->segments->outlooks[card];
    struct chunk *found = NULL;
    *ahead = most == UINT32_MAX ? most : most + 1;
    for (uint32_t i = 0; i < outlooks->count; i++) {
        const struct outlook *outlook = &outlooks->of[i];
        if (!(outlook->has >> standing & 1)) continue;
        uint32_t one = foresight_ahead_at(&move->foresight, card, outlook);
        if (one >= *ahead) continue;
        uint64_t pages;
        struct chunk *chunk = find_chunk(outlook->segment, standing, &pages);
        if (!chunk) continue;
        found = chunk;
        *ahead = one;
    }
    return found;
}

/* The chunk that is used last of those at home that may leave. */
struct furthest {
    struct chunk *chunk;
    uint32_t ahead, rank;
    /* Of others that would do once they are idle; without a chunk, of all of those. */
    uint64_t busy_pages;
};

/* The higher, the better it leaves: by the next use, but the room that a small one gives costs more
 * time (moving 2 MiB there and back takes some 0.5 ms of calls, 64 MiB some 3 ms in all). */
static uint32_t rank_of(const struct outlook *outlook, uint32_t ahead)
{
    return outlook->small && ahead != UINT32_MAX ? ahead / SMALL_SOONER : ahead;
}

/* Whether those that chose so far would rather have this one. */
static bool is_further(const struct furthest *furthest, const struct outlook *outlook,
                       uint32_t rank)
{
    if (!furthest->chunk || rank > furthest->rank) return true;
    return rank == furthest->rank && outlook->segment->aged < furthest->chunk->segment->aged;
}

/* Whose frames are looked for: those of the dead, those of what leaves without a copy (but not what
 * is used soon), of all others that live, or of both. */
enum whose { WHOSE_DEAD, WHOSE_CLEAN, WHOSE_CHANGED, WHOSE_LIVE };

/* Whether it is expected to leave without a copy: it does so as a rule; or nearly all others do,
 * and it has left too seldom to tell. That costs a copy at most, after which it is known. (On an
 * H200, a LoRA job's frozen weights that stayed at home were not known as such, and activations
 * with a later use were copied out in their stead, in each step.) */
static bool leaves_free(const struct move *move, const struct outlook *outlook)
{
    const struct segment *segment = outlook->segment;
    if (outlook->clean) return true;
    if (!backup_is_the_rule(move) || segment->doubt || segment->unchecked) return false;
    for (uint32_t i = 0; i < segment->chunk_count; i++)
        if (segment->chunks[i].paid_leaves > PAID_LEAVES) return false;
    return true;
}

static bool is_clean(const struct move *move, const struct outlook *outlook)
{
    if (!leaves_free(move, outlook)) return false;
    unsigned card = outlook->segment->card;
    uint32_t ahead = foresight_ahead_at(&move->foresight, card, outlook);
    return ahead > foresight_length(&move->foresight, card) / CLEAN_PART;
}

/* What dies before its next use does not leave, if live. */
static bool may_leave(const struct move *move, const struct outlook *outlook, enum whose whose)
{
    if (whose == WHOSE_DEAD) return outlook->has >> STANDING_DEAD & 1;
    if (!(outlook->has >> STANDING_LIVE & 1) || outlook->will_die) return false;
    return whose == WHOSE_LIVE || is_clean(move, outlook) == (whose == WHOSE_CLEAN);
}

static void consider(struct move *move, const struct outlook *outlook, enum whose whose,
                     uint32_t ahead, struct furthest *furthest)
{
    struct segment *segment = outlook->segment;
    enum standing standing = whose == WHOSE_DEAD ? STANDING_DEAD : STANDING_LIVE;
    uint64_t pages;
    struct chunk *chunk = segment->captured ? NULL : find_chunk(segment, standing, &pages);
    if (!chunk) return;
    if (!policy_segment_is_idle(move, segment)) {
        furthest->busy_pages += pages;
        return;
    }
    furthest->chunk = chunk;
    furthest->ahead = ahead;
    furthest->rank = rank_of(outlook, ahead);
}

static struct furthest find_furthest(struct move *move, unsigned card, enum whose whose)
{
    const struct outlooks *outlooks = &move->segments->outlooks[card];
    const struct outlook *best = NULL;
    struct furthest furthest = {0};
    uint32_t best_rank = 0;
    for (uint32_t i = 0; i < outlooks->count; i++) {
        const struct outlook *outlook = &outlooks->of[i];
        if (!may_leave(move, outlook, whose)) continue;
        uint32_t rank = rank_of(outlook, foresight_ahead_at(&move->foresight, card, outlook));
        if (best && (rank < best_rank ||
                     (rank == best_rank && outlook->segment->aged >= best->segment->aged)))
            continue;
        best = outlook;
        best_rank = rank;
    }
    if (best)
        consider(move, best, whose, foresight_ahead_at(&move->foresight, card, best), &furthest);
    if (!best || furthest.chunk) return furthest;
    furthest.busy_pages = 0;
    for (uint32_t i = 0; i < outlooks->count; i++) { /* it cannot leave: which can? */
        const struct outlook *outlook = &outlooks->of[i];
        if (!may_leave(move, outlook, whose)) continue;
        uint32_t ahead = foresight_ahead_at(&move->foresight, card, outlook);
        if (is_further(&furthest, outlook, rank_of(outlook, ahead)))
            consider(move, outlook, whose, ahead, &furthest);
    }
    return furthest;
}

static uint64_t room_pages(const struct move *move, unsigned card)
{
    return frame_room_pages(move->frames, move->home[card]);
}

/* What is dead will do in a moment, once the operations that touched it are done: better than a
 * copy out and in. Not for long: it may be that these operations wait for what this one is to do.
 */
static bool waits_for_dead(struct move *move, unsigned card, uint64_t dying_pages)
{
    uint64_t coming = room_pages(move, card) + move->coming_pages[move->home[card]];
    if (coming + dying_pages < policy_wanted_pages(move, card)) return false;
    return dying_pages && foreseen_may_wait(move, card);
}

bool foreseen_may_wait(struct move *move, unsigned card)
{
    return move->free_waits[card] < FREE_WAITS && ++move->free_waits[card] < FREE_WAITS;
}

bool foreseen_is_tired(struct move *move, unsigned card)
{
    uint32_t *waits = &move->free_waits[card];
    if (!*waits || *waits >= FREE_WAITS || ++*waits < FREE_WAITS) return false;
    move->changes++; /* who may copy has to look again, whoever counted the last */
    return true;
}

enum found foreseen_evict(struct move *move, unsigned card, struct move_action *action)
{
    struct furthest dead = find_furthest(move, card, WHOSE_DEAD);
    if (dead.chunk) {
        move->free_waits[card] = 0;
        return policy_send_away(move, dead.chunk, action);
    }
    if (waits_for_dead(move, card, dead.busy_pages)) return FOUND_BUSY;
    struct furthest live = find_furthest(move, card, WHOSE_CLEAN);
    if (!live.chunk) live = find_furthest(move, card, WHOSE_LIVE);
    if (live.chunk) return policy_send_away(move, live.chunk, action);
    return dead.busy_pages || live.busy_pages ? FOUND_BUSY : FOUND_NOTHING;
}

/* Most pages that the card will need at once until `ahead`, beyond those needed now. */
static uint64_t growth_pages(const struct move *move, unsigned card, uint32_t ahead)
{
    const struct foresight *foresight = &move->foresight;
    uint32_t length = foresight_length(foresight, card);
    uint64_t now = move->segments->needed_pages[card];
    uint64_t most = foresight_most_needed(foresight, card, ahead < length ? ahead : length);
    return most > now ? most - now : 0;
}

/* Gives up the frame of what is dead, unless it is used again before `ahead`. */
static bool drop_dead(struct move *move, unsigned card, uint32_t ahead, struct move_action *action)
{
    struct furthest dead = find_furthest(move, card, WHOSE_DEAD);
    if (!dead.chunk || dead.ahead <= ahead) return false;
    return policy_send_away(move, dead.chunk, action) == FOUND_ACTION;
}

static bool may_queue(const struct move_lane *lane)
{
    return !lane->busy && lane->issued - lane->ended < IN_FLIGHT;
}

static bool has_lane_in(const struct move *move, unsigned card)
{
    for (uint32_t way = 0; way < move->ways[card]; way++)
        if (may_queue(&move->lanes[move_lane(card, way, false)])) return true;
    return false;
}

static bool has_lane_out(const struct move *move, unsigned card)
{
    for (uint32_t way = 0; way < move->ways[card]; way++)
        if (!move->lanes[move_lane(card, way, true)].busy) return true;
    return false;
}

static bool bring_next(struct move *move, unsigned card, struct move_action *action)
{
    uint32_t ahead;
    if (!has_lane_in(move, card)) return false;
    struct chunk *nearest = find_nearest(move, card, STANDING_ABSENT, UINT32_MAX, &ahead);
    if (!nearest || !may_queue(&move->lanes[refuge_lane_in(move, nearest)])) return false;
    uint64_t reserve = IN_RESERVES * move_reserve_pages(move), room = room_pages(move, card);
    uint64_t need = nearest->pages + growth_pages(move, card, ahead) + reserve;
    if (need > room + move->segments->outlooks[card].dead_pages) return false;
    if (nearest->pages > room) return drop_dead(move, card, ahead, action);
    return policy_map_home(move, nearest, action) == FOUND_ACTION;
}

static bool map_next_born(struct move *move, unsigned card, struct move_action *action)
{
    uint32_t ahead;
    struct chunk *born = find_nearest(move, card, STANDING_EMPTY, soon_ops(move), &ahead);
    if (!born) return false;
    /* What is used before that has the room first: else it is taken, and made again, for ever. */
    const struct chunk *sooner = find_nearest(move, card, STANDING_ABSENT, ahead - 1, &ahead);
    uint64_t pages = born->pages + (sooner ? sooner->pages : 0u);
    if (pages > room_pages(move, card)) return drop_dead(move, card, 2 * soon_ops(move), action);
    return policy_map_home(move, born, action) == FOUND_ACTION;
}

/* An operation found room nowhere: it is refused, or others let go of theirs, once nothing moves.
 */
static bool waits_for_rest(const struct move *move)
{
    list_each(node, &move->requests)
    {
        if (list_entry(node, struct move_request, link)->no_room) return true;
    }
    return false;
}

/* What is demanded on a card comes first there: two who turn free frames into their own sizes undo
 * each other's work. */
bool foreseen_next(struct move *move, struct move_action *action)
{
    if (waits_for_rest(move)) return false;
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        if (!move->refuges[card] || policy_looked(move, &move->looked_in[card])) continue;
        if (policy_wanted_pages(move, card)) continue;
        if (map_next_born(move, card, action) || bring_next(move, card, action)) return true;
        policy_note_look(move, &move->looked_in[card]);
    }
    return false;
}

/* Of segments that leave without a copy, wherever they are. */
static uint64_t clean_pages(const struct move *move, unsigned card)
{
    const struct outlooks *outlooks = &move->segments->outlooks[card];
    uint64_t pages = 0;
    for (uint32_t i = 0; i < outlooks->count; i++)
        if (outlooks->of[i].clean) pages += outlooks->of[i].segment->pages;
    return pages;
}

/* How many operations from now room runs short; UINT32_MAX: not within a period. With
 * `clean_yields` what leaves without a copy makes room for all others: what is at home of it counts
 * as room, and what comes back takes the place of more of it. */
static uint32_t find_frontier(struct move *move, unsigned card, bool clean_yields)
{
    static uint32_t due[FORESIGHT_OPS + 1]; /* pages that come back; under the pool's lock */
    const struct foresight *foresight = &move->foresight;
    const struct outlooks *outlooks = &move->segments->outlooks[card];
    struct foresight_walk walk = foresight_walk_begin(foresight, card);
    uint32_t last = foresight_length(foresight, card);
    unsigned home = move->home[card];
    uint64_t yielding = 0, pages;
    memset(due, 0, (last + 1) * sizeof *due);
    for (uint32_t i = 0; i < outlooks->count; i++) {
        const struct outlook *outlook = &outlooks->of[i];
        uint32_t ahead = foresight_ahead_at(foresight, card, outlook);
        if (clean_yields && leaves_free(move, outlook) && !outlook->segment->captured) {
            if (find_chunk(outlook->segment, STANDING_LIVE, &pages)) yielding += pages;
        } else if (ahead <= last) {
            due[ahead] += outlook->absent_pages;
        }
    }
    int64_t room = (int64_t)(room_pages(move, card) + outlooks->dead_pages + yielding +
                             move->coming_pages[home] + move->frames->place[home].parked_pages);
    room -= (int64_t)move_reserve_pages(move);
    room += (int64_t)move->segments->needed_pages[card];
    for (uint32_t i = 1; i <= last; i++) {
        const struct foresight_stretch *stretch = foresight_walk_stretch(&walk, last - i + 1);
        uint32_t coming = 0;
        for (uint32_t k = 0; stretch && k < stretch->op_count; k++) coming += due[i + k];
        if (stretch && room - coming >= (int64_t)stretch->most - 1) { /* at each of these */
            foresight_walk_over(&walk);
            room -= coming;
            i += stretch->op_count - 1;
            continue;
        }
        room -= due[i];
        if (room < (int64_t)foresight_walk_on(&walk)) return i;
    }
    return UINT32_MAX;
}

static bool has_room(const struct move *move, unsigned card)
{
    unsigned home = move->home[card];
    uint64_t room =
        room_pages(move, card) + move->coming_pages[home] + move->frames->place[home].parked_pages;
    return room >= CLEAN_RESERVES * move_reserve_pages(move);
}

/* Whether the chunk was sent away within the last period, and so may be again; *ahead: when, from
 * now. False also where it was not used since it was copied early. */
static bool leaves_again(const struct move *move, const struct chunk *chunk, uint64_t *ahead)
{
    const struct segment *segment = chunk->segment;
    uint64_t period = foresight_length(&move->foresight, segment->card);
    uint64_t now = move->foresight.clocks[segment->card];
    if (!chunk->left_at || chunk->left_at + period <= now || segment->unchecked) return false;
    *ahead = chunk->left_at + period - now;
    return *ahead > EARLY_OPS && segment->used_last > chunk->kept_at;
}

/* The chunk that leaves next of those that do and have not been copied since they were used. What
 * is clean will not be copied anyway. */
static struct chunk *find_early(struct move *move, unsigned card)
{
    struct chunk *found = NULL;
    uint64_t least = UINT64_MAX, ahead;
    list_each(node, &move->segments->age[card])
    {
        struct segment *segment = list_entry(node, struct segment, age);
        const struct outlook *outlook = segment_outlook(move->segments, segment);
        bool soon = foresight_ahead_at(&move->foresight, card, outlook) < EARLY_OPS;
        if (soon || segment->captured || outlook->will_die || outlook->clean) continue;
        for (uint32_t i = 0; i < segment->chunk_count; i++) {
            struct chunk *chunk = &segment->chunks[i];
            bool may = move_chunk_is_home(move, chunk) && chunk_is_live(chunk) && !chunk->wanted &&
                       !chunk->pins;
            if (!may || !leaves_again(move, chunk, &ahead) || ahead >= least) continue;
            if (!policy_segment_is_idle(move, segment)) break;
            found = chunk;
            least = ahead;
        }
    }
    return found;
}

/* Early copies pay where much has to leave by copy in each period, so that the link out is short,
 * and where the forecast holds: otherwise they are in the way of what comes in. (Replayed: 2 % less
 * at 5/3 of the card and more; up to 10 % more at 9/8 of it, and 25 % more among unknown
 * operations.) What is clean needs no copy: with frozen weights most of what went out was copied
 * early, and in vain. */
static bool early_copies_pay(const struct move *move, unsigned card)
{
    const struct foresight *foresight = &move->foresight;
    if (!foresight_is_calm(foresight)) return false;
    uint32_t length = foresight_length(foresight, card);
    uint64_t most = foresight_most_needed(foresight, card, length);
    uint64_t clean = clean_pages(move, card);
    uint64_t capacity = move->frames->place[move->home[card]].capacity_pages;
    return most > clean && 3 * (most - clean) >= 5 * capacity;
}

static bool copy_early(struct move *move, unsigned card, struct move_action *action)
{
    if (!(move->digests >> card & 1) || policy_wanted_pages(move, card)) return false;
    if (!early_copies_pay(move, card)) return false;
    struct chunk *chunk = find_early(move, card);
    return chunk && policy_copy_early(move, chunk, action);
}

/* Sends the one away that is used last of these, if its use is beyond that point. */
static bool send_beyond(struct move *move, unsigned card, enum whose whose, uint32_t frontier,
                        struct move_action *action)
{
    if (frontier == UINT32_MAX) return false;
    uint32_t least = foresight_length(&move->foresight, card) / BEYOND_PART;
    struct furthest live = find_furthest(move, card, whose);
    if (!live.chunk || (live.ahead != UINT32_MAX && live.ahead <= frontier + least)) return false;
    /* Later there may be a better choice, and the link out is not what takes time. */
    if (!live.chunk->early && backup_is_trusted(live.chunk) && has_room(move, card)) return false;
    return policy_send_away(move, live.chunk, action) == FOUND_ACTION;
}

bool foreseen_next_copy(struct move *move, struct move_action *action)
{
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        if (!move->refuges[card] || !has_lane_out(move, card)) continue;
        if (policy_looked(move, &move->looked_out[card])) continue;
        uint32_t frontier = find_frontier(move, card, false);
        if (frontier != UINT32_MAX && refuge_is_crowded(move, card) &&
            refuge_send_guest_on(move, card, true, action) == FOUND_ACTION)
            return true;
        uint32_t rest = frontier;
        if (frontier != UINT32_MAX && clean_pages(move, card)) {
            if (send_beyond(move, card, WHOSE_CLEAN, frontier, action)) return true;
            rest = find_frontier(move, card, true);
        }
        if (send_beyond(move, card, WHOSE_CHANGED, rest, action)) return true;
        if (frontier > move->ease_ops && copy_early(move, card, action)) return true;
        policy_note_look(move, &move->looked_out[card]);
    }
    return false;
}
