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

enum {
    IN_FLIGHT = 3,     /* copies in, queued at once: enough to keep the link busy */
    SOON_OPS = 96,     /* blocks born within so many operations are mapped ahead */
    CLEAN_CHUNKS = 6,  /* room made at most by what leaves without a copy */
    EARLY_OPS = 16,    /* who is used or leaves sooner is not copied early */
    BEYOND_PART = 6,   /* who leaves is used that part of a period after room runs short */
    DEAD_WAITS = 2000, /* looks in a row, some 0.1 s */
    /* Room kept free of forecasts, for sizes that do not fit and for errors. What comes in leaves
     * more of it than what goes out makes: no swapping to and fro. */
    OUT_CHUNKS = 2,
    IN_CHUNKS = 4,
};

/* One look at a card's chunks. */
struct look {
    struct chunk *nearest; /* absent, live: to come home */
    uint32_t nearest_ahead;
    struct chunk *born; /* empty, will be used soon */
    uint32_t born_ahead;
    struct chunk *dead; /* at home, dead and idle, used last */
    uint32_t dead_ahead;
    struct chunk *live; /* the same, live */
    uint32_t live_ahead;
    bool busy; /* some would do once they are idle */
    uint64_t dead_pages, room_pages;
    uint64_t dying_pages; /* dead, not idle; where no dead chunk is idle, all of those */
};

static void look_at(struct move *move, struct segment *segment, uint32_t ahead, struct look *look)
{
    bool asked = false, idle = false;
    for (uint32_t i = 0; i < segment->chunk_count; i++) {
        struct chunk *chunk = &segment->chunks[i];
        bool live = chunk_is_live(chunk), home = move_chunk_is_home(move, chunk);
        if (home && !live) look->dead_pages += chunk->pages;
        if (chunk->state == CHUNK_ABSENT && live && !chunk->wanted && ahead < look->nearest_ahead) {
            look->nearest = chunk;
            look->nearest_ahead = ahead;
        }
        if (chunk->state == CHUNK_EMPTY && !chunk->wanted && ahead < look->born_ahead) {
            look->born = chunk;
            look->born_ahead = ahead;
        }
        if (!home || chunk->wanted || chunk->pins || segment->captured) continue;
        bool better = live ? !look->live || ahead > look->live_ahead
                           : !look->dead || ahead > look->dead_ahead;
        if (!better || (live && segment->will_die)) continue;
        if (!asked) idle = policy_segment_is_idle(move, segment);
        asked = true;
        if (!idle) {
            look->busy = true;
            if (!live) look->dying_pages += chunk->pages;
        } else if (live) {
            look->live = chunk;
            look->live_ahead = ahead;
        } else {
            look->dead = chunk;
            look->dead_ahead = ahead;
        }
    }
}

static void look_through(struct move *move, const struct list *segments, struct look *look)
{
    list_each(node, segments)
    {
        struct segment *segment = list_entry(node, struct segment, age);
        look_at(move, segment, foresight_ahead(&move->foresight, segment), look);
    }
}

static void look_around(struct move *move, unsigned card, struct look *look)
{
    memset(look, 0, sizeof *look);
    look->nearest_ahead = look->born_ahead = UINT32_MAX;
    look->room_pages = frame_room_pages(move->frames, move->home[card]);
    look_through(move, &move->segments->age[card], look);
    look_through(move, &move->segments->away[card], look);
}

/* What is dead will do in a moment, once the operations that touched it are done: better than a
 * copy out and in. Not for long: it may be that these operations wait for what this one is to do.
 */
static bool waits_for_dead(struct move *move, unsigned card, const struct look *look)
{
    uint64_t coming = look->room_pages + move->coming_pages[move->home[card]];
    if (coming + look->dying_pages < policy_wanted_pages(move, card)) return false;
    if (!look->dying_pages || move->dead_waits >= DEAD_WAITS) return false;
    move->dead_waits++;
    return true;
}

bool foreseen_is_tired(struct move *move)
{
    return move->dead_waits && move->dead_waits < DEAD_WAITS && ++move->dead_waits == DEAD_WAITS;
}

