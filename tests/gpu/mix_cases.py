#!/usr/bin/env python3
"""Many small uses of a card, each by a library whose kernels reach memory in a way of their own.

Usage: mix_cases.py [--twice] [--json FILE] [--device cpu] [CASE…]     (none: all; --list: names)

Runs the cases one after another and writes, for each, a fingerprint of its results and their
norms, or what it lacks. --twice runs each twice, to see whether it repeats to the last bit. A case
that fails ends the program, with its name; with --twice the next one is run."""
import argparse
import importlib.metadata
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402
from measure import build_with_nvcc, fingerprint  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

CASES = {}
DEVICE = "cuda"
BF16 = torch.bfloat16


def case(function):
    """Makes a function a case; its name is the case's. It returns tensors, or numbers."""
    CASES[function.__name__] = function
    return function


def randn(*shape, **options):
    return torch.randn(*shape, device=DEVICE, **options)


def needs_card():
    if DEVICE == "cpu":
        raise ImportError("needs a card", name="a card")


def gradients(module, *inputs):
    """Output and all gradients of a module."""
    for value in inputs:
        if value.is_floating_point():
            value.requires_grad_()
    out = module(*inputs)
    out = out[0] if isinstance(out, tuple) else out
    out.float().pow(2).mean().backward()
    return [out, *(p.grad for p in module.parameters()),
            *(value.grad for value in inputs if value.grad is not None)]


# --- convolutions and layers ---

@case
def conv():
    return gradients(nn.Conv2d(32, 64, 3, padding=1, device=DEVICE), randn(8, 32, 64, 64))


@case
def conv_transposed():
    return gradients(nn.ConvTranspose2d(32, 16, 4, 2, device=DEVICE), randn(4, 32, 32, 32))


@case
def conv3d():
    return gradients(nn.Conv3d(8, 8, 3, device=DEVICE), randn(2, 8, 16, 16, 16))


@case
def conv_channels_last():
    x = randn(8, 64, 64, 64, dtype=torch.float16).to(memory_format=torch.channels_last)
    net = nn.Sequential(nn.Conv2d(64, 64, 3), nn.BatchNorm2d(64), nn.ReLU())
    return gradients(net.to(DEVICE, torch.float16, memory_format=torch.channels_last), x)


@case
def norms():
    net = nn.Sequential(nn.GroupNorm(4, 32), nn.BatchNorm2d(32), nn.LayerNorm([32, 32]))
    return gradients(net.to(DEVICE), randn(8, 32, 32, 32))


@case
def lstm():
    return gradients(nn.LSTM(128, 128, 2, device=DEVICE), randn(16, 32, 128))


@case
def dropout():
    return gradients(nn.Sequential(nn.Linear(512, 512), nn.Dropout(0.5)).to(DEVICE),
                     randn(256, 512))


@case
def resampling():
    x = randn(2, 8, 64, 64)
    grid = F.affine_grid(torch.eye(2, 3, device=DEVICE).expand(2, 2, 3), [2, 8, 32, 32],
                         align_corners=False)
    return [F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.grid_sample(x, grid, align_corners=False), F.max_pool2d(x, 2)]


# --- matrix products ---

@case
def bmm():
    return [torch.bmm(randn(32, 256, 256), randn(32, 256, 256))]


@case
def linear_gelu():
    """cublasLt, with its epilogue."""
    net = nn.Sequential(nn.Linear(1024, 1024), nn.GELU(approximate="tanh"), nn.Linear(1024, 64))
    return gradients(net.to(DEVICE, BF16), randn(512, 1024, dtype=BF16))


@case
def int8():
    needs_card()
    a, b = (torch.randint(-9, 9, (1024, 1024), device=DEVICE, dtype=torch.int8) for _ in "ab")
    return [torch._int_mm(a, b)]


@case
def fp8():
    needs_card()
    a, b = (randn(1024, 1024).to(torch.float8_e4m3fn) for _ in "ab")
    one = torch.ones((), device=DEVICE)
    return [torch._scaled_mm(a, b.t(), scale_a=one, scale_b=one, out_dtype=BF16)]


