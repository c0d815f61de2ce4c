#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "sim.h"

enum { CURVE_POINTS = 200 };

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static uint64_t stall_ns(const struct sim_result *result)
{
    return result->step_ns > result->in_hbm_ns ? result->step_ns - result->in_hbm_ns : 0;
}

static void print_link(const char *name, uint64_t bytes, uint64_t busy_ns, uint64_t step_ns)
{
    printf("%-10s %8.2f GB  link busy %3.0f %% of the step\n", name, (double)bytes * 1e-9,
           step_ns ? 100.0 * (double)busy_ns / (double)step_ns : 0.0);
}

void sim_print_table(const struct prediction *p)
{
    const struct sim_result *r = &p->result;
    char hbm[32], peak[32], used[32];
    printf("trace      %s%s\n", p->trace, p->repeats ? "" : " (nothing repeats: all of it)");
    printf("machine    %s, %s of HBM used; the job needs %s\n", p->machine,
           units_format_size(p->limits.hbm_bytes, hbm, sizeof hbm),
           units_format_size(p->peak_bytes, peak, sizeof peak));
    printf("policy     %s\n\n", plan_policy_name(p->policy));
    printf("step       %8.4f s   all in HBM %.4f s, %.2f times as long\n", seconds(r->step_ns),
           seconds(r->in_hbm_ns), (double)r->step_ns / (double)(r->in_hbm_ns ? r->in_hbm_ns : 1));
    printf("stalls     %8.4f s\n", seconds(stall_ns(r)));
    for (unsigned i = 0; i < SIM_STALL_COUNT; i++)
        printf("           %8.4f s   %s\n", seconds(r->stall_ns[i]),
               sim_stall_words((enum sim_stall)i));
    print_link("in", r->in_bytes, r->in_busy_ns, r->step_ns);
    print_link("out", r->out_bytes, r->out_busy_ns, r->step_ns);
    printf("in place   %8.2f GB\n", (double)r->in_place_bytes * 1e-9);
    printf("%-10s %8s     most that was used there\n", p->lent ? "cards" : "host",
           units_format_size(r->host_peak_bytes, used, sizeof used));
}

/* What the card holds over the step, at evenly spaced times. */
static json_t *curve(const struct prediction *p)
{
    json_t *points = json_array();
    uint32_t at = 0;
    uint64_t used = p->story.use_count ? p->story.uses[0].used_bytes : 0;
    for (unsigned i = 0; i <= CURVE_POINTS; i++) {
        uint64_t time_ns = p->result.step_ns * i / CURVE_POINTS;
        for (; at < p->story.use_count && p->story.uses[at].time_ns <= time_ns; at++)
            used = p->story.uses[at].used_bytes - p->story.uses[at].spare_bytes;
        json_array_append_new(points, json_pack("[fI]", seconds(time_ns), (json_int_t)used));
    }
    return points;
}

static json_t *steps(const struct sim_result *r)
{
    json_t *times = json_array();
    for (unsigned i = 0; i <= SIM_STEPS && r->each_ns[i]; i++)
        json_array_append_new(times, json_real(seconds(r->each_ns[i])));
    return times;
}

static json_t *moves(const struct sim_result *r)
{
    json_t *counts = json_object();
    static const char *const names[] = {
#define NAME(name, lane) #name,
        EXECUTOR_KINDS(NAME)
#undef NAME
    };
    for (unsigned i = 0; i <= EXECUTOR_HOST; i++) {
        char key[16];
        snprintf(key, sizeof key, "%s", names[i]);
        for (char *c = key; *c; c++) *c = (char)(*c | 0x20);
        json_object_set_new(counts, key, json_integer((json_int_t)r->kinds[i]));
    }
    return counts;
}

void sim_print_json(const struct prediction *p)
{
    const struct sim_result *r = &p->result;
    json_t *stalls = json_object();
    for (unsigned i = 0; i < SIM_STALL_COUNT; i++)
        json_object_set_new(stalls, sim_stall_name((enum sim_stall)i),
                            json_real(seconds(r->stall_ns[i])));
    json_t *root = json_pack(
        "{ss ss ss ss sb sf sf sf so sI sI sI sI sI sI sI sI sf sf so so so}", "trace", p->trace,
        "machine", p->machine, "policy", plan_policy_name(p->policy), "refuge",
        p->lent ? "cards" : "host", "repeats", p->repeats, "step_s", seconds(r->step_ns),
        "in_hbm_s", seconds(r->in_hbm_ns), "stall_s", seconds(stall_ns(r)), "stalls_s", stalls,
        "in_bytes", (json_int_t)r->in_bytes, "out_bytes", (json_int_t)r->out_bytes,
        "in_place_bytes", (json_int_t)r->in_place_bytes, "peak_bytes", (json_int_t)p->peak_bytes,
        "hbm_bytes", (json_int_t)p->limits.hbm_bytes, "hbm_used_peak_bytes",
        (json_int_t)r->used_peak_bytes, "host_used_peak_bytes", (json_int_t)r->host_peak_bytes,
        "chunk_bytes", (json_int_t)p->chunk_bytes, "in_busy_s", seconds(r->in_busy_ns),
        "out_busy_s", seconds(r->out_busy_ns), "moves", moves(r), "steps_s", steps(r), "hbm_use",
        curve(p));
    if (!root || json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) != 0) abort();
    putchar('\n');
    json_decref(root);
}
