#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic int shown = LOG_WARN;
static const char *const names[] = {"quiet", "error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&shown, (int)level, memory_order_relaxed);
}

enum log_level log_get_level(void)
{
    return (enum log_level)atomic_load_explicit(&shown, memory_order_relaxed);
}

bool log_parse_level(const char *name, enum log_level *level)
{
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (name && strcmp(name, names[i]) == 0) {
            *level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static void write_line(enum log_level level, const char *format, va_list args)
{
    char line[1024];
    int used = snprintf(line, sizeof line, "vrampool: %s%s", level < LOG_INFO ? names[level] : "",
                        level < LOG_INFO ? ": " : "");
    used += vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    if (used > (int)sizeof line - 2) used = (int)sizeof line - 2;
    line[used++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)used); /* one write: lines never mix */
    (void)written;
}

void log_write(enum log_level level, const char *format, ...)
{
    if (level > log_get_level()) return;
    va_list args;
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

bool log_shows_progress(void)
{
    enum log_level level = log_get_level();
    return level >= LOG_INFO || (level >= LOG_WARN && isatty(STDERR_FILENO));
}

void log_progress(const char *format, ...)
{
    if (!log_shows_progress()) return;
    va_list args;
    va_start(args, format);
    write_line(LOG_INFO, format, args);
    va_end(args);
}