@case
def grouped():
    """CUTLASS gets its addresses from an array that another kernel wrote."""
    ends = torch.arange(256, 2049, 256, device=DEVICE, dtype=torch.int32)
    return [torch._grouped_mm(randn(2048, 512, dtype=BF16), randn(8, 512, 1024, dtype=BF16),
                              offs=ends)]


@case
def sparse():
    eye = torch.eye(1024, device=DEVICE)
    return [torch.sparse.mm(eye.to_sparse(), randn(1024, 256)),
            eye.to_sparse_csr() @ randn(1024, 256)]


# --- linear algebra in batches: arrays of addresses ---

def spd(batch, size):
    a = randn(batch, size, size)
    return a @ a.mT + size * torch.eye(size, device=DEVICE)


@case
def lu_batched():
    return [torch.linalg.lu_factor(randn(64, 128, 128))[0]]


@case
def solve_batched():
    return [torch.linalg.solve(spd(256, 64), randn(256, 64, 64))]


@case
def cholesky_batched():
    return [torch.linalg.cholesky(spd(64, 128))]


@case
def triangular_batched():
    return [torch.linalg.solve_triangular(randn(64, 128, 128).tril() + 12 * torch.eye(
        128, device=DEVICE), randn(64, 128, 32), upper=False)]


@case
def inverse_batched():
    return [torch.linalg.inv(spd(128, 32)), torch.linalg.inv(spd(2, 512))]


@case
def qr_batched():
    return [torch.linalg.qr(randn(64, 96, 64))[1].abs()]


@case
def svd_batched():
    return [torch.linalg.svdvals(randn(64, 48, 48))]


@case
def eigh():
    return [torch.linalg.eigvalsh(spd(1, 256)), torch.linalg.eigvalsh(spd(32, 32))]


# --- transforms, sorts, scans, indices ---

@case
def fft():
    return [torch.fft.fft(randn(64, 4096)).abs(), torch.fft.rfft2(randn(16, 256, 256)).abs(),
            torch.fft.ifftn(torch.fft.fftn(randn(2, 32, 32, 32))).real]


@case
def fft_odd_sizes():
    return [torch.fft.fft(randn(32, 1009)).abs(), torch.stft(
        randn(8, 16000), 400, window=torch.hann_window(400, device=DEVICE),
        return_complex=True).abs()]


@case
def sorting():
    x = randn(1 << 20)
    return [x.sort()[0], x.view(1024, -1).sort(1)[0], x.topk(100)[0], x.kthvalue(1000)[0],
            torch.randint(0, 1000, (1 << 18,), device=DEVICE).unique()]


@case
def scans():
    x = torch.randint(0, 9, (1 << 20,), device=DEVICE)
    return [x.cumsum(0), x.view(1024, -1).cumsum(1), x.cummax(0)[0], (x > 4).nonzero(),
            x[x > 4], torch.bincount(x), torch.logcumsumexp(randn(64, 4096), 1)]


@case
def gathers():
    x, at = randn(1 << 16, 16), torch.randint(0, 1 << 16, (1 << 15,), device=DEVICE)
    return [x[at], x.index_select(0, at), torch.zeros_like(x).index_copy(0, at.unique(), x[
        :len(at.unique())]), torch.zeros(1 << 16, device=DEVICE, dtype=torch.int64).scatter_add(
            0, at, torch.ones_like(at))]


@case
def embedding():
    net = nn.Embedding(1 << 16, 64, device=DEVICE)
    return gradients(net, torch.randint(0, 1 << 16, (64, 128), device=DEVICE))


@case
def embedding_bag():
    net = nn.EmbeddingBag(1 << 16, 64, mode="sum", device=DEVICE)
    return [net(torch.randint(0, 1 << 16, (512, 32), device=DEVICE))]


@case
def random_numbers():
    return [randn(1 << 20), torch.rand(1000, device=DEVICE), torch.multinomial(
        torch.ones(1000, device=DEVICE), 100), torch.randperm(10000, device=DEVICE)]


# --- attention ---

def attention(backend, dtype=BF16):
    from torch.nn.attention import sdpa_kernel
    q, k, v = (randn(2, 8, 512, 64, dtype=dtype, requires_grad=True) for _ in "qkv")
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    out.float().sum().backward()
    return [out, q.grad, k.grad, v.grad]


