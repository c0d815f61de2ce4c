/* The report as JSON. */
#include "pool/report.h"

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void write_number(FILE *file, const char *indent, const char *name, uint64_t value)
{
    fprintf(file, "%s\"%s\": %llu,\n", indent, name, (unsigned long long)value);
}

static void write_places(const struct report *report, FILE *file)
{
    fprintf(file, "  \"places\": [");
    for (unsigned i = 0; i < report->places; i++) {
        const vp_place_info_t *info = &report->place[i];
        fprintf(file,
                "%s\n    {\"name\": \"%s\", \"kind\": \"%s\", \"capacity_bytes\": %llu, "
                "\"used_bytes\": %llu, \"reserve_bytes\": %llu, \"peak_bytes\": %llu}",
                i ? "," : "", info->name, info->kind == VP_PLACE_CARD ? "card" : "host",
                (unsigned long long)info->capacity_bytes, (unsigned long long)info->used_bytes,
                (unsigned long long)info->reserve_bytes, (unsigned long long)info->peak_bytes);
    }
    fprintf(file, "\n  ],\n");
}

static void write_links(const struct links *links, FILE *file)
{
    fprintf(file, "  \"link_faults\": [");
    for (unsigned i = 0; i < links->faults; i++) {
        const struct link_fault *fault = &links->fault[i];
        char other[16] = "switch";
        if (fault->b != LINKS_SWITCH) snprintf(other, sizeof other, "card%u", fault->b);
        fprintf(file,
                "%s\n    {\"from\": \"card%u\", \"to\": \"%s\", \"lanes\": %u, \"lanes_up\": %u}",
                i ? "," : "", fault->a, other, fault->lanes, fault->lanes_up);
    }
    fprintf(file, "],\n  \"card_faults\": [");
    for (unsigned i = 0; i < links->cards; i++)
        fprintf(file, "%s\n    {\"name\": \"card%u\", \"recovery\": \"%s\"}", i ? "," : "",
                links->card[i].card, links_action(links->card[i].action));
    fprintf(file, "],\n");
}

static void write_measured(const struct report_step *step, FILE *file)
{
    fprintf(file, "    \"steps_s\": [");
    for (uint32_t i = 0; i < step->count; i++)
        fprintf(file, "%s%.6f", i ? ", " : "", seconds(step->steps[i].step_ns));
    fprintf(file, "],\n    \"step_s\": %.6f,\n    \"compute_s\": %.6f,\n", seconds(step->step_ns),
            seconds(step->compute_ns));
    fprintf(file, "    \"in_hbm_fraction\": %.4f,\n    \"stalls_s\": {", report_fraction(step));
    for (unsigned i = 0; i < REPORT_STALL_COUNT; i++)
        fprintf(file, "%s\"%s\": %.6f", i ? ", " : "", report_stall_name((enum report_stall)i),
                seconds(step->stall_ns[i]));
    fprintf(file, "},\n");
#define WRITE(name) write_number(file, "    ", #name, step->counts.name);
    MEASURE_COUNTS(WRITE)
#undef WRITE
}

static void write_predicted(const struct report_step *step, FILE *file)
{
    const struct predict *predict = &step->predict;
    const struct sim_result *now = &predict->now;
    fprintf(file, "    \"predicted\": {\"step_s\": %.6f, \"in_hbm_s\": %.6f, \"stalls_s\": {",
            seconds(now->step_ns), seconds(now->in_hbm_ns));
    for (unsigned i = 0; i < SIM_STALL_COUNT; i++)
        fprintf(file, "%s\"%s\": %.6f", i ? ", " : "", sim_stall_name((enum sim_stall)i),
                seconds(now->stall_ns[i]));
    fprintf(file,
            "}, \"in_bytes\": %llu, \"out_bytes\": %llu, \"in_place_bytes\": %llu,\n"
            "      \"peak_bytes\": %llu, \"fits_hbm_bytes\": %llu},\n    \"hbm_curve\": [",
            (unsigned long long)now->in_bytes, (unsigned long long)now->out_bytes,
            (unsigned long long)now->in_place_bytes, (unsigned long long)predict->peak_bytes,
            (unsigned long long)predict->fits_bytes);
    for (uint32_t i = 0; i < predict->points; i++)
        fprintf(file, "%s[%llu, %.6f]", i ? ", " : "",
                (unsigned long long)predict->curve[i].hbm_bytes,
                seconds(predict->curve[i].step_ns));
    fprintf(file, "],\n    \"advice\": [");
    for (uint32_t i = 0; i < predict->advices; i++)
        fprintf(file, "%s\n      {\"kind\": \"%s\", \"step_s\": %.6f, \"text\": \"%s\"}",
                i ? "," : "", predict_help_word(predict->advice[i].kind),
                seconds(predict->advice[i].step_ns), predict->advice[i].text);
    fprintf(file, "],\n");
}

static void write_step(const struct report *report, FILE *file)
{
    const struct report_step *step = &report->step;
    fprintf(file, "  \"step\": {\n");
    if (step->count) write_measured(step, file);
    if (step->predicted) write_predicted(step, file);
    fprintf(file, "    \"lookup_s\": %.9f,\n    \"operations\": %u\n  },\n",
            seconds(step->touch_count * report->stats.lookup_ns), step->op_count);
}

void report_write_json(const struct report *report, FILE *file)
{
    fprintf(file, "{\n  \"version\": \"" VP_VERSION "\",\n");
#define WRITE(name, text) write_number(file, "  ", #name, report->stats.name);
    VP_STATS(WRITE)
#undef WRITE
    write_number(file, "  ", "chunk_bytes", report->chunk_bytes);
    write_number(file, "  ", "reserve_bytes", report->reserve_bytes);
    write_number(file, "  ", "ahead_ops", report->ahead_ops);
    write_places(report, file);
    write_links(&report->links, file);
    if (report->has_step) write_step(report, file);
    fprintf(file, "  \"link_in_gbps\": %.3f,\n  \"link_out_gbps\": %.3f,\n", report->rates.in_gbps,
            report->rates.out_gbps);
    fprintf(file, "  \"policy\": \"%s\"\n}\n", report->policy);
}
