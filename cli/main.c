/* The command: finds the subcommand and hands over. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"
#include "cli.h"
#include "option.h"
#include "vrampool.h"

static const struct command commands[] = {
    {"run", "run a program on the joined memory", cli_run},
    {"info", "show what this machine has and what can be pooled", cli_info},
    {"sim", "predict a recorded job's step when less of it fits the card", cli_sim},
    {"tune", "find the settings with which a recorded job should run fastest", cli_tune},
    {"bench", "measure every pair of places", cli_bench},
    {"topo", "show cards, links, and the ways between them", cli_topo},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static int print_help(FILE *out)
{
    fputs("vrampool joins the memory of all cards of a machine, and host memory, into one card\n"
          "that an unmodified CUDA program uses.\n\n"
          "Usage: vrampool COMMAND [OPTION…]\n\n",
          out);
    for (unsigned i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\nExamples:\n"
          "  vrampool run -- python train.py\n"
          "  vrampool run --hbm 24G --report report.json -- python train.py --batch 32\n"
          "  vrampool run --emulate 8x24M -- build/examples/train\n"
          "  vrampool info\n"
          "  vrampool sim job.trace --hbm 24G\n\n"
          "vrampool COMMAND --help tells more; vrampool --version the version.\n",
          out);
    return 0;
}

static const struct command *find_command(const char *name)
{
    for (unsigned i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *nearest = option_nearest(name, &commands->name, COMMANDS, sizeof *commands);
    if (nearest)
        return cli_fail(EXIT_USAGE, "unknown command `%s`; did you mean `%s`?", name, nearest);
    return cli_fail(EXIT_USAGE, "unknown command `%s`; see vrampool --help", name);
}

/* The library's own level, so that `VRAMPOOL_LOG=debug vrampool …` shows what the command does too.
 */
static bool set_log_level(void)
{
    enum log_level level;
    const char *name = env_get(ENV_LOG);
    if (!name) return true;
    if (!log_parse_level(name, &level)) {
        cli_fail(EXIT_USAGE, "VRAMPOOL_LOG=%s is not understood; it takes %s", name,
                 env_form(ENV_LOG));
        return false;
    }
    log_set_level(level);
    return true;
}

/* What was printed may be on its way still, or lost. */
static int finish(int status)
{
    bool lost = ferror(stdout) != 0;
    errno = EIO; /* of what was lost before nobody knows why */
    if (fflush(stdout) == 0 && !lost) return status;
    return cli_fail(status ? status : EXIT_OUTPUT,
                    "what was to be printed could not be written: %s; make room, or write it "
                    "elsewhere",
                    strerror(errno));
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) return finish(print_help(stdout));
    if (strcmp(name, "--version") == 0) {
        puts("vrampool " VP_VERSION);
        return finish(0);
    }
    const struct command *command = find_command(name);
    if (!command) return unknown_command(name);
    if (!set_log_level()) return EXIT_USAGE;
    return finish(command->run(argc - 1, argv + 1));
}
