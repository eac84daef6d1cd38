"""The kernels for NumPy arrays: BLAS for products, numba for everything that is not a product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from coterie.kernels import _numba
from coterie.kernels._vectors import LANES

# Graphs are solved one by one, on several threads.
BATCHED = False

# Rows whose places in all graphs are worked on at once.
FEW_ROWS = 512


def zeros(shape: tuple[int, ...], like: np.ndarray) -> np.ndarray:
    """Return float64 zeros where ``like`` is."""
    return np.zeros(shape)


def finish_distances(products: np.ndarray, row_norms: np.ndarray, landmark_norms: np.ndarray) -> np.ndarray:
    """Turn products x.m into squared distances, in place."""
    _numba.finish_distances(products, row_norms, landmark_norms)
    return products


def whole_distances(distances: np.ndarray, likeness: np.ndarray) -> np.ndarray:
    """Return squared distances over all views where some are lacking; see ``_numba.whole_distances``."""
    total = np.empty_like(distances[0])
    _numba.whole_distances(distances, likeness, total)
    return total  # (b, p)


def smallest(distances: np.ndarray, scales: Sequence[int]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return each row's q nearest landmarks by the sum of distances (V, b, p), in the order of the landmarks.

    There is a pair of landmarks and distances (b, q) for every q of ``scales``.
    """
    _, n, p = distances.shape
    indices, values = new_neighbours(n, sum(scales), p, distances)
    _numba.smallest(np.ascontiguousarray(distances), np.array(scales), indices, values)
    stops = accumulate(scales)
    return [(indices[:, stop - q : stop], values[:, stop - q : stop]) for q, stop in zip(scales, stops, strict=True)]


