"""An embedding -> labels, by centroids that new rows can be compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr, svd

from coterie.arrays import array_namespace, convert, like, to_host
from coterie.kernels import is_tensor, kernels_of
from coterie.method.seeding import draw_starts, far_apart, far_apart_at_once
from coterie.rows import Rows
from coterie.rows.blocks import storable
from coterie.rows.sampling import draw_sample, sample_rows
from coterie.threads import in_order
from coterie.validation import must_be_finite

# Restarts of k-means run on this many rows; the best one is then refined on all of them, or on many.
SAMPLE_ROWS = 20_000
REFINE_ROWS = 200_000
MAX_ITER = 100
FULL_PASSES = 10


@storable
@dataclass(frozen=True)
class Partition:
    """Labels of some rows, and how far they are from the two nearest centroids."""

    labels: np.ndarray  # (b,) int32
    nearest: np.ndarray  # (b,) squared distance to the row's own centroid
    second: np.ndarray  # (b,) and to the next one; the same for a row without a direction

    @property
    def confidence(self) -> np.ndarray:
        """How much nearer a row is to its own centroid than to the next: 0 on the border, 1 at the centroid."""
        xp = array_namespace(self.nearest)
        away = self.second > 0
        ratio = xp.where(away, self.nearest / xp.where(away, self.second, 1.0), 0.0)
        return convert(1 - ratio**0.5, "float32")  # (b,)


def assign(embedding: np.ndarray, centroids: np.ndarray) -> Partition:
    """Return each row's nearest centroid."""
    labels, nearest, second = kernels_of(embedding).assign(embedding, like(centroids, embedding))
    xp = array_namespace(embedding)
    second = xp.where(xp.any(embedding != 0, axis=1), second, nearest)
    return Partition(labels, nearest, second)


def fit_centroids(
    rows: Rows, n_clusters: int, *, method: str, n_init: int, rng: np.random.Generator, n_threads: int = 1
) -> np.ndarray:
    """Return k centroids of the rows' embedding, which ``rows`` are blocks of."""
    rows = sample_rows(rows, REFINE_ROWS, rng, n_threads)
    sample = rows.take(draw_sample(rows.n_rows, SAMPLE_ROWS, rng))  # (m, c)
    must_be_finite("embedding", sample)
    if method == "cluster_qr":
        centroids, _ = lloyd(to_host(sample), qr_centroids(to_host(sample), n_clusters))
    else:
        draws = draw_starts(n_init, n_clusters, rng)
        centroids = best_at_once(sample, draws) if is_tensor(sample) else best_of(sample, draws, n_threads)
    return to_host(centroids) if len(sample) == rows.n_rows else refine(rows, to_host(centroids))


def best_of(sample: np.ndarray, draws: np.ndarray, n_threads: int) -> np.ndarray:
    """Return the centroids of the best of several runs of k-means, one for each of ``draws``."""
    ends = list(in_order(lambda own: lloyd(sample, sample[far_apart(sample, own)]), draws, n_threads))
    return min(ends, key=lambda end: end[1])[0]


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
    kernels_of(sample).add_groups(sample, partition.labels, sums, counts)
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

    def add(block: np.ndarray, total: list[np.ndarray]) -> None:
        kernels = kernels_of(block)
        if not total:
            total += [kernels.zeros(centroids.shape, block), kernels.zeros((len(centroids),), block)]
        kernels.add_groups(block, assign(block, centroids).labels, *total)

    return to_host(tuple(rows.sum(add, list)))


