"""How well a partition matches known classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

__all__ = ["ari", "clustering_accuracy", "nmi", "purity"]


def clustering_accuracy(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the share of rows whose cluster stands for their class, under the best one-to-one match.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    table = _table(labels_true, labels_pred)  # (classes, clusters)
    matched = linear_sum_assignment(table, maximize=True)
    return float(table[matched].sum() / table.sum())


def nmi(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the mutual information over the mean of the two entropies (1: the same partition).

    Examples
    --------
    >>> nmi(["a", "a", "b", "b"], [1, 1, 0, 0])
    1.0
    """
    _table(labels_true, labels_pred)
    return float(normalized_mutual_info_score(labels_true, labels_pred))


def ari(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the share of agreeing pairs, corrected for chance (1: the same partition; 0: chance).

    Examples
    --------
    >>> ari([0, 0, 1, 1], [0, 0, 1, 1])
    1.0
    """
    _table(labels_true, labels_pred)
    return float(adjusted_rand_score(labels_true, labels_pred))


def purity(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the share of rows that are of their cluster's most frequent class.

    Examples
    --------
    >>> purity([0, 0, 1, 1], [0, 1, 2, 2])
    1.0
    """
    table = _table(labels_true, labels_pred)
    return float(table.max(axis=0).sum() / table.sum())


def _table(labels_true: ArrayLike, labels_pred: ArrayLike) -> np.ndarray:
    true, pred = np.asarray(labels_true), np.asarray(labels_pred)
    if true.ndim != 1 or true.shape != pred.shape:
        raise ValueError(
            "labels_true and labels_pred must be 1-D and of the same length. "
            f"Got shapes {true.shape} and {pred.shape} instead."
        )
    if not len(true):
        raise ValueError("labels_true is empty. Pass at least one label.")
    return contingency_matrix(true, pred)  # (classes, clusters)
