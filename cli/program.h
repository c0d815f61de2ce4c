/* The program that we are about to become: its environment, and the exec. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include "install.h"
#include "machine/machine.h"
#include "vrampool.h"

/* Adds the preloaded library to LD_PRELOAD, behind what is there already.
 * VP_UNSUPPORTED, logged: its path has a blank or a colon, which the loader takes for a separator.
 */
vp_status program_preload(const char *shim) VP_MUST_USE;

/* Has the emulated driver at `emulator` stand in for the real one, and behave like the machine.
 * `host_bytes` is what the pool is to have of its host memory; PROGRAM_DEFAULT_HOST: 4 × its first
 * card, if it has that. Returns that number, and makes the machine's host large enough for it. */
#define PROGRAM_DEFAULT_HOST UINT64_MAX
uint64_t program_emulate(struct machine *machine, uint64_t host_bytes, const char *emulator);

/* What PyTorch needs: large tensors in segments of their own, and our hook on PYTHONPATH; and what
 * JAX does: no block of most of the pool. What the user set stays as it is. */
void program_prepare_frameworks(const struct install *install);

/* Replaces this process by the program, found along PATH. Returns only on failure, with the exit
 * status that a shell gives for it; the reason is on stderr. */
int program_exec(char **argv);

#endif
