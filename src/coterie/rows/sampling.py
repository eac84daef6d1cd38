"""Some of very many rows, brought to one place: what all have in common, they show as well."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from coterie.kernels import is_tensor
from coterie.rows import Rows
from coterie.rows.blocks import array_of, count_rows, pick
from coterie.rows.memory import MemoryRows
from coterie.rows.torch import TorchRows

BLOCKS = 64  # of as many rows, for all threads


def draw_sample(n_rows: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return row numbers, ascending: all of them where they are few."""
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, size, replace=False))


def sample_rows(rows: Rows, size: int, rng: np.random.Generator, n_threads: int) -> Rows:
    """Return the rows themselves where they are few, else a sample of them, in memory or on the GPU that they are on.

    Examples
    --------
    >>> import numpy as np
    >>> rows = MemoryRows([np.arange(50), np.arange(50, 80)], n_rows=80, n_threads=1)
    >>> some = sample_rows(rows, 20, np.random.default_rng(0), n_threads=1)
    >>> some.n_rows, len(set(some.collect(lambda block: block)))
    (20, 20)
    """
    if rows.n_rows <= size:
        return rows
    known = rows.take(draw_sample(rows.n_rows, size, rng))
    if is_tensor(array_of(known)):
        return TorchRows([known], n_rows=count_rows(known))
    edges = np.linspace(0, size, min(BLOCKS, size) + 1).astype(int)
    blocks = [pick(known, slice(start, stop)) for start, stop in pairwise(edges)]
    return MemoryRows(blocks, n_rows=size, n_threads=n_threads)
