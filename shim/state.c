/* The state of the process: what the environment says, the pool that is opened when memory is first
 * wanted, and its end, by fork or exit.
 *
 *     untried ─ first memory call after cuInit, with a context ─┬─ open ── reset of the card ──
 * untried │                                                      ├─ failed: all calls pass through
 *         │                                                      └─ an option cannot be: exit 2
 *        └─ fork of an initialised process ── void (in the child): all calls pass through, and the
 *           driver says what it says in a child */
#include "shim/shim.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/path.h"
#include "params/pinned.h"

struct shim_settings shim_settings;
struct driver shim_driver;
_Atomic(vp_pool *) shim_open_pool;

static atomic_bool initialised; /* cuInit has succeeded here */
static atomic_bool hopeless;    /* failed or void: no pool will be opened any more */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* ---- Settings ---- */

/* The command has checked the same before it set them: this is for environments made by hand. */
static void give_up(void)
{
    _exit(2); /* not exit: we may be within a call that exit handlers would make again */
}

/* A rank of a job has a card of its own, unless it was told which cards compute. With `cards` the
 * machine's. */
static void take_share(unsigned cards)
{
    struct rank_share share = rank_share(&shim_settings.rank, cards);
    shim_settings.options.compute_cards = share.compute_cards;
    uint32_t own = share.compute_cards; /* it may lend a part of its own card */
    for (unsigned i = 0; i < VP_MAX_CARDS; i++)
        if (!shim_settings.options.lend_bytes[i]) own &= ~(UINT32_C(1) << i);
    shim_settings.options.lend_cards &= share.lend_cards | own;
    shim_settings.visible = share.visible;
}

/* A process that starts ranks looks at the cards, and leaves the memory to them. */
static bool is_launcher(void)
{
    const char *compute = env_get(ENV_COMPUTE);
    return compute && strcmp(compute, ENV_RANKS) == 0 && !shim_settings.by_rank;
}

/* The file of a rank of several, whose environment is the same but for its number. */
static const char *own_file(const char *path, char own[PATH_MAX])
{
    if (!path || shim_settings.rank.count < 2 || strcmp(path, "-") == 0) return path;
    snprintf(own, PATH_MAX, "%s.%u", path, shim_settings.rank.number);
    return own;
}

static void read_rank(void)
{
    static char report_path[PATH_MAX], record_path[PATH_MAX], timeline_path[PATH_MAX];
    vp_options *options = &shim_settings.options;
    if (rank_read(&shim_settings.rank)) {
        const char *compute = env_get(ENV_COMPUTE);
        options->host_sharers = shim_settings.rank.count;
        shim_settings.by_rank = !compute || strcmp(compute, ENV_RANKS) == 0;
    }
    shim_settings.report = own_file(env_get(ENV_REPORT), report_path);
    options->record_path = own_file(options->record_path, record_path);
    options->timeline_path = own_file(options->timeline_path, timeline_path);
}

/* Cards that compute must come first, because the others are hidden by their number. */
static bool read_cards(vp_options *options)
{
    if (shim_settings.by_rank) {
        take_share(VP_MAX_CARDS);
        return true;
    }
    uint32_t cards = options->compute_cards;
    if (cards == 0 || (cards & (cards + 1)) != 0) {
        log_error("%s=%s: the cards that compute must be the first ones, such as 0 or 0-3; "
                  "CUDA_VISIBLE_DEVICES puts them in another order",
                  env_name(ENV_COMPUTE), env_get(ENV_COMPUTE) ? env_get(ENV_COMPUTE) : "");
        return false;
    }
    unsigned count = 0;
    for (; cards; cards >>= 1) count++;
    shim_settings.visible = count;
    return true;
}

static bool read_log_level(void)
{
    enum log_level level = LOG_WARN;
    const char *name = env_get(ENV_LOG);
    if (!name) return true;
    if (!log_parse_level(name, &level)) {
        log_error("%s=%s is not understood; it takes %s: %s", env_name(ENV_LOG), name,
                  env_form(ENV_LOG), env_text(ENV_LOG));
        return false;
    }
    log_set_level(level);
    return true;
}

void shim_settings_read(void)
{
    bool enabled = true;
    if (!env_get_flag(ENV_SWITCH, &enabled)) give_up();
    shim_settings.off = !enabled;
    if (!enabled) return; /* the kill switch works whatever else is wrong */
    if (!read_log_level() || !env_get_flag(ENV_NO_POOL, &shim_settings.off)) give_up();
    vp_options_init(&shim_settings.options);
    if (env_read_options(&shim_settings.options) != VP_OK) give_up();
    read_rank();
    if (!read_cards(&shim_settings.options)) give_up();
}

/* ---- The end ---- */

