/* What `vrampool info` finds out, and how it shows it. */
#ifndef CLI_INFO_H
#define CLI_INFO_H

#include <stdbool.h>

#include "machine/host.h"
#include "vrampool.h"

enum { INFO_MAX_PROBLEMS = 16, INFO_TEXT = 256, INFO_NEEDED_VERSION = 12040 };

struct info_card {
    char model[128];
    uint64_t total_bytes;
    uint64_t free_bytes; /* 0 where it could not be asked */
    int compute_major, compute_minor;
    bool vmm;           /* memory can be mapped piece by piece: needed */
    bool host_numa_vmm; /* host memory of a NUMA node can be mapped for it */
    uint32_t peers;     /* bit i: it reaches card i's memory, */
    uint32_t in_place;  /* and kernels may use it there: atomics work as they do at home */
    bool usable;
};

/* Something that keeps a place, or all of them, out of the pool. */
struct info_problem {
    char what[INFO_TEXT];
    char remedy[INFO_TEXT];
};

struct info {
    char emulated[64];      /* the machine's name; empty: real */
    char driver_path[4096]; /* empty: none found */
    int driver_version;     /* as the driver says: 1000 × major + 10 × minor; 0: it does not */
    bool driver_works;
    struct info_card card[VP_MAX_CARDS];
    unsigned cards;
    struct host_memory host;
    uint64_t host_poolable_bytes;
    bool host_usable; /* host memory can be mapped for the cards */
    struct info_problem problem[INFO_MAX_PROBLEMS];
    unsigned problems;
};

void info_print_table(const struct info *info);

/* Prints JSON; docs/running.md has the fields. */
void info_print_json(const struct info *info);

#endif
