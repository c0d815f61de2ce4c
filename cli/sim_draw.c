/* The picture of a step: what the card holds over time; below it when it computes, and what the
 * links carry. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "sim.h"

enum {
    WIDTH = 1000,
    LEFT = 90,
    RIGHT = 46,
    TOP = 92,
    LEGEND = 64, /* its middle */
    SWATCH = 12,
    CURVE = 300, /* height of the curve */
    LANE = 44,   /* height of a lane */
    LANE_GAP = 14,
    AXIS = 40,
    STRIP_TEXT = 10, /* largest size of a strip's name */
    LANES = 3,
    HEIGHT = TOP + CURVE + LANES * (LANE + LANE_GAP) + AXIS,
    TICKS = 8,
};

static const char style[] =
    "text{font:13px system-ui,sans-serif;fill:#333}.t{font-size:16px;font-weight:600}"
    ".g{stroke:#ddd}.limit{stroke:#b00;stroke-dasharray:5 4}.held{fill:#7fa8d9}"
    ".spare{fill:#dbe6f4}.in{fill:#2f7d4f}.out{fill:#c2571a}.save{fill:#e0a060}"
    ".lane{fill:#f4f4f4}.run{fill:#5b6b7d}.s{fill:#777}";

struct canvas {
    FILE *file;
    double x_of_ns, y_of_byte;
    uint64_t top_bytes;
};

static double x_at(const struct canvas *canvas, uint64_t ns)
{
    return LEFT + (double)ns * canvas->x_of_ns;
}

static double y_at(const struct canvas *canvas, uint64_t bytes)
{
    return TOP + CURVE - (double)bytes * canvas->y_of_byte;
}

/* The least of 1, 2, 5 times a power of ten that is not less. */
static uint64_t round_tick(uint64_t ns)
{
    uint64_t tick = 1;
    while (10 * tick < ns) tick *= 10;
    if (tick >= ns) return tick;
    if (2 * tick >= ns) return 2 * tick;
    return 5 * tick >= ns ? 5 * tick : 10 * tick;
}

/* The least power of two that makes no more than six lines. */
static uint64_t byte_tick(uint64_t top_bytes)
{
    uint64_t tick = 1;
    while (tick < top_bytes / 6) tick *= 2;
    return tick;
}

static void draw_grid(const struct canvas *canvas, const struct prediction *p)
{
    char text[32];
    uint64_t tick_bytes = byte_tick(canvas->top_bytes);
    for (uint64_t bytes = 0; bytes <= canvas->top_bytes; bytes += tick_bytes) {
        double y = y_at(canvas, bytes);
        fprintf(canvas->file, "<line class='g' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>", LEFT,
                WIDTH - RIGHT, y, y);
        fprintf(canvas->file, "<text x='%d' y='%.1f' text-anchor='end'>%s</text>\n", LEFT - 8,
                y + 4, units_format_size(bytes, text, sizeof text));
    }
    uint64_t tick_ns = round_tick(p->result.step_ns / TICKS);
    for (uint64_t ns = 0; ns <= p->result.step_ns; ns += tick_ns)
        fprintf(canvas->file, "<text x='%.1f' y='%d' text-anchor='middle'>%g ms</text>\n",
                x_at(canvas, ns), HEIGHT - 14, (double)ns / 1e6);
}

/* An area under the use over time; points closer than half a pixel are drawn as their highest. */
static void draw_area(const struct canvas *canvas, const struct prediction *p, bool spare)
{
    const struct sim_story *story = &p->story;
    double last_x = -1;
    fprintf(canvas->file, "<path class='%s' d='M%d %d", spare ? "spare" : "held", LEFT,
            TOP + CURVE);
    for (uint32_t i = 0; i < story->use_count; i++) {
        const struct sim_use *use = &story->uses[i];
        uint64_t bytes = spare ? use->used_bytes : use->used_bytes - use->spare_bytes;
        double x = x_at(canvas, use->time_ns);
        if (x - last_x < 0.25 && i + 1 < story->use_count) continue;
        fprintf(canvas->file, "L%.1f %.1f", x, y_at(canvas, bytes));
        last_x = x;
    }
    fprintf(canvas->file, "L%.1f %dZ'/>\n", last_x < 0 ? LEFT : last_x, TOP + CURVE);
}

