/* recorder: a driver for tests of the shim, as a shared library. Every driver symbol is a function
 * that records its arguments (generated); a few then act as the driver would. */
#ifndef TESTS_RECORDER_H
#define TESTS_RECORDER_H

#include <stdint.h>

#if defined(__x86_64__)
enum { RECORDED_REGISTERS = 6 };
#else
enum { RECORDED_REGISTERS = 8 };
#endif

/* The layout is known to generate.py. */
struct recorded {
    int symbol;
    uint64_t integers[16]; /* those in registers, then those on the stack */
    double floats[8];
};

/* What a test sets, and sees. */
struct recorder {
    struct recorded *last;
    unsigned calls;  /* so far */
    int echo;        /* 1: no function acts, each returns 1000 + its number */
    int fail_symbol; /* this one returns fail_result; -1: none */
    int fail_result;
    unsigned fail_times; /* so often at most; 0: always */
    int foreign;         /* 1: cuGetProcAddress answers with functions that are not exported */
    void *context;       /* what cuCtxGetCurrent says */
    int cards;           /* what cuDeviceGetCount says */
    uint64_t device_first, device_end; /* addresses that are a card's memory, not the pool's */
};

struct recorder *recorder(void);

#endif
