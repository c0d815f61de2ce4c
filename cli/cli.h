/* cli: the `vrampool` command. It sets up and looks; the pool itself is in the preloaded library.
 *
 * A subcommand is one row of the table in main.c and one file that has its options, its help and
 * its work. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>

/* Exit statuses of our own; otherwise the status is that of the program we became. */
enum {
    EXIT_OUTPUT = 1,       /* what was to be printed could not be */
    EXIT_USAGE = 2,        /* the command line makes no sense; nothing was run */
    EXIT_CANNOT_RUN = 126, /* the program is there but cannot be run */
    EXIT_NOT_FOUND = 127,  /* no such program */
};

struct command {
    const char *name;
    const char *summary; /* one line, for the list of commands */
    /* argv[0] is the subcommand's name. Returns the exit status. */
    int (*run)(int argc, char **argv);
};

int cli_run(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_sim(int argc, char **argv);
int cli_tune(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_topo(int argc, char **argv);

/* Prints `vrampool: …` on stderr, whatever the log's level, and returns the status. */
int cli_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether a picture would leave the file that is read alone, which is said if not. Either may be
 * NULL, and `read` the name of no file. */
bool cli_picture_is_apart(const char *command, const char *svg, const char *read);

#endif
