/* Machine files: a machine described in JSON (docs/machine-files.md has the fields).
 *
 * A mistake is reported as `FILE:LINE: FIELD: what is wrong`, with the line of that field. */
#ifndef CLI_MACHINE_FILE_H
#define CLI_MACHINE_FILE_H

#include "machine/machine.h"

/* Reads a file. VP_IO: it cannot be read; VP_MALFORMED: it is no description; both logged. */
vp_status machine_file_read(const char *path, struct machine *machine) VP_MUST_USE;

/* A machine from a name, `NxSIZE` or a file: what has a `/` or ends in `.json` is a file, other
 * names are looked for among the files that come with vrampool. `@SIZE` behind it scales memory
 * (machine_scale). All failures are logged. */
vp_status machine_find(const char *text, struct machine *machine) VP_MUST_USE;

#endif
