"""The pool that this process runs under, through the functions of include/vrampool.h.

They are in the library that `vrampool run` preloaded, so their names are known to the whole
process. Nothing is loaded here, and each call looks for the pool anew: it opens when the program
first asks for memory of a card, and is closed when that card is reset."""
import ctypes
import json
import os
from typing import Any, Dict, Optional, Tuple, Union

__all__ = ["Error", "is_active", "stats", "prefetch", "advise"]

_ADVICE = ("preferred_place", "accessed_by", "read_mostly", "none")  # enum vp_advice
_OK, _INVALID, _NOT_FOUND = range(3)  # enum vp_status

_Pool = ctypes.c_void_p
_Range = [_Pool, ctypes.c_uint64, ctypes.c_uint64]
_SIGNATURES = {
    "vp_default": (_Pool, []),
    "vp_report": (ctypes.c_int, [_Pool, ctypes.c_char_p]),
    "vp_prefetch": (ctypes.c_int, [*_Range, ctypes.c_uint]),
    "vp_advise": (ctypes.c_int, [*_Range, ctypes.c_int, ctypes.c_uint]),
    "vp_status_text": (ctypes.c_char_p, [ctypes.c_int]),
}


class Error(RuntimeError):
    """There is no pool here, or it cannot do what was asked; the text says what to do."""


def _find_library() -> Optional[ctypes.CDLL]:
    library = ctypes.CDLL(None)
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError:
        return None
    return library


def is_active() -> bool:
    """Whether this process has a pool now, so that the other calls have something to act on."""
    library = _find_library()
    return library is not None and bool(library.vp_default())


def _open_pool() -> Tuple[ctypes.CDLL, _Pool]:
    library = _find_library()
    if library is None:
        raise Error("this process does not run under vrampool; start it with"
                    " `vrampool run -- PROGRAM`")
    pool = library.vp_default()
    if not pool:
        raise Error("this process has no pool: it opens once CUDA is initialised and a card is in"
                    " use; there is none with VRAMPOOL=0 or --no-pool, or in a forked child, and"
                    " where it could not be opened stderr says why")
    return library, _Pool(pool)


def stats() -> Dict[str, Any]:
    """What the pool has done so far: the fields of the report, as docs/running.md lists them.

    Numbers are bytes where a name ends in `_bytes`, and nanoseconds in `_ns`. `places` is a list of
    the places where bytes can be, with their name, kind, capacity and use, in the order of their
    index. Raises Error where this process has no pool."""
    library, pool = _open_pool()
    file = os.memfd_create("vrampool-report", 0)
    try:
        _check(library, library.vp_report(pool, f"/proc/self/fd/{file}".encode()), "stats")
        with open(os.dup(file), encoding="utf-8") as text:
            text.seek(0)
            found: Dict[str, Any] = json.load(text)
        return found
    finally:
        os.close(file)


def prefetch(tensor: Any, place: Union[str, int, None] = None) -> None:
    """Asks for a tensor's memory to be brought to a place, when that is free of cost.

    Returns at once; the pool may not follow. `tensor`: a torch.Tensor, a CuPy or JAX array,
    anything with `data_ptr()` and `nbytes`, or with `__cuda_array_interface__`. `place`: a name as
    in `stats()["places"]`, or its index; by default the card that computes. Raises Error where
    this process has no pool, ValueError for memory that is not in it, TypeError for what is no
    tensor."""
    library, pool = _open_pool()
    address, size = _span(tensor)
    if size:
        status = library.vp_prefetch(pool, address, size, _place_index(place))
        _check(library, status, "prefetch")


def advise(tensor: Any, advice: str, place: Union[str, int, None] = None) -> None:
    """Tells what a tensor's memory will be used for, until it is freed. Advice changes no result.

    `advice`: `preferred_place` (keep it there), `accessed_by` (the card `place` will use it, also
    in ways that the pool cannot see: keep it mapped), `read_mostly` (it is hardly written) or
    `none`. Today only `accessed_by` has an effect. `tensor`, `place` and errors are those of
    prefetch."""
    if advice not in _ADVICE:
        raise ValueError(f"no advice {advice!r}; there are " + ", ".join(_ADVICE))
    library, pool = _open_pool()
    address, size = _span(tensor)
    if size:
        status = library.vp_advise(pool, address, size, _ADVICE.index(advice), _place_index(place))
        _check(library, status, "advise")


def _place_index(place: Union[str, int, None]) -> int:
    """Places start with the cards of the pool, and of these the one that computes is the first."""
    if place is None:
        return 0
    names = [known["name"] for known in stats()["places"]]
    if isinstance(place, str) and place in names:
        return names.index(place)
    if isinstance(place, int) and 0 <= place < len(names):
        return place
    raise ValueError(f"no place {place!r}; this pool has " + ", ".join(names))


def _check(library: ctypes.CDLL, status: int, what: str) -> None:
    if status == _OK:
        return
    if status == _NOT_FOUND:
        raise ValueError(f"{what}: this memory is not in the pool; is it on the host, or mapped by"
                         " the program itself?")
    text = library.vp_status_text(status).decode()
    raise ValueError(f"{what}: {text}") if status == _INVALID else Error(f"{what}: {text}")


def _span(tensor: Any) -> Tuple[int, int]:
    """The address of a tensor's first byte, and the bytes from there to its last; gaps count."""
    interface = getattr(tensor, "__cuda_array_interface__", None) \
        if not hasattr(tensor, "data_ptr") else None
    if interface is not None:
        item = int(interface["typestr"][2:])
        strides = interface.get("strides")
        return _strided(interface["data"][0], interface["shape"], item, strides)
    try:
        address = tensor.data_ptr()
        if hasattr(tensor, "stride") and hasattr(tensor, "element_size"):
            item = tensor.element_size()
            strides = [step * item for step in tensor.stride()]
            return _strided(address, tensor.shape, item, strides)
        nbytes = tensor.nbytes
        return address, nbytes() if callable(nbytes) else nbytes
    except AttributeError:
        raise TypeError(f"{type(tensor).__name__} is no tensor: it has neither data_ptr() and"
                        " nbytes, nor __cuda_array_interface__") from None


def _strided(address: int, shape: Any, item: int, strides: Any) -> Tuple[int, int]:
    """Steps may be negative: the first element is then not the lowest. None: without gaps."""
    if strides is None:
        size = item
        for count in shape:
            size *= count
        return address, size
    if 0 in shape:
        return address, 0
    reaches = [(count - 1) * step for count, step in zip(shape, strides)]
    below = sum(reach for reach in reaches if reach < 0)
    return address + below, sum(map(abs, reaches)) + item
