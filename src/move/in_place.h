/* in_place: what it costs a function to use memory over a link, where it is, instead of at home.
 *
 * Of each function two things are measured: how long it takes per byte touched with all of it at
 * home (near), and how long with some of it behind a link (far). What the far bytes cost is
 * compared with copying them:
 *
 *     cost = (t_far - t_near) × rate / bytes
 *
 * 1 is a copy's time: one streaming pass. Random access, many passes and atomics cost up to 500. A
 * function is let use memory in place only where that was measured and costs 1.2 at most; one that
 * was seen to cost more is bad for good. Pure. */
#ifndef MOVE_IN_PLACE_H
#define MOVE_IN_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    IN_PLACE_FUNCTIONS = 512, /* remembered; a power of two. More are unknown */
    IN_PLACE_ENOUGH = 8,      /* far uses of a function that are measured */
};

enum in_place_verdict { IN_PLACE_UNKNOWN, IN_PLACE_PAYS, IN_PLACE_BAD };

struct in_place_function {
    uint64_t function; /* 0: free */
    double near_ns, near_bytes;
    double far_ns, far_touched_bytes, far_bytes;
    uint32_t far_count;
    bool bad;
};

struct in_place {
    struct in_place_function functions[IN_PLACE_FUNCTIONS];
    uint32_t count;
    double gbps; /* of the link into the card; 0: not known yet */
};

/* A function (any number but 0) took so long over so many bytes, all of them at home. */
void in_place_note_near(struct in_place *costs, uint64_t function, uint64_t bytes,
                        uint64_t duration_ns);

/* The same with far_bytes of them used over the link. */
void in_place_note_far(struct in_place *costs, uint64_t function, uint64_t bytes,
                       uint64_t far_bytes, uint64_t duration_ns);

/* The link's rate was measured: 1e9 bytes a second. */
void in_place_set_rate(struct in_place *costs, double gbps);

enum in_place_verdict in_place_judge(const struct in_place *costs, uint64_t function);

/* The measured cost; negative: not known. */
double in_place_cost(const struct in_place *costs, uint64_t function);

/* How long the function would take over so many bytes with all at home; 0: not known. */
uint64_t in_place_near_ns(const struct in_place *costs, uint64_t function, uint64_t bytes);

/* Whether measuring the function would tell something new: when it is far, or near. */
bool in_place_wants(const struct in_place *costs, uint64_t function, bool far);

#endif
