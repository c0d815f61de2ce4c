/* A program that repeats itself, for the pool to learn: a step of some dozen operations, over and
 * over, on more memory than the card has.
 *
 * The same operation touches the same things in each turn, but what it writes differs: all, one
 * word, or nothing. So whatever the pool leaves uncopied because it has not changed, or copies
 * before it has to leave, may have been written after all. What is made within a step is freed
 * within it. Now and then a turn differs: something is left out, added, or done to something else,
 * only half of the step is done, a lasting block moves; some programs have two steps. */
#include <inttypes.h>

#include "base/units.h"
#include "sim.h"

enum {
    LASTING_MOST = 24,
    MADE_MOST = 8, /* within a step */
    SLOTS = LASTING_MOST + MADE_MOST,
    LAUNCHES_LEAST = 32,
    LAUNCHES_MOST = 80,
    PARTS = LAUNCHES_MOST + 2 * MADE_MOST + 2,
    STEPS = 2,
};

enum what { LAUNCH, MAKE, FREE, READ, WRITE };

struct part {
    enum what what;
    enum kernel kernel;
    unsigned variant, stream;
    unsigned to, from; /* slots */
    bool fickle;       /* does not always write */
};

struct step {
    struct part parts[PARTS];
    unsigned count;
};

struct program {
    struct thread *thread;
    struct slot {
        uint64_t bytes;
        struct sim_block *block; /* NULL: not there */
    } slots[SLOTS];
    unsigned lasting, made; /* slots: the lasting ones first */
    struct step steps[STEPS];
    unsigned every; /* so many turns there is one of the second step; 0: never */
    unsigned deviates_percent;
    unsigned pauses; /* most between two operations: time to move ahead in, or none */
};

/* ---- What the program is ---- */

static uint64_t capacity_bytes(unsigned card)
{
    const vp_pool *pool = sim.pool;
    return pool->frames.place[pool->move.home[card]].capacity_pages * pool->page_bytes;
}

static void choose_sizes(struct program *program)
{
    uint64_t percent = sim_chance(50) ? sim_between(105, 180) : sim_between(180, 260);
    uint64_t all = capacity_bytes(program->thread->card) * percent / 100;
    program->lasting = (unsigned)sim_between(6, LASTING_MOST);
    program->made = (unsigned)sim_between(1, MADE_MOST);
    for (unsigned i = 0; i < program->lasting + program->made; i++) {
        uint64_t share =
            i < program->lasting ? all * 3 / 4 / program->lasting : all / 3 / program->made;
        uint64_t bytes = units_round_up(sim_between(share / 2, share * 3 / 2), 8);
        program->slots[i].bytes = bytes ? bytes : 8;
    }
}

/* When what is made within a step is there: before which launch it is made, behind which freed. */
struct lives {
    unsigned from[MADE_MOST], to[MADE_MOST];
};

static bool lives_at(const struct program *program, const struct lives *lives, unsigned slot,
                     unsigned launch)
{
    if (slot < program->lasting) return true;
    unsigned i = slot - program->lasting;
    return lives->from[i] <= launch && launch <= lives->to[i];
}

static unsigned any_slot(const struct program *program, const struct lives *lives, unsigned launch)
{
    for (;;) {
        unsigned slot = (unsigned)sim_below(program->lasting + program->made);
        if (lives_at(program, lives, slot, launch)) return slot;
    }
}

/* Forward and back through what lasts, as training does, with a leap now and then. */
static unsigned next_source(const struct program *program, const struct lives *lives,
                            unsigned launch, unsigned launches)
{
    if (sim_chance(25)) return any_slot(program, lives, launch);
    unsigned half = launches / 2 + 1;
    unsigned at = launch < half ? launch : launches - 1 - launch;
    return at * program->lasting / (half + 1);
}

/* Half of what lasts is hardly ever written. */
static unsigned next_target(const struct program *program, const struct lives *lives,
                            unsigned launch)
{
    unsigned slot;
    do slot = any_slot(program, lives, launch);
    while (slot < program->lasting / 2 && !sim_chance(5));
    return slot;
}

