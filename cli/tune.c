/* `vrampool tune`: how large pieces, how far ahead and how much reserve suit a recorded job.
 *
 * It simulates the step with the rule that the pool follows, once for each value of one setting
 * with the others fixed, keeps the best, goes on to the next setting, and round again. A setting is
 * changed only for a gain that is worth it, so that what is proposed is what matters. */
#include "tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/setting.h"
#include "base/units.h"
#include "cli.h"
#include "option.h"

enum {
    ROUNDS = 2,
    /* A change has to make the step shorter by this part of it. Below that the pool, replayed, does
     * not always agree with the model (docs/tuning.md). */
    WORTH_PART = 50,
};

static const struct option_spec specs[] = {
    JOB_SPECS,
    {"chunk", OPTION_VALUE, "SIZE", "what is used now, as for vrampool run; default: its default"},
    {"ahead", OPTION_VALUE, "N", "the same"},
    {"reserve", OPTION_VALUE, "SIZE", "the same"},
    {"json", OPTION_FLAG, NULL, "print JSON"},
    {"help", OPTION_FLAG, NULL, "this text"},
};
enum { TUNE_CHUNK = JOB_OPTIONS, TUNE_AHEAD, TUNE_RESERVE, TUNE_JSON, TUNE_HELP, SPECS };

struct request {
    struct job_request job;
    struct tune_setting now; /* 0: not given */
    bool json;
};

static int print_help(void)
{
    puts("Usage: vrampool tune TRACE [OPTION…]\n\n"
         "Finds the chunk size, the distance ahead and the reserve with which a recorded job\n"
         "(vrampool run --record) should run fastest, shows the step before and after, and prints\n"
         "the command line to use. All by prediction: nothing is run.\n");
    option_print(specs, SPECS);
    puts("\nExamples:\n"
         "  vrampool tune gpt.trace --hbm 24G\n"
         "  vrampool tune gpt.trace --hbm 24G --chunk 4M\n"
         "  vrampool tune gpt.trace --machine double-cube-8x24 --json | jq -r .command");
    return 0;
}

static bool read_chunk(const char *value, uint64_t *bytes)
{
    if (env_parse_chunk(value, bytes)) return true;
    cli_fail(EXIT_USAGE, "tune: --chunk %s: %s", value, env_form(ENV_CHUNK));
    return false;
}

static bool read_ahead(const char *value, uint32_t *ops)
{
    if (env_parse_ahead(value, ops)) return true;
    cli_fail(EXIT_USAGE, "tune: --ahead %s: %s", value, env_form(ENV_AHEAD));
    return false;
}

static bool take_option(void *context, int index, const char *value)
{
    struct request *request = context;
    switch (index) {
    case TUNE_CHUNK: return read_chunk(value, &request->now.chunk_bytes);
    case TUNE_AHEAD: return read_ahead(value, &request->now.ahead_ops);
    case TUNE_RESERVE: return job_read_size("tune", "reserve", value, &request->now.reserve_bytes);
    case TUNE_JSON: request->json = true; break;
    default: return false;
    }
    return true;
}

/* One setting's prediction. */

/* How much of the card holds data, over time. */
struct usage {
    uint64_t last_ns, used_bytes;
    double byte_ns;
};

static void note_used(void *context, uint64_t time_ns, uint64_t used_bytes, uint64_t spare_bytes)
{
    struct usage *usage = context;
    usage->byte_ns += (double)usage->used_bytes * (double)(time_ns - usage->last_ns);
    usage->last_ns = time_ns;
    usage->used_bytes = used_bytes - spare_bytes;
}

static void weigh(const struct job *job, const struct usage *usage, struct tune_result *result)
{
    const struct sim_result *sim = &result->sim;
    uint64_t busy_ns = 0;
    for (uint32_t i = 0; i < job->costs.refuges; i++)
        busy_ns += sim->traffic[i].in_busy_ns + sim->traffic[i].out_busy_ns;
    uint64_t waits_ns =
        sim->stall_ns[SIM_STALL_in] + sim->stall_ns[SIM_STALL_room] + sim->stall_ns[SIM_STALL_map];
    uint64_t fetches = sim->kinds[EXECUTOR_FETCH];
    result->link_gbps = busy_ns ? (double)(sim->in_bytes + sim->out_bytes) / (double)busy_ns : 0;
    result->wait_us = fetches ? (double)waits_ns / (double)fetches / 1e3 : 0;
    result->used_share =
        usage->last_ns ? usage->byte_ns / (double)usage->last_ns / (double)job->limits.hbm_bytes
                       : 0;
}

