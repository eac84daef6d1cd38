"""k-means on the embedding: centroids, and the labels of rows of the fit and new rows by their nearest centroid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr

from coterie.arrays import like, to_host
from coterie.kernels import cpu, kernels_of
from coterie.method.seeding import draw_starts, kmeans_plus_plus
from coterie.rows import Rows
from coterie.rows.blocks import storable_block
from coterie.rows.sampling import draw_sample, sample_rows
from coterie.threads import in_order
from coterie.validation import must_be_finite

# Runs of k-means take at most RUN_PASSES passes over RUN_ROWS rows; the best one is then refined by at most
# REFINE_PASSES passes over REFINE_ROWS rows.
RUN_ROWS = 20_000
RUN_PASSES = 100
REFINE_ROWS = 200_000
REFINE_PASSES = 10

# Above MANY_CLUSTERS clusters, the number of k-means runs falls in proportion, and one of them starts from cluster-QR:
# a random start nearly always misses some of many clusters, and cluster-QR hardly ever does. The runs use FEW_ROWS
# rows, or FEW_PER_CLUSTER per cluster where that is more, and only the best one continues on RUN_ROWS.
MANY_CLUSTERS = 32
FEW_ROWS = 5000
FEW_PER_CLUSTER = 10
SEEDS_PER_CLUSTER = 10  # rows per cluster that starts are drawn from, above MANY_CLUSTERS


@dataclass(frozen=True)
class Partition:
    """Labels of some rows, and their squared distances to the two nearest centroids."""

    labels: np.ndarray  # (b,) int32
    nearest: np.ndarray  # (b,) squared distance to the row's own centroid
    second: np.ndarray  # (b,) squared distance to the next one


@storable_block
@dataclass(frozen=True)
class AssignedRows:
    """Labels of some rows, and how sure they are."""

    labels: np.ndarray  # (b,) int32
    nearest: np.ndarray  # (b,) squared distance to the row's own centroid
    confidence: np.ndarray  # (b,) how much nearer that is than the next: 0 half-way between them, 1 at the centroid
    zero: np.ndarray  # (b,) whether the row is zero in the embedding: its label is arbitrary, and its confidence 0


def assign(embedding: np.ndarray, centroids: np.ndarray) -> Partition:
    """Return each row's nearest centroid."""
    return Partition(*kernels_of(embedding).assign(embedding, like(centroids, embedding)))


def assign_with_confidence(embedding: np.ndarray, centroids: np.ndarray) -> AssignedRows:
    """Return each row's nearest centroid, and how sure that is."""
    kernels, found = kernels_of(embedding), assign(embedding, centroids)
    zero = kernels.zero_rows(embedding)  # (b,)
    return AssignedRows(found.labels, found.nearest, kernels.confidence(found.nearest, found.second, zero), zero)


def shares_of_clusters(embedding: np.ndarray, centroids: np.ndarray, lacking: np.ndarray) -> np.ndarray:
    """Return shares in every cluster that are proportional to 1/d² and sum to one; NaN for rows that are ``lacking``.

    Examples
    --------
    >>> rows, centroids = np.array([[0.0, 0.0], [3.0, 0.0]]), np.array([[1.0, 0.0], [3.0, 0.0]])
    >>> shares_of_clusters(rows, centroids, np.array([False, False])).round(3).tolist()
    [[0.9, 0.1], [0.0, 1.0]]
    """
    squares = squared_gaps(embedding, centroids)  # (b, k)
    least = squares.min(axis=1, keepdims=True)  # (b, 1)
    # Relative to the nearest centroid: a row on a centroid has a share of 1, divided between equal centroids.
    near = np.where(squares == least, 1.0, least / np.where(squares == least, 1.0, squares))
    near[lacking] = np.nan
    return near / near.sum(axis=1, keepdims=True)


