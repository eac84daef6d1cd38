"""How far a partition depends on which rows happened to be landmarks.

The landmarks of a fit are split into two random halves, twice, and four times more where stability is low. In a half's
graphs every row keeps only its neighbours in that half. A sample of rows is clustered in each half's augmented view,
before any guiding, and the two partitions are compared. Neighbours are not searched again, the halves' singular vectors
start from the fit's, and only the graphs of the middle scale are used: it costs a few hundredths of a fit.

A half has fewer landmarks than the fit, so stability is underestimated. It is meant for comparison: on thirteen data
sets it had nearly the same order as the agreement of whole fits with different seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.arrays import precision_of, to_host
from coterie.method.agreement import partition_agreement
from coterie.method.assignment import assign, best_centroids
from coterie.method.cotraining import AugmentedView, CoTrainingSettings, GraphWeights, first_round, solve_graphs
from coterie.method.graphs import Block
from coterie.method.rowmap import unit_embedding
from coterie.method.seeding import draw_starts
from coterie.method.selection import some_graphs
from coterie.rows.memory import MemoryRows
from coterie.threads import in_order

STABILITY_ROWS = 4000  # rows that are clustered, and whose neighbours make up the graphs
LANDMARK_SPLITS = 2  # splits of the landmarks into two halves
MORE_SPLITS = 4  # further splits where stability is below UNSURE: it decides there, and two splits vary too much
UNSURE = 0.6
FEWEST_LANDMARKS = 4  # that can be split
STARTS = 1  # starts of k-means, besides the one from cluster-QR
CHANCE = 0.2  # stability of data without clusters, where many clusters are asked for


def chance_of(n_clusters: int) -> float:
    """Return the stability below which clusters are no better than those of data without clusters.

    Two or three clusters replicate more easily than many: a cloud is always split in half along its longest direction.

    Examples
    --------
    >>> [round(chance_of(k), 2) for k in (2, 3, 10)]
    [0.5, 0.33, 0.2]
    """
    return max(CHANCE, 1 / n_clusters)


@dataclass(frozen=True)
class Stability:
    """How alike the partitions by different halves of the landmarks are.

    Attributes
    ----------
    overall : float
        Mean adjusted Rand index between the partitions of two halves of the landmarks: 1 where they are the same, 0
        where they agree as by chance.
    clusters : ndarray of shape (k,)
        For each of the fit's clusters: the Jaccard index of the two halves' clusters that hold a row, averaged over the
        rows of the fit's cluster. 0 for a cluster without rows in the sample.

    With one cluster all figures are 1; with fewer than FEWEST_LANDMARKS landmarks they are 0.
    """

    overall: float
    clusters: np.ndarray  # (k,)


def landmark_stability(
    block: Block,
    labels: np.ndarray,
    view: AugmentedView,
    bounds: np.ndarray,
    settings: CoTrainingSettings,
    n_clusters: int,
    rng: np.random.Generator,
) -> Stability:
    """Cluster some rows by halves of the landmarks, and return how alike the partitions are.

    ``block`` holds the rows' neighbours before any guiding, ``labels`` their clusters in the fit, and ``view`` is the
    fit's augmented view of the first round.
    """
    p = view.basis.bases.shape[1]
    if n_clusters == 1 or p < FEWEST_LANDMARKS:
        value = 1.0 if n_clusters == 1 else 0.0
        return Stability(value, np.full(n_clusters, value))
    drawn = np.sort(rng.permutation(len(labels))[:STABILITY_ROWS])  # (m,)
    sample = HalvedSample(*middle_scale(block, drawn, view, bounds), settings, n_clusters)
    pairs = cut_halves(sample, LANDMARK_SPLITS, p, rng)
    if mean_agreement(pairs) < UNSURE:
        pairs += cut_halves(sample, MORE_SPLITS, p, rng)
    jaccard = np.mean([row_jaccard(*pair) for pair in pairs], axis=0)  # (m,)
    clusters = np.nan_to_num(label_means(jaccard, labels[drawn], n_clusters))
    return Stability(mean_agreement(pairs), clusters)


def cut_halves(
    sample: HalvedSample, n_splits: int, n_landmarks: int, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows' clusters by the two halves of the landmarks, for several splits."""
    in_first = [rng.permutation(n_landmarks) % 2 == 0 for _ in range(n_splits)]  # each (p,)
    jobs = [(kept, int(rng.integers(2**31))) for first in in_first for kept in (first, ~first)]
    found = list(in_order(lambda job: sample.cut(*job), jobs, sample.settings.n_threads))  # each (m,)
    return list(zip(found[::2], found[1::2], strict=True))


