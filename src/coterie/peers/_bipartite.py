"""Bipartite graphs of rows and landmarks, which need not be rows: the graphs of LSC and of MVSC-B."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import squared_norms
from coterie.kernels import cpu
from coterie.method.distances import LandmarkRows, squared_distances
from coterie.method.graphs import TILE_ROWS, Block, median_distance
from coterie.peers._lloyd import nearest_center
from coterie.rows import Rows
from coterie.rows.memory import MemoryRows
from coterie.validation import check_choice, check_int, check_real, refuse
from coterie.views import Table

BANDWIDTHS = ("mean_squared", "median", "local")
LANDMARKS = ("kmeans", "random")

# Passes of k-means, from random rows, as in LSC's own code: landmarks need not have converged.
KMEANS_PASSES = 5


def check_graph_parameters(owner: str, n_landmarks: Any, n_neighbors: Any, landmarks: Any, bandwidth: Any) -> None:
    """Refuse settings that are invalid for any data set."""
    check_int(owner, "n_landmarks", n_landmarks, low=1)
    check_int(owner, "n_neighbors", n_neighbors, low=1)
    if n_neighbors > n_landmarks:
        refuse(owner, "n_neighbors", f"at most n_landmarks={n_landmarks}", n_neighbors)
    check_choice(owner, "landmarks", landmarks, LANDMARKS)
    if isinstance(bandwidth, str):
        check_choice(owner, "bandwidth", bandwidth, BANDWIDTHS)
    else:
        check_real(owner, "bandwidth", bandwidth, low=0, above=True)


def choose_landmarks(table: Table, n_landmarks: int, how: str, rng: np.random.Generator, n_threads: int) -> Table:
    """Return p landmarks: random rows, or the means of k-means that starts from them.

    If there are no more rows than landmarks, every row is one.
    """
    n = table.shape[0]
    if n <= n_landmarks:
        return table
    landmarks = table[np.sort(rng.choice(n, n_landmarks, replace=False))]  # (p, d)
    if how == "random":
        return landmarks
    for _ in range(KMEANS_PASSES):
        landmarks = group_means(table, nearest(table, landmarks, n_threads), landmarks)
    return landmarks


def nearest(table: Table, landmarks: Table, n_threads: int) -> np.ndarray:
    """Return the number of each row's nearest landmark."""
    return nearest_center(table, landmarks, n_threads)[0]  # (n,)


def group_means(table: Table, labels: np.ndarray, landmarks: Table) -> Table:
    """Return the mean of every landmark's rows; a landmark without rows stays where it is."""
    n, p = len(labels), landmarks.shape[0]
    counts = np.bincount(labels, minlength=p)  # (p,)
    shares = (1.0 / counts[labels]).astype(table.dtype)  # (n,)
    average = sparse.csr_array((shares, (labels, np.arange(n))), shape=(p, n))
    means = average @ table  # (p, d), sparse where the table is
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        keep = np.ones(len(empty), dtype=table.dtype)
        stay = sparse.csr_array((keep, (empty, empty)), shape=(p, p))
        means = means + stay @ landmarks
    return means


def find_bandwidth(table: Table, landmarks: Table, bandwidth: str | float, rng: np.random.Generator) -> float:
    """Return sigma; 0 means that each row has its own."""
    if bandwidth == "local":
        return 0.0
    if bandwidth == "median":
        return median_distance(table, rng)
    if bandwidth == "mean_squared":
        return mean_squared_distance(table, landmarks)
    return float(bandwidth)


def mean_squared_distance(table: Table, landmarks: Table) -> float:
    """Return the mean of |x - m|^2 over all pairs of a row and a landmark, computed from means; 1 if it is zero."""
    lengths = squared_norms(table).mean(dtype=np.float64)
    lengths += squared_norms(landmarks).mean(dtype=np.float64)
    product = column_means(table) @ column_means(landmarks)
    return float(max(lengths - 2 * product, 0)) or 1.0


def column_means(table: Table) -> np.ndarray:
    """Return the columns' means in float64."""
    return np.asarray(table.mean(axis=0, dtype=np.float64)).ravel()  # (d,)


def connect(table: Table, landmarks: Table, n_neighbors: int, sigma: float, n_threads: int) -> Rows:
    """Return every row's nearest landmarks and weights, as blocks."""
    n, p = table.shape[0], landmarks.shape[0]
    centers = LandmarkRows(landmarks, np.ones(p, dtype=bool))
    q = min(n_neighbors, p)

    def join(start: int) -> Block:
        tile = table[start : start + TILE_ROWS]
        distances = squared_distances(tile, squared_norms(tile), centers)  # (b, p)
        ((indices, squares),) = cpu.smallest(distances[None], [q])
        return Block(indices, cpu.gaussian(squares, np.array([0, q]), [sigma]))

    starts = MemoryRows(range(0, n, TILE_ROWS), n_rows=n, n_threads=n_threads)
    return starts.map(join)
