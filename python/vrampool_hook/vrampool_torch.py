"""Tells the pool which tensors live, in a process where torch has just been imported.

PyTorch's own allocator stays in charge: it takes segments from the driver and cuts them into
tensors, which the driver, and so the pool, cannot see. When CUDA is initialised, before anything is
allocated, a small C++ file (listener.cpp) is compiled against the installed torch, loaded, and
attached to the allocator's trace. It is kept in the user's cache, so that this happens once.

Where that fails, PyTorch is told not to cache: then each tensor is an allocation of the driver,
which the pool sees. One line on stderr says so. Nothing done here makes the program fail."""
import ctypes
import glob
import hashlib
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "listener.cpp")
STANDARDS = ("c++17", "c++20")  # what torch's headers need rises with the versions
COMPILE_SECONDS = 180
LEVELS = ("quiet", "error", "warn", "info", "debug")
# Tensors above 20 MiB then own their segment, so that it can go as a whole.
SPLIT = "max_split_size_mb:21"


class Unavailable(Exception):
    """The listener cannot be had; the text says why."""


def log(level, text):
    shown = os.environ.get("VRAMPOOL_LOG", "warn")
    if LEVELS.index(level) <= (LEVELS.index(shown) if shown in LEVELS else 2):
        prefix = "" if level == "info" else level + ": "
        print(f"vrampool: {prefix}{text}", file=sys.stderr, flush=True)


def prepare(torch):
    """Has `attach` called when CUDA is initialised, in whichever thread that happens."""
    hide_cards(torch)
    try:
        torch.cuda._lazy_call(lambda: attach(torch))
    except Exception as error:
        fall_back(f"this torch cannot be hooked ({error!r})")


def hide_cards(torch):
    """Torch counts the cards by NVML, to leave CUDA alone; NVML also knows those that only lend.
    What uses all cards that it finds, as the Trainer of transformers does, must not see them."""
    count = getattr(torch.cuda, "_device_count_nvml", None)
    visible = getattr(ctypes.CDLL(None), "vp_visible_cards", None)
    if count and visible:
        visible.restype = ctypes.c_uint32
        torch.cuda._device_count_nvml = lambda: min(count(), visible())


def attach(torch):
    """Runs after CUDA was initialised and before the first allocation, also before there is a
    context: making one here would take memory on a card that the program may never use."""
    try:
        if not hasattr(ctypes.CDLL(None), "vp_note_alive"):
            return  # the preloaded library is not in this process
        if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING"):
            log("info", "PyTorch: caching is off already; each tensor is an allocation of its own")
            return
        if backend(torch) != "native":
            log("warn", f"PyTorch: the allocator {backend(torch)} takes its memory past the pool;"
                        " leave PYTORCH_CUDA_ALLOC_CONF=backend:… out to have it pooled")
            return
        if os.environ.get("VRAMPOOL_LISTENER") == "0":
            raise Unavailable("VRAMPOOL_LISTENER is 0")
        listen(torch)
        configure(torch)
        log("info", "PyTorch: listening to its allocator")
    except Unavailable as reason:
        fall_back(str(reason))
    except Exception as error:  # whatever it is: the program must go on
        fall_back(repr(error))


def fall_back(reason):
    """Turns PyTorch's caching off; it asks the environment at its first allocation."""
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    log("warn", f"PyTorch: each tensor is now an allocation of its own, because {reason};"
                " torch.cuda.memory_* read 0 and CUDA graphs have no memory pools")


def backend(torch):
    ask = getattr(torch._C, "_cuda_getAllocatorBackend", None)
    return ask() if ask else "native"