static void add(struct step *step, struct part part)
{
    assert(step->count < PARTS);
    step->parts[step->count++] = part;
}

static void add_launch(const struct program *program, struct step *step, const struct lives *lives,
                       unsigned launch, unsigned launches)
{
    static const enum kernel kernels[] = {KERNEL_FILL, KERNEL_MIX, KERNEL_MIX, KERNEL_COPY};
    struct part part = {.what = LAUNCH,
                        .kernel = kernels[sim_below(4)],
                        .variant = (unsigned)sim_below(SIM_VARIANTS),
                        .to = next_target(program, lives, launch),
                        .from = next_source(program, lives, launch, launches),
                        .fickle = sim_chance(50)};
    int own = sim_chance(20) ? (int)program->thread->index : -1;
    part.stream = streams_default(program->thread->card, own);
    if (part.to == part.from) part.kernel = KERNEL_FILL;
    add(step, part);
}

static void choose_step(const struct program *program, struct step *step)
{
    unsigned launches = (unsigned)sim_between(LAUNCHES_LEAST, LAUNCHES_MOST);
    struct lives lives;
    for (unsigned i = 0; i < program->made; i++) {
        lives.from[i] = (unsigned)sim_below(launches);
        lives.to[i] = (unsigned)sim_between(lives.from[i], launches - 1);
    }
    if (sim_chance(60)) add(step, (struct part){.what = WRITE, .to = program->lasting - 1});
    for (unsigned launch = 0; launch < launches; launch++) {
        for (unsigned i = 0; i < program->made; i++)
            if (lives.from[i] == launch)
                add(step, (struct part){.what = MAKE, .to = program->lasting + i});
        add_launch(program, step, &lives, launch, launches);
        for (unsigned i = 0; i < program->made; i++)
            if (lives.to[i] == launch)
                add(step, (struct part){.what = FREE, .to = program->lasting + i});
    }
    if (sim_chance(60)) add(step, (struct part){.what = READ, .from = program->lasting - 1});
}

/* ---- One operation ---- */

static void make(struct program *program, struct slot *slot)
{
    if (slot->block) return; /* left over */
    slot->block = blocks_make(program->thread, slot->bytes);
    if (slot->block) slot->block->kept = true;
}

static void release(struct slot *slot)
{
    struct sim_block *block = slot->block;
    if (!block) return;
    while (block->reading || block->writing) edge_pause();
    slot->block = NULL;
    blocks_free(block);
}

static void enter_effect(enum kernel kernel, struct place to, struct place from, uint64_t words,
                         uint64_t seed)
{
    if (kernel == KERNEL_MIX) blocks_mix_words(to, &from, words, seed);
    if (kernel == KERNEL_COPY) blocks_copy_words(to, from, words, 0);
    for (uint64_t i = 0; kernel == KERNEL_FILL && i < words; i++)
        blocks_set_word(to, i, kernels_fill_value(seed, i), KNOWN);
}

static void launch(struct program *program, const struct part *part)
{
    struct place to = {program->slots[part->to].block, 0};
    struct place from = {program->slots[part->from].block, 0};
    if (!to.block || !from.block || to.block->lost || from.block->lost) return;
    struct job job = {.thread = program->thread, .stream = part->stream, .variant = part->variant};
    job_writes(&job, to.block);
    if (part->kernel != KERNEL_FILL) job_reads(&job, from.block);
    uint64_t words = to.block->words, seed = sim_below(1000);
    if (words > from.block->words) words = from.block->words;
    if (part->fickle && sim_chance(60)) {
        to.first = from.first = sim_below(words);
        words = sim_below(2);
    }
    while (!job_begin(&job)) edge_pause();
    vp_addr dst = place_address(to), src = place_address(from), ignored = 0;
    sim_trace("step: %s into %#" PRIx64 " with %#" PRIx64 ", %" PRIu64 " words, stream %u",
              kernels_name(part->kernel), dst, src, words, part->stream);
    void *fill[] = {&dst, &words, &seed, &ignored}, *other[] = {&dst, &src, &words, &seed};
    CUresult result = work_run(&job, part->kernel, part->kernel == KERNEL_FILL ? fill : other,
                               part->kernel == KERNEL_COPY ? 3 : 4);
    if (result == CUDA_SUCCESS) enter_effect(part->kernel, to, from, words, seed);
    job_end(&job, result, "an operation of a step");
}

