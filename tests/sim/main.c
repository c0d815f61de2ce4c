/* Seeds, worker processes, coverage, verdict. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

enum { WORKERS = 2, ENOUGH_SEEDS = 300, SEED_CPU_S = 60, SEED_S = 600, LEAST_MOVES = 10 };

/* What a worker tells its parent, in memory that they share. */
struct report {
    uint64_t seed; /* that it runs */
    struct coverage coverage;
};

struct settings {
    uint64_t seeds, first, seed;
    bool one, trace;
};

/* The watchdog. What it says may hang, too: then the signal that comes next ends the process. */
static void bark(int number)
{
    signal(SIGALRM, SIG_DFL);
    alarm(5);
    sim_fail("%s: %" PRIu64 " steps, the last progress at %" PRIu64 "; the lock is %s",
             number == SIGALRM ? "hangs" : "runs for ever", sim.steps, sim.progress_step,
             sim.locked ? "held" : "free");
}

/* A seed that runs in circles, or waits for what does not come, is a failure with a name. */
static void limit_time(void)
{
    struct itimerval limit = {.it_value = {.tv_sec = SEED_CPU_S}};
    signal(SIGVTALRM, bark);
    signal(SIGALRM, bark);
    setitimer(ITIMER_VIRTUAL, &limit, NULL);
    alarm(SEED_S);
}

_Noreturn static void work(const struct settings *settings, unsigned worker, struct report *report)
{
    for (uint64_t i = worker; i < settings->seeds; i += WORKERS) {
        report->seed = settings->first + i;
        limit_time();
        sim_run_seed(report->seed, false);
        report->coverage = sim.coverage;
    }
    fiber_free_stacks();
    exit(0);
}

static void add(struct coverage *sum, const struct coverage *more)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)more;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++) to[i] += from[i];
}

/* ---- Coverage ---- */

static void print_counts(const struct coverage *coverage)
{
#define PRINT(name, text) printf("%12" PRIu64 "  %s\n", coverage->name, text);
    SIM_COUNTS(PRINT)
#undef PRINT
}

/* Prints what never happened; true when there is nothing. */
static bool print_missing(const struct coverage *coverage)
{
    unsigned missing = 0, calls = 0, arrows = 0;
    for (unsigned call = 0; call < SIM_CALLS; call++) {
        if (!coverage->called[call]) continue;
        calls++;
        if (coverage->failed[call]) continue;
        missing++;
        printf("never failed: %s\n", edge_call_name((enum sim_call)call));
    }
    for (unsigned state = 0; state < CHUNK_STATES; state++)
        for (unsigned event = 0; event < MOVE_EVENT_COUNT; event++) {
            if (!move_is_possible((enum chunk_state)state, (enum move_event)event)) continue;
            arrows++;
            if (coverage->arrows[state][event]) continue;
            missing++;
            printf("never happened: %s in state %s\n", move_event_name((enum move_event)event),
                   move_state_name((enum chunk_state)state));
        }
    printf("%u driver calls, %u transitions of a chunk, %u of them missing\n", calls, arrows,
           missing);
    return missing == 0;
}

/* Plans have to be made, carried out and broken: prints what was not; true when there is nothing.
 */
static bool print_unseen(const struct coverage *coverage)
{
    const struct {
        uint64_t count;
        const char *what;
    } wanted[] = {
        {coverage->deviations, "a step that differs"},
        {coverage->plans, "a period that is learned"},
        {coverage->followed, "an operation that comes as foretold"},
        {coverage->left, "a period that is left"},
        {coverage->returned, "a way back into it"},
        {coverage->ahead, "a chunk mapped ahead of need"},
        {coverage->early_copies, "a chunk copied early"},
        {coverage->clean_drops, "a chunk that leaves as it came"},
        {coverage->links_lost, "a link that is lost"},
        {coverage->lanes_lost, "a lane that is lost"},
        {coverage->relays_lost, "a relay that is lost"},
        {coverage->peer_copies, "a chunk copied from card to card"},
        {coverage->lenders_lost, "a lender that is lost"},
    };
    bool whole = true;
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        if (!wanted[i].count) printf("never happened: %s\n", wanted[i].what);
        whole &= wanted[i].count > 0;
    }
    return whole;
}

static bool is_enough(const struct coverage *coverage)
{
    print_counts(coverage);
    bool whole = print_missing(coverage);
    whole &= print_unseen(coverage);
    bool moved = coverage->moves >= LEAST_MOVES * coverage->seeds;
    if (!moved) printf("fewer than %d moves a seed\n", LEAST_MOVES);
    return (whole && moved) || coverage->seeds < ENOUGH_SEEDS;
}

/* ---- Workers ---- */

static void stop(const pid_t *workers)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (workers[i] > 0) kill(workers[i], SIGKILL);
}

static void say_why(int status, uint64_t seed)
{
    if (!WIFSIGNALED(status)) return; /* it has said so itself */
    printf("seed %" PRIu64 ": %s\n", seed, strsignal(WTERMSIG(status)));
}

/* Runs all seeds; returns 0, or 1 with the first seed that failed in *failed. */
static int run_all(const struct settings *settings, uint64_t *failed, struct coverage *sum)
{
    struct report *reports = mmap(NULL, WORKERS * sizeof *reports, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t workers[WORKERS] = {0};
    if (reports == MAP_FAILED) return 1;
    fflush(stdout);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = fork();
        if (workers[i] == 0) work(settings, i, &reports[i]);
    }
    int result = 0, status;
    pid_t ended;
    while ((ended = wait(&status)) > 0) {
        unsigned i = 0;
        while (i < WORKERS && workers[i] != ended) i++;
        if (i < WORKERS) workers[i] = 0;
        if (i == WORKERS || status == 0 || result != 0) continue;
        result = 1;
        *failed = reports[i].seed;
        say_why(status, *failed);
        stop(workers);
    }
    for (unsigned i = 0; i < WORKERS; i++) add(sum, &reports[i].coverage);
    munmap(reports, WORKERS * sizeof *reports);
    return result;
}

static int usage(void)
{
    fprintf(stderr, "usage: sim [--seeds COUNT] [--first SEED] | --seed SEED [--trace]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
                                            {"first", required_argument, NULL, 'f'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"trace", no_argument, NULL, 't'},
                                            {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        char *end = NULL;
        uint64_t number = optarg ? strtoull(optarg, &end, 10) : 0;
        if (optarg && (*end || end == optarg)) return false;
        switch (option) {
        case 'n': settings->seeds = number; break;
        case 'f': settings->first = number; break;
        case 's': settings->seed = number, settings->one = true; break;
        case 't': settings->trace = true; break;
        default: return false;
        }
    }
    return optind == argc && settings->seeds > 0;
}

int main(int argc, char **argv)
{
    struct settings settings = {.seeds = 200, .first = 1};
    if (!parse(argc, argv, &settings)) return usage();
    kernels_register();
    if (settings.one) {
        limit_time();
        sim_run_seed(settings.seed, settings.trace);
        print_counts(&sim.coverage);
        fiber_free_stacks();
        return 0;
    }
    struct coverage sum = {0};
    uint64_t failed = 0;
    if (run_all(&settings, &failed, &sum) != 0) {
        printf("failed: replay with sim --seed %" PRIu64 " --trace\n", failed);
        return 1;
    }
    if (!is_enough(&sum)) {
        printf("failed: not enough happened in %" PRIu64 " seeds from seed %" PRIu64 "\n",
               sum.seeds, settings.first);
        return 1;
    }
    printf("%" PRIu64 " seeds from %" PRIu64 " on: clean\n", sum.seeds, settings.first);
    return 0;
}
