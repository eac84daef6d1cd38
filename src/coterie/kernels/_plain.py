"""The loops that new rows go through, in NumPy: for a few rows, where importing numba would take most of the time.

Each function does what its namesake in :mod:`coterie.kernels._numba` does, and writes to the same arrays. Neighbours
are the same. Sums are rounded differently: compiled loops add in the precision of the rows, in an order that suits the
processor, and these functions add in float64. So embeddings differ in the last digits of a float32.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np


def level(data: np.ndarray, center: np.ndarray, scale: np.ndarray, rows: np.ndarray) -> None:
    """Write (x - center) * scale to ``rows``."""
    rows[:] = (data - center) * scale


def row_sums(data: np.ndarray, sums: np.ndarray) -> None:
    """Write every row's sum to ``sums``."""
    data.sum(axis=1, dtype=np.float64, out=sums)


def finish_distances(products: np.ndarray, row_norms: np.ndarray, landmark_norms: np.ndarray) -> None:
    """Turn products into squared distances, in place."""
    products[:] = np.maximum((row_norms[:, None] - products) + (landmark_norms - products), 0)


def impute_distances(distances: np.ndarray, likeness: np.ndarray, total: np.ndarray) -> None:
    """Write squared distances over all views to ``total``, the missing ones imputed."""
    known = np.isfinite(distances)  # (V, b, p)
    mean, loading, weight, certainty = (likeness[:, column, None, None] for column in range(4))  # (V, 1, 1) each
    seen = np.where(known, distances, 0)
    evidence = (np.where(known, distances - mean, 0) * weight).sum(axis=0)  # (b, p)
    expected, slope = np.where(known, 0, mean).sum(axis=0), np.where(known, 0, loading).sum(axis=0)
    imputed = np.maximum(expected + slope * (evidence / (1 + np.where(known, certainty, 0).sum(axis=0))), 0)
    total[:] = np.where(known.any(axis=0), seen.sum(axis=0) + imputed, np.inf)


def smallest(
    distances: np.ndarray,
    row_norms: np.ndarray,
    landmark_norms: np.ndarray,
    scales: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
) -> None:
    """Write each row's q nearest landmarks, for every q of ``scales``, to ``indices`` and ``values``."""
    if len(row_norms):  # these are products yet
        finish_distances(distances[0], row_norms, landmark_norms)
    total = distances[0]
    for own in distances[1:]:
        total = total + own  # (b, p)
    order = np.argsort(total, axis=1, kind="stable")  # among equal distances the first landmark wins
    for stop, q in zip(np.cumsum(scales), scales, strict=True):
        chosen = np.sort(order[:, :q], axis=1)  # (b, q)
        indices[:, stop - q : stop] = chosen
        values[:, stop - q : stop] = np.take_along_axis(total, chosen, axis=1)


def mark_beyond(squares: np.ndarray, columns: np.ndarray, limits: np.ndarray, beyond: np.ndarray) -> None:
    """Write whether any finite value of each row is beyond the limit of its range of columns."""
    for (start, stop), limit in zip(columns, limits, strict=True):
        own = squares[:, start:stop]  # (b, q)
        beyond |= ((own > limit) & np.isfinite(own)).any(axis=1)


