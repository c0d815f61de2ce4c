/* The conformance suite: what vrampool relies on in a CUDA driver, as cases that run alike on the
 * emulator and on a real card. A case that fails on either means that the emulator's rules are not
 * the driver's.
 *
 * A case is a function that returns NULL, or what went wrong. `suite` holds what it needs; each
 * case makes and drops its own memory. Cases that lose the context, or may, run in a process of
 * their own. */
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "emu/abi_more.h"
#include "emu/calls.h"

/* All calls by their symbol; NULL where the driver has none of that name. */
struct cuda {
#define CUDA_FIELD(kind, variant, symbol, base, version, arguments, names)                         \
    CUresult(*symbol) arguments;
    EMU_CALLS(CUDA_FIELD)
#undef CUDA_FIELD
};

struct suite {
    struct cuda cu;
    void *library; /* NULL: the emulator in this process */
    CUcontext context;
    CUmodule module;
    size_t granule;
    int host_type;    /* CU_MEM_LOCATION_TYPE_HOST_NUMA, or _HOST where only that works */
    int far_card;     /* with --far: what is said to lie on the host lies on this card; 0: not */
    const char *skip; /* set by a case: why it cannot run here */
};

extern struct suite suite;
extern const char conformance_ptx[];

#define cu (suite.cu)

const char *failed_at(const char *file, int line, const char *what);
const char *unexpected(const char *file, int line, const char *call, CUresult got, CUresult wanted);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) return failed_at(__FILE__, __LINE__, #condition);                        \
    } while (0)

/* The call must return `wanted`. */
#define EXPECT(wanted, call)                                                                       \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ != (wanted)) return unexpected(__FILE__, __LINE__, #call, result_, wanted);    \
    } while (0)

#define OK(call) EXPECT(CUDA_SUCCESS, call)

/* The call must fail, whatever its error. */
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        if (result_ == CUDA_SUCCESS) return failed_at(__FILE__, __LINE__, #call " succeeded");     \
        note("%s: %d", #call, result_);                                                            \
    } while (0)

/* Forwards what a helper found wrong. */
#define DO(helper)                                                                                 \
    do {                                                                                           \
        const char *wrong_ = (helper);                                                             \
        if (wrong_) return wrong_;                                                                 \
    } while (0)

#define SKIP(why) return suite.skip = (why), (const char *)NULL

enum place { ON_CARD, ON_HOST };

/* A range of granules, mapped and open to the card, by turns on the card and on the host. */
enum { MIXED_GRANULES = 5 };
struct mixed {
    CUdeviceptr at;
    size_t bytes;
};

CUresult create(enum place place, size_t bytes, CUmemGenericAllocationHandle *handle);
CUresult set_access(CUdeviceptr at, size_t bytes, int flags);
const char *mixed_make(struct mixed *mixed, enum place first);
const char *mixed_drop(const struct mixed *mixed);
/* One mapping in a reservation of its own. */
const char *mapped_make(enum place place, size_t bytes, CUdeviceptr *at);
const char *mapped_drop(CUdeviceptr at, size_t bytes);

CUresult run(const char *kernel, size_t threads, CUstream stream, void **params);
CUresult spin_ms(unsigned ms, CUstream stream);
CUresult run_fill(CUdeviceptr to, uint32_t value, size_t words, CUstream stream);

/* A pattern that differs in each word and with `seed`. */
void pattern_write(void *to, size_t bytes, uint32_t seed);
bool pattern_is(const void *at, size_t bytes, uint32_t seed);
bool words_are(const uint32_t *at, size_t words, uint32_t value);

/* X(name, own process) */
#define CONFORMANCE_CASES(X)                                                                       \
    X(map_sizes, false)                                                                            \
    X(map_arguments, false)                                                                        \
    X(map_taken, false)                                                                            \
    X(unmap_whole_mappings, false)                                                                 \
    X(access_spans_mappings, false)                                                                \
    X(access_flags, false)                                                                         \
    X(reservations, false)                                                                         \
    X(release_keeps_mapped_memory, false)                                                          \
    X(handles, false)                                                                              \
    X(aliases, false)                                                                              \
    X(remap_beside_a_kernel, false)                                                                \
    X(remap_moves_data, false)                                                                     \
    X(attributes_of_mapped_memory, false)                                                          \
    X(memory_is_accounted, false)                                                                  \
    X(unmap_protects_nothing, true)                                                                \
    X(no_access_faults, true)                                                                      \
    X(read_only_faults_on_write, true)                                                             \
    X(unmap_under_a_copy, true)                                                                    \
    X(copy_without_mapping, true)                                                                  \
    X(copy_without_access, true)                                                                   \
    X(ranges_and_mappings, false)                                                                  \
    X(mixed_copies_from_host, false)                                                               \
    X(mixed_copies_to_host, false)                                                                 \
    X(mixed_copies_on_card, false)                                                                 \
    X(mixed_copies_of_rows, false)                                                                 \
    X(mixed_copies_of_slices, false)                                                               \
    X(mixed_copies_in_batch, false)                                                                \
    X(mixed_boxes_in_batch, false)                                                                 \
    X(mixed_memsets, false)                                                                        \
    X(mixed_kernels, false)                                                                        \
    X(atomics_on_card, false)                                                                      \
    X(atomics_on_host, false)                                                                      \
    X(atomics_on_mixed, false)                                                                     \
    X(hidden_access, false)                                                                        \
    X(sync_copy_from_pageable, false)                                                              \
    X(async_copy_from_pageable, false)                                                             \
    X(async_copy_from_pinned, false)                                                               \
    X(copy_to_pageable_is_done, false)                                                             \
    X(sync_copy_waits_for_its_stream, false)                                                       \
    X(memset_does_not_wait, false)                                                                 \
    X(copy_on_card_does_not_wait, false)                                                           \
    X(stream_order, false)                                                                         \
    X(events_order_streams, false)                                                                 \
    X(event_states, false)                                                                         \
    X(event_times, false)                                                                          \
    X(legacy_stream_rules, false)                                                                  \
    X(per_thread_stream_rules, false)                                                              \
    X(destroyed_stream_finishes, false)                                                            \
    X(host_function_in_order, false)                                                               \
    X(write_and_wait_value, false)                                                                 \
    X(proc_address, false)                                                                         \
    X(param_info, false)                                                                           \
    X(launch_arguments, false)                                                                     \
    X(launch_forms, false)                                                                         \
    X(module_variables, false)                                                                     \
    X(capture_and_replay, false)                                                                   \
    X(capture_across_streams, false)                                                               \
    X(capture_refuses, true)                                                                       \
    X(nodes_name_mapped_memory, true)                                                              \
    X(capture_and_memory_calls, true)                                                              \
    X(capture_and_other_threads, true)

#define CASE_DECLARE(name, own) const char *case_##name(void);
CONFORMANCE_CASES(CASE_DECLARE)
#undef CASE_DECLARE

#endif
