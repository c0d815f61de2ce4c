/* The picture of a benchmark: two matrices of all pairs, rates and latencies. The shade of a field
 * tells how good it is among the pairs of different places. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "bench.h"

enum { CELL = 62, LEFT = 70, TOP = 96, GAP = 60, FOOT = 46 };

static const char style[] = "text{font:13px system-ui,sans-serif;fill:#333}"
                            ".t{font-size:17px;font-weight:600}.h{font-size:14px;font-weight:600}"
                            ".c{text-anchor:middle}.e{text-anchor:end}.w{fill:#fff}.s{fill:#777}";

struct matrix {
    const char *title;
    double (*value)(const struct bench_pair *pair);
    bool low_is_good;
};

static double copy_of(const struct bench_pair *pair)
{
    return pair->copy_gbps;
}

static double latency_of(const struct bench_pair *pair)
{
    return pair->latency_ns;
}

static void draw_cell(FILE *file, double x, double y, double value, double shade, bool own)
{
    /* From nearly white to a deep blue; fields of one place are grey, as they would outshine all.
     */
    int red = (int)(236 - 200 * shade), green = (int)(242 - 152 * shade);
    int blue = (int)(250 - 88 * shade);
    if (own || value <= 0) red = green = blue = value > 0 ? 226 : 248;
    fprintf(file,
            "<rect x='%.1f' y='%.1f' width='%d' height='%d' rx='3' fill='#%02x%02x%02x'/>"
            "<text class='c%s' x='%.1f' y='%.1f'>",
            x + 1, y + 1, CELL - 2, CELL / 2 - 2, red, green, blue,
            !own && value > 0 && shade > 0.5 ? " w" : "", x + CELL / 2.0, y + CELL / 4.0 + 4.5);
    if (value > 0)
        fprintf(file, value < 1000 ? "%.1f" : "%.0f", value);
    else
        fputs("–", file);
    fputs("</text>\n", file);
}

static void draw_matrix(FILE *file, const struct bench *bench, const struct matrix *matrix,
                        double left)
{
    char name[16];
    double least = INFINITY, most = 0;
    for (unsigned i = 0; i < bench->pairs; i++) {
        double value = matrix->value(&bench->pair[i]);
        if (bench->pair[i].from == bench->pair[i].to || value <= 0) continue;
        least = fmin(least, value);
        most = fmax(most, value);
    }
    fprintf(file, "<text class='h' x='%.1f' y='%d'>%s</text>\n", left, TOP - 30, matrix->title);
    for (unsigned place = 0; place <= bench->cards; place++) {
        bench_place_name(bench, place, name);
        fprintf(file, "<text class='c s' x='%.1f' y='%d'>%s</text>", left + (place + 0.5) * CELL,
                TOP - 8, name);
        fprintf(file, "<text class='e s' x='%.1f' y='%.1f'>%s</text>\n", left - 8,
                TOP + place * CELL / 2.0 + CELL / 4.0 + 4.5, name);
    }
    for (unsigned i = 0; i < bench->pairs; i++) {
        const struct bench_pair *pair = &bench->pair[i];
        double value = matrix->value(pair), shade = 0.5;
        if (most > least) shade = (value - least) / (most - least);
        if (matrix->low_is_good) shade = 1 - shade;
        draw_cell(file, left + pair->to * CELL, TOP + pair->from * CELL / 2.0, value, shade,
                  pair->from == pair->to);
    }
}

static void draw(FILE *file, const struct bench *bench)
{
    static const struct matrix matrices[] = {
        {"copy from (row) to (column), GB/s", copy_of, false},
        {"latency of a load, ns", latency_of, true},
    };
    unsigned places = bench->cards + 1;
    double side = places * CELL, width = 2 * (LEFT + side) + GAP, height = TOP + side / 2 + FOOT;
    if (width < 640) width = 640;
    char size[32];
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %.0f %.0f' width='%.0f' "
            "height='%.0f'><style>%s</style><rect width='100%%' height='100%%' fill='#fff'/>\n",
            width, height, width, height, style);
    fprintf(file, "<text class='t' x='16' y='30'>vrampool bench: %s%s</text>\n", bench->machine,
            bench->emulated ? " (emulated, in its own time)" : "");
    for (unsigned i = 0; i < 2; i++)
        draw_matrix(file, bench, &matrices[i], LEFT + i * (side + LEFT + GAP - 20));
    fprintf(file, "<text x='16' y='%.0f'>%s a copy, median of %u rounds.", height - 16,
            units_format_size(bench->size_bytes, size, sizeof size), bench->rounds);
    if (bench->has_fallback)
        fprintf(file, " Through the host: %.1f GB/s, %.0f ns.", bench->fallback_gbps,
                bench->fallback_latency_ns);
    fprintf(file, " A lookup: %.1f ns.</text></svg>\n", bench->lookup_ns);
}

vp_status bench_draw(const struct bench *bench, const char *path)
{
    FILE *file = fopen(path, "w");
    bool bad = !file;
    if (file) {
        draw(file, bench);
        bad = ferror(file) != 0;
        bad = fclose(file) != 0 || bad;
    }
    if (!bad) return VP_OK;
    log_error("the picture cannot be written to %s: %s", path, strerror(errno));
    return VP_IO;
}
