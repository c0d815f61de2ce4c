/* The log: lines on stderr that start with `vrampool:`. Whoever first knows the cause of a failure
 * logs it, once, with numbers. Never stdout: that belongs to the program we live in. Safe from any
 * thread. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_QUIET, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Sets what is shown: everything up to `level`. The start value is LOG_WARN. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* Reads `quiet`, `error`, `warn`, `info` or `debug`. False when the name is none of them. */
bool log_parse_level(const char *name, enum log_level *level);

void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* News of what goes on, for somebody who watches: shown at level INFO, and on a terminal from level
 * WARN on. Asked for first where it costs something to have any. */
bool log_shows_progress(void);
void log_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

#endif
