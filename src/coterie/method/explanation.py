"""How far each view alone agrees with the clusters that all views found together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coterie.arrays import array_namespace, convert, to_host
from coterie.kernels import kernels_of
from coterie.method.assignment import assign, squared_gaps
from coterie.method.graphs import Block
from coterie.method.rowmap import RowMap
from coterie.threads import in_order

# Agreement is measured on a sample of at most this many rows.
EXPLAINED_ROWS = 20_000


@dataclass(frozen=True)
class Explanation:
    """The clusters in the embedding of each view alone."""

    view_centroids: np.ndarray  # (V, k, c) in the embedding that each view alone gives, before any guiding
    agreement: np.ndarray  # (k, V) share of each cluster's rows that each view alone assigns to it too


def explain(block: Block, labels: np.ndarray, row_map: RowMap, n_clusters: int, n_threads: int = 1) -> Explanation:
    """Return the clusters in the embedding of each view alone, given some rows before any guiding and their labels."""
    kernels, dtype = kernels_of(block.weights), row_map.graph_map.dtype
    host_labels = to_host(labels)

    def look(view: int) -> tuple[np.ndarray, np.ndarray]:
        rows = row_map.view_alone(block, view)  # (b, c)
        sums, counts = kernels.zeros((n_clusters, rows.shape[1]), rows), kernels.zeros((n_clusters,), rows)
        kernels.add_groups(rows, labels, sums, counts)
        centroids = convert(sums / counts.clip(1)[:, None], dtype)  # (k, c)
        return centroids, label_rows(rows, centroids)

    views = range(len(row_map.graph_map.names))
    found = to_host(list(in_order(look, views, 1 if kernels.BATCHED else n_threads)))
    shares = [share_of_rows(own, host_labels, n_clusters) for _, own in found]
    return Explanation(np.stack([centroids for centroids, _ in found]), np.column_stack(shares))


def share_of_rows(own: np.ndarray, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return the share of each cluster's rows whose label in one view, -1 where they lack it, is the cluster's.

    Examples
    --------
    >>> share_of_rows(np.array([0, 1, -1, 1]), np.array([0, 0, 0, 1]), 2).tolist()
    [0.5, 1.0]
    """
    agree = np.bincount(labels[own == labels], minlength=n_clusters)  # (k,)
    present = np.bincount(labels[own >= 0], minlength=n_clusters)
    return agree / np.maximum(present, 1)  # (k,)


def label_rows(rows: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Return the cluster of each row in one view's own embedding, -1 for rows of zeros: these lack the view."""
    labels = assign(rows, centroids).labels
    return array_namespace(rows).where(~kernels_of(rows).zero_rows(rows), labels, -1)  # (b,)


def label_by_view(block: Block, row_map: RowMap, view_centroids: np.ndarray) -> np.ndarray:
    """Return the cluster that each view alone assigns each row to, -1 where the row lacks the view."""
    columns = [label_rows(row_map.view_alone(block, v), centroids) for v, centroids in enumerate(view_centroids)]
    return array_namespace(columns[0]).stack(columns, axis=1)  # (b, V)


def support_by_view(block: Block, labels: np.ndarray, row_map: RowMap, view_centroids: np.ndarray) -> np.ndarray:
    """Return 1 - d1 / d2 for every row and view alone: the distances to the row's cluster and to the nearest other one.

    It is 0 where another cluster is nearer, and NaN where a row lacks the view.
    """
    labels, columns = to_host(labels).astype(np.int64), []
    for v, centroids in enumerate(view_centroids):
        rows = to_host(row_map.view_alone(block, v))  # (b, c)
        squares = squared_gaps(rows, centroids)  # (b, k)
        own = np.take_along_axis(squares, labels[:, None], axis=1)[:, 0]  # (b,)
        np.put_along_axis(squares, labels[:, None], np.inf, axis=1)
        other = squares.min(axis=1)  # (b,)
        nearer = own < other
        support = np.where(nearer, 1 - np.sqrt(own / np.where(nearer, other, 1)), 0.0)
        columns.append(np.where((rows != 0).any(axis=1), support, np.nan))
    return np.column_stack(columns).astype(np.float32)  # (b, V)