def new_neighbours(n_rows: int, n_neighbours: int, n_landmarks: int, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return room for landmarks' numbers and something else in the precision of ``like``."""
    index_type = np.uint16 if n_landmarks <= 2**16 else np.uint32
    return np.empty((n_rows, n_neighbours), index_type), np.empty((n_rows, n_neighbours), like.dtype)


def gaussian(squares: np.ndarray, bounds: np.ndarray, bandwidths: Sequence[float]) -> np.ndarray:
    """Turn squared distances into exp(-d^2 / 2 sigma^2), each graph's summing to one (the paper's Eq. (1)), in place.

    A bandwidth of 0 is the row's own; see ``_numba.gaussian_exponents``.
    """
    _numba.gaussian_exponents(squares, bounds, np.array(bandwidths, dtype=np.float64))
    with np.errstate(under="ignore"):
        np.exp(squares, out=squares)  # NumPy's works on several numbers at once
    _numba.unit_sums(squares, bounds)
    return squares


def in_order_of_landmarks(
    indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Put each graph's neighbours in the order that :func:`smallest` gives them, in place, if others found them."""
    for start, stop in pairwise(bounds):
        _numba.sort_neighbours(indices[:, start:stop], weights[:, start:stop])
    return indices, weights


def new_gram(n_landmarks: int, like: np.ndarray) -> np.ndarray:
    """Return zeros that :func:`gram` adds to."""
    return np.zeros(n_landmarks * (n_landmarks + 1) // 2)  # a triangle: half as much to add up, and to send


def gram(indices: np.ndarray, weights: np.ndarray, total: np.ndarray) -> None:
    """Add sum_i z_i z_i^T of one graph, its neighbours sorted, to ``total``: the lower triangle, row by row."""
    _numba.gram(indices, weights, total)


def finish_gram(total: np.ndarray) -> np.ndarray:
    """Return the whole symmetric matrix of sums."""
    p = (math.isqrt(8 * len(total) + 1) - 1) // 2
    whole = np.empty((p, p))
    _numba.mirror(total, whole)
    return whole


def project(indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray, bases: np.ndarray, unit: bool) -> np.ndarray:
    """Return [e^1_i .. e^G_i]: every graph's own basis, side by side."""
    n_graphs, _, r = bases.shape
    stacked = np.empty((len(indices), n_graphs * r), dtype=bases.dtype)
    indices, weights = np.ascontiguousarray(indices), np.ascontiguousarray(weights)
    _numba.project(indices, weights, bounds, widened(bases), unit, stacked)
    return stacked


def embed(
    indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray, bases: np.ndarray, rotation: np.ndarray | None
) -> np.ndarray:
    """Return u*_i = sum_g e^g_i R^g, each e^g_i of length one; without ``rotation`` sum_g sum_j z^g_ij B^g[j]."""
    indices, weights, wide = np.ascontiguousarray(indices), np.ascontiguousarray(weights), widened(bases)
    if rotation is None:
        rows = np.empty((len(indices), bases.shape[2]), dtype=bases.dtype)
        _numba.embed(indices, weights, bounds, wide, rows)
        return rows  # (b, k)
    flat = rotation.reshape(-1, rotation.shape[2])  # (G r, k)
    rows = np.empty((len(indices), flat.shape[1]), dtype=bases.dtype)
    for start in range(0, len(rows), FEW_ROWS):  # what is in between stays in the cache
        some = slice(start, start + FEW_ROWS)
        stacked = np.empty((len(rows[some]), len(flat)), dtype=bases.dtype)
        _numba.project(indices[some], weights[some], bounds, wide, True, stacked)
        row_product(stacked, flat, rows[some])
    return rows  # (b, k)


def widened(tables: np.ndarray) -> np.ndarray:
    """Return tables with columns of zeros after their own, as many as can be added at once."""
    *shape, width = tables.shape
    wide = np.zeros((*shape, -(-width // LANES) * LANES), dtype=tables.dtype)
    wide[..., :width] = tables
    return wide


def row_product(rows: np.ndarray, columns: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return ``rows @ columns``, rounded for a lone row as for one of many: BLAS takes another path for it."""
    if len(rows) != 1:
        return np.matmul(rows, columns, out=out)
    product = (np.repeat(rows, 2, axis=0) @ columns)[:1]
    if out is None:
        return product
    out[:] = product
    return out


def guide(
    indices: np.ndarray,
    weights: np.ndarray,
    bounds: np.ndarray,
    bases: np.ndarray,
    rotation: np.ndarray | None,
    anchors: np.ndarray,
) -> np.ndarray:
    """Return Z <- A* (Hadamard) Z, rows of each graph summing to one again, with A*_ij = u*_i . anchor_j."""
    guided = np.empty_like(weights)
    embedding = embed(indices, weights, bounds, bases, rotation)  # (b, k)
    _numba.guide(indices, weights, bounds, embedding, widened(anchors), guided)
    return guided


def known_graphs(weights: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return 1 where a graph knows a row, and 0 where the row lacks its view."""
    known = np.empty((len(weights), len(bounds) - 1), dtype=weights.dtype)
    _numba.known_graphs(weights, bounds, known)
    return known  # (b, G)


def add_powers(rows: np.ndarray, squares: np.ndarray, fourths: np.ndarray) -> None:
    """Add sum_i e_i^2 and sum_i e_i^4 of every column."""
    _numba.add_powers(rows, squares, fourths)


def add_outer(rows: np.ndarray, total: np.ndarray) -> None:
    """Add sum_i e_i e_i^T to ``total``."""
    total += rows.T @ rows


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Divide every row by its length, in place; a row of zeros stays as it is."""
    _numba.unit_rows(rows)
    return rows


def assign(embedding: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each row's nearest centroid, and the squared distances to the two nearest ones."""
    labels = np.empty(len(embedding), dtype=np.int32)
    nearest, second = np.empty((2, len(embedding)))
    columns = widened(centroids.T.astype(embedding.dtype))  # (d, width)
    _numba.assign(np.ascontiguousarray(embedding), columns, len(centroids), labels, nearest, second)
    return labels, nearest, second


def add_groups(rows: np.ndarray, labels: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> None:
    """Add every row to its group's ``sums`` (groups x d) and ``counts``."""
    _numba.add_groups(rows, labels, sums, counts)


def nearest_in_group(rows: np.ndarray, labels: np.ndarray, means: np.ndarray, slack: float) -> np.ndarray:
    """Return for every group the member nearest to its mean; see :func:`least_in_group`."""
    gaps = np.empty(len(rows))
    _numba.distance_to_group(rows, labels, means, gaps)
    return least_in_group(gaps, labels, len(means), slack)


def least_in_group(values: np.ndarray, labels: np.ndarray, n_groups: int, slack: float = 0.0) -> np.ndarray:
    """Return for every group the member with the least value, -1 for an empty group.

    It is the first one among those that exceed the least by no more than this share of it.
    """
    least = np.full(n_groups, np.inf)
    np.minimum.at(least, labels, values)
    able = np.flatnonzero(values <= least[labels] * (1 + slack))
    found = np.full(n_groups, -1)
    found[labels[able[::-1]]] = able[::-1]  # the first of them is written last
    return found  # (groups,)


def level(rows: np.ndarray, center: np.ndarray, scale: np.ndarray, out: np.dtype) -> np.ndarray:
    """Return (x - center) * scale, column by column, of values of any type."""
    found = np.empty(rows.shape, dtype=out)
    _numba.level(rows, center, scale, found)
    return found
