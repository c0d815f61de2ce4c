/* path: whether a file that is written at the end could be written, and whether it is another than
 * the rest, asked before anything starts.
 *
 * Nothing that is there is changed, and nothing is left behind. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>

/* Whether the file can be opened to be written, or made. False: errno says why not. */
bool path_can_be_written(const char *path);

/* Whether both name one file, there already or still to be made. Devices and pipes are none: they
 * take what several write. */
bool path_is_same(const char *path, const char *other);

#endif
