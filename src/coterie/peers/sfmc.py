"""SFMC: the bipartite graph with exactly k connected components that is nearest to those of all views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from coterie.kernels import cpu
from coterie.peers._common import Peer, side_by_side
from coterie.peers._constraints import onto_simplex, simplex_minimum
from coterie.peers._docstrings import peer
from coterie.peers._transfer import nearest_anchors
from coterie.threads import count_threads, one_thread_per_block
from coterie.views.steps import Table

ROWS = 2048  # that are projected at once
FIRST_PULL = 1.0  # lambda; it doubles while there are too few components


@peer
class SFMC(Peer):
    """Scalable and parameter-free multi-view clustering by fusing bipartite graphs.

    Views join rows to common anchors. The graph that is nearest to a weighted sum of theirs and has
    exactly k components is found by turns with the weights; its components are the clusters, without
    any k-means. A round takes time O(n m^2) and memory O(n m), with m anchors.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Number of anchors, m; half of the rows if that is less.
    n_neighbors : int, default=10
        Number of anchors that a row is joined to in each view.
    random_state : int, RandomState or None, default=None
        Not used, since nothing is random; present for the same interface as other peers.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of every row: the component of the graph that it is in.
    graph_ : sparse array of shape (n, m)
        The fused graph P; every row sums to one.
    anchors_ : ndarray of shape (m,)
        Rows that are anchors.
    view_weights_ : dict of float
        Weights of the views; they sum to one.
    objective_ : list of float
        ``|P - sum_v a_v B_v|^2`` after each round. It may rise while the number of components is brought to k.
    n_iter_

    Notes
    -----
    The published figures for UCI's digits are met within .05, in file order as with shuffled rows. The page "Which
    method when" has them.

    References
    ----------
    X. Li, H. Zhang, R. Wang and F. Nie: Multiview Clustering: A Scalable and Parameter-Free Bipartite Graph
    Fusion Method. IEEE Transactions on Pattern Analysis and Machine Intelligence 44 (2022).

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import SFMC
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = SFMC(3).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    n_landmarks: int = 1000
    n_neighbors: int = 10
    max_iter: int = 60
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> SFMC:
        self._check_ints(n_landmarks=1, n_neighbors=1, max_iter=1)
        views = self._read_views(X)
        n_threads = count_threads(self.n_jobs)
        reader = self._learn_reader(views, "raw")
        with one_thread_per_block():
            tables = [over_largest(table) for table in reader.tables(views)]
            m = max(self.n_clusters, min(self.n_landmarks, -(-views.n_rows // 2)))
            anchors = alternate_sampling(side_by_side(tables), m)  # (m,)
            graphs = [join(table, table[anchors], self.n_neighbors, n_threads) for table in tables]
            found = fuse(graphs, self.n_clusters, self.max_iter)
        self.labels_, self.graph_, self.anchors_ = found.labels, found.graph, anchors
        self.objective_, self.n_iter_ = list(found.objective), len(found.objective)
        self.view_weights_ = dict(zip(views.names, found.weights.tolist(), strict=True))
        return self


@dataclass(frozen=True)
class FusedGraph:
    """The graph of all views together, and its connected components."""

    graph: sparse.csr_array  # (n, m)
    labels: np.ndarray  # (n,)
    weights: np.ndarray  # (V,)
    objective: tuple[float, ...]


def over_largest(table: Table) -> Table:
    """Return a view divided by its largest absolute value."""
    largest = float(abs(table).max())
    return table / table.dtype.type(largest or 1.0)


def alternate_sampling(table: Table, count: int) -> np.ndarray:
    """Return rows that are chosen one after the other so that their scores differ.

    A row's score is its sum above the columns' minima. In every step, scores s are divided by their maximum, the row of
    the largest is chosen, and s (1 - s) are the next scores: rows with scores near the chosen one's or near zero come
    last.
    """
    low = np.asarray(table.min(axis=0).todense() if sparse.issparse(table) else table.min(axis=0)).ravel()  # (d,)
    scores = np.asarray(table.sum(axis=1, dtype=np.float64)).ravel() - low.sum(dtype=np.float64)  # (n,)
    chosen = np.empty(count, dtype=np.int64)
    left = np.ones(len(scores), dtype=bool)
    for number in range(count):
        scores = scores / (scores.max() or 1.0)
        chosen[number] = np.where(left, scores, -1).argmax()
        left[chosen[number]] = False
        scores = scores * (1 - scores)
    return chosen


def join(table: Table, anchors: Table, n_neighbors: int, n_threads: int) -> np.ndarray:
    """Return b_ij = (d_i,q+1 - d_ij) / (q d_i,q+1 - sum of the q smallest) for the q nearest anchors of every row."""
    q = min(n_neighbors, anchors.shape[0] - 1) or 1
    indices, squares = nearest_anchors(table, anchors, min(q + 1, anchors.shape[0]), n_threads)
    order = np.argsort(squares, axis=1, kind="stable")
    indices, squares = np.take_along_axis(indices, order, 1), np.take_along_axis(squares, order, 1)  # (n, q + 1)
    gaps = squares[:, -1:] - squares[:, :q]  # (n, q)
    total = gaps.sum(axis=1, keepdims=True)
    weights = np.where(total > 0, gaps / np.where(total > 0, total, 1), 1 / q)
    graph = np.zeros((table.shape[0], anchors.shape[0]), dtype=np.float32)
    np.put_along_axis(graph, indices[:, :q].astype(np.int64), weights.astype(np.float32), axis=1)
    return graph  # (n, m)


def fuse(graphs: Sequence[np.ndarray], n_clusters: int, max_iter: int) -> FusedGraph:
    """Alternate between the spectrum, the graph P and the views' weights until P has exactly k components.

    The penalty lambda on edges between rows and anchors with distant vectors doubles while there are fewer components.
    If there are more, it is halved, and the previous graph is restored.
    """
    weights = np.full(len(graphs), 1 / len(graphs))
    inner = np.array([[np.vdot(a, b) for b in graphs] for a in graphs], dtype=np.float64)  # (V, V)
    target = weighted_sum(graphs, weights)  # (n, m)
    fused, pull = target, FIRST_PULL
    objective: list[float] = []
    for _ in range(max_iter):
        before = fused
        fused = nearest_graph(target, *spectrum(fused, n_clusters), pull)
        products = np.array([[np.vdot(fused, graph) for graph in graphs]], dtype=np.float64)  # (1, V)
        weights = simplex_minimum(inner, products)[0]  # (V,)
        target = weighted_sum(graphs, weights)
        objective.append(float(np.sum((fused - target) ** 2, dtype=np.float64)))
        n_components, labels = components(fused)
        if n_components == n_clusters:
            break
        if n_components > n_clusters:
            fused, pull = before, pull / 2
        else:
            pull *= 2
    return FusedGraph(sparse.csr_array(fused), labels, weights, tuple(objective))


def weighted_sum(graphs: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
    """Return sum_v a_v B_v."""
    total = graphs[0] * np.float32(weights[0])
    for graph, weight in zip(graphs[1:], weights[1:], strict=True):
        total += graph * np.float32(weight)
    return total


def spectrum(graph: np.ndarray, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows' and anchors' vectors: the top singular vectors of P D^(-1/2), anchors' over the root of D."""
    degrees = graph.sum(axis=0, dtype=np.float64)  # (m,)
    roots = np.where(degrees > 0, degrees, np.inf) ** -0.5
    scaled = graph * roots.astype(np.float32)  # (n, m)
    values, right = cpu.largest_eigenpairs((scaled.T @ scaled).astype(np.float64), min(n_clusters, len(degrees)))
    left = scaled @ (right / np.sqrt(np.maximum(values, 1e-12))).astype(np.float32)  # (n, k)
    return left, (right * roots[:, None]).astype(np.float32)  # (m, k)


def nearest_graph(target: np.ndarray, rows: np.ndarray, anchors: np.ndarray, pull: float) -> np.ndarray:
    """Return argmin |P - A|^2 + lambda sum_ij |u_i - v_j|^2 p_ij, rows of P on the simplex."""
    found = np.empty_like(target)
    lengths = np.einsum("ij,ij->i", anchors, anchors)  # (m,); those of the rows change no projection
    for start in range(0, len(target), ROWS):
        some = slice(start, start + ROWS)
        distances = lengths - 2 * rows[some] @ anchors.T  # (b, m)
        found[some] = onto_simplex(target[some] - np.float32(pull / 2) * distances)
    return found


def components(graph: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the number of components that hold rows, and that of every row; isolated anchors do not count."""
    edges = sparse.csr_array(graph)
    n = edges.shape[0]
    whole = sparse.block_array([[None, edges], [edges.T, None]], format="csr")
    labels = connected_components(whole, directed=False)[1][:n]
    kept, labels = np.unique(labels, return_inverse=True)
    return len(kept), labels
