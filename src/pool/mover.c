/* The mover's threads: one maps and fetches, one makes frames ahead of need, the others copy out.
 */
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "pool/internal.h"

static const uint64_t idle_wait_ns = 20 * NS_PER_MS, busy_wait_ns = 50 * NS_PER_US,
                      stock_wait_ns = 5 * NS_PER_MS,
                      ahead_wait_ns = 200 * NS_PER_US; /* where moves may be due any time */
static const unsigned long timer_slack_ns = 1000;      /* by default waits end 50 us late */

static bool is_busy(const vp_pool *pool)
{
    return pool->move.moving || !list_empty(&pool->move.requests) ||
           !list_empty(&pool->move.wanted) || pool->move.exclusive_running;
}

static uint64_t next_wait_ns(const vp_pool *pool)
{
    if (is_busy(pool)) return busy_wait_ns;
    return move_looks_ahead(&pool->move) ? ahead_wait_ns : idle_wait_ns;
}

static void wait_for_work(vp_pool *pool)
{
    pool_wait(pool, next_wait_ns(pool));
}

/* Not woken by whatever happens: nobody waits for what is made ahead of need. */
static void nap(vp_pool *pool)
{
    const struct timespec time = {.tv_nsec = (long)stock_wait_ns};
    if (pool->edge) {
        pool_wait(pool, stock_wait_ns);
        return;
    }
    pool_unlock(pool);
    nanosleep(&time, NULL);
    pool_lock(pool);
}

/* What the mover's threads do in common: they live in the program's first context. */
static void run_mover(vp_pool *pool, bool (*work)(vp_pool *), void (*rest)(vp_pool *))
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* our calls disturb no capture of the program's */
    CUresult relaxed = pool_exchange_mode(pool, &mode);
    if (relaxed != CUDA_SUCCESS)
        log_warn("the mover may disturb captures: %s", driver_error_name(pool->driver, relaxed));
    prctl(PR_SET_TIMERSLACK, timer_slack_ns);
    CUcontext current = NULL;
    pool_lock(pool);
    while (!pool->stopping) {
        CUcontext context = pool->computes ? pool->context[__builtin_ctz(pool->computes)] : NULL;
        if (context != current) {
            pool_unlock(pool);
            CUresult result = pool->driver->cuCtxSetCurrent(context);
            pool_lock(pool);
            if (result == CUDA_SUCCESS) current = context; /* else once more, next time */
        }
        if (!context || !work(pool)) rest(pool);
    }
    pool_unlock(pool);
}

static bool work_as(vp_pool *pool, enum move_worker worker)
{
    bool any = pool_act(pool, worker);
    if (any) pool_wake(pool);
    return any;
}

static bool copy_out(vp_pool *pool)
{
    return work_as(pool, MOVE_WORKER_COPIES);
}

static bool make_ahead(vp_pool *pool)
{
    return work_as(pool, MOVE_WORKER_STOCK);
}

void *pool_map_main(void *pool)
{
    run_mover(pool, pool_work, wait_for_work);
    return NULL;
}

void *pool_copy_main(void *pool)
{
    run_mover(pool, copy_out, wait_for_work);
    return NULL;
}

void *pool_stock_main(void *pool)
{
    run_mover(pool, make_ahead, nap);
    return NULL;
}

unsigned pool_copiers(const vp_pool *pool)
{
    unsigned ways = 0;
    for (unsigned card = 0; card < pool->cards; card++)
        if (pool->options.compute_cards >> card & 1) ways += pool->move.ways[card];
    return ways < 1 ? 1 : ways < MOVE_WAYS ? ways : MOVE_WAYS;
}

typedef void *thread_main(void *pool);

static thread_main *main_of(unsigned mover)
{
    return mover == 0 ? pool_map_main : mover == 1 ? pool_stock_main : pool_copy_main;
}

vp_status pool_start_mover(vp_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all); /* the program's signals are for its own threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    unsigned wanted = 2 + pool_copiers(pool);
    while (pool->movers < wanted &&
           pthread_create(&pool->mover[pool->movers], NULL, main_of(pool->movers), pool) == 0)
        pool->movers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool->movers == wanted ? VP_OK : VP_NO_HOST_MEMORY;
}

void pool_stop_mover(vp_pool *pool)
{
    pool_lock(pool);
    pool->stopping = true;
    pool_wake(pool);
    pool_unlock(pool);
    while (pool->movers) pthread_join(pool->mover[--pool->movers], NULL);
}
