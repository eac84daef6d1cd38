"""A raw row of one view -> the row that distances are measured on.

The same map serves the rows of the fit and new rows. It is fitted on a sample, and is a handful of vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

# A NumPy array or a SciPy CSR array; SciPy has no types to say so.
Table: TypeAlias = Any

SCALINGS = ("block", "half", "standard", "none")
METRICS = ("euclidean", "cosine")

# How much of a column's standard deviation is divided out.
EXPONENT = {"none": 0.0, "block": 0.0, "half": 0.5, "standard": 1.0}


@dataclass(frozen=True)
class Preparation:
    """The map of one view: ``(x - center) * scale``, unit rows if asked for, then one factor."""

    center: np.ndarray | None  # (d,) float64; None for sparse input, whose distances need no centring
    scale: np.ndarray | None  # (d,) float64; None: all ones
    unit_rows: bool  # cosine distance is Euclidean distance between rows of unit length
    factor: float
    dtype: np.dtype

    def __call__(self, data: Table) -> Table:
        """Return prepared rows in the working precision; the input is left as it is."""
        if sparse.issparse(data):
            return self._prepare_sparse(data)
        wide = (data.dtype.kind == "f" and data.dtype.itemsize > 4) or data.dtype.itemsize > 2
        working = np.float64 if wide and data.dtype != np.float32 else self.dtype
        rows = data.astype(working)  # (b, d), a copy
        if self.center is not None:
            rows -= self.center.astype(working)
        if self.scale is not None:
            rows *= self.scale.astype(working)
        if self.unit_rows:
            lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))  # (b,)
            rows *= (self.factor / np.where(lengths > 0, lengths, 1))[:, None].astype(working)
        else:
            rows *= working(self.factor) if working is np.float64 else self.dtype.type(self.factor)
        return np.ascontiguousarray(rows, dtype=self.dtype)

    def _prepare_sparse(self, data: sparse.csr_array) -> sparse.csr_array:
        values = data.data.astype(np.float64)  # (entries,), a copy
        if self.scale is not None:
            values *= self.scale[data.indices]
        rows = sparse.csr_array((values, data.indices, data.indptr), shape=data.shape)
        if self.unit_rows:
            lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())  # (b,)
            values /= np.repeat(np.where(lengths > 0, lengths, 1), np.diff(data.indptr))
        values *= self.factor
        return sparse.csr_array((values.astype(self.dtype), data.indices, data.indptr), shape=data.shape)


@dataclass(frozen=True)
class ColumnMoments:
    """Mean and standard deviation of every column of a sample."""

    mean: np.ndarray  # (d,)
    std: np.ndarray  # (d,)


def column_moments(data: Table) -> ColumnMoments:
    """Return the columns' means and standard deviations, in float64."""
    n = data.shape[0]
    if sparse.issparse(data):
        mean = np.asarray(data.sum(axis=0, dtype=np.float64)).ravel() / n  # (d,)
        squares = data.astype(np.float64)
        squares.data **= 2
        variance = np.asarray(squares.sum(axis=0)).ravel() / n - mean**2
    else:
        mean = data.mean(axis=0, dtype=np.float64)
        variance = data.var(axis=0, dtype=np.float64, mean=mean[None, :])
    return ColumnMoments(mean, np.sqrt(np.maximum(variance, 0)))


def prepare(sample: Table, *, scaling: str, metric: str, dtype: Any) -> Preparation:
    """Fit the preparation of one view to a sample of its rows.

    Columns that are constant in the sample keep their scale: centring removes them. With ``scaling="none"`` the
    factor is 1; otherwise prepared rows have unit mean squared distance from their mean.
    """
    moments = column_moments(sample)
    exponent = EXPONENT[scaling]
    scale = None
    if exponent:
        varying = moments.std > 1e-7 * np.maximum(np.abs(moments.mean), np.finfo(np.float32).tiny)
        scale = np.where(varying, moments.std, 1.0) ** -exponent  # (d,)
        scale[~varying] = 0.0
    centred = not sparse.issparse(sample) and metric == "euclidean"
    plain = Preparation(
        center=moments.mean if centred else None,
        scale=scale,
        unit_rows=metric == "cosine",
        factor=1.0,
        dtype=np.dtype(dtype),
    )
    if scaling == "none":
        return plain
    return with_factor(plain, 1.0 / spread(plain, sample, moments))


def with_factor(preparation: Preparation, factor: float) -> Preparation:
    """Return the same preparation with its factor multiplied."""
    return Preparation(
        center=preparation.center,
        scale=preparation.scale,
        unit_rows=preparation.unit_rows,
        factor=preparation.factor * factor,
        dtype=preparation.dtype,
    )


def spread(preparation: Preparation, sample: Table, moments: ColumnMoments) -> float:
    """Return the root mean squared distance of prepared rows from their mean; 1 where they are all alike."""
    if preparation.unit_rows:
        prepared = column_moments(preparation(sample))
        total = float(np.sum(prepared.std**2))
    else:
        std = moments.std if preparation.scale is None else moments.std * preparation.scale
        # The largest one first: squares of 1e-30 would vanish.
        peak = float(std.max(initial=0.0))
        return peak * float(np.sqrt(np.sum((std / peak) ** 2))) if peak > 0 else 1.0
    return float(np.sqrt(total)) if total > 0 else 1.0
