/* `vrampool run`: checks the options, writes them into the environment, and becomes the program. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/path.h"
#include "base/rank.h"
#include "base/setting.h"
#include "base/units.h"
#include "cli.h"
#include "install.h"
#include "machine/host.h"
#include "machine/machine.h"
#include "machine_file.h"
#include "option.h"
#include "program.h"

/* What the options say. Values are kept as they go into the environment; NULL: not given. */
struct run {
    const char *value[ENV_COUNT];
    uint64_t hbm_bytes, host_bytes, reserve_bytes;
    uint32_t compute_cards, lend_cards, carved_cards; /* those that --lend names with a size */
    enum log_level log_level;
    struct machine machine; /* with --emulate */
};

enum { RUN_HELP = ENV_COUNT };

/* One option: how it reads, and which variable hands it over. */
struct run_option {
    struct option_spec spec;
    int variable;
    /* Checks the value and puts it into *run. False: it is wrong, and why is on stderr. */
    bool (*read)(struct run *run, const struct run_option *option, const char *value);
};

static bool refuse(const struct run_option *option, const char *value, const char *form)
{
    cli_fail(EXIT_USAGE, "run: --%s %s: %s", option->spec.name, value, form);
    return false;
}

static bool read_size(struct run *run, const struct run_option *option, const char *value)
{
    uint64_t bytes;
    if (!units_parse_size(value, &bytes))
        return refuse(option, value, "not a size; write 24G, 512M or a number of bytes");
    if (option->variable == ENV_HBM && bytes < 2 * MIB)
        return refuse(option, value, "a card's share is at least 2M, one granule of its memory");
    if (bytes > 64 * TIB) return refuse(option, value, "more than 64T, the most that a pool holds");
    if (option->variable == ENV_CHUNK && !env_parse_chunk(value, &bytes))
        return refuse(option, value, env_form(ENV_CHUNK));
    if (option->variable == ENV_HBM) run->hbm_bytes = bytes;
    if (option->variable == ENV_HOST) run->host_bytes = bytes;
    if (option->variable == ENV_RESERVE) run->reserve_bytes = bytes;
    char *text;
    if (asprintf(&text, "%" PRIu64, bytes) < 0) abort();
    run->value[option->variable] = text;
    return true;
}

static bool read_ahead(struct run *run, const struct run_option *option, const char *value)
{
    uint32_t ops;
    if (!env_parse_ahead(value, &ops)) return refuse(option, value, env_form(ENV_AHEAD));
    run->value[option->variable] = value;
    return true;
}

static bool read_cards(struct run *run, const struct run_option *option, const char *value)
{
    uint32_t cards = UINT32_MAX;
    bool ranks = strcmp(value, ENV_RANKS) == 0;
    if (!ranks && !env_parse_cards(value, &cards))
        return refuse(option, value, "not a list of cards; write 0, 0,2-3, all or none");
    if (cards == 0) return refuse(option, value, "at least one card has to compute");
    if ((cards & (cards + 1)) != 0)
        return refuse(option, value,
                      "the cards that compute must be the first ones, such as 0 or 0-3; "
                      "CUDA_VISIBLE_DEVICES puts them in another order");
    run->compute_cards = cards;
    run->value[option->variable] = value;
    return true;
}

/* Cards that compute may be among them, with a size: they lend so much beside their own share. */
static bool read_lend(struct run *run, const struct run_option *option, const char *value)
{
    uint64_t bytes[VP_MAX_CARDS];
    if (!env_parse_lend(value, &run->lend_cards, bytes))
        return refuse(option, value,
                      "not a list of cards; write 0, 0,2-3, all or none, or with sizes 0:40G,1");
    run->carved_cards = 0;
    for (unsigned i = 0; i < VP_MAX_CARDS; i++)
        if (bytes[i]) run->carved_cards |= UINT32_C(1) << i;
    run->value[option->variable] = value;
    return true;
}

static bool read_machine(struct run *run, const struct run_option *option, const char *value)
{
    if (machine_find(value, &run->machine) != VP_OK) return false;
    run->value[option->variable] = value;
    return true;
}

static bool read_flag(struct run *run, const struct run_option *option, const char *value)
{
    run->value[option->variable] = "1";
    return true;
}

static bool read_verify(struct run *run, const struct run_option *option, const char *value)
{
    if (value && strcmp(value, "params") != 0)
        return refuse(option, value, "it takes params, or nothing");
    run->value[option->variable] = value ? value : "1";
    return true;
}

