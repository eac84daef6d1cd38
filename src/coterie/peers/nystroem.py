"""Nystroem's method: the eigenvectors of all affinities, approximated from the affinities to a few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from coterie.arrays import squared_norms
from coterie.kernels import cpu
from coterie.method.assignment import assign
from coterie.method.distances import LandmarkRows, squared_distances
from coterie.method.graphs import TILE_ROWS, median_distance
from coterie.method.spectra import inverse_roots
from coterie.peers._common import Peer, fit_cut, unit_rows
from coterie.peers._docstrings import peer
from coterie.threads import count_threads, in_order, one_thread_per_block
from coterie.views.steps import Table

# The approximation can give a row a negative degree; degrees are at least this share of the mean.
LEAST_DEGREE = 1e-6


@peer
class Nystroem(Peer):
    """Spectral clustering by the Nystroem method, of one view or of all side by side.

    The eigenvectors of the Gaussian affinities between all rows are approximated from the affinities to
    p random rows, and made orthogonal in one step. Time O(n p (d + p)), memory O(n k + p^2): both grow
    linearly with the number of rows.

    Parameters
    ----------
    n_landmarks : int, default=500
        Number of random rows, p; all rows if they are fewer, which makes the result exact.

    Attributes
    ----------
    embedding_
    eigenvalues_ : ndarray of shape (n_clusters,)
        Eigenvalues of the normalised affinities, as approximated.

    Notes
    -----
    ``predict`` maps new rows like those of the fit.

    References
    ----------
    C. Fowlkes, S. Belongie, F. Chung and J. Malik: Spectral Grouping Using the Nystroem Method. IEEE
    Transactions on Pattern Analysis and Machine Intelligence 26 (2004).

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import Nystroem
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = Nystroem(3, n_landmarks=50, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    n_landmarks: int = 500
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Nystroem:
        self._check_ints(n_landmarks=1, n_init=1)
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        reader = self._learn_reader(views, dtype=np.float64)
        with one_thread_per_block():
            table = reader.table(views)  # (n, d)
            p = min(self.n_landmarks, views.n_rows)
            landmarks = table[np.sort(rng.choice(views.n_rows, p, replace=False))]  # (p, d)
            kernel = Kernel(LandmarkRows(landmarks, np.ones(p, dtype=bool)), median_distance(table, rng))
            basis, values = spectral_basis(table, kernel, self.n_clusters, n_threads)
            embedding = embed(table, kernel, basis, n_threads)  # (n, k)
            clusters = fit_cut(embedding, self.n_clusters, self.n_init, rng)
        self._reader, self._kernel, self._basis, self._centroids = reader, kernel, basis, clusters.centroids
        self.embedding_, self.eigenvalues_, self.labels_ = embedding, values, clusters.labels
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the clusters of rows, new or old, by the map that the rows of the fit went through."""
        reader, views = self._read_new_rows(X)
        with one_thread_per_block():
            rows = embed(reader.table(views), self._kernel, self._basis, count_threads(self.n_jobs))
        return assign(rows, self._centroids).labels


@dataclass(frozen=True)
class Kernel:
    """Gaussian affinities to the landmarks."""

    landmarks: LandmarkRows
    sigma: float

    def __call__(self, rows: Table) -> np.ndarray:
        """Return exp(-d^2 / 2 sigma^2) of some rows."""
        squares = squared_distances(rows, squared_norms(rows), self.landmarks)  # (b, p)
        return np.exp(squares / (-2 * self.sigma**2))


def spectral_basis(table: Table, kernel: Kernel, n_components: int, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the p x k map from affinities to eigenvectors, and the eigenvalues.

    A are the landmarks' affinities to each other, k_i those of row i to the landmarks. The approximated degree of row
    i is k_i A^-1 sum_j k_j, of landmarks and other rows alike. With both normalised by their degrees,
    S = A^-1/2 (sum_i k_i k_i^T) A^-1/2 = U L U^T, and the embedding of row i is k_i A^-1/2 U L^-1/2. A is nearly
    singular, so that its pseudo-inverse is used.
    """
    own = kernel(kernel.landmarks.rows)  # (p, p)
    values, vectors = eigh(own)
    roots = inverse_roots(values)  # (p,)
    total = sum(blocks(table, n_threads, lambda rows: kernel(rows).sum(axis=0)))  # (p,)
    shares = vectors @ (roots**2 * (vectors.T @ total))  # (p,) A^-1 sum_j k_j
    floor = LEAST_DEGREE * float(total @ shares) / table.shape[0]

    def add(rows: Table) -> np.ndarray:
        affinities = kernel(rows)  # (b, p)
        degrees = np.maximum(affinities @ shares, floor)  # (b,)
        return (affinities / degrees[:, None]).T @ affinities

    gram = sum(blocks(table, n_threads, add))  # (p, p)
    scale = np.maximum(own @ shares, floor) ** -0.5  # (p,) D^-1/2 at the landmarks
    values, vectors = eigh(own * scale * scale[:, None])
    half = (vectors * inverse_roots(values)) @ vectors.T  # (p, p) A^-1/2
    found, tops = cpu.largest_eigenpairs(half @ (gram * scale * scale[:, None]) @ half, min(n_components, len(own)))
    basis = np.zeros((len(own), n_components))
    basis[:, : len(found)] = scale[:, None] * (half @ (tops * inverse_roots(found)))
    return basis, found


def embed(table: Table, kernel: Kernel, basis: np.ndarray, n_threads: int) -> np.ndarray:
    """Return the rows' entries of the eigenvectors, scaled to length one, so that their degrees cancel."""
    return np.concatenate(list(blocks(table, n_threads, lambda rows: unit_rows(kernel(rows) @ basis))))  # (n, k)


def blocks(table: Table, n_threads: int, function: Callable[[Table], np.ndarray]) -> Iterator[np.ndarray]:
    """Yield a function of each block of rows, so that the n x p affinities are never in memory at once."""
    return in_order(
        lambda start: function(table[start : start + TILE_ROWS]), range(0, table.shape[0], TILE_ROWS), n_threads
    )
