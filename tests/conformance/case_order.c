/* Streams and events: what comes before what. Orders are shown by data: a kernel held up by `spin`
 * in one stream must have written before another stream reads. */
#include "suite.h"

enum { WORDS = 1024, BYTES = WORDS * 4, BUSY_MS = 50 };

struct pair {
    CUstream a, b;
    CUdeviceptr at, copy;
};

static const char *pair_make(struct pair *p, unsigned a_flags, unsigned b_flags)
{
    OK(cu.cuStreamCreate(&p->a, a_flags));
    OK(cu.cuStreamCreate(&p->b, b_flags));
    OK(cu.cuMemAlloc_v2(&p->at, BYTES));
    OK(cu.cuMemAlloc_v2(&p->copy, BYTES));
    OK(cu.cuMemsetD32_v2(p->at, 1, WORDS));
    OK(cu.cuMemsetD32_v2(p->copy, 0, WORDS));
    OK(run_fill(p->at, 1, WORDS, NULL)); /* loads the kernels */
    OK(spin_ms(1, NULL));
    OK(cu.cuCtxSynchronize());
    return NULL;
}

static const char *pair_drop(const struct pair *p)
{
    OK(cu.cuCtxSynchronize());
    OK(cu.cuStreamDestroy_v2(p->a));
    OK(cu.cuStreamDestroy_v2(p->b));
    OK(cu.cuMemFree_v2(p->at));
    OK(cu.cuMemFree_v2(p->copy));
    return NULL;
}

static CUresult late_fill(const struct pair *p, uint32_t value, CUstream stream)
{
    CUresult result = spin_ms(BUSY_MS, stream);
    return result == CUDA_SUCCESS ? run_fill(p->at, value, WORDS, stream) : result;
}

static CUresult take(const struct pair *p, CUstream stream)
{
    return cu.cuMemcpyDtoDAsync_v2(p->copy, p->at, BYTES, stream);
}

/* What `take` saw. */
static const char *saw(const struct pair *p, uint32_t value)
{
    uint32_t words[WORDS];
    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemcpyDtoH_v2(words, p->copy, BYTES));
    CHECK(words_are(words, WORDS, value));
    return NULL;
}

const char *case_stream_order(void)
{
    struct pair p;
    DO(pair_make(&p, CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING));
    OK(late_fill(&p, 2, p.a));
    OK(take(&p, p.a));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(p.a));
    OK(cu.cuStreamQuery(p.b)); /* the other one is idle */
    OK(cu.cuStreamSynchronize(p.a));
    OK(cu.cuStreamQuery(p.a));
    DO(saw(&p, 2));
    OK(late_fill(&p, 3, p.a));
    OK(take(&p, p.b)); /* no order between the two */
    OK(cu.cuStreamSynchronize(p.b));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(p.a));
    DO(saw(&p, 2));
    return pair_drop(&p);
}

const char *case_events_order_streams(void)
{
    struct pair p;
    CUevent event, never;
    DO(pair_make(&p, CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventCreate(&never, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuStreamWaitEvent(p.b, never, 0)); /* never recorded: no wait */
    OK(late_fill(&p, 5, p.a));
    OK(cu.cuEventRecord(event, p.a));
    OK(cu.cuStreamWaitEvent(p.b, event, 0));
    OK(take(&p, p.b));
    DO(saw(&p, 5));
    /* The wait is for the record that was the last one when it was asked for. */
    OK(late_fill(&p, 6, p.a));
    OK(cu.cuEventRecord(event, p.a));
    OK(cu.cuStreamWaitEvent(p.b, event, 0));
    OK(spin_ms(4 * BUSY_MS, p.a));
    OK(cu.cuEventRecord(event, p.a));
    OK(take(&p, p.b));
    OK(cu.cuStreamSynchronize(p.b));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
    DO(saw(&p, 6));
    /* An event may go while somebody waits for it. */
    OK(late_fill(&p, 7, p.a));
    OK(cu.cuEventRecord(event, p.a));
    OK(cu.cuStreamWaitEvent(p.b, event, 0));
    OK(cu.cuEventDestroy_v2(event));
    OK(take(&p, p.b));
    DO(saw(&p, 7));
    OK(cu.cuEventDestroy_v2(never));
    return pair_drop(&p);
}

const char *case_event_states(void)
{
    struct pair p;
    CUevent event;
    DO(pair_make(&p, CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventQuery(event)); /* never recorded: complete */
    OK(cu.cuEventSynchronize(event));
    OK(late_fill(&p, 2, p.a));
    OK(cu.cuEventRecord(event, p.a));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
    OK(cu.cuEventRecord(event, p.b)); /* recorded anew, in an idle stream */
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuEventQuery(event));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(p.a));
    OK(cu.cuEventRecord(event, p.a));
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuStreamQuery(p.a));
    REFUSED(cu.cuEventRecord(NULL, p.a));
    REFUSED(cu.cuEventQuery(NULL));
    OK(cu.cuEventDestroy_v2(event));
    return pair_drop(&p);
}