static int begin_lane(const struct canvas *canvas, int number, const char *name)
{
    int y = TOP + CURVE + LANE_GAP + number * (LANE + LANE_GAP);
    fprintf(canvas->file, "<rect class='lane' x='%d' y='%d' width='%d' height='%d'/>", LEFT, y,
            WIDTH - LEFT - RIGHT, LANE);
    fprintf(canvas->file, "<text x='%d' y='%d' text-anchor='end'>%s</text>\n", LEFT - 8,
            y + LANE / 2 + 5, name);
    return y;
}

static void draw_box(const struct canvas *canvas, const char *class, double y, double height,
                     uint64_t start_ns, uint64_t end_ns)
{
    double x = x_at(canvas, start_ns), end = x_at(canvas, end_ns);
    fprintf(canvas->file, "<rect class='%s' x='%.2f' y='%.1f' width='%.2f' height='%.1f'/>\n",
            class, x, y, end - x > 0.4 ? end - x - 0.15 : 0.25, height);
}

static void draw_runs(const struct canvas *canvas, const struct prediction *p)
{
    int y = begin_lane(canvas, 0, "computing");
    for (uint32_t i = 0; i < p->story.run_count; i++)
        draw_box(canvas, "run", y, LANE, p->story.runs[i].start_ns, p->story.runs[i].end_ns);
}

/* A strip of the lane for each refuge that something was copied to or from, nearest first. Returns
 * how many, and which has which. */
static unsigned divide_lane(const struct prediction *p, unsigned strip_of[PLAN_REFUGES])
{
    unsigned strips = 0;
    for (uint32_t i = 0; i < p->job->costs.refuges; i++) {
        const struct sim_traffic *traffic = &p->result.traffic[i];
        strip_of[i] = strips;
        strips += traffic->in_bytes + traffic->out_bytes > 0;
    }
    return strips ? strips : 1;
}

static void name_strips(const struct canvas *canvas, const struct prediction *p, int y,
                        const unsigned *strip_of, double height)
{
    char name[16];
    double size = height < STRIP_TEXT ? height : STRIP_TEXT;
    for (uint32_t i = 0; i < p->job->costs.refuges; i++) {
        const struct sim_traffic *traffic = &p->result.traffic[i];
        if (traffic->in_bytes + traffic->out_bytes == 0) continue;
        fprintf(canvas->file,
                "<text class='s' x='%d' y='%.1f' style='font-size:%.1fpx'>%s</text>\n",
                WIDTH - RIGHT + 4, y + (strip_of[i] + 0.5) * height + size / 3, size,
                sim_refuge_name(p, i, name, sizeof name));
    }
}

static void draw_moves(const struct canvas *canvas, const struct prediction *p, bool in)
{
    unsigned strip_of[PLAN_REFUGES], strips = divide_lane(p, strip_of);
    int y = begin_lane(canvas, in ? 1 : 2, in ? "copies in" : "copies out");
    double height = (double)LANE / strips;
    if (strips > 1) name_strips(canvas, p, y, strip_of, height);
    for (uint32_t i = 0; i < p->story.move_count; i++) {
        const struct sim_move *move = &p->story.moves[i];
        if ((move->kind == EXECUTOR_FETCH) != in) continue;
        const char *class = in ? "in" : move->kind == EXECUTOR_SAVE ? "save" : "out";
        draw_box(canvas, class, y + strip_of[move->refuge] * height,
                 strips > 1 ? height - 0.6 : height, move->start_ns, move->end_ns);
    }
}

