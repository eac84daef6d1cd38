"""The fitted map: a row's views -> its neighbours -> its embedding. It is what a model is, and what is saved.

A row of the fit and a new row go through the same functions, so prediction is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from coterie.arrays import array_namespace, like, to_device, to_host
from coterie.kernels import is_tensor, kernels_of
from coterie.kernels.cpu import in_order_of_landmarks, row_product
from coterie.method.likeness import Likeness, learn_likeness
from coterie.progress import Stopwatch
from coterie.rows.blocks import storable
from coterie.views.preparation import Preparation, Table, squared_norms

if TYPE_CHECKING:
    from coterie.rows import Rows
    from coterie.views.tables import ViewBlock

CONCATENATION = -1  # the number of the view that is all views side by side
LOCAL = 0.0  # the bandwidth that stands for each row's own

# Rows whose distances to all landmarks are worked on at once: few enough for the cache, and enough for the products,
# for which landmarks are laid out anew every time.
TILE = 512

# Numbers that are prepared at once: several tiles, because what is called for each view takes time of its own.
PREPARED = 2**22

# All pairs of this many landmarks show how the views' distances go together.
LIKENESS_LANDMARKS = 400

# Landmarks are kept a second time, dense and column by column, up to this many numbers: products are faster then.
FEW_NUMBERS = 25_000_000


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
        norms = squared_norms(self.rows)  # (p,)
        return array_namespace(norms).where(self.present, norms, np.inf)

    @cached_property
    def columns(self) -> Table:
        """The same rows as columns, in the form that products want, unless that would be large."""
        p, d = self.rows.shape
        if is_tensor(self.rows):
            return self.rows.T  # (d, p)
        if p * d > FEW_NUMBERS:
            return self.rows.T.tocsr() if sparse.issparse(self.rows) else self.rows.T  # (d, p)
        dense = self.rows.toarray() if sparse.issparse(self.rows) else self.rows
        return np.ascontiguousarray(dense.T)  # (d, p)


@dataclass(frozen=True)
class Side:
    """Some rows as one view sees them, prepared."""

    rows: Table  # (b, d)
    norms: np.ndarray  # (b,) squared lengths, infinite for rows that lack the view
    gaps: bool  # whether some row or landmark may lack the view

    def part(self, rows: slice) -> Side:
        """Return some of the rows."""
        return Side(self.rows[rows], self.norms[rows], self.gaps)


@dataclass(frozen=True)
class Neighbours:
    """Some rows' nearest landmarks in every graph, side by side, before they have weights."""

    indices: np.ndarray  # (b, Q) landmark numbers
    squares: np.ndarray  # (b, Q) squared distances

    def part(self, rows: slice) -> Neighbours:
        """Return those of some rows: what is written to them is written here."""
        return Neighbours(self.indices[rows], self.squares[rows])

    def write(self, columns: slice, indices: np.ndarray, squares: np.ndarray) -> None:
        """Take over one graph's."""
        self.indices[:, columns], self.squares[:, columns] = indices, squares


@storable
@dataclass(frozen=True)
class Block:
    """What is kept of some rows once the graphs are built: every graph's neighbours, side by side."""

    indices: np.ndarray  # (b, Q) landmark numbers, ascending within each graph
    weights: np.ndarray  # (b, Q) summing to one within each graph, or zero where a row lacks the view


def host_block(block: Block, bounds: np.ndarray) -> Block:
    """Return a block as NumPy arrays, its neighbours in the order that the kernels of a CPU expect."""
    if not is_tensor(block.weights):
        return block
    indices, weights = to_host((block.indices, block.weights))
    return Block(*in_order_of_landmarks(indices.astype(np.uint32), weights, bounds))


