/* What `vrampool sim` has predicted, and how it shows it. */
#ifndef CLI_SIM_H
#define CLI_SIM_H

#include <stdbool.h>

#include "job.h"
#include "plan/translate.h"

/* One copy over a link, or one change of what the card holds. Times from the start of the step. */
struct sim_move {
    uint64_t start_ns, end_ns;
    enum executor_kind kind;
    uint32_t refuge;
};

struct sim_use {
    uint64_t time_ns, used_bytes, spare_bytes;
};

/* A time in which the card computes without a wait. */
struct sim_run {
    uint64_t start_ns, end_ns;
};

/* Where pages are and when they are asked for; see sim_translate.c. */
struct sim_visit;
struct sim_visits {
    const struct job *job;
    const struct shape *shape;
    uint32_t *page_of; /* of each item */
    struct sim_visit *list;
    uint32_t pages, count, room;
    bool exhausted; /* memory */
};

bool sim_visits_create(const struct job *job, const struct shape *shape, struct sim_visits *visits);
void sim_visits_destroy(struct sim_visits *visits);
void sim_visits_moved(struct sim_visits *visits, const struct executor_action *action,
                      uint64_t end_ns);
void sim_visits_ran(struct sim_visits *visits, const struct executor *executor, uint32_t op,
                    uint64_t start_ns, uint64_t end_ns);

/* By the model of translation in layers. */
struct sim_translation {
    struct translate_count count; /* of the card that computes, all places together */
    uint64_t p99_ns, moves;
    uint32_t entries;
};

/* Plays what was noted. VP_NO_HOST_MEMORY. */
vp_status sim_translate(struct sim_visits *visits, uint64_t step_ns,
                        struct sim_translation *translation) VP_MUST_USE;

/* What happens in one step, for pictures; grows as needed. */
struct sim_story {
    struct sim_move *moves;
    struct sim_use *uses;
    struct sim_run *runs;
    uint32_t move_count, move_room, use_count, use_room, run_count, run_room;
    bool exhausted; /* memory */
    struct sim_visits visits;
};

struct prediction {
    const char *trace;
    const struct job *job;
    enum plan_policy policy;
    uint64_t peak_bytes, chunk_bytes;
    struct sim_result result;
    struct executor_options options;
    struct sim_story story;
    struct sim_translation translation;
};

/* `card3` or `host0`, into text. */
const char *sim_refuge_name(const struct prediction *prediction, uint32_t refuge, char *text,
                            size_t size);

void sim_print_table(const struct prediction *prediction);

/* Prints JSON; docs/simulation.md has the fields. */
void sim_print_json(const struct prediction *prediction);

/* Draws what the card holds over the step, and the moves below. VP_IO, logged. */
vp_status sim_draw(const struct prediction *prediction, const char *path) VP_MUST_USE;

#endif
