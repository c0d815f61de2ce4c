/* The report as one page of HTML that needs nothing else: styles inside, pictures as inline SVG.
 *
 * Written by the library itself: `vrampool run` becomes the program, so nobody is there afterwards
 * to turn JSON into a page. All text comes from here or from us, so nothing has to be escaped. */
#include "pool/report.h"

#include "base/units.h"

enum {
    WIDTH = 860, /* of pictures */
    BAR = 34,
    CURVE_HEIGHT = 220,
    STEPS_HEIGHT = 110,
    LEFT = 64, /* room for the labels of an axis */
    BOTTOM = 34,
};

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>vrampool report</title>\n"
    "<style>\n"
    ":root{--ink:#1d2433;--soft:#5d6679;--line:#dde2ea;--paper:#fff;--back:#f4f6f9}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 system-ui,"
    "-apple-system,\"Segoe UI\",sans-serif}\n"
    "main{max-width:940px;margin:0 auto;padding:28px 20px 60px}\n"
    "h1{font-size:22px;margin:0}h2{font-size:17px;margin:0 0 12px}\n"
    "p{margin:6px 0}.soft{color:var(--soft);font-size:13px}\n"
    "section{background:var(--paper);border:1px solid var(--line);border-radius:10px;"
    "padding:20px;margin-top:18px}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;"
    "margin-top:18px}\n"
    ".tile{background:var(--paper);border:1px solid var(--line);border-radius:10px;"
    "padding:14px 16px}\n"
    ".tile b{display:block;font-size:25px;line-height:1.25}\n"
    "table{border-collapse:collapse;width:100%}\n"
    "td,th{text-align:left;padding:7px 10px 7px 0;border-bottom:1px solid var(--line);"
    "vertical-align:top}\n"
    "tr:last-child td{border-bottom:0}th{color:var(--soft);font-weight:500;font-size:13px}\n"
    ".n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;padding-left:16px}\n"
    ".key{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:8px}\n"
    "svg{display:block;width:100%;height:auto}svg text{font:12px system-ui,sans-serif;"
    "fill:#5d6679}\n"
    "details summary{cursor:pointer;font-weight:600}\n"
    "</style></head><body><main>\n";

/* Of computing, then of each stall. */
static const char compute_colour[] = "#2f6fdb";
static const char *const stall_colours[REPORT_STALL_COUNT] = {
    [REPORT_STALL_in] = "#f0883e",     [REPORT_STALL_room] = "#d9534f",
    [REPORT_STALL_frames] = "#8e5bd0", [REPORT_STALL_map] = "#e3b93c",
    [REPORT_STALL_alone] = "#4aa8a0",  [REPORT_STALL_in_place] = "#b5708f",
    [REPORT_STALL_other] = "#b4bcc9"};
static const uint64_t least_ns = 50 * NS_PER_US; /* shown in a table */

static const enum report_stall sim_stall_as[SIM_STALL_COUNT] = {
    [SIM_STALL_in] = REPORT_STALL_in,
    [SIM_STALL_room] = REPORT_STALL_room,
    [SIM_STALL_map] = REPORT_STALL_map,
    [SIM_STALL_in_place] = REPORT_STALL_in_place};

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)GIB;
}

static void write_tile(FILE *file, const char *value, const char *words)
{
    fprintf(file, "<div class=\"tile\"><b>%s</b><span class=\"soft\">%s</span></div>\n", value,
            words);
}

static void write_tiles(const struct report *report, FILE *file)
{
    const struct report_step *step = &report->step;
    char text[32];
    fprintf(file, "<div class=\"tiles\">\n");
    if (report_fraction(step) > 0) {
        snprintf(text, sizeof text, "%.0f %%", 100 * report_fraction(step));
        write_tile(file, text, "of the speed with everything in HBM");
    }
    if (step->count) {
        snprintf(text, sizeof text, "%.3f s", seconds(step->step_ns));
        write_tile(file, text, "a step, median as measured");
    }
    if (step->predicted) {
        snprintf(text, sizeof text, "%.3f s", seconds(step->predict.now.step_ns));
        write_tile(file, text, "a step, as predicted");
    }
    write_tile(file, units_format_size(report->stats.peak_bytes, text, sizeof text),
               "the program's blocks at the peak");
    write_tile(file, units_format_size(report->stats.moved_bytes, text, sizeof text),
               "moved in the whole run");
    fprintf(file, "</div>\n");
}

