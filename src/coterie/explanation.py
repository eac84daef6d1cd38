"""What each view alone says about the clusters that all views found together."""

from __future__ import annotations

import numpy as np

from coterie.assignment import assign
from coterie.kernels import cpu
from coterie.rowmap import Block, RowMap

# Views are asked about so many rows at most.
SAMPLE_ROWS = 20_000


def view_places(block: Block, labels: np.ndarray, row_map: RowMap, n_clusters: int) -> np.ndarray:
    """Return where each view alone, before any guiding, sees the middle of each cluster."""
    n_views, width = len(row_map.graph_map.names), row_map.basis.rotation.shape[2]
    sums, counts = np.zeros((n_views, n_clusters, width)), np.zeros((n_views, n_clusters))
    for v in range(n_views):
        cpu.add_groups(row_map.view_alone(block, v), labels, sums[v], counts[v])
    return (sums / np.maximum(counts, 1)[:, :, None]).astype(row_map.graph_map.dtype)  # (V, k, c)


def ask_views(block: Block, row_map: RowMap, places: np.ndarray) -> np.ndarray:
    """Return the cluster that each view alone puts each row in, -1 where the row lacks the view."""
    columns = []
    for v, centers in enumerate(places):
        rows = row_map.view_alone(block, v)  # (b, c)
        columns.append(np.where(rows.any(axis=1), assign(rows, centers).labels, -1))
    return np.column_stack(columns)  # (b, V)


def cluster_agreement(block: Block, labels: np.ndarray, row_map: RowMap, places: np.ndarray) -> np.ndarray:
    """Return the share of each cluster's rows that each view alone puts there too."""
    agree, known = np.zeros((2, places.shape[1], len(places)))  # (k, V)
    own = ask_views(block, row_map, places)  # (b, V)
    np.add.at(agree, labels, own == labels[:, None])
    np.add.at(known, labels, own >= 0)
    return agree / np.maximum(known, 1)  # (k, V)
