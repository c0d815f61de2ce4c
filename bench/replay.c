/* Plays a recorded step on the real pool in virtual time; see replay.h.
 *
 *     replay TRACE --hbm SIZE [--host SIZE] [--steps N] [--policy NAME] [--jitter PERCENT]
 *     [--stale PERCENT] [--extra MOST] [--wander PERCENT] [--seed N] [--report FILE] [--json]
 *     [--timeline FILE] [--chunk SIZE] [--ahead N] [--reserve SIZE] [--cards N]
 *     [--frozen] [--scale N [--native]]
 *
 * --stale: so many operations' parameters also hold the address of a block that was freed of late,
 * at which something else may live by now, each time other ones. --extra: up to so many small
 * operations more a step, somewhere in it. --wander: the allocator prefers, so often, another of
 * its free blocks of the same size, so that things are elsewhere in each step. --scale: all sizes
 * (those given too) and rates are so much smaller, and there is data, of which a sum is said at the
 * end (replay_data.c); --native: without a pool, for the sum that it should be. --cards 2: two
 * cards run the step at once, each for itself, in threads of their own. --frozen: what lasts from
 * step to step is only read.
 *
 * A line a step; then the median of the last steps, and its ratio to the step's time in HBM. Where
 * a period of the trace holds several steps, --mark names an operation that touches nothing and
 * begins each: there the program waits for all before it, and JSON has the times. */
#include "replay.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/sample.h"
#include "base/units.h"
#include "pool/probe.h"

enum {
    STEADY = 6,       /* steps of which the median is said */
    SCALE_MOST = 512, /* pages are 4 KiB then, and cannot be smaller */
};

struct replay replay = {.steps = 12, .cards = 1, .policy = VP_POLICY_PLAN, .scale = 1};

static const char *path, *report, *timeline,
    *machine_text = "h200"; /* a name, or as in VRAMPOOL_EMULATE */
static uint64_t hbm_bytes, host_bytes = 112 * GIB;
static vp_options tuned;        /* chunk, ahead, reserve */
static unsigned jitter_percent; /* work on the device takes up to so much longer */
static bool json;

static bool read_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"hbm", required_argument, NULL, 'c'},      {"host", required_argument, NULL, 'h'},
        {"steps", required_argument, NULL, 's'},    {"policy", required_argument, NULL, 'p'},
        {"json", no_argument, NULL, 'j'},           {"scale", required_argument, NULL, 'x'},
        {"native", no_argument, NULL, 'n'},         {"jitter", required_argument, NULL, 'r'},
        {"mark", required_argument, NULL, 'm'},     {"stale", required_argument, NULL, 't'},
        {"extra", required_argument, NULL, 'e'},    {"wander", required_argument, NULL, 'w'},
        {"seed", required_argument, NULL, 'd'},     {"report", required_argument, NULL, 'o'},
        {"timeline", required_argument, NULL, 'l'}, {"chunk", required_argument, NULL, 'k'},
        {"ahead", required_argument, NULL, 'a'},    {"reserve", required_argument, NULL, 'f'},
        {"machine", required_argument, NULL, 'i'},  {"cards", required_argument, NULL, 'b'},
        {"frozen", no_argument, NULL, 'z'},         {0}};
    bool ok = true;
    for (int option; ok && (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'c': ok = units_parse_size(optarg, &hbm_bytes); break;
        case 'h': ok = units_parse_size(optarg, &host_bytes); break;
        case 's': replay.steps = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'p': ok = env_parse_policy(optarg, &replay.policy); break;
        case 'r': jitter_percent = (unsigned)strtoul(optarg, NULL, 10); break;
        case 't': replay.stale_percent = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'w': replay.wander_percent = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'e': replay.extra_most = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'd': replay.random.state = strtoull(optarg, NULL, 10); break;
        case 'm': replay.mark_key = step_key(TRACE_KERNEL, optarg); break;
        case 'o': report = optarg; break;
        case 'l': timeline = optarg; break;
        case 'k': ok = units_parse_size(optarg, &tuned.chunk_bytes); break;
        case 'a': ok = env_parse_ahead(optarg, &tuned.ahead_ops); break;
        case 'f': ok = units_parse_size(optarg, &tuned.reserve_bytes); break;
        case 'i': machine_text = optarg; break;
        case 'b': replay.cards = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'z': replay.frozen = true; break;
        case 'x': replay.scale = strtoull(optarg, NULL, 10); break;
        case 'n': replay.native = true; break;
        case 'j': json = true; break;
        default: ok = false;
        }
    }
    path = argv[optind];
    bool scales = replay.scale == 1 || (replay.scale > 1 && replay.scale <= SCALE_MOST);
    bool one = replay.cards == 1 || (replay.cards == REPLAY_CARDS && !replay.native);
    return ok && one && path && !argv[optind + 1] && hbm_bytes && replay.steps &&
           replay.steps <= REPLAY_STEPS_MOST && scales && (!replay.native || replay.scale > 1);
}