/* ---- where the time goes ---- */

static double write_piece(FILE *file, double x, double width, const char *colour)
{
    if (width > 0.2)
        fprintf(file, "<rect x=\"%.1f\" y=\"18\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", x,
                width, BAR, colour);
    return x + width;
}

/* One bar: computing, then what was waited for; `whole_ns` is as wide as the picture. */
static void write_bar(FILE *file, const char *title, uint64_t compute_ns, const uint64_t *stall_ns,
                      uint64_t whole_ns)
{
    double scale = (double)WIDTH / (double)whole_ns;
    fprintf(file, "<svg viewBox=\"0 0 %d %d\" role=\"img\"><text x=\"0\" y=\"12\">%s</text>\n",
            WIDTH, BAR + 28, title);
    double x = write_piece(file, 0, (double)compute_ns * scale, compute_colour);
    for (unsigned i = 0; i < REPORT_STALL_COUNT; i++)
        x = write_piece(file, x, (double)stall_ns[i] * scale, stall_colours[i]);
    fprintf(file, "</svg>\n");
}

static void write_time_row(FILE *file, const char *colour, const char *words, uint64_t ns,
                           uint64_t predicted_ns, uint64_t step_ns)
{
    fprintf(file,
            "<tr><td><span class=\"key\" style=\"background:%s\"></span>%s</td>"
            "<td class=\"n\">%.1f ms</td><td class=\"n\">%.0f %%</td>",
            colour, words, (double)ns / 1e6, 100.0 * (double)ns / (double)step_ns);
    if (predicted_ns)
        fprintf(file, "<td class=\"n\">%.1f ms</td></tr>\n", (double)predicted_ns / 1e6);
    else
        fprintf(file, "<td class=\"n\">&ndash;</td></tr>\n");
}

static void write_time(const struct report_step *step, FILE *file)
{
    const struct sim_result *now = &step->predict.now;
    uint64_t predicted[REPORT_STALL_COUNT] = {0};
    for (unsigned i = 0; i < SIM_STALL_COUNT; i++) predicted[sim_stall_as[i]] += now->stall_ns[i];
    uint64_t compute_ns = step->compute_ns < step->step_ns ? step->compute_ns : step->step_ns;
    uint64_t whole_ns = step->step_ns > now->step_ns ? step->step_ns : now->step_ns;
    fprintf(file, "<section><h2>Where a step's time goes</h2>\n");
    write_bar(file, "measured", compute_ns, step->stall_ns, whole_ns);
    if (step->predicted) write_bar(file, "predicted", now->in_hbm_ns, predicted, whole_ns);
    fprintf(file, "<table><tr><th></th><th class=\"n\">measured</th><th class=\"n\">share</th>"
                  "<th class=\"n\">predicted</th></tr>\n");
    write_time_row(file, compute_colour, "computing", compute_ns, now->in_hbm_ns, step->step_ns);
    for (unsigned i = 0; i < REPORT_STALL_COUNT; i++) {
        if (step->stall_ns[i] < least_ns && predicted[i] < least_ns) continue;
        char words[64];
        snprintf(words, sizeof words, "%s%s", i == REPORT_STALL_in_place ? "" : "waiting for ",
                 report_stall_words((enum report_stall)i));
        write_time_row(file, stall_colours[i], words, step->stall_ns[i], predicted[i],
                       step->step_ns);
    }
    fprintf(file,
            "</table><p class=\"soft\">A step has %u operations. Its time and theirs are the "
            "device's; what it waits for is split by what launches were held for.</p></section>\n",
            step->op_count);
}

/* ---- what would help ---- */

