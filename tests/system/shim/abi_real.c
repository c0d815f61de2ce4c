#include "abi_facts.h"

#ifdef NO_CUDA_HEADER

const long abi_facts_real[] = {-1};

#else

#include <cuda.h>
#include <stddef.h>

#define SIZE(ours, real)                  (long)sizeof(real),
#define AT(ours, field, real, real_field) (long)offsetof(real, real_field),
#define VALUE(ours, real)                 (long)(real),

const long abi_facts_real[] = {ABI_FACTS(SIZE, AT, VALUE)};

#endif