static bool read_step(void)
{
    struct trace trace;
    if (trace_read(path, &trace, NULL) != VP_OK) return false;
    vp_status status = step_from_trace(&trace, &replay.step, NULL);
    trace_release(&trace);
    return status == VP_OK;
}

static void scale_step(void)
{
    for (uint32_t i = 0; i < replay.step.role_count; i++) {
        struct step_role *role = &replay.step.roles[i];
        role->bytes = units_div_up(role->bytes, replay.scale);
    }
}

/* So much smaller and slower: what copies and calls take stays as it is. */
static void scale_machine(struct machine *machine)
{
    double rate = 1.0 / (double)replay.scale;
    machine->granularity_bytes /= replay.scale;
    for (unsigned card = 0; card < machine->cards; card++) machine->hbm_bytes[card] /= replay.scale;
    machine->host_bytes /= replay.scale;
    machine->hbm_gbps[0] *= rate;
    for (unsigned from = 0; from <= machine->cards; from++)
        for (unsigned to = 0; to <= machine->cards; to++) {
            machine->path[from][to].gbps *= rate;
            machine->path[from][to].both_gbps *= rate;
        }
#define SCALE(name) machine->costs.name.per_mib_ns *= (uint32_t)replay.scale;
    MACHINE_COSTS(SCALE)
#undef SCALE
}

/* The pool takes equal pointers for equal operations. */
static bool name_ops(void)
{
    const struct step *step = &replay.step;
    replay.names = calloc(step->op_count, sizeof *replay.names);
    if (!replay.names) return false;
    for (uint32_t i = 0; i < step->op_count; i++) {
        for (uint32_t k = 0; k < i && !replay.names[i]; k++)
            if (step->ops[k].key == step->ops[i].key) replay.names[i] = replay.names[k];
        char *name = NULL;
        if (replay.names[i]) continue;
        if (asprintf(&name, "op%u", i) < 0) return false;
        replay.names[i] = name;
    }
    return true;
}

/* The pool measures no links in a single thread: it is told what it would find. */
static void order_refuges(const struct machine *machine)
{
    for (unsigned card = 0; card < replay.cards; card++) {
        struct rate rates[VP_MAX_CARDS + 1] = {0};
        for (unsigned i = 0; i <= machine->cards; i++) {
            const struct machine_path *out = &machine->path[card][i];
            unsigned place = i < machine->cards ? i : RATES_HOST;
            rates[place] = (struct rate){out->gbps, machine->path[i][card].gbps};
        }
        pool_lock(replay.pool);
        probe_order(replay.pool, card, rates);
        pool_unlock(replay.pool);
    }
}

static vp_status open_pool(void)
{
    static struct machine machine;
    static struct driver driver;
    vp_status status = machine_from_text(machine_text, &machine);
    if (status != VP_OK) return status;
    /* What setting access costs beside copies out that are queued piece by piece and give way, as
     * the pool's do (measured; machine.h has the cost beside whole chunks). */
    machine.costs.access_busy.base_ns = 68 * (uint32_t)NS_PER_US;
    scale_machine(&machine);
    struct emu_options emulate = {.machine = &machine,
                                  .seed = 1,
                                  .carry_data = replay.scale > 1,
                                  .threads = EMU_MAX_THREADS,
                                  .jitter_percent = jitter_percent};
    status = emu_open(&emulate);
    if (status != VP_OK) return status;
    replay_wrap_driver(&driver);
    if (replay.scale == 1) replay_content_begin();
    vp_options options;
    vp_options_init(&options);
    options.compute_cards = (1u << replay.cards) - 1;
    options.hbm_bytes = hbm_bytes / replay.scale;
    options.host_bytes = host_bytes / replay.scale;
    options.policy = replay.policy;
    options.timeline_path = timeline;
    options.chunk_bytes = tuned.chunk_bytes / replay.scale;
    options.ahead_ops = tuned.ahead_ops;
    options.reserve_bytes = tuned.reserve_bytes / replay.scale;
    if (driver.cuInit(0) != CUDA_SUCCESS) return VP_DRIVER;
    if (replay.native) return VP_OK;
    status = pool_open_stepped(&driver, &options, &replay_edge, &replay.pool);
    if (status == VP_OK) order_refuges(&machine);
    return status;
}

