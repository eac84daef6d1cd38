"""MVSC-B: the views' landmark graphs, added up with weights that are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from coterie.kernels import cpu
from coterie.method.spectra import inverse_roots, top_eigenpairs
from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._bipartite import (
    check_graph_parameters,
    choose_landmarks,
    connect,
    find_bandwidth,
)
from coterie.peers._common import Peer, cut, prepared_table, side_by_side
from coterie.peers._docstrings import peer
from coterie.rows import Rows
from coterie.threads import count_threads, one_thread_per_block
from coterie.validation import check_real
from coterie.views import Table


@dataclass(frozen=True)
class SingularVectors:
    """The top singular vectors of a bipartite graph, after the first pair."""

    rows: np.ndarray  # (n, k): left singular vectors, U
    landmarks: np.ndarray  # (p, k): right singular vectors, V


@dataclass(frozen=True)
class Fusion:
    """The graphs' common spectrum, and the best weights for it."""

    factors: SingularVectors
    weights: np.ndarray  # (V,) summing to one


@peer
class MVSCB(Peer):
    """Large-scale multi-view spectral clustering via bipartite graphs.

    The views share their landmarks ("salient points"): means of k-means on all views side by side.
    Their graphs Zhat^v are added up as sum_v a_v^r Zhat^v; spectrum and weights a_v are found by
    turns. Time and memory grow linearly with the number of rows.

    Parameters
    ----------
    n_landmarks : int, default=600
        Number of salient points, p; all rows if they are fewer.
    n_neighbors : int, default=8
        Number of salient points that a row is joined to in each view, q.
    r : float, default=2.0
        Exponent of the views' weights, above 1: near 1 the best view gets all the weight, large values
        make weights equal.
    landmarks : "kmeans" or "random", default="kmeans"
        Means of a few passes of k-means, or random rows.
    bandwidth : "mean_squared", "median", "local" or number, default="mean_squared"
        Sigma of the Gaussian weights, as in :class:`coterie.peers.LSC`.

    Attributes
    ----------
    landmark_labels_ : ndarray of shape (p,)
        Cluster of every salient point: they are clustered together with the rows.
    view_weights_ : dict of float
        a_v of every view; they sum to one.
    objective_ : list of float
        sum_v a_v^r tr(F^T L^v F) after each round; it never rises.
    n_iter_

    References
    ----------
    Y. Li, F. Nie, H. Huang and J. Huang: Large-Scale Multi-View Spectral Clustering via Bipartite
    Graph. AAAI 2015.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import MVSCB
    >>> data = make_views(300, n_clusters=3, separation=4, random_state=0)
    >>> labels = MVSCB(3, n_landmarks=50, n_neighbors=20, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    n_landmarks: int = 600
    n_neighbors: int = 8
    r: float = 2.0
    landmarks: Any = "kmeans"
    bandwidth: str = "mean_squared"
    max_iter: int = 50
    tol: float = 1e-6
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> MVSCB:
        self._check_parameters()
        views = self._read_views(X)
        rng = self._make_rng()
        with one_thread_per_block():
            graphs = self._build_graphs([prepared_table(view) for view in views], rng)
            fusion = fuse(graphs, self.n_clusters, self.r, self.max_iter, self.tol)
            stacked = unit_stack(fusion.state.factors)  # (n + p, k)
            labels = cut(stacked, self.n_clusters, self.n_init, rng)
        self.labels_ = labels[: views.n_rows]
        self.landmark_labels_ = labels[views.n_rows :]
        self.view_weights_ = dict(zip(views.names, fusion.state.weights.tolist(), strict=True))
        self.objective_, self.n_iter_ = list(fusion.objective), fusion.n_iter
        return self

    def _check_parameters(self) -> None:
        check_graph_parameters("MVSCB", self.n_landmarks, self.n_neighbors, self.landmarks, self.bandwidth)
        check_real("MVSCB", "r", self.r, low=1, above=True)
        self._check_ints(max_iter=1, n_init=1)
        check_real("MVSCB", "tol", self.tol, low=0)

    def _build_graphs(self, tables: list[Table], rng: np.random.Generator) -> list[sparse.csr_array]:
        """Return Zhat^v of every view."""
        n_threads = count_threads(self.n_jobs)
        salient = choose_landmarks(
            side_by_side(tables), self.n_landmarks, self.landmarks, rng, n_threads
        )  # (p, sum of d)
        ends = np.cumsum([0, *(table.shape[1] for table in tables)])
        graphs = []
        for table, start, stop in zip(tables, ends[:-1], ends[1:], strict=True):
            landmarks = salient[:, start:stop]  # (p, d)
            if sparse.issparse(landmarks) and not sparse.issparse(table):
                landmarks = landmarks.toarray()
            sigma = find_bandwidth(table, landmarks, self.bandwidth, rng)
            rows = connect(table, landmarks, self.n_neighbors, sigma, n_threads)
            graphs.append(normalised_graph(rows, landmarks.shape[0]))
        return graphs


def normalised_graph(rows: Rows, n_landmarks: int) -> sparse.csr_array:
    """Return Zhat = Z D^(-1/2), D the column sums of Z."""
    indices = rows.collect(lambda block: block.indices)  # (n, q)
    weights = rows.collect(lambda block: block.weights)  # (n, q)
    n, q = weights.shape
    columns = indices.ravel().astype(np.int64)
    degrees = np.bincount(columns, weights.ravel(), minlength=n_landmarks)  # (p,)
    roots = np.where(degrees > 0, degrees, np.inf) ** -0.5
    graph = sparse.csr_array(
        (weights.ravel() * roots[columns], columns, np.arange(0, n * q + 1, q)),
        shape=(n, n_landmarks),
    )
    graph.sort_indices()
    return graph


def fuse(
    graphs: Sequence[sparse.csr_array], n_clusters: int, r: float, max_iter: int, tol: float
) -> Alternation[Fusion]:
    """Minimise sum_v a_v^r tr(F^T L^v F) over F and over a in turns.

    With F = [U; V] / sqrt(2) and the bipartite graph's L^v, tr(F^T L^v F) = k - tr(U^T Zhat^v V).
    So the best F for given weights are the singular vectors of sum_v a_v^r Zhat^v, and the best
    weights for given F are a_v ~ h_v^(1 / (1 - r)).
    """
    start = Fusion(SingularVectors(np.empty((0, 0)), np.empty((0, 0))), np.full(len(graphs), 1 / len(graphs)))
    return alternate(start, partial(fuse_round, graphs, n_clusters, r), max_iter=max_iter, tol=tol)


def fuse_round(graphs: Sequence[sparse.csr_array], n_clusters: int, r: float, now: Fusion) -> Round[Fusion]:
    """Update the common spectrum, and then the weights."""
    factors = bipartite_factors(add_up(graphs, now.weights**r), n_clusters)
    costs = np.array([view_cost(graph, factors) for graph in graphs])  # (V,)
    weights = best_weights(costs, r)
    return Round(Fusion(factors, weights), float(weights**r @ costs))


def add_up(graphs: Sequence[sparse.csr_array], weights: np.ndarray) -> sparse.csr_array:
    """Return sum_v w_v Zhat^v: n x p with at most V q entries a row."""
    total = graphs[0] * weights[0]
    for graph, weight in zip(graphs[1:], weights[1:], strict=True):
        total = total + graph * weight
    return total


def bipartite_factors(graph: sparse.csr_array, n_components: int) -> SingularVectors:
    """Return the top singular vectors after the first pair, from the p x p Gram matrix.

    Where there are fewer than k, as with a single row, the others are zero.
    """
    gram = (graph.T @ graph).toarray()  # (p, p)
    found = top_eigenpairs(gram, min(n_components + 1, len(gram)))
    missing = n_components + 1 - len(found.values)
    values = np.pad(found.values[1:], (0, missing))  # (k,)
    vectors = np.pad(found.vectors[:, 1:], ((0, 0), (0, missing)))  # (p, k)
    return SingularVectors(graph @ (vectors * inverse_roots(values)), vectors)


def view_cost(graph: sparse.csr_array, factors: SingularVectors) -> float:
    """Return h_v = k - tr(U^T Zhat^v V), never below zero."""
    fit = np.einsum("ij,ij->", factors.rows, graph @ factors.landmarks)
    return float(max(factors.rows.shape[1] - fit, 0.0))


def best_weights(costs: np.ndarray, r: float) -> np.ndarray:
    """Return a_v ~ h_v^(1 / (1 - r)), summing to one; views of zero cost, if any, share all the weight."""
    if (costs <= 0).any():
        free = (costs <= 0).astype(float)
        return free / free.sum()
    weights = (costs / costs.min()) ** (1 / (1 - r))
    return weights / weights.sum()


def unit_stack(factors: SingularVectors) -> np.ndarray:
    """Return U stacked on V, each row of length one."""
    stacked = np.vstack([factors.rows, factors.landmarks])  # (n + p, k)
    cpu.unit_rows(stacked)
    return stacked
