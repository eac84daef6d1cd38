"""Several ways to merge the same graphs, and the one that the views agree with most.

A cut through a large cluster is seen by one view and not by the others; a small cluster that all views see is in every
view's neighbourhoods. So each view's graphs, before any guiding, are asked to predict every row's cluster from the
landmarks that it is joined to. The partition that all views predict best is taken. Labels never take part.

Candidates share the search for neighbours and the graphs' eigenvectors: one more costs a sum over rows, a small
eigenproblem and a k-means on a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.arrays import array_namespace, like, precision_of, to_host
from coterie.kernels import kernels_of
from coterie.method.assignment import assign, lloyd
from coterie.method.cotraining import AugmentedView, CoTrainingSettings, first_round, solve_graphs
from coterie.method.graphs import Block
from coterie.method.rowmap import RowMap, unit_embedding
from coterie.method.selection import best_centroids, group_by_view, partition_agreement
from coterie.rows import Rows

# A later candidate is taken only if its agreement exceeds the first one's by this: other landmarks change it as much.
CLEAR_LEAD = 0.005

# Agreement beyond which clusters hardly touch.
SEPARATE = 0.99

# Rows that k-means runs on, and its starts besides that of cluster-QR.
CUT_ROWS = 5000
CUT_STARTS = 3


@dataclass(frozen=True)
class Candidate:
    """One way to merge the graphs, after its first round.

    Attributes
    ----------
    name : str
        The basis.
    agreement : float
        How well each view's neighbours predict the clusters: adjusted Rand index, averaged over the views.
    view : AugmentedView
        Of the first round.
    labels : ndarray of shape (s,)
        The clusters of some rows.
    """

    name: str
    agreement: float
    view: AugmentedView
    labels: np.ndarray


def first_rounds(
    rows: Rows,
    landmarks: Block,
    bounds: np.ndarray,
    settings: Mapping[str, CoTrainingSettings],
) -> dict[str, AugmentedView]:
    """Return the first round of every candidate, from one solution of the graphs' eigenproblems."""
    common = next(iter(settings.values()))
    spectra = solve_graphs(rows, len(landmarks.indices), bounds, common, landmarks.weights)
    precision = precision_of(landmarks.weights)
    return {name: first_round(rows, spectra, bounds, own, precision) for name, own in settings.items()}


def judge(
    views: Mapping[str, AugmentedView],
    sample: Block,
    bounds: np.ndarray,
    graph_views: Sequence[int],
    n_clusters: int,
    rng: np.random.Generator,
) -> list[Candidate]:
    """Return the candidates with their agreement; ``sample`` holds some rows' neighbours before any guiding."""
    found = []
    for name, view in views.items():
        labels = cut(sample, view, bounds, n_clusters, rng)
        found.append(Candidate(name, mean_agreement(sample, bounds, graph_views, labels), view, labels))
    return found


def choose(candidates: Sequence[Candidate]) -> Candidate:
    """Return the first candidate, unless another agrees clearly better with the views.

    Where all of them agree nearly perfectly, clusters are separate, and the last one is made for those.
    """
    if min(candidate.agreement for candidate in candidates) > SEPARATE:
        return candidates[-1]
    best = max(candidates, key=lambda candidate: candidate.agreement)
    return best if best.agreement > candidates[0].agreement + CLEAR_LEAD else candidates[0]


def better_centroids(
    centroids: np.ndarray, candidate: Candidate, sample: Block, row_map: RowMap
) -> tuple[np.ndarray, float]:
    """Return the given centroids, or those that k-means ends at from the first round's clusters; and their agreement.

    k-means with the least inertia may cut a large cluster rather than keep a small one. From clusters that were right
    before the rounds it stays with them, and the views tell which is better.
    """
    bounds = row_map.graph_map.bounds
    graph_views = [graph.view for graph in row_map.graph_map.graphs]
    embedding = row_map.follow(sample)  # (s, c)
    means = label_centroids(embedding, candidate.labels, centroids)
    found = []
    for ends in (centroids, to_host(lloyd(embedding, means)[0])):
        labels = assign(embedding, ends).labels
        found.append((ends, mean_agreement(sample, bounds, graph_views, labels)))
    return found[1] if found[1][1] > found[0][1] + CLEAR_LEAD else found[0]


def label_centroids(embedding: np.ndarray, labels: np.ndarray, default: np.ndarray) -> np.ndarray:
    """Return the mean of the rows of each label; where there are none, the given centroid."""
    kernels = kernels_of(embedding)
    sums, counts = kernels.zeros(default.shape, embedding), kernels.zeros((len(default),), embedding)
    kernels.add_groups(embedding, labels, sums, counts)
    sums, counts = to_host((sums, counts))
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], default)
    return like(means, embedding)  # (k, c)


def cut(block: Block, view: AugmentedView, bounds: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """Return the clusters of some rows in an augmented view."""
    embedding = unit_embedding(block, view.basis, bounds)  # (s, c)
    some = embedding[np.sort(rng.permutation(len(embedding))[:CUT_ROWS])]
    return assign(embedding, best_centroids(some, k, CUT_STARTS, rng)).labels  # (s,)


def mean_agreement(block: Block, bounds: np.ndarray, graph_views: Sequence[int], labels: np.ndarray) -> float:
    """Return :func:`neighbour_agreement`, averaged over the views."""
    return float(np.mean(neighbour_agreement(block, bounds, graph_views, labels)))


def neighbour_agreement(block: Block, bounds: np.ndarray, graph_views: Sequence[int], labels: np.ndarray) -> np.ndarray:
    """Return how well each view's neighbours predict labels: adjusted Rand index, one a view.

    Every landmark has the labels of the rows that are joined to it, in the shares of their weights; every row is
    predicted to have the label with the largest weighted share over its own landmarks. Rows that lack a view do not
    count for it, and neither does the concatenation, which is made of the other views.
    """
    kernels, k = kernels_of(block.weights), int(labels.max()) + 1

    def votes(graph: int) -> Any:
        columns = slice(bounds[graph], bounds[graph + 1])
        return kernels.label_votes(block.indices[:, columns], block.weights[:, columns], labels, k)  # (n, k)

    found = []
    for first, *others in group_by_view(graph_views):
        total = sum(map(votes, others), votes(first))
        xp = array_namespace(total)
        predicted = xp.where(xp.any(total != 0, axis=1), xp.argmax(total, axis=1), -1)  # (n,)
        found.append(partition_agreement(to_host(predicted), to_host(labels)))
    return np.array(found)  # (V,)
