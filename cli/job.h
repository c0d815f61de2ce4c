/* A recorded job on a machine that need not be there: what `vrampool sim` and `vrampool tune` have
 * in common. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include <stdbool.h>

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

/* A word of the command line that is no option: the trace. False, and why is on stderr: there is
 * one already. */
bool job_take_trace(struct job_request *request, const char *word);

/* Reads trace and machine and sets the limits. One card computes; what does not fit goes to the
 * other cards that it reaches, each with as much as it may use itself, and to the host. False, and
 * why is on stderr. The step is given back with step_release. */
bool job_open(const struct job_request *request, struct job *job) VP_MUST_USE;

#endif