static bool read_policy(struct run *run, const struct run_option *option, const char *value)
{
    uint32_t policy;
    if (!env_parse_policy(value, &policy)) return refuse(option, value, env_form(ENV_POLICY));
    run->value[option->variable] = value;
    return true;
}

/* Paths are made absolute, as the program may change its folder, and tried now rather than at its
 * end. */
static bool read_path(struct run *run, const struct run_option *option, const char *value)
{
    char folder[PATH_MAX], *path;
    if (strcmp(value, "-") == 0 && option->variable == ENV_REPORT) {
        run->value[option->variable] = value;
        return true;
    }
    if (*value != '/' && !getcwd(folder, sizeof folder))
        return refuse(option, value, strerror(errno));
    if (asprintf(&path, "%s%s%s", *value == '/' ? "" : folder, *value == '/' ? "" : "/", value) < 0)
        abort();
    if (!path_can_be_written(path)) {
        const char *why = errno == EISDIR ? "that is a folder" : strerror(errno);
        return refuse(option, value, why);
    }
    run->value[option->variable] = path;
    return true;
}

static bool read_level(struct run *run, const struct run_option *option, const char *value)
{
    enum log_level level;
    if (!log_parse_level(value, &level)) return refuse(option, value, env_form(ENV_LOG));
    run->log_level = level; /* for later: mistakes in other options are told in any case */
    run->value[option->variable] = value;
    return true;
}

static const struct run_option options[] = {
    {{"hbm", OPTION_VALUE, "SIZE",
      "most that the pool holds on each card (default: what is\nfree)"},
     ENV_HBM,
     read_size},
    {{"host", OPTION_VALUE, "SIZE",
      "most that it holds in host memory (default: 90 % of what\nis available; emulated: 4 cards)"},
     ENV_HOST,
     read_size},
    {{"compute", OPTION_VALUE, "LIST",
      "cards that the program sees, the first ones, such as 0-3\n(default: 0); ranks: its own for "
      "each "
      "rank of a job"},
     ENV_COMPUTE,
     read_cards},
    {{"lend", OPTION_VALUE, "LIST",
      "cards that only lend their memory (default: all others);\n0:40G lends so much of card 0, "
      "which "
      "may compute too"},
     ENV_LEND,
     read_lend},
    {{"emulate", OPTION_VALUE, "MACHINE",
      "run on an emulated machine: NxSIZE (8x24M), a name such as\ndouble-cube-8x24@24M, or a "
      "machine file (.json)"},
     ENV_EMULATE,
     read_machine},
    {{"no-pool", OPTION_FLAG, NULL, "the program on the driver alone, to compare with"},
     ENV_NO_POOL,
     read_flag},
    {{"record", OPTION_VALUE, "FILE", "record a trace of the run"}, ENV_RECORD, read_path},
    {{"timeline", OPTION_VALUE, "FILE",
      "write at exit what the pool did when, for Perfetto or\nchrome://tracing"},
     ENV_TIMELINE,
     read_path},
    {{"verify", OPTION_MAYBE, "params",
      "map only what each operation may touch, to find hidden\naccesses; params: by parameters "
      "alone"},
     ENV_VERIFY,
     read_verify},
    {{"always-mapped", OPTION_FLAG, NULL, "keep all data reachable at all times (slower)"},
     ENV_ALWAYS_MAPPED,
     read_flag},
    {{"strict", OPTION_FLAG, NULL,
      "move only while the device is idle: nothing runs beside\na move, whatever it touches "
      "(slow)"},
     ENV_STRICT,
     read_flag},
    {{"policy", OPTION_VALUE, "POLICY",
      "plan (default): learn the step and move ahead of it; to\ncompare: lru, demand, inplace"},
     ENV_POLICY,
     read_policy},
    {{"chunk", OPTION_VALUE, "SIZE",
      "what moves at once: 2M to 128M, a power of two (default: from\nthe card's share)"},
     ENV_CHUNK,
     read_size},
    {{"ahead", OPTION_VALUE, "N",
      "make memory ready so many operations before its use\n(default: 64)"},
     ENV_AHEAD,
     read_ahead},
    {{"reserve", OPTION_VALUE, "SIZE",
      "keep so much of a card free for what is not foreseen\n(default: two chunks); vrampool tune "
      "finds these three"},
     ENV_RESERVE,
     read_size},
    {{"report", OPTION_VALUE, "FILE",
      "write a report at exit: JSON, or a page (.html); - is stderr"},
     ENV_REPORT,
     read_path},
    {{"log", OPTION_VALUE, "LEVEL", "quiet, error, warn (default), info or debug"},
     ENV_LOG,
     read_level},
    {{"help", OPTION_FLAG, NULL, "this text"}, RUN_HELP, NULL},
};
enum { OPTIONS = sizeof options / sizeof *options };