static void draw_legend(const struct canvas *canvas)
{
    static const struct {
        const char *class, *text;
        int width;
    } entries[] = {{"held", "data, also of what is launched already", 276},
                   {"spare", "free, still mapped", 150},
                   {"in", "copied in", 96},
                   {"out", "copied out", 102},
                   {"save", "copied out early, stays", 0}};
    int x = LEFT;
    for (unsigned i = 0; i < sizeof entries / sizeof *entries; i++) {
        fprintf(canvas->file,
                "<rect class='%s' x='%d' y='%d' width='%d' height='%d'/><text x='%d' y='%d'>"
                "%s</text>\n",
                entries[i].class, x, LEGEND - SWATCH / 2, SWATCH, SWATCH, x + SWATCH + 6,
                LEGEND + 5, entries[i].text);
        x += entries[i].width;
    }
}

static void draw_title(const struct canvas *canvas, const struct prediction *p)
{
    char hbm[32];
    const char *name = strrchr(p->trace, '/');
    fprintf(canvas->file, "<text class='t' x='%d' y='24'>", LEFT);
    for (const char *c = name ? name + 1 : p->trace; *c; c++) {
        if (*c == '<' || *c == '&')
            fprintf(canvas->file, "&#%d;", *c);
        else
            fputc(*c, canvas->file);
    }
    fprintf(canvas->file,
            ": %s on %s with %s of HBM, predicted</text>"
            "<text x='%d' y='44'>step %.1f ms (all in HBM %.1f ms); %.1f GB in, %.1f GB out"
            "</text>\n",
            plan_policy_name(p->policy), p->job->machine->name,
            units_format_size(p->job->limits.hbm_bytes, hbm, sizeof hbm), LEFT,
            (double)p->result.step_ns / 1e6, (double)p->result.in_hbm_ns / 1e6,
            (double)p->result.in_bytes / 1e9, (double)p->result.out_bytes / 1e9);
}

static void draw(const struct canvas *canvas, const struct prediction *p)
{
    fprintf(canvas->file,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d'>"
            "<style>%s</style><rect width='%d' height='%d' fill='#fff'/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, style, WIDTH, HEIGHT);
    draw_title(canvas, p);
    draw_grid(canvas, p);
    draw_area(canvas, p, true);
    draw_area(canvas, p, false);
    double limit = y_at(canvas, p->job->limits.hbm_bytes);
    if (p->job->limits.hbm_bytes <= canvas->top_bytes)
        fprintf(canvas->file,
                "<line class='limit' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/><text x='%d' y='%.1f' "
                "text-anchor='end' style='fill:#b00'>limit</text>\n",
                LEFT, WIDTH - RIGHT, limit, limit, WIDTH - RIGHT, limit - 5);
    draw_legend(canvas);
    draw_runs(canvas, p);
    draw_moves(canvas, p, true);
    draw_moves(canvas, p, false);
    fputs("</svg>\n", canvas->file);
}

vp_status sim_draw(const struct prediction *p, const char *path)
{
    struct canvas canvas = {.file = fopen(path, "w")};
    if (!canvas.file) {
        log_error("the picture cannot be written to %s: %s", path, strerror(errno));
        return VP_IO;
    }
    canvas.top_bytes = p->result.used_peak_bytes;
    canvas.top_bytes += canvas.top_bytes / 16;
    /* Where no step is like the last, the one that is drawn is not of their mean length. */
    uint64_t end_ns = p->result.step_ns ? p->result.step_ns : 1;
    if (p->story.use_count && p->story.uses[p->story.use_count - 1].time_ns > end_ns)
        end_ns = p->story.uses[p->story.use_count - 1].time_ns;
    canvas.x_of_ns = (double)(WIDTH - LEFT - RIGHT) / (double)end_ns;
    canvas.y_of_byte = CURVE / (double)(canvas.top_bytes ? canvas.top_bytes : 1);
    draw(&canvas, p);
    bool bad = ferror(canvas.file) != 0;
    if (fclose(canvas.file) != 0 || bad) {
        log_error("the picture cannot be written to %s: %s", path, strerror(errno));
        return VP_IO;
    }
    return VP_OK;
}
