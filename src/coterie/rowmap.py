"""The fitted map: a row's views -> its neighbours -> its embedding. It is what a model is, and what is saved.

A row of the fit and a new row go through the same functions, so prediction is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from coterie.kernels import cpu
from coterie.preparation import Preparation, Table, squared_norms
from coterie.progress import Stopwatch

if TYPE_CHECKING:
    from coterie.rows import Rows
    from coterie.views import ViewBlock

CONCATENATION = -1  # the number of the view that is all views side by side
LOCAL = 0.0  # the bandwidth that stands for each row's own

# Rows whose distances to all landmarks are worked on at once: small enough to stay in a core's cache.
TILE = 512

# Landmarks of a sparse view are kept dense up to this many numbers: products are faster then.
DENSE_LANDMARKS = 25_000_000


@dataclass(frozen=True)
class Graph:
    """How one graph joins rows to landmarks."""

    view: int  # whose distances make the weights; CONCATENATION: those over all views
    n_neighbors: int
    bandwidth: float  # sigma of the Gaussian, or LOCAL
    shared: bool = False  # neighbours are chosen over all views instead of this one

    @property
    def search(self) -> int:
        """The view whose distances choose the neighbours."""
        return CONCATENATION if self.shared else self.view


@dataclass(frozen=True)
class LandmarkRows:
    """The landmarks as one view sees them, prepared."""

    rows: Table  # (p, d)
    present: np.ndarray  # (p,) bool

    def __getstate__(self) -> dict[str, Any]:
        return {"rows": self.rows, "present": self.present}  # what is derived is derived again

    @cached_property
    def norms(self) -> np.ndarray:
        """Squared lengths, infinite for landmarks that lack the view: they are nobody's neighbours."""
        return np.where(self.present, squared_norms(self.rows), np.inf).astype(self.rows.dtype)  # (p,)

    @cached_property
    def columns(self) -> Table:
        """The same rows as columns, in the form that products want."""
        if not sparse.issparse(self.rows):
            return self.rows.T  # (d, p)
        p, d = self.rows.shape
        if p * d <= DENSE_LANDMARKS:
            return np.ascontiguousarray(self.rows.toarray().T)  # (d, p)
        return self.rows.T.tocsr()  # (d, p)


@dataclass(frozen=True)
class Block:
    """What is kept of some rows once the graphs are built: every graph's neighbours, side by side."""

    indices: np.ndarray  # (b, Q) landmark numbers, ascending within each graph
    weights: np.ndarray  # (b, Q) summing to one within each graph, or zero where a row lacks the view


def take_rows(rows: Rows, numbers: np.ndarray) -> Block:
    """Return the neighbours of some rows, by ascending row numbers."""
    return Block(
        rows.take(numbers, lambda block: block.indices),
        rows.take(numbers, lambda block: block.weights),
    )


