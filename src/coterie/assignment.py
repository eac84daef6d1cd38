"""An embedding -> labels, by centroids that new rows can be compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, svd
from sklearn.cluster import kmeans_plusplus

from coterie.kernels import cpu
from coterie.rows import Rows

# Restarts of k-means run on this many rows; the best one is then refined on all of them.
SAMPLE_ROWS = 20_000
MAX_ITER = 100
FULL_PASSES = 10


@dataclass(frozen=True)
class Partition:
    """Labels of some rows, and how far they are from the two nearest centroids."""

    labels: np.ndarray  # (b,) int32
    nearest: np.ndarray  # (b,) squared distance to the row's own centroid
    second: np.ndarray  # (b,) and to the next one; the same for a row without a direction

    @property
    def confidence(self) -> np.ndarray:
        """How much nearer a row is to its own centroid than to the next: 0 on the border, 1 at the centroid."""
        ratio = np.divide(self.nearest, self.second, out=np.zeros_like(self.nearest), where=self.second > 0)
        return (1 - np.sqrt(ratio)).astype(np.float32)  # (b,)


def assign(embedding: np.ndarray, centroids: np.ndarray) -> Partition:
    """Return each row's nearest centroid."""
    labels = np.empty(len(embedding), dtype=np.int32)
    nearest, second = np.empty((2, len(embedding)))
    cpu.assign(embedding, centroids, labels, nearest, second)
    nowhere = ~embedding.any(axis=1)
    second[nowhere] = nearest[nowhere]
    return Partition(labels, nearest, second)


def fit_centroids(
    rows: Rows, sample: np.ndarray, n_clusters: int, *, method: str, n_init: int, seed: int
) -> np.ndarray:
    """Return k centroids of the rows' embedding.

    ``rows`` are blocks of the embedding; ``sample`` holds some of its rows, or all where they are few.
    """
    rng = np.random.default_rng(seed)
    centroids = qr_centroids(sample, n_clusters) if method == "cluster_qr" else best_of(sample, n_clusters, n_init, rng)
    if len(sample) == rows.n_rows:
        return centroids
    return refine(rows, centroids)


def best_of(sample: np.ndarray, n_clusters: int, n_init: int, rng: np.random.Generator) -> np.ndarray:
    """Return the centroids of the best of several runs of k-means."""
    best, inertia = None, np.inf
    for seed in rng.integers(2**31, size=n_init):
        start, _ = kmeans_plusplus(sample, n_clusters, random_state=int(seed))
        centroids, value = lloyd(sample, start)
        if best is None or value < inertia:
            best, inertia = centroids, value
    assert best is not None
    return best


def lloyd(sample: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, float]:
    """Run k-means from the given centroids; return where it ends, and the inertia there."""
    partition = assign(sample, centroids)
    for _ in range(MAX_ITER):
        centroids = group_means(sample, partition, len(centroids)).astype(sample.dtype)
        moved = assign(sample, centroids)
        settled = np.array_equal(moved.labels, partition.labels)
        partition = moved
        if settled:
            break
    return centroids, float(partition.nearest.sum())


def group_means(sample: np.ndarray, partition: Partition, n_clusters: int) -> np.ndarray:
    """Return the groups' means; an empty group starts anew at the row farthest from its centroid."""
    sums, counts = np.zeros((n_clusters, sample.shape[1])), np.zeros(n_clusters)
    cpu.add_groups(sample, partition.labels, sums, counts)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        farthest = np.argsort(-partition.nearest, kind="stable")[: len(empty)]
        sums[empty], counts[empty] = sample[farthest], 1
    return sums / counts[:, None]  # (k, c)


def refine(rows: Rows, centroids: np.ndarray) -> np.ndarray:
    """Take a few passes of k-means over all rows."""
    for _ in range(FULL_PASSES):
        sums, counts = sum_groups(rows, centroids)
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centroids)  # (k, c)
        step = np.abs(means - centroids).max()
        centroids = means.astype(centroids.dtype)
        if step < 1e-4:  # rows have unit length
            break
    return centroids


def sum_groups(rows: Rows, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum and the number of the rows nearest to each centroid."""

    def add(block: np.ndarray, total: tuple[np.ndarray, np.ndarray]) -> None:
        cpu.add_groups(block, assign(block, centroids).labels, *total)

    return rows.sum(add, lambda: (np.zeros(centroids.shape), np.zeros(len(centroids))))


def nearest_rows(distances: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return for every cluster the row with the least distance, -1 for an empty one."""
    order = np.lexsort((distances, labels))  # by cluster, then by distance
    firsts = np.searchsorted(labels[order], np.arange(n_clusters))
    counts = np.bincount(labels, minlength=n_clusters)
    return np.where(counts > 0, order[np.minimum(firsts, len(order) - 1)], -1)  # (k,)


def qr_centroids(sample: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return the groups' means of the cluster-QR method (Damle, Minden and Ying 2019).

    A pivoted QR of the embedding finds k rows that are as different as can be; the rotation nearest to them turns the
    embedding's axes into clusters. It needs no starting point.
    """
    _, _, pivots = qr(sample.T, mode="economic", pivoting=True)
    left, _, right = svd(sample[pivots[:n_clusters]].T, full_matrices=False)  # (c, m), (m, k)
    closeness = np.abs(sample @ (left @ right))  # (n, k)
    labels = closeness.argmax(axis=1).astype(np.int32)
    farness = -closeness.max(axis=1).astype(np.float64)  # (n,)
    partition = Partition(labels, farness, farness)
    return group_means(sample, partition, n_clusters).astype(sample.dtype)
