"""Multiple kernel Laplacian: every view's graph as a kernel, and kernel k-means with weights that are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coterie.peers._alternation import Alternation, Round, alternate
from coterie.peers._common import Peer, cut, unit_rows
from coterie.peers._dense import check_row_count, normalised, top_vectors, view_affinities
from coterie.peers._docstrings import peer
from coterie.peers.aasc import combine
from coterie.threads import one_thread_per_block
from coterie.validation import check_real


@dataclass(frozen=True)
class KernelKMeans:
    """The relaxed cluster indicators, and the weights of the kernels."""

    indicators: np.ndarray  # (n, k), orthonormal
    weights: np.ndarray  # (V,) summing to one


@peer
class MultipleKernelLaplacian(Peer):
    """Multi-view spectral clustering with multiple kernels that are graphs' Laplacians.

    The kernel of a view is its normalised affinity, shifted to be positive semi-definite, and the kernels are added up
    as sum_v w_v^2 K^v. The relaxed indicators of kernel k-means and the weights are found by turns. Memory grows with
    n^2 and time faster; n is refused above 10,000.

    Parameters
    ----------
    n_clusters

    Attributes
    ----------
    embedding_
    view_weights_ : dict of float
        Weight of every view; they sum to one.
    objective_ : list of float
        The error of kernel k-means, tr(K (I - H H^T)), after each round; it never rises.
    n_iter_

    Notes
    -----
    k vectors explain little of a graph's kernel, whose trace is n / 2. So views' errors, and with them their weights,
    hardly differ unless n is small.

    References
    ----------
    D. Guo, J. Zhang, X. Liu, Y. Cui and C. Zhao: Multiple Kernel Learning Based Multi-view Spectral Clustering. ICPR
    2014.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import MultipleKernelLaplacian
    >>> data = make_views(200, n_clusters=3, separation=8, random_state=0)
    >>> labels = MultipleKernelLaplacian(3, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    max_iter: int = 50
    tol: float = 1e-6
    n_init: int = 10
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> MultipleKernelLaplacian:
        owner = "MultipleKernelLaplacian"
        self._check_ints(max_iter=1, n_init=1)
        check_real(owner, "tol", self.tol, low=0)
        views = self._read_views(X)
        check_row_count(owner, views.n_rows, len(views) + 3)
        rng = self._make_rng()
        with one_thread_per_block():
            kernels = [graph_kernel(affinity) for affinity in view_affinities(views, rng)]  # each (n, n)
            found = learn_kernel(kernels, self.n_clusters, self.max_iter, self.tol)
            embedding = unit_rows(found.state.indicators)  # (n, k)
            labels = cut(embedding, self.n_clusters, self.n_init, rng)
        self.embedding_, self.labels_ = embedding, labels
        self.view_weights_ = dict(zip(views.names, found.state.weights.tolist(), strict=True))
        self.objective_, self.n_iter_ = list(found.objective), found.n_iter
        return self


def graph_kernel(affinity: np.ndarray) -> np.ndarray:
    """Return (I + D^(-1/2) A D^(-1/2)) / 2: 1 minus half the normalised Laplacian, with eigenvalues from 0 to 1."""
    kernel = normalised(affinity)
    kernel /= 2
    kernel[np.diag_indices_from(kernel)] += 0.5
    return kernel


def learn_kernel(
    kernels: Sequence[np.ndarray], n_clusters: int, max_iter: int, tol: float
) -> Alternation[KernelKMeans]:
    """Minimise tr(K (I - H H^T)) over H and over the weights in K = sum_v w_v^2 K^v by turns."""
    even = np.full(len(kernels), 1 / len(kernels))  # (V,)
    start = KernelKMeans(np.empty((len(kernels[0]), n_clusters)), even)
    return alternate(start, partial(kernel_round, kernels), max_iter=max_iter, tol=tol)


def kernel_round(kernels: Sequence[np.ndarray], now: KernelKMeans) -> Round[KernelKMeans]:
    """Update the indicators, and then the weights."""
    indicators = top_vectors(combine(kernels, now.weights), now.indicators.shape[1])  # (n, k)
    costs = np.array([np.trace(kernel) - np.sum(indicators * (kernel @ indicators)) for kernel in kernels])  # (V,)
    weights = 1 / np.maximum(costs, np.finfo(float).tiny)  # the minimum of sum_v w_v^2 c_v where sum_v w_v = 1
    weights /= weights.sum()
    return Round(KernelKMeans(indicators, weights), float(weights**2 @ costs))
