/* What `vrampool tune` has found, and how it shows it. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "job.h"

/* What `vrampool run` takes as --chunk, --ahead and --reserve. */
struct tune_setting {
    uint64_t chunk_bytes, reserve_bytes;
    uint32_t ahead_ops;
};

/* A setting, and how a step is predicted to go with it. */
struct tune_result {
    struct tune_setting setting;
    struct sim_result sim;
    double link_gbps;  /* while something is copied, all links and both ways */
    double wait_us;    /* that the card waits per chunk that is brought in */
    double used_share; /* of the card's memory, data alone, over the step */
};

struct tune {
    const char *trace;
    const struct job *job;
    uint64_t host_bytes; /* asked for; 0: nothing was said */
    uint64_t peak_bytes;
    unsigned tried;
    struct tune_setting defaults; /* the pool's own */
    struct tune_result before, after;
};

/* After the part in which nothing is better. */
bool tune_is_changed(const struct tune *tune);

void tune_print_table(const struct tune *tune);

/* Prints JSON; docs/tuning.md has the fields. */
void tune_print_json(const struct tune *tune);

#endif
