#include "json_line.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Where we are in the text. Everything below trusts it to be valid JSON, but never passes its end.
 */
struct cursor {
    const char *at;
    unsigned line;
};

static void step(struct cursor *cursor)
{
    if (*cursor->at == '\n') cursor->line++;
    if (*cursor->at) cursor->at++;
}

static void skip_blanks(struct cursor *cursor)
{
    while (*cursor->at && strchr(" \t\r\n", *cursor->at)) step(cursor);
}

/* Skips a string, whose opening quote is next. */
static void skip_string(struct cursor *cursor)
{
    step(cursor);
    while (*cursor->at && *cursor->at != '"') {
        if (*cursor->at == '\\') step(cursor);
        step(cursor);
    }
    step(cursor);
}

/* Skips any value: up to the comma or bracket that follows it on its own level. */
static void skip_value(struct cursor *cursor)
{
    unsigned depth = 0;
    while (*cursor->at) {
        char c = *cursor->at;
        if (depth == 0 && strchr(",]}", c)) return;
        if (c == '"') {
            skip_string(cursor);
            continue;
        }
        if (strchr("[{", c)) depth++;
        if (strchr("]}", c)) depth--;
        step(cursor);
    }
}

/* In an object or array that the cursor stands on: goes to the value called by `name`. */
static bool enter(struct cursor *cursor, const char *name, size_t length)
{
    bool object = *cursor->at == '{';
    if (!object && *cursor->at != '[') return false;
    unsigned long wanted = object ? 0 : strtoul(name, NULL, 10);
    step(cursor);
    for (unsigned long index = 0;; index++) {
        skip_blanks(cursor);
        if (*cursor->at == '\0' || strchr("]}", *cursor->at)) return false;
        bool here = index == wanted;
        if (object) {
            here = strncmp(cursor->at + 1, name, length) == 0 && cursor->at[1 + length] == '"';
            skip_string(cursor);
            skip_blanks(cursor);
            step(cursor); /* the colon */
            skip_blanks(cursor);
        }
        if (here) return true;
        skip_value(cursor);
        if (*cursor->at == ',') step(cursor);
    }
}

unsigned json_line_of(const char *text, const char *path)
{
    struct cursor cursor = {text, 1};
    skip_blanks(&cursor);
    while (*path == '/') {
        path++;
        size_t length = strcspn(path, "/");
        struct cursor inside = cursor;
        if (!enter(&inside, path, length)) break;
        cursor = inside;
        path += length;
    }
    return cursor.line;
}
