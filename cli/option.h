/* Options of a command line, from a table: `--name`, `--name VALUE`, `--name=VALUE`.
 *
 * Reading stops at `--`, which is skipped, or at the first word that is no option: what follows is
 * a program and its arguments, and not ours to look at. */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stddef.h>

enum option_kind {
    OPTION_FLAG,  /* takes no value */
    OPTION_VALUE, /* needs one */
    OPTION_MAYBE, /* takes one only as --name=VALUE */
};

struct option_spec {
    const char *name; /* without dashes */
    enum option_kind kind;
    const char *value; /* what help calls the value; NULL for flags */
    const char *help;
};

struct option_reader {
    const char *command; /* for messages, such as `run` */
    const struct option_spec *specs;
    size_t count;
    int argc;
    char **argv;
    int next; /* index in argv of what is read next; starts at 1 */
};

enum { OPTION_END = -1, OPTION_WRONG = -2 };

/* Returns the index in specs of the next option and its value (NULL: none given); OPTION_END when
 * there are no more; OPTION_WRONG, with the reason on stderr, at a mistake. */
int option_next(struct option_reader *reader, const char **value);

/* Prints the table for --help. */
void option_print(const struct option_spec *specs, size_t count);

/* The entry of a list of names that `word` was most likely meant to be, or NULL. `stride` bytes lie
 * between the pointers to the names. */
const char *option_nearest(const char *word, const void *names, size_t count, size_t stride);

#endif
