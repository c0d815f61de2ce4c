/* path: whether a file that is written at the end could be written, asked before anything starts.
 *
 * Nothing that is there is changed, and nothing is left behind. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>

/* Whether the file can be opened to be written, or made. False: errno says why not. */
bool path_can_be_written(const char *path);

#endif
