"""Clusters that keep their numbers from one fit to the next."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from coterie.arrays import to_host
from coterie.estimator import GuidedCoTraining
from coterie.model import fitted_of

__all__ = ["Alignment", "align"]

SAME = 0.5  # clusters with at least this Jaccard index of their rows are the same
MOST = 0.5  # the share of a cluster's rows above which it is a part of another


@dataclass(frozen=True)
class Alignment:
    """A model whose clusters have the numbers of another one's where they are the same.

    Attributes
    ----------
    model : GuidedCoTraining
    kept : tuple of int
        Clusters of both, by their number in the new model; they have the old one's number unless it is in ``moved``.
    moved : dict of int
        Numbers in the new model of clusters that are kept and whose old number it does not have, by their old number.
    born, gone : tuple of int
        New clusters without an old one, and old ones without a new one.
    split : dict of tuple of int
        The new clusters that old ones fell into.
    merged : dict of tuple of int
        The old clusters that new ones were made from.
    """

    model: GuidedCoTraining
    kept: tuple[int, ...]
    moved: dict[int, int]
    born: tuple[int, ...]
    gone: tuple[int, ...]
    split: dict[int, tuple[int, ...]]
    merged: dict[int, tuple[int, ...]]

    def in_words(self) -> list[str]:
        """Return what changed, a line each."""
        lines = [f"cluster {old} is now {new}" for old, new in self.moved.items()]
        lines += [f"cluster {old} fell into {joined_by_and(parts)}" for old, parts in self.split.items()]
        lines += [f"clusters {joined_by_and(parts)} became {new}" for new, parts in self.merged.items()]
        lines += [f"cluster {number} is new" for number in self.born]
        return lines + [f"cluster {number} is gone" for number in self.gone]


def align(model: GuidedCoTraining, old: GuidedCoTraining, X: Any) -> Alignment:
    """Number the clusters of a model as those of an older one, where they hold the same rows.

    Parameters
    ----------
    model : GuidedCoTraining
        The new fit; it is left as it is.
    old : GuidedCoTraining
        The fit before, which may have been loaded from a file.
    X : like in :meth:`coterie.GuidedCoTraining.predict`
        Rows that both models can label, such as those of the new fit.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> from coterie.datasets import make_views
    >>> views = make_views(300, n_clusters=4, separation=8, random_state=0).views
    >>> before = GuidedCoTraining(4, random_state=0).fit(views)
    >>> found = align(GuidedCoTraining(4, random_state=1).fit(views), before, views)
    >>> bool((found.model.labels_ == before.labels_).all()), found.in_words()
    (True, [])
    """
    labels, before = (np.asarray(to_host(own.predict(X))) for own in (model, old))  # (n,), (n,)
    known = (labels >= 0) & (before >= 0)
    shared = np.zeros((model.n_clusters_, old.n_clusters_), dtype=np.int64)
    np.add.at(shared, (labels[known], before[known]), 1)  # (k, k before): rows in both
    same = matches(shared)
    order = new_order(same, len(shared))  # (k,)
    aligned = copy(model)
    aligned._publish(fitted_of(model).renumbered(order))
    number = {int(own): position for position, own in enumerate(order)}
    return describe_changes(aligned, shared[order], {number[own]: other for own, other in same.items()})


def matches(shared: np.ndarray) -> dict[int, int]:
    """Return which old cluster each new one is the same as, given the rows that every two share."""
    union = shared.sum(axis=1)[:, None] + shared.sum(axis=0) - shared
    jaccard = shared / np.maximum(union, 1)  # (k, k before)
    pairs = zip(*linear_sum_assignment(-jaccard), strict=True)
    return {int(new): int(old) for new, old in pairs if jaccard[new, old] >= SAME}


def new_order(same: dict[int, int], k: int) -> np.ndarray:
    """Return which cluster gets each number: those that are the same keep theirs, others fill the gaps.

    Examples
    --------
    >>> new_order({0: 2, 2: 1}, 3).tolist()
    [1, 2, 0]
    """
    order = np.full(k, -1)
    for new, old in same.items():
        if old < k:
            order[old] = new
    order[order < 0] = sorted(set(range(k)) - set(order[order >= 0].tolist()))
    return order


def describe_changes(model: GuidedCoTraining, shared: np.ndarray, same: dict[int, int]) -> Alignment:
    """Return what became of the clusters, given the rows that every two share, in their final numbers."""
    of_new = shared / np.maximum(shared.sum(axis=1, keepdims=True), 1)  # shares of the new clusters' rows
    of_old = shared / np.maximum(shared.sum(axis=0, keepdims=True), 1)  # and of the old ones'
    split = {old: numbers(of_new[:, old] > MOST) for old in range(shared.shape[1])}
    merged = {new: numbers(of_old[new] > MOST) for new in range(shared.shape[0])}
    split = {old: parts for old, parts in split.items() if len(parts) > 1}
    merged = {new: parts for new, parts in merged.items() if len(parts) > 1}
    explained = {new for parts in split.values() for new in parts} | set(merged) | set(same)
    left = {old for parts in merged.values() for old in parts} | set(split) | set(same.values())
    return Alignment(
        model=model,
        kept=tuple(sorted(same)),
        moved={old: new for new, old in same.items() if new != old},
        born=tuple(new for new in range(shared.shape[0]) if new not in explained),
        gone=tuple(old for old in range(shared.shape[1]) if old not in left),
        split=split,
        merged=merged,
    )


def numbers(mask: np.ndarray) -> tuple[int, ...]:
    """Return where a mask is true."""
    return tuple(np.flatnonzero(mask).tolist())


def joined_by_and(parts: tuple[int, ...]) -> str:
    """Return numbers as words.

    Examples
    --------
    >>> joined_by_and((1, 4, 6))
    '1, 4 and 6'
    """
    return " and ".join((", ".join(map(str, parts[:-1])), str(parts[-1])))
