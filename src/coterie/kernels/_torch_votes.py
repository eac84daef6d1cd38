"""The kernel for neighbours' label votes, of all graphs and several partitions at once, for tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coterie.kernels import ALONE, to_tensor

# Weights are summed as integers in this unit, so that sums do not depend on the order, and the sum at a landmark with
# only one row is exactly that row's weight.
VOTE_UNIT = 2.0**-40

# Votes that exist at once. With more, views and partitions are processed one by one.
MOST_VOTES = 2**25


def prediction_tables(
    indices: Any, weights: Any, bounds: np.ndarray, views: Sequence[Sequence[int]], partitions: Any
) -> np.ndarray:
    """Return the contingency tables of predicted and own labels, (T, V, predicted, own), as a NumPy array.

    ``views`` has the graphs of each view, ``partitions`` (T x n) the labels. Predictions are those of
    :func:`coterie.method.agreement.predicted_labels`; rows without a prediction are left out.
    """
    import torch

    p, k = (torch.stack([indices.max().long(), partitions.max().long()]) + 1).tolist()
    if len(views) * partitions.numel() * k <= MOST_VOTES:
        return count_predictions(indices, weights, bounds, views, partitions.long(), p, k).cpu().numpy()
    parts = [
        torch.cat([count_predictions(indices, weights, bounds, [view], own[None], p, k) for view in views], dim=1)
        for own in partitions.long()
    ]
    return torch.cat(parts).cpu().numpy()


def count_predictions(
    indices: Any, weights: Any, bounds: np.ndarray, views: Sequence[Sequence[int]], labels: Any, p: int, k: int
) -> Any:
    """Return :func:`prediction_tables` for p landmarks and k labels."""
    import torch

    n_partitions = len(labels)
    votes = other_votes(indices, weights, bounds, views, labels, p, k)  # (n, V, T, k)
    none = (votes == 0).all(dim=3)  # (n, V, T)
    predicted = votes.argmax(dim=3).masked_fill_(none, k)
    cells = predicted.mul_(k).add_(labels.mT[:, None])  # (n, V, T) of tables (k + 1, k)
    numbers = torch.arange(len(views) * n_partitions, device=labels.device).view(len(views), n_partitions)
    cells += numbers * (k * (k + 1))
    tables = torch.zeros(numbers.numel() * k * (k + 1), dtype=torch.int64, device=labels.device)
    tables.scatter_add_(0, cells.flatten(), torch.ones_like(cells).flatten())
    return tables.view(*numbers.shape, k + 1, k)[:, :, :k].transpose(0, 1)  # (T, V, k, k)


def other_votes(
    indices: Any, weights: Any, bounds: np.ndarray, views: Sequence[Sequence[int]], labels: Any, p: int, k: int
) -> Any:
    """Return Z D^(-1) Z^T Y of every view, summed over its graphs, without each row's own part.

    See :func:`coterie.kernels.cpu.label_votes`.
    """
    import torch

    (n_partitions, n), width = labels.shape, len(labels) * k
    layout = ViewColumns(bounds, views, p, indices.device)
    cells = indices[:, layout.columns].long().add_(layout.offsets)  # (n, C) landmarks of all graphs
    units = (weights[:, layout.columns].double() / VOTE_UNIT).round_().long()  # (n, C)
    numbers = labels + torch.arange(0, width, k, device=labels.device)[:, None]  # (T, n) columns of ``at_landmarks``
    at_landmarks = torch.zeros(layout.n_graphs * p * width, dtype=torch.int64, device=labels.device)
    at = (cells * width + numbers[..., None]).flatten()  # (T n C,)
    at_landmarks.scatter_add_(0, at, units.expand(n_partitions, -1, -1).flatten())
    found = (at_landmarks.double() * VOTE_UNIT).view(-1, width)  # (graphs p, T k)
    values, totals = units.double() * VOTE_UNIT, found[:, :k].sum(dim=1)[cells]  # (n, C), (n, C)
    others = totals - values
    shares = (values / others).masked_fill_(others <= ALONE * totals, 0.0)
    own = (shares * values) @ layout.members  # (n, V)
    bags = torch.arange(0, n * cells.shape[1], cells.shape[1], device=labels.device)[:, None] + layout.starts
    votes = torch.nn.functional.embedding_bag(
        cells.flatten(), found, bags.flatten(), mode="sum", per_sample_weights=shares.flatten()
    ).view(n, len(views), n_partitions, k)
    mine = labels.mT[:, None, :, None].expand(-1, len(views), -1, -1)  # (n, V, T, 1)
    return votes.scatter_add_(3, mine, -own[..., None, None].expand(mine.shape))


class ViewColumns:
    """The columns of a block, ordered by view, and the views' shares of them: on a device, after one upload."""

    def __init__(self, bounds: np.ndarray, views: Sequence[Sequence[int]], p: int, device: Any) -> None:
        graphs = [graph for view in views for graph in view]
        widths = [int(bounds[graph + 1] - bounds[graph]) for graph in graphs]
        view_widths = [sum(int(bounds[graph + 1] - bounds[graph]) for graph in view) for view in views]
        n_columns, self.n_graphs = sum(widths), len(graphs)
        host = np.concatenate(
            [
                *(np.arange(bounds[graph], bounds[graph + 1]) for graph in graphs),
                np.repeat(np.arange(len(graphs)) * p, widths),
                np.cumsum([0, *view_widths[:-1]]),
                np.repeat(np.eye(len(views), dtype=np.int64), view_widths, axis=0).ravel(),
            ]
        )
        parts = to_tensor(host, device).split([n_columns, n_columns, len(views), n_columns * len(views)])
        self.columns, self.offsets, self.starts = parts[:3]  # (C,), (C,), (V,)
        self.members = parts[3].view(n_columns, len(views)).double()  # (C, V)
