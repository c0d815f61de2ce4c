"""Cases of mix_cases.py that bring kernels of their own: by CuPy, Triton and Numba."""
import importlib.util

import torch

THREADS = 256


def scale_by_triton():
    import triton
    from triton import language as tl

    @triton.jit
    def scale(x_at, y_at, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_at + at, mask=at < n)
        tl.atomic_add(y_at + at % 64, x, mask=at < n)

    x = torch.ones(1 << 20, device="cuda", dtype=torch.int32)
    y = torch.zeros(64, device="cuda", dtype=torch.int32)
    scale[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return [y]


def from_cupy(*arrays):
    return [torch.from_dlpack(array) for array in arrays]


def cooperative():
    """A launch whose blocks wait for each other, and then read what the others wrote."""
    import cupy
    kernel = cupy.RawKernel(r"""
        #include <cooperative_groups.h>
        extern "C" __global__ void meet(const int *x, int *y, int n)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = x[i] * 2;
            cooperative_groups::this_grid().sync();
            int other = n - 1 - i;
            int value = i < n ? y[other] : 0;
            cooperative_groups::this_grid().sync();
            if (i < n) y[i] = value + 1;
        }""", "meet", enable_cooperative_groups=True, backend="nvcc" if has("nvcc") else "nvrtc")
    count = 64 * THREADS
    x, y = cupy.arange(count, dtype=cupy.int32), cupy.zeros(count, dtype=cupy.int32)
    kernel((64,), (THREADS,), (x, y, count))
    return from_cupy(y)


def has(program):
    import shutil
    return shutil.which(program) is not None


def table():
    """One kernel writes an array of addresses, another one is given that array and nothing else;
    then the same with a table within a table."""
    import cupy
    module = cupy.RawModule(code=r"""
        extern "C" __global__ void list(float **table, float *a, float *b)
        {
            table[0] = a;
            table[1] = b;
        }
        extern "C" __global__ void nest(float ***outer, float **table) { outer[0] = table; }
        extern "C" __global__ void add(float **table, int n)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) table[1][i] += table[0][i];
        }
        extern "C" __global__ void add_nested(float ***outer, int n)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) outer[0][1][i] *= outer[0][0][i];
        }""")
    count = 1 << 22  # 16 MiB each: segments of their own
    a = cupy.arange(count, dtype=cupy.float32)
    b = cupy.ones(count, dtype=cupy.float32)
    rows, outer = cupy.zeros(2, dtype=cupy.uint64), cupy.zeros(1, dtype=cupy.uint64)
    grid, block = (count // THREADS,), (THREADS,)
    module.get_function("list")((1,), (1,), (rows, a, b))
    module.get_function("nest")((1,), (1,), (outer, rows))
    for _ in range(3):
        module.get_function("add")(grid, block, (rows, cupy.int32(count)))
        module.get_function("add_nested")(grid, block, (outer, cupy.int32(count)))
    return from_cupy(b)


def texture():
    """A texture object over plain memory: an address in a descriptor that no parameter shows."""
    import cupy
    from cupy.cuda import runtime
    from cupy.cuda.texture import (ChannelFormatDescriptor, ResourceDescriptor, TextureDescriptor,
                                   TextureObject)
    kernel = cupy.RawKernel(r"""
        extern "C" __global__ void fetch(cudaTextureObject_t from, float *to, int n)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) to[i] = tex1Dfetch<float>(from, n - 1 - i) * 2;
        }""", "fetch")
    count = 1 << 22
    x, y = cupy.arange(count, dtype=cupy.float32), cupy.zeros(count, dtype=cupy.float32)
    channel = ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat)
    resource = ResourceDescriptor(runtime.cudaResourceTypeLinear, arr=x, chDesc=channel,
                                  sizeInBytes=x.nbytes)
    texture_object = TextureObject(resource, TextureDescriptor())
    kernel((count // THREADS,), (THREADS,), (texture_object, y, cupy.int32(count)))
    cupy.cuda.Device().synchronize()
    return from_cupy(y)


def libraries():
    """CUB, Thrust, cuFFT, cuBLAS, cuRAND and cuSPARSE as CuPy calls them."""
    import cupy
    random = cupy.random.RandomState(3)
    x = random.standard_normal(1 << 18, dtype=cupy.float32)
    square = x.reshape(512, 512)
    results = [cupy.sort(x), cupy.cumsum(x), cupy.argsort(x)[:1000], cupy.fft.fft(x).real,
               square @ square, cupy.histogram(x, 64)[0]]
    if importlib.util.find_spec("cupyx"):
        from cupyx.scipy import sparse
        results.append(sparse.csr_matrix(square * (square > 2)) @ x[:512])
    return from_cupy(*results)


def numba_histogram():
    import numpy
    if not hasattr(numpy, "row_stack"):  # numba asks for it where numpy 2.4 has it no more
        numpy.row_stack = numpy.vstack
    import numba.cuda

    @numba.cuda.jit
    def count(x, out):
        i = numba.cuda.grid(1)
        if i < x.size:
            numba.cuda.atomic.add(out, x[i], 1)

    x = torch.randint(0, 64, (1 << 18,), device="cuda")
    out = torch.zeros(64, device="cuda", dtype=torch.int64)
    count[(x.numel() + THREADS - 1) // THREADS, THREADS](x, out)
    numba.cuda.synchronize()
    return [out]
