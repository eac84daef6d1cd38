"""Sequential spectral clustering: block by block, never with all rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.kernels import cpu
from coterie.method.assignment import assign
from coterie.method.rowmap import Basis
from coterie.method.spectra import graph_spectrum
from coterie.peers._bipartite import check_graph_parameters, choose_landmarks, connect, find_bandwidth
from coterie.peers._common import Peer, TableReader, fit_cut
from coterie.peers._docstrings import peer
from coterie.peers.lsc import LandmarkMap
from coterie.rows.memory import MemoryRows
from coterie.threads import count_threads, in_order, one_thread_per_block
from coterie.views import Views
from coterie.views.steps import Table

SAMPLE = 10  # rows that are drawn for every landmark
LEAST_SAMPLE = 2000


@peer
class Sequential(Peer):
    """Scalable sequential spectral clustering, of one view or of all side by side.

    Landmarks come from a sample. One pass over blocks of rows adds up the p x p sums that the singular
    vectors need, a second updates the centroids of k-means, and a third labels the rows. Time
    O(n p d); memory O(p^2 + b d) besides the labels, with blocks of b rows: views may be memory maps.

    Parameters
    ----------
    n_landmarks, n_neighbors
        As in :class:`coterie.peers.LSC`: p and q.
    landmarks : "kmeans" or "random", default="kmeans"
        Means of a few passes of k-means over the sample, or random rows.
    bandwidth : "median", "mean_squared", "local" or number, default="median"
        Sigma of the Gaussian weights, as in :class:`coterie.peers.LSC`.
    block_size : int, default=8192
        Number of rows that are read at once, b.
    n_init : int, default=10
        Restarts of k-means on the sample.

    Attributes
    ----------
    singular_values_ : ndarray
        Singular values of the normalised graph.
    cluster_centers_ : ndarray of shape (n_clusters, n_clusters)
        Centroids of the embedded rows.

    Notes
    -----
    ``predict`` maps new rows like those of the fit.

    References
    ----------
    Y. Li, J. Huang and W. Liu: Scalable Sequential Spectral Clustering. AAAI 2016.

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> from coterie.metrics import clustering_accuracy
    >>> from coterie.peers import Sequential
    >>> data = make_views(300, n_clusters=3, separation=8, random_state=0)
    >>> model = Sequential(3, n_landmarks=50, random_state=0).fit(data.views)
    >>> clustering_accuracy(data.target, model.labels_) > 0.9
    True
    """

    view: str | int | None = None
    n_landmarks: int = 800
    n_neighbors: int = 8
    landmarks: Any = "kmeans"
    bandwidth: str = "median"
    block_size: int = 8192
    n_init: int = 10
    n_jobs: int = -1
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Sequential:
        check_graph_parameters("Sequential", self.n_landmarks, self.n_neighbors, self.landmarks, self.bandwidth)
        self._check_ints(block_size=1, n_init=1)
        views = self._read_views(X)
        rng, n_threads = self._make_rng(), count_threads(self.n_jobs)
        sample = views.take(draw_rows(views.n_rows, self.n_landmarks, rng))
        reader = self._learn_reader(sample)
        blocks = Blocks(reader, views, self.block_size, n_threads)
        with one_thread_per_block():
            table = reader.table(sample)  # (s, d)
            landmarks = choose_landmarks(table, self.n_landmarks, self.landmarks, rng, n_threads)
            sigma = find_bandwidth(table, landmarks, self.bandwidth, rng)
            gram = sum_gram(blocks, landmarks, self.n_neighbors, sigma)  # (p, p): the first pass
            spectrum = graph_spectrum(gram, self.n_clusters)
            row_map = map_of(spectrum.basis.astype(table.dtype), landmarks, self.n_neighbors, sigma)
            start = fit_cut(row_map(table, n_threads), self.n_clusters, self.n_init, rng).centroids
            centers = move_centers(start, (row_map(rows, 1) for rows in blocks))  # the second
            labels = np.concatenate([assign(row_map(rows, 1), centers).labels for rows in blocks])  # the third
        self._reader, self._row_map = reader, row_map
        self.singular_values_, self.cluster_centers_, self.labels_ = spectrum.singular_values, centers, labels
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the clusters of rows, new or old, by the map that the rows of the fit went through."""
        reader, views = self._read_new_rows(X)
        blocks = Blocks(reader, views, self.block_size, count_threads(self.n_jobs))
        with one_thread_per_block():
            found = [assign(self._row_map(rows, 1), self.cluster_centers_).labels for rows in blocks]
        return np.concatenate(found)


@dataclass(frozen=True)
class Blocks:
    """Blocks of rows, read in order, a few of them ahead."""

    reader: TableReader
    views: Views
    size: int
    n_threads: int

    @property
    def slices(self) -> list[slice]:
        """The rows of every block."""
        n = self.views.n_rows
        return [slice(start, min(start + self.size, n)) for start in range(0, n, self.size)]

    def __iter__(self) -> Iterator[Table]:
        return in_order(self.read, self.slices, self.n_threads)

    def read(self, rows: slice) -> Table:
        """Return one block as a table."""
        return self.reader.table(self.views, rows)  # (b, d)


def draw_rows(n_rows: int, n_landmarks: int, rng: np.random.Generator) -> np.ndarray:
    """Return the rows of the sample, ascending; all rows if there are no more."""
    count = min(n_rows, max(SAMPLE * n_landmarks, LEAST_SAMPLE))
    return np.sort(rng.choice(n_rows, count, replace=False))


def sum_gram(blocks: Blocks, landmarks: Table, n_neighbors: int, sigma: float) -> np.ndarray:
    """Return sum_i z_i z_i^T, read block by block."""
    p = landmarks.shape[0]
    rows = MemoryRows(blocks.slices, n_rows=blocks.views.n_rows, n_threads=blocks.n_threads)

    def add(some: slice, total: tuple[np.ndarray]) -> None:
        for block in connect(blocks.read(some), landmarks, n_neighbors, sigma, 1).blocks:  # type: ignore[attr-defined]
            cpu.gram(block.indices, block.weights, total[0])

    (total,) = rows.sum(add, lambda: (cpu.new_gram(p, landmarks),))
    return cpu.finish_gram(total)  # (p, p)


def map_of(basis: np.ndarray, landmarks: Table, n_neighbors: int, sigma: float) -> LandmarkMap:
    """Return the map from rows to their singular vectors, each of length one."""
    as_it_is = np.eye(basis.shape[1], dtype=basis.dtype)[None]  # (1, k, k)
    return LandmarkMap(landmarks, n_neighbors, sigma, Basis(basis[None], as_it_is, unit=True))


def move_centers(centers: np.ndarray, embedded: Iterator[np.ndarray]) -> np.ndarray:
    """Return centroids after sequential k-means (MacQueen): every block updates the running mean of each cluster."""
    means, counts = centers.astype(np.float64), np.zeros(len(centers))  # (k, c), (k,)
    for rows in embedded:
        sums, more = np.zeros_like(means), np.zeros_like(counts)
        cpu.add_groups(rows, assign(rows, means.astype(rows.dtype)).labels, sums, more)
        counts += more
        means += (sums - more[:, None] * means) / np.maximum(counts, 1)[:, None]
    return means.astype(centers.dtype)