def mean_agreement(pairs: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Return the mean adjusted Rand index of pairs of partitions."""
    return float(np.mean([partition_agreement(*pair) for pair in pairs]))


@dataclass(frozen=True)
class HalvedSample:
    """A sample of rows, with all that clustering them by a subset of the landmarks needs."""

    block: Block  # the rows' neighbours among all landmarks
    bounds: np.ndarray  # (G + 1,)
    graphs: GraphWeights
    starts: tuple[np.ndarray | None, ...]  # G times (p, m): starts of the iteration for singular vectors
    settings: CoTrainingSettings
    n_clusters: int

    def cut(self, kept: np.ndarray, seed: int) -> np.ndarray:
        """Return the rows' clusters by only the ``kept`` landmarks (p,); -1 for rows that are joined to none."""
        block = keep_landmarks(self.block, self.bounds, kept)
        rows = MemoryRows([block], n_rows=len(block.indices), n_threads=self.settings.n_threads)
        starts = [None if start is None else start[kept] for start in self.starts]
        spectra = solve_graphs(rows, int(kept.sum()), self.bounds, self.settings, block.weights, starts)
        view = first_round(rows, spectra, self.bounds, self.settings, precision_of(block.weights), self.graphs)
        embedding = unit_embedding(block, view.basis, self.bounds)  # (m, c)
        centroids = best_centroids(embedding, draw_starts(STARTS, self.n_clusters, np.random.default_rng(seed)))
        labels = assign(embedding, centroids).labels
        return np.where(embedding.any(axis=1), labels, -1)  # (m,)


def keep_landmarks(block: Block, bounds: np.ndarray, kept: np.ndarray) -> Block:
    """Return the rows joined only to the ``kept`` landmarks (p,), which are renumbered; weights sum to one again.

    A neighbour that is not kept gets weight zero, and the number of the last kept landmark before it: numbers stay
    ascending.
    """
    if kept.all():
        return block
    numbers = np.maximum(np.cumsum(kept) - 1, 0).astype(block.indices.dtype)  # (p,)
    weights = block.weights * kept[block.indices]  # (m, Q)
    totals = np.repeat(np.add.reduceat(weights, bounds[:-1], axis=1), np.diff(bounds), axis=1)  # (m, Q)
    # Divided, not multiplied by 1 / total: that may be infinite for rows far from all kept landmarks.
    shares = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    return Block(numbers[block.indices], shares)


def middle_scale(
    block: Block, drawn: np.ndarray, view: AugmentedView, bounds: np.ndarray
) -> tuple[Block, np.ndarray, GraphWeights, tuple[np.ndarray | None, ...]]:
    """Return the graphs of the middle number of neighbours: some rows' columns, bounds, weights and starts."""
    sizes = np.diff(bounds)  # (G,)
    scales = np.unique(sizes)
    chosen = np.flatnonzero(sizes == scales[len(scales) // 2])
    return (
        *some_graphs(block, bounds, chosen, drawn),
        GraphWeights(view.graphs.weights[chosen], view.graphs.common[np.ix_(chosen, chosen)]),
        tuple(to_host(view.spectra[g].start) for g in chosen),
    )


def row_jaccard(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return for every row the Jaccard index of its clusters in two partitions; NaN where it lacks one of them (-1).

    Examples
    --------
    >>> row_jaccard(np.array([0, 0, 1, 1, -1]), np.array([0, 0, 0, 1, 1])).round(2)
    array([0.67, 0.67, 0.25, 0.5 ,  nan])
    """
    known = (first >= 0) & (second >= 0)
    jaccard = np.full(len(first), np.nan)
    if not known.any():
        return jaccard
    first, second = first[known].astype(np.int64), second[known].astype(np.int64)
    width = int(second.max()) + 1
    both = np.bincount(first * width + second, minlength=(int(first.max()) + 1) * width).reshape(-1, width)
    either = both.sum(axis=1, keepdims=True) + both.sum(axis=0) - both
    jaccard[known] = both[first, second] / either[first, second]
    return jaccard  # (m,)


def label_means(values: np.ndarray, labels: np.ndarray, k: int) -> np.ndarray:
    """Return the mean of the finite values in each of k groups, NaN where there are none.

    Examples
    --------
    >>> label_means(np.array([1.0, 0.5, np.nan]), np.array([0, 0, 1]), 2)
    array([0.75,  nan])
    """
    known = np.isfinite(values)
    counts = np.bincount(labels[known], minlength=k)
    sums = np.bincount(labels[known], weights=values[known], minlength=k)
    return np.divide(sums, counts, out=np.full(k, np.nan), where=counts > 0)  # (k,)