/* Simulates the rule that the pool follows. VP_NOT_READY: hopeless against `best`. */
static vp_status predict(struct tune *tune, const struct tune_setting *setting,
                         const struct tune_result *best, struct tune_result *result)
{
    const struct job *job = tune->job;
    struct shape shape;
    struct usage usage = {0};
    vp_status status =
        shape_create(&job->step, setting->chunk_bytes, job->machine->granularity_bytes, &shape);
    if (status != VP_OK) return status;
    struct executor_options options = plan_options(&job->costs, &job->limits, setting->chunk_bytes);
    options.lead_ops = setting->ahead_ops;
    options.ahead_ops = setting->ahead_ops + setting->ahead_ops / 2;
    /* What goes out leaves one reserve, what comes in two. */
    options.spare_bytes = setting->reserve_bytes + setting->reserve_bytes / 2;
    struct sim_watch watch = {.context = &usage, .used = note_used};
    struct sim_task task = {.shape = &shape,
                            .costs = &job->costs,
                            .options = &options,
                            .watch = &watch,
                            .hopeless_ns = best ? best->sim.step_ns / 4 * 5 : 0};
    *result = (struct tune_result){.setting = *setting};
    status = sim_run(&task, &result->sim, NULL);
    if (status == VP_OK) weigh(job, &usage, result);
    tune->peak_bytes = shape.peak_bytes;
    tune->tried++;
    shape_destroy(&shape);
    return status;
}

/* The search. */

static bool fits(const struct job *job, const struct tune_setting *setting)
{
    return setting->chunk_bytes <= job->limits.hbm_bytes / SETTING_CHUNKS_OF_A_CARD &&
           setting->chunk_bytes >= job->machine->granularity_bytes &&
           setting->reserve_bytes <= job->limits.hbm_bytes / SETTING_RESERVE_PART;
}

/* Keeps the setting where it is worth it; or, of the pool's own values, where it costs nothing. */
static vp_status try(struct tune *tune, const struct tune_setting *setting, bool own)
{
    struct tune_result result, *best = &tune->after;
    if (memcmp(setting, &best->setting, sizeof *setting) == 0 || !fits(tune->job, setting))
        return VP_OK;
    vp_status status = predict(tune, setting, best, &result);
    if (status == VP_NO_HOST_MEMORY) return status;
    uint64_t worth_ns = own ? 0 : best->sim.step_ns / WORTH_PART;
    if (status == VP_OK && result.sim.step_ns + worth_ns <= best->sim.step_ns) *best = result;
    return VP_OK;
}

static vp_status try_chunk(struct tune *tune, uint64_t bytes, bool reserve_follows, bool own)
{
    struct tune_setting setting = tune->after.setting;
    setting.chunk_bytes = bytes;
    if (reserve_follows) setting.reserve_bytes = SETTING_RESERVE_CHUNKS * bytes;
    return try(tune, &setting, own);
}

/* The pool's own choice first, then large ones: each chunk costs the host some time that the model
 * does not charge. */
static vp_status try_chunks(struct tune *tune, bool reserve_follows)
{
    vp_status status = try_chunk(tune, tune->defaults.chunk_bytes, reserve_follows, true);
    for (uint64_t bytes = ENV_MOST_CHUNK; bytes >= ENV_LEAST_CHUNK && status == VP_OK; bytes /= 2)
        status = try_chunk(tune, bytes, reserve_follows, false);
    return status;
}

static vp_status try_distance(struct tune *tune, uint32_t ops, bool own)
{
    struct tune_setting setting = tune->after.setting;
    setting.ahead_ops = ops;
    return try(tune, &setting, own);
}

static vp_status try_distances(struct tune *tune)
{
    vp_status status = try_distance(tune, tune->defaults.ahead_ops, true);
    for (uint32_t ops = 4; ops <= 1024 && status == VP_OK; ops *= 2)
        status = try_distance(tune, ops, false);
    return status;
}

static vp_status try_reserve(struct tune *tune, uint64_t chunks, bool own)
{
    struct tune_setting setting = tune->after.setting;
    setting.reserve_bytes = chunks * setting.chunk_bytes;
    return try(tune, &setting, own);
}