def best_at_once(sample: Any, draws: np.ndarray) -> Any:
    """Return the centroids of the best of several runs of k-means, all made side by side, as a GPU likes it."""
    import torch

    from coterie.kernels.torch import squared_distances

    n_clusters = draws.shape[1]
    centroids = far_apart_at_once(sample, draws)  # (runs, k, c)
    distances = squared_distances(sample, centroids)  # (runs, n, k)
    labels = distances.argmin(dim=2)
    for number in range(MAX_ITER):
        members = torch.nn.functional.one_hot(labels, n_clusters).to(sample.dtype)  # (runs, n, k)
        counts = members.sum(dim=1)  # (runs, k)
        means = (members.mT @ sample) / counts.clamp(min=1)[:, :, None]
        # An empty group starts anew at the row farthest from its centroid.
        farthest = sample[distances.amin(dim=2).argmax(dim=1)]  # (runs, c)
        centroids = torch.where(counts[:, :, None] > 0, means, farthest[:, None])
        distances = squared_distances(sample, centroids)
        before, labels = labels, distances.argmin(dim=2)
        if number % 5 == 4 and bool((labels == before).all()):  # asking takes longer than a pass
            break
    return centroids[distances.amin(dim=2).sum(dim=1).argmin()]


@dataclass(frozen=True)
class Prediction:
    """What a model says of some consecutive rows.

    Attributes
    ----------
    first_row : int
        The number of the first of them.
    labels : ndarray of shape (b,)
    confidence : ndarray of shape (b,)
    embedding : ndarray of shape (b, n_components)
    """

    first_row: int
    labels: np.ndarray
    confidence: np.ndarray
    embedding: np.ndarray

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return labels, confidence and embedding."""
        return self.labels, self.confidence, self.embedding


@storable
@dataclass(frozen=True)
class Census:
    """What some rows say of the clusters."""

    n_rows: int
    sizes: np.ndarray  # (k,)
    medoids: np.ndarray  # (k,) the row nearest to each centroid, counted from the first of these; -1 where none is
    gaps: np.ndarray  # (k,) its squared distance, infinite where none is
    confidence: np.ndarray  # () of all rows together


def count_clusters(part: Partition, n_clusters: int) -> Census:
    """Return the census of one block."""
    medoids = kernels_of(part.labels).least_in_group(part.nearest, part.labels, n_clusters)  # (k,)
    gaps = to_host(part.nearest[medoids])
    medoids = to_host(medoids)
    sizes = np.bincount(to_host(part.labels), minlength=n_clusters)  # (k,)
    confidence = np.asarray(to_host(part.confidence.sum()))
    return Census(len(part.labels), sizes, medoids, np.where(medoids >= 0, gaps, np.inf), confidence)


def merge_censuses(parts: Sequence[Census]) -> Census:
    """Return the census of consecutive blocks together; among equals the first row is the medoid."""
    firsts = np.cumsum([0, *(part.n_rows for part in parts)])
    gaps = np.stack([part.gaps for part in parts])  # (blocks, k)
    medoids = np.stack([part.medoids + first for part, first in zip(parts, firsts, strict=False)])
    best = gaps.argmin(axis=0)  # (k,)
    clusters = np.arange(len(best))
    least = gaps[best, clusters]
    found = np.where(np.isfinite(least), medoids[best, clusters], -1)
    sizes, confidence = (np.sum([getattr(part, name) for part in parts], axis=0) for name in ("sizes", "confidence"))
    return Census(int(firsts[-1]), sizes, found, least, confidence)


def qr_centroids(sample: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return the groups' means of the cluster-QR method (Damle, Minden and Ying 2019).

    A pivoted QR of the embedding finds k rows that are as different as can be; the rotation nearest to them turns the
    embedding's axes into clusters. It needs no starting point.
    """
    # With one more, constant column, rows at the corners of a simplex are as different as can be: without it, corners
    # that are no more than k - 1 directions apart are not.
    rows = np.column_stack([sample, np.full(len(sample), n_clusters**-0.5, dtype=sample.dtype)])  # (n, c + 1)
    _, _, pivots = qr(rows.T, mode="economic", pivoting=True)
    left, _, right = svd(rows[pivots[:n_clusters]].T, full_matrices=False)  # (c + 1, m), (m, k)
    closeness = np.abs(rows @ (left @ right))  # (n, k)
    labels = closeness.argmax(axis=1).astype(np.int32)
    farness = -closeness.max(axis=1).astype(np.float64)  # (n,)
    partition = Partition(labels, farness, farness)
    return group_means(sample, partition, n_clusters).astype(sample.dtype)
