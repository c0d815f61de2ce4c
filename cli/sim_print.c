#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "json_text.h"
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

static unsigned percent(uint64_t ns, uint64_t step_ns)
{
    return step_ns ? (unsigned)((100 * ns + step_ns / 2) / step_ns) : 0;
}

static uint64_t longer(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* How long the busiest way of all was. */
static uint64_t busiest_ns(const struct prediction *p, bool in)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < p->job->costs.refuges; i++) {
        const struct sim_traffic *traffic = &p->result.traffic[i];
        ns = longer(ns, in ? traffic->in_busy_ns : traffic->out_busy_ns);
    }
    return ns;
}

const char *sim_refuge_name(const struct prediction *p, uint32_t refuge, char *text, size_t size)
{
    uint32_t place = p->job->costs.refuge[refuge].place;
    if (place == p->job->machine->cards)
        snprintf(text, size, "host0");
    else
        snprintf(text, size, "card%u", place);
    return text;
}

static bool is_used(const struct prediction *p, uint32_t refuge)
{
    return p->result.refuge_peak_bytes[refuge] > 0;
}

/* Other cards took some of what did not fit. */
static bool cards_help(const struct prediction *p)
{
    for (uint32_t i = 0; i < p->job->costs.refuges; i++)
        if (p->job->costs.refuge[i].place != p->job->machine->cards && is_used(p, i)) return true;
    return false;
}

/* What was copied over a direction of a link, numbered as in plan/costs.h. */
static uint64_t link_bytes(const struct prediction *p, uint32_t link)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->job->costs.refuges; i++) {
        const struct plan_refuge *refuge = &p->job->costs.refuge[i];
        const struct sim_traffic *traffic = &p->result.traffic[i];
        for (uint32_t k = 0; k < refuge->in.claims; k++)
            if (refuge->in.claim[k].link == link) bytes += traffic->in_bytes;
        for (uint32_t k = 0; k < refuge->out.claims; k++)
            if (refuge->out.claim[k].link == link) bytes += traffic->out_bytes;
    }
    return bytes;
}

static const char *end_name(uint8_t end, char *text, size_t size)
{
    if (end == MACHINE_SWITCH)
        snprintf(text, size, "switch");
    else
        snprintf(text, size, "card%u", end);
    return text;
}

static void print_refuges(const struct prediction *p)
{
    const struct sim_result *r = &p->result;
    char name[16], room[32], most[32];
    printf("\n%-8s %4s %9s %9s %9s %5s %9s %5s %9s\n", "refuge", "hops", "room", "most used",
           "in GB", "busy", "out GB", "busy", "in place");
    for (uint32_t i = 0; i < p->job->costs.refuges; i++) {
        const struct sim_traffic *traffic = &r->traffic[i];
        if (!is_used(p, i)) continue;
        printf("%-8s %4u %9s %9s %9.2f %3u %% %9.2f %3u %% %9.2f\n",
               sim_refuge_name(p, i, name, sizeof name), p->job->costs.refuge[i].hops,
               units_format_size(p->job->limits.refuge_bytes[i], room, sizeof room),
               units_format_size(r->refuge_peak_bytes[i], most, sizeof most),
               (double)traffic->in_bytes * 1e-9, percent(traffic->in_busy_ns, r->step_ns),
               (double)traffic->out_bytes * 1e-9, percent(traffic->out_busy_ns, r->step_ns),
               (double)traffic->in_place_bytes * 1e-9);
    }
}

