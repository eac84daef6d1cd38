"""DiMSC: every view's rows as combinations of its rows, with coefficients that should differ between views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import eigh

from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, cut
from coterie.peers._dense import check_row_count, gaussian_affinity, laplacian, nearest_only, spectral_embedding
from coterie.peers._docstrings import peer
from coterie.peers._subspace import row_coordinates, shared_affinity
from coterie.threads import one_thread_per_block
from coterie.validation import check_real


@dataclass(frozen=True)
class Problem:
    """The views' rows, and the graphs on which coefficients should be smooth."""

    bases: tuple[np.ndarray, ...]  # each (n, r_v): left singular vectors of the rows
    strengths: tuple[np.ndarray, ...]  # each (r_v,): squared singular values
    laplacians: tuple[np.ndarray, ...]  # each (n, n)


@peer
class DiMSC(Peer):
    """Diversity-induced multi-view subspace clustering.

    In each view, every row is written as a combination of all rows, with coefficients that are similar for near rows
    (smoothness) and independent between views (diversity, the Hilbert-Schmidt criterion). Each view's coefficients in
    turn are the solution of a Sylvester equation; their absolute values are the affinities for spectral clustering.
    Memory grows with n^2 and time with n^3 a round; n is refused above 10,000.

    Parameters
    ----------
    smoothness : float, default=0.1
        Weight of the differences between coefficients of near rows, the paper's lambda_S.
    diversity : float, default=0.1
        Weight of the dependence between views' coefficients, the paper's lambda_V.
    n_neighbors : int, default=10
        Number of a row's neighbours in the graphs of smoothness.

    Attributes
    ----------
    embedding_
    objective_ : list of float
        The minimised objective after each round; it never rises.
    n_iter_

    References
    ----------
    X. Cao, C. Zhang, H. Fu, S. Liu and H. Zhang: Diversity-Induced Multi-View Subspace Clustering. CVPR 2015.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import DiMSC
    >>> data = make_views(150, n_clusters=3, separation=8, random_state=0)
    >>> labels = DiMSC(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    smoothness: float = 0.1
    diversity: float = 0.1
    n_neighbors: int = 10
    max_iter: int = 10
    tol: float = 1e-3
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> DiMSC:
        self._check_parameters()
        views = self._read_views(X)
        check_row_count("DiMSC", views.n_rows, 2 * len(views) + 5)
        rng = self._make_rng()
        with one_thread_per_block():
            problem = build_problem([row_coordinates(view) for view in views], self.n_neighbors, rng)
            found = diversify(problem, self.smoothness, self.diversity, self.max_iter, self.tol)
            representations = [u @ z for u, z in zip(problem.bases, found.state, strict=True)]  # each (n, n)
            embedding = spectral_embedding(shared_affinity(representations), self.n_clusters)  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = embedding, labels
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self

    def _check_parameters(self) -> None:
        check_real("DiMSC", "smoothness", self.smoothness, low=0, above=True)
        check_real("DiMSC", "diversity", self.diversity, low=0)
        self._check_ints(n_neighbors=1, max_iter=1, n_init=1)
        check_real("DiMSC", "tol", self.tol, low=0)


def build_problem(coordinates: Sequence[np.ndarray], n_neighbors: int, rng: np.random.Generator) -> Problem:
    """Return the terms of the equations, from views with orthogonal columns, such as singular vectors times values."""
    strengths = tuple(np.sum(rows**2, axis=0) for rows in coordinates)  # each (r_v,)
    bases = tuple(
        rows / np.sqrt(np.maximum(s, np.finfo(float).tiny)) for rows, s in zip(coordinates, strengths, strict=True)
    )
    graphs = (nearest_only(gaussian_affinity(rows, rng), n_neighbors) for rows in coordinates)
    return Problem(bases, strengths, tuple(laplacian(graph) for graph in graphs))


def diversify(
    problem: Problem, smoothness: float, diversity: float, max_iter: int, tol: float
) -> Alternation[tuple[np.ndarray, ...]]:
    """Minimise the sum over views of |X - X Z|^2 + lambda_S tr(Z L Z^T), plus lambda_V times their dependence.

    Z^v = U^v Y^v, U^v the left singular vectors of the rows: components outside of their span would only add cost. The
    unknowns, which are returned, are the Y^v, each r_v x n. They start as the solution without diversity.
    """
    start = tuple(
        solve_view(u, s, smoothness * laplacian)
        for u, s, laplacian in zip(problem.bases, problem.strengths, problem.laplacians, strict=True)
    )
    return alternate(start, partial(diversify_round, problem, smoothness, diversity), max_iter=max_iter, tol=tol)


def diversify_round(
    problem: Problem, smoothness: float, diversity: float, now: tuple[np.ndarray, ...]
) -> Round[tuple[np.ndarray, ...]]:
    """Solve for every view in turn, with the current coefficients of the others."""
    state = list(now)
    for v, (u, s, graph) in enumerate(zip(problem.bases, problem.strengths, problem.laplacians, strict=True)):
        others = [centred(y) for w, y in enumerate(state) if w != v]
        right = smoothness * graph  # (n, n)
        for y in others:
            right += diversity * (y.T @ y)
        state[v] = solve_view(u, s, right)
    return Round(tuple(state), total_cost(problem, smoothness, diversity, state))


def solve_view(basis: np.ndarray, strengths: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return Y of the solution Z = U Y of the Sylvester equation X^T X Z + Z B = X^T X.

    With X^T X = U S U^T it separates into rows, s y + y B = s u^T, and the eigenvectors of B solve all of them at once.
    """
    values, vectors = eigh(right, driver="evd", check_finite=False)  # (n,), (n, n)
    turned = basis.T @ vectors  # (r, n)
    turned *= strengths[:, None] / (strengths[:, None] + np.maximum(values, 0))
    return turned @ vectors.T


def centred(coefficients: np.ndarray) -> np.ndarray:
    """Return Y H, H = I - 1 1^T / n."""
    return coefficients - coefficients.mean(axis=1, keepdims=True)


def total_cost(problem: Problem, smoothness: float, diversity: float, state: Sequence[np.ndarray]) -> float:
    """Return the objective; the dependence of two views is |Z^v H Z^wT|^2, the trace of their centred kernels."""
    cost = 0.0
    for y, u, s, graph in zip(state, problem.bases, problem.strengths, problem.laplacians, strict=True):
        cost += float(np.sum(s[:, None] * (u.T - y) ** 2))
        cost += smoothness * float(np.sum(y * (y @ graph)))
    for v, one in enumerate(state):
        cost += diversity * sum(float(np.sum((centred(one) @ other.T) ** 2)) for other in state[:v])
    return cost
