/* predict: how long a learned step should take on what the pool has, how long on more of it, and
 * what would help. By the planner's simulation (plan/plan.h), with all its costs.
 *
 * A simulation takes up to a second of one core for a step of 5,000 operations. Pure. */
#ifndef POOL_PREDICT_H
#define POOL_PREDICT_H

#include "plan/plan.h"

/* X(kind, word): what may help. */
#define PREDICT_HELPS(X)                                                                           \
    X(HBM_ALL, "hbm_all")                                                                          \
    X(HBM_MORE, "hbm_more")                                                                        \
    X(CHECKPOINT, "checkpointing")                                                                 \
    X(FUSED, "fused_optimizer")                                                                    \
    X(POLICY, "policy")                                                                            \
    X(HOST, "host")

enum predict_help {
#define PREDICT_HELP(kind, word) PREDICT_##kind,
    PREDICT_HELPS(PREDICT_HELP)
#undef PREDICT_HELP
};

enum { PREDICT_ADVICE = 6, PREDICT_CURVE = 5 };

/* What is predicted with. */
struct predict_setup {
    struct plan_costs costs;
    struct plan_limits limits; /* what the pool may use of the card, and of its refuges; */
    uint32_t host;             /* which of them is the host */
    uint64_t chunk_bytes, page_bytes;
    uint64_t peak_held_bytes; /* of chunks in which something lived when most did; 0: not known */
    enum plan_policy policy;
};

struct predict_advice {
    enum predict_help kind;
    uint64_t step_ns; /* predicted if it is followed */
    char text[256];   /* for people, one sentence */
};

struct predict_point {
    uint64_t hbm_bytes, step_ns;
};

struct predict {
    struct sim_result now;                     /* on what the pool has */
    uint64_t peak_bytes;                       /* of live blocks */
    uint64_t wasted_bytes;                     /* of HBM, by where blocks lie in segments */
    uint64_t fits_bytes;                       /* of HBM, with which nothing has to leave */
    struct predict_point curve[PREDICT_CURVE]; /* step time by HBM, up to fits_bytes */
    uint32_t points;
    struct predict_advice advice[PREDICT_ADVICE]; /* what helps most first */
    uint32_t advices;
};

/* Predicts the step on what the pool has: `now` and peak_bytes. VP_QUOTA: it cannot run there.
 * VP_NO_HOST_MEMORY. */
vp_status predict_step(const struct step *step, const struct predict_setup *setup,
                       struct predict *predict) VP_MUST_USE;

/* The rest, behind predict_step: up to eight more simulations. What cannot be simulated is left
 * out. */
void predict_advise(const struct step *step, const struct predict_setup *setup,
                    struct predict *predict);

const char *predict_help_word(enum predict_help kind);

#endif
