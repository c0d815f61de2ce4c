/* What memory the host can give: what is available, and what the control groups that we live in
 * leave.
 *
 * Both versions of control groups are read, each from the innermost group up to the mount: the
 * tightest limit counts. A group's file cache that nobody maps counts as free, as it is for the
 * kernel. */
#ifndef MACHINE_HOST_H
#define MACHINE_HOST_H

#include <stddef.h>
#include <stdint.h>

#include "vrampool.h"

#define HOST_NO_LIMIT UINT64_MAX

struct host_memory {
    uint64_t total_bytes;
    uint64_t available_bytes;  /* as the kernel estimates it */
    uint64_t limit_bytes;      /* the tightest control group's limit, or HOST_NO_LIMIT */
    uint64_t limit_left_bytes; /* least that any group leaves, or HOST_NO_LIMIT */
    char limit_file[512];      /* the file that says so; empty: no limit */
};

/* Reads it. `root` is put before every path ("" but in tests).
 * VP_NOT_FOUND: /proc/meminfo cannot be read or lacks a figure (logged). */
vp_status host_memory_read(const char *root, struct host_memory *memory) VP_MUST_USE;

/* What can still be had: the smaller of available memory and what the limit leaves. */
uint64_t host_memory_free(const struct host_memory *memory);

/* What a pool takes when nobody says: 90 % of that; and its part where `sharers` processes do so.
 */
uint64_t host_memory_default(const struct host_memory *memory);
uint64_t host_memory_share(const struct host_memory *memory, unsigned sharers);

#endif
