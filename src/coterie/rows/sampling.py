"""A random sample of very many rows, in memory or on one device."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from coterie.kernels import is_tensor
from coterie.rows import Rows
from coterie.rows.blocks import block_length, first_array, select_rows
from coterie.rows.memory import MemoryRows
from coterie.rows.torch import TorchRows

SAMPLE_BLOCKS = 64  # enough for all threads


def draw_sample(n_rows: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return the numbers of a random sample of rows, ascending; all rows if there are no more than ``size``."""
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, size, replace=False))


def sample_rows(rows: Rows, size: int, rng: np.random.Generator, n_threads: int) -> Rows:
    """Return a sample of the rows, in memory or on their device; the rows themselves if there are no more.

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
    if is_tensor(first_array(known)):
        return TorchRows([known], n_rows=block_length(known))
    edges = np.linspace(0, size, min(SAMPLE_BLOCKS, size) + 1).astype(int)
    blocks = [select_rows(known, slice(start, stop)) for start, stop in pairwise(edges)]
    return MemoryRows(blocks, n_rows=size, n_threads=n_threads)