static int print_help(const struct option_spec *specs)
{
    puts(
        "Usage: vrampool run [OPTION…] [--] PROGRAM [ARGUMENT…]\n\n"
        "Runs PROGRAM, unchanged, on the memory of all cards and of the host. Its exit status is\n"
        "that of PROGRAM; 127: no such program; 126: it cannot be run; 2: an option is wrong, and\n"
        "nothing was run.\n");
    option_print(specs, OPTIONS);
    puts("\nExamples:\n"
         "  vrampool run -- python train.py\n"
         "  vrampool run --hbm 24G --host 64G -- python train.py\n"
         "  vrampool run --record step.trace -- python train.py --steps 10\n"
         "  vrampool run --emulate 8x24M --report r.json -- build/examples/train\n"
         "  vrampool run --emulate 1x24M --no-pool -- build/examples/train");
    return 0;
}

static void take_specs(struct option_spec specs[OPTIONS])
{
    for (unsigned i = 0; i < OPTIONS; i++) specs[i] = options[i].spec;
}

/* What is known of a card before a driver is asked; the pool looks again when it opens. */
static bool can_reserve(const struct run *run)
{
    uint64_t card_bytes = run->value[ENV_HBM] ? run->hbm_bytes : UINT64_MAX;
    for (unsigned i = 0; i < run->machine.cards && run->value[ENV_EMULATE]; i++) {
        bool computes = (run->compute_cards >> i & 1) != 0;
        uint64_t bytes = run->machine.hbm_bytes[i];
        if (computes && bytes < card_bytes) card_bytes = bytes;
    }
    uint64_t most = card_bytes / SETTING_RESERVE_PART;
    if (run->reserve_bytes <= most) return true;
    char asked[32], can[32];
    cli_fail(EXIT_USAGE,
             "run: --reserve %s: at most %s of a card's share may be kept free, a sixth; ask for "
             "less, or leave it out for two chunks",
             units_format_size(run->reserve_bytes, asked, sizeof asked),
             units_format_size(most, can, sizeof can));
    return false;
}

/* What writes last would overwrite the rest. */
static bool files_are_apart(const struct run *run)
{
    static const int written[] = {ENV_RECORD, ENV_TIMELINE, ENV_REPORT};
    static const char *const names[] = {"record", "timeline", "report"};
    for (unsigned i = 0; i < 3; i++)
        for (unsigned j = i + 1; j < 3; j++) {
            const char *one = run->value[written[i]], *other = run->value[written[j]];
            if (!one || !other || !path_is_same(one, other)) continue;
            cli_fail(EXIT_USAGE, "run: --%s and --%s both write %s; give each a file of its own",
                     names[i], names[j], other);
            return false;
        }
    return true;
}

/* Options that make no sense together. */
static bool is_consistent(const struct run *run)
{
    for (unsigned i = 0; i < OPTIONS && run->value[ENV_NO_POOL]; i++) {
        int variable = options[i].variable;
        bool needs_pool = variable == ENV_RECORD || variable == ENV_VERIFY ||
                          variable == ENV_REPORT || variable == ENV_TIMELINE;
        if (!needs_pool || !run->value[variable]) continue;
        cli_fail(EXIT_USAGE, "run: --%s needs the pool; leave --no-pool out", options[i].spec.name);
        return false;
    }
    if (run->value[ENV_STRICT] && run->value[ENV_VERIFY]) {
        cli_fail(EXIT_USAGE,
                 "run: --strict keeps all memory mapped, --verify maps as little as can "
                 "be; leave one of them out");
        return false;
    }
    bool all = run->lend_cards == UINT32_MAX || run->compute_cards == UINT32_MAX;
    uint32_t both = run->compute_cards & run->lend_cards & ~run->carved_cards;
    if (run->value[ENV_LEND] && !all && both) {
        cli_fail(EXIT_USAGE,
                 "run: --lend %s: a card cannot both compute (--compute %s) and only lend; with a "
                 "size, such as 0:40G, it lends a part",
                 run->value[ENV_LEND], run->value[ENV_COMPUTE] ? run->value[ENV_COMPUTE] : "0");
        return false;
    }
    if (!can_reserve(run) || !files_are_apart(run)) return false;
    if (!run->value[ENV_EMULATE]) return true;
    uint32_t named = (run->compute_cards == UINT32_MAX ? 0 : run->compute_cards) |
                     (run->lend_cards == UINT32_MAX ? 0 : run->lend_cards);
    if (named >> run->machine.cards) {
        cli_fail(EXIT_USAGE,
                 "run: --compute or --lend names a card that %s lacks; it has cards 0 to %u",
                 run->machine.name, run->machine.cards - 1);
        return false;
    }
    return true;
}