static void write_advice(const struct predict *predict, FILE *file)
{
    fprintf(file, "<section><h2>What would help most</h2>\n");
    if (!predict->advices) {
        fprintf(file, "<p>Nothing that can be predicted to be worth it.</p></section>\n");
        return;
    }
    fprintf(file, "<table><tr><th></th><th class=\"n\">predicted step</th>"
                  "<th class=\"n\">less by</th></tr>\n");
    for (uint32_t i = 0; i < predict->advices; i++) {
        const struct predict_advice *advice = &predict->advice[i];
        double less = 100 - 100.0 * (double)advice->step_ns / (double)predict->now.step_ns;
        fprintf(file,
                "<tr><td>%s</td><td class=\"n\">%.3f s</td><td class=\"n\">%.0f %%</td></tr>\n",
                advice->text, seconds(advice->step_ns), less > 0 ? less : 0);
    }
    fprintf(file, "</table></section>\n");
}

/* Step time by HBM, from 0 seconds up. */
static void write_curve(const struct predict *predict, FILE *file)
{
    if (predict->points < 2) return;
    const struct predict_point *first = &predict->curve[0];
    const struct predict_point *last = &predict->curve[predict->points - 1];
    double most = 0;
    for (uint32_t i = 0; i < predict->points; i++)
        if (seconds(predict->curve[i].step_ns) > most) most = seconds(predict->curve[i].step_ns);
    double width = WIDTH - LEFT - 70, height = CURVE_HEIGHT - BOTTOM - 24;
    double span = (double)(last->hbm_bytes - first->hbm_bytes);
    fprintf(file,
            "<section><h2>Predicted step by memory of the card (--hbm)</h2>\n"
            "<svg viewBox=\"0 0 %d %d\" role=\"img\">\n",
            WIDTH, CURVE_HEIGHT);
    for (unsigned i = 0; i <= 2; i++) {
        double y = 24 + height * i / 2;
        fprintf(file,
                "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#dde2ea\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3f s</text>\n",
                LEFT, WIDTH - 20, y, y, LEFT - 10, y + 4, most * (2 - i) / 2);
    }
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" points=\"",
            compute_colour);
    for (uint32_t i = 0; i < predict->points; i++)
        fprintf(file, "%.1f,%.1f ",
                LEFT + 20 + width * (double)(predict->curve[i].hbm_bytes - first->hbm_bytes) / span,
                24 + height * (1 - seconds(predict->curve[i].step_ns) / most));
    fprintf(file, "\"/>\n");
    for (uint32_t i = 0; i < predict->points; i++) {
        const struct predict_point *point = &predict->curve[i];
        double x = LEFT + 20 + width * (double)(point->hbm_bytes - first->hbm_bytes) / span;
        double y = 24 + height * (1 - seconds(point->step_ns) / most);
        char size[16];
        fprintf(file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.3f s</text>"
                "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                x, y, compute_colour, x, y - 10, seconds(point->step_ns), x, CURVE_HEIGHT - 10,
                units_format_size(point->hbm_bytes, size, sizeof size));
    }
    fprintf(file, "</svg></section>\n");
}

/* ---- the rest ---- */

static void write_steps(const struct report_step *step, FILE *file)
{
    double most = 0, width = (double)WIDTH / step->count;
    for (uint32_t i = 0; i < step->count; i++)
        if (seconds(step->steps[i].step_ns) > most) most = seconds(step->steps[i].step_ns);
    fprintf(file, "<section><h2>The last %u steps</h2>\n<svg viewBox=\"0 0 %d %d\" role=\"img\">\n",
            step->count, WIDTH, STEPS_HEIGHT + 20);
    for (uint32_t i = 0; i < step->count; i++) {
        double one = seconds(step->steps[i].step_ns), tall = STEPS_HEIGHT * one / most;
        fprintf(file,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\">"
                "<title>%.4f s</title></rect>\n",
                width * i, STEPS_HEIGHT - tall, width > 3 ? width - 2 : width, tall, compute_colour,
                one);
    }
    fprintf(file, "<text x=\"0\" y=\"%d\">highest bar: %.3f s</text></svg>\n", STEPS_HEIGHT + 16,
            most);
    const struct measure_counts *counts = &step->counts;
    fprintf(file,
            "<p class=\"soft\">On average a step copies %.2f GiB in and %.2f GiB out, in %llu "
            "and %llu chunks; %llu operations are held for moves, %llu use memory over the "
            "link.</p></section>\n",
            gib(counts->in_bytes), gib(counts->out_bytes), (unsigned long long)counts->fetches,
            (unsigned long long)counts->evictions, (unsigned long long)counts->holds,
            (unsigned long long)counts->in_place);
}

