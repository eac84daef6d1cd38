"""The fitted map: a row's views -> its neighbours -> its embedding. It is the core of a model, and saved with it.

A row of the fit and a new row go through the same functions, so prediction is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coterie.arrays import numbers_for, to_device
from coterie.kernels import kernels_of
from coterie.method.graphs import Block, GraphMap
from coterie.views import ViewBlock


@dataclass(frozen=True)
class Basis:
    """A row's weights in every graph -> its row of the augmented view, U*."""

    bases: np.ndarray  # (G, p, r): e^g_i = sum_j z^g_ij W^g[j]
    rotation: np.ndarray  # (G, r, k): u*_i = sum_g e^g_i R^g
    unit: bool  # whether every e^g_i is normalised to length one

    def __getstate__(self) -> dict[str, Any]:
        return {"bases": self.bases, "rotation": self.rotation, "unit": self.unit}

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The bases and the rotation, or only B^g = W^g R^g (G, p, k) where rows are not normalised in between."""
        return (self.bases, self.rotation) if self.unit else (self.bases @ self.rotation, None)

    def __call__(self, block: Block, bounds: np.ndarray) -> np.ndarray:
        """Return U* at the block's rows."""
        return kernels_of(block.weights).embed(block.indices, block.weights, bounds, *self.tables)  # (b, k)

    def stack(self, block: Block, bounds: np.ndarray) -> np.ndarray:
        """Return [e^1_i .. e^G_i] for the block's rows."""
        kernels = kernels_of(block.weights)
        return kernels.project(block.indices, block.weights, bounds, self.bases, self.unit)  # (b, G r)


@dataclass(frozen=True)
class Guide:
    """One round of guiding by the augmented view (the paper's Eq. (8))."""

    basis: Basis
    anchors: np.ndarray  # (p, k): U* at the landmarks, as unit rows for the cosine guide

    def __call__(self, block: Block, bounds: np.ndarray) -> Block:
        """Return the block with its weights guided."""
        kernels = kernels_of(block.weights)
        return Block(
            block.indices,
            kernels.guide(block.indices, block.weights, bounds, *self.basis.tables, self.anchors),
        )


@dataclass(frozen=True)
class RowMap:
    """Rows -> neighbours -> rounds of guiding -> embedding."""

    graph_map: GraphMap
    guides: tuple[Guide, ...]
    basis: Basis  # of the last round

    def __call__(self, views: Sequence[ViewBlock], first_row: int = 0) -> np.ndarray:
        """Return the rows' embedding, as unit rows."""
        return self.follow(self.graph_map.connect(views, first_row))  # (b, k)

    def on(self, device: Any) -> RowMap:
        """Return the map on a device."""
        return RowMap(self.graph_map.on(device), to_device(self.guides, device), to_device(self.basis, device))

    def view_alone(self, block: Block, view: int) -> np.ndarray:
        """Return the embedding by one view alone, before any guiding; zero for rows that lack it."""
        basis = self.guides[0].basis if self.guides else self.basis
        chosen = [g for g, graph in enumerate(self.graph_map.graphs) if graph.view == view]
        own, own_bounds = columns_of(block, self.graph_map.bounds, chosen)
        graphs = numbers_for(basis.bases, np.array(chosen))
        return unit_embedding(own, Basis(basis.bases[graphs], basis.rotation[graphs], basis.unit), own_bounds)  # (b, k)

    def follow(self, block: Block) -> np.ndarray:
        """Return the embedding of rows whose neighbours are known, as unit rows."""
        return follow(block, self.guides, self.basis, self.graph_map.bounds)  # (b, k)


def follow(block: Block, guides: Sequence[Guide], basis: Basis, bounds: np.ndarray) -> np.ndarray:
    """Return the embedding of rows after rounds of guiding, as unit rows."""
    return unit_embedding(guide_all(block, guides, bounds), basis, bounds)  # (b, k)


def guide_all(block: Block, guides: Sequence[Guide], bounds: np.ndarray) -> Block:
    """Return rows after rounds of guiding."""
    for guide in guides:
        block = guide(block, bounds)
    return block


def columns_of(block: Block, bounds: np.ndarray, chosen: Sequence[int]) -> tuple[Block, np.ndarray]:
    """Return a block's columns of the ``chosen`` graphs, and their bounds."""
    columns = numbers_for(block.weights, np.concatenate([np.arange(bounds[g], bounds[g + 1]) for g in chosen]))
    own_bounds = np.cumsum([0, *(bounds[g + 1] - bounds[g] for g in chosen)])
    return Block(block.indices[:, columns], block.weights[:, columns]), own_bounds


def unit_embedding(block: Block, basis: Basis, bounds: np.ndarray) -> np.ndarray:
    """Return U* at the block's rows, each row of length one."""
    rows = basis(block, bounds)  # (b, k)
    return kernels_of(rows).unit_rows(rows)
