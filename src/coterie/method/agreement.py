"""Do partitions agree, and do the views agree with one?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.kernels import cpu, kernels_of
from coterie.method.graphs import CONCATENATION, Block
from coterie.metrics import ari_of
from coterie.threads import in_order
from coterie.views import Preparation

# Less is beyond what a sample of rows can tell.
LEAST_DISAGREEMENT = 1e-3


def partition_agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Return the adjusted Rand index of two partitions over the rows that both hold (labels of at least 0).

    It is 0 where there is nothing to agree on: no rows, a single cluster, or clusters of single rows.

    Examples
    --------
    >>> partition_agreement(np.array([0, 0, 1, 1, -1]), np.array([1, 1, 0, 0, 0]))
    1.0
    """
    known = (first >= 0) & (second >= 0)
    first, second = first[known].astype(np.int64), second[known].astype(np.int64)
    if len(first) < 2:
        return 0.0
    width = int(second.max()) + 1
    return table_agreement(
        np.bincount(first * width + second, minlength=(int(first.max()) + 1) * width).reshape(-1, width)
    )


def table_agreement(table: np.ndarray) -> float:
    """Return the same from how many rows of each cluster of one partition are in each of the other's."""
    n_rows = int(table.sum())
    largest = {int(table.sum(axis=1).max()), int(table.sum(axis=0).max())}
    return 0.0 if n_rows < 2 or largest in ({1}, {n_rows}) else ari_of(table)


def group_by_view(graph_views: Sequence[int]) -> list[list[int]]:
    """Return the graphs of each view, given the view of every graph.

    The concatenation is left out: it is not independent of the other views. With one view there is nothing else.
    """
    views = sorted(set(graph_views) - {CONCATENATION}) or [CONCATENATION]
    return [[g for g, own in enumerate(graph_views) if own == view] for view in views]


def neighbour_agreement(
    block: Block, bounds: np.ndarray, graph_views: Sequence[int], labels: np.ndarray, n_threads: int = 1
) -> np.ndarray:
    """Return how well each view's neighbours predict labels: adjusted Rand index, one a view.

    Every landmark has the labels of the rows that are joined to it, in the shares of their weights; every row is
    predicted to have the label with the largest weighted share over its own landmarks. Its own label takes no part:
    where landmarks are nearly as many as rows, any labels would predict themselves. Rows that lack a view or are alone
    in it do not count for it, and neither does the concatenation, which is made of the other views.
    """
    return neighbour_agreements(block, bounds, graph_views, labels[None], n_threads)[0]  # (V,)


def neighbour_agreements(
    block: Block, bounds: np.ndarray, graph_views: Sequence[int], partitions: np.ndarray, n_threads: int = 1
) -> np.ndarray:
    """Return the same for several partitions (T x n): (T, V)."""
    kernels = kernels_of(block.weights)
    if kernels.BATCHED:
        views = group_by_view(graph_views)
        tables = kernels.prediction_tables(block.indices, block.weights, bounds, views, partitions)  # (T, V, k, k)
        return np.array([[table_agreement(table) for table in own] for own in tables])
    found = [(labels, predicted_labels(block, bounds, graph_views, labels, n_threads)) for labels in partitions]
    return np.array([[partition_agreement(own, labels) for own in predicted] for labels, predicted in found])


def share_of_disagreement(found: np.ndarray, other: np.ndarray) -> float:
    """Return which share of what views disagree on with other clusters is left: geometric mean over the views (V,).

    So every view counts alike, and one that agrees with nothing does not outweigh the rest.

    Examples
    --------
    >>> round(share_of_disagreement(np.array([0.9, 0.2]), np.array([0.8, 0.2])), 3)
    0.707
    """
    left, before = (np.maximum(1 - agreement, LEAST_DISAGREEMENT) for agreement in (found, other))
    return float(np.exp(np.mean(np.log(left / before))))


def weakest_cluster(block: Block, bounds: np.ndarray, graph_views: Sequence[int], labels: np.ndarray) -> float:
    """Return how well the views' neighbours predict the cluster that they predict worst.

    It is the Jaccard index of a cluster and of the rows that are predicted to be in it, averaged over the views. Of an
    adjusted Rand index over all rows, a cut through a small cluster would change next to nothing.
    """
    own, sizes = labels, np.bincount(labels)  # (n,), (k,)
    found = []
    for predicted in predicted_labels(block, bounds, graph_views, labels):
        both = np.bincount(own[predicted == own], minlength=len(sizes))  # (k,)
        found.append(both / (sizes + np.bincount(predicted[predicted >= 0], minlength=len(sizes)) - both))
    return float(np.mean(found, axis=0).min())


def predicted_labels(
    block: Block, bounds: np.ndarray, graph_views: Sequence[int], labels: np.ndarray, n_threads: int = 1
) -> list[np.ndarray]:
    """Return the labels that each view's neighbours predict (n,), -1 for rows that have none there; see above."""
    k = int(labels.max()) + 1

    def predict(graphs: list[int]) -> np.ndarray:
        columns = [(int(bounds[g]), int(bounds[g + 1])) for g in graphs]
        votes = cpu.label_votes(block.indices, block.weights, labels, k, columns)  # (n, k)
        return np.where(votes.any(axis=1), votes.argmax(axis=1), -1)  # (n,)

    return list(in_order(predict, group_by_view(graph_views), n_threads))


def are_more_than_words(preparations: Sequence[Preparation]) -> bool:
    """Whether some view is more than words or links.

    Texts with rare words in common, such as two versions of one, lie apart from all others in every view of words:
    views agree on them as on nothing else, and they are not the clusters that anybody looks for.
    """
    return not all(preparation.kind.split(",")[0] in ("words", "graph") for preparation in preparations)