static void write_places(const struct report *report, FILE *file)
{
    fprintf(file, "<section><h2>Memory</h2><table><tr><th>place</th><th>most in use</th>"
                  "<th class=\"n\"></th><th class=\"n\">may hold</th></tr>\n");
    for (unsigned i = 0; i < report->places; i++) {
        const vp_place_info_t *place = &report->place[i];
        char peak[16], capacity[16];
        double share =
            place->capacity_bytes ? (double)place->peak_bytes / (double)place->capacity_bytes : 0;
        fprintf(file,
                "<tr><td>%s</td><td style=\"width:60%%\"><svg viewBox=\"0 0 400 14\">"
                "<rect width=\"400\" height=\"14\" rx=\"4\" fill=\"#e7ebf1\"/>"
                "<rect width=\"%.0f\" height=\"14\" rx=\"4\" fill=\"%s\"/></svg></td>"
                "<td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
                place->name, 400 * (share < 1 ? share : 1), compute_colour,
                units_format_size(place->peak_bytes, peak, sizeof peak),
                units_format_size(place->capacity_bytes, capacity, sizeof capacity));
    }
    fprintf(file, "</table></section>\n");
}

/* What was lost, if anything was. */
static void write_links(const struct links *links, FILE *file)
{
    char text[96];
    if (!links_text(links, 0, text, sizeof text)) return;
    fputs("<section><h2>Links that are not whole</h2><ul>\n", file);
    for (unsigned i = 0; links_text(links, i, text, sizeof text); i++)
        fprintf(file, "<li>%s</li>\n", text);
    fputs(
        "</ul><p class=\"soft\">What lay behind them was reached another way, which may be slower. "
        "<code>vrampool topo</code> shows the ways that are left; <code>nvidia-smi nvlink "
        "-s</code> "
        "and the kernel's log (Xid) say more of the cause.</p></section>\n",
        file);
}

static void write_counters(const struct report *report, FILE *file)
{
    fprintf(file, "<section><details><summary>All counters of the run</summary><table>\n");
#define ROW(name, text)                                                                            \
    fprintf(file, "<tr><td>%s</td><td class=\"soft\">%s</td><td class=\"n\">%llu</td></tr>\n",     \
            #name, text, (unsigned long long)report->stats.name);
    VP_STATS(ROW)
#undef ROW
    fprintf(file, "</table></details></section>\n");
}

static const char *why_no_time(const struct report *report)
{
    if (report->step.count)
        return "What a step's operations take with everything in HBM is not known: all of them "
               "used memory over the link.";
    if (report->stats.evictions || report->stats.in_place)
        return "No step that repeats was seen for long enough to be measured.";
    return "Everything fitted on the card: nothing had to be moved.";
}

void report_write_html(const struct report *report, FILE *file)
{
    const struct report_step *step = &report->step;
    char chunk[16];
    fputs(head, file);
    fprintf(file,
            "<h1>vrampool report</h1><p class=\"soft\">vrampool " VP_VERSION
            ", policy %s, chunks of %s</p>\n",
            report->policy, units_format_size(report->chunk_bytes, chunk, sizeof chunk));
    write_tiles(report, file);
    if (step->count && step->compute_ns)
        write_time(step, file);
    else
        fprintf(file, "<section><p>%s</p></section>\n", why_no_time(report));
    if (step->predicted) write_advice(&step->predict, file);
    if (step->predicted) write_curve(&step->predict, file);
    if (step->count) write_steps(step, file);
    write_places(report, file);
    write_links(&report->links, file);
    write_counters(report, file);
    fputs("</main></body></html>\n", file);
}
