/* `vrampool bench`: how fast every pair of places is, copied and used in place. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/units.h"
#include "cli.h"
#include "install.h"
#include "machine_file.h"
#include "option.h"
#include "program.h"
#include "topo.h"

enum { EMULATED_BYTES = 32 << 20, EMULATED_ROUNDS = 3, REAL_ROUNDS = 20 };

struct request {
    const char *machine, *svg; /* machine: NULL for the real one */
    uint64_t size_bytes;
    unsigned rounds; /* 0: not given */
    bool json;
};

static const struct option_spec specs[] = {
    {"emulate", OPTION_VALUE, "MACHINE",
     "measure an emulated machine, in its own time: a name such as\ndouble-cube-8x24, NxSIZE "
     "(8x24M), or a machine file (.json)"},
    {"size", OPTION_VALUE, "SIZE",
     "bytes of each copy, 8G unless given; less where a card has\nless than four times that, "
     "and 32M where it is emulated"},
    {"rounds", OPTION_VALUE, "N", "rounds, of which the median counts: 20, emulated 3"},
    {"json", OPTION_FLAG, NULL, "print JSON"},
    {"svg", OPTION_VALUE, "FILE", "draw the rates"},
    {"help", OPTION_FLAG, NULL, "this text"},
};
enum { BENCH_EMULATE, BENCH_SIZE, BENCH_ROUNDS, BENCH_JSON, BENCH_SVG, BENCH_HELP, SPECS };

static int print_help(void)
{
    puts("Usage: vrampool bench [OPTION…]\n\n"
         "Measures every pair of places: copies, reading and writing in place by a kernel, and\n"
         "the latency of a load; the way through the host, and what a lookup costs. Data are\n"
         "checked. It wants the cards for itself.\n");
    option_print(specs, SPECS);
    puts("\nExamples:\n"
         "  vrampool bench\n"
         "  vrampool bench --size 1G --rounds 100 --svg rates.svg\n"
         "  vrampool bench --emulate double-cube-8x24 --json | jq .pairs");
    return 0;
}

static bool read_rounds(const char *value, unsigned *rounds)
{
    char *end;
    unsigned long read = strtoul(value, &end, 10);
    *rounds = (unsigned)read;
    if (*value >= '0' && *value <= '9' && !*end && read >= 1 && read <= BENCH_MAX_ROUNDS)
        return true;
    cli_fail(EXIT_USAGE, "bench: --rounds %s: write a number from 1 to %d", value,
             BENCH_MAX_ROUNDS);
    return false;
}

static bool read_size(const char *value, uint64_t *bytes)
{
    if (units_parse_size(value, bytes) && *bytes >= 2 * MIB) return true;
    cli_fail(EXIT_USAGE, "bench: --size %s: write a size of at least 2M, such as 8G", value);
    return false;
}

/* False: wrong, and why is on stderr. */
static bool read_request(int argc, char **argv, struct request *request, bool *help)
{
    struct option_reader reader = {"bench", specs, SPECS, argc, argv, 1};
    const char *value;
    int index;
    while ((index = option_next(&reader, &value)) != OPTION_END) {
        switch (index) {
        case BENCH_EMULATE: request->machine = value; break;
        case BENCH_SIZE:
            if (!read_size(value, &request->size_bytes)) return false;
            break;
        case BENCH_ROUNDS:
            if (!read_rounds(value, &request->rounds)) return false;
            break;
        case BENCH_JSON: request->json = true; break;
        case BENCH_SVG: request->svg = value; break;
        case BENCH_HELP: *help = true; return true;
        default: return false;
        }
    }
    if (reader.next >= argc) return cli_picture_is_apart("bench", request->svg, request->machine);
    cli_fail(EXIT_USAGE, "bench: `%s` is no option, and bench runs no program", argv[reader.next]);
    return false;
}

static bool find_emulated(const struct request *request, struct bench *bench, char *path)
{
    static struct install install;
    if (machine_find(request->machine, &bench->described) != VP_OK ||
        install_find(&install) != VP_OK)
        return false;
    program_emulate(&bench->described, PROGRAM_DEFAULT_HOST, install.emulator);
    strcpy(bench->machine, bench->described.name);
    strcpy(path, install.emulator);
    bench->emulated = true;
    if (bench->size_bytes > EMULATED_BYTES) bench->size_bytes = EMULATED_BYTES;
    return true;
}

static bool open_driver(struct driver *driver, struct bench *bench, const char *path)
{
    int count = 0;
    if (driver_load(driver, path) != VP_OK) return false;
    /* Tests give the emulator in place of the real driver. */
    bool registered = bench_register_kernels(driver);
    if (bench->emulated && !registered) {
        cli_fail(1, "bench: %s is no emulated driver of this version", path);
        return false;
    }
    CUresult result = driver->cuInit(0);
    if (result == CUDA_SUCCESS) result = driver->cuDeviceGetCount(&count);
    if (result == CUDA_SUCCESS && count > 0) {
        bench->cards = count < VP_MAX_CARDS ? (unsigned)count : VP_MAX_CARDS;
        if (bench->emulated) return true;
        static struct topo topo; /* for the links between cards */
        if (!topo_discover(&topo)) return false;
        bench->described = topo.machine;
        return true;
    }
    cli_fail(1, "bench: no card can be used (%s); without one try --emulate double-cube-8x24",
             driver_error_name(driver, result));
    return false;
}

static int run(const struct request *request, struct bench *bench)
{
    static struct driver driver;
    static char path[4096];
    if (request->machine) {
        if (!find_emulated(request, bench, path)) return EXIT_USAGE;
    } else {
        if (driver_find(NULL, path, sizeof path) != VP_OK) return 1;
        strcpy(bench->machine, "this machine");
    }
    if (bench->rounds == 0) bench->rounds = request->machine ? EMULATED_ROUNDS : REAL_ROUNDS;
    if (!open_driver(&driver, bench, path) || !bench_measure(&driver, bench)) return 1;
    bench->lookup_ns = bench_lookup_ns();
    bench->filter_ns = bench_filter_ns();
    if (bench->emulated && !bench_translate(bench)) return 1;
    if (request->json)
        bench_print_json(bench);
    else
        bench_print_table(bench);
    return request->svg && bench_draw(bench, request->svg) != VP_OK ? EXIT_USAGE : 0;
}

int cli_bench(int argc, char **argv)
{
    static struct bench bench;
    struct request request = {.size_bytes = 8 * GIB};
    bool help = false;
    if (!read_request(argc, argv, &request, &help)) return EXIT_USAGE;
    if (help) return print_help();
    bench.asked_bytes = bench.size_bytes = request.size_bytes;
    bench.rounds = request.rounds;
    return run(&request, &bench);
}
