/* Before and after, side by side, and the command line to use. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "json_text.h"
#include "tune.h"

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* As --chunk and others take it: whole MiB with M or G, else bytes. */
static const char *write_size(uint64_t bytes, char *text, size_t size)
{
    if (bytes % GIB == 0)
        snprintf(text, size, "%" PRIu64 "G", bytes / GIB);
    else if (bytes % MIB == 0)
        snprintf(text, size, "%" PRIu64 "M", bytes / MIB);
    else
        snprintf(text, size, "%" PRIu64, bytes);
    return text;
}

enum { COMMAND_BYTES = 256 };

static void add_size(char *command, const char *option, uint64_t bytes)
{
    char text[32];
    size_t length = strlen(command);
    snprintf(command + length, COMMAND_BYTES - length, " --%s %s", option,
             write_size(bytes, text, sizeof text));
}

/* Settings that are the pool's own need not be said. */
static void write_command(const struct tune *tune, char command[COMMAND_BYTES])
{
    const struct tune_setting *setting = &tune->after.setting, *own = &tune->defaults;
    snprintf(command, COMMAND_BYTES, "vrampool run");
    add_size(command, "hbm", tune->job->limits.hbm_bytes);
    if (tune->host_bytes) add_size(command, "host", tune->host_bytes);
    if (setting->chunk_bytes != own->chunk_bytes) add_size(command, "chunk", setting->chunk_bytes);
    size_t length = strlen(command);
    if (setting->ahead_ops != own->ahead_ops)
        snprintf(command + length, COMMAND_BYTES - length, " --ahead %" PRIu32, setting->ahead_ops);
    /* Of itself it is two chunks, however large these are. */
    bool follows =
        setting->reserve_bytes / setting->chunk_bytes == own->reserve_bytes / own->chunk_bytes &&
        setting->reserve_bytes % setting->chunk_bytes == 0;
    if (!follows) add_size(command, "reserve", setting->reserve_bytes);
    length = strlen(command);
    snprintf(command + length, COMMAND_BYTES - length, " -- PROGRAM");
}

static void print_row(const char *name, const char *form, double before, double after,
                      const char *unit)
{
    char texts[2][32];
    snprintf(texts[0], sizeof texts[0], form, before);
    snprintf(texts[1], sizeof texts[1], form, after);
    printf("%-26s %12s %12s  %s\n", name, texts[0], texts[1], unit);
}

static void print_settings(const struct tune_setting *before, const struct tune_setting *after)
{
    print_row("chunk", "%.0f", (double)before->chunk_bytes / MIB, (double)after->chunk_bytes / MIB,
              "MiB");
    print_row("ahead", "%.0f", before->ahead_ops, after->ahead_ops, "operations");
    print_row("reserve", "%.0f", (double)before->reserve_bytes / MIB,
              (double)after->reserve_bytes / MIB, "MiB of the card");
}

static void print_figures(const struct tune_result *before, const struct tune_result *after)
{
    print_row("step", "%.4f", seconds(before->sim.step_ns), seconds(after->sim.step_ns), "s");
    print_row("of that waiting", "%.4f",
              seconds(before->sim.step_ns) - seconds(before->sim.in_hbm_ns),
              seconds(after->sim.step_ns) - seconds(after->sim.in_hbm_ns), "s");
    print_row("copied", "%.2f", (double)(before->sim.in_bytes + before->sim.out_bytes) * 1e-9,
              (double)(after->sim.in_bytes + after->sim.out_bytes) * 1e-9, "GB, in and out");
    print_row("a link, while it copies", "%.1f", before->link_gbps, after->link_gbps, "GB/s");
    print_row("waited per chunk fetched", "%.0f", before->wait_us, after->wait_us, "us");
    print_row("card holding data", "%.1f", 100 * before->used_share, 100 * after->used_share, "%");
}

void tune_print_table(const struct tune *tune)
{
    char hbm[32], peak[32], command[COMMAND_BYTES];
    const struct sim_result *before = &tune->before.sim, *after = &tune->after.sim;
    printf("trace      %s%s\n", tune->trace,
           tune->job->repeats ? "" : " (nothing repeats: all of it)");
    printf("machine    %s, %s of HBM used; the job needs %s\n", tune->job->machine->name,
           units_format_size(tune->job->limits.hbm_bytes, hbm, sizeof hbm),
           units_format_size(tune->peak_bytes, peak, sizeof peak));
    printf("predicted with the rule that the pool follows, %u settings tried; nothing was run\n\n",
           tune->tried);
    printf("%-26s %12s %12s\n", "", "before", "after");
    print_settings(&tune->before.setting, &tune->after.setting);
    print_figures(&tune->before, &tune->after);
    write_command(tune, command);
    if (before->in_bytes + before->out_bytes + before->in_place_bytes == 0)
        printf("\nEverything fits the card: there is nothing to tune.\n");
    else if (!tune_is_changed(tune))
        printf("\nNothing that was tried makes the step 2 %% shorter.\n");
    else if (after->step_ns == before->step_ns)
        printf("\nThe pool's own choice does as well.\n");
    else
        printf("\n%.1f %% less time a step.\n",
               100 - 100 * (double)after->step_ns / (double)before->step_ns);
    printf("\n%s\n", command);
}

static json_t *result_json(const struct tune_result *result)
{
    const struct sim_result *sim = &result->sim;
    return json_pack(
        "{sI si sI sf sf sf sI sI sI sf sf sf}", "chunk_bytes",
        (json_int_t)result->setting.chunk_bytes, "ahead_ops", (int)result->setting.ahead_ops,
        "reserve_bytes", (json_int_t)result->setting.reserve_bytes, "step_s", seconds(sim->step_ns),
        "in_hbm_s", seconds(sim->in_hbm_ns), "stall_s",
        seconds(sim->step_ns) - seconds(sim->in_hbm_ns), "in_bytes", (json_int_t)sim->in_bytes,
        "out_bytes", (json_int_t)sim->out_bytes, "in_place_bytes", (json_int_t)sim->in_place_bytes,
        "link_gbps", result->link_gbps, "wait_us", result->wait_us, "hbm_used_share",
        result->used_share);
}

void tune_print_json(const struct tune *tune)
{
    char command[COMMAND_BYTES];
    write_command(tune, command);
    json_t *root = json_pack("{so ss sb sI sI si so so sb ss}", "trace", json_text(tune->trace),
                             "machine", tune->job->machine->name, "repeats", tune->job->repeats,
                             "hbm_bytes", (json_int_t)tune->job->limits.hbm_bytes, "peak_bytes",
                             (json_int_t)tune->peak_bytes, "tried", (int)tune->tried, "before",
                             result_json(&tune->before), "after", result_json(&tune->after),
                             "changed", tune_is_changed(tune), "command", command);
    if (!root) abort();
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(root);
}
