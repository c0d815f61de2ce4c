/* A library as those of cuDNN: it loads another one by its bare name, which only its own RUNPATH
 * ($ORIGIN) finds. The loader knows whose RUNPATH counts by who calls dlopen. */
#include <dlfcn.h>
#include <stddef.h>

int runpath_open(void);
int runpath_open(void)
{
    void *inner = dlopen("librunpath_inner.so", RTLD_NOW | RTLD_LOCAL);
    int (*answer)(void) = inner ? (int (*)(void))dlsym(inner, "runpath_answer") : NULL;
    return answer ? answer() : -1;
}