def squared_gaps(rows: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Return the squared distances between rows and centroids, in float64 against cancellation."""
    rows, centroids = rows.astype(np.float64), centroids.astype(np.float64)
    lengths = (rows**2).sum(axis=1)[:, None] + (centroids**2).sum(axis=1)  # (b, k)
    return np.maximum(lengths - 2 * rows @ centroids.T, 0)


def fit_centroids(
    rows: Rows,
    n_clusters: int,
    *,
    method: str,
    n_init: int,
    rng: np.random.Generator,
    n_threads: int = 1,
    all_runs: bool = True,
) -> np.ndarray:
    """Return k centroids, given rows whose blocks hold their embedding.

    Unless ``all_runs``, fewer than ``n_init`` runs of k-means are made where clusters are many.
    """
    rows = sample_rows(rows, REFINE_ROWS, rng, n_threads)
    sample = rows.take(draw_sample(rows.n_rows, RUN_ROWS, rng))  # (m, c)
    must_be_finite("embedding", sample)
    if method == "cluster_qr":
        centroids, _ = lloyd(to_host(sample), qr_centroids(to_host(sample), n_clusters))
    elif all_runs or n_clusters <= MANY_CLUSTERS or kernels_of(sample).BATCHED:
        centroids = best_of(sample, draw_starts(n_init, n_clusters, rng), n_threads)
    else:
        few = sample[draw_sample(len(sample), max(FEW_ROWS, FEW_PER_CLUSTER * n_clusters), rng)]
        draws = draw_starts(fewer_runs(n_init, n_clusters), n_clusters, rng)
        centroids, _ = lloyd(sample, best_centroids(few, draws, n_threads))
    return to_host(centroids) if len(sample) == rows.n_rows else refine(rows, to_host(centroids))


def best_centroids(sample: np.ndarray, draws: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """Return the centroids of the best of several runs of k-means: one from cluster-QR, the others from rows far apart.

    ``draws`` holds the random numbers of the latter, from :func:`coterie.method.seeding.draw_starts`.
    """
    k, kernels = draws.shape[1], kernels_of(sample)
    if kernels.BATCHED:
        return kernels.best_centroids(sample[None], draws[None], RUN_PASSES)[0]
    seeds = sample if k <= MANY_CLUSTERS else sample[:: max(1, len(sample) // (SEEDS_PER_CLUSTER * k))]

    def run(own: np.ndarray | None) -> tuple[np.ndarray, float]:
        start = qr_centroids(sample, k) if own is None else seeds[kmeans_plus_plus(seeds, own[None])[0]]
        return lloyd(sample, start)

    return min(in_order(run, [None, *draws], n_threads), key=lambda end: end[1])[0]  # (k, c)


def fewer_runs(n_runs: int, k: int) -> int:
    """Return the number of k-means runs for k clusters, given that for few clusters.

    Examples
    --------
    >>> [fewer_runs(10, k) for k in (10, 32, 100, 1000)]
    [10, 10, 3, 1]
    """
    return n_runs if k <= MANY_CLUSTERS else max(1, n_runs * MANY_CLUSTERS // k)


def best_of(sample: np.ndarray, draws: np.ndarray, n_threads: int) -> np.ndarray:
    """Return the centroids of the best of several runs of k-means; ``draws`` are the random numbers of their starts."""
    groups = [draws] if kernels_of(sample).BATCHED else np.split(draws, len(draws))
    ends = list(in_order(lambda own: best_run(sample, sample[kmeans_plus_plus(sample, own)]), groups, n_threads))
    return min(ends, key=lambda end: end[1])[0]  # (k, c)


def best_run(sample: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the centroids of the best run of k-means from several starts (runs x k x c), and its inertia."""
    centroids, inertias = kmeans_runs(sample, starts)
    inertias = to_host(inertias)
    best = int(inertias.argmin())
    return centroids[best], float(inertias[best])


def lloyd(sample: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the centroids of k-means started from the given ones (k x c), and their inertia."""
    return best_run(sample, start[None])


def kmeans_runs(sample: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the final centroids of several runs of k-means (runs x k x c), and their inertias (runs,)."""
    kernels, centroids = kernels_of(sample), starts
    if kernels.BATCHED:
        return kernels.kmeans_runs(sample, starts, RUN_PASSES)
    labels, nearest = kernels.nearest_centroids(sample, centroids)  # (runs, n), (runs, n)
    for _ in range(RUN_PASSES):
        centroids = kernels.group_centroids(sample, labels, nearest, starts.shape[1])
        before = labels
        labels, nearest = kernels.nearest_centroids(sample, centroids)
        if np.array_equal(labels, before):
            break
    return centroids, nearest.sum(axis=1)


def refine(rows: Rows, centroids: np.ndarray) -> np.ndarray:
    """Return the centroids after a few passes of k-means over all rows."""
    for _ in range(REFINE_PASSES):
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


@dataclass(frozen=True)
class Prediction:
    """Labels, confidence, embedding and novelty of some consecutive rows.

    Attributes
    ----------
    first_row : int
        The number of the first row.
    labels : ndarray of shape (b,)
    confidence : ndarray of shape (b,)
    embedding : ndarray of shape (b, n_components)
    novelty : ndarray of shape (b,) or None
        None for a model without a novelty scale.
    """

    first_row: int
    labels: np.ndarray
    confidence: np.ndarray
    embedding: np.ndarray
    novelty: np.ndarray | None = None

    def arrays(self) -> dict[str, np.ndarray]:
        """Return labels, confidence, embedding and, where it is known, novelty."""
        found = {"labels": self.labels, "confidence": self.confidence, "embedding": self.embedding}
        return found if self.novelty is None else {**found, "novelty": self.novelty}


@storable_block
@dataclass(frozen=True)
class Census:
    """The sizes and medoids of the clusters among some consecutive rows, and sums over the rows."""

    n_rows: int
    sizes: np.ndarray  # (k,)
    medoids: np.ndarray  # (k,) number of the row nearest to each centroid, from the first of these rows; -1 without any
    gaps: np.ndarray  # (k,) its squared distance, infinite for an empty cluster
    confidence: np.ndarray  # () the sum over the rows
    n_zero: np.ndarray  # () the number of rows that are zero in the embedding


def count_clusters(part: AssignedRows, n_clusters: int) -> Census:
    """Return the census of one block."""
    kernels = kernels_of(part.labels)
    medoids = kernels.least_in_group(part.nearest, part.labels, n_clusters)  # (k,)
    sizes = kernels.count_groups(part.labels, n_clusters)  # (k,)
    medoids, gaps, confidence, n_zero = to_host(
        (medoids, part.nearest[medoids], part.confidence.sum(), part.zero.sum())
    )
    gaps = np.where(medoids >= 0, gaps, np.inf)  # (k,)
    return Census(len(part.labels), sizes, medoids, gaps, np.asarray(confidence), np.asarray(n_zero))


def merge_censuses(parts: Sequence[Census]) -> Census:
    """Return the census of consecutive blocks together; among equally near rows the first is the medoid."""
    firsts = np.cumsum([0, *(part.n_rows for part in parts)])
    gaps = np.stack([part.gaps for part in parts])  # (blocks, k)
    medoids = np.stack([part.medoids + first for part, first in zip(parts, firsts, strict=False)])
    best = gaps.argmin(axis=0)  # (k,)
    clusters = np.arange(len(best))
    least = gaps[best, clusters]
    found = np.where(np.isfinite(least), medoids[best, clusters], -1)
    sizes, confidence, n_zero = (
        np.sum([getattr(part, name) for part in parts], axis=0) for name in ("sizes", "confidence", "n_zero")
    )
    return Census(int(firsts[-1]), sizes, found, least, confidence, n_zero)


def qr_centroids(sample: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return the groups' means of the cluster-QR method (Damle, Minden and Ying 2019).

    A pivoted QR of the embedding finds k rows that are as different as possible. The rotation nearest to them maps the
    embedding's axes to clusters. It needs no starting point.
    """
    # One more, constant column makes the k corners of a simplex linearly independent; they span only k - 1 directions
    # without it.
    rows = np.column_stack([sample, np.full(len(sample), n_clusters**-0.5, dtype=sample.dtype)])  # (n, c + 1)
    _, _, pivots = qr(rows.T, mode="economic", pivoting=True)
    left, _, right = cpu.singular_vectors(rows[pivots[:n_clusters]].T)  # (c + 1, m), (m,), (m, k)
    closeness = np.abs(rows @ (left @ right))  # (n, k)
    labels = closeness.argmax(axis=1).astype(np.int32)
    farness = -closeness.max(axis=1).astype(np.float64)  # (n,)
    return kernels_of(sample).group_centroids(sample, labels[None], farness[None], n_clusters)[0]  # (k, c)