@dataclass(frozen=True)
class GraphMap:
    """A row's views -> its neighbours among the landmarks, in every graph."""

    names: tuple[str, ...]  # the views'
    preparations: tuple[Preparation, ...]
    landmarks: tuple[LandmarkRows, ...]  # one per view
    graphs: tuple[Graph, ...]
    precision: str = "float32"  # of products on a GPU

    def on(self, device: Any) -> GraphMap:
        """Return the map with its landmarks on a device. Preparations stay: sparse rows are prepared on the host."""
        return replace(self, landmarks=to_device(self.landmarks, device))

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

    @property
    def row_bytes(self) -> int:
        """How many bytes a row's neighbours take."""
        index = np.uint16 if self.n_landmarks <= 2**16 else np.uint32
        return int(self.bounds[-1]) * (np.dtype(index).itemsize + self.dtype.itemsize)

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
        """Return the neighbours of some rows; ``first_row`` is only for error messages.

        On a GPU, products and selection are one kernel, except where distances to all landmarks must be looked at.
        """
        watch = watch or Stopwatch()
        if is_tensor(self.landmarks[0].rows) and not any(graph.shared for graph in self.graphs):
            sides = [self._side(v, view, slice(None), first_row, watch) for v, view in enumerate(views)]
            if CONCATENATION not in self.searches or not any(side.gaps for side in sides):
                found = self._new_neighbours(len(sides[0].norms))
                self._search_fused(sides, found)
                return self._weigh(found, watch)
        n_rows, scratch = views[0].data.shape[0], Scratch()
        found = self._new_neighbours(n_rows)
        step = TILE * max(1, PREPARED // sum(view.data.shape[1] for view in views) // TILE)
        for start in range(0, n_rows, step):
            some = slice(start, min(start + step, n_rows))
            sides = [self._side(v, view, some, first_row + start, watch) for v, view in enumerate(views)]
            for at in range(0, some.stop - start, TILE):
                rows = slice(at, min(at + TILE, some.stop - start))
                tile = slice(start + rows.start, start + rows.stop)
                self._search_tile([side.part(rows) for side in sides], watch, scratch, found.part(tile))
        return self._weigh(found, watch)

    def _search_tile(self, sides: Sequence[Side], watch: Stopwatch, scratch: Scratch, found: Neighbours) -> None:
        """Write the nearest landmarks of a few rows to ``found``."""
        distances = scratch((len(sides), len(sides[0].norms), self.n_landmarks), self.landmarks[0].norms)  # (V, b, p)
        for v, side in enumerate(sides):  # a view's distances are looked at while they are in the cache
            with watch("product"):
                squared_distances(side.rows, side.norms, self.landmarks[v], out=distances[v])
            with watch("neighbours"):
                self._search(v, distances[v : v + 1], distances, found)
        with watch("neighbours"):
            if CONCATENATION in self.searches:
                overall = distances
                if any(side.gaps for side in sides):
                    overall = whole_distances(distances, self.likeness)[None]
                self._search(CONCATENATION, overall, distances, found)

    def _search(self, search: int, distances: Any, by_view: Any, found: Neighbours) -> None:
        """Write the landmarks that are nearest by the sum of ``distances``, and how far they are in a graph's view."""
        graphs = self.searches.get(search, [])
        if not graphs:
            return
        scales = [self.graphs[g].n_neighbors for g in graphs]
        for g, (indices, squares) in zip(graphs, kernels_of(distances).smallest(distances, scales), strict=True):
            if self.graphs[g].shared:
                xp = array_namespace(indices)
                own = by_view[self.graphs[g].view]  # (b, p)
                squares = xp.take_along_axis(own, xp.astype(indices, xp.int64), axis=1)  # (b, q)
            found.write(self._columns(g), indices, squares)

    def _columns(self, g: int) -> slice:
        return slice(self.bounds[g], self.bounds[g + 1])

    def _new_neighbours(self, n_rows: int) -> Neighbours:
        like = self.landmarks[0].norms
        return Neighbours(*kernels_of(like).new_neighbours(n_rows, int(self.bounds[-1]), self.n_landmarks, like))

    def _weigh(self, found: Neighbours, watch: Stopwatch) -> Block:
        """Return neighbours with weights instead of distances."""
        kernels = kernels_of(found.squares)
        with watch("neighbours"):
            bandwidths = [graph.bandwidth for graph in self.graphs]
            return Block(found.indices, kernels.gaussian(found.squares, self.bounds, bandwidths))

    def _widest(self, search: int) -> int:
        return max(self.graphs[g].n_neighbors for g in self.searches[search])

    def _placed(self, rows: Table) -> Table:
        """Return prepared rows where the landmarks are: sparse views are prepared on the host."""
        here = self.landmarks[0].rows
        return to_device(rows, here.device) if is_tensor(here) and not is_tensor(rows) else rows

    def _search_fused(self, sides: Sequence[Side], found: Neighbours) -> None:
        for search, numbers in self.searches.items():
            side, landmarks = self._searched(search, sides)
            kernels = kernels_of(side.rows)
            indices, squares = kernels.nearest(  # (b, widest)
                side.rows, side.norms, landmarks.rows, landmarks.norms, self._widest(search), self.precision
            )
            if len(numbers) > 1:  # a smaller scale is a prefix of a larger one
                squares, order = squares.sort(dim=1, stable=True)
                indices = indices.gather(1, order)
            for g in numbers:
                q = self.graphs[g].n_neighbors
                found.write(self._columns(g), indices[:, :q], squares[:, :q])

    def _searched(self, search: int, sides: Sequence[Side]) -> tuple[Side, LandmarkRows]:
        if search != CONCATENATION:
            return sides[search], self.landmarks[search]
        xp = array_namespace(sides[0].rows)
        rows = xp.concat([side.rows for side in sides], axis=1)  # (b, sum of d)
        norms = xp.sum(xp.stack([side.norms for side in sides]), axis=0)  # (b,)
        return Side(rows, norms, gaps=False), self.all_landmarks

    @cached_property
    def all_landmarks(self) -> LandmarkRows:
        """The landmarks' views side by side."""
        xp = array_namespace(self.landmarks[0].rows)
        return LandmarkRows(xp.concat([own.rows for own in self.landmarks], axis=1), self.landmarks[0].present)

    @cached_property
    def likeness(self) -> Likeness:
        """How the views' distances go together, as some of the landmarks show. It is derived, so no file holds it."""
        chosen = np.unique(np.linspace(0, self.n_landmarks - 1, LIKENESS_LANDMARKS).astype(np.int64))
        pairs = np.triu_indices(len(chosen), 1)
        own = [LandmarkRows(to_host(view.rows[chosen]), to_host(view.present)[chosen]) for view in self.landmarks]
        distances = [squared_distances(view.rows, view.norms, view)[pairs] for view in own]
        return learn_likeness(np.stack(distances).astype(np.float64))

    @cached_property
    def searches(self) -> dict[int, list[int]]:
        """The graphs that choose neighbours by the same distances: a smaller scale is a prefix of a larger one."""
        found: dict[int, list[int]] = {}
        for g, graph in enumerate(self.graphs):
            found.setdefault(graph.search, []).append(g)
        return found

    def _side(self, v: int, view: ViewBlock, some: slice, first_row: int, watch: Stopwatch) -> Side:
        """Return some rows as one view sees them."""
        present = None if view.present is None else view.present[some]  # (b,)
        if present is not None and not present.any():
            return nothing_seen(len(present), self.landmarks[v])
        if self.preparations[v].hides_infinity:
            check_rows(self.names[v], view.data[some], present, first_row)
        with watch("preparation"), np.errstate(all="ignore"):  # what is not finite is found by its norm
            rows = blank(self._placed(self.preparations[v](view.data[some])), present)  # (b, d)
            norms = squared_norms(rows)  # (b,)
        check_finite(self.names[v], norms, present, first_row)
        if self.preparations[v].needs_direction:
            present = (norms > 0) & (True if present is None else present)
        if present is not None:
            norms = array_namespace(norms).where(present, norms, np.inf)
        return Side(rows, norms, gaps=present is not None or not bool(self.landmarks[v].present.all()))


@dataclass(frozen=True)
class Basis:
    """A row's weights in every graph -> its place in the augmented view, U*."""

    bases: np.ndarray  # (G, p, r): e^g_i = sum_j z^g_ij W^g[j]
    rotation: np.ndarray  # (G, r, k): u*_i = sum_g e^g_i R^g
    unit: bool  # whether every e^g_i is made a vector of length one

    def __getstate__(self) -> dict[str, Any]:
        return {"bases": self.bases, "rotation": self.rotation, "unit": self.unit}

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The bases and the rotation, or B^g = W^g R^g (G, p, k) alone where rows are not made unit in between."""
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
    """One round of guiding: what a row needs to know of the augmented view (the paper's Eq. (8))."""

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
        return follow(block, self.guides, self.basis, self.graph_map.bounds)  # (b, k)


def follow(block: Block, guides: Sequence[Guide], basis: Basis, bounds: np.ndarray) -> np.ndarray:
    """Return the embedding of rows after rounds of guiding, as unit rows."""
    for guide in guides:
        block = guide(block, bounds)
    return unit_embedding(block, basis, bounds)  # (b, k)


def embed_rows(rows: Rows, row_map: RowMap, guided: Rows | None) -> Rows:
    """Return the embedding of the rows of a fit, which are spent; ``guided``: the same rows, guided already."""
    guides = row_map.guides if guided is None else ()
    place = partial(follow, guides=guides, basis=row_map.basis, bounds=row_map.graph_map.bounds)  # without landmarks
    return (rows if guided is None else guided).replace(place)  # (b, k)


def unit_embedding(block: Block, basis: Basis, bounds: np.ndarray) -> np.ndarray:
    """Return U* at the block's rows, each row of length one."""
    rows = basis(block, bounds)  # (b, k)
    return kernels_of(rows).unit_rows(rows)


def blank(rows: Table, present: Any) -> Table:
    """Return prepared rows, zero where the view is lacking: what stands there may be anything after preparation."""
    if present is None or sparse.issparse(rows):
        return rows
    return array_namespace(rows).where(present[:, None], rows, 0.0)


def nothing_seen(n_rows: int, landmarks: LandmarkRows) -> Side:
    """Return rows that all lack a view: they stand nowhere, infinitely far from everything."""
    xp = array_namespace(landmarks.norms)
    device = landmarks.norms.device
    rows = xp.zeros((n_rows, landmarks.rows.shape[1]), dtype=landmarks.norms.dtype, device=device)
    return Side(rows, xp.full((n_rows,), np.inf, dtype=rows.dtype, device=device), gaps=True)


class Scratch:
    """An array that is written over for every tile: asking for a new one takes as long as a good part of a product."""

    def __init__(self) -> None:
        self._array: Any = None

    def __call__(self, shape: tuple[int, ...], like: Any) -> Any:
        """Return an array of no values in particular, where ``like`` is and in its precision."""
        if self._array is None or self._array.shape != shape:
            self._array = array_namespace(like).empty(shape, dtype=like.dtype, device=like.device)
        return self._array


def squared_distances(rows: Table, norms: np.ndarray, landmarks: LandmarkRows, out: Any = None) -> np.ndarray:
    """Return squared distances between rows and landmarks, in ``out``; infinite where either lacks the view."""
    products: Table
    if isinstance(rows, np.ndarray):
        products = row_product(rows, landmarks.columns, out)  # (b, p)
    else:
        products = rows @ landmarks.columns
        products = products.toarray() if sparse.issparse(products) else products
        if out is not None:
            out[...] = products
            products = out
    return kernels_of(products).finish_distances(products, norms, landmarks.norms)  # (b, p)


def whole_distances(distances: np.ndarray, likeness: Likeness) -> np.ndarray:
    """Return squared distances over all views side by side, where rows and landmarks lack some.

    The views that both have let expect what the others would have been.
    """
    return kernels_of(distances).whole_distances(distances, like(likeness.table(), distances))  # (b, p)


def check_rows(name: str, data: Table, present: Any, rows: int | np.ndarray) -> None:
    """Raise an error that names the view and the rows if any value is not a finite number."""
    with np.errstate(all="ignore"):
        if is_tensor(data):
            sums = data.double().sum(dim=1)
        elif sparse.issparse(data):  # SciPy would add float32 up in float32
            sums = np.asarray(data.astype(np.float64).sum(axis=1)).ravel()
        else:
            sums = data.sum(axis=1, dtype=np.float64)
    check_finite(name, sums, present, rows)


def check_finite(name: str, values: Any, present: Any, rows: int | np.ndarray) -> None:
    """Raise an error that names the view and the rows if any row's value is not a finite number.

    ``rows`` are the rows' numbers, or the first one's.
    """
    bad = ~array_namespace(values).isfinite(values)
    if present is not None:
        bad &= present
    if bool(bad.any()):
        where = np.flatnonzero(to_host(bad))
        numbers = rows + where if np.ndim(rows) == 0 else np.asarray(rows)[where]
        raise ValueError(
            f"Input contains NaN, infinity or values too large to square: view {name!r}, row {numbers[0]}"
            f"{f' and {len(numbers) - 1} more near it' if len(numbers) > 1 else ''}. "
            "Drop or impute such values; a row that lacks the whole view is NaN in all its columns."
        )
