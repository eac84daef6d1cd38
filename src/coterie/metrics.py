"""How well a partition matches known classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["ari", "clustering_accuracy", "nmi", "purity", "scores"]


def clustering_accuracy(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the share of rows whose cluster is matched with their class, under the best one-to-one matching.

    Examples
    --------
    >>> clustering_accuracy([0, 0, 1, 1], [1, 1, 0, 1])
    0.75
    """
    return accuracy_of(_table(labels_true, labels_pred))


def nmi(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the mutual information divided by the mean of the two entropies (1: the same partition).

    Examples
    --------
    >>> nmi(["a", "a", "b", "b"], [1, 1, 0, 0])
    1.0
    """
    return nmi_of(_table(labels_true, labels_pred))


def ari(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the share of agreeing pairs, corrected for chance (1: the same partition; 0: chance).

    Examples
    --------
    >>> ari([0, 0, 1, 1], [0, 0, 1, 1])
    1.0
    """
    return ari_of(_table(labels_true, labels_pred))


def purity(labels_true: ArrayLike, labels_pred: ArrayLike) -> float:
    """Return the share of rows that are of their cluster's most frequent class.

    Examples
    --------
    >>> purity([0, 0, 1, 1], [0, 1, 2, 2])
    1.0
    """
    return purity_of(_table(labels_true, labels_pred))


def scores(labels_true: ArrayLike, labels_pred: ArrayLike) -> dict[str, float]:
    """Return all four scores by name: ACC, NMI, ARI and purity.

    Examples
    --------
    >>> scores([0, 0, 1, 1], [1, 1, 0, 0])
    {'ACC': 1.0, 'NMI': 1.0, 'ARI': 1.0, 'purity': 1.0}
    """
    table = _table(labels_true, labels_pred)
    return {"ACC": accuracy_of(table), "NMI": nmi_of(table), "ARI": ari_of(table), "purity": purity_of(table)}


# -- the same scores from a contingency table (classes x clusters), without reading the rows again ----------------


def accuracy_of(table: np.ndarray) -> float:
    """Return :func:`clustering_accuracy` from a contingency table (classes x clusters)."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and prediction needs none of this

    matched = linear_sum_assignment(table, maximize=True)
    return float(table[matched].sum() / table.sum())


def nmi_of(table: np.ndarray) -> float:
    """Return :func:`nmi` from a contingency table (classes x clusters); 1 for a single class and a single cluster."""
    from scipy.special import entr

    shares = table / table.sum()
    classes, clusters, both = (float(entr(part).sum()) for part in (shares.sum(axis=1), shares.sum(axis=0), shares))
    if classes + clusters == 0:
        return 1.0
    return float(np.clip(2 * (classes + clusters - both) / (classes + clusters), 0, 1))


def ari_of(table: np.ndarray) -> float:
    """Return :func:`ari` from a contingency table (classes x clusters)."""
    together, in_class, in_cluster, pairs = (
        float(np.sum(counts * (counts - 1.0)))  # floats: squares of large counts overflow integers
        for counts in (table, table.sum(axis=1), table.sum(axis=0), table.sum())
    )
    expected = in_class * in_cluster / max(pairs, 1.0)
    most = (in_class + in_cluster) / 2
    return 1.0 if together == most else (together - expected) / (most - expected)


def purity_of(table: np.ndarray) -> float:
    """Return :func:`purity` from a contingency table (classes x clusters)."""
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
    for name, given, labels in (("labels_true", labels_true, true), ("labels_pred", labels_pred, pred)):
        missing = np.flatnonzero(_missing(given, labels))
        if len(missing):
            raise ValueError(
                f"{name} is missing in row {missing[0]}: NaN, None or masked. Leave out rows without a label."
            )
    from sklearn.metrics.cluster import contingency_matrix  # takes long to import, and prediction needs none of it

    return contingency_matrix(true, pred)  # (classes, clusters)


def _missing(given: ArrayLike, labels: np.ndarray) -> np.ndarray:
    """Return which labels are masked, NaN, NaT, None or pandas' NA."""
    masked = np.ma.getmaskarray(given) if isinstance(given, np.ma.MaskedArray) else False
    if labels.dtype.kind == "O":
        return masked | np.array(
            [label is None or type(label).__name__ == "NAType" or label != label for label in labels]
        )
    return masked | (labels != labels)  # (n,)
