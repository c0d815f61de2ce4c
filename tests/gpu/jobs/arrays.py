"""Programs that are not PyTorch's: JAX, CuPy, a Triton kernel, one with a static CUDA runtime."""
import json
import os
import subprocess
import zlib
from functools import partial

from measure import build_with_nvcc

HERE = os.path.dirname(os.path.abspath(__file__))


def digest(arrays):
    """Of the bytes of arrays that are on the host."""
    value = 0
    for array in arrays:
        value = zlib.crc32(memoryview(array).cast("B"), value)
    return f"{value:08x}"


def jax_job(environment):
    """A multi-layer perceptron with Adam, all of a step in one jitted function. XLA chooses among
    matrix products by time, and adds atomically, unless it is told not to."""
    def job(run):
        os.environ.update(environment)
        os.environ.setdefault("XLA_FLAGS", "--xla_gpu_deterministic_ops=true "
                                           "--xla_gpu_autotune_level=0" if run.card else "")
        import jax
        import numpy
        from jax import numpy as jnp
        card = jax.devices()[0]
        if run.card and card.platform == "cpu":
            raise ImportError("jax for a card", name="jax-cuda")
        width, layers = run.size(4096, 64), run.size(12, 2)
        needed = 4 * layers * width ** 2 * 4  # where the allocator does not count

        def forward(weights, x):
            for weight in weights:
                x = x + jnp.tanh(x @ weight)
            return jnp.mean((x - jnp.roll(x, 1, 0)) ** 2)

        @partial(jax.jit, donate_argnums=(0, 1, 2))
        def update(weights, first, second, x):
            loss, slopes = jax.value_and_grad(forward)(weights, x)
            first = [0.9 * m + 0.1 * g for m, g in zip(first, slopes)]
            second = [0.99 * v + 0.01 * g * g for v, g in zip(second, slopes)]
            weights = [w - 1e-3 * m / (jnp.sqrt(v) + 1e-8)
                       for w, m, v in zip(weights, first, second)]
            return weights, first, second, loss

        keys = jax.random.split(jax.random.PRNGKey(0), layers + 1)
        state = [[jax.random.normal(key, (width, width)) / width ** 0.5 for key in keys[1:]]]
        state += [[jnp.zeros_like(w) for w in state[0]] for _ in range(2)]
        x = jax.random.normal(keys[0], (run.size(1024, 16), width))
        run.wait = lambda: None
        run.peak = lambda: (card.memory_stats() or {}).get("peak_bytes_in_use") or needed

        def step():
            *state[:], loss = update(*state, x)
            return loss.block_until_ready()

        run.repeat(step)
        return {"state": digest(numpy.asarray(array) for part in state for array in part)}
    return job


def cupy_job(run):
    """Sorts, transforms, multiplies and scans arrays that together exceed the limit."""
    import cupy
    side, count = run.size(4096, 64), run.size(32, 3)
    random = cupy.random.RandomState(1)
    arrays = [random.standard_normal((side, side), dtype=cupy.float32) for _ in range(count)]
    pool = cupy.get_default_memory_pool()
    run.wait = cupy.cuda.Device().synchronize
    run.peak = pool.total_bytes

    def step():
        for i in range(count - 1):
            mixed = cupy.tanh(arrays[i] @ arrays[i + 1] / side ** 0.5)
            arrays[i] = 0.5 * arrays[i] + 0.5 * cupy.sort(mixed, axis=1)
        last = cupy.fft.rfft(arrays[-1], axis=1)
        arrays[-1] = cupy.fft.irfft(last, n=side, axis=1).astype(cupy.float32)
        return sum(float(cupy.cumsum(array[0])[-1]) for array in arrays)

    run.repeat(step)
    return {"arrays": digest(array.get() for array in arrays)}


def triton_job(run):
    """A kernel of one's own: momentum and decay, over tensors that together exceed the limit."""
    import torch
    import triton
    from triton import language as tl

    @triton.jit
    def update(x_at, m_at, n, rate, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        x = tl.load(x_at + at, mask=inside)
        m = 0.9 * tl.load(m_at + at, mask=inside) + tl.sin(x)
        tl.store(m_at + at, m, mask=inside)
        tl.store(x_at + at, x - rate * m, mask=inside)

    if not run.card:
        raise ImportError("Triton needs a card", name="a card")
    torch.manual_seed(0)
    words, count = 1 << 24, 24
    tensors = [torch.randn(words, device="cuda") for _ in range(count)]
    momenta = [torch.zeros_like(tensor) for tensor in tensors]

    def step():
        for x, m in zip(tensors, momenta):
            update[(triton.cdiv(words, 1024),)](x, m, words, 0.01, BLOCK=1024)
        return tensors[0].sum()

    run.repeat(step)
    return {"tensors": tensors + momenta}


def static_job(run):
    """arrays_static.cu, built here with the CUDA runtime linked into it, as a process of its own:
    it is timed by itself, and prints what it measured."""
    if not run.card:
        raise ImportError("nvcc builds for a card", name="a card")
    program = build_with_nvcc(os.path.join(HERE, "arrays_static.cu"))
    run.wait = lambda: None
    run.begin()
    run.end(0)
    run.begin()  # this one's turn
    done = subprocess.run([program, str(run.steps)], capture_output=True, text=True, check=True)
    said = json.loads(done.stdout)
    run.losses = [float(value) for value in said["sums"]]
    run.seconds = said["step_s"]
    run.peak = lambda: said["peak_bytes"]
    return {"words": said["hash"]}


PREALLOCATED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}
GROWING = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
PLATFORM = {**GROWING, "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
JOBS = {"jax-preallocated": jax_job(PREALLOCATED), "jax-growing": jax_job(GROWING),
        "jax-platform": jax_job(PLATFORM), "cupy": cupy_job, "triton": triton_job,
        "static-runtime": static_job}
