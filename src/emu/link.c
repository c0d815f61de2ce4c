/* Engines and links: which copies run at once, what they leave each other of the links that they
 * share, and what becomes of them when lanes, links, relays and cards are lost.
 *
 * Each ordered pair of places has one engine, which copies in turn. What runs claims a share of
 * each direction of each link on its route; one through the host claims the two paths to it. Where
 * more is claimed than there is, all who claim there slow down alike, and what they leave elsewhere
 * goes to the others (shares are filled up together, those that have met a full link first out). */
#include "emu/internal.h"

#include <string.h>

enum { HOST_WAYS = 2 * MACHINE_MAX_LINKS, WAYS = HOST_WAYS + 2 * VP_MAX_CARDS };

static void find_routes(void)
{
    for (unsigned from = 0; from < emu.machine.cards; from++)
        for (unsigned to = 0; to < emu.machine.cards; to++)
            emu.routes[from][to] = route_find(&emu.machine, from, to);
}

void links_open(void)
{
    find_routes();
    for (unsigned from = 0; from <= VP_MAX_CARDS; from++)
        for (unsigned to = 0; to <= VP_MAX_CARDS; to++)
            emu.engines[from][to].last = &emu.engines[from][to].first;
}

/* ---- What a copy claims ---- */

static uint16_t way_of_link(unsigned link, unsigned from)
{
    return (uint16_t)(2 * link + (emu.machine.link[link].ends[0] != from));
}

static uint16_t way_to_host(unsigned card)
{
    return (uint16_t)(HOST_WAYS + 2 * card);
}

static uint16_t way_from_host(unsigned card)
{
    return (uint16_t)(HOST_WAYS + 2 * card + 1);
}

static double share_of(double gbps, unsigned from, unsigned to)
{
    double whole = emu.machine.path[from][to].gbps;
    return whole > gbps ? gbps / whole : 1;
}

static void claim(struct op *op)
{
    unsigned from = (unsigned)op->from, to = (unsigned)op->to, host = emu.machine.cards;
    const struct route *route = from < host && to < host ? &emu.routes[from][to] : NULL;
    op->gbps = emu.machine.path[from][to].gbps;
    op->claim_count = 0;
    for (unsigned i = 0; route && i < route->links; i++)
        op->claims[op->claim_count++] =
            (struct claim){way_of_link(route->link[i], route->node[i]), route->share[i]};
    bool through_host = route && route->kind == ROUTE_HOST;
    if (from != host && (to == host || through_host))
        op->claims[op->claim_count++] =
            (struct claim){way_to_host(from), share_of(op->gbps, from, host)};
    if (to != host && (from == host || through_host))
        op->claims[op->claim_count++] =
            (struct claim){way_from_host(to), share_of(op->gbps, host, to)};
}

/* ---- Sharing ---- */

struct sharing {
    double left[WAYS];    /* of each way */
    double claimed[WAYS]; /* by those whose share is still growing */
    bool done[sizeof emu.flows / sizeof *emu.flows];
};

static void sum_claims(struct sharing *sharing)
{
    memset(sharing->claimed, 0, sizeof sharing->claimed);
    for (unsigned i = 0; i < emu.flow_count; i++)
        for (unsigned c = 0; c < emu.flows[i]->claim_count && !sharing->done[i]; c++)
            sharing->claimed[emu.flows[i]->claims[c].way] += emu.flows[i]->claims[c].share;
}

/* How far all that still grow can grow from nothing, and the way that stops them, or -1. */
static double grow(const struct sharing *sharing, int *stop)
{
    double least = 1;
    *stop = -1;
    for (int way = 0; way < WAYS; way++) {
        if (sharing->claimed[way] * least <= sharing->left[way] * (1 + 1e-9)) continue;
        least = sharing->left[way] / sharing->claimed[way];
        *stop = way;
    }
    return least;
}

static bool claims_way(const struct op *op, int way)
{
    for (unsigned c = 0; c < op->claim_count; c++)
        if (op->claims[c].way == way) return true;
    return false;
}

static void settle(struct sharing *sharing, unsigned flow, double share)
{
    struct op *op = emu.flows[flow];
    sharing->done[flow] = true;
    op->share = share;
    for (unsigned c = 0; c < op->claim_count; c++) {
        double *left = &sharing->left[op->claims[c].way];
        *left -= share * op->claims[c].share;
        if (*left < 1e-6) *left = 1e-6; /* rounding; nobody stands still */
    }
}

