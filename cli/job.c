#include "job.h"

#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "cli.h"
#include "machine_file.h"

bool job_read_size(const char *command, const char *name, const char *value, uint64_t *bytes)
{
    if (units_parse_size(value, bytes)) return true;
    cli_fail(EXIT_USAGE, "%s: --%s %s: not a size; write 24G, 512M or a number of bytes", command,
             name, value);
    return false;
}

static bool take_trace(struct job_request *request, const char *word)
{
    if (request->trace) {
        cli_fail(EXIT_USAGE, "%s: `%s`: one trace at a time", request->command, word);
        return false;
    }
    request->trace = word;
    return true;
}

static bool take_option(struct job_request *request, int index, const char *value)
{
    switch (index) {
    case JOB_HBM:
        request->hbm_given = true;
        return job_read_size(request->command, "hbm", value, &request->hbm_bytes);
    case JOB_HOST:
        request->host_given = true;
        return job_read_size(request->command, "host", value, &request->host_bytes);
    default: request->machine = value; return true;
    }
}

enum job_reading job_read(struct job_request *request, struct option_reader *reader,
                          bool (*take)(void *context, int index, const char *value), void *context)
{
    for (;;) {
        const char *value;
        int index = option_next(reader, &value);
        if (index == OPTION_END && reader->next >= reader->argc) break;
        bool fine = index != OPTION_WRONG;
        if (index == OPTION_END)
            fine = take_trace(request, reader->argv[reader->next++]);
        else if (fine && strcmp(reader->specs[index].name, "help") == 0)
            return JOB_HELP;
        else if (fine)
            fine = index < JOB_OPTIONS ? take_option(request, index, value)
                                       : take(context, index, value);
        if (!fine) return JOB_WRONG;
    }
    if (request->trace) return JOB_READ;
    cli_fail(EXIT_USAGE, "%s: which trace? See vrampool %s --help", request->command,
             request->command);
    return JOB_WRONG;
}

static void set_refuges(const struct job_request *request, struct job *job)
{
    const struct machine *machine = job->machine;
    struct plan_limits *limits = &job->limits;
    unsigned places[PLAN_REFUGES], count = plan_find_places(machine, 0, places);
    plan_costs_of(machine, 0, places, count, &job->costs);
    for (unsigned i = 0; i < count; i++) {
        bool host = places[i] == machine->cards;
        uint64_t most = host ? machine->host_bytes : machine->hbm_bytes[places[i]];
        uint64_t wanted = host ? request->host_bytes : limits->hbm_bytes;
        if (host && !request->host_given) wanted = most;
        limits->refuge_bytes[i] = !host && most < wanted ? most : wanted;
    }
}

static bool set_limits(const struct job_request *request, struct job *job)
{
    const struct machine *machine = job->machine;
    struct plan_limits *limits = &job->limits;
    char text[32];
    limits->hbm_bytes = request->hbm_given ? request->hbm_bytes : machine->hbm_bytes[0];
    limits->hbm_bytes -= limits->hbm_bytes % machine->granularity_bytes;
    if (limits->hbm_bytes < machine->granularity_bytes) {
        cli_fail(EXIT_USAGE, "%s: --hbm: at least %s, one granule of a card's memory",
                 request->command,
                 units_format_size(machine->granularity_bytes, text, sizeof text));
        return false;
    }
    if (limits->hbm_bytes > machine->hbm_bytes[0]) {
        cli_fail(EXIT_USAGE, "%s: --hbm: a card of machine %s has %s", request->command,
                 machine->name, units_format_size(machine->hbm_bytes[0], text, sizeof text));
        return false;
    }
    set_refuges(request, job);
    return true;
}

static vp_status read_step(const char *path, struct step *step, bool *repeats)
{
    struct trace trace;
    vp_status status = trace_read(path, &trace, NULL);
    if (status != VP_OK) return status;
    if (trace.op_count == 0) {
        log_error("%s: no op is in it, so no step; record some steps with vrampool run --record",
                  path);
        status = VP_INVALID;
    } else {
        status = step_from_trace(&trace, step, repeats);
    }
    trace_release(&trace);
    return status;
}

bool job_open(const struct job_request *request, struct job *job)
{
    static struct machine machine; /* large, and there is one */
    *job = (struct job){.machine = &machine};
    return machine_find(request->machine, &machine) == VP_OK && set_limits(request, job) &&
           read_step(request->trace, &job->step, &job->repeats) == VP_OK;
}