static vp_status try_reserves(struct tune *tune)
{
    vp_status status = try_reserve(tune, SETTING_RESERVE_CHUNKS, true);
    for (uint64_t chunks = 1; chunks <= 16 && status == VP_OK; chunks *= 2)
        status = try_reserve(tune, chunks, false);
    return status;
}

static struct tune_setting complete(const struct job *job, const struct tune_setting *given)
{
    struct tune_setting setting = *given;
    if (!setting.chunk_bytes)
        setting.chunk_bytes =
            setting_chunk_bytes(job->limits.hbm_bytes, job->machine->granularity_bytes);
    if (!setting.ahead_ops) setting.ahead_ops = SETTING_AHEAD_OPS;
    if (!setting.reserve_bytes)
        setting.reserve_bytes = SETTING_RESERVE_CHUNKS * setting.chunk_bytes;
    return setting;
}

static vp_status search(struct tune *tune, const struct tune_setting *given)
{
    struct tune_setting now = complete(tune->job, given);
    tune->defaults = complete(tune->job, &(struct tune_setting){0});
    vp_status status = predict(tune, &now, NULL, &tune->before);
    tune->after = tune->before;
    for (unsigned round = 0; round < ROUNDS && status == VP_OK; round++) {
        status = try_chunks(tune, round == 0 && !given->reserve_bytes);
        if (status == VP_OK) status = try_distances(tune);
        if (status == VP_OK) status = try_reserves(tune);
    }
    return status;
}

bool tune_is_changed(const struct tune *tune)
{
    return memcmp(&tune->before.setting, &tune->after.setting, sizeof tune->after.setting) != 0;
}

static void say_why(const struct tune *tune, vp_status status)
{
    char peak[32], hbm[32];
    if (status == VP_QUOTA)
        cli_fail(
            EXIT_USAGE,
            "tune: the job does not run with %s of a card and what else there is: it needs %s; "
            "raise --hbm or --host, or choose another --machine",
            units_format_size(tune->job->limits.hbm_bytes, hbm, sizeof hbm),
            units_format_size(tune->peak_bytes, peak, sizeof peak));
    else if (status == VP_NOT_READY)
        cli_fail(EXIT_USAGE,
                 "tune: with --chunk %" PRIu64 "M and --reserve %" PRIu64
                 "M the step would never end on %s of a card: memory moves to and fro; make these "
                 "smaller, or raise --hbm",
                 tune->before.setting.chunk_bytes / MIB, tune->before.setting.reserve_bytes / MIB,
                 units_format_size(tune->job->limits.hbm_bytes, hbm, sizeof hbm));
    else
        cli_fail(EXIT_USAGE, "tune: %s", vp_status_text(status));
}

/* `run` refuses such a reserve. */
static bool check_reserve(const struct job *job, uint64_t bytes)
{
    uint64_t most = job->limits.hbm_bytes / SETTING_RESERVE_PART;
    char asked[32], text[32];
    if (bytes <= most) return true;
    cli_fail(EXIT_USAGE, "tune: --reserve: %s is more than %s, a sixth of what is used of the card",
             units_format_size(bytes, asked, sizeof asked),
             units_format_size(most, text, sizeof text));
    return false;
}

static int run(const struct request *request)
{
    struct job job;
    if (!job_open(&request->job, &job)) return EXIT_USAGE;
    struct tune tune = {
        .trace = request->job.trace, .job = &job, .host_bytes = request->job.host_bytes};
    vp_status status = VP_INVALID;
    if (check_reserve(&job, request->now.reserve_bytes)) {
        status = search(&tune, &request->now);
        if (status != VP_OK)
            say_why(&tune, status);
        else if (request->json)
            tune_print_json(&tune);
        else
            tune_print_table(&tune);
    }
    step_release(&job.step);
    return status == VP_OK ? 0 : EXIT_USAGE;
}

int cli_tune(int argc, char **argv)
{
    struct request request = {.job = {.command = "tune", .machine = "h200"}};
    struct option_reader reader = {"tune", specs, SPECS, argc, argv, 1};
    switch (job_read(&request.job, &reader, take_option, &request)) {
    case JOB_WRONG: return EXIT_USAGE;
    case JOB_HELP: return print_help();
    case JOB_READ: break;
    }
    return run(&request);
}
