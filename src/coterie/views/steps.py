"""The steps that prepare the raw rows of a view: each is a function of one row and a few vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from coterie.arrays import array_namespace, convert, like, precision_of, squared_norms, to_host
from coterie.kernels import kernels_of

# A NumPy array or a SciPy CSR array; SciPy has no static types for this.
Table: TypeAlias = Any


@dataclass(frozen=True)
class Sparsify:
    """Convert a table of mostly zeros to CSR."""

    def __call__(self, rows: Table) -> Table:
        return sparse.csr_array(to_host(rows))


@dataclass(frozen=True)
class Densify:
    """Convert CSR to an array, for views that are not sparse enough for CSR to be faster."""

    def __call__(self, rows: Table) -> Table:
        return dense(rows)


def dense(rows: Table) -> Table:
    """Return CSR as an array, and other rows as they are."""
    return rows.toarray() if sparse.issparse(rows) else rows


@dataclass(frozen=True)
class CommonTotal:
    """Scale every row to the same sum: how many counts were taken of a sample is not a property of the sample."""

    total: float

    def __call__(self, rows: Table) -> np.ndarray:
        rows = dense(rows)
        xp = array_namespace(rows)
        # In float64: the sum of values that float32 can hold may overflow it.
        sums = xp.sum(rows, axis=1, keepdims=True, dtype=xp.float64)  # (b, 1)
        return rows * convert(self.total / xp.where(sums > 0, sums, self.total), precision_of(rows))


@dataclass(frozen=True)
class LogScale:
    """sign(x) log(1 + |x| / unit)."""

    unit: float

    def __call__(self, rows: Table) -> Table:
        if sparse.issparse(rows):
            values = np.sign(rows.data) * np.log1p(np.abs(rows.data) / self.unit)
            return sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
        xp = array_namespace(rows)
        return xp.sign(rows) * xp.log1p(xp.abs(rows) / like(self.unit, rows))


@dataclass(frozen=True)
class Clip:
    """Clip every column to its bounds."""

    low: np.ndarray  # (d,)
    high: np.ndarray  # (d,)

    def __call__(self, rows: Table) -> np.ndarray:
        rows = dense(rows)
        return array_namespace(rows).clip(rows, like(self.low, rows), like(self.high, rows))


@dataclass(frozen=True)
class Columns:
    """(x - center) * scale, column by column; columns of scale 0 become zero, so that distances ignore them."""

    center: np.ndarray | None  # (d,); None if fitted to sparse rows: centring all rows does not change distances
    scale: np.ndarray | None  # (d,); None: all ones

    def __call__(self, rows: Table) -> Table:
        if self.center is not None:
            rows = dense(rows)  # the landmarks are centred, so sparse rows must be too
        if sparse.issparse(rows):
            if self.scale is None:
                return rows
            values = rows.data * self.scale.astype(rows.dtype)[rows.indices]
            return sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
        precision = np.dtype(precision_of(rows))
        return self.level(rows, precision, precision)

    def level(self, rows: np.ndarray, working: np.dtype, out: np.dtype, factor: float = 1.0) -> np.ndarray:
        """Return an array's scaled rows times ``factor``, computed in precision ``working`` and stored in ``out``.

        Values of common types are converted in the same pass.
        """
        center = np.zeros(rows.shape[1]) if self.center is None else self.center
        scale = np.ones(rows.shape[1]) if self.scale is None else self.scale
        return kernels_of(rows).level(rows, like(center, rows, working), like(factor * scale, rows, working), out)


@dataclass(frozen=True)
class UnitRows:
    """Scale every row to length one: distances between such rows are cosine distances."""

    def __call__(self, rows: Table) -> Table:
        if sparse.issparse(rows):
            peaks = np.asarray(abs(rows).max(axis=1).todense()).ravel()  # (b,)
        else:
            xp = array_namespace(rows)
            peaks = xp.max(xp.abs(rows), axis=1)
        rows = scale_rows(rows, peaks)  # or the squares of 1e30 and 1e-30 would leave the range of float32
        return scale_rows(rows, squared_norms(rows) ** 0.5)


def scale_rows(rows: Table, lengths: np.ndarray) -> Table:
    """Return the rows divided by the given lengths; rows of length zero stay as they are."""
    lengths = array_namespace(lengths).where(lengths > 0, lengths, 1)  # (b,)
    if sparse.issparse(rows):
        lengths = lengths.astype(rows.dtype)
        values = rows.data / np.repeat(lengths, np.diff(rows.indptr))
        return sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    return rows / lengths[:, None]  # in the rows' own precision: lengths come from them


@dataclass(frozen=True)
class Project:
    """Project rows on the directions in which the sample varies most."""

    directions: np.ndarray  # (d, r), in the working precision

    def __call__(self, rows: Table) -> np.ndarray:
        return convert(rows, self.directions.dtype) @ like(self.directions, rows, self.directions.dtype)  # (b, r)


@dataclass(frozen=True)
class Diffuse:
    """Replace a node's links by the end points of random walks of one to four steps, as roots of their summed shares.

    Nodes with similar neighbourhoods get similar rows.
    """

    transition: sparse.csr_array  # (n, n) of the graph of the fit

    def __call__(self, rows: Table) -> Table:
        walk = sparse.csr_array(to_host(rows), dtype=np.float64)
        sums = np.asarray(walk.sum(axis=1)).ravel()
        walk = sparse.diags_array(1 / np.where(sums > 0, sums, 1)) @ walk  # (b, n)
        ends = walk
        for _ in range(3):
            walk = walk @ self.transition
            ends = ends + walk
        return sparse.csr_array(ends).sqrt()


Step: TypeAlias = Sparsify | Densify | CommonTotal | LogScale | Clip | Columns | UnitRows | Project | Diffuse


def apply_steps(steps: Sequence[Step], rows: Table) -> Table:
    """Return the rows after all steps, in order."""
    for step in steps:
        rows = step(rows)
    return rows