enum found foreseen_evict(struct move *move, unsigned card, struct move_action *action)
{
    struct look look;
    look_around(move, card, &look);
    if (look.dead) {
        move->dead_waits = 0;
        return policy_send_away(move, look.dead, action);
    }
    if (waits_for_dead(move, card, &look)) return FOUND_BUSY;
    if (look.live) return policy_send_away(move, look.live, action);
    return look.busy ? FOUND_BUSY : FOUND_NOTHING;
}

/* Most pages that will be needed at once until `ahead`, beyond those needed now. */
static uint64_t growth_pages(const struct move *move, uint32_t ahead)
{
    const struct foresight *foresight = &move->foresight;
    uint32_t last = ahead < foresight->following->op_count ? ahead : foresight->following->op_count;
    uint64_t now = move->segments->needed_pages, most = now;
    for (uint32_t i = 1; i <= last; i++) {
        uint64_t needed = foresight_needed_pages(foresight, i);
        if (needed > most) most = needed;
    }
    return most - now;
}

static bool map_home(struct move *move, struct chunk *chunk, struct move_action *action)
{
    unsigned card = chunk->segment->card;
    bool copies = chunk->frame != NULL;
    if (copies && !policy_take_lane(move, action, 2 * card)) return false;
    struct frame *frame;
    enum found found;
    if (policy_use_plan(move, move->home[card], chunk->pages, &frame, action, &found)) {
        policy_start_map(move, chunk, frame, action);
        return true;
    }
    if (copies) {
        move->lanes[action->lane].busy = false;
        action->ticket = 0;
    }
    return found == FOUND_ACTION;
}

/* Gives up the frame of what is dead, unless it is used again before `ahead`. */
static bool drop_dead(struct move *move, const struct look *look, uint32_t ahead,
                      struct move_action *action)
{
    if (!look->dead || look->dead_ahead <= ahead) return false;
    return policy_send_away(move, look->dead, action) == FOUND_ACTION;
}

static bool bring_next(struct move *move, unsigned card, const struct look *look,
                       struct move_action *action)
{
    const struct move_lane *lane = &move->lanes[2 * card];
    if (!look->nearest || lane->busy || lane->issued - lane->ended >= IN_FLIGHT) return false;
    uint64_t pages = look->nearest->pages;
    uint64_t reserve = IN_CHUNKS * move->segments->chunk_pages;
    uint64_t need = pages + growth_pages(move, look->nearest_ahead) + reserve;
    if (need > look->room_pages + look->dead_pages) return false;
    if (pages > look->room_pages) return drop_dead(move, look, 0, action);
    return map_home(move, look->nearest, action);
}

static bool map_next_born(struct move *move, const struct look *look, struct move_action *action)
{
    if (!look->born || look->born_ahead > SOON_OPS) return false;
    if (look->born->pages > look->room_pages) return drop_dead(move, look, 2 * SOON_OPS, action);
    return map_home(move, look->born, action);
}

bool foreseen_next(struct move *move, struct move_action *action)
{
    if (policy_looked(move, &move->looked_in)) return false;
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        if (!move->refuges[card]) continue;
        struct look look;
        look_around(move, card, &look);
        if (map_next_born(move, &look, action) || bring_next(move, card, &look, action))
            return true;
    }
    policy_note_look(move, &move->looked_in);
    return false;
}

/* Adds pages of absent chunks by how far ahead they are used to due[1…last]. */
static void count_due(const struct move *move, const struct list *segments, uint32_t last,
                      uint32_t *due)
{
    list_each(node, segments)
    {
        const struct segment *segment = list_entry(node, struct segment, age);
        uint32_t ahead = foresight_ahead(&move->foresight, segment);
        if (!segment->unready || ahead > last) continue;
        for (uint32_t i = 0; i < segment->chunk_count; i++)
            if (segment->chunks[i].state == CHUNK_ABSENT && chunk_is_live(&segment->chunks[i]))
                due[ahead] += segment->chunks[i].pages;
    }
}