def gaussian_exponents(squares: np.ndarray, bounds: np.ndarray, bandwidths: np.ndarray) -> None:
    """Turn squared distances into exponents of the Gaussian, in place."""
    for (start, stop), bandwidth in zip(pairwise(bounds), bandwidths, strict=True):
        own = squares[:, start:stop].astype(np.float64)  # (b, q)
        known = np.isfinite(own)
        nearest = np.where(known, own, np.inf).min(axis=1, keepdims=True)  # (b, 1)
        lengths = np.sqrt(np.where(known, own, 0)).sum(axis=1, keepdims=True)
        sigma = bandwidth if bandwidth > 0 else lengths / np.maximum(known.sum(axis=1, keepdims=True), 1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            excess = np.where(known, own - nearest, np.inf)
            squares[:, start:stop] = np.where(excess == 0, 0, excess * (-1 / (2 * sigma * sigma)))


def unit_sums(weights: np.ndarray, bounds: np.ndarray) -> None:
    """Make every row's weights sum to one in each graph, in place; a row of zeros stays."""
    for start, stop in pairwise(bounds):
        total = weights[:, start:stop].sum(axis=1, dtype=np.float64, keepdims=True)  # (b, 1)
        weights[:, start:stop] /= np.where(total > 0, total, 1)


def project(
    indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray, bases: np.ndarray, unit: bool, stacked: np.ndarray
) -> None:
    """Write the projections on every graph's basis to ``stacked``, side by side, each of length one if ``unit``."""
    r = stacked.shape[1] // len(bases)
    for g, (start, stop) in enumerate(pairwise(bounds)):
        own = weighted_sum(indices[:, start:stop], weights[:, start:stop], bases[g, :, :r])  # (b, r)
        stacked[:, g * r : (g + 1) * r] = own / lengths(own) if unit else own


def embed(
    indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray, merged: np.ndarray, embedding: np.ndarray
) -> None:
    """Write the projections on the graphs' bases, summed over the graphs, to ``embedding``."""
    k = embedding.shape[1]
    embedding[:] = sum(
        weighted_sum(indices[:, start:stop], weights[:, start:stop], merged[g, :, :k])
        for g, (start, stop) in enumerate(pairwise(bounds))
    )  # (b, k)


def guide(
    indices: np.ndarray,
    weights: np.ndarray,
    bounds: np.ndarray,
    embedding: np.ndarray,
    anchors: np.ndarray,
    guided: np.ndarray,
) -> None:
    """Write guided weights, rows of each graph summing to one again, to ``guided``."""
    near = anchors[indices, : embedding.shape[1]].astype(np.float64)  # (b, Q, k)
    found = weights * np.maximum(np.einsum("bqk,bk->bq", near, embedding), 0)  # (b, Q)
    for start, stop in pairwise(bounds):
        total = found[:, start:stop].sum(axis=1, keepdims=True)  # (b, 1)
        some = total > 0
        guided[:, start:stop] = np.where(some, found[:, start:stop] / np.where(some, total, 1), weights[:, start:stop])


def unit_rows(embedding: np.ndarray) -> None:
    """Divide every row by its length, in place; a row of zeros stays."""
    embedding /= lengths(embedding)


def assign(
    embedding: np.ndarray, columns: np.ndarray, k: int, labels: np.ndarray, nearest: np.ndarray, second: np.ndarray
) -> None:
    """Write each row's nearest centroid, and the squared distances to the two nearest ones."""
    gaps = embedding[:, :, None].astype(np.float64) - columns[:, :k]  # (b, c, k)
    squares = (gaps**2).sum(axis=1)  # (b, k)
    labels[:] = squares.argmin(axis=1)
    two = np.sort(squares, axis=1)[:, :2]
    nearest[:], second[:] = two[:, 0], two[:, 1] if k > 1 else np.inf


def zero_rows(rows: np.ndarray, zero: np.ndarray) -> None:
    """Write which rows are zero."""
    zero[:] = ~rows.any(axis=1)


def confidence(nearest: np.ndarray, second: np.ndarray, zero: np.ndarray, found: np.ndarray) -> None:
    """Write 1 - d / d', given the squared distances to the two nearest centroids."""
    away = second > 0
    found[:] = np.where(zero, 0, 1 - np.sqrt(np.where(away, nearest / np.where(away, second, 1), 0)))


def assign_from(
    products: np.ndarray,
    rows: np.ndarray,
    centroids: np.ndarray,
    norms: np.ndarray,
    labels: np.ndarray,
    nearest: np.ndarray,
    second: np.ndarray,
) -> None:
    """Do what :func:`assign` does: for a few rows all distances are computed directly."""
    assign(rows, centroids.T, len(norms), labels, nearest, second)


def weighted_sum(indices: np.ndarray, weights: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return sum_j z_ij T[j] for every row, in float64."""
    return np.einsum("bq,bqr->br", weights.astype(np.float64), table[indices])  # (b, r)


def lengths(rows: np.ndarray) -> np.ndarray:
    """Return the rows' lengths as a column; 1 for a row of zeros."""
    found = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1, keepdims=True))  # (b, 1)
    return np.where(found > 0, found, 1)
