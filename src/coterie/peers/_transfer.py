"""Anchor graphs, and the transfer cut: the spectrum of a bipartite graph from its smaller side (Li, Wu, Chang 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from coterie.arrays import squared_norms
from coterie.kernels import cpu
from coterie.method.distances import LandmarkRows, squared_distances
from coterie.method.graphs import TILE_ROWS
from coterie.method.spectra import top_eigenpairs
from coterie.peers._common import unit_rows
from coterie.peers._lloyd import lloyd
from coterie.threads import in_order
from coterie.views.steps import Table

CANDIDATES = 10  # rows that are drawn for every anchor
ANCHOR_PASSES = 5
LEAST_WEIGHT = 1e-30  # so that a row far from all anchors has a positive degree


@dataclass(frozen=True)
class AnchorGraph:
    """A map from the rows of one table to Gaussian weights of their nearest anchors."""

    anchors: Table  # (p, d)
    n_neighbors: int
    sigma: float
    unit: bool  # whether every row of weights is scaled to length one

    def __call__(self, table: Table, n_threads: int) -> sparse.csr_array:
        """Return the rows' weights."""
        indices, squares = nearest_anchors(table, self.anchors, self.n_neighbors, n_threads)
        return self.weigh(indices, squares)

    def weigh(self, indices: np.ndarray, squares: np.ndarray) -> sparse.csr_array:
        """Return exp(-d^2 / 2 sigma^2) as a sparse matrix."""
        if self.unit:  # a common factor cancels then, and the nearest anchor's weight cannot underflow
            squares = squares - squares.min(axis=1, keepdims=True)
        with np.errstate(under="ignore"):
            weights = np.exp(squares / (-2 * self.sigma**2))  # (n, q)
        weights = unit_rows(weights) if self.unit else np.maximum(weights, LEAST_WEIGHT)
        n, q = weights.shape
        ends = np.arange(0, n * q + 1, q)
        return sparse.csr_array((weights.ravel(), indices.ravel(), ends), shape=(n, self.anchors.shape[0]))


def join_to_anchors(
    table: Table, n_anchors: int, n_neighbors: int, rng: np.random.Generator, n_threads: int, *, unit: bool
) -> tuple[AnchorGraph, sparse.csr_array]:
    """Return the map of a table, and the weights of its rows; sigma is the mean distance to their nearest anchors."""
    anchors = choose_anchors(table, n_anchors, rng, n_threads)
    q = min(n_neighbors, anchors.shape[0])
    indices, squares = nearest_anchors(table, anchors, q, n_threads)
    sigma = float(np.sqrt(squares).mean(dtype=np.float64)) or 1.0
    graph = AnchorGraph(anchors, q, sigma, unit)
    return graph, graph.weigh(indices, squares)


def choose_anchors(table: Table, n_anchors: int, rng: np.random.Generator, n_threads: int) -> Table:
    """Return anchors, by a few passes of k-means over ten random rows per anchor; all rows if they are no more."""
    n = table.shape[0]
    if n <= n_anchors:
        return table
    drawn = np.sort(rng.choice(n, min(n, CANDIDATES * n_anchors), replace=False))
    return lloyd(table[drawn], n_anchors, n_iter=ANCHOR_PASSES, rng=rng, n_threads=n_threads).centers


def nearest_anchors(table: Table, anchors: Table, q: int, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return every row's q nearest anchors, and the squared distances to them."""
    landmarks = LandmarkRows(anchors, np.ones(anchors.shape[0], dtype=bool))

    def search(start: int) -> tuple[np.ndarray, np.ndarray]:
        tile = table[start : start + TILE_ROWS]
        ((indices, squares),) = cpu.smallest(squared_distances(tile, squared_norms(tile), landmarks)[None], [q])
        return indices, squares

    indices, squares = zip(*in_order(search, range(0, table.shape[0], TILE_ROWS), n_threads), strict=True)
    return np.concatenate(indices).astype(np.int32), np.concatenate(squares)  # (n, q), (n, q)


@dataclass(frozen=True)
class TransferCut:
    """A map from rows' weights of anchors to their embedding by the bipartite graph's eigenvectors."""

    basis: np.ndarray  # (p, k)

    def __call__(self, graph: sparse.csr_array) -> np.ndarray:
        """Return diag(1 / d_x) B D^(-1/2) E, each row of length one: d_x only changes lengths, so it is left out."""
        return unit_rows(graph @ self.basis)  # (n, k)


def transfer_cut(graph: sparse.csr_array, n_components: int) -> TransferCut:
    """Return the top eigenvectors E of D^(-1/2) W D^(-1/2), W = B^T diag(1 / d_x) B, as a map of rows of B.

    The eigenvectors of the whole graph of rows and anchors follow from these p x p ones. D, the row sums of W, are the
    column sums of B.
    """
    sums = np.asarray(graph.sum(axis=1)).ravel()  # (n,) d_x
    scaled = sparse.diags_array(1 / np.where(sums > 0, sums, 1)) @ graph  # (n, p)
    small = np.asarray((graph.T @ scaled).todense(), dtype=np.float64)  # (p, p)
    degrees = small.sum(axis=1)  # (p,)
    roots = np.where(degrees > 0, degrees, np.inf) ** -0.5
    found = top_eigenpairs(small * roots * roots[:, None], min(n_components, len(small)))
    return TransferCut((roots[:, None] * found.vectors).astype(graph.dtype))


def incidence(labels: Sequence[np.ndarray], sizes: Sequence[int]) -> sparse.csr_array:
    """Return which row is in which cluster of every partition: ones, a column for each cluster."""
    starts = np.cumsum([0, *sizes])  # (M + 1,)
    columns = np.column_stack(labels) + starts[:-1]  # (n, M)
    n, m = columns.shape
    ones = np.ones(n * m, dtype=np.float32)
    return sparse.csr_array((ones, columns.ravel(), np.arange(0, n * m + 1, m)), shape=(n, int(starts[-1])))
