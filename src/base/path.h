/* path: files that are written while the program runs or at its end: whether they could be, and
 * whether each is another than the rest, asked before anything starts, without a change to what is
 * there; and how they are opened. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the file can be opened to be written, or made. False: errno says why not. */
bool path_can_be_written(const char *path);

/* Whether both name one file, there already or still to be made. Devices and pipes are none: they
 * take what several write. */
bool path_is_same(const char *path, const char *other);

/* Opens the file to be written anew; it is closed where another program is started. Never as
 * descriptor 0, 1 or 2, which a program may have closed, and still writes to. Below 0: errno says
 * why not. */
int path_open_to_write(const char *path, mode_t mode);

#endif
