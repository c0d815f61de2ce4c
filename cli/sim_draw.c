/* The picture of a step: what the card holds over time, and below it a lane for each link. */
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
    RIGHT = 30,
    TOP = 56,
    CURVE = 300, /* height of the curve */
    LANE = 34,   /* height of a lane */
    LANE_GAP = 14,
    AXIS = 40,
    LANES = 2,
    HEIGHT = TOP + CURVE + LANES * (LANE + LANE_GAP) + AXIS,
    TICKS = 8,
};

static const char style[] =
    "text{font:13px system-ui,sans-serif;fill:#333}.t{font-size:16px;font-weight:600}"
    ".g{stroke:#ddd}.limit{stroke:#b00;stroke-dasharray:5 4}.held{fill:#7fa8d9}"
    ".spare{fill:#dbe6f4}.in{fill:#2f7d4f}.out{fill:#c2571a}.save{fill:#e0a060}"
    ".lane{fill:#f4f4f4}";

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

static void draw_grid(const struct canvas *canvas, const struct prediction *p)
{
    char text[32];
    for (unsigned i = 0; i <= 4; i++) {
        uint64_t bytes = canvas->top_bytes / 4 * i;
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

static void draw_lane(const struct canvas *canvas, const struct prediction *p, bool in)
{
    int y = TOP + CURVE + LANE_GAP + (in ? 0 : LANE + LANE_GAP);
    fprintf(canvas->file, "<rect class='lane' x='%d' y='%d' width='%d' height='%d'/>", LEFT, y,
            WIDTH - LEFT - RIGHT, LANE);
    fprintf(canvas->file, "<text x='%d' y='%d' text-anchor='end'>%s</text>\n", LEFT - 8,
            y + LANE / 2 + 5, in ? "in" : "out");
    for (uint32_t i = 0; i < p->story.move_count; i++) {
        const struct sim_move *move = &p->story.moves[i];
        if ((move->kind == EXECUTOR_FETCH) != in) continue;
        const char *class = in ? "in" : move->kind == EXECUTOR_SAVE ? "save" : "out";
        double x = x_at(canvas, move->start_ns), end = x_at(canvas, move->end_ns);
        fprintf(canvas->file, "<rect class='%s' x='%.2f' y='%d' width='%.2f' height='%d'/>\n",
                class, x, y, end - x > 0.4 ? end - x - 0.15 : 0.25, LANE);
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
            "<text x='%d' y='44'>step %.1f ms (all in HBM %.1f ms); in %.1f GB, out %.1f GB; dark: "
            "data, light: free but mapped; red: the limit; pale out: early copies</text>\n",
            plan_policy_name(p->policy), p->machine,
            units_format_size(p->limits.hbm_bytes, hbm, sizeof hbm), LEFT,
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
    double limit = y_at(canvas, p->limits.hbm_bytes);
    if (p->limits.hbm_bytes <= canvas->top_bytes)
        fprintf(canvas->file, "<line class='limit' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>\n", LEFT,
                WIDTH - RIGHT, limit, limit);
    draw_lane(canvas, p, true);
    draw_lane(canvas, p, false);
    fputs("</svg>\n", canvas->file);
}

vp_status sim_draw(const struct prediction *p, const char *path)
{
    struct canvas canvas = {.file = fopen(path, "w")};
    if (!canvas.file) {
        log_error("picture %s: %s", path, strerror(errno));
        return VP_IO;
    }
    canvas.top_bytes = p->peak_bytes < p->limits.hbm_bytes ? p->peak_bytes : p->limits.hbm_bytes;
    canvas.top_bytes += canvas.top_bytes / 16;
    canvas.x_of_ns =
        (double)(WIDTH - LEFT - RIGHT) / (double)(p->result.step_ns ? p->result.step_ns : 1);
    canvas.y_of_byte = CURVE / (double)(canvas.top_bytes ? canvas.top_bytes : 1);
    draw(&canvas, p);
    bool bad = ferror(canvas.file) != 0;
    if (fclose(canvas.file) != 0 || bad) {
        log_error("picture %s: %s", path, strerror(errno));
        return VP_IO;
    }
    return VP_OK;
}
