"""The agreement of partitions with each other, and of the views with a partition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coterie.kernels import cpu, kernels_of
from coterie.method.graphs import CONCATENATION, Block
from coterie.metrics import ari_of
from coterie.threads import in_order
from coterie.views import Preparation

# Smaller disagreement cannot be measured on a sample of rows.
LEAST_DISAGREEMENT = 1e-3


def partition_agreement(first: np.ndarray, second: np.ndarray) -> float:
    """Return the adjusted Rand index of two partitions, over the rows that have a label (at least 0) in both.

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
    """Return the same as :func:`partition_agreement` from the contingency table of the two partitions."""
    n_rows = int(table.sum())
    largest = {int(table.sum(axis=1).max()), int(table.sum(axis=0).max())}
    return 0.0 if n_rows < 2 or largest in ({1}, {n_rows}) else ari_of(table)


def group_by_view(graph_views: Sequence[int]) -> list[list[int]]:
    """Return the graphs of each view, given the view of every graph.

    The concatenation is left out, as it is not independent of the other views, unless there is nothing else.
    """
    views = sorted(set(graph_views) - {CONCATENATION}) or [CONCATENATION]
    return [[g for g, own in enumerate(graph_views) if own == view] for view in views]


def neighbour_agreement(
    block: Block, bounds: np.ndarray, graph_views: Sequence[int], labels: np.ndarray, n_threads: int = 1
) -> np.ndarray:
    """Return how well each view's neighbours predict labels: one adjusted Rand index per view.

    A landmark has the labels of the rows that are joined to it, in proportion to their weights. A row is predicted to
    have the label with the largest weighted share over its landmarks. Its own label is left out: where there are nearly
    as many landmarks as rows, any labels would predict themselves. A view's index leaves out rows that lack the view or
    share no landmark with other rows. The concatenation has none, as it is made of the other views.
    """
    return neighbour_agreements(block, bounds, graph_views, labels[None], n_threads)[0]  # (V,)


def neighbour_agreements(
    block: Block, bounds: np.ndarray, graph_views: Sequence[int], partitions: np.ndarray, n_threads: int = 1
) -> np.ndarray:
    """Return :func:`neighbour_agreement` for several partitions (T x n), as an array (T, V)."""
    kernels = kernels_of(block.weights)
    if kernels.BATCHED:
        views = group_by_view(graph_views)
        tables = kernels.prediction_tables(block.indices, block.weights, bounds, views, partitions)  # (T, V, k, k)
        return np.array([[table_agreement(table) for table in own] for own in tables])
    found = [(labels, predicted_labels(block, bounds, graph_views, labels, n_threads)) for labels in partitions]
    return np.array([[partition_agreement(own, labels) for own in predicted] for labels, predicted in found])


def share_of_disagreement(found: np.ndarray, other: np.ndarray) -> float:
    """Return the geometric mean over the views (V,) of the ratios (1 - found) / (1 - other) of two agreements.

    It gives every view equal weight: one that agrees with nothing does not outweigh the others.

    Examples
    --------
    >>> round(share_of_disagreement(np.array([0.9, 0.2]), np.array([0.8, 0.2])), 3)
    0.707
    """
    left, before = (np.maximum(1 - agreement, LEAST_DISAGREEMENT) for agreement in (found, other))
    return float(np.exp(np.mean(np.log(left / before))))


def weakest_cluster(block: Block, bounds: np.ndarray, graph_views: Sequence[int], labels: np.ndarray) -> float:
    """Return how well the views' neighbours predict the cluster that they predict worst.

    This is the Jaccard index of the cluster and the rows that are predicted to be in it, averaged over the views. An
    adjusted Rand index over all rows would hardly change if a small cluster were split.
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
    """Return the labels (n,) that each view predicts, as in :func:`neighbour_agreement`; -1 for rows left out."""
    k = int(labels.max()) + 1

    def predict(graphs: list[int]) -> np.ndarray:
        columns = [(int(bounds[g]), int(bounds[g + 1])) for g in graphs]
        votes = cpu.label_votes(block.indices, block.weights, labels, k, columns)  # (n, k)
        return np.where(votes.any(axis=1), votes.argmax(axis=1), -1)  # (n,)

    return list(in_order(predict, group_by_view(graph_views), n_threads))


def has_non_text_view(preparations: Sequence[Preparation]) -> bool:
    """Whether any view holds something other than words or links.

    Texts with rare words in common, such as two versions of one text, are far from all others in every view of words.
    The views agree on them more than on anything else, but they are not the clusters that users look for.
    """
    return not all(preparation.kind.split(",")[0] in ("words", "graph") for preparation in preparations)
