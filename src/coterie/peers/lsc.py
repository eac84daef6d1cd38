"""LSC: spectral clustering of one table through landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from coterie.method.assignment import assign
from coterie.method.rowmap import Basis
from coterie.method.spectra import graph_spectrum, whole_grams
from coterie.peers._bipartite import (
    check_graph_parameters,
    choose_landmarks,
    connect,
    find_bandwidth,
)
from coterie.peers._common import Peer, fit_cut
from coterie.peers._docstrings import peer
from coterie.rows import Rows
from coterie.threads import count_threads, one_thread_per_block
from coterie.views import Table


@dataclass(frozen=True)
class LandmarkMap:
    """A map from rows of a table to their embedding by the landmarks' singular vectors."""

    landmarks: Table  # (p, d)
    n_neighbors: int
    sigma: float
    basis: Basis

    def __call__(self, table: Table, n_threads: int) -> np.ndarray:
        """Return the rows' embedding, each of length one."""
        return self.embed(connect(table, self.landmarks, self.n_neighbors, self.sigma, n_threads))

    def embed(self, rows: Rows) -> np.ndarray:
        """Return the embedding of rows that are joined to the landmarks already."""
        bounds = np.array([0, min(self.n_neighbors, self.landmarks.shape[0])])
        return rows.collect(lambda block: self.basis.stack(block, bounds))  # (n, k)


@dataclass(frozen=True)
class LandmarkEmbedding:
    """A table's rows, embedded through landmarks."""

    rows: np.ndarray  # (n, k), each of length one
    singular_values: np.ndarray  # of Zhat after the first, descending
    row_map: LandmarkMap  # from rows of a table to these


@dataclass(eq=False, repr=False, kw_only=True)
class LandmarkPeer(Peer):
    """Base class of :class:`coterie.peers.LSC`; subclasses choose the view."""

    n_landmarks: int = 800
    n_neighbors: int = 8
    landmarks: Any = "kmeans"
    bandwidth: str = "mean_squared"
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        owner = type(self).__name__
        check_graph_parameters(owner, self.n_landmarks, self.n_neighbors, self.landmarks, self.bandwidth)
        self._check_ints(n_init=1)
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        reader = self._learn_reader(views)
        with one_thread_per_block():
            table = reader.table(views)  # (n, d)
            landmarks = choose_landmarks(table, self.n_landmarks, self.landmarks, rng, n_threads)
            sigma = find_bandwidth(table, landmarks, self.bandwidth, rng)
            found = embed(table, landmarks, self.n_neighbors, sigma, self.n_clusters, n_threads=n_threads)
            clusters = fit_cut(found.rows, self.n_clusters, self.n_init, rng)
        self._reader, self._row_map, self._centroids = reader, found.row_map, clusters.centroids
        self.embedding_, self.singular_values_ = found.rows, found.singular_values
        self.labels_ = clusters.labels
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the clusters of rows, new or old, by the map that the rows of the fit went through."""
        reader, views = self._read_new_rows(X)
        with one_thread_per_block():
            rows = self._row_map(reader.table(views), count_threads(self.n_jobs))  # (n, k)
        return assign(rows, self._centroids).labels


@peer
class LSC(LandmarkPeer):
    """Landmark-based spectral clustering of one view, or of all views side by side.

    Every row is written as a combination of its nearest landmarks, and the top singular vectors of
    those combinations, without the constant first one, are clustered by k-means. Time and memory
    grow linearly with the number of rows.

    Parameters
    ----------
    n_landmarks : int, default=800
        Number of landmarks, p; all rows if they are fewer.
    n_neighbors : int, default=8
        Number of landmarks that a row is joined to, q.
    landmarks : "kmeans" or "random", default="kmeans"
        Means of a few passes of k-means (LSC-K), or random rows (LSC-R).
    bandwidth : "mean_squared", "median", "local" or number, default="mean_squared"
        Sigma of the Gaussian weights: the mean squared distance to landmarks, as in the authors'
        code, which makes the q weights nearly equal where values are large; the median distance;
        each row's mean distance to its neighbours; or the number.

    Attributes
    ----------
    embedding_
    singular_values_ : ndarray
        Singular values of the normalised graph, after the first.

    Notes
    -----
    If clusters share no landmark, several singular values are 1, and which vector is dropped as the first is arbitrary.
    The authors' code does the same; :class:`coterie.GuidedCoTraining` keeps the vector.

    References
    ----------
    X. Chen and D. Cai: Large Scale Spectral Clustering with Landmark-Based Representation. AAAI
    2011.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import LSC
    >>> data = make_views(300, n_clusters=3, separation=4, random_state=0)
    >>> labels = LSC(3, view="view0", n_landmarks=50, n_neighbors=20, random_state=0).fit_predict(data.views)
    >>> clustering_accuracy(data.target, labels) > 0.9
    True
    """

    view: str | int | None = None


def embed(
    table: Table,
    landmarks: Table,
    n_neighbors: int,
    sigma: float,
    n_components: int,
    *,
    n_threads: int = 1,
) -> LandmarkEmbedding:
    """Return the top left singular vectors of Zhat after the first, as unit rows."""
    rows = connect(table, landmarks, n_neighbors, sigma, n_threads)
    p = landmarks.shape[0]
    (gram,) = whole_grams(rows, p, np.array([0, min(n_neighbors, p)]))  # (p, p)
    spectrum = graph_spectrum(gram, n_components, drop_first=True)
    bases = spectrum.basis[None].astype(table.dtype)  # (1, p, k)
    as_it_is = np.eye(n_components, dtype=table.dtype)[None]  # (1, k, k): with one graph there is nothing to combine
    row_map = LandmarkMap(landmarks, n_neighbors, sigma, Basis(bases, as_it_is, unit=True))
    return LandmarkEmbedding(row_map.embed(rows), spectrum.singular_values, row_map)
