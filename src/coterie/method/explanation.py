"""What each view alone says about the clusters that all views found together."""

from __future__ import annotations

import numpy as np

from coterie.arrays import array_namespace, to_host
from coterie.kernels import kernels_of
from coterie.method.assignment import assign
from coterie.method.graphs import Block
from coterie.method.rowmap import RowMap

# Views are asked about so many rows at most.
SAMPLE_ROWS = 20_000


def view_places(block: Block, labels: np.ndarray, row_map: RowMap, n_clusters: int) -> np.ndarray:
    """Return where each view alone, before any guiding, sees the middle of each cluster."""
    n_views, width = len(row_map.graph_map.names), row_map.basis.rotation.shape[2]
    kernels = kernels_of(block.weights)
    sums = kernels.zeros((n_views, n_clusters, width), block.weights)
    counts = kernels.zeros((n_views, n_clusters), block.weights)
    for v in range(n_views):
        kernels.add_groups(row_map.view_alone(block, v), labels, sums[v], counts[v])
    return to_host(sums / counts.clip(1)[:, :, None]).astype(row_map.graph_map.dtype)  # (V, k, c)


def ask_views(block: Block, row_map: RowMap, places: np.ndarray) -> np.ndarray:
    """Return the cluster that each view alone puts each row in, -1 where the row lacks the view."""
    columns = []
    for v, centers in enumerate(places):
        rows = row_map.view_alone(block, v)  # (b, c)
        xp = array_namespace(rows)
        columns.append(xp.where(xp.any(rows != 0, axis=1), assign(rows, centers).labels, -1))
    return xp.stack(columns, axis=1)  # (b, V)


def cluster_agreement(block: Block, labels: np.ndarray, row_map: RowMap, places: np.ndarray) -> np.ndarray:
    """Return the share of each cluster's rows that each view alone puts there too."""
    own, labels = to_host((ask_views(block, row_map, places), labels))  # (b, V), (b,)
    columns = []
    for said in own.T:  # (b,)
        agree = np.bincount(labels[said == labels], minlength=places.shape[1])  # (k,)
        known = np.bincount(labels[said >= 0], minlength=places.shape[1])
        columns.append(agree / np.maximum(known, 1))
    return np.column_stack(columns)  # (k, V)
