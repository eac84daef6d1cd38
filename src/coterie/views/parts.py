"""Functions of rows, or of columns, taken part by part on several threads, with the same answer for any number of them.

Tensors and CSR arrays are one part: a GPU works on all rows at once, and SciPy takes parts of sparse rows slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from coterie.kernels import kernels_of
from coterie.threads import in_order
from coterie.views.steps import Table

# Numbers of a part of the rows: it fits the cache together with what is made of it.
PART_NUMBERS = 2**18

# Columns of a part. Wide enough to be read in whole cache lines, and narrow enough for a sample's rows to stay in the
# cache while several statistics are taken of them.
PART_COLUMNS = 64


def is_one_part(rows: Table) -> bool:
    """Whether rows are processed all at once: tensors and CSR arrays."""
    return sparse.issparse(rows) or kernels_of(rows).BATCHED


def row_parts(shape: tuple[int, ...]) -> list[slice]:
    """Return the parts of rows that threads work on.

    Examples
    --------
    >>> row_parts((5000, 100))
    [slice(0, 2560, None), slice(2560, 5120, None)]
    """
    n, d = shape
    size = max(PART_NUMBERS // max(d, 1) // PART_COLUMNS, 1) * PART_COLUMNS
    return [slice(start, start + size) for start in range(0, max(n, 1), size)]


def by_rows(function: Callable[[Table], Any], rows: Table, n_threads: int) -> Any:
    """Return ``function`` of rows, which takes them one by one and returns an array or a CSR array with as many."""
    if is_one_part(rows):
        return function(rows)
    parts = list(in_order(lambda part: function(rows[part]), row_parts(rows.shape), n_threads))
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def by_columns(function: Callable[..., Any], rows: Table, n_threads: int, *beside: np.ndarray) -> Any:
    """Return ``function`` of rows, which takes their columns one by one and returns numbers for each (... x d).

    Its further arguments are the same columns of the arrays ``beside`` the rows.
    """
    if is_one_part(rows):
        return function(rows, *beside)

    def part(start: int) -> Any:
        some = slice(start, start + PART_COLUMNS)
        return function(np.ascontiguousarray(rows[:, some]), *[own[..., some] for own in beside])

    parts = in_order(part, range(0, max(rows.shape[1], 1), PART_COLUMNS), n_threads)
    return np.concatenate(list(parts), axis=-1)
