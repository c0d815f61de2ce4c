/* The order of the simulated operations. */
#include "sim.h"

void job_reads(struct job *job, struct sim_block *block)
{
    assert(job->read_count < 2 * SIM_NAMED);
    job->reads[job->read_count++] = block;
}

void job_writes(struct job *job, struct sim_block *block)
{
    assert(job->write_count < SIM_NAMED);
    job->writes[job->write_count++] = block;
}

static void wait_for(unsigned stream, const struct sim_block *block, bool writing)
{
    uint32_t others = block->ghosts;
    if (block->writer >= 0) others |= 1u << block->writer;
    if (writing) others |= block->readers;
    for (; others; others &= others - 1) streams_wait(stream, (unsigned)__builtin_ctz(others));
}

bool job_begin(struct job *job)
{
    for (unsigned i = 0; i < job->read_count; i++)
        if (job->reads[i]->writing) return false;
    for (unsigned i = 0; i < job->write_count; i++)
        if (job->writes[i]->writing || job->writes[i]->reading) return false;
    for (unsigned i = 0; i < job->read_count; i++) job->reads[i]->reading++;
    for (unsigned i = 0; i < job->write_count; i++) job->writes[i]->writing = true;
    for (unsigned i = 0; i < job->read_count; i++) wait_for(job->stream, job->reads[i], false);
    for (unsigned i = 0; i < job->write_count; i++) wait_for(job->stream, job->writes[i], true);
    sim.streams[job->stream].queueing++;
    return true;
}

static bool any_poisoned(const struct job *job)
{
    bool any = false;
    for (unsigned i = 0; i < job->read_count + job->write_count; i++) {
        struct sim_block *block =
            i < job->read_count ? job->reads[i] : job->writes[i - job->read_count];
        if (!blocks_is_poisoned(block)) continue;
        block->lost = any = true;
    }
    return any;
}

/* An operation may be refused only for a reason. */
static void check_refusal(const struct job *job, CUresult result, const char *what)
{
    sim.coverage.refused++;
    sim_trace("%s is refused: %d", what, result);
    if (sim.card_lost || sim.injected || any_poisoned(job)) return;
    if (world_has_room()) sim_fail("%s is refused with %d, though all fits", what, result);
}

void job_end(struct job *job, CUresult result, const char *what)
{
    bool done = result == CUDA_SUCCESS;
    if (done) streams_record(job->stream);
    for (unsigned i = 0; i < job->read_count; i++) {
        job->reads[i]->reading--;
        if (done) job->reads[i]->readers |= 1u << job->stream;
    }
    for (unsigned i = 0; i < job->write_count; i++) {
        struct sim_block *block = job->writes[i];
        block->writing = false;
        if (!done) continue;
        block->writer = (int)job->stream;
        block->readers = block->ghosts = 0;
    }
    sim.streams[job->stream].queueing--;
    if (!done) check_refusal(job, result, what);
    edge_progress();
    world_check_findings();
}

void job_check_admitted(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS && !sim.card_lost)
        sim_fail("%s was admitted, and the driver refuses it with %d", what, result);
}
