"""Commute times of a neighbour graph, by a near-linear solver of its Laplacian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import parallel_config
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.sparse.linalg import cg
from sklearn.neighbors import kneighbors_graph

from coterie.lazy import import_extra
from coterie.peers._common import Peer, cut
from coterie.peers._docstrings import peer
from coterie.peers._lloyd import dense
from coterie.threads import count_threads, one_thread_per_block
from coterie.validation import check_real
from coterie.views.steps import Table

LEAST_WEIGHT = 1e-6  # of an edge; the largest is at most 1


@peer
class CommuteTime(Peer):
    """Clustering by commute times with a near-linear solver, of one view or of all side by side.

    Rows are joined to their nearest rows. About 10 log n systems L z = y are solved, each y a random
    combination of the graph's edges; squared distances between the rows of Z approximate commute times,
    and k-means clusters these rows. Solving takes time O(n log n), the neighbours O(n^2 d).

    Parameters
    ----------
    n_neighbors : int, default=10
        Number of rows that a row is joined to.
    n_projections : int or None, default=None
        Number of systems that are solved; None: 10 log n.
    tol : float, default=1e-6
        Relative residual at which a system is solved.
    n_jobs : int, default=-1
        Threads of the search for neighbours; -1 uses all cores.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, n_projections)
        The rows that k-means clusters.
    graph_ : sparse array of shape (n, n)
        Weights of the neighbour graph.
    n_iter_ : int
        Largest number of conjugate gradient iterations of a system.

    Notes
    -----
    Needs pyamg: ``pip install coterie[commute]``. Where the neighbour graph has several connected components, between
    which commute times are infinite, a minimum spanning tree over the components' central rows joins them.

    References
    ----------
    N. Khoa and S. Chawla: Large Scale Spectral Clustering Using Resistance Distance and Spielman-Teng Solvers.
    Discovery Science 2012.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import CommuteTime
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = CommuteTime(3, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    n_neighbors: int = 10
    n_projections: int | None = None
    tol: float = 1e-6
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> CommuteTime:
        self._check_ints(n_neighbors=1, n_init=1, **({} if self.n_projections is None else {"n_projections": 1}))
        check_real("CommuteTime", "tol", self.tol, low=0, above=True)
        views = self._read_views(X)
        rng = self._make_rng()
        reader = self._learn_reader(views)
        table = reader.table(views)  # (n, d)
        graph = neighbour_graph(table, self.n_neighbors, count_threads(self.n_jobs))
        count = self.n_projections or max(1, int(np.ceil(10 * np.log(max(views.n_rows, 2)))))
        with one_thread_per_block():
            found = commute_embedding(graph, count, self.tol, rng)
            labels = cut(found.rows, self.n_clusters, self.n_init, rng)
        self.embedding_, self.graph_, self.n_iter_, self.labels_ = found.rows, graph, found.n_steps, labels
        return self


@dataclass(frozen=True)
class CommuteEmbedding:
    """Rows whose squared distances approximate commute times, and the largest number of iterations of a system."""

    rows: np.ndarray  # (n, r)
    n_steps: int


def neighbour_graph(table: Table, n_neighbors: int, n_jobs: int) -> sparse.csr_array:
    """Return the symmetric, connected graph of nearest rows: weights exp(-d^2 / 2 s^2), s the neighbours' mean d."""
    n = table.shape[0]
    if n == 1:
        return sparse.csr_array((1, 1))
    with parallel_config(backend="threading"):  # processes would not help, and a child process may not start any
        near = kneighbors_graph(table, min(n_neighbors, n - 1), mode="distance", n_jobs=n_jobs)
    distances = sparse.csr_array(near)
    sigma = float(distances.data.mean()) or 1.0
    linked = sparse.csr_array(
        (np.maximum(np.exp(distances.data**2 / (-2 * sigma**2)), LEAST_WEIGHT), distances.indices, distances.indptr),
        shape=(n, n),
    )
    linked = linked.maximum(linked.T)
    return sparse.csr_array(linked + component_edges(table, linked, sigma))


def component_edges(table: Table, graph: sparse.csr_array, sigma: float) -> sparse.csr_array:
    """Return edges between the components of a graph: the minimum spanning tree over their most central rows."""
    n = graph.shape[0]
    n_components, pieces = connected_components(graph, directed=False)
    if n_components == 1:
        return sparse.csr_array((n, n))
    centers = np.array([central_row(table, np.flatnonzero(pieces == piece)) for piece in range(n_components)])
    rows = dense(table[centers])  # (pieces, d)
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)  # (pieces, pieces)
    tree = minimum_spanning_tree(np.sqrt(squares) + np.finfo(float).tiny).tocoo()
    weights = np.maximum(np.exp(tree.data**2 / (-2 * sigma**2)), LEAST_WEIGHT)
    edges = sparse.csr_array((weights, (centers[tree.row], centers[tree.col])), shape=(n, n))
    return sparse.csr_array(edges + edges.T)


def central_row(table: Table, members: np.ndarray) -> int:
    """Return the member nearest to the mean of all of them."""
    rows = dense(table[members])
    return int(members[((rows - rows.mean(axis=0)) ** 2).sum(axis=1).argmin()])


def commute_embedding(graph: sparse.csr_array, count: int, tol: float, rng: np.random.Generator) -> CommuteEmbedding:
    """Return Z, whose columns solve L z = B^T W^(1/2) q for random signs q (Spielman and Srivastava).

    Squared distances between its rows, times the sum of all degrees, approximate commute times; without that factor
    they are effective resistances, for which k-means gives the same clusters.
    """
    n = graph.shape[0]
    upper = sparse.coo_array(sparse.triu(graph, k=1))
    if not upper.nnz:
        return CommuteEmbedding(np.zeros((n, count)), 0)
    # The last row is fixed at zero: the rest of L is invertible, as multigrid and conjugate gradients require.
    laplacian = sparse.csr_array(sparse.csgraph.laplacian(graph)).astype(np.float64)[:-1, :-1]
    precondition = multigrid(laplacian)
    rows, n_steps = np.empty((n, count)), 0
    for column in range(count):
        flow = rng.choice([-1.0, 1.0], size=upper.nnz) * np.sqrt(upper.data / count)  # (edges,)
        target = np.bincount(upper.row, flow, n) - np.bincount(upper.col, flow, n)  # (n,)
        found, steps = solve(laplacian, target[:-1], precondition, tol)
        rows[:-1, column], rows[-1, column] = found, 0
        n_steps = max(n_steps, steps)
    return CommuteEmbedding(rows - rows.mean(axis=0), n_steps)


def solve(laplacian: sparse.csr_array, target: np.ndarray, precondition: Any, tol: float) -> tuple[np.ndarray, int]:
    """Return z with L z = y, and the number of conjugate gradient iterations."""
    steps: list[np.ndarray] = []
    most = max(100, len(target))
    found, failed = cg(laplacian, target, rtol=tol, maxiter=most, M=precondition, callback=steps.append)
    if failed:
        raise ValueError(
            f"Conjugate gradients did not reach tol={tol:g} in {most} steps. Raise tol, or n_neighbors so that the "
            "graph is better connected."
        )
    return found, len(steps)


def multigrid(laplacian: sparse.csr_array) -> Any:
    """Return an algebraic multigrid preconditioner."""
    pyamg = import_extra("pyamg", "commute", "CommuteTime")
    matrix = sparse.csr_matrix(laplacian)  # pyamg does not support sparse arrays
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return pyamg.smoothed_aggregation_solver(matrix).aspreconditioner()
