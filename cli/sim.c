/* `vrampool sim`: predicts how long a recorded job's step takes when less of it fits the card. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/units.h"
#include "cli.h"
#include "machine_file.h"
#include "option.h"
#include "sim.h"
#include "trace/step.h"

static const struct option_spec specs[] = {
    {"hbm", OPTION_VALUE, "SIZE", "what the job may use of the card; default: all of it"},
    {"host", OPTION_VALUE, "SIZE", "the same of the host's memory"},
    {"machine", OPTION_VALUE, "MACHINE",
     "h200 (the default), NxSIZE (8x24G), another shipped machine,\nor a machine file (.json)"},
    {"policy", OPTION_VALUE, "NAME",
     "plan (the default): the best plan that is found;\nlru: fetch on demand, evict what was used "
     "least recently;\ndemand: fetch on demand, evict what is used last;\ninplace: nothing moves, "
     "what does not fit is used on the host"},
    {"json", OPTION_FLAG, NULL, "print JSON"},
    {"svg", OPTION_VALUE, "FILE", "draw what the card holds over the step, and the moves"},
    {"help", OPTION_FLAG, NULL, "this text"},
};
enum { SIM_HBM, SIM_HOST, SIM_MACHINE, SIM_POLICY, SIM_JSON, SIM_SVG, SIM_HELP, SPECS };

struct request {
    const char *trace, *machine, *svg;
    uint64_t hbm_bytes, host_bytes;
    bool hbm_given, host_given, json;
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

static bool read_size(const char *option, const char *value, uint64_t *bytes)
{
    if (units_parse_size(value, bytes)) return true;
    cli_fail(EXIT_USAGE, "sim: --%s %s: not a size; write 24G, 512M or a number of bytes", option,
             value);
    return false;
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

static bool take_option(struct request *request, int index, const char *value)
{
    switch (index) {
    case SIM_HBM: request->hbm_given = true; return read_size("hbm", value, &request->hbm_bytes);
    case SIM_HOST:
        request->host_given = true;
        return read_size("host", value, &request->host_bytes);
    case SIM_MACHINE: request->machine = value; break;
    case SIM_POLICY: return read_policy(value, &request->policy);
    case SIM_JSON: request->json = true; break;
    case SIM_SVG: request->svg = value; break;
    default: return false;
    }
    return true;
}

/* Options may stand on both sides of the trace. False: wrong, and why is on stderr. */
static bool read_request(int argc, char **argv, struct request *request, bool *help)
{
    struct option_reader reader = {"sim", specs, SPECS, argc, argv, 1};
    for (;;) {
        const char *value;
        int index = option_next(&reader, &value);
        if (index == OPTION_WRONG) return false;
        if (index == SIM_HELP) {
            *help = true;
            return true;
        }
        if (index != OPTION_END) {
            if (!take_option(request, index, value)) return false;
            continue;
        }
        if (reader.next >= argc) break;
        if (request->trace) {
            cli_fail(EXIT_USAGE, "sim: `%s`: one trace at a time", argv[reader.next]);
            return false;
        }
        request->trace = argv[reader.next++];
    }
    if (!request->trace) cli_fail(EXIT_USAGE, "sim: which trace? See vrampool sim --help");
    return request->trace != NULL;
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

static void note_ran(void *context, uint32_t op, uint64_t start_ns, uint64_t end_ns)
{
    struct sim_story *story = context;
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

/* Where what does not fit goes: to the other cards that the first one reaches, each with as much as
 * that one may use, and to the host. */
static void set_refuges(const struct request *request, const struct machine *machine,
                        struct prediction *prediction)
{
    struct plan_limits *limits = &prediction->limits;
    unsigned places[PLAN_REFUGES], count = plan_find_places(machine, 0, places);
    plan_costs_of(machine, 0, places, count, &prediction->costs);
    for (unsigned i = 0; i < count; i++) {
        bool host = places[i] == machine->cards;
        uint64_t most = host ? machine->host_bytes : machine->hbm_bytes[places[i]];
        uint64_t wanted = host ? request->host_bytes : limits->hbm_bytes;
        if (host && !request->host_given) wanted = most;
        limits->refuge_bytes[i] = !host && most < wanted ? most : wanted;
    }
}

/* Fills in the limits that were not given, and checks them. */
static bool set_limits(const struct request *request, const struct machine *machine,
                       struct prediction *prediction)
{
    struct plan_limits *limits = &prediction->limits;
    char text[32];
    limits->hbm_bytes = request->hbm_given ? request->hbm_bytes : machine->hbm_bytes[0];
    limits->hbm_bytes -= limits->hbm_bytes % machine->granularity_bytes;
    if (limits->hbm_bytes < machine->granularity_bytes) {
        cli_fail(EXIT_USAGE, "sim: --hbm: at least %s, one granule of a card's memory",
                 units_format_size(machine->granularity_bytes, text, sizeof text));
        return false;
    }
    if (limits->hbm_bytes > machine->hbm_bytes[0]) {
        cli_fail(EXIT_USAGE, "sim: --hbm: a card of machine %s has %s", machine->name,
                 units_format_size(machine->hbm_bytes[0], text, sizeof text));
        return false;
    }
    set_refuges(request, machine, prediction);
    return true;
}

static vp_status read_step(const char *path, struct step *step, bool *repeats)
{
    struct trace trace;
    vp_status status = trace_read(path, &trace, NULL);
    if (status != VP_OK) return status;
    status = step_from_trace(&trace, step, repeats);
    trace_release(&trace);
    return status;
}

static vp_status predict(const struct step *step, struct prediction *prediction)
{
    struct shape shape;
    struct plan plan;
    struct sim_watch watch = {&prediction->story, note_moved, note_used, note_ran};
    prediction->chunk_bytes =
        plan_chunk_bytes(prediction->limits.hbm_bytes, prediction->machine->granularity_bytes);
    vp_status status =
        shape_create(step, prediction->chunk_bytes, prediction->machine->granularity_bytes, &shape);
    if (status != VP_OK) return status;
    prediction->peak_bytes = shape.peak_bytes;
    status = plan_make(&shape, &prediction->costs, &prediction->limits, prediction->policy, &plan);
    if (status == VP_OK) {
        status = plan_watch(&plan, &shape, &prediction->costs, &watch, &prediction->result);
        prediction->options = plan.options;
        prediction->result = plan.predicted;
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
    static struct machine machine;
    struct step step;
    struct prediction prediction = {.trace = request->trace, .policy = request->policy};
    if (machine_find(request->machine, &machine) != VP_OK) return EXIT_USAGE;
    prediction.machine = &machine;
    if (!set_limits(request, &machine, &prediction)) return EXIT_USAGE;
    if (read_step(request->trace, &step, &prediction.repeats) != VP_OK) return EXIT_USAGE;
    int result = EXIT_USAGE;
    if (predict(&step, &prediction) == VP_OK && !prediction.story.exhausted)
        result = show(request, &prediction);
    free(prediction.story.moves);
    free(prediction.story.uses);
    free(prediction.story.runs);
    step_release(&step);
    return result;
}

int cli_sim(int argc, char **argv)
{
    struct request request = {.machine = "h200"};
    bool help = false;
    if (!read_request(argc, argv, &request, &help)) return EXIT_USAGE;
    return help ? print_help() : simulate(&request);
}