const char *case_event_times(void)
{
    CUevent first, last, plain;
    float ms = -1;
    OK(cu.cuEventCreate(&first, CU_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&last, CU_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    REFUSED(cu.cuEventElapsedTime(&ms, first, last)); /* not recorded */
    OK(cu.cuEventRecord(first, NULL));
    OK(spin_ms(BUSY_MS, NULL));
    OK(cu.cuEventRecord(last, NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuEventElapsedTime(&ms, first, last));
    OK(cu.cuEventRecord(plain, NULL));
    OK(cu.cuEventSynchronize(plain));
    OK(cu.cuEventElapsedTime(&ms, first, last));
    CHECK(ms >= BUSY_MS * 0.99f && ms < BUSY_MS * 4.0f);
    EXPECT(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&ms, first, plain));
    OK(cu.cuEventDestroy_v2(first));
    OK(cu.cuEventDestroy_v2(last));
    OK(cu.cuEventDestroy_v2(plain));
    return NULL;
}

const char *case_legacy_stream_rules(void)
{
    struct pair p;
    DO(pair_make(&p, CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING));
    OK(late_fill(&p, 2, p.a)); /* blocking, then legacy */
    OK(take(&p, NULL));
    DO(saw(&p, 2));
    OK(late_fill(&p, 3, NULL)); /* legacy, then blocking */
    OK(take(&p, p.a));
    DO(saw(&p, 3));
    OK(late_fill(&p, 4, CU_STREAM_LEGACY)); /* legacy, then non-blocking: no order */
    OK(take(&p, p.b));
    OK(cu.cuStreamSynchronize(p.b));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(CU_STREAM_LEGACY));
    DO(saw(&p, 3));
    OK(late_fill(&p, 5, p.b)); /* non-blocking, then legacy: none either */
    OK(take(&p, NULL));
    OK(cu.cuStreamSynchronize(NULL));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(p.b));
    DO(saw(&p, 4));
    return pair_drop(&p);
}

const char *case_per_thread_stream_rules(void)
{
    struct pair p;
    CUstream mine = CU_STREAM_PER_THREAD;
    DO(pair_make(&p, CU_STREAM_DEFAULT, CU_STREAM_NON_BLOCKING));
    OK(late_fill(&p, 2, mine)); /* the legacy stream waits for it … */
    OK(take(&p, NULL));
    DO(saw(&p, 2));
    OK(late_fill(&p, 3, NULL)); /* … and it for the legacy stream … */
    OK(take(&p, mine));
    DO(saw(&p, 3));
    OK(late_fill(&p, 4, p.a)); /* … but not for other blocking ones */
    OK(take(&p, mine));
    OK(cu.cuStreamSynchronize(mine));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(p.a));
    DO(saw(&p, 3));
    /* The _ptsz variant takes NULL for the per-thread stream. */
    CUresult (*query)(CUstream) = NULL;
    int found = -1;
    OK(cu.cuGetProcAddress_v2("cuStreamQuery", (void **)&query, 12000,
                              CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &found));
    CHECK(found == CU_GET_PROC_ADDRESS_SUCCESS && query);
    OK(late_fill(&p, 5, mine));
    EXPECT(CUDA_ERROR_NOT_READY, query(NULL));
    OK(cu.cuStreamSynchronize(mine));
    OK(query(NULL));
    return pair_drop(&p);
}

const char *case_destroyed_stream_finishes(void)
{
    struct pair p;
    CUstream short_lived;
    DO(pair_make(&p, CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&short_lived, CU_STREAM_NON_BLOCKING));
    OK(late_fill(&p, 9, short_lived));
    OK(take(&p, short_lived));
    OK(cu.cuStreamDestroy_v2(short_lived)); /* returns at once; the work goes on */
    DO(saw(&p, 9));
    return pair_drop(&p);
}

/* ---- Host functions and values in memory ---- */

struct seen {
    const uint32_t *word;
    uint32_t value;
    CUresult refused;
};

static void look(void *data)
{
    struct seen *seen = data;
    CUdeviceptr at;
    seen->value = *seen->word;
    seen->refused = cu.cuMemAlloc_v2(&at, 16); /* no driver calls from in here */
}

const char *case_host_function_in_order(void)
{
    struct pair p;
    uint32_t *word;
    DO(pair_make(&p, CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemHostAlloc((void **)&word, 4096, 0));
    *word = 0;
    struct seen seen = {.word = word};
    OK(late_fill(&p, 33, p.a));
    OK(cu.cuMemcpyDtoHAsync_v2(word, p.at, 4, p.a));
    OK(cu.cuLaunchHostFunc(p.a, look, &seen));
    OK(cu.cuMemsetD32Async((CUdeviceptr)(uintptr_t)word, 44, 1, p.a));
    OK(cu.cuStreamSynchronize(p.a));
    CHECK(seen.value == 33);
    CHECK(seen.refused == CUDA_ERROR_NOT_PERMITTED);
    CHECK(*word == 44);
    OK(cu.cuMemFreeHost(word));
    return pair_drop(&p);
}

const char *case_write_and_wait_value(void)
{
    struct pair p;
    if (!cu.cuStreamWriteValue64_v2 || !cu.cuStreamWaitValue64_v2) SKIP("no such calls");
    DO(pair_make(&p, CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING));
    CUdeviceptr flag;
    OK(cu.cuMemAlloc_v2(&flag, 8));
    OK(cu.cuMemsetD8_v2(flag, 0, 8));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuStreamWaitValue64_v2(p.b, flag, 7, CU_STREAM_WAIT_VALUE_GEQ));
    OK(take(&p, p.b));
    OK(late_fill(&p, 12, p.a));
    EXPECT(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(p.b));
    OK(cu.cuStreamWriteValue64_v2(p.a, flag, 8, 0));
    DO(saw(&p, 12));
    OK(cu.cuMemFree_v2(flag));
    return pair_drop(&p);
}
