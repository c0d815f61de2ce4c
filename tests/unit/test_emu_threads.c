/* The emulator with real threads, as programs use it: each thread maps, copies, launches, waits and
 * unmaps on its own, all on one clock. Meant for TSan; elsewhere it shows that nobody waits for
 * ever. */
#include "emu_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 40, WORDS = GRANULE / 4 };

struct worker {
    pthread_t thread;
    unsigned number;
    CUfunction add;
    atomic_uint called;
};

static void count_call(void *data)
{
    struct worker *worker = data;
    CUdeviceptr at;
    if (cu.cuMemAlloc_v2(&at, 16) == CUDA_ERROR_NOT_PERMITTED) atomic_fetch_add(&worker->called, 1);
}

/* Polls as a mover does, which never blocks in the driver. */
static void poll_event(CUevent event)
{
    CUresult result;
    while ((result = cu.cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
    }
    assert_int_equal(result, CUDA_SUCCESS);
}

static void one_round(struct worker *worker, CUstream stream, CUevent event, uint32_t *host)
{
    CUresult (*call_host)(CUstream, CUhostFn, void *) = NULL;
    *(void **)&call_host = call_of("cuLaunchHostFunc");
    const int places[] = {worker->number % 2 ? 0 : 2};
    CUdeviceptr at = make_mixed(places, 1);
    uint32_t count = WORDS;
    void *params[] = {&at, &count};
    for (uint32_t i = 0; i < WORDS; i++) host[i] = i + worker->number;
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)host;
    assert_int_equal(cu.cuMemcpyAsync(at, from, GRANULE, stream), CUDA_SUCCESS);
    assert_int_equal(launch(worker->add, WORDS / 256, stream, params), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyAsync(from, at, GRANULE, stream), CUDA_SUCCESS);
    assert_int_equal(call_host(stream, count_call, worker), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventRecord(event, stream), CUDA_SUCCESS);
    if (worker->number % 2)
        poll_event(event);
    else
        assert_int_equal(cu.cuStreamSynchronize(stream), CUDA_SUCCESS);
    for (uint32_t i = 0; i < WORDS; i++) assert_int_equal(host[i], i + worker->number + 1);
    drop_mixed(at, 1);
}

static void *work(void *data)
{
    struct worker *worker = data;
    CUstream stream;
    CUevent event;
    uint32_t *host;
    assert_int_equal(cu.cuCtxSetCurrent(fixture_context), CUDA_SUCCESS);
    assert_int_equal(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
                     CUDA_SUCCESS);
    assert_int_equal(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemHostAlloc((void **)&host, GRANULE, 0), CUDA_SUCCESS);
    for (unsigned i = 0; i < ROUNDS; i++) one_round(worker, stream, event, host);
    assert_int_equal(cu.cuMemFreeHost(host), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventDestroy_v2(event), CUDA_SUCCESS);
    assert_int_equal(cu.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    return NULL;
}

static void threads_get_on(void **state)
{
    (void)state;
    struct machine machine = fixture_machine();
    struct emu_options options = {
        .machine = &machine, .seed = 5, .carry_data = true, .free_running = true};
    struct worker workers[THREADS] = {0};
    assert_int_equal(emu_kernel_register("add_one", add_one, NULL), VP_OK);
    assert_int_equal(emu_open(&options), VP_OK);
    emu_driver(&cu);
    assert_int_equal(cu.cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cu.cuDevicePrimaryCtxRetain(&fixture_context, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSetCurrent(fixture_context), CUDA_SUCCESS);
    CUfunction add = fixture_function("add_one");
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].number = i;
        workers[i].add = add;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_SUCCESS);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(atomic_load(&workers[i].called), ROUNDS);
    assert_int_equal(emu_findings_count(), 0);
    emu_close();
    assert_int_equal(emu_findings_count(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_get_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