/* How many operations from now room runs short; UINT32_MAX: not within a period. */
static uint32_t find_frontier(struct move *move, unsigned card, const struct look *look)
{
    static uint32_t due[FORESIGHT_OPS + 1]; /* under the pool's lock */
    const struct foresight *foresight = &move->foresight;
    uint32_t last = foresight->following->op_count;
    unsigned home = move->home[card];
    memset(due, 0, (last + 1) * sizeof *due);
    count_due(move, &move->segments->age[card], last, due);
    count_due(move, &move->segments->away[card], last, due);
    int64_t room = (int64_t)(look->room_pages + look->dead_pages + move->coming_pages[home] +
                             move->frames->place[home].parked_pages);
    room -= OUT_CHUNKS * (int64_t)move->segments->chunk_pages;
    int64_t now = (int64_t)move->segments->needed_pages;
    for (uint32_t i = 1; i <= last; i++) {
        room -= due[i];
        if (room < (int64_t)foresight_needed_pages(foresight, i) - now) return i;
    }
    return UINT32_MAX;
}

static bool has_room(const struct move *move, unsigned card, const struct look *look)
{
    unsigned home = move->home[card];
    uint64_t room =
        look->room_pages + move->coming_pages[home] + move->frames->place[home].parked_pages;
    return room >= CLEAN_CHUNKS * (uint64_t)move->segments->chunk_pages;
}

/* Whether the chunk was sent away within the last period, and so may be again; *ahead: when, from
 * now. False also where it was not used since it was copied early. */
static bool leaves_again(const struct move *move, const struct chunk *chunk, uint64_t *ahead)
{
    uint64_t period = move->foresight.following->op_count, now = move->foresight.clock;
    const struct segment *segment = chunk->segment;
    if (!chunk->left_at || chunk->left_at + period <= now || segment->unchecked) return false;
    *ahead = chunk->left_at + period - now;
    return *ahead > EARLY_OPS && segment->used_last > chunk->kept_at;
}

/* The chunk that leaves next of those that do and have not been copied since they were used. */
static struct chunk *find_early(struct move *move, unsigned card)
{
    struct chunk *found = NULL;
    uint64_t least = UINT64_MAX, ahead;
    list_each(node, &move->segments->age[card])
    {
        struct segment *segment = list_entry(node, struct segment, age);
        bool soon = foresight_ahead(&move->foresight, segment) < EARLY_OPS;
        if (soon || segment->captured || segment->will_die) continue;
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

/* Early copies pay where much has to leave in each period, so that the link out is short, and where
 * the forecast holds: otherwise they are in the way of what comes in. (Replayed: 2 % less at 5/3 of
 * the card and more; up to 10 % more at 9/8 of it, and 25 % more among unknown operations.) */
static bool early_copies_pay(const struct move *move, unsigned card)
{
    const struct foresight *foresight = &move->foresight;
    if (!foresight_is_calm(foresight)) return false;
    uint64_t most = 0;
    for (uint32_t i = 0; i < foresight->following->op_count; i++) {
        uint64_t needed = foresight_needed_pages(foresight, i);
        if (needed > most) most = needed;
    }
    return 3 * most >= 5 * (uint64_t)move->frames->place[move->home[card]].capacity_pages;
}

static bool copy_early(struct move *move, unsigned card, struct move_action *action)
{
    if (!(move->digests >> card & 1) || !list_empty(&move->wanted)) return false;
    if (!early_copies_pay(move, card)) return false;
    struct chunk *chunk = find_early(move, card);
    return chunk && policy_copy_early(move, chunk, action);
}

bool foreseen_next_copy(struct move *move, struct move_action *action)
{
    if (policy_looked(move, &move->looked_out)) return false;
    for (unsigned card = 0; card < VP_MAX_CARDS; card++) {
        if (!move->refuges[card] || move->lanes[2 * card + 1].busy) continue;
        struct look look;
        look_around(move, card, &look);
        uint32_t frontier = find_frontier(move, card, &look);
        uint32_t least = move->foresight.following->op_count / BEYOND_PART;
        bool beyond = look.live && frontier != UINT32_MAX &&
                      (look.live_ahead == UINT32_MAX || look.live_ahead > frontier + least);
        /* Later there may be a better choice, and the link out is not what takes time. */
        bool waits = beyond && !look.live->early && backup_is_trusted(look.live) &&
                     has_room(move, card, &look);
        if (beyond && !waits && policy_send_away(move, look.live, action) == FOUND_ACTION)
            return true;
        if (frontier > move->ease_ops && copy_early(move, card, action)) return true;
    }
    policy_note_look(move, &move->looked_out);
    return false;
}