static void share_links(void)
{
    static struct sharing sharing; /* under the lock */
    memset(sharing.done, 0, sizeof sharing.done);
    for (unsigned way = 0; way < WAYS; way++) sharing.left[way] = 1;
    for (int stop = 0; stop >= 0;) {
        sum_claims(&sharing);
        double share = grow(&sharing, &stop);
        for (unsigned i = 0; i < emu.flow_count; i++)
            if (!sharing.done[i] && (stop < 0 || claims_way(emu.flows[i], stop)))
                settle(&sharing, i, share);
    }
}

/* Rates change whenever a copy begins or ends: of those that run the other way, and of those that
 * share links. */
static void rate_flows(void)
{
    if (emu.flow_count > 1)
        share_links();
    else if (emu.flow_count == 1)
        emu.flows[0]->share = 1;
    for (unsigned i = 0; i < emu.flow_count; i++) {
        struct op *op = emu.flows[i];
        bool opposite = emu.engines[op->to][op->from].running != NULL;
        op_rate(op, op->share * (opposite ? op->both_rate : op->alone_rate));
    }
}

/* ---- Engines ---- */

static void engine_begin(struct engine *engine, struct op *op)
{
    engine->running = op;
    op->updated_ns = emu.device_ns;
    claim(op);
    assert(emu.flow_count < sizeof emu.flows / sizeof *emu.flows);
    emu.flows[emu.flow_count++] = op;
}

void engine_enter(struct op *op)
{
    struct engine *engine = &emu.engines[op->from][op->to];
    op->engine = engine;
    op->gbps = emu.machine.path[op->from][op->to].gbps;
    if (!engine->running) {
        engine_begin(engine, op);
        rate_flows();
        return;
    }
    op->engine_next = NULL;
    *engine->last = op;
    engine->last = &op->engine_next;
}

void engine_leave(struct op *op)
{
    struct engine *engine = op->engine;
    if (engine->running != op) {
        struct op **at = &engine->first;
        while (*at && *at != op) at = &(*at)->engine_next;
        if (!*at) return;
        *at = op->engine_next;
        if (!*at) engine->last = at;
        return;
    }
    unsigned flow = 0;
    while (emu.flows[flow] != op) flow++;
    emu.flows[flow] = emu.flows[--emu.flow_count];
    engine->running = NULL;
    struct op *next = engine->first;
    if (next) {
        engine->first = next->engine_next;
        if (!engine->first) engine->last = &engine->first;
        engine_begin(engine, next);
    }
    rate_flows();
}

/* ---- Losses ---- */

/* A copy that is under way, or waits for its turn, goes on over the route that is left. */
static void reroute(struct op *op)
{
    double gbps = emu.machine.path[op->from][op->to].gbps, factor = gbps / op->gbps;
    op->alone_rate *= factor;
    op->both_rate *= factor;
    claim(op);
}

static void links_changed(void)
{
    route_fill_paths(&emu.machine);
    find_routes();
    for (unsigned from = 0; from <= emu.machine.cards; from++) {
        for (unsigned to = 0; to <= emu.machine.cards; to++) {
            struct engine *engine = &emu.engines[from][to];
            if (engine->running) reroute(engine->running);
            for (struct op *op = engine->first; op; op = op->engine_next) reroute(op);
        }
    }
    rate_flows();
}

static struct machine_link *link_of(unsigned a, unsigned b)
{
    int link = route_link_between(&emu.machine, a, b);
    return link < 0 ? NULL : &emu.machine.link[link];
}

static void lose_card(unsigned card)
{
    emu.card_lost[card] = true;
    emu.machine.relays.dead[card] = true;
    for (struct context *context = emu.contexts; context; context = context->next)
        if (context->card == card) context_lose(context, CUDA_ERROR_UNKNOWN);
}

static vp_status lose(const struct loss *loss)
{
    bool between = loss->what == LOSE_LANES || loss->what == LOSE_LINK;
    struct machine_link *link = between ? link_of(loss->a, loss->b) : NULL;
    if (between ? !link : loss->a >= emu.machine.cards) {
        log_error("emulator: machine %s has nothing to lose there (%u, %u)", emu.machine.name,
                  loss->a, loss->b);
        return VP_NOT_FOUND;
    }
    switch (loss->what) {
    case LOSE_LANES: {
        unsigned dead = link->dead_lanes + loss->lanes;
        link->dead_lanes = (uint8_t)(dead < link->lanes ? dead : link->lanes);
        break;
    }
    case LOSE_LINK: link->dead = true; break;
    case LOSE_RELAY: emu.machine.relays.dead[loss->a] = true; break;
    case LOSE_CARD: lose_card(loss->a); break;
    }
    links_changed();
    return VP_OK;
}

