"""The number of clusters, suggested from the graphs alone; class labels are never used.

Five kinds of evidence are computed for every k from 2 to k_max, and multiplied:

- *agreement*: do two groups of views, each clustered on its own, give the same k clusters?
- *stability*: do two halves of the rows give the same k clusters?
- *separation*: how much nearer are rows to their own cluster than to the next, in the embedding that a fit would use?
- *shared*: do the views' graphs have the same first k singular vectors?
- *gap*: is the gap behind the graphs' k-th singular value wider than in a cloud without clusters?

Averages over rows hardly show a small cluster. So the largest number of *islands*, clusters that the neighbours in the
views predict almost without error, ranks first where it is larger than the best k or the other evidence is weak.

All evidence is computed from a sample of rows and p x p matrices, so it costs about as much as a few fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from coterie.arrays import precision_of
from coterie.kernels import cpu
from coterie.method.agreement import group_by_view, has_non_text_view, partition_agreement, weakest_cluster
from coterie.method.assignment import assign, assign_with_confidence, best_centroids, lloyd
from coterie.method.cotraining import (
    CONSENSUS_POWER,
    CoTrainingSettings,
    concatenation_weight,
    count_vectors,
    first_round,
)
from coterie.method.graphs import CONCATENATION, Block, GraphMap, host_block
from coterie.method.rowmap import unit_embedding
from coterie.method.seeding import draw_starts
from coterie.method.spectra import Spectrum, graph_spectrum, inverse_roots, whole_grams, with_constant
from coterie.rows import Rows
from coterie.rows.memory import MemoryRows
from coterie.threads import in_order
from coterie.validation import check_int, refuse

K_MAX = 40
ROWS_PER_CLUSTER = 10  # the default k_max leaves at least this many rows a cluster

GRAPH_ROWS = 20_000  # rows whose neighbours make up the graphs
PARTITION_ROWS = 1500  # rows that are clustered for agreement and stability, several times for every k
SEPARATION_ROWS = 10_000  # rows that are clustered for separation and islands
VIEW_SPLITS = 3  # ways to split the views into two groups
SHORTLIST = 16  # numbers of clusters for which rows are clustered
STARTS = 1  # starts of k-means for agreement and stability, besides the one from cluster-QR
SEPARATION_STARTS = 5  # the same for separation and islands
WALK_DECAY = 0.5  # share of a graph's vector k + 1 that is left in the random walk for k clusters

# Islands are clusters of any size that hardly touch: the views' neighbours predict the weakest one with a Jaccard index
# above SEEN, and none has fewer than LEAST_ISLAND rows. With one view the index must exceed SEEN_ALONE: a single view
# of few columns predicts a split of one cloud nearly as well.
SEEN = 0.95
SEEN_ALONE = 0.99
LEAST_ISLAND = 10

# Eigenvalues 1 - s^2 of a graph's Laplacian below this cannot be distinguished from zero, so it is added to them.
EIGENVALUE_FLOOR = 1e-3
GAP_POWER = 0.25  # the gap is a ratio without an upper bound: its root keeps it from dominating the product
STABILITY_POWER = 0.5  # two halves of the rows share their landmarks, so they are weaker evidence than groups of views
SEPARATION_POWER = 2  # separation is never near 0 and seldom near 1: squaring it increases its influence
SMALL_K_BONUS = (
    0.01  # SMALL_K_BONUS / k is added to every score, so that the smallest k wins where there is no evidence
)
CLEAR = 0.25  # a suggestion with less strength is hardly more than a guess
CLEAR_ALONE = 0.9  # the same with one view: halves of its rows share their landmarks, so they agree on noise too
CLEAR_GAP = 4.0  # islands with a larger gap are clear: a cloud of d dimensions has 2 / d, and hardly ever twice that


@dataclass(frozen=True)
class KSuggestion:
    """Numbers of clusters, ranked by the evidence for them.

    Attributes
    ----------
    k : ndarray of shape (m,)
        The numbers of clusters that were tried, ascending. The other arrays have one entry for each.
    scores : ndarray of shape (m,)
        The score that k is ranked by; at most about 1 unless clusters are far apart.
    agreement : ndarray of shape (m,)
        Adjusted Rand index between the clusters that two groups of views find; the same as ``stability`` where there
        is only one view. NaN where the spectral evidence (``shared``, ``gap``) was too weak to try k further.
    stability : ndarray of shape (m,)
        Adjusted Rand index between the clusters that two halves of the rows find; NaN as for ``agreement``.
    separation : ndarray of shape (m,)
        How much nearer rows are to their own cluster than to the next, on average: the mean ``confidence_`` of a fit
        without guiding. NaN as for ``agreement``.
    shared : ndarray of shape (m,)
        Mean share of a graph's first k singular vectors in the span of another view's.
    gap : ndarray of shape (m,)
        Mean over graphs of log((1 - s_(k+1)^2) / (1 - s_k^2)), divided by log(k / (k - 1)), to which it is proportional
        in a cloud without clusters.
    graph_gaps : dict of ndarray
        The gaps of every graph.
    consensus_gap : ndarray of shape (m,)
        Relative drop from the k-th to the next singular value of all graphs' bases side by side.
    n_views : int
        Number of views that were used.
    islands : ndarray of shape (m,) or None
        Jaccard index with which the views' neighbours predict the weakest of k islands (clusters that hardly touch): 1
        without errors. NaN where no partition has k islands. None in models from versions that did not count islands.
    """

    k: np.ndarray  # (m,)
    scores: np.ndarray  # (m,)
    agreement: np.ndarray  # (m,)
    stability: np.ndarray  # (m,)
    separation: np.ndarray  # (m,)
    shared: np.ndarray  # (m,)
    gap: np.ndarray  # (m,)
    graph_gaps: dict[str, np.ndarray]
    consensus_gap: np.ndarray  # (m,)
    n_views: int
    islands: np.ndarray | None = None  # (m,)

    @property
    def best(self) -> int:
        """The number of clusters with the highest score."""
        return self.top(1)[0]

    def __repr__(self) -> str:
        """Return the best numbers only; ``table`` has the evidence."""
        found = {"best": self.best, "top": self.top(), "strength": round(self.strength, 2), "is_clear": self.is_clear}
        return f"KSuggestion({', '.join(f'{name}={value}' for name, value in found.items())})"

    def top(self, count: int = 3) -> tuple[int, ...]:
        """Return the numbers of clusters with the highest scores, best first."""
        return tuple(int(k) for k in self.k[np.argsort(-self.scores, kind="stable")[:count]])

    @property
    def strength(self) -> float:
        """Geometric mean of agreement, stability and shared at the best k: 1 is certain, 0 is chance."""
        at = int(np.argmax(self.scores))
        product = max(self.agreement[at], 0) * max(self.stability[at], 0) * max(self.shared[at], 0)
        return float(np.cbrt(product)) if np.isfinite(product) else 0.0

    @property
    def is_clear(self) -> bool:
        """Whether the evidence for clusters is clear: views and halves of the rows agree, or clusters are islands."""
        at = int(np.argmax(self.scores))
        apart = self.are_seen[at] and self.gap[at] > CLEAR_GAP
        return bool(apart) or self.strength >= (CLEAR if self.n_views > 1 else CLEAR_ALONE)

    @property
    def are_seen(self) -> np.ndarray:
        """Whether the views' neighbours predict all of k islands, for every k (m,)."""
        if self.islands is None:
            return np.zeros(len(self.k), dtype=bool)  # (m,)
        return np.nan_to_num(self.islands) > (SEEN if self.n_views > 1 else SEEN_ALONE)  # (m,)

    def table(self, count: int = 10) -> str:
        """Return the numbers of clusters with the highest scores, and their evidence, as plain text."""
        names = f"{'agreement':>10} {'stability':>10} {'separation':>11} {'shared':>8} {'gap':>8}"
        lines = [f"{'k':>4} {'score':>8} {names}"]
        for i in np.argsort(-self.scores, kind="stable")[:count]:
            lines.append(
                f"{self.k[i]:>4} {self.scores[i]:>8.3f} {self.agreement[i]:>10.3f} {self.stability[i]:>10.3f} "
                f"{self.separation[i]:>11.3f} {self.shared[i]:>8.3f} {self.gap[i]:>8.2f}"
            )
        if not self.is_clear:
            lines.append("The evidence is weak: there may be no clusters, or the views may not agree on them.")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def settle_k_max(owner: str, k_max: int | None, n_rows: int) -> int:
    """Return the largest k to try; refuse one for which there are too few rows."""
    if k_max is None:
        return max(2, min(K_MAX, n_rows // ROWS_PER_CLUSTER))
    check_int(owner, "k_max", k_max, low=2)
    if k_max > max(2, n_rows // 2):
        refuse(owner, "k_max", f"at most half of the {n_rows} rows", k_max)
    return k_max


def suggest_from_graphs(
    rows: Rows, graph_map: GraphMap, *, k_max: int, rng: np.random.Generator, n_threads: int = 1
) -> KSuggestion:
    """Rank the numbers of clusters from 2 to k_max by the graphs of the first round.

    ``rows`` are blocks of neighbours, as :func:`coterie.method.graphs.build_graphs` returns them.
    """
    p = graph_map.n_landmarks
    if p < 3:  # k is below the number of landmarks
        raise ValueError(f"X has {p} distinct landmarks, too few to choose n_clusters by. Set n_clusters.")
    sample = draw_graph_sample(rows, graph_map, rng)
    n = len(sample.block.indices)
    k_max = min(k_max, p - 1, max(2, n // 4))
    half = rng.permutation(n) % 2 == 0  # (n,)
    drawn = np.sort(rng.permutation(n)[:PARTITION_ROWS])  # (m,)
    grams = half_grams(sample.block, half, p, sample.bounds)
    spectra = graph_spectra(*grams, k_max, precision_of(sample.block.weights), n_threads)
    whole, first, second = (spectral_rows(take(sample.block, drawn), sample.bounds, part) for part in spectra)
    views = group_by_view(sample.views)
    halves = HalvedRows(whole, first, second, half[drawn], tuple(views), tuple(split_views(views, rng)))
    k = np.arange(2, k_max + 1)  # (m,)
    shared = shared_vectors(halves, k_max)[1:]  # (m,)
    gaps = dict(zip(sample.names, relative_gaps(whole.singular_values[:, : k_max + 1]), strict=True))
    gap = np.mean(list(gaps.values()), axis=0)  # (m,)
    spectral = spectral_evidence(k, shared, gap)  # (m,)
    listed = np.sort(np.argsort(-spectral, kind="stable")[:SHORTLIST])
    separable = separable_rows(sample, spectra[0], np.sort(rng.permutation(n)[:SEPARATION_ROWS]))
    jobs = list(zip(k[listed].tolist(), rng.integers(2**31, size=len(listed)).tolist(), strict=True))
    found = list(in_order(lambda job: (*agreement_at(halves, *job), *separable.cut(*job)), jobs, n_threads))
    agreement, stability, separation = np.full((3, len(k)), np.nan)
    agreement[listed], stability[listed], separation[listed] = np.array([figures for *figures, _ in found]).T
    same = np.maximum(agreement, 0) * np.maximum(stability, 0) ** STABILITY_POWER  # (m,)
    scores = smooth(spectral * same) * np.nan_to_num(separation) ** SEPARATION_POWER + SMALL_K_BONUS / k
    islands = weakest_islands([islands for *_, islands in found], k_max)
    fading = consensus_gap(whole.rows[:, :, :k_max])
    evidence = agreement, stability, separation, shared, gap, gaps, fading
    suggestion = KSuggestion(k, scores, *evidence, len(views), islands)
    return prefer_islands(suggestion) if has_non_text_view(graph_map.preparations) else suggestion


def spectral_evidence(k: np.ndarray, shared: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Return the spectral evidence for every k, times 1 - 1 / k, the share of row pairs that k clusters separate.

    Without that factor the coarsest partition would win wherever clusters are nested. The score's other factors are at
    most 1, so rows are clustered only for the k where this product is high.
    """
    return (1 - 1 / k) * np.maximum(shared, 0) * np.maximum(gap, 0) ** GAP_POWER  # (m,)


def weakest_islands(found: Sequence[Islands], k_max: int) -> np.ndarray:
    """Return for k = 2..k_max the Jaccard index of the weakest of k islands, in the best partition with k islands.

    Examples
    --------
    >>> weakest_islands([Islands(2, 1.0), Islands(4, 0.7), Islands(4, 0.9)], 4)
    array([1. , nan, 0.9])
    """
    weakest = np.full(k_max + 1, np.nan)
    for islands in found:
        weakest[islands.count] = np.fmax(weakest[islands.count], islands.weakest)
    return weakest[2:]  # (k_max - 1,)


def prefer_islands(found: KSuggestion) -> KSuggestion:
    """Return the suggestion with the largest number of islands as the best k, unless a larger k has clear evidence.

    A small cluster hardly shows in averages over rows. But where the views' neighbours predict k islands, there are at
    least k clusters.
    """
    seen, best = np.flatnonzero(found.are_seen), int(np.argmax(found.scores))
    if len(seen) == 0 or seen[-1] == best or (seen[-1] < best and found.is_clear):
        return found
    scores = found.scores.copy()
    scores[seen[-1]] += scores[best]
    return replace(found, scores=scores)


def smooth(values: np.ndarray) -> np.ndarray:
    """Return each value averaged with its neighbours, weighted 1, 2, 1; NaN has no weight, and becomes 0.

    Landmarks are random and k-means may miss its optimum: evidence for k is some evidence for its neighbours.

    Examples
    --------
    >>> smooth(np.array([0.0, 3.0, 0.0, 1.0, np.nan]))
    array([1.        , 1.5       , 1.        , 0.66666667, 0.        ])
    """
    padded = np.pad(values, 1, constant_values=np.nan)
    window = np.stack([padded[:-2], values, values, padded[2:]])  # (4, m)
    known = np.isfinite(window)
    means = np.where(known, window, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return np.where(np.isfinite(values), means, 0)  # (m,)


# -- the graphs, and a sample of rows in their singular vectors --------------------------------------------------


@dataclass(frozen=True)
class GraphSample:
    """Some rows' neighbours in the graphs that the evidence is computed from."""

    block: Block
    bounds: np.ndarray  # (G + 1,)
    views: list[int]  # the view of every graph
    names: list[str]  # of the graphs
    nearest: NearestRows


@dataclass(frozen=True)
class NearestRows:
    """Some rows' neighbours in every view's graph with the fewest neighbours.

    A small cluster has few landmarks: in graphs with more neighbours, most of its rows' neighbours belong to others.
    """

    block: Block
    bounds: np.ndarray  # (F + 1,) of these F graphs, the concatenation's included
    views: list[int]  # the view of every graph

    def take(self, chosen: np.ndarray) -> NearestRows:
        """Return some of the rows."""
        return replace(self, block=take(self.block, chosen))

    def weakest(self, labels: np.ndarray) -> float:
        """Return how well the views' neighbours predict the cluster that they predict worst."""
        return weakest_cluster(self.block, self.bounds, self.views, labels)


def draw_graph_sample(rows: Rows, graph_map: GraphMap, rng: np.random.Generator) -> GraphSample:
    """Return a sample of rows, in the graphs of the two largest scales and in those of the smallest."""
    drawn = np.sort(rng.permutation(rows.n_rows)[:GRAPH_ROWS])
    whole = host_block(rows.take(drawn), graph_map.bounds)
    views, names = [graph.view for graph in graph_map.graphs], graph_map.graph_names()
    sizes = np.diff(graph_map.bounds)  # (G,)
    scales = np.unique(sizes)
    used, finest = (np.flatnonzero(np.isin(sizes, some)) for some in (scales[-2:], scales[:1]))
    nearest = NearestRows(*some_graphs(whole, graph_map.bounds, finest), [views[g] for g in finest])
    block, bounds = some_graphs(whole, graph_map.bounds, used)
    return GraphSample(block, bounds, [views[g] for g in used], [names[g] for g in used], nearest)


@dataclass(frozen=True)
class SpectralRows:
    """Some rows in the singular vectors of every graph."""

    rows: np.ndarray  # (m, G, r)
    singular_values: np.ndarray  # (G, r + 1)

    def at(self, k: int, graphs: Sequence[int] | None = None) -> np.ndarray:
        """Return the rows in the first 2k singular vectors, each multiplied by its singular value to the power t.

        That is the share of the vector that is left after t steps of a random walk. For every graph t is chosen so that
        WALK_DECAY is left of vector k + 1. Vectors that separate clusters decay far more slowly.
        """
        chosen = slice(None) if graphs is None else list(graphs)
        rows, values = self.rows[:, chosen, : 2 * k], self.singular_values[chosen]  # (m, g, 2k), (g, r + 1)
        time = np.log(WALK_DECAY) / np.log(np.clip(values[:, [k]], 1e-6, 1 - 1e-6))  # (g, 1)
        return rows * (values[:, : rows.shape[2]] ** time).astype(rows.dtype)  # (m, g, 2k)


@dataclass(frozen=True)
class HalvedRows:
    """Some rows in the singular vectors of graphs made from all rows, from one half of them, and from the other."""

    whole: SpectralRows
    first: SpectralRows
    second: SpectralRows
    half: np.ndarray  # (m,) bool: which of these rows were in the first half
    views: tuple[list[int], ...]  # the graphs of each view
    splits: tuple[tuple[list[int], list[int]], ...]  # graphs of two groups of views


def some_graphs(
    block: Block, bounds: np.ndarray, chosen: np.ndarray, drawn: np.ndarray | slice = slice(None)
) -> tuple[Block, np.ndarray]:
    """Return the columns of the ``chosen`` graphs, for all rows or the ``drawn`` ones, and their bounds."""
    columns = np.concatenate([np.arange(bounds[g], bounds[g + 1]) for g in chosen])
    own = Block(
        np.ascontiguousarray(block.indices[drawn][:, columns]), np.ascontiguousarray(block.weights[drawn][:, columns])
    )
    return own, np.cumsum([0, *np.diff(bounds)[chosen]])


def take(block: Block, chosen: np.ndarray) -> Block:
    """Return some rows of a block."""
    return Block(np.ascontiguousarray(block.indices[chosen]), np.ascontiguousarray(block.weights[chosen]))


def half_grams(block: Block, half: np.ndarray, p: int, bounds: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return every graph's G = sum_i z_i z_i^T (p x p) over one half of the rows, and over the other."""
    first, second = (
        list(whole_grams(MemoryRows([take(block, part)], n_rows=int(part.sum()), n_threads=1), p, bounds))
        for part in (half, ~half)
    )
    return first, second


def graph_spectra(
    first: list[np.ndarray], second: list[np.ndarray], k_max: int, precision: str, n_threads: int
) -> tuple[list[Spectrum], list[Spectrum], list[Spectrum]]:
    """Return the first singular vectors of every graph: from all rows, from one half, and from the other.

    There are at most ``count_vectors(k_max)``, without the constant vector, which all graphs have.
    """
    both = (one + other for one, other in zip(first, second, strict=True))
    n_components = min(count_vectors(k_max), len(first[0]) - 1)  # as many as a fit would use
    solve = partial(graph_spectrum, n_components=n_components, drop_first=True, precision=precision)
    whole = list(in_order(solve, both, n_threads))
    starts = [spectrum.start for spectrum in whole] * 2  # the halves' vectors are similar
    jobs = zip([*first, *second], starts, strict=True)
    halves = list(in_order(lambda job: solve(job[0], start=job[1]), jobs, n_threads))
    return whole, halves[: len(whole)], halves[len(whole) :]


def spectral_rows(block: Block, bounds: np.ndarray, spectra: Sequence[Spectrum]) -> SpectralRows:
    """Return the rows in every graph's singular vectors, the constant one first."""
    spectra = [with_constant(spectrum) for spectrum in spectra]
    bases = np.stack([spectrum.basis for spectrum in spectra]).astype(block.weights.dtype)  # (G, p, r)
    n_graphs, _, r = bases.shape
    rows = cpu.project(block.indices, block.weights, bounds, bases, False)  # (m, G r)
    return SpectralRows(rows.reshape(-1, n_graphs, r), np.stack([spectrum.singular_values for spectrum in spectra]))


def split_views(views: Sequence[list[int]], rng: np.random.Generator) -> list[tuple[list[int], list[int]]]:
    """Return ways to split the views into two groups of nearly equal size, as the graphs of each group."""
    if len(views) < 2:
        return []
    ways: dict[frozenset[int], tuple[list[int], list[int]]] = {}
    for _ in range(20 * VIEW_SPLITS):  # the same way may be drawn twice
        order = rng.permutation(len(views))
        first, second = sorted(order[: len(views) // 2]), sorted(order[len(views) // 2 :])
        name = frozenset(first) if len(views) % 2 or 0 in first else frozenset(second)
        ways.setdefault(name, ([g for v in first for g in views[v]], [g for v in second for g in views[v]]))
        if len(ways) == VIEW_SPLITS:
            break
    return list(ways.values())


# -- how far apart are clusters? ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SeparableRows:
    """Some rows, with all that the first round of a fit needs to cluster them for any k."""

    block: Block  # the rows' neighbours
    bounds: np.ndarray  # (G + 1,)
    weights: np.ndarray  # (G,) of the graphs
    nearest: NearestRows  # the same rows
    spectra: Sequence[Spectrum]  # without the constant vector

    def cut(self, k: int, seed: int) -> tuple[float, Islands]:
        """Return the separation of k clusters (the rows' mean confidence), and the islands among k clusters."""
        settings = unguided_settings(k, self.weights)
        separation = float(assign_with_confidence(*self._clusters(settings, seed)).confidence.mean())
        apart = replace(settings, weighting="commute", unit=False, add_constant=True)
        labels = island_labels(*self._clusters(apart, seed))
        count = int(labels.max()) + 1
        return separation, Islands(count, self.nearest.weakest(labels) if count > 1 else 0.0)

    def _clusters(self, settings: CoTrainingSettings, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows' embedding in the first round of a fit, and the centroids of k-means in it."""
        rows = MemoryRows([self.block], n_rows=len(self.block.indices), n_threads=1)
        own = [replace(spectrum, basis=spectrum.basis[:, : settings.n_vectors]) for spectrum in self.spectra]
        view = first_round(rows, own, self.bounds, settings, precision_of(self.block.weights))
        embedding = unit_embedding(self.block, view.basis, self.bounds)  # (m, k)
        rng = np.random.default_rng(seed)
        sample = embedding[rng.permutation(len(embedding))[:PARTITION_ROWS]]
        starts = draw_starts(SEPARATION_STARTS, settings.n_components, rng)
        return embedding, lloyd(embedding, best_centroids(sample, starts))[0]


@dataclass(frozen=True)
class Islands:
    """The number of islands in a partition, and the Jaccard index with which the views predict the weakest of them."""

    count: int
    weakest: float


def island_labels(embedding: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Return each row's nearest cluster among those with at least LEAST_ISLAND rows.

    A few outliers may lie farther from all other rows than a small cluster does, and become clusters of their own. They
    are assigned to the nearest larger cluster.
    """
    sizes = np.bincount(assign(embedding, centroids).labels, minlength=len(centroids))  # (k,)
    large = sizes >= min(LEAST_ISLAND, sizes.max())  # (k,)
    return assign(embedding, centroids[large]).labels.astype(np.int64)  # (m,)


def separable_rows(sample: GraphSample, spectra: Sequence[Spectrum], drawn: np.ndarray) -> SeparableRows:
    """Return some rows of the sample, with the weights that a fit would give the graphs."""
    of_all = concatenation_weight(len(group_by_view(sample.views)))
    weights = np.where(np.array(sample.views) == CONCATENATION, of_all, 1.0)  # (G,)
    return SeparableRows(take(sample.block, drawn), sample.bounds, weights, sample.nearest.take(drawn), spectra)


def unguided_settings(k: int, graph_weights: np.ndarray) -> CoTrainingSettings:
    """Return a fit's default settings for k clusters with a single round, which is not guided."""
    return CoTrainingSettings(
        n_components=k,
        n_vectors=count_vectors(k),
        drop_first=True,
        weighting="diffusion",
        unit=True,
        cosine=True,
        max_iter=1,
        tol=0.0,
        consensus_power=CONSENSUS_POWER,
        graph_weights=graph_weights,
        trust=True,
    )


# -- do partitions agree? ----------------------------------------------------------------------------------------


def agreement_at(halves: HalvedRows, k: int, seed: int) -> tuple[float, float]:
    """Return the agreement of groups of views on k clusters, and that of halves of the rows (stability)."""
    rng = np.random.default_rng(seed)
    everyone = np.ones(len(halves.half), dtype=bool)
    stability = partition_agreement(
        partition(halves.first.at(k), halves.half, k, rng),
        partition(halves.second.at(k), ~halves.half, k, rng),
    )
    found = [
        partition_agreement(*(partition(halves.whole.at(k, graphs), everyone, k, rng) for graphs in split))
        for split in halves.splits
    ]
    return (float(np.mean(found)) if found else stability), stability


def partition(rows: np.ndarray, fitted: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Run k-means on the ``fitted`` rows, and return the cluster of every row; -1 for rows that are in no graph.

    Rows are normalised to unit length in every graph and merged into k directions, as in the first round of a fit.
    """
    stacked = unit_rows(rows).reshape(len(rows), -1)  # (m, g 2k)
    known = stacked.any(axis=1)  # (m,)
    fitted = fitted & known
    if fitted.sum() <= k:
        return np.full(len(rows), -1)
    embedding = unit_rows(stacked @ top_directions(stacked[fitted], k))  # (m, k)
    centroids = best_centroids(np.ascontiguousarray(embedding[fitted]), draw_starts(STARTS, k, rng))
    return np.where(known, assign(embedding, centroids).labels, -1)  # (m,)


def top_directions(rows: np.ndarray, k: int) -> np.ndarray:
    """Return R so that the columns of ``rows @ R`` are the rows' k first left singular vectors."""
    n, width = rows.shape
    tall = n >= width
    square = rows.T @ rows if tall else rows @ rows.T  # the smaller of the two
    values, vectors = cpu.largest_eigenpairs(square.astype(np.float64), min(k, len(square)))
    roots = inverse_roots(values)  # (k,)
    directions = vectors * roots if tall else rows.T @ (vectors * roots**2)  # (width, k)
    return directions.astype(rows.dtype)


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Return rows of length one; a row of zeros stays as it is."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


# -- do spectra agree, and where are gaps? -----------------------------------------------------------------------


def shared_vectors(halves: HalvedRows, k_max: int) -> np.ndarray:
    """Return for k = 1..k_max the mean share of a graph's first k vectors in the span of another view's, by scale.

    The constant vector is left out: every graph has it, or cluster indicators that add up to it. With a single view,
    the graphs of two halves of the rows are compared.
    """
    if len(halves.views) > 1:
        pairs = [
            (halves.whole.rows[:, a, :k_max], halves.whole.rows[:, b, :k_max])
            for one, other in combinations(halves.views, 2)
            for a, b in zip(one, other, strict=True)
        ]
    else:
        pairs = [(halves.first.rows[:, g, :k_max], halves.second.rows[:, g, :k_max]) for g in halves.views[0]]
    return np.mean([shared_prefixes(*pair) for pair in pairs], axis=0)  # (k_max,)


def shared_prefixes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (||Q_k^T P_k||^2 - 1) / (k - 1) for all k, with Q_k and P_k orthonormal bases of the first k columns.

    Examples
    --------
    >>> from scipy.linalg import hadamard
    >>> waves = hadamard(4)
    >>> shared_prefixes(waves[:, :3], waves[:, [0, 1, 3]]).round(3)
    array([0. , 1. , 0.5])
    """
    known = first.any(axis=1) & second.any(axis=1)  # (m,)
    if known.sum() <= first.shape[1]:
        return np.zeros(first.shape[1])
    q, p = (np.linalg.qr(rows[known].astype(np.float64))[0] for rows in (first, second))  # each (m, r)
    squares = np.cumsum(np.cumsum((q.T @ p) ** 2, axis=0), axis=1).diagonal()  # (r,)
    return (squares - 1) / np.maximum(np.arange(len(squares)), 1)


def relative_gaps(singular_values: np.ndarray) -> np.ndarray:
    """Return for k = 2.. the gap behind every graph's k-th singular value, relative to a cloud without clusters.

    With lambda_k = 1 - s_k^2, a random walk separates k clusters between the times 1 / lambda_(k+1) and 1 / lambda_k.
    The gap is the log of their ratio. In a cloud of d dimensions lambda_k grows like (k - 1)^(2 / d) (Weyl's law), so
    the gap is proportional to log(k / (k - 1)), and is divided by it.
    """
    values = np.maximum(1 - singular_values**2, 0) + EIGENVALUE_FLOOR  # (G, r + 1)
    k = np.arange(2, values.shape[1])  # (m,)
    return np.log(values[:, 2:] / values[:, 1:-1]) / np.log(k / (k - 1))  # (G, m)


def consensus_gap(rows: np.ndarray) -> np.ndarray:
    """Return for k = 2.. the relative drop after the k-th singular value of all graphs' rows side by side."""
    stacked = unit_rows(rows).reshape(len(rows), -1)  # (m, G r)
    values = np.linalg.svd(stacked.astype(np.float64), compute_uv=False)
    count = rows.shape[2]
    values = np.pad(values, (0, max(0, count + 1 - len(values))))[: count + 1]
    return 1 - values[2:] / np.maximum(values[1:-1], np.finfo(float).tiny)  # (count - 1,)
