"""The hierarchy of clusters, as plain data and as the lines of a dendrogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.method.hierarchy import Hierarchy, cluster_hierarchy
from coterie.report._portraits import tidy

FEWEST_CLUSTERS = 3  # with fewer, no tree is drawn


def describe_tree(model: Any, sizes: np.ndarray, levels: Sequence[int] | None) -> dict[str, Any] | None:
    """Return the tree of clusters, and the groups at the given levels; None with fewer than FEWEST_CLUSTERS."""
    k = len(sizes)
    check_levels(levels, k)
    if k < FEWEST_CLUSTERS:
        return None
    tree = cluster_hierarchy(model.cluster_centers_, sizes)
    return {
        "merges": [[int(a), int(b), tidy(height), int(count)] for a, b, height, count in tree.linkage],
        "order": tree.order.tolist(),
        "levels": [{"groups": level, "group": tree.cut(level).tolist()} for level in levels or ()],
        "lines": lines_of(tree),
    }


def check_levels(levels: Sequence[int] | None, n_clusters: int) -> None:
    """Refuse levels that are not numbers of groups from 1 to the number of clusters."""
    for level in levels or ():
        if not isinstance(level, int) or not 1 <= level <= n_clusters:
            raise ValueError(
                f"The 'levels' parameter must hold numbers of groups, 1 to {n_clusters}. Got {level!r} instead."
            )


def lines_of(tree: Hierarchy) -> list[dict[str, float]]:
    """Return every merge as a bracket: from the first branch's height to the merge's, and down to the last branch.

    Heights are the merges' ranks, scaled to between 0 and 1: well separated centroids are all about equally far from
    each other, so that in a tree drawn to scale all brackets would be at the far end. A leaf's coordinate is its
    position in the drawn order, from 0 on; a merge's is the midpoint of its two branches.
    """
    k = len(tree.order)
    spots = np.empty(2 * k - 1)  # coordinates of clusters, then of merges
    spots[tree.order] = np.arange(k)
    heights = np.concatenate([np.zeros(k), np.arange(1, k) / (k - 1)])
    lines = []
    for number, (left, right) in enumerate(tree.linkage[:, :2].astype(int)):
        first, last = sorted((left, right), key=lambda part: spots[part])
        spots[k + number] = (spots[first] + spots[last]) / 2
        ends = {"first": spots[first], "last": spots[last], "from": heights[first], "to": heights[last]}
        lines.append({name: round(float(value), 4) for name, value in {**ends, "height": heights[k + number]}.items()})
    return lines