@case
def attention_flash():
    from torch.nn.attention import SDPBackend
    return attention(SDPBackend.FLASH_ATTENTION)


@case
def attention_cudnn():
    needs_card()
    from torch.nn.attention import SDPBackend
    return attention(SDPBackend.CUDNN_ATTENTION)


@case
def attention_efficient():
    needs_card()
    from torch.nn.attention import SDPBackend
    return attention(SDPBackend.EFFICIENT_ATTENTION, torch.float32)


@case
def attention_math():
    from torch.nn.attention import SDPBackend
    return attention(SDPBackend.MATH)


@case
def attention_flex():
    needs_card()
    from torch.nn.attention.flex_attention import flex_attention
    q, k, v = (randn(2, 4, 512, 64, dtype=BF16) for _ in "qkv")
    return [torch.compile(flex_attention)(q, k, v)]


@case
def nested():
    parts = [randn(n, 64) for n in (30, 50, 7)]
    together = torch.nested.nested_tensor(parts, layout=torch.jagged)
    return [nn.Linear(64, 32, device=DEVICE)(together).values()]


# --- optimizers ---

def optimized(kind, **options):
    net = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6))).to(DEVICE)
    optimizer = getattr(torch.optim, kind)(net.parameters(), lr=1e-3, **options)
    for _ in range(3):
        net(randn(32, 256)).pow(2).mean().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
    return list(net.parameters())


@case
def adamw_foreach():
    return optimized("AdamW", foreach=True)


@case
def adamw_fused():
    return optimized("AdamW", fused=True)


@case
def adamw_capturable():
    needs_card()
    return optimized("AdamW", capturable=True)


@case
def sgd_fused():
    return optimized("SGD", momentum=0.9, fused=True)


@case
def adafactor():
    return optimized("Adafactor")


@case
def rmsprop_foreach():
    return optimized("RMSprop", foreach=True)


# --- graphs, streams, copies ---

@case
def graph_replay():
    needs_card()
    x = randn(1 << 20)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2 + 1).cumsum(0)
    results = []
    for _ in range(4):
        x.add_(1)
        graph.replay()
        results.append(y.clone())
    return results


@case
def graph_of_a_layer():
    needs_card()
    net = nn.TransformerEncoderLayer(256, 4, 512, 0.0, batch_first=True).to(DEVICE)
    fast = torch.cuda.make_graphed_callables(net, (randn(4, 64, 256, requires_grad=True),))
    return gradients(fast, randn(4, 64, 256))


@case
def graphs_that_share_a_pool():
    needs_card()
    x, graphs = randn(1 << 18), [torch.cuda.CUDAGraph() for _ in range(2)]
    with torch.cuda.graph(graphs[0]):
        y = x.relu() * 3
    with torch.cuda.graph(graphs[1], pool=graphs[0].pool()):
        z = y.exp().sum()
    for graph in graphs:
        graph.replay()
    del graphs[0]
    return [z.clone(), y.clone()]


@case
def several_streams():
    needs_card()
    x, out = randn(1 << 20), []
    for _ in range(4):
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            y = x.sin() * 2
            y.record_stream(beside)
        torch.cuda.current_stream().wait_stream(beside)
        out.append(y.sum())
    return out


@case
def copies():
    needs_card()
    host = torch.arange(1 << 20, dtype=torch.float32).pin_memory()
    there = host.to(DEVICE, non_blocking=True)
    back = torch.empty_like(host).pin_memory()
    back.copy_(there * 2, non_blocking=True)
    torch.cuda.synchronize()
    return [there, back.to(DEVICE), there.view(1024, -1)[:, ::7].contiguous(),
            torch.frombuffer(bytearray(back.numpy().tobytes()), dtype=torch.float32).to(DEVICE)]


@case
def shared_with_a_process():
    """A tensor handed to another process by CUDA IPC."""
    needs_card()
    context = torch.multiprocessing.get_context("spawn")
    queue, back = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=double, args=(queue, back))
    process.start()
    try:
        x = torch.arange(1 << 20, device=DEVICE, dtype=torch.float32)
        queue.put(x)
        assert back._reader.poll(60), "the other process did not answer"
    finally:
        process.terminate()
        process.join()
    return [x]


