"""Align cluster numbers between two fits, by matching clusters that share rows."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from coterie.arrays import to_host
from coterie.estimator import GuidedCoTraining
from coterie.model import fitted_of, row_ids_of
from coterie.views import check_columns, rows_as_in

__all__ = ["Alignment", "align"]

SAME = 0.5  # least Jaccard index of the rows of two clusters that are matched
MOST = 0.5  # a cluster with more than this share of its rows in another one is a part of it


@dataclass(frozen=True)
class Alignment:
    """A model whose clusters have the numbers of the matching clusters of an older model.

    Attributes
    ----------
    model : GuidedCoTraining
    kept : tuple of int
        Clusters that both models have, by their new number. It is also the old number, except for those in ``moved``.
    moved : dict of int
        New number of each kept cluster whose old number is too large for the new model, by its old number.
    born, gone : tuple of int
        New clusters without an old counterpart, and old ones without a new one; split and merged clusters are in
        neither.
    split : dict of tuple of int
        The new clusters that each split old cluster became.
    merged : dict of tuple of int
        The old clusters that each merged new cluster was made from.
    """

    model: GuidedCoTraining
    kept: tuple[int, ...]
    moved: dict[int, int]
    born: tuple[int, ...]
    gone: tuple[int, ...]
    split: dict[int, tuple[int, ...]]
    merged: dict[int, tuple[int, ...]]

    def in_words(self) -> list[str]:
        """Return one line of text for each change."""
        lines = [f"cluster {old} is now {new}" for old, new in self.moved.items()]
        lines += [f"cluster {old} fell into {joined_by_and(parts)}" for old, parts in self.split.items()]
        lines += [f"clusters {joined_by_and(parts)} became {new}" for new, parts in self.merged.items()]
        lines += [f"cluster {number} is new" for number in self.born]
        return lines + [f"cluster {number} is gone" for number in self.gone]


def align(model: GuidedCoTraining, old: GuidedCoTraining, X: Any) -> Alignment:
    """Renumber the clusters of a model to match those of an older model that share their rows.

    Parameters
    ----------
    model : GuidedCoTraining
        The new fit; it is not modified.
    old : GuidedCoTraining
        The earlier fit, possibly loaded from a file.
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
    before = rows_as_in("The old model's labels", before, row_ids_of(old, X), row_ids_of(model, X))
    known = (labels >= 0) & (before >= 0)
    shared = np.zeros((model.n_clusters_, old.n_clusters_), dtype=np.int64)
    np.add.at(shared, (labels[known], before[known]), 1)  # (k, k before): rows in both
    same = matches(shared)
    order = new_order(same, len(shared))  # (k,)
    aligned = copy(model)
    aligned._publish(fitted_of(model).renumbered(order))
    number = {int(own): position for position, own in enumerate(order)}
    return describe_changes(aligned, shared[order], {number[own]: other for own, other in same.items()})


def check_rows_for(old: GuidedCoTraining, X: Any) -> None:
    """Refuse rows that a model cannot label because of their views or columns; no rows are read."""
    fitted = fitted_of(old)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `align` says it again
        check_columns(fitted.matched(X, old.id_column), fitted.shapes)


def matches(shared: np.ndarray) -> dict[int, int]:
    """Return the old cluster that matches each new one, given the number of rows that every pair shares."""
    union = shared.sum(axis=1)[:, None] + shared.sum(axis=0) - shared
    jaccard = shared / np.maximum(union, 1)  # (k, k before)
    pairs = zip(*linear_sum_assignment(-jaccard), strict=True)
    return {int(new): int(old) for new, old in pairs if jaccard[new, old] >= SAME}


def new_order(same: dict[int, int], k: int) -> np.ndarray:
    """Return the cluster that gets each number: matched clusters get their old number, others fill the gaps.

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
    """Return the alignment, given the number of rows that every pair of clusters (in final numbers) shares."""
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
    """Return the indices at which a mask is true."""
    return tuple(np.flatnonzero(mask).tolist())


def joined_by_and(parts: tuple[int, ...]) -> str:
    """Return numbers as an English list.

    Examples
    --------
    >>> joined_by_and((1, 4, 6))
    '1, 4 and 6'
    """
    return " and ".join((", ".join(map(str, parts[:-1])), str(parts[-1])))