def configure(torch):
    """Adds what the pool needs to the user's settings. Expandable segments are turned off: PyTorch
    maps them itself, past the pool, and the pool makes them unnecessary."""
    variables = (os.environ.get(name) for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"))
    given = list(dict.fromkeys(value for value in variables if value))
    added = []
    if "max_split_size_mb" not in "".join(given):
        added.append(SPLIT)
    if "expandable_segments:true" in "".join(given).lower().replace(" ", ""):
        added.append("expandable_segments:False")
        log("info", "PyTorch: expandable segments are turned off, the pool does their work")
    if not added:
        return
    settings = ",".join(given + added)
    set_settings = (getattr(torch._C, "_accelerator_setAllocatorSettings", None)
                    or getattr(torch._C, "_cuda_cudaCachingAllocator_set_allocator_settings", None))
    try:
        set_settings(settings)
    except Exception as error:
        log("warn", f"PyTorch: its allocator did not take the settings {settings} ({error!r});"
                    " tensors may share segments and move less well")


def listen(torch):
    """Compiles the listener unless it is in the cache, loads and attaches it."""
    with tempfile.TemporaryDirectory(prefix="vrampool-") as private:
        folder = cache_folder() or private
        path = os.path.join(folder, f"listener-{key(torch)}.so")
        if not os.path.exists(path):
            compile_listener(torch, path)
        library = ctypes.CDLL(path)
    attached = library.vrampool_listener_attach()
    if attached != 0:
        raise Unavailable(f"torch {torch.__version__} refused the listener (status {attached})")


def compiler():
    words = shlex.split(os.environ.get("CXX") or "g++")
    found = shutil.which(words[0]) if words else None
    if not found:
        raise Unavailable(f"there is no C++ compiler ({words[0] if words else 'CXX'}) to build the"
                          " listener with; installing g++ helps")
    return [found, *words[1:]]


def key(torch):
    """Names everything that the compiled file depends on."""
    words = compiler()
    program = os.path.realpath(words[0])
    about = os.stat(program)
    with open(SOURCE, "rb") as file:
        source = file.read()
    parts = [torch.__version__, os.path.realpath(torch.__file__), cxx11_abi(torch), program,
             words[1:], about.st_size, about.st_mtime_ns]
    return hashlib.sha256(repr(parts).encode() + source).hexdigest()[:24]


def cxx11_abi(torch):
    return int(bool(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True)))


def cache_folder():
    """The user's own folder, closed to others; None where there can be none."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(base, "vrampool")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        about = os.lstat(folder)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
            return None
        if stat.S_IMODE(about.st_mode) != 0o700:
            os.chmod(folder, 0o700)
        return folder if os.access(folder, os.W_OK | os.X_OK) else None
    except OSError:
        return None


def include_folders(torch):
    """Torch's headers, and those of the CUDA runtime: a toolkit's, or the ones torch came with."""
    root = os.path.dirname(os.path.abspath(torch.__file__))
    include = os.path.join(root, "include")
    cuda = [os.path.join(os.environ[name], "include") for name in ("CUDA_HOME", "CUDA_PATH")
            if os.environ.get(name)]
    cuda.append("/usr/local/cuda/include")
    cuda += sorted(glob.glob(os.path.join(os.path.dirname(root), "nvidia", "*", "include")))
    header = "cuda_runtime_api.h"
    found = [folder for folder in cuda if os.path.exists(os.path.join(folder, header))]
    if not found:
        raise Unavailable(f"the header {header} is in no toolkit and no nvidia package")
    return [include, os.path.join(include, "torch", "csrc", "api", "include"), found[0]]


def compile_listener(torch, path):
    """Writes the file under a name of its own and renames it: two processes may do so at once."""
    library = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "lib")
    words = compiler()
    includes = [word for folder in include_folders(torch) for word in ("-isystem", folder)]
    started = time.monotonic()
    fresh = f"{path}.{os.getpid()}"
    # The compiler is a program of its own: it is not to run under the pool.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    said = ""
    try:
        for standard in STANDARDS:
            command = [*words, "-std=" + standard, "-O2", "-fPIC", "-shared", *includes,
                       f"-D_GLIBCXX_USE_CXX11_ABI={cxx11_abi(torch)}", "-o", fresh, SOURCE,
                       "-L" + library, "-lc10_cuda", "-lc10", "-Wl,-rpath," + library]
            done = subprocess.run(command, env=environment, capture_output=True, text=True,
                                  timeout=COMPILE_SECONDS, check=False)
            if done.returncode == 0:
                os.replace(fresh, path)
                log("info", f"PyTorch: built the listener in {time.monotonic() - started:.1f} s")
                return
            said = said or first_error(done.stderr)
    except (OSError, subprocess.SubprocessError) as error:
        said = repr(error)
    finally:
        if os.path.exists(fresh):
            os.unlink(fresh)
    raise Unavailable(f"the listener does not compile with torch {torch.__version__}: {said}")


def first_error(text):
    lines = text.strip().splitlines() or ["the compiler said nothing"]
    return next((line for line in lines if "error" in line), lines[-1])
