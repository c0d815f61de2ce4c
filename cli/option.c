#include "option.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { LONGEST_WORD = 64, HELP_COLUMN = 26 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters must be put in, left out or changed to make one word of the other. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[LONGEST_WORD + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > LONGEST_WORD || b_length > LONGEST_WORD) return LONGEST_WORD;
    for (unsigned j = 0; j <= b_length; j++) row[j] = j;
    for (unsigned i = 1; i <= a_length; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= b_length; j++) {
            unsigned changed = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(changed, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

const char *option_nearest(const char *word, const void *names, size_t count, size_t stride)
{
    const char *nearest = NULL;
    unsigned best = 4; /* more mistakes than three are another word */
    for (size_t i = 0; i < count; i++) {
        const char *name;
        memcpy(&name, (const char *)names + i * stride, sizeof name);
        unsigned mistakes = distance(word, name);
        if (mistakes < best && mistakes <= (strlen(name) + 1) / 2) {
            best = mistakes;
            nearest = name;
        }
    }
    return nearest;
}

static int find(const struct option_reader *reader, const char *name, size_t length)
{
    for (size_t i = 0; i < reader->count; i++) {
        const char *known = reader->specs[i].name;
        if (strlen(known) == length && memcmp(known, name, length) == 0) return (int)i;
    }
    return OPTION_WRONG;
}

static int unknown(const struct option_reader *reader, const char *word, const char *name,
                   size_t length)
{
    char plain[LONGEST_WORD + 1] = "";
    if (length <= LONGEST_WORD) memcpy(plain, name, length);
    const char *nearest =
        option_nearest(plain, &reader->specs->name, reader->count, sizeof *reader->specs);
    if (nearest)
        cli_fail(EXIT_USAGE, "%s: unknown option %s; did you mean --%s?", reader->command, word,
                 nearest);
    else
        cli_fail(EXIT_USAGE, "%s: unknown option %s; see vrampool %s --help", reader->command, word,
                 reader->command);
    return OPTION_WRONG;
}

/* Finds the value of the option just read, whose word may hold it behind `=`. */
static int take_value(struct option_reader *reader, int index, const char *attached,
                      const char **value)
{
    const struct option_spec *spec = &reader->specs[index];
    *value = attached;
    if (spec->kind == OPTION_FLAG && attached) {
        cli_fail(EXIT_USAGE, "%s: --%s takes no value", reader->command, spec->name);
        return OPTION_WRONG;
    }
    if (spec->kind != OPTION_VALUE || (attached && *attached)) return index;
    const char *next = reader->next < reader->argc ? reader->argv[reader->next] : NULL;
    if (attached || !next || !*next || strncmp(next, "--", 2) == 0) { /* "$NOTHING" is none */
        cli_fail(EXIT_USAGE, "%s: --%s needs a value: --%s %s", reader->command, spec->name,
                 spec->name, spec->value);
        return OPTION_WRONG;
    }
    *value = next;
    reader->next++;
    return index;
}

int option_next(struct option_reader *reader, const char **value)
{
    assert(reader->next >= 1);
    *value = NULL;
    if (reader->next >= reader->argc) return OPTION_END;
    const char *word = reader->argv[reader->next];
    if (word[0] != '-' || word[1] == '\0') return OPTION_END;
    reader->next++;
    if (strcmp(word, "--") == 0) return OPTION_END;
    const char *name = word + strspn(word, "-");
    size_t length = strcspn(name, "=");
    int index = word[1] == '-' ? find(reader, name, length) : OPTION_WRONG;
    if (strcmp(word, "-h") == 0) index = find(reader, "help", 4);
    if (index == OPTION_WRONG) return unknown(reader, word, name, length);
    return take_value(reader, index, name[length] == '=' ? name + length + 1 : NULL, value);
}

void option_print(const struct option_spec *specs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char left[LONGEST_WORD + 32];
        const struct option_spec *spec = &specs[i];
        const char *before = spec->kind == OPTION_FLAG    ? ""
                             : spec->kind == OPTION_MAYBE ? "[="
                                                          : " ";
        snprintf(left, sizeof left, "--%s%s%s%s", spec->name, before,
                 spec->kind == OPTION_FLAG ? "" : spec->value,
                 spec->kind == OPTION_MAYBE ? "]" : "");
        printf("  %-*s", HELP_COLUMN - 2, left);
        if (strlen(left) >= HELP_COLUMN - 2) printf("\n%*s", HELP_COLUMN, "");
        for (const char *at = spec->help; *at; at++) {
            putchar(*at);
            if (*at == '\n') printf("%*s", HELP_COLUMN, "");
        }
        putchar('\n');
    }
}