static bool ever_open, ending; /* under `opening`, but for the exit handler, which is alone */

/* Says what has been. Of several pools one after the other, the last one's report stays. */
static void report(vp_pool *pool)
{
    vp_status status = shim_settings.report ? vp_report(pool, shim_settings.report) : VP_OK;
    (void)status; /* if it is not written, it has said why */
    if (log_get_level() != LOG_QUIET) pool_log_summary(pool);
}

/* Gives nothing back: the driver may be shutting down already, and other exit handlers come after.
 */
static void at_exit(void)
{
    vp_pool *pool = shim_pool();
    ending = true;
    if (pool) {
        pool_flush_files(pool);
        report(pool);
    } else if (shim_settings.report && !ever_open && !atomic_load(&hopeless) && !is_launcher())
        log_warn("no report: the program took no memory from the pool");
}

static void in_child(void)
{
    pthread_mutex_init(&opening, NULL); /* whoever held it is not here */
    atomic_store(&hopeless, true);
    atomic_store(&shim_open_pool, NULL);
    pinned_forget();
}

void shim_state_initialised(void)
{
    pthread_mutex_lock(&opening); /* whoever comes second finds the cards fitted */
    bool first = !atomic_load(&initialised);
    int cards = 0;
    if (first && shim_settings.by_rank && shim_driver.cuDeviceGetCount(&cards) == CUDA_SUCCESS &&
        cards > 0)
        take_share(cards < VP_MAX_CARDS ? (unsigned)cards : VP_MAX_CARDS);
    atomic_store(&initialised, true);
    pthread_mutex_unlock(&opening);
    if (first && (pthread_atfork(NULL, NULL, in_child) != 0 || atexit(at_exit) != 0))
        log_warn("out of memory: no report at exit, and a fork would share the pool");
}

/* ---- The pool ---- */

static CUcontext standing_on; /* the context that the pool was opened in; under `opening` */

static CUcontext current_context(void)
{
    CUcontext context = NULL;
    return shim_driver.cuCtxGetCurrent(&context) == CUDA_SUCCESS ? context : NULL;
}

bool shim_has_context(void)
{
    return current_context() != NULL;
}

/* Whether a file that is wanted can be written; if not, it is said. */
static bool is_writable(const char *path, enum env_variable variable)
{
    if (!path || strcmp(path, "-") == 0 || path_can_be_written(path)) return true;
    log_error("%s=%s cannot be written: %s; name another file, or leave it out", env_name(variable),
              path, strerror(errno));
    return false;
}

/* What was asked for cannot be had, and the program has no memory of ours yet: it ends rather than
 * run as it was not asked to. A later pool comes amid its work, and does without. */
static void give_up_options(void)
{
    if (ever_open) return;
    log_error("nothing was run with the pool; exit status 2");
    give_up();
}

static void open_pool(void)
{
    vp_pool *pool = NULL;
    const vp_options *options = &shim_settings.options;
    bool fine = is_writable(options->record_path, ENV_RECORD) &&
                is_writable(options->timeline_path, ENV_TIMELINE) &&
                is_writable(shim_settings.report, ENV_REPORT);
    if (!fine) give_up_options();
    vp_status status = pool_open(&shim_driver, options, &pool);
    if (status == VP_INVALID || status == VP_IO) give_up_options();
    if (status == VP_OK) {
        standing_on = current_context();
        ever_open = true;
        atomic_store_explicit(&shim_open_pool, pool, memory_order_release);
        return;
    }
    log_error("no pool (%s: %s): the program gets the card's own memory alone",
              vp_status_name(status), vp_status_text(status));
    atomic_store(&hopeless, true);
}

vp_pool *shim_pool_wanted(void)
{
    vp_pool *pool = shim_pool();
    if (pool || !atomic_load_explicit(&initialised, memory_order_acquire) ||
        atomic_load_explicit(&hopeless, memory_order_acquire) || !shim_has_context())
        return pool;
    pthread_mutex_lock(&opening);
    if (!shim_pool() && !atomic_load(&hopeless)) open_pool();
    pthread_mutex_unlock(&opening);
    return shim_pool();
}

/* With several cards that compute, the others' data lives on: then the pool is told, and only it.
 * So it is at exit, when what it had to say is said. */
void shim_pool_context_ends(CUcontext context)
{
    pthread_mutex_lock(&opening);
    vp_pool *pool = shim_pool();
    if (pool && (ending || context != standing_on || shim_settings.visible > 1)) {
        pool_context_ends(pool, context);
    } else if (pool) {
        report(pool);
        atomic_store(&shim_open_pool, NULL);
        vp_close(pool);
    }
    pthread_mutex_unlock(&opening);
}

vp_pool *vp_default(void)
{
    return shim_pool_wanted();
}
