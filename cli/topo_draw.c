/* The picture of a machine: cards, the switch, and links as thick as their lanes in use. Eight
 * cards are drawn as a cube seen from the side, others in a ring; around the host where there are
 * no links. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "topo.h"

enum { WIDTH = 860, HEIGHT = 560, CENTER_Y = 250, RING = 180, RADIUS = 34 };

static const char style[] =
    "text{font:13px system-ui,sans-serif;fill:#333;text-anchor:middle}"
    ".t{font-size:17px;font-weight:600;text-anchor:start}.l{text-anchor:start}"
    ".s{fill:#777;font-size:11px}.m{fill:#e4efe9;font-size:11px}.n{fill:#fff;font-weight:600}.up{"
    "stroke:#245aa2}"
    ".degraded{stroke:#d98a1f}.down{stroke:#c0392b;stroke-dasharray:7 5}"
    ".pcie{stroke:#bbb;stroke-dasharray:3 4}.card{fill:#2f6f4f;stroke:#fff;stroke-width:3}"
    ".hub{fill:#555;stroke:#fff;stroke-width:3}.host{fill:#eceff3;stroke:#bbb}";

struct point {
    double x, y;
};

static struct point place_of(const struct topo *topo, unsigned node)
{
    static const struct point corner[] = {{0, 0}, {220, 0}, {220, 220}, {0, 220}};
    const double pi = 3.14159265358979;
    unsigned cards = topo->machine.cards;
    bool hub = topo->machine.links > 0 && topo->machine.link[0].ends[1] == MACHINE_SWITCH;
    if (node == MACHINE_SWITCH) return (struct point){WIDTH / 2.0, CENTER_Y};
    if (cards == 8 && topo->machine.links > 0 && !hub) {
        struct point at = corner[node % 4];
        return (struct point){at.x + 115 + (node / 4) * 410, at.y + 85 + (node / 4) * 95};
    }
    double angle = 2 * pi * node / cards - pi / 2;
    return (struct point){WIDTH / 2.0 + 1.5 * RING * cos(angle), CENTER_Y + RING * sin(angle)};
}

static double width_of(const struct machine_link *link)
{
    unsigned lanes = route_lanes_in_use(link);
    return lanes ? 1.5 + 1.5 * (lanes < 6 ? lanes : 6) : 2;
}

static void draw_link(FILE *file, const struct topo *topo, const struct machine_link *link)
{
    struct point a = place_of(topo, link->ends[0]), b = place_of(topo, link->ends[1]);
    fprintf(file,
            "<line class='%s' x1='%.1f' y1='%.1f' x2='%.1f' y2='%.1f' stroke-width='%.1f' "
            "stroke-opacity='.8'/>\n",
            topo_link_state(link), a.x, a.y, b.x, b.y, width_of(link));
}

/* Without links all goes through the host. */
static void draw_host_paths(FILE *file, const struct topo *topo)
{
    for (unsigned card = 0; card < topo->machine.cards && topo->machine.links == 0; card++) {
        struct point at = place_of(topo, card);
        fprintf(file, "<line class='pcie' x1='%.1f' y1='%.1f' x2='%d' y2='%d' stroke-width='2'/>\n",
                at.x, at.y, WIDTH / 2, CENTER_Y);
    }
}

static void draw_nodes(FILE *file, const struct topo *topo)
{
    char text[32];
    bool hub = topo->machine.links == 0; /* the host is in the middle then */
    for (unsigned i = 0; i < topo->machine.links; i++)
        hub = hub || topo->machine.link[i].ends[1] == MACHINE_SWITCH;
    for (unsigned card = 0; card < topo->machine.cards; card++) {
        struct point at = place_of(topo, card);
        fprintf(file,
                "<circle class='card' cx='%.1f' cy='%.1f' r='%d'/><text class='n' x='%.1f' "
                "y='%.1f'>%u</text><text class='m' x='%.1f' y='%.1f'>%s</text>\n",
                at.x, at.y, RADIUS, at.x, at.y, card, at.x, at.y + 15,
                units_format_size(topo->machine.hbm_bytes[card], text, sizeof text));
        if (topo->machine.relays.dead[card])
            fprintf(file, "<text class='s' x='%.1f' y='%.1f'>no relay</text>\n", at.x,
                    at.y - RADIUS - 6);
    }
    if (hub)
        fprintf(file,
                "<rect class='hub' x='%d' y='%d' width='110' height='50' rx='8'/>"
                "<text class='n' x='%d' y='%d'>%s</text>\n",
                WIDTH / 2 - 55, CENTER_Y - 25, WIDTH / 2, CENTER_Y + 5,
                topo->machine.links == 0 ? "host" : "switch");
}

/* One line for each kind of link that there is. */
static void draw_legend(FILE *file, const struct topo *topo)
{
    int y = HEIGHT - 46, x = 24;
    double shown[4] = {0};
    unsigned count = 0;
    for (unsigned i = 0; i < topo->machine.links && count < 4; i++) {
        const struct machine_link *link = &topo->machine.link[i];
        double gbps = route_link_gbps(link);
        bool known = false;
        for (unsigned k = 0; k < count; k++) known = known || fabs(shown[k] - gbps) < 0.01;
        if (known) continue;
        shown[count++] = gbps;
        fprintf(file,
                "<line class='%s' x1='%d' y1='%d' x2='%d' y2='%d' stroke-width='%.1f'/>"
                "<text class='l' x='%d' y='%d'>%u of %u lanes: %.1f GB/s%s</text>\n",
                topo_link_state(link), x, y - 4, x + 30, y - 4, width_of(link), x + 38, y,
                route_lanes_in_use(link), link->lanes, gbps,
                link->calibrated ? " (calibrated)" : "");
        x += 270;
    }
    const struct machine_path *host = &topo->machine.path[0][topo->machine.cards];
    fprintf(file, "<text class='l' x='24' y='%d'>host: %.1f GB/s, %u ns.", HEIGHT - 20, host->gbps,
            host->latency_ns);
    if (topo->machine.cards > 1 && machine_is_routed(&topo->machine))
        fprintf(file, " Relays through cards: %s. Peers without a link: %s.",
                topo->machine.relays.allowed ? "yes" : "no",
                topo->machine.through_host.access ? "in place, through the host"
                                                  : "by staged copies");
    fputs("</text>\n", file);
}

vp_status topo_draw(const struct topo *topo, const char *path)
{
    FILE *file = fopen(path, "w");
    bool bad = !file;
    if (file) {
        fprintf(file,
                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' "
                "height='%d'><style>%s</style><rect width='100%%' height='100%%' fill='#fff'/>\n"
                "<text class='t' x='24' y='30'>vrampool topo: %s%s</text>\n",
                WIDTH, HEIGHT, WIDTH, HEIGHT, style, topo->machine.name,
                topo->emulated ? " (emulated)" : "");
        draw_host_paths(file, topo);
        for (unsigned i = 0; i < topo->machine.links; i++)
            draw_link(file, topo, &topo->machine.link[i]);
        draw_nodes(file, topo);
        draw_legend(file, topo);
        fputs("</svg>\n", file);
        bad = ferror(file) != 0;
        bad = fclose(file) != 0 || bad;
    }
    if (!bad) return VP_OK;
    log_error("the picture cannot be written to %s: %s", path, strerror(errno));
    return VP_IO;
}