@dataclass(frozen=True)
class GraphMap:
    """A row's views -> its neighbours among the landmarks, in every graph."""

    names: tuple[str, ...]  # the views'
    preparations: tuple[Preparation, ...]
    landmarks: tuple[LandmarkRows, ...]  # one per view
    graphs: tuple[Graph, ...]

    @property
    def n_landmarks(self) -> int:
        """Number of landmarks, p."""
        return len(self.landmarks[0].present)

    @property
    def dtype(self) -> np.dtype:
        """Precision of row work."""
        return self.preparations[0].dtype

    @cached_property
    def bounds(self) -> np.ndarray:
        """Graph g owns columns ``bounds[g]:bounds[g + 1]`` of a block."""
        return np.cumsum([0, *(graph.n_neighbors for graph in self.graphs)])  # (G + 1,)

    def view_name(self, view: int) -> str:
        """Return the name of a view, the concatenation included."""
        return "(concatenation)" if view == CONCATENATION else self.names[view]

    def graph_names(self) -> list[str]:
        """Return a name for every graph: its view's, and its scale where there are several."""
        scales = {graph.n_neighbors for graph in self.graphs}
        return [
            self.view_name(graph.view) + (f" ({graph.n_neighbors} neighbours)" if len(scales) > 1 else "")
            for graph in self.graphs
        ]

    def mean_by_view(self, values: np.ndarray) -> dict[str, float]:
        """Return the mean of a number per graph over each view's graphs, the concatenation's included."""
        found: dict[str, list[float]] = {}
        for graph, value in zip(self.graphs, values, strict=True):
            found.setdefault(self.view_name(graph.view), []).append(float(value))
        return {name: float(np.mean(parts)) for name, parts in found.items()}

    def connect(self, views: Sequence[ViewBlock], first_row: int = 0, watch: Stopwatch | None = None) -> Block:
        """Return the neighbours of some rows; ``first_row`` is only for error messages."""
        watch = watch or Stopwatch()
        n = views[0].data.shape[0]
        index_type = np.uint16 if self.n_landmarks <= 2**16 else np.uint32
        indices = np.empty((n, self.bounds[-1]), dtype=index_type)
        weights = np.empty((n, self.bounds[-1]), dtype=self.dtype)
        for start in range(0, n, TILE):
            tile = slice(start, min(start + TILE, n))
            distances = self._distances(views, tile, first_row + start, watch)
            with watch("neighbours"):
                for numbers in self.searches.values():
                    self._neighbours(numbers, distances, indices[tile], weights[tile])
        return Block(indices, weights)

    @cached_property
    def searches(self) -> dict[int, list[int]]:
        """The graphs that choose neighbours by the same distances: a smaller scale is a prefix of a larger one."""
        found: dict[int, list[int]] = {}
        for g, graph in enumerate(self.graphs):
            found.setdefault(graph.search, []).append(g)
        return found

    def _distances(
        self, views: Sequence[ViewBlock], tile: slice, first_row: int, watch: Stopwatch
    ) -> dict[int, np.ndarray]:
        """Return squared distances of a tile's rows to all landmarks, per view that some graph looks at."""
        asked = {graph.view for graph in self.graphs} | {graph.search for graph in self.graphs}
        distances = {
            v: self._view_distances(v, view, tile, first_row, watch)
            for v, view in enumerate(views)
            if v in asked or CONCATENATION in asked
        }  # each (b, p)
        if CONCATENATION in asked:
            distances[CONCATENATION] = concatenate_distances(list(distances.values()))
        return distances

    def _view_distances(self, v: int, view: ViewBlock, tile: slice, first_row: int, watch: Stopwatch) -> np.ndarray:
        present = None if view.present is None else view.present[tile]  # (b,)
        if present is not None and not present.any():
            return np.full((len(present), self.n_landmarks), np.inf, dtype=self.dtype)
        if self.preparations[v].hides_infinity:
            numbers = first_row + np.arange(tile.stop - tile.start)
            check_rows(self.names[v], view.data[tile], present, numbers)
        with watch("preparation"), np.errstate(all="ignore"):  # what is not finite is found by its norm
            rows = self.preparations[v](view.data[tile])  # (b, d)
            norms = squared_norms(rows)  # (b,)
        check_finite(self.names[v], norms, present, first_row + np.arange(len(norms)))
        if self.preparations[v].needs_direction:
            present = (norms > 0) & (True if present is None else present)
        if present is not None:
            norms[~present] = np.inf
        with watch("product"):
            return squared_distances(rows, norms, self.landmarks[v])  # (b, p)

    def _neighbours(
        self, numbers: list[int], distances: dict[int, np.ndarray], indices: np.ndarray, weights: np.ndarray
    ) -> None:
        """Write the neighbours of some graphs that share a search to their columns."""
        widest = max(self.graphs[g].n_neighbors for g in numbers)
        found = np.empty((len(indices), widest), dtype=indices.dtype)
        nearest = np.empty((len(indices), widest), dtype=self.dtype)
        cpu.smallest(distances[self.graphs[numbers[0]].search], found, nearest)
        for g in numbers:
            graph, columns = self.graphs[g], slice(self.bounds[g], self.bounds[g + 1])
            mine = found[:, : graph.n_neighbors]  # (b, q)
            squares = nearest[:, : graph.n_neighbors]
            if graph.shared:
                squares = np.take_along_axis(distances[graph.view], mine.astype(np.intp), axis=1)
            indices[:, columns] = mine
            cpu.gaussian(squares, graph.bandwidth, weights[:, columns])
            cpu.sort_neighbours(indices[:, columns], weights[:, columns])


@dataclass(frozen=True)
class Basis:
    """A row's weights in every graph -> its place in the augmented view, U*."""

    bases: np.ndarray  # (G, p, r): e^g_i = sum_j z^g_ij W^g[j]
    rotation: np.ndarray  # (G, r, k): u*_i = sum_g e^g_i R^g
    unit: bool  # whether every e^g_i is made a vector of length one

    def __getstate__(self) -> dict[str, Any]:
        return {"bases": self.bases, "rotation": self.rotation, "unit": self.unit}

    @cached_property
    def merged(self) -> np.ndarray:
        """B^g = W^g R^g: where rows are not made unit in between, one table per graph does for both."""
        return self.bases @ self.rotation  # (G, p, k)

    def __call__(self, block: Block, bounds: np.ndarray) -> np.ndarray:
        """Return U* at the block's rows."""
        rows = np.empty((len(block.indices), self.rotation.shape[2]), dtype=self.bases.dtype)
        if self.unit:
            cpu.embed(block.indices, block.weights, bounds, self.bases, self.rotation, rows)
        else:
            cpu.embed_linear(block.indices, block.weights, bounds, self.merged, rows)
        return rows  # (b, k)

    def stack(self, block: Block, bounds: np.ndarray) -> np.ndarray:
        """Return [e^1_i .. e^G_i] for the block's rows."""
        n_graphs, _, r = self.bases.shape
        rows = np.empty((len(block.indices), n_graphs * r), dtype=self.bases.dtype)
        cpu.project(block.indices, block.weights, bounds, self.bases, self.unit, rows)
        return rows  # (b, G r)