/* Real host memory: a wish for more than is there now may still come true, so it is a warning only.
 */
static void check_host(const struct run *run)
{
    struct host_memory memory;
    if (!run->value[ENV_HOST] || host_memory_read("", &memory) != VP_OK) return;
    uint64_t most = host_memory_default(&memory);
    if (run->host_bytes <= most) return;
    char asked[32], safe[32];
    log_warn(
        "--host %s is more than %s, 90 %% of what this machine can give now%s%s; the kernel may "
        "kill the program when it takes all",
        units_format_size(run->host_bytes, asked, sizeof asked),
        units_format_size(most, safe, sizeof safe), memory.limit_file[0] ? ", by " : "",
        memory.limit_file);
}

/* The emulated driver and its machine; the limit on host memory is then always told. Ranks that
 * start this command each have a machine of their own, but are to be limited as if it were one. */
static void emulate(struct run *run, const struct install *install)
{
    static char host_text[32];
    struct rank rank;
    uint64_t wanted = run->value[ENV_HOST] ? run->host_bytes : PROGRAM_DEFAULT_HOST;
    uint64_t host_bytes = program_emulate(&run->machine, wanted, install->emulator);
    if (!run->value[ENV_HOST] && rank_read(&rank)) host_bytes /= rank.count;
    snprintf(host_text, sizeof host_text, "%" PRIu64, host_bytes);
    run->value[ENV_HOST] = host_text;
    run->value[ENV_EMULATE] = NULL; /* set already, in its full form */
}

/* torchrun counts the cards, and starts a rank for each. */
static bool starts_ranks(char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    if (strcmp(slash ? slash + 1 : argv[0], "torchrun") == 0) return true;
    return argv[1] && argv[2] && strcmp(argv[1], "-m") == 0 &&
           strcmp(argv[2], "torch.distributed.run") == 0;
}

static int start(struct run *run, char **argv)
{
    static struct install install;
    bool alone = run->value[ENV_NO_POOL] && !run->value[ENV_EMULATE];
    if (alone) {
        run->value[ENV_SWITCH] = "0"; /* also where an outer `vrampool run` preloaded the library */
    } else {
        if (install_find(&install) != VP_OK) return EXIT_CANNOT_RUN;
        if (program_preload(install.shim) != VP_OK) return EXIT_CANNOT_RUN;
        log_set_level(run->log_level);
        if (run->value[ENV_EMULATE])
            emulate(run, &install);
        else
            check_host(run);
        if (!run->value[ENV_NO_POOL]) program_prepare_frameworks(&install);
        if (!run->value[ENV_COMPUTE] && !env_get(ENV_COMPUTE) && starts_ranks(argv))
            run->value[ENV_COMPUTE] = ENV_RANKS;
    }
    for (unsigned i = 0; i < ENV_COUNT; i++) {
        if (!run->value[i]) continue;
        log_debug("%s=%s", env_name(i), run->value[i]);
        if (setenv(env_name(i), run->value[i], 1) != 0) abort();
    }
    return program_exec(argv);
}

int cli_run(int argc, char **argv)
{
    static struct run run; /* large, and there is one */
    struct option_spec specs[OPTIONS];
    take_specs(specs);
    struct option_reader reader = {"run", specs, OPTIONS, argc, argv, 1};
    run.log_level = log_get_level();
    struct rank rank;
    run.compute_cards = rank_read(&rank) ? UINT32_MAX : 1; /* to compare --lend with */
    for (;;) {
        const char *value;
        int index = option_next(&reader, &value);
        if (index == OPTION_END) break;
        if (index == OPTION_WRONG) return EXIT_USAGE;
        if (options[index].variable == RUN_HELP) return print_help(specs);
        if (!options[index].read(&run, &options[index], value)) return EXIT_USAGE;
    }
    if (reader.next >= argc)
        return cli_fail(EXIT_USAGE, "run: which program? vrampool run [OPTION…] -- PROGRAM");
    if (!is_consistent(&run)) return EXIT_USAGE;
    return start(&run, argv + reader.next);
}