static void play(struct program *program, const struct part *part)
{
    struct slot *to = &program->slots[part->to], *from = &program->slots[part->from];
    struct thread *thread = program->thread;
    switch (part->what) {
    case LAUNCH: launch(program, part); break;
    case MAKE: make(program, to); break;
    case FREE: release(to); break;
    case READ:
        if (from->block && !from->block->lost)
            transfer_read(thread, from->block, 0, sim_between(1, 16) % from->block->words + 1);
        break;
    case WRITE:
        if (to->block && !to->block->lost)
            transfer_write(thread, streams_default(thread->card, -1), to->block);
        break;
    }
    for (uint64_t i = sim_below(program->pauses + 1); i > 0; i--) edge_pause();
    emu_advance_ns(sim_below(2000));
    edge_yield();
}

/* ---- A turn ---- */

enum deviation { NONE, LEFT_OUT, REPLACED, ADDED, ELSEWHERE, HALVED, MOVED, DEVIATIONS };

/* The operation in the place of another, or the same. */
static void play_other(struct program *program, const struct part *part, enum deviation deviation,
                       void (*act)(struct thread *thread))
{
    struct part other = *part;
    bool launches = part->what == LAUNCH;
    if (launches && deviation == LEFT_OUT) return;
    if (launches && deviation == REPLACED) other.variant = (other.variant + 1) % SIM_VARIANTS;
    if (launches && deviation == ELSEWHERE) other.to = (unsigned)sim_below(program->lasting);
    if (other.to == other.from) other.kernel = KERNEL_FILL;
    if (deviation == ADDED) act(program->thread);
    if (deviation == MOVED) {
        struct slot *slot = &program->slots[sim_below(program->lasting)];
        release(slot);
        make(program, slot);
    }
    play(program, &other);
}

static void play_turn(struct program *program, const struct step *step,
                      void (*act)(struct thread *thread))
{
    bool differs = sim_chance(program->deviates_percent);
    enum deviation deviation = differs ? (enum deviation)sim_between(1, DEVIATIONS - 1) : NONE;
    unsigned first = (unsigned)sim_below(step->count), count = 1 + (unsigned)sim_below(3);
    sim.coverage.steps++;
    if (sim_chance(20)) machines_lose_card();
    sim.coverage.deviations += differs;
    sim_trace("step: a turn, deviation %d at %u", (int)deviation, first);
    unsigned end = deviation == HALVED ? first : step->count;
    for (unsigned i = 0; i < end && !sim.card_lost; i++) {
        machines_break();
        if (differs && i - first < count)
            play_other(program, &step->parts[i], deviation, act);
        else
            play(program, &step->parts[i]);
    }
}

void steps_play(struct thread *thread, void (*act)(struct thread *thread))
{
    static const unsigned deviates_percent[] = {0, 0, 10, 25};
    static const unsigned pauses[] = {0, 2, 12};
    struct program program = {.thread = thread, .pauses = pauses[sim_below(3)]};
    program.deviates_percent = deviates_percent[sim_below(4)];
    if (sim_chance(40)) program.every = (unsigned)sim_between(2, 5);
    choose_sizes(&program);
    for (unsigned i = 0; i < STEPS; i++) choose_step(&program, &program.steps[i]);
    for (unsigned i = 0; i < program.lasting; i++) make(&program, &program.slots[i]);
    uint64_t turns = sim_between(8, 32);
    for (uint64_t turn = 0; turn < turns && !sim.card_lost; turn++) {
        bool second = program.every && turn % program.every == program.every - 1;
        play_turn(&program, &program.steps[second], act);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        if (program.slots[i].block) program.slots[i].block->kept = false;
}