/* Links between cards, where the machine has some, and what was copied over each. */
static void print_links(const struct prediction *p)
{
    char ends[2][16];
    bool any = false;
    for (uint32_t i = 0; i < p->job->machine->links; i++) {
        uint64_t forth = link_bytes(p, 2 * i), back = link_bytes(p, 2 * i + 1);
        if (forth + back == 0) continue;
        if (!any) printf("\n%-14s %9s %9s\n", "link", "forth GB", "back GB");
        any = true;
        const uint8_t *end = p->job->machine->link[i].ends;
        printf("%s-%-8s %9.2f %9.2f\n", end_name(end[0], ends[0], sizeof ends[0]),
               end_name(end[1], ends[1], sizeof ends[1]), (double)forth * 1e-9,
               (double)back * 1e-9);
    }
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void print_translation(const struct sim_translation *t)
{
    const struct translate_count *count = &t->count;
    printf("\ntranslation %7.0f ns a page on average, 99 %% within %llu: a model, not measured\n",
           translate_average_ns(count), (unsigned long long)t->p99_ns);
    printf("           %.1f %% answered by the card's cache, %.1f %% by its table, %.1f %% by the "
           "controller\n",
           100 * share(count->hits, count->asked), 100 * share(count->local, count->asked),
           100 * share(count->controlled, count->asked));
}

void sim_print_table(const struct prediction *p)
{
    const struct sim_result *r = &p->result;
    char hbm[32], peak[32];
    printf("trace      %s%s\n", p->trace, p->job->repeats ? "" : " (nothing repeats: all of it)");
    printf("machine    %s, %s of HBM used; the job needs %s\n", p->job->machine->name,
           units_format_size(p->job->limits.hbm_bytes, hbm, sizeof hbm),
           units_format_size(p->peak_bytes, peak, sizeof peak));
    printf("policy     %s\n\n", plan_policy_name(p->policy));
    printf("step       %8.4f s   all in HBM %.4f s, %.2f times as long\n", seconds(r->step_ns),
           seconds(r->in_hbm_ns), (double)r->step_ns / (double)(r->in_hbm_ns ? r->in_hbm_ns : 1));
    printf("stalls     %8.4f s\n", seconds(stall_ns(r)));
    for (unsigned i = 0; i < SIM_STALL_COUNT; i++)
        printf("           %8.4f s   %s\n", seconds(r->stall_ns[i]),
               sim_stall_words((enum sim_stall)i));
    printf("%-10s %8.2f GB\n", "in", (double)r->in_bytes * 1e-9);
    printf("%-10s %8.2f GB\n", "out", (double)r->out_bytes * 1e-9);
    printf("%-10s %8.2f GB\n", "in place", (double)r->in_place_bytes * 1e-9);
    if (r->host_peak_bytes > 0) {
        print_refuges(p);
        print_links(p);
    }
    print_translation(&p->translation);
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

static json_t *refuges(const struct prediction *p)
{
    json_t *list = json_array();
    char name[16];
    for (uint32_t i = 0; i < p->job->costs.refuges; i++) {
        const struct sim_traffic *traffic = &p->result.traffic[i];
        json_array_append_new(
            list,
            json_pack("{ss si sI sI sI sf sI sf sI}", "place",
                      sim_refuge_name(p, i, name, sizeof name), "hops",
                      (int)p->job->costs.refuge[i].hops, "room_bytes",
                      (json_int_t)p->job->limits.refuge_bytes[i], "used_peak_bytes",
                      (json_int_t)p->result.refuge_peak_bytes[i], "in_bytes",
                      (json_int_t)traffic->in_bytes, "in_busy_s", seconds(traffic->in_busy_ns),
                      "out_bytes", (json_int_t)traffic->out_bytes, "out_busy_s",
                      seconds(traffic->out_busy_ns), "in_place_bytes",
                      (json_int_t)traffic->in_place_bytes));
    }
    return list;
}

static json_t *links(const struct prediction *p)
{
    json_t *list = json_array();
    char ends[2][16];
    for (uint32_t i = 0; i < p->job->machine->links; i++) {
        const uint8_t *end = p->job->machine->link[i].ends;
        json_array_append_new(list, json_pack("{s[ss] sI sI}", "between",
                                              end_name(end[0], ends[0], sizeof ends[0]),
                                              end_name(end[1], ends[1], sizeof ends[1]),
                                              "forth_bytes", (json_int_t)link_bytes(p, 2 * i),
                                              "back_bytes", (json_int_t)link_bytes(p, 2 * i + 1)));
    }
    return list;
}

static json_t *translation(const struct sim_translation *t)
{
    const struct translate_count *count = &t->count;
    return json_pack(
        "{sb sf sI sI sI sf sf sf sI sf sI sI}", "model", 1, "average_ns",
        translate_average_ns(count), "p99_ns", (json_int_t)t->p99_ns, "worst_ns",
        (json_int_t)count->worst_ns, "asked", (json_int_t)count->asked, "hit_share",
        share(count->hits, count->asked), "table_share", share(count->local, count->asked),
        "controller_share", share(count->controlled, count->asked), "mistaken",
        (json_int_t)count->mistaken, "queue_ns", share(count->waited_ns, count->controlled),
        "moves", (json_int_t)t->moves, "entries", (json_int_t)t->entries);
}

void sim_print_json(const struct prediction *p)
{
    const struct sim_result *r = &p->result;
    json_t *stalls = json_object();
    for (unsigned i = 0; i < SIM_STALL_COUNT; i++)
        json_object_set_new(stalls, sim_stall_name((enum sim_stall)i),
                            json_real(seconds(r->stall_ns[i])));
    json_t *root = json_pack(
        "{so ss ss ss sb sf sf sf so sI sI sI sI sI sI sI sI sf sf so so so so so so}", "trace",
        json_text(p->trace), "machine", p->job->machine->name, "policy",
        plan_policy_name(p->policy), "refuge", cards_help(p) ? "cards" : "host", "repeats",
        p->job->repeats, "step_s", seconds(r->step_ns), "in_hbm_s", seconds(r->in_hbm_ns),
        "stall_s", seconds(stall_ns(r)), "stalls_s", stalls, "in_bytes", (json_int_t)r->in_bytes,
        "out_bytes", (json_int_t)r->out_bytes, "in_place_bytes", (json_int_t)r->in_place_bytes,
        "peak_bytes", (json_int_t)p->peak_bytes, "hbm_bytes", (json_int_t)p->job->limits.hbm_bytes,
        "hbm_used_peak_bytes", (json_int_t)r->used_peak_bytes, "host_used_peak_bytes",
        (json_int_t)r->host_peak_bytes, "chunk_bytes", (json_int_t)p->chunk_bytes, "in_busy_s",
        seconds(busiest_ns(p, true)), "out_busy_s", seconds(busiest_ns(p, false)), "moves",
        moves(r), "steps_s", steps(r), "hbm_use", curve(p), "refuges", refuges(p), "links",
        links(p), "translation", translation(&p->translation));
    if (!root) abort();
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(root);
}
