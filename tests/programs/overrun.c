/* overrun: fills a block on the card, and with --plant writes one page past its end: into memory
 * that no parameter of the kernel names. Verify mode must catch that, and nothing without it. */
#include <stdio.h>
#include <string.h>

#include "emu/emu_kernel.h"
#include "gpu.h"

enum { BLOCK_BYTES = 4 << 20, PAGE_BYTES = 4096, LAUNCHES = 4 };

/* One thread a word: `count` words from `at` become their index. */
static const char fill_ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
                               ".visible .entry overrun_fill(.param .u64 at, .param .u32 count)\n"
                               "{\n"
                               "  .reg .pred %p;\n"
                               "  .reg .b32 %index, %width, %block, %count;\n"
                               "  .reg .b64 %at, %offset;\n"
                               "  ld.param.u64 %at, [at];\n"
                               "  ld.param.u32 %count, [count];\n"
                               "  mov.u32 %index, %tid.x;\n"
                               "  mov.u32 %width, %ntid.x;\n"
                               "  mov.u32 %block, %ctaid.x;\n"
                               "  mad.lo.u32 %index, %block, %width, %index;\n"
                               "  setp.ge.u32 %p, %index, %count;\n"
                               "  @%p ret;\n"
                               "  mul.wide.u32 %offset, %index, 4;\n"
                               "  cvta.to.global.u64 %at, %at;\n"
                               "  add.u64 %at, %at, %offset;\n"
                               "  st.global.u32 [%at], %index;\n"
                               "  ret;\n"
                               "}\n";

void emu_kernel_overrun_fill(struct emu_block *b);
void emu_kernel_overrun_fill(struct emu_block *b)
{
    uint64_t at = emu_param_u64(b, 0), first, last;
    uint32_t count = emu_param_u32(b, 1);
    emu_threads(b, &first, &last);
    if (last > count) last = count;
    for (uint64_t i = first; i < last; i++) emu_store_u32(b, at + 4 * i, (uint32_t)i);
}

int main(int argc, char **argv)
{
    int plant = argc == 2 && strcmp(argv[1], "--plant") == 0;
    if (argc > 1 + plant) {
        fprintf(stderr, "overrun [--plant]\n");
        return 2;
    }
    struct gpu gpu;
    gpu_open(&gpu, "overrun", NULL);
    gpu_load_kernels(&gpu, fill_ptx);
    gpu_function fill = gpu_kernel(&gpu, "overrun_fill");
    gpu_address block = gpu_alloc(&gpu, BLOCK_BYTES), behind = gpu_alloc(&gpu, BLOCK_BYTES);
    gpu_check(&gpu, gpu.cuMemsetD8_v2(behind, 0, BLOCK_BYTES), "cuMemsetD8");
    for (int i = 0; i < LAUNCHES; i++) {
        unsigned count = BLOCK_BYTES / 4;
        if (plant && i == LAUNCHES - 1) count += PAGE_BYTES / 4;
        void *params[] = {&block, &count};
        gpu_launch(&gpu, fill, count, params);
        gpu_check(&gpu, gpu.cuCtxSynchronize(), "waiting for overrun_fill");
    }
    unsigned last = 0;
    gpu_check(&gpu, gpu.cuMemcpyDtoH_v2(&last, block + BLOCK_BYTES - 4, 4), "cuMemcpyDtoH");
    printf("the last word is %u\n", last);
    return last == BLOCK_BYTES / 4 - 1 ? 0 : 1;
}
