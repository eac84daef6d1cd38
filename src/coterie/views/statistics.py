"""Statistics of the columns of a view, in float64: each column's own, whatever columns are beside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from coterie.arrays import array_namespace, convert, like, power_of_two, precision_of, stack, to_host
from coterie.kernels import kernels_of
from coterie.views.parts import by_columns, is_one_part
from coterie.views.steps import Columns, Table

# A column whose standard deviation is below this share of its largest value varies by rounding alone.
RELATIVE_ROUNDING = {2: 1e-3, 4: 3e-7, 8: 1e-13}  # by bytes of a float
WHOLE_ROUNDING = 1e-15  # whole numbers are exact; sums of them are float64

# Columns whose largest value is above this, or below its inverse, are rescaled before they are squared.
SQUARED_SAFELY = 1e100
COMMON = 0.01  # share of the rows from which on a column's value is more than an odd one
FIRST_ROWS = 64  # in which nearly all columns of more than two values show a third one
LEAST_RANGE = 1e-305  # of a column that can be scaled: the inverse of less is infinite, or nearly so


@dataclass(frozen=True)
class ColumnEnds:
    """The ends of every column of a sample, and how many of its values are not zero, or below it."""

    low: np.ndarray  # (d,)
    high: np.ndarray  # (d,)
    nonzeros: np.ndarray  # (d,)
    negatives: np.ndarray  # (d,)

    @property
    def peak(self) -> np.ndarray:
        """The largest absolute value of every column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))  # (d,)


@dataclass(frozen=True)
class ColumnMoments(ColumnEnds):
    """Mean and standard deviation of every column of a sample, beside its ends."""

    mean: np.ndarray  # (d,)
    std: np.ndarray  # (d,)

    rounding: float  # relative rounding error of the raw values

    def varies(self) -> np.ndarray:
        """Which columns vary by more than rounding, and enough to be scaled."""
        return self.std > np.maximum(self.rounding * self.peak, LEAST_RANGE)  # (d,)


def column_ends(data: Table, n_threads: int = 1) -> ColumnEnds:
    """Return the columns' ends and counts."""
    return ColumnEnds(*by_columns(ends_of, data, n_threads))


def column_moments(data: Table, rounding: float | None = None, n_threads: int = 1) -> ColumnMoments:
    """Return the columns' moments; ``rounding`` is that of the raw values that ``data`` was made from."""
    if rounding is None:
        rounding = rounding_of(data)
    low, high, nonzeros, negatives, mean, std = by_columns(moments_of, data, n_threads)  # (d,) each
    return ColumnMoments(low, high, nonzeros, negatives, mean, std, rounding)


def ends_of(data: Table) -> np.ndarray:
    """Return low, high, nonzeros and negatives of every column (4 x d)."""
    if not is_one_part(data):
        return np.stack(kernels_of(data).column_ends(data))
    if sparse.issparse(data):
        ends = [np.asarray(end.todense()).ravel() for end in (data.min(axis=0), data.max(axis=0))]
        counts = [np.bincount(data.indices[some], minlength=data.shape[1]) for some in (data.data != 0, data.data < 0)]
        return np.stack([*ends, *counts]).astype(np.float64)
    xp = array_namespace(data)
    found = (xp.min(data, axis=0), xp.max(data, axis=0), xp.sum(data != 0, axis=0), xp.sum(data < 0, axis=0))
    # In float64: |-128| does not fit into int8. In one copy, because each waits for the device.
    return to_host(stack([convert(part, "float64") for part in found]))


def moments_of(data: Table) -> np.ndarray:
    """Return low, high, nonzeros, negatives, mean and standard deviation of every column (6 x d)."""
    found = ends_of(data)  # (4, d)
    ends = ColumnEnds(*found)
    far = (ends.peak > 0) & ((ends.peak < 1 / SQUARED_SAFELY) | (ends.peak > SQUARED_SAFELY))
    unit = np.where(far, power_of_two(np.maximum(ends.peak, np.finfo(float).tiny)), 1.0)  # (d,)
    if far.any():
        data = Columns(None, 1 / unit)(convert(data, np.float64))
    mean, std = kernels_of(data).column_mean_and_std(data)  # (d,), (d,)
    # The rounded mean of equal values may differ from them, and at 1e67 the difference would not be small.
    return np.vstack([found, np.clip(unit * mean, ends.low, ends.high), unit * std])


def column_tails(data: np.ndarray, moments: ColumnMoments, n_threads: int = 1) -> np.ndarray:
    """Return the skewness and the kurtosis of every column that varies (2 x varying)."""
    varies = moments.varies()
    scale = np.where(varies, 1 / np.where(varies, moments.std, 1.0), 0.0)  # (d,)
    if not is_one_part(data):
        tails = kernels_of(data).column_tails
        found = by_columns(lambda *part: np.stack(tails(*part)), data, n_threads, moments.mean, scale)
        return found[:, varies]
    xp = array_namespace(data)
    gaps = convert((data - like(moments.mean, data)) * like(scale, data), "float32")  # (n, d)
    squares = gaps * gaps
    return to_host(stack([xp.mean(part, axis=0) for part in (squares * gaps, squares * squares)]))[:, varies]


def rarer_share(data: np.ndarray, moments: ColumnMoments, n_threads: int = 1) -> np.ndarray:
    """Return the share of rows with the rarer value of every column that has two values; 0 for other columns."""
    found, share = moments.low < moments.high, np.zeros(len(moments.low))  # (d,), (d,)
    for rows in (data[:FIRST_ROWS], data):
        some = np.flatnonzero(found)
        if not len(some):
            break
        low, high = by_columns(count_ends, rows[:, some], n_threads, moments.low[some], moments.high[some])  # (s,) each
        found[some] = low + high == len(rows)
        share[some] = np.minimum(low, high) / len(rows)
    return np.where(found, share, 0.0)  # (d,)


def count_ends(data: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return how many rows of every column have its lowest value, and how many its highest (2 x d)."""
    xp = array_namespace(data)
    values = convert(data, "float64")
    return to_host(stack([xp.sum(values == like(end, values), axis=0) for end in (low, high)]))


def rounding_of(data: Table) -> float:
    """Return the relative error of a table's values: that of its type."""
    if "float" not in precision_of(data):
        return WHOLE_ROUNDING
    return RELATIVE_ROUNDING.get(data.dtype.itemsize, RELATIVE_ROUNDING[8])
