#include "recorder.h"

#include <ctype.h>
#include <string.h>
#include <stddef.h>

#include "driver/abi.h"
#include "symbols.h"

struct recorded recorded __attribute__((visibility("hidden")));
_Static_assert(offsetof(struct recorded, floats) == 136, "as generate.py has it");

static struct recorder state = {.last = &recorded, .fail_symbol = -1, .cards = 1};

enum {
#define NUMBER(name) N_##name,
    SHIM_SYMBOLS(NUMBER)
#undef NUMBER
        COUNT
};

static const char *const names[] = {
#define NAME(name) #name,
    SHIM_SYMBOLS(NAME)
#undef NAME
};

#define DECLARE(name) CUresult name(void);
SHIM_SYMBOLS(DECLARE)
#undef DECLARE
static CUresult (*const functions[])(void) = {
#define FUNCTION(name) name,
    SHIM_SYMBOLS(FUNCTION)
#undef FUNCTION
};

struct recorder *recorder(void)
{
    return &state;
}

static CUresult foreign(void)
{
    return CUDA_ERROR_UNKNOWN;
}

/* Newest form without a version, as far as tests ask for it: NAME_v2 from CUDA 3.2 on. */
static int find_form(const char *name, int version, uint64_t flags)
{
    const char *const endings[][2] = {
        {"_v2_ptsz", "_v2_ptds"}, {"_ptsz", "_ptds"}, {"_v2", "_v2"}, {"", ""}};
    for (unsigned i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (i < 2 && !(flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) continue;
        if (i == 2 && version < 3020) continue;
        for (unsigned j = 0; j < 2; j++) {
            char form[128] = "";
            strncat(form, name, 100);
            strcat(form, endings[i][j]);
            for (int k = 0; k < COUNT; k++) {
                if (strcmp(names[k], form) == 0) return k;
            }
        }
    }
    return -1;
}

static CUresult get_proc_address(const uint64_t *arguments, int *found)
{
    int symbol = find_form((const char *)arguments[0], (int)arguments[2], arguments[3]);
    void **function = (void **)arguments[1];
    *function = NULL;
    if (found) *found = symbol < 0;
    if (symbol < 0) return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    *function = state.foreign ? (void *)foreign : (void *)functions[symbol];
    return CUDA_SUCCESS;
}

/* A card's memory lies where the test says; of all else the driver knows nothing. */
static CUresult pointer_attributes(const uint64_t *arguments)
{
    const int *attributes = (const int *)arguments[1];
    void **answers = (void **)arguments[2];
    int on_card = arguments[3] >= state.device_first && arguments[3] < state.device_end;
    for (unsigned i = 0; i < (unsigned)arguments[0]; i++)
        *(unsigned *)answers[i] =
            on_card && attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? CU_MEMORYTYPE_DEVICE : 0;
    return CUDA_SUCCESS;
}

/* Runs after the arguments have been recorded; what is asked about must not disturb `recorded`. */
CUresult record_call(int symbol) __attribute__((visibility("hidden")));
CUresult record_call(int symbol)
{
    const uint64_t *arguments = recorded.integers;
    state.calls++;
    if (state.echo) return 1000 + symbol;
    if (symbol == state.fail_symbol) {
        if (state.fail_times && --state.fail_times == 0) state.fail_symbol = -1;
        return state.fail_result;
    }
    switch (symbol) {
    case N_cuGetProcAddress: return get_proc_address(arguments, NULL);
    case N_cuGetProcAddress_v2: return get_proc_address(arguments, (int *)arguments[4]);
    case N_cuCtxGetCurrent: *(void **)arguments[0] = state.context; return CUDA_SUCCESS;
    case N_cuDevicePrimaryCtxRetain:
        *(void **)arguments[0] = (void *)(0xc0 + arguments[1]);
        return CUDA_SUCCESS;
    case N_cuCtxGetDevice: *(int *)arguments[0] = 0; return CUDA_SUCCESS;
    case N_cuDeviceGetCount: *(int *)arguments[0] = state.cards; return CUDA_SUCCESS;
    case N_cuDeviceGet:
        if ((int)arguments[1] < 0 || (int)arguments[1] >= state.cards)
            return CUDA_ERROR_INVALID_DEVICE;
        *(int *)arguments[0] = (int)arguments[1];
        return CUDA_SUCCESS;
    case N_cuDeviceGetByPCIBusId: /* the bus number is the card's */
        *(int *)arguments[0] = ((const char *)arguments[1])[0] - '0';
        return CUDA_SUCCESS;
    case N_cuDeviceTotalMem: *(unsigned *)arguments[0] = UINT32_MAX; return CUDA_SUCCESS;
    case N_cuDeviceTotalMem_v2:
        if ((int)arguments[1] < 0) return CUDA_ERROR_INVALID_DEVICE;
        *(size_t *)arguments[0] = (size_t)24 << 30;
        return CUDA_SUCCESS;
    case N_cuPointerGetAttributes: return pointer_attributes(arguments);
    case N_cuMemGetAddressRange_v2: return CUDA_ERROR_NOT_FOUND;
    default: return CUDA_SUCCESS;
    }
}
