"""The kernels for NumPy arrays: BLAS for products, numba for everything that is not a product."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from coterie.kernels import _numba

# Graphs are solved one by one, on several threads.
BATCHED = False


def zeros(shape: tuple[int, ...], like: np.ndarray) -> np.ndarray:
    """Return float64 zeros where ``like`` is."""
    return np.zeros(shape)


def finish_distances(products: np.ndarray, row_norms: np.ndarray, landmark_norms: np.ndarray) -> np.ndarray:
    """Turn products x.m into squared distances, in place."""
    _numba.finish_distances(products, row_norms, landmark_norms)
    return products


def whole_distances(distances: list[np.ndarray], likeness: np.ndarray) -> np.ndarray:
    """Return squared distances over all views where some are lacking; see ``_numba.whole_distances``."""
    total = np.empty_like(distances[0])
    _numba.whole_distances(np.stack(distances), likeness, total)
    return total  # (b, p)


def smallest(distances: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where each row's q smallest distances are, in ascending order, and what they are."""
    n, p = distances.shape
    indices = np.empty((n, q), dtype=np.uint16 if p <= 2**16 else np.uint32)
    values = np.empty((n, q), dtype=distances.dtype)
    _numba.smallest(distances, indices, values)
    return indices, values


def gaussian(squares: np.ndarray, bandwidth: float) -> np.ndarray:
    """Return exp(-d^2 / 2 sigma^2), each row summing to one (the paper's Eq. (1)); see ``_numba.gaussian``."""
    weights = np.empty_like(squares)
    _numba.gaussian(squares, bandwidth, weights)
    return weights


def arrange(indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put each graph's neighbours in the order of the landmarks, in place: what they add to then lies side by side."""
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
    _numba.project(indices, weights, bounds, bases, unit, stacked)
    return stacked


def embed(
    indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray, bases: np.ndarray, rotation: np.ndarray | None
) -> np.ndarray:
    """Return u*_i = sum_g e^g_i R^g, each e^g_i of length one; without ``rotation`` sum_g sum_j z^g_ij B^g[j]."""
    if rotation is not None:
        stacked = project(indices, weights, bounds, bases, True)  # (b, G r)
        return row_product(stacked, rotation.reshape(-1, rotation.shape[2]))  # (b, k)
    rows = np.empty((len(indices), bases.shape[2]), dtype=bases.dtype)
    _numba.embed(indices, weights, bounds, bases, rows)
    return rows  # (b, k)


def row_product(rows: np.ndarray, columns: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return ``rows @ columns``, rounded for a lone row as for one of many: BLAS takes another path for it."""
    if len(rows) == 1:
        return (np.repeat(rows, 2, axis=0) @ columns)[:1]
    return np.matmul(rows, columns, out=out)


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
    _numba.guide(indices, weights, bounds, embed(indices, weights, bounds, bases, rotation), anchors, guided)
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
    _numba.assign(embedding, centroids, labels, nearest, second)
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
