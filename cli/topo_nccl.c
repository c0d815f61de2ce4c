/* NCCL's topology file (NCCL_TOPO_DUMP_FILE): a machine as NCCL saw it, perhaps another one.
 *
 * Cards are <gpu> elements inside their <pci>, in the order of the file; a <nvlink> inside has the
 * bus id of its far end and how many links there are. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#ifdef HAVE_EXPAT
#include <expat.h>
#endif

#include "cli.h"
#include "topo.h"

#ifdef HAVE_EXPAT

enum { MAX_FAR_ENDS = 256 };

struct far_end {
    unsigned card, count;
    bool is_switch;
    char bus_id[TOPO_BUS_ID];
};

struct reading {
    struct topo *topo;
    XML_Parser parser;
    struct topo_card pci; /* the innermost <pci> */
    int numa_node;
    struct far_end far[MAX_FAR_ENDS];
    unsigned far_count, too_many;
    unsigned compute[VP_MAX_CARDS]; /* 10 × major + minor */
};

static const char *attribute(const char **attributes, const char *name)
{
    for (; *attributes; attributes += 2)
        if (strcmp(attributes[0], name) == 0) return attributes[1];
    return "";
}

/* `16.0 GT/s PCIe` is generation 4. */
static int generation_of(const char *speed)
{
    static const double of[] = {0, 2.5, 5, 8, 16, 32, 64};
    double transfers = strtod(speed, NULL);
    for (int i = 1; i < 7; i++)
        if (transfers >= of[i] * 0.9 && transfers <= of[i] * 1.1) return i;
    return TOPO_UNKNOWN;
}

static void take_pci(struct reading *reading, const char **attributes)
{
    const char *width = attribute(attributes, "link_width");
    snprintf(reading->pci.bus_id, TOPO_BUS_ID, "%s", attribute(attributes, "busid"));
    reading->pci.pcie_generation = generation_of(attribute(attributes, "link_speed"));
    reading->pci.pcie_width = *width ? atoi(width) : TOPO_UNKNOWN;
}

static void take_gpu(struct reading *reading, const char **attributes)
{
    struct machine *machine = &reading->topo->machine;
    if (machine->cards == VP_MAX_CARDS) {
        reading->too_many++;
        return;
    }
    struct topo_card *card = &reading->topo->card[machine->cards];
    reading->compute[machine->cards++] = (unsigned)atoi(attribute(attributes, "sm"));
    *card = reading->pci;
    card->numa_node = reading->numa_node;
    card->temperature_c = TOPO_UNKNOWN;
}

static void take_nvlink(struct reading *reading, const char **attributes)
{
    enum { SWITCH_CLASS = 0x0680 };
    if (reading->topo->machine.cards == 0 || reading->far_count == MAX_FAR_ENDS) return;
    struct far_end *far = &reading->far[reading->far_count++];
    far->card = reading->topo->machine.cards - 1;
    far->count = (unsigned)atoi(attribute(attributes, "count"));
    far->is_switch = strtol(attribute(attributes, "tclass"), NULL, 16) >> 8 == SWITCH_CLASS;
    snprintf(far->bus_id, TOPO_BUS_ID, "%s", attribute(attributes, "target"));
}

static void start(void *context, const char *name, const char **attributes)
{
    struct reading *reading = context;
    if (strcmp(name, "cpu") == 0) reading->numa_node = atoi(attribute(attributes, "numaid"));
    if (strcmp(name, "pci") == 0) take_pci(reading, attributes);
    if (strcmp(name, "gpu") == 0) take_gpu(reading, attributes);
    if (strcmp(name, "nvlink") == 0) take_nvlink(reading, attributes);
}

static unsigned nvlink_version(unsigned compute)
{
    return compute < 70 ? 1 : compute < 80 ? 2 : compute < 90 ? 3 : compute < 100 ? 4 : 5;
}

/* Both ends tell of a link between cards; the lower one counts. NVSwitch chips are one switch. */
static void link_cards(struct reading *reading)
{
    struct topo *topo = reading->topo;
    for (unsigned i = 0; i < reading->far_count; i++) {
        const struct far_end *far = &reading->far[i];
        unsigned other = far->is_switch ? MACHINE_SWITCH : topo->machine.cards;
        for (unsigned card = 0; card < topo->machine.cards && !far->is_switch; card++)
            if (strcasecmp(topo->card[card].bus_id, far->bus_id) == 0) other = card;
        if (!far->is_switch && (other == topo->machine.cards || other <= far->card)) continue;
        struct machine_link *link = topo_link_to(&topo->machine, far->card, other,
                                                 nvlink_version(reading->compute[far->card]));
        unsigned lanes = link->lanes + far->count;
        link->lanes = (uint8_t)(lanes < UINT8_MAX ? lanes : UINT8_MAX);
        if (!far->is_switch) {
            struct topo_pair *forth = &topo->pair[far->card][other];
            struct topo_pair *back = &topo->pair[other][far->card];
            forth->read = forth->write = forth->atomics = 1;
            *back = *forth;
        }
    }
}

static bool parse(struct reading *reading, FILE *file, const char *path)
{
    char text[4096];
    size_t length;
    do {
        length = fread(text, 1, sizeof text, file);
        if (XML_Parse(reading->parser, text, (int)length, length < sizeof text) == XML_STATUS_OK)
            continue;
        cli_fail(EXIT_USAGE, "topo: %s:%lu: %s; it should be what NCCL_TOPO_DUMP_FILE names", path,
                 XML_GetCurrentLineNumber(reading->parser),
                 XML_ErrorString(XML_GetErrorCode(reading->parser)));
        return false;
    } while (length == sizeof text);
    if (reading->topo->machine.cards > 0 && reading->too_many == 0) return true;
    cli_fail(EXIT_USAGE, "topo: %s: %s; it should be what NCCL_TOPO_DUMP_FILE names", path,
             reading->too_many ? "more than 16 cards" : "no <gpu> in it");
    return false;
}

bool topo_read_nccl(struct topo *topo, const char *path)
{
    static struct reading reading;
    reading = (struct reading){.topo = topo, .parser = XML_ParserCreate(NULL)};
    FILE *file = fopen(path, "re");
    bool fine = file && reading.parser;
    if (!fine) cli_fail(EXIT_USAGE, "topo: cannot read %s: %s", path, strerror(errno));
    if (fine) {
        XML_SetUserData(reading.parser, &reading);
        XML_SetStartElementHandler(reading.parser, start);
        fine = parse(&reading, file, path);
    }
    if (file) fclose(file);
    if (reading.parser) XML_ParserFree(reading.parser);
    if (!fine) return false;
    strcpy(topo->machine.name, "nccl");
    topo->nvml = true; /* nothing is missing that NVML would tell */
    link_cards(&reading);
    topo_set_paths(topo);
    return true;
}

#else

bool topo_read_nccl(struct topo *topo, const char *path)
{
    (void)topo;
    cli_fail(EXIT_USAGE, "topo: %s: this vrampool was built without expat, which reads XML", path);
    return false;
}

#endif
