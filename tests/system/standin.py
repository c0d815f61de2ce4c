"""A stand-in for torch: what the PyTorch side uses of the real one, as a package to import.

It has callbacks that run when CUDA is initialised, a header with the allocator's trace, and a
library behind it; `torch.cuda.happen` reports an event as the allocator would."""
import os
import shutil
import subprocess
import textwrap

HEADER = r"""
#pragma once
#include <cuda_runtime_api.h>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
namespace c10::cuda::CUDACachingAllocator {
struct TraceEntry {
    enum Action { ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP };
    Action action_;
    size_t addr_;
    size_t size_;
    MEMPOOL
};
using AllocatorTraceTracker = std::function<void(const TraceEntry &)>;
void attachAllocatorTraceTracker(AllocatorTraceTracker tracker);
}
"""

LIBRARY = r"""
#include <c10/cuda/CUDACachingAllocator.h>
namespace c10::cuda::CUDACachingAllocator {
static AllocatorTraceTracker attached;
void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) { attached = std::move(tracker); }
}
using namespace c10::cuda::CUDACachingAllocator;
extern "C" void happen(int action, size_t address, size_t bytes, int pool)
{
    TraceEntry entry = {};
    entry.action_ = static_cast<TraceEntry::Action>(action);
    entry.addr_ = address;
    entry.size_ = bytes;
    SET_MEMPOOL
    if (attached) attached(entry);
}
"""

TORCH = """
__version__ = "2.99.0"
from . import _C, cuda
"""

TORCH_C = """
_GLIBCXX_USE_CXX11_ABI = True
settings = None
def _accelerator_setAllocatorSettings(text):
    global settings
    settings = text
def _cuda_getAllocatorBackend():
    return "native"
"""

TORCH_CUDA = """
import ctypes, os
from . import __file__ as root
_queued = []
ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP = range(6)
def _device_count_nvml():
    return int(os.environ.get("STANDIN_CARDS", "-1"))
def device_count():
    return _device_count_nvml()
def _lazy_call(callback):
    _queued.append(callback)
def init():
    for callback in _queued:
        callback()
def happen(action, address, size, pool=0):
    library = ctypes.CDLL(os.path.join(os.path.dirname(root), "lib", "libc10_cuda.so"))
    library.happen.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
    library.happen(action, address, size, pool)
"""

HAS_COMPILERS = bool(shutil.which("g++") and shutil.which("gcc"))


def write(path, text, executable=False):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(textwrap.dedent(text))
    if executable:
        os.chmod(path, 0o755)


def make_torch(folder, mempool):
    """Writes a torch as a package; `mempool`: its trace names the memory pool, as newer ones do."""
    member = "std::pair<uint64_t, uint64_t> mempool_;" if mempool else ""
    setter = "entry.mempool_ = {0, static_cast<uint64_t>(pool)};" if mempool else ""
    torch = os.path.join(folder, "torch")
    write(os.path.join(torch, "__init__.py"), TORCH)
    write(os.path.join(torch, "_C.py"), TORCH_C)
    write(os.path.join(torch, "cuda.py"), TORCH_CUDA)
    header = os.path.join(torch, "include", "c10", "cuda", "CUDACachingAllocator.h")
    write(header, HEADER.replace("MEMPOOL", member))
    cuda_include = os.path.join(folder, "nvidia", "runtime", "include")
    write(os.path.join(cuda_include, "cuda_runtime_api.h"), "")
    library = os.path.join(torch, "lib")
    write(os.path.join(library, "c10.cpp"), LIBRARY.replace("SET_MEMPOOL", setter))
    for name in ("c10", "c10_cuda"):
        source = os.path.join(library, "c10.cpp") if name == "c10_cuda" else "/dev/null"
        subprocess.run(["g++", "-std=c++17", "-w", "-shared", "-fPIC", "-x", "c++",
                        f"-I{torch}/include", f"-I{cuda_include}", source,
                        "-o", os.path.join(library, f"lib{name}.so")], check=True)
