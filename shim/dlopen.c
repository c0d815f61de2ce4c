/* dlopen, where it names the driver in a way that passes a preload by: `libcuda.so`, or the path of
 * a file of it. (`libcuda.so.1` is our own name, so that the loader gives this library out for it.)
 *
 * glibc finds the RUNPATH of whoever calls dlopen by its return address. So ours changes the name
 * and jumps into the real one: what that sees is the program's own call. Calls from within this
 * library, which is how the real driver is loaded, are left as they are. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "shim/shim.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* The real dlopen; what ours jumps to. NULL before the first call. */
_Atomic(void *) shim_dlopen_real HIDDEN;

/* What to open in place of `name`, for a caller that goes on at `caller`. */
const char *shim_dlopen_name(const char *name, const void *caller) HIDDEN;

/* This library, as the linker lays it out. */
extern const char shim_first[] __asm__("__ehdr_start") HIDDEN, shim_end[] __asm__("_end") HIDDEN;

static void *no_dlopen(const char *name, int flags)
{
    return NULL;
}

static void find_real(void)
{
    void *real = dlsym(RTLD_NEXT, "dlopen");
    atomic_store_explicit(&shim_dlopen_real, real ? real : (void *)no_dlopen, memory_order_release);
}

/* libcuda.so, libcuda.so.1, libcuda.so.580.95.05 */
static bool names_driver(const char *file)
{
    static const char stem[] = "libcuda.so";
    size_t length = sizeof stem - 1;
    if (strncmp(file, stem, length) != 0) return false;
    return file[length] == '\0' || strspn(file + length, ".0123456789") == strlen(file + length);
}

const char *shim_dlopen_name(const char *name, const void *caller)
{
    if (!atomic_load_explicit(&shim_dlopen_real, memory_order_acquire)) find_real();
    const char *at = caller;
    if (!name || (at >= shim_first && at < shim_end)) return name;
    const char *slash = strrchr(name, '/'), *off = env_get(ENV_SWITCH);
    if (!names_driver(slash ? slash + 1 : name)) return name;
    if (slash && access(name, F_OK) != 0) return name; /* that it is not there is an answer */
    if (off && strcmp(off, "0") == 0) return name;
    Dl_info own;
    return dladdr((const void *)shim_dlopen_name, &own) ? own.dli_fname : name;
}

/* Exported as dlopen; the flags stay where they are. */
#if defined(__x86_64__)
__asm__(".pushsection .text\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        ".balign 16\n"
        "dlopen: endbr64\n"
        " pushq %rsi\n"
        " movq 8(%rsp), %rsi\n"
        " call shim_dlopen_name\n"
        " popq %rsi\n"
        " movq %rax, %rdi\n"
        " jmp *shim_dlopen_real(%rip)\n"
        ".size dlopen, . - dlopen\n"
        ".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        ".balign 16\n"
        "dlopen: hint 34\n"
        " stp x30, x1, [sp, #-16]!\n"
        " mov x1, x30\n"
        " bl shim_dlopen_name\n"
        " ldp x30, x1, [sp], #16\n"
        " adrp x16, shim_dlopen_real\n"
        " ldr x16, [x16, :lo12:shim_dlopen_real]\n"
        " br x16\n"
        ".size dlopen, . - dlopen\n"
        ".popsection\n");
#endif