static void tell(const struct loss *loss)
{
    switch (loss->what) {
    case LOSE_LANES:
        log_warn("emulator: %u of the lanes between %u and %u are lost", loss->lanes, loss->a,
                 loss->b);
        break;
    case LOSE_LINK:
        log_warn("emulator: the link between %u and %u is lost", loss->a, loss->b);
        break;
    case LOSE_RELAY: log_warn("emulator: card %u passes nothing on any more", loss->a); break;
    case LOSE_CARD: log_warn("emulator: card %u is lost", loss->a); break;
    }
}

bool loss_step(uint64_t at_ns)
{
    if (emu.loss_count == 0 || emu.losses[0].at_ns > at_ns) return false;
    struct loss loss = emu.losses[0];
    memmove(&emu.losses[0], &emu.losses[1], --emu.loss_count * sizeof *emu.losses);
    if (loss.at_ns > emu.device_ns) emu.device_ns = loss.at_ns;
    if (lose(&loss) == VP_OK) tell(&loss);
    return true;
}

static vp_status lose_now(struct loss loss)
{
    lock_take();
    vp_status status = lose(&loss);
    lock_drop();
    return status;
}

vp_status emu_lose_lanes(unsigned a, unsigned b, unsigned lanes)
{
    return lose_now((struct loss){.what = LOSE_LANES, .a = a, .b = b, .lanes = lanes});
}

vp_status emu_lose_link(unsigned a, unsigned b)
{
    return lose_now((struct loss){.what = LOSE_LINK, .a = a, .b = b});
}

vp_status emu_lose_relay(unsigned card)
{
    return lose_now((struct loss){.what = LOSE_RELAY, .a = card});
}

void emu_lose_card(unsigned card)
{
    vp_status status = lose_now((struct loss){.what = LOSE_CARD, .a = card});
    assert(status == VP_OK);
    (void)status;
}

struct machine emu_machine(void)
{
    lock_take();
    struct machine machine = emu.machine;
    lock_drop();
    return machine;
}

/* ---- Losses to come, as text: `link:0-4@20ms,lanes:0-1:2@5ms,relay:1@40ms` ---- */

static bool take_text(const char **at, const char *wanted)
{
    size_t length = strlen(wanted);
    if (strncmp(*at, wanted, length) != 0) return false;
    *at += length;
    return true;
}

static bool take_unsigned(const char **at, unsigned *number)
{
    char *end;
    if (**at < '0' || **at > '9') return false;
    unsigned long read = strtoul(*at, &end, 10);
    *at = end;
    *number = read < 1000000 ? (unsigned)read : 1000000;
    return true;
}

static bool take_pair(const char **at, struct loss *loss)
{
    return take_unsigned(at, &loss->a) && take_text(at, "-") && take_unsigned(at, &loss->b);
}

static bool take_loss(const char **at, struct loss *loss)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_S}};
    bool good = false;
    unsigned when;
    if (take_text(at, "lanes:")) {
        loss->what = LOSE_LANES;
        good = take_pair(at, loss) && take_text(at, ":") && take_unsigned(at, &loss->lanes);
    } else if (take_text(at, "link:")) {
        loss->what = LOSE_LINK;
        good = take_pair(at, loss);
    } else if (take_text(at, "relay:")) {
        loss->what = LOSE_RELAY;
        good = take_unsigned(at, &loss->a);
    } else if (take_text(at, "card:")) {
        loss->what = LOSE_CARD;
        good = take_unsigned(at, &loss->a);
    }
    if (!good || !take_text(at, "@") || !take_unsigned(at, &when)) return false;
    for (unsigned i = 0; i < sizeof units / sizeof *units; i++) {
        if (!take_text(at, units[i].name)) continue;
        loss->at_ns = when * units[i].ns;
        return true;
    }
    return false;
}

/* False, logged: it is not understood. */
bool losses_parse(const char *text)
{
    const char *at = text;
    while (*at) {
        struct loss loss = {0};
        if (emu.loss_count == EMU_MAX_LOSSES || !take_loss(&at, &loss) ||
            (*at && !take_text(&at, ","))) {
            log_error("emulator: VRAMPOOL_EMU_LOSE=%s is not understood; it is a list of at most "
                      "%d such as link:0-4@20ms,lanes:0-1:2@5ms,relay:1@40ms,card:2@1s",
                      text, EMU_MAX_LOSSES);
            return false;
        }
        unsigned place = emu.loss_count++;
        for (; place > 0 && emu.losses[place - 1].at_ns > loss.at_ns; place--)
            emu.losses[place] = emu.losses[place - 1];
        emu.losses[place] = loss;
    }
    return true;
}
