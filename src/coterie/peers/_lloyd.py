"""Plain k-means from random rows, for dense and sparse tables, as in the peers' own code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from coterie.arrays import squared_norms
from coterie.method.distances import LandmarkRows, squared_distances
from coterie.method.graphs import TILE_ROWS
from coterie.peers._common import unit_rows
from coterie.threads import in_order
from coterie.views.steps import Table

GROUPING_PASSES = 20


@dataclass(frozen=True)
class RowGroups:
    """Groups of rows, their centres, and how far the rows are from them."""

    labels: np.ndarray  # (n,)
    centers: Table  # (k, d)
    gaps: np.ndarray  # (n,) squared distances to the own centre

    @property
    def cost(self) -> float:
        """Sum of the squared distances."""
        return float(self.gaps.sum(dtype=np.float64))


def lloyd(
    table: Table,
    n_groups: int,
    *,
    n_iter: int,
    n_runs: int = 1,
    rng: np.random.Generator,
    n_threads: int = 1,
    cosine: bool = False,
) -> RowGroups:
    """Return the best of several runs of Lloyd's algorithm from random rows.

    Every row belongs to the nearest of the centres that are returned. With ``cosine`` rows must have length one, and
    so have the centres: the nearest is then the one at the smallest angle.
    """
    runs = (one_run(table, n_groups, n_iter, rng, n_threads, cosine) for _ in range(n_runs))
    return min(runs, key=lambda groups: groups.cost)


def one_run(
    table: Table, n_groups: int, n_iter: int, rng: np.random.Generator, n_threads: int, cosine: bool
) -> RowGroups:
    """Return the groups after ``n_iter`` passes of Lloyd's algorithm, or after the first that changes no label."""
    n = table.shape[0]
    centers = table[np.sort(rng.choice(n, min(n_groups, n), replace=False))]  # (k, d)
    labels, gaps = nearest_center(table, centers, n_threads)
    for _ in range(n_iter):
        centers = group_means(table, labels, centers.shape[0], gaps)
        centers = unit_rows(centers) if cosine else centers
        before = labels
        labels, gaps = nearest_center(table, centers, n_threads)
        if np.array_equal(labels, before):
            break
    return RowGroups(labels, centers, gaps)


def nearest_center(table: Table, centers: Table, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each row's nearest centre, and the squared distance to it."""
    landmarks = LandmarkRows(centers, np.ones(centers.shape[0], dtype=bool))

    def label(start: int) -> tuple[np.ndarray, np.ndarray]:
        tile = table[start : start + TILE_ROWS]
        distances = squared_distances(tile, squared_norms(tile), landmarks)  # (b, k)
        labels = distances.argmin(axis=1)  # (b,)
        return labels, distances[np.arange(len(labels)), labels]

    labels, gaps = zip(*in_order(label, range(0, table.shape[0], TILE_ROWS), n_threads), strict=True)
    return np.concatenate(labels), np.concatenate(gaps)  # (n,), (n,)


def group_means(table: Table, labels: np.ndarray, n_groups: int, gaps: np.ndarray) -> Table:
    """Return the mean of every group; an empty one takes one of the rows that are furthest from their centres."""
    counts = np.bincount(labels, minlength=n_groups)  # (k,)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        labels = labels.copy()
        labels[np.argsort(-gaps, kind="stable")[: len(empty)]] = empty
        counts = np.maximum(np.bincount(labels, minlength=n_groups), 1)
    n = len(labels)
    shares = (1.0 / counts[labels]).astype(table.dtype)  # (n,)
    average = sparse.csr_array((shares, (labels, np.arange(n))), shape=(n_groups, n))
    return average @ table  # (k, d), sparse where the table is


def group_rows(table: Table, n_groups: int, rng: np.random.Generator, n_threads: int) -> RowGroups:
    """Return groups of similar rows, by k-means; if there are no more rows than groups, every row is one."""
    if table.shape[0] > n_groups:
        return lloyd(table, n_groups, n_iter=GROUPING_PASSES, rng=rng, n_threads=n_threads)
    return RowGroups(np.arange(table.shape[0]), table, np.zeros(table.shape[0], dtype=table.dtype))


def dense(table: Table) -> np.ndarray:
    """Return a table as an array of float64."""
    return (table.toarray() if sparse.issparse(table) else table).astype(np.float64)
