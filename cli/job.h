/* A recorded job on a machine that need not be there: what `vrampool sim` and `vrampool tune` have
 * in common. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <stdbool.h>

#include "option.h"
#include "plan/plan.h"

/* What the command line says. Strings belong to it. */
struct job_request {
    const char *command; /* for messages */
    const char *trace, *machine;
    uint64_t hbm_bytes, host_bytes;
    bool hbm_given, host_given;
};

struct job {
    const struct machine *machine;
    struct step step;
    bool repeats; /* the trace; otherwise all of it is taken for one step */
    struct plan_costs costs;
    struct plan_limits limits;
};

/* Reads the value of --name as a size. False, and why is on stderr. */
bool job_read_size(const char *command, const char *name, const char *value, uint64_t *bytes);

/* The options of a job, which begin the table of a command that has one, and their number. */
/* clang-format off */
#define JOB_SPECS \
    {"hbm", OPTION_VALUE, "SIZE", "what the job may use of the card; default: all of it"}, \
    {"host", OPTION_VALUE, "SIZE", "the same of the host's memory"}, \
    {"machine", OPTION_VALUE, "MACHINE", \
     "h200 (the default), NxSIZE (8x24G), another shipped machine,\nor a machine file (.json)"}
/* clang-format on */
enum { JOB_HBM, JOB_HOST, JOB_MACHINE, JOB_OPTIONS };

enum job_reading { JOB_READ, JOB_HELP, JOB_WRONG };

/* Reads a whole command line: the trace, with options on both sides of it. What is not of the job
 * goes to `take`, which returns false at a mistake; `help` is for the caller, and ends it.
 * JOB_WRONG: why is on stderr. */
enum job_reading job_read(struct job_request *request, struct option_reader *reader,
                          bool (*take)(void *context, int index, const char *value), void *context);

/* Reads trace and machine and sets the limits. One card computes; what does not fit goes to the
 * other cards that it reaches, each with as much as it may use itself, and to the host. False, and
 * why is on stderr. The step is given back with step_release. */
bool job_open(const struct job_request *request, struct job *job) VP_MUST_USE;

#endif
