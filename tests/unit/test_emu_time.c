/* The emulator: when things happen. */
#include "emu_fixture.h"

/* A stream's copy of n bytes between a card's and pinned host memory takes 1 µs to start and then
 * 0.1 ns a byte. */
enum { COPY_BYTES = 100000, COPY_NS = 1000 + COPY_BYTES / 10 };

struct bench {
    CUdeviceptr device;
    void *host;
    CUstream in, out;
    CUevent begin, in_end, out_end;
};

static struct bench bench_make(void)
{
    struct bench b;
    assert_int_equal(cu.cuMemAlloc_v2(&b.device, 2 * COPY_BYTES), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemHostAlloc(&b.host, 2 * COPY_BYTES, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuStreamCreateWithPriority(&b.in, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuStreamCreateWithPriority(&b.out, CU_STREAM_NON_BLOCKING, 0),
                     CUDA_SUCCESS);
    assert_int_equal(cu.cuEventCreate(&b.begin, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventCreate(&b.in_end, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventCreate(&b.out_end, 0), CUDA_SUCCESS);
    memset(b.host, 1, 2 * COPY_BYTES);
    return b;
}

static CUdeviceptr host_at(const struct bench *b, size_t offset)
{
    return (CUdeviceptr)(uintptr_t)b->host + offset;
}

static double ns_between(CUevent a, CUevent b)
{
    float ms = 0;
    assert_int_equal(cu.cuEventElapsedTime(&ms, a, b), CUDA_SUCCESS);
    return (double)ms * 1e6;
}

static void near(double value, double wanted)
{
    if (value < wanted - 10 || value > wanted + 10) fail_msg("%g ns, not %g", value, wanted);
}

static void calls_cost_their_time(void **state)
{
    (void)state;
    CUevent event;
    uint64_t before = emu_now_ns();
    assert_int_equal(cu.cuEventCreate(&event, 0), CUDA_SUCCESS);
    assert_int_equal(emu_now_ns(), before);
    assert_int_equal(cu.cuEventRecord(event, NULL), CUDA_SUCCESS);
    assert_int_equal(emu_now_ns(), before + 100);
    emu_advance_ns(5000);
    assert_int_equal(emu_now_ns(), before + 5100);
    assert_int_equal(emu_device_ns(), before + 5100);
    assert_int_equal(cu.cuEventQuery(event), CUDA_SUCCESS);
}

static void work_runs_when_its_time_comes(void **state)
{
    (void)state;
    struct bench b = bench_make();
    unsigned char byte;
    uint64_t at, end;
    assert_true(emu_peek(b.device, &byte, 1));
    unsigned char before = byte;
    assert_int_equal(cu.cuMemcpyAsync(b.device, host_at(&b, 0), COPY_BYTES, b.in), CUDA_SUCCESS);
    end = emu_now_ns() + COPY_NS;
    assert_true(emu_next_event_ns(&at));
    assert_int_equal(at, emu_now_ns()); /* the start */
    assert_true(emu_peek(b.device, &byte, 1));
    assert_int_equal(byte, before);
    assert_int_equal(cu.cuStreamSynchronize(b.in), CUDA_SUCCESS);
    near((double)emu_now_ns(), (double)end);
    assert_true(emu_peek(b.device, &byte, 1));
    assert_int_equal(byte, 1);
    assert_false(emu_next_event_ns(&at));
}

static void opposite_copies_slow_each_other(void **state)
{
    (void)state;
    struct bench b = bench_make();
    assert_int_equal(cu.cuEventRecord(b.begin, b.in), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemcpyAsync(b.device, host_at(&b, 0), COPY_BYTES, b.in), CUDA_SUCCESS);
    assert_int_equal(cu.cuEventRecord(b.in_end, b.in), CUDA_SUCCESS);
    emu_run_until_idle();
    near(ns_between(b.begin, b.in_end), COPY_NS + 1000); /* and the call's own 1000 ns */
    /* 8 GB/s while both run. The second one begins 1.1 µs later and ends alone. */
    assert_int_equal(cu.cuMemcpyAsync(b.device, host_at(&b, 0), COPY_BYTES, b.in), CUDA_SUCCESS);
    uint64_t in_start = emu_now_ns();
    assert_int_equal(cu.cuEventRecord(b.in_end, b.in), CUDA_SUCCESS);
    assert_int_equal(
        cu.cuMemcpyAsync(host_at(&b, COPY_BYTES), b.device + COPY_BYTES, COPY_BYTES, b.out),
        CUDA_SUCCESS);
    uint64_t out_start = emu_now_ns();
    assert_int_equal(cu.cuEventRecord(b.out_end, b.out), CUDA_SUCCESS);
    emu_run_until_idle();
    double alone = COPY_NS, both = 1000 + COPY_BYTES / 8.0;
    double lead = (double)(out_start - in_start);
    double in_ns = lead + (1 - lead / alone) * both; /* alone at first, then both */
    double shared = in_ns - lead;
    double out_ns = shared + (1 - shared / both) * alone;
    double skew = ns_between(b.in_end, b.out_end);
    near(skew, lead + out_ns - in_ns);
}

static void an_engine_does_one_copy_at_a_time(void **state)
{
    (void)state;
    struct bench b = bench_make();
    assert_int_equal(cu.cuMemcpyAsync(b.device, host_at(&b, 0), COPY_BYTES, b.in), CUDA_SUCCESS);
    uint64_t start = emu_now_ns();
    assert_int_equal(
        cu.cuMemcpyAsync(b.device + COPY_BYTES, host_at(&b, COPY_BYTES), COPY_BYTES, b.out),
        CUDA_SUCCESS);
    emu_run_until_idle();
    near((double)(emu_now_ns() - start), 2 * COPY_NS);
    assert_int_equal(emu_findings_count(), 0);
}

static uint64_t cost_of_slow(struct emu_block *block)
{
    (void)block;
    return 100000;
}

static void kernels_run_side_by_side(void **state)
{
    (void)state;
    struct bench b = bench_make();
    uint32_t count = 64;
    CUdeviceptr second = b.device + COPY_BYTES;
    void *params[] = {&b.device, &count}, *others[] = {&second, &count};
    assert_int_equal(emu_kernel_register("add_one", add_one, cost_of_slow), VP_OK);
    CUfunction add = fixture_function("add_one");
    assert_int_equal(launch(add, 1, b.in, params), CUDA_SUCCESS);
    uint64_t start = emu_now_ns();
    assert_int_equal(launch(add, 1, b.out, others), CUDA_SUCCESS);
    emu_run_until_idle();
    near((double)(emu_now_ns() - start), 100000 + 2000 + 1000); /* the second launch's call */
    assert_int_equal(emu_findings_count(), 0);
}

/* ---- Threads ---- */

static void use_thread(unsigned thread)
{
    emu_set_thread(thread);
    assert_int_equal(cu.cuCtxSetCurrent(fixture_context), CUDA_SUCCESS);
}

static int setup_threads(void **state)
{
    (void)state;
    fixture_open(3, 2);
    return 0;
}

static void map_calls_of_threads_take_turns(void **state)
{
    (void)state;
    use_thread(0);
    CUmemGenericAllocationHandle h = make_handle(0, GRANULE); /* 10 µs */
    uint64_t first = emu_now_ns();
    use_thread(1);
    assert_int_equal(emu_now_ns(), 0);
    CUmemGenericAllocationHandle h2 = make_handle(0, GRANULE);
    assert_int_equal(emu_now_ns(), first + 10000);
    use_thread(0);
    assert_int_equal(emu_now_ns(), first);
    assert_int_equal(cu.cuMemRelease(h), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemRelease(h2), CUDA_SUCCESS);
}

/* A launch by another thread while cuMemSetAccess is under way finds the memory closed. */
static void access_counts_from_the_return_on(void **state)
{
    (void)state;
    CUdeviceptr at;
    uint32_t count = 16;
    void *params[] = {&at, &count};
    use_thread(0);
    CUfunction add = fixture_function("add_one");
    CUmemGenericAllocationHandle h = make_handle(0, GRANULE);
    assert_int_equal(cu.cuMemAddressReserve(&at, GRANULE, 0, 0, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemMap(at, GRANULE, 0, h, 0), CUDA_SUCCESS);
    assert_int_equal(cu.cuMemRelease(h), CUDA_SUCCESS);
    uint64_t before = emu_now_ns();
    use_thread(1);
    emu_advance_ns(before);
    use_thread(0);
    assert_int_equal(grant(at, GRANULE, 0), CUDA_SUCCESS); /* takes 20 µs */
    use_thread(1);
    assert_int_equal(launch(add, 1, NULL, params), CUDA_SUCCESS);
    assert_int_equal(cu.cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(emu_findings().faults, 1);
}

static void set_access_is_dear_while_copies_leave(void **state)
{
    (void)state;
    const int places[] = {0};
    struct bench b = bench_make();
    CUdeviceptr at = make_mixed(places, 1);
    uint64_t before = emu_now_ns();
    assert_int_equal(grant(at, GRANULE, 0), CUDA_SUCCESS);
    assert_int_equal(emu_now_ns() - before, 20000);
    assert_int_equal(cu.cuMemcpyAsync(host_at(&b, 0), b.device, COPY_BYTES, b.out), CUDA_SUCCESS);
    before = emu_now_ns();
    assert_int_equal(grant(at, GRANULE, 0), CUDA_SUCCESS);
    assert_int_equal(emu_now_ns() - before, 1000000);
    emu_run_until_idle();
    drop_mixed(at, 1);
}

/* ---- Seeds ---- */

/* When the pieces of a copy land, as a number. */
static uint64_t trace_of(uint64_t seed)
{
    fixture_open(seed, 1);
    struct bench b = bench_make();
    assert_int_equal(cu.cuMemcpyAsync(b.device, host_at(&b, 0), COPY_BYTES, b.in), CUDA_SUCCESS);
    uint64_t hash = 0, at;
    while (emu_next_event_ns(&at)) {
        emu_advance_ns(at - emu_now_ns());
        hash = hash * 31 + at;
    }
    emu_close();
    return hash;
}

static void a_seed_decides_all(void **state)
{
    (void)state;
    unsigned different = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        assert_true(trace_of(seed) == trace_of(seed));
        different += trace_of(seed) != trace_of(seed + 1);
    }
    assert_true(different >= 6);
}

/* Somebody who looks in the middle of a copy sees part of it. */
static void copies_land_piece_by_piece(void **state)
{
    (void)state;
    unsigned partial = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        fixture_open(seed, 1);
        struct bench b = bench_make();
        unsigned char bytes[COPY_BYTES];
        assert_int_equal(cu.cuMemcpyAsync(b.device, host_at(&b, 0), COPY_BYTES, b.in),
                         CUDA_SUCCESS);
        emu_advance_ns(COPY_NS / 2);
        assert_true(emu_peek(b.device, bytes, sizeof bytes));
        size_t landed = 0;
        for (size_t i = 0; i < sizeof bytes; i++) landed += bytes[i] == 1;
        assert_true(landed <= COPY_BYTES / 2 + 1);
        partial += landed > 0;
        emu_close();
    }
    assert_true(partial >= 2);
}

int main(void)
{
#define TEST(name)         cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_THREADS(name) cmocka_unit_test_setup_teardown(name, setup_threads, teardown)
    const struct CMUnitTest tests[] = {
        TEST(calls_cost_their_time),
        TEST(work_runs_when_its_time_comes),
        TEST(opposite_copies_slow_each_other),
        TEST(an_engine_does_one_copy_at_a_time),
        TEST(kernels_run_side_by_side),
        TEST_THREADS(map_calls_of_threads_take_turns),
        TEST_THREADS(access_counts_from_the_return_on),
        TEST(set_access_is_dear_while_copies_leave),
        cmocka_unit_test(a_seed_decides_all),
        cmocka_unit_test(copies_land_piece_by_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