@dataclass(frozen=True)
class Guide:
    """One round of guiding: what a row needs to know of the augmented view (the paper's Eq. (8))."""

    basis: Basis
    anchors: np.ndarray  # (p, k): U* at the landmarks, as unit rows for the cosine guide

    def __call__(self, block: Block, bounds: np.ndarray) -> Block:
        """Return the block with its weights guided."""
        weights = np.empty_like(block.weights)
        rows = self.basis(block, bounds)  # (b, k)
        cpu.guide(block.indices, block.weights, bounds, rows, self.anchors, weights)
        return Block(block.indices, weights)


@dataclass(frozen=True)
class RowMap:
    """Rows -> neighbours -> rounds of guiding -> embedding."""

    graph_map: GraphMap
    guides: tuple[Guide, ...]
    basis: Basis  # of the last round

    def __call__(self, views: Sequence[ViewBlock], first_row: int = 0) -> np.ndarray:
        """Return the rows' embedding, as unit rows."""
        return self.follow(self.graph_map.connect(views, first_row))  # (b, k)

    def view_alone(self, block: Block, view: int) -> np.ndarray:
        """Return where one view alone, before any guiding, would put the rows; zero for those that lack it."""
        basis = self.guides[0].basis if self.guides else self.basis
        bounds = self.graph_map.bounds
        chosen = [g for g, graph in enumerate(self.graph_map.graphs) if graph.view == view]
        columns = np.concatenate([np.arange(bounds[g], bounds[g + 1]) for g in chosen])
        own_bounds = np.cumsum([0, *(bounds[g + 1] - bounds[g] for g in chosen)])
        own = Block(block.indices[:, columns], block.weights[:, columns])
        return unit_embedding(own, Basis(basis.bases[chosen], basis.rotation[chosen], basis.unit), own_bounds)  # (b, k)

    def follow(self, block: Block) -> np.ndarray:
        """Return the embedding of rows whose neighbours are known, as unit rows."""
        for guide in self.guides:
            block = guide(block, self.graph_map.bounds)
        return unit_embedding(block, self.basis, self.graph_map.bounds)  # (b, k)


def unit_embedding(block: Block, basis: Basis, bounds: np.ndarray) -> np.ndarray:
    """Return U* at the block's rows, each row of length one."""
    rows = basis(block, bounds)
    cpu.unit_rows(rows)
    return rows  # (b, k)


def squared_distances(rows: Table, norms: np.ndarray, landmarks: LandmarkRows) -> np.ndarray:
    """Return squared distances between rows and landmarks; infinite where either lacks the view."""
    if len(norms) == 1 and not sparse.issparse(rows):
        # BLAS takes another path for a lone row, which rounds otherwise: ties would be broken otherwise too.
        rows = np.repeat(rows, 2, axis=0)
    products = (rows @ landmarks.columns)[: len(norms)]  # (b, p)
    if sparse.issparse(products):
        products = products.toarray()
    cpu.finish_distances(products, norms, landmarks.norms)
    return products  # (b, p)


def concatenate_distances(distances: list[np.ndarray]) -> np.ndarray:
    """Return squared distances over all views side by side: the views' sum.

    Where a row or a landmark lacks views, the sum over those that both have stands for all of them.
    """
    total = np.sum(distances, axis=0)  # (b, p)
    if np.isfinite(total).all():
        return total
    known = np.isfinite(distances)  # (V, b, p)
    total = np.where(known, distances, 0).sum(axis=0)
    counts = known.sum(axis=0)  # (b, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(counts > 0, total * (len(distances) / counts), np.inf).astype(total.dtype)


def check_rows(name: str, data: Table, present: np.ndarray | None, numbers: np.ndarray) -> None:
    """Raise an error that names the view and the rows if any value is not a finite number."""
    with np.errstate(all="ignore"):
        sums = np.asarray(data.sum(axis=1, dtype=np.float64)).ravel()  # (b,)
    check_finite(name, sums, present, numbers)


def check_finite(name: str, values: np.ndarray, present: np.ndarray | None, numbers: np.ndarray) -> None:
    """Raise an error that names the view and the rows if any row's value is not a finite number."""
    bad = ~np.isfinite(values)
    if present is not None:
        bad &= present
    if bad.any():
        rows = numbers[bad]
        raise ValueError(
            f"Input contains NaN, infinity or values too large to square: view {name!r}, row {rows[0]}"
            f"{f' and {len(rows) - 1} more near it' if len(rows) > 1 else ''}. "
            "Drop or impute such values; a row that lacks the whole view is NaN in all its columns."
        )
