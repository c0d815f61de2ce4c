/* The environment through which `vrampool run` hands its options to the library in the program.
 *
 * One list: X(id, variable, form of the value, what it is). The option of the same name sets each;
 * set by hand they are defaults that options override. Values are checked where they are read: a
 * wrong one is an error, never ignored. */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "vrampool.h"

/* clang-format off */
#define ENV_VARIABLES(X) \
    X(SWITCH, "VRAMPOOL", "0 or 1", "0 passes every call straight to the driver (kill switch)") \
    X(HBM, "VRAMPOOL_HBM", "SIZE", "most that the pool holds on each card") \
    X(HOST, "VRAMPOOL_HOST", "SIZE", "most that the pool holds in host memory") \
    X(COMPUTE, "VRAMPOOL_COMPUTE", "LIST or ranks", "cards that the program sees") \
    X(LEND, "VRAMPOOL_LEND", "LIST", "cards that lend their memory, each with :SIZE if not all of it") \
    X(EMULATE, "VRAMPOOL_EMULATE", "MACHINE", "what the emulated driver behaves like, as text") \
    X(NO_POOL, "VRAMPOOL_NO_POOL", "0 or 1", "1 passes every call on: the program without a pool") \
    X(RECORD, "VRAMPOOL_RECORD", "FILE", "where to record a trace") \
    X(TIMELINE, "VRAMPOOL_TIMELINE", "FILE", "where to write at exit what the pool did when") \
    X(VERIFY, "VRAMPOOL_VERIFY", "1 or params", "map only what each operation may touch") \
    X(ALWAYS_MAPPED, "VRAMPOOL_ALWAYS_MAPPED", "0 or 1", "1 keeps absent chunks mapped where they are") \
    X(STRICT, "VRAMPOOL_STRICT", "0 or 1", "1 moves only while the device is idle, to test with") \
    X(POLICY, "VRAMPOOL_POLICY", "plan, lru, demand or inplace", \
      "plan learns the step and moves ahead; the others are to compare with") \
    X(REPORT, "VRAMPOOL_REPORT", "FILE", "where to write the report at exit; - is stderr") \
    X(LOG, "VRAMPOOL_LOG", "quiet, error, warn, info or debug", "how much is said on stderr") \
    X(CHUNK, "VRAMPOOL_CHUNK", "a power of two from 2M to 128M", "size of the pieces that move; default from the card's size") \
    X(AHEAD, "VRAMPOOL_AHEAD", "a number from 1 to 4096", \
      "how many operations before its use memory is made ready") \
    X(RESERVE, "VRAMPOOL_RESERVE", "SIZE", "how much of a card is kept free for what is not foreseen") \
    X(DRIVER, "VRAMPOOL_DRIVER", "FILE", "the driver library, real or emulated") \
    X(PYTHON_DIR, "VRAMPOOL_PYTHON_DIR", "FOLDER", "where the PyTorch listener's sources are") \
    X(LISTENER, "VRAMPOOL_LISTENER", "0 or 1", "0: PyTorch asks the driver for each tensor instead")
/* clang-format on */

enum env_variable {
#define ENV_ENUM(id, name, form, text) ENV_##id,
    ENV_VARIABLES(ENV_ENUM)
#undef ENV_ENUM
        ENV_COUNT
};

/* The value of COMPUTE that gives each rank of a job its own card (base/rank.h). */
#define ENV_RANKS "ranks"

/* The variable's name, the form of its value, and the sentence about it. */
const char *env_name(enum env_variable variable);
const char *env_form(enum env_variable variable);
const char *env_text(enum env_variable variable);

/* Its value; NULL when it is not set, or empty. The environment owns it. */
const char *env_get(enum env_variable variable);

/* Reads `0`, `1`; *flag is untouched when the variable is not set. False, and logged: anything
 * else. */
bool env_get_flag(enum env_variable variable, bool *flag);

/* Reads a list of cards such as `0,2-3`, `all` (every bit) or `none`. False: anything else. */
bool env_parse_cards(const char *text, uint32_t *cards);

/* Reads the size of a chunk: a power of two, ENV_LEAST_CHUNK to ENV_MOST_CHUNK bytes. False:
 * anything else. */
enum { ENV_LEAST_CHUNK = 2 << 20, ENV_MOST_CHUNK = 128 << 20 };
bool env_parse_chunk(const char *text, uint64_t *bytes);

/* Reads a number of operations from 1 to ENV_MOST_AHEAD. False: anything else. */
enum { ENV_MOST_AHEAD = 4096 };
bool env_parse_ahead(const char *text, uint32_t *ops);

/* Reads the same with sizes, such as `0:40G,2-3`: what each card lends at most; 0: not said. */
bool env_parse_lend(const char *text, uint32_t *cards, uint64_t bytes[VP_MAX_CARDS]);

/* Reads a policy's word. False: there is none such. */
bool env_parse_policy(const char *text, uint32_t *policy);

/* Overwrites in *options what the environment sets: limits, cards, chunk, verify, always-mapped,
 * paths (which then belong to the environment). VP_INVALID, logged with the variable's name: a
 * value is wrong. */
vp_status env_read_options(vp_options *options) VP_MUST_USE;

#endif
