"""What each view alone says about the clusters that all views found together."""

from __future__ import annotations

import numpy as np

from coterie.assignment import assign
from coterie.kernels import cpu
from coterie.rowmap import Block, RowMap
from coterie.rows import Rows


def view_places(rows: Rows, row_map: RowMap, centroids: np.ndarray) -> np.ndarray:
    """Return where each view alone, before any guiding, sees the middle of each cluster."""
    n_views, (k, width) = len(row_map.graph_map.names), centroids.shape

    def add(block: Block, total: tuple[np.ndarray, np.ndarray]) -> None:
        labels = assign(row_map.follow(block), centroids).labels
        for v in range(n_views):
            cpu.add_groups(row_map.view_alone(block, v), labels, total[0][v], total[1][v])

    sums, counts = rows.sum(add, lambda: (np.zeros((n_views, k, width)), np.zeros((n_views, k))))
    return (sums / np.maximum(counts, 1)[:, :, None]).astype(centroids.dtype)  # (V, k, c)


def ask_views(block: Block, row_map: RowMap, places: np.ndarray) -> np.ndarray:
    """Return the cluster that each view alone puts each row in, -1 where the row lacks the view."""
    columns = []
    for v, centers in enumerate(places):
        rows = row_map.view_alone(block, v)  # (b, c)
        columns.append(np.where(rows.any(axis=1), assign(rows, centers).labels, -1))
    return np.column_stack(columns)  # (b, V)


def cluster_agreement(rows: Rows, row_map: RowMap, centroids: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return the share of each cluster's rows that each view alone puts there too."""
    shape = (len(centroids), len(places))

    def add(block: Block, total: tuple[np.ndarray, np.ndarray]) -> None:
        labels = assign(row_map.follow(block), centroids).labels
        own = ask_views(block, row_map, places)  # (b, V)
        np.add.at(total[0], labels, own == labels[:, None])
        np.add.at(total[1], labels, own >= 0)

    agree, known = rows.sum(add, lambda: (np.zeros(shape), np.zeros(shape)))
    return agree / np.maximum(known, 1)  # (k, V)
