"""vrampool, as seen from a program that runs under it.

A program needs none of this: `vrampool run -- python train.py` puts the pool under it unchanged.
This is for one that wants to look (`stats`) or to give hints (`prefetch`, `advise`):

    import vrampool
    if vrampool.is_active():
        vrampool.prefetch(layer.weight)

`python -m vrampool` is the command itself."""
from vrampool._pool import Error, advise, is_active, prefetch, stats

__all__ = ["Error", "advise", "is_active", "prefetch", "stats"]