static double median_s(unsigned card)
{
    double values[STEADY];
    unsigned count = replay.steps < STEADY ? replay.steps : STEADY;
    for (unsigned i = 0; i < count; i++)
        values[i] = (double)replay.result[card][replay.steps - count + i].duration_ns;
    return sample_median(values, count) / 1e9;
}

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

void replay_print_step(unsigned card, unsigned index)
{
    if (json) return;
    const struct replay_step *step = &replay.result[card][index];
    const vp_stats *stats = &step->stats;
    if (replay.cards > 1) printf("card%u ", card);
    printf("%2u %8.1f ms: in %5.2f out %5.2f GB; %5llu fetched %5llu evicted, %5llu as they came, "
           "%5llu dropped %4llu "
           "recalled; %5llu held %6.1f ms: map %5.1f in %5.1f room %5.1f alone %5.1f; throttle "
           "%5.1f host %5.1f; %llu foretold, %llu but for touches, %llu deviations, step of %llu\n",
           index, ms(step->duration_ns), (double)stats->in_bytes / 1e9,
           (double)stats->out_bytes / 1e9, (unsigned long long)stats->fetches,
           (unsigned long long)stats->evictions, (unsigned long long)stats->clean_drops,
           (unsigned long long)stats->drops, (unsigned long long)stats->cancels,
           (unsigned long long)stats->holds, ms(stats->hold_ns), ms(stats->hold_map_ns),
           ms(stats->hold_in_ns), ms(stats->hold_room_ns), ms(stats->hold_alone_ns),
           ms(stats->throttle_ns), ms(stats->host_wait_ns),
           (unsigned long long)stats->finder_matched, (unsigned long long)stats->finder_touches,
           (unsigned long long)stats->finder_deviations,
           (unsigned long long)stats->finder_period_operations);
    fflush(stdout);
}

static void print_json(double step_s, double in_hbm_s)
{
    printf("{\"step_s\":%.6f,\"in_hbm_s\":%.6f,\"ratio\":%.4f,\"steps\":[", step_s, in_hbm_s,
           step_s / in_hbm_s);
    for (unsigned i = 0; i < replay.steps; i++) {
        printf("%s{\"step_ns\":%llu", i ? "," : "",
               (unsigned long long)replay.result[0][i].duration_ns);
#define FIELD(name, text)                                                                          \
    printf(",\"%s\":%llu", #name, (unsigned long long)replay.result[0][i].stats.name);
        VP_STATS(FIELD)
#undef FIELD
        printf("}");
    }
    printf("],\"sum\":\"%016llx\",\"marks_ns\":[", (unsigned long long)replay_data_sum());
    for (unsigned i = 0; i < replay.mark_count; i++)
        printf("%s%llu", i ? "," : "", (unsigned long long)replay.mark_ns[i]);
    printf("]}\n");
}

static void print_all(void)
{
    double step_s = median_s(0), in_hbm_s = (double)step_duration_ns(&replay.step) / 1e9;
    if (json) {
        print_json(step_s, in_hbm_s);
        return;
    }
    if (replay.scale > 1)
        printf("all that was read adds up to %016llx\n", (unsigned long long)replay_data_sum());
    for (unsigned card = 0; card < replay.cards; card++) {
        if (replay.cards > 1) printf("card%u: ", card);
        printf("%.1f ms a step, %.1f ms in HBM: %.3f times as long\n", median_s(card) * 1e3,
               in_hbm_s * 1e3, median_s(card) / in_hbm_s);
    }
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        fprintf(stderr,
                "usage: replay TRACE --hbm SIZE [--host SIZE] [--steps N] "
                "[--policy NAME] [--jitter PERCENT] [--stale PERCENT] "
                "[--extra MOST] [--wander PERCENT] [--seed N] [--report FILE] [--json] "
                "[--timeline FILE] "
                "[--chunk SIZE] [--ahead N] [--reserve SIZE] [--machine MACHINE] [--cards N] "
                "[--frozen] [--scale N [--native]]\n");
        return 2;
    }
    if (!read_step() || !name_ops() || open_pool() != VP_OK) return 1;
    scale_step();
    if (replay.native)
        replay_program(0);
    else
        replay_play(replay_program);
    print_all();
    bool wrong = replay.pool && report && vp_report(replay.pool, report) != VP_OK;
    replay_cache_end();
    replay_content_end();
    if (replay.pool) vp_close(replay.pool);
    bool found = emu_findings_count() > 0;
    if (found) fprintf(stderr, "replay: the emulator found: %s\n", emu_findings().first);
    emu_close();
    step_release(&replay.step);
    return wrong || found;
}
