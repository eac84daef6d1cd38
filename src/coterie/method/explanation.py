"""How far each view alone agrees with the clusters that all views found together."""

from __future__ import annotations

import numpy as np

from coterie.arrays import array_namespace, to_host
from coterie.kernels import kernels_of
from coterie.method.assignment import assign, squared_gaps
from coterie.method.graphs import Block
from coterie.method.rowmap import RowMap

# Agreement is measured on a sample of at most this many rows.
EXPLAINED_ROWS = 20_000


def find_view_centroids(block: Block, labels: np.ndarray, row_map: RowMap, n_clusters: int) -> np.ndarray:
    """Return the centroid of each cluster in the embedding that each view alone gives, before any guiding."""
    n_views, width = len(row_map.graph_map.names), row_map.basis.rotation.shape[2]
    kernels = kernels_of(block.weights)
    sums = kernels.zeros((n_views, n_clusters, width), block.weights)
    counts = kernels.zeros((n_views, n_clusters), block.weights)
    for v in range(n_views):
        kernels.add_groups(row_map.view_alone(block, v), labels, sums[v], counts[v])
    return to_host(sums / counts.clip(1)[:, :, None]).astype(row_map.graph_map.dtype)  # (V, k, c)


def label_by_view(block: Block, row_map: RowMap, view_centroids: np.ndarray) -> np.ndarray:
    """Return the cluster that each view alone assigns each row to, -1 where the row lacks the view."""
    columns = []
    for v, centroids in enumerate(view_centroids):
        rows = row_map.view_alone(block, v)  # (b, c)
        xp = array_namespace(rows)
        columns.append(xp.where(xp.any(rows != 0, axis=1), assign(rows, centroids).labels, -1))
    return xp.stack(columns, axis=1)  # (b, V)


def cluster_agreement(block: Block, labels: np.ndarray, row_map: RowMap, view_centroids: np.ndarray) -> np.ndarray:
    """Return the share of each cluster's rows that each view alone assigns to it too."""
    by_view, labels = to_host((label_by_view(block, row_map, view_centroids), labels))  # (b, V), (b,)
    n_clusters = view_centroids.shape[1]
    columns = []
    for own in by_view.T:  # (b,)
        agree = np.bincount(labels[own == labels], minlength=n_clusters)  # (k,)
        present = np.bincount(labels[own >= 0], minlength=n_clusters)
        columns.append(agree / np.maximum(present, 1))
    return np.column_stack(columns)  # (k, V)


def support_by_view(block: Block, labels: np.ndarray, row_map: RowMap, view_centroids: np.ndarray) -> np.ndarray:
    """Return how much nearer each view alone places each row to its cluster than to the next: 0 where it does not.

    NaN where a row lacks the view.
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
