/* `vrampool sim`: predicts how long a recorded job's step takes when less of it fits the card. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/setting.h"
#include "base/units.h"
#include "cli.h"
#include "option.h"
#include "sim.h"
#include "trace/step.h"

static const struct option_spec specs[] = {
    JOB_SPECS,
    {"policy", OPTION_VALUE, "NAME",
     "plan (the default): the best plan that is found;\nlru: fetch on demand, evict what was used "
     "least recently;\ndemand: fetch on demand, evict what is used last;\ninplace: nothing moves, "
     "what does not fit is used on the host"},
    {"json", OPTION_FLAG, NULL, "print JSON"},
    {"svg", OPTION_VALUE, "FILE", "draw what the card holds over the step, and the moves"},
    {"help", OPTION_FLAG, NULL, "this text"},
};
enum { SIM_POLICY = JOB_OPTIONS, SIM_JSON, SIM_SVG, SIM_HELP, SPECS };

struct request {
    struct job_request job;
    const char *svg;
    bool json;
    enum plan_policy policy;
};

static int print_help(void)
{
    puts("Usage: vrampool sim TRACE [OPTION…]\n\n"
         "Predicts the time of a training step from a trace (vrampool run --record), when the job "
         "may\n"
         "use only a part of the card's memory and the host has the rest; on a machine that need "
         "not be "
         "there.\n");
    option_print(specs, SPECS);
    puts("\nExamples:\n"
         "  vrampool sim gpt.trace --hbm 24G\n"
         "  vrampool sim gpt.trace --hbm 24G --policy lru --json | jq .step_s\n"
         "  vrampool sim gpt.trace --hbm 16G --svg step.svg");
    return 0;
}

static bool read_policy(const char *value, enum plan_policy *policy)
{
    uint32_t number;
    if (env_parse_policy(value, &number)) {
        *policy = (enum plan_policy)number;
        return true;
    }
    cli_fail(EXIT_USAGE, "sim: --policy %s: not a policy; it is plan, lru, demand or inplace",
             value);
    return false;
}

static bool take_option(void *context, int index, const char *value)
{
    struct request *request = context;
    switch (index) {
    case SIM_POLICY: return read_policy(value, &request->policy);
    case SIM_JSON: request->json = true; break;
    case SIM_SVG: request->svg = value; break;
    default: return false;
    }
    return true;
}

/* The story, as the simulator tells it. */

static bool make_room(struct sim_story *story, void *array, uint32_t count, uint32_t *room,
                      size_t size)
{
    void **data = array;
    if (story->exhausted) return false;
    if (count < *room) return true;
    uint32_t grown = *room ? 2 * *room : 1024;
    void *moved = realloc(*data, grown * size);
    story->exhausted = !moved;
    if (!moved) return false;
    *data = moved;
    *room = grown;
    return true;
}

static void note_moved(void *context, const struct executor_action *action, uint64_t start_ns,
                       uint64_t end_ns)
{
    struct sim_story *story = context;
    sim_visits_moved(&story->visits, action, end_ns);
    if (!make_room(story, &story->moves, story->move_count, &story->move_room,
                   sizeof *story->moves))
        return;
    story->moves[story->move_count++] =
        (struct sim_move){start_ns, end_ns, action->kind, action->refuge};
}

static void note_used(void *context, uint64_t time_ns, uint64_t used_bytes, uint64_t spare_bytes)
{
    struct sim_story *story = context;
    if (!make_room(story, &story->uses, story->use_count, &story->use_room, sizeof *story->uses))
        return;
    story->uses[story->use_count++] = (struct sim_use){time_ns, used_bytes, spare_bytes};
}

static void note_ran(void *context, const struct executor *executor, uint32_t op, uint64_t start_ns,
                     uint64_t end_ns)
{
    struct sim_story *story = context;
    sim_visits_ran(&story->visits, executor, op, start_ns, end_ns);
    struct sim_run *last = story->run_count ? &story->runs[story->run_count - 1] : NULL;
    if (last && last->end_ns == start_ns) {
        last->end_ns = end_ns;
        return;
    }
    if (!make_room(story, &story->runs, story->run_count, &story->run_room, sizeof *story->runs))
        return;
    story->runs[story->run_count++] = (struct sim_run){start_ns, end_ns};
}

/* Work. */

/* Simulates the plan once more, and what translation would cost in it. */
static vp_status watch(const struct plan *plan, const struct shape *shape, const struct job *job,
                       struct prediction *prediction)
{
    struct sim_story *story = &prediction->story;
    struct sim_watch watch = {story, note_moved, note_used, note_ran};
    if (!sim_visits_create(job, shape, &story->visits)) return VP_NO_HOST_MEMORY;
    vp_status status = plan_watch(plan, shape, &job->costs, &watch, &prediction->result);
    prediction->options = plan->options;
    prediction->result = plan->predicted;
    if (status == VP_OK)
        status = sim_translate(&story->visits, plan->predicted.step_ns, &prediction->translation);
    sim_visits_destroy(&story->visits);
    return status;
}

static vp_status predict(const struct job *job, struct prediction *prediction)
{
    struct shape shape;
    struct plan plan;
    uint64_t granularity = job->machine->granularity_bytes;
    prediction->chunk_bytes = setting_chunk_bytes(job->limits.hbm_bytes, granularity);
    vp_status status = shape_create(&job->step, prediction->chunk_bytes, granularity, &shape);
    if (status != VP_OK) return status;
    prediction->peak_bytes = shape.peak_bytes;
    status = plan_make(&shape, &job->costs, &job->limits, prediction->policy, &plan);
    if (status == VP_OK) {
        status = watch(&plan, &shape, job, prediction);
        plan_destroy(&plan);
    }
    shape_destroy(&shape);
    return status;
}

static int show(const struct request *request, const struct prediction *prediction)
{
    if (request->json)
        sim_print_json(prediction);
    else
        sim_print_table(prediction);
    if (request->svg && sim_draw(prediction, request->svg) != VP_OK) return EXIT_USAGE;
    return 0;
}

static int simulate(const struct request *request)
{
    struct job job;
    if (!job_open(&request->job, &job)) return EXIT_USAGE;
    struct prediction prediction = {
        .trace = request->job.trace, .job = &job, .policy = request->policy};
    int result = EXIT_USAGE;
    if (predict(&job, &prediction) == VP_OK && !prediction.story.exhausted)
        result = show(request, &prediction);
    free(prediction.story.moves);
    free(prediction.story.uses);
    free(prediction.story.runs);
    step_release(&job.step);
    return result;
}

int cli_sim(int argc, char **argv)
{
    struct request request = {.job = {.command = "sim", .machine = "h200"}};
    struct option_reader reader = {"sim", specs, SPECS, argc, argv, 1};
    switch (job_read(&request.job, &reader, take_option, &request)) {
    case JOB_WRONG: return EXIT_USAGE;
    case JOB_HELP: return print_help();
    case JOB_READ: break;
    }
    if (!cli_picture_is_apart("sim", request.svg, request.job.trace) ||
        !cli_picture_is_apart("sim", request.svg, request.job.machine))
        return EXIT_USAGE;
    return simulate(&request);
}
