/* fake_pool: stands in for the pool in tests of the shim. It writes what it is asked, in order, as
 * one line of text, and owns the addresses of one range. */
#ifndef TESTS_FAKE_POOL_H
#define TESTS_FAKE_POOL_H

#include <stdbool.h>

#include "pool/pool.h"

#define FAKE_FIRST UINT64_C(0x600000000000)
#define FAKE_END   UINT64_C(0x600100000000)
#define FAKE_BLOCK UINT64_C(0x100000) /* blocks of 1 MiB lie side by side */

/* What a test sets, and sees. */
struct fake_pool {
    char log[8192];   /* calls since the test emptied it, each ended by a blank */
    const void *host; /* addresses from here on are written as H+OFFSET, the pool's as P+OFFSET */
    size_t host_bytes;
    CUresult enter_result; /* what pool_op_enter says */
    CUresult alloc_result;
    vp_status open_status;
    bool nothing_to_give; /* to the driver */
    unsigned opened, closed;
    vp_options options; /* it was opened with, */
    const struct driver *driver;
};

VP_API struct fake_pool *fake_pool(void);

#endif