def double(queue, back):
    queue.get().mul_(2)
    torch.cuda.synchronize()
    back.put("done")


@case
def one_rank_of_nccl():
    needs_card()
    import torch.distributed as dist
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    x = randn(1 << 20)
    dist.all_reduce(x)
    parts = [torch.empty_like(x)]
    dist.all_gather(parts, x)
    half = torch.empty_like(x)
    dist.reduce_scatter_tensor(half, x)
    dist.destroy_process_group()
    return [x, *parts, half]


# --- compilers ---

@case
def compiled():
    net = nn.TransformerEncoderLayer(128, 4, 256, 0.0, batch_first=True).to(DEVICE)
    return gradients(torch.compile(net), randn(4, 32, 128))


@case
def compiled_with_graphs():
    needs_card()
    function = torch.compile(lambda x, w: (x @ w).relu().softmax(-1), mode="reduce-overhead")
    x, w = randn(256, 256), randn(256, 256)
    return [function(x, w).clone() for _ in range(4)]


@case
def triton_kernel():
    needs_card()
    import mix_kernels
    return mix_kernels.scale_by_triton()


@case
def cooperative_launch():
    needs_card()
    import mix_kernels
    return mix_kernels.cooperative()


@case
def addresses_in_a_table():
    needs_card()
    import mix_kernels
    return mix_kernels.table()


@case
def texture():
    needs_card()
    import mix_kernels
    return mix_kernels.texture()


@case
def cupy_libraries():
    needs_card()
    import mix_kernels
    return mix_kernels.libraries()


@case
def numba_kernel():
    needs_card()
    import mix_kernels
    return mix_kernels.numba_histogram()


def runtime_case(name):
    """A case of mix_runtime.cu, a process of its own, whose sum is compared."""
    def run_it():
        needs_card()
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mix_runtime.cu")
        program = build_with_nvcc(source, "-rdc=true")
        done = subprocess.run([program, name], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"exit status {done.returncode}: {done.stderr.strip()[-300:]}")
        return [torch.tensor(int(done.stdout), device=DEVICE)]
    run_it.__name__ = name
    return case(run_it)


for runtime_name in ("device_launch", "pitched", "stream_ordered", "device_global",
                     "texture_object", "registered_host"):
    runtime_case(runtime_name)


def versions():
    """Of what the cases use, for the list of what was verified."""
    found = {"torch": torch.__version__, "CUDA": torch.version.cuda,
             "cuDNN": torch.backends.cudnn.version()}
    for name in ("triton", "cupy", "numba", "nvidia-nccl-cu13", "nvidia-cublas", "nvidia-cufft",
                 "nvidia-cusolver"):
        try:
            found[name] = importlib.metadata.version("cupy-cuda13x" if name == "cupy" else name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def reset():
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False


def run(name):
    reset()
    results = [value if torch.is_tensor(value) else torch.tensor(value, device=DEVICE)
               for value in CASES[name]()]
    results = [value.detach().contiguous() for value in results]
    norms = [float(value.double().norm()) for value in results]
    if DEVICE != "cpu":
        torch.cuda.synchronize()
    return {"hash": fingerprint(results), "norms": norms}


def main():
    global DEVICE
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    DEVICE = options.device
    if options.list:
        print("\n".join(CASES))
        return
    results = {"versions": versions()} if options.twice else {}
    for name in options.cases or CASES:
        try:
            results[name] = run(name)
            if options.twice:
                again = run(name)
                results[name]["repeats"] = again["hash"] == results[name]["hash"]
                results[name]["again"] = again["norms"]
        except ImportError as missing:
            results[name] = {"missing": str(missing.name or missing)}
        except Exception as reason:
            print(f"case {name}: {type(reason).__name__}: {reason}", file=sys.stderr, flush=True)
            if not options.twice:
                raise
            results[name] = {"failed": f"{type(reason).__name__}: {reason}"[:300]}
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(results, file)
        print(name, json.dumps(results[name])[:300], flush=True)


if __name__ == "__main__":
    main()
