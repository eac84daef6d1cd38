"""Graphs: for every row and graph, the q nearest landmarks and their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from coterie.arrays import array_namespace, beside, convert, like, squared_norms, to_device, to_host
from coterie.kernels import PRODUCT_ROWS, kernels_of
from coterie.method.distances import (
    LandmarkRows,
    PreparedRows,
    Scratch,
    absent_rows,
    blank,
    impute_distances,
    squared_distances,
)
from coterie.method.likeness import Likeness, learn_likeness
from coterie.progress import Stopwatch
from coterie.rows.blocks import storable_block
from coterie.threads import has_many_threads, in_order
from coterie.views import (
    Preparation,
    RawRows,
    RowRange,
    Table,
    ViewBlock,
    Views,
    check_any_view,
    check_finite,
    check_finite_rows,
)

if TYPE_CHECKING:
    from coterie.rows import Rows

CONCATENATION = -1  # the view number of all views side by side
LOCAL = 0.0  # as a bandwidth: each row's own, its mean distance to its neighbours

# Rows whose distances to all landmarks are computed at once: these fit in the cache. Fewer rows would be slower,
# because BLAS packs the landmarks anew for every product.
TILE_ROWS = PRODUCT_ROWS

# Landmarks whose own neighbours one thread searches at once.
LANDMARK_ROWS = 128

# Tiles are larger where many threads run, up to LARGE_TILE_ROWS rows and TILE_DISTANCES distances; results are bitwise
# the same.
LARGE_TILE_ROWS = 2 * TILE_ROWS
TILE_DISTANCES = 2**23

# Values that are prepared at once: several tiles, because every call for a view has a fixed cost.
PREPARED_NUMBERS = 2**22

ROUNDED_DOWN = 1 - 1e-6  # factor of a squared limit, so that rounding errors hide no row beyond the limit

FAMILIARITY_BYTES = 4  # familiarity is a float32, like confidence

# The correlation of the views' distances is estimated from all pairs of this many landmarks.
LIKENESS_LANDMARKS = 400

# The median distance is taken over all pairs of this many rows.
MEDIAN_ROWS = 1000


@dataclass(frozen=True)
class Graph:
    """How one graph connects rows to landmarks."""

    view: int  # the view whose distances give the weights; CONCATENATION: distances over all views
    n_neighbors: int
    bandwidth: float  # sigma of the Gaussian, or LOCAL
    shared: bool = False  # neighbours are chosen over all views instead of this one

    @property
    def search(self) -> int:
        """The view whose distances choose the neighbours."""
        return CONCATENATION if self.shared else self.view


@dataclass(frozen=True)
class Neighbours:
    """Some rows' nearest landmarks in all graphs, side by side, with distances instead of weights."""

    indices: np.ndarray  # (b, Q) landmark numbers
    squares: np.ndarray  # (b, Q) squared distances

    def part(self, rows: slice | np.ndarray) -> Neighbours:
        """Return the neighbours of some rows; those of a slice share memory with these arrays."""
        return Neighbours(self.indices[rows], self.squares[rows])

    def write(self, columns: slice, indices: np.ndarray, squares: np.ndarray) -> None:
        """Write one graph's neighbours."""
        self.indices[:, columns], self.squares[:, columns] = indices, squares


@dataclass(frozen=True)
class OwnLandmarks:
    """The landmark that each of some rows is, or is averaged into."""

    numbers: np.ndarray  # (b,) landmark numbers, -1 for rows without one
    makers: np.ndarray  # (b,) number of rows that the landmark is the mean of

    def without(self, squares: np.ndarray) -> np.ndarray:
        """Return squared distances to the mean of the landmark's other rows; infinite where there are none.

        x - m' = (x - m) c / (c - 1), where m is the mean of c rows including x, and m' that of the others.
        """
        others = (self.makers - 1)[:, None]  # (b, 1)
        return np.where(others > 0, squares * (self.makers[:, None] / np.maximum(others, 1)) ** 2, np.inf)

    def part(self, rows: np.ndarray) -> OwnLandmarks:
        """Return the landmarks of some rows."""
        return OwnLandmarks(self.numbers[rows], self.makers[rows])


@storable_block
@dataclass(frozen=True)
class Block:
    """Some rows in the graphs: the neighbours and weights of all graphs, side by side."""

    indices: np.ndarray  # (b, Q) landmark numbers, ascending within each graph
    weights: np.ndarray  # (b, Q) summing to one within each graph, or zero where a row lacks the view


@storable_block
@dataclass(frozen=True)
class JoinedBlock(Block):
    """Some rows of the fit in the graphs, before any guiding."""

    familiarity: np.ndarray  # (b,) 1 for rows as near to landmarks as others, less for rows far from all


def host_block(block: Block, bounds: np.ndarray) -> Block:
    """Return a block as NumPy arrays, with neighbours in the order that the CPU kernels expect."""
    return Block(*kernels_of(block.weights).host_neighbours(block.indices, block.weights, bounds))


@dataclass(frozen=True)
class GraphMap:
    """A row's views -> its neighbours among the landmarks, in every graph."""

    names: tuple[str, ...]  # of the views
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
        """Bytes of a row's neighbours and familiarity."""
        index = np.uint16 if self.n_landmarks <= 2**16 else np.uint32
        return int(self.bounds[-1]) * (np.dtype(index).itemsize + self.dtype.itemsize) + FAMILIARITY_BYTES

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
        """Return the neighbours of some rows with their weights; ``first_row`` is only for error messages."""
        watch = watch or Stopwatch()
        return self.weigh(self.search(views, first_row, watch), watch)

    def search(self, views: Sequence[ViewBlock], first_row: int = 0, watch: Stopwatch | None = None) -> Neighbours:
        """Return the neighbours of some rows with squared distances instead of weights.

        On a GPU, products and selection are fused into one kernel, except where distances to all landmarks are needed.
        """
        watch = watch or Stopwatch()
        n_rows, scratch = views[0].data.shape[0], Scratch()
        found = self._new_neighbours(n_rows)
        if kernels_of(self.landmarks[0].rows).FUSED:
            prepared = [self._prepare(v, view, slice(None), first_row, watch) for v, view in enumerate(views)]
            if self._fuses(prepared):
                self._search_fused(prepared, found)
                return found
        step = TILE_ROWS * max(1, PREPARED_NUMBERS // sum(view.data.shape[1] for view in views) // TILE_ROWS)
        for start in range(0, n_rows, step):
            some = slice(start, min(start + step, n_rows))
            prepared = [self._prepare(v, view, some, first_row + start, watch) for v, view in enumerate(views)]
            self._search_tiles(prepared, found.part(some), watch, scratch)
        return found

    def _fuses(self, prepared: Sequence[PreparedRows]) -> bool:
        """Whether products and selection are fused into one kernel for these rows."""
        return (
            kernels_of(self.landmarks[0].rows).FUSED
            and not any(graph.shared for graph in self.graphs)
            and (CONCATENATION not in self.searches or not any(own.gaps for own in prepared))
        )

    def _search_tiles(
        self,
        prepared: Sequence[PreparedRows],
        found: Neighbours,
        watch: Stopwatch | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        """Write the nearest landmarks of prepared rows to ``found``, a tile at a time."""
        watch, scratch = watch or Stopwatch(), scratch or Scratch()
        n_rows, step = len(prepared[0].norms), tile_rows(len(prepared) * self.n_landmarks)
        for start in range(0, n_rows, step):
            tile = slice(start, min(start + step, n_rows))
            self._search_tile([own.part(tile) for own in prepared], watch, scratch, found.part(tile))

    def connect_landmarks(self, n_threads: int = 1) -> Block:
        """Return the landmarks' own neighbours."""
        prepared = [PreparedRows(own.rows, own.norms, gaps=not own.complete) for own in self.landmarks]
        found = self._new_neighbours(self.n_landmarks)
        if self._fuses(prepared):
            self._search_fused(prepared, found)
            return self.weigh(found)

        def search(start: int) -> None:
            some = slice(start, min(start + LANDMARK_ROWS, self.n_landmarks))
            self._search_tiles([own.part(some) for own in prepared], found.part(some))

        starts = range(0, self.n_landmarks, LANDMARK_ROWS)
        list(in_order(search, starts, 1 if kernels_of(found.squares).BATCHED else n_threads))
        return self.weigh(found)

    def nearest_distances(self, found: Neighbours, own: OwnLandmarks | None = None) -> np.ndarray:
        """Return each row's distance to its (q - 1)-th nearest landmark in every view, at the smallest scale.

        NaN where the row lacks the view. If the concatenation has a graph, a last column holds the distance over all
        views. With ``own``, the landmark that a row is averaged into is taken without that row, so that rows of the fit
        are comparable with new ones.
        """
        columns = []
        for g in self.nearest_graphs:
            q = self.graphs[g].n_neighbors
            indices, squares = to_host((found.indices[:, self._columns(g)], found.squares[:, self._columns(g)]))
            squares = squares.astype(np.float64)  # (b, q)
            if own is not None:
                itself = indices == own.numbers[:, None]  # (b, q)
                squares = np.where(itself, own.without(squares), squares)
            squares.sort(axis=1)
            chosen = squares[:, max(q - 2, 0)]  # (b,)
            columns.append(np.sqrt(np.where(np.isfinite(chosen) & (chosen >= 0), chosen, np.nan)))
        return np.column_stack(columns)  # (b, V) or (b, V + 1)

    def any_beyond(self, found: Neighbours, limits: np.ndarray) -> np.ndarray:
        """Return the numbers of the rows with any neighbour beyond its view's limit (V,): usually none.

        Only these rows can exceed a limit by :meth:`nearest_distances`, which takes longer.
        """
        columns = [(self.bounds[g], self.bounds[g + 1]) for g in self.nearest_graphs[: len(limits)]]
        return kernels_of(found.squares).rows_beyond(found.squares, columns, limits**2 * ROUNDED_DOWN)

    @cached_property
    def nearest_graphs(self) -> list[int]:
        """The numbers of each view's and the concatenation's graph at the smallest scale with several neighbours."""
        found = []
        for v in (*range(len(self.names)), CONCATENATION):
            scales = sorted((graph.n_neighbors, g) for g, graph in enumerate(self.graphs) if graph.view == v)
            if scales:
                found.append(next((scale for scale in scales if scale[0] > 1), scales[-1])[1])
        return found

    @property
    def nearest(self) -> GraphMap:
        """This map with only the graphs that :meth:`nearest_distances` reads: far fewer neighbours to find."""
        return replace(self, graphs=tuple(self.graphs[g] for g in self.nearest_graphs))

    def _search_tile(
        self, prepared: Sequence[PreparedRows], watch: Stopwatch, scratch: Scratch, found: Neighbours
    ) -> None:
        """Write the nearest landmarks of a few rows to ``found``."""
        distances = scratch(
            (len(prepared), len(prepared[0].norms), self.n_landmarks), self.landmarks[0].norms
        )  # (V, b, p)
        kernels = kernels_of(distances)
        for v, own in enumerate(prepared):  # a view's products are finished and searched while they are in the cache
            with watch("product"):
                kernels.products(own.rows, self.landmarks[v].columns, distances[v])
            with watch("neighbours"):
                norms = own.norms, self.landmarks[v].norms
                if v in self.searches:
                    kernels.finish_and_find(distances[v], *norms, self._scales(v), self._part_of(v, found))
                else:
                    kernels.finish_distances(distances[v], *norms)
        if CONCATENATION in self.searches:
            with watch("neighbours"):
                overall = distances
                if any(own.gaps for own in prepared):
                    overall = impute_distances(distances, self.likeness)[None]
                kernels.smallest(overall, self._scales(CONCATENATION), self._part_of(CONCATENATION, found))
                self._measure_shared(distances, found)

    def _measure_shared(self, distances: Any, found: Neighbours) -> None:
        """Replace the squared distances over all views by those in the graph's own view, for shared graphs."""
        for g, graph in enumerate(self.graphs):
            if graph.shared:
                xp, columns = array_namespace(distances), self._columns(g)
                indices = xp.astype(found.indices[:, columns], xp.int64)  # (b, q)
                found.squares[:, columns] = xp.take_along_axis(distances[graph.view], indices, axis=1)

    def _scales(self, search: int) -> list[int]:
        """Return the numbers of neighbours of the graphs of a search."""
        return [self.graphs[g].n_neighbors for g in self.searches[search]]

    def _part_of(self, search: int, found: Neighbours) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of ``found`` that belong to the graphs of a search, which lie side by side."""
        graphs = self.searches[search]
        columns = slice(self.bounds[graphs[0]], self.bounds[graphs[-1] + 1])
        return found.indices[:, columns], found.squares[:, columns]

    def _columns(self, g: int) -> slice:
        return slice(self.bounds[g], self.bounds[g + 1])

    def _new_neighbours(self, n_rows: int) -> Neighbours:
        like = self.landmarks[0].norms
        return Neighbours(*kernels_of(like).new_neighbours(n_rows, int(self.bounds[-1]), self.n_landmarks, like))

    def weigh(self, found: Neighbours, watch: Stopwatch | None = None) -> Block:
        """Return neighbours with Gaussian weights; the distances in ``found`` are overwritten."""
        watch = watch or Stopwatch()
        kernels = kernels_of(found.squares)
        with watch("neighbours"):
            bandwidths = [graph.bandwidth for graph in self.graphs]
            return Block(found.indices, kernels.gaussian(found.squares, self.bounds, bandwidths))

    def _search_fused(self, prepared: Sequence[PreparedRows], found: Neighbours) -> None:
        for search, numbers in self.searches.items():
            own, landmarks = self._searched(search, prepared)
            scales = [self.graphs[g].n_neighbors for g in numbers]
            parts = kernels_of(own.rows).nearest_at_scales(
                own.rows, own.norms, landmarks.rows, landmarks.norms, scales, self.precision
            )
            for g, (indices, squares) in zip(numbers, parts, strict=True):
                found.write(self._columns(g), indices, squares)  # (b, q)

    def _searched(self, search: int, prepared: Sequence[PreparedRows]) -> tuple[PreparedRows, LandmarkRows]:
        if search != CONCATENATION:
            return prepared[search], self.landmarks[search]
        xp = array_namespace(prepared[0].rows)
        rows = xp.concat([own.rows for own in prepared], axis=1)  # (b, sum of d)
        norms = xp.sum(xp.stack([own.norms for own in prepared]), axis=0)  # (b,)
        return PreparedRows(rows, norms, gaps=False), self.all_landmarks

    @cached_property
    def all_landmarks(self) -> LandmarkRows:
        """The landmarks' views side by side."""
        xp = array_namespace(self.landmarks[0].rows)
        return LandmarkRows(xp.concat([view.rows for view in self.landmarks], axis=1), self.landmarks[0].present)

    @cached_property
    def likeness(self) -> Likeness:
        """How the views' distances are correlated, estimated from pairs of landmarks; derived, so not saved."""
        chosen = np.unique(np.linspace(0, self.n_landmarks - 1, LIKENESS_LANDMARKS).astype(np.int64))
        pairs = np.triu_indices(len(chosen), 1)
        own = [LandmarkRows(to_host(view.rows[chosen]), to_host(view.present)[chosen]) for view in self.landmarks]
        distances = [squared_distances(view.rows, view.norms, view)[pairs] for view in own]
        return learn_likeness(np.stack(distances).astype(np.float64))

    @cached_property
    def searches(self) -> dict[int, list[int]]:
        """The graphs by the view whose distances choose their neighbours: one search finds those of all scales."""
        found: dict[int, list[int]] = {}
        for g, graph in enumerate(self.graphs):
            found.setdefault(graph.search, []).append(g)
        return found

    def _prepare(self, v: int, view: ViewBlock, some: slice, first_row: int, watch: Stopwatch) -> PreparedRows:
        """Return some rows of one view, prepared (sparse ones on the host), on the device of the landmarks."""
        present = None if view.present is None else view.present[some]  # (b,)
        if present is not None and not present.any():
            return absent_rows(len(present), self.landmarks[v])
        raw = view.data[some]  # (b, d), as the user stored them
        if self.preparations[v].hides_infinity:
            check_finite_rows(self.names[v], raw, present, first_row)
        with watch("preparation"), np.errstate(all="ignore"):  # the norms show values that are not finite
            rows = blank(beside(self.preparations[v](raw), self.landmarks[0].rows), present)  # (b, d)
            norms = squared_norms(rows)  # (b,)
        check_finite(self.names[v], norms, present, first_row, raw)
        if self.preparations[v].needs_direction:
            present = (norms > 0) & (True if present is None else present)
        if present is not None:
            norms = array_namespace(norms).where(present, norms, np.inf)
        return PreparedRows(rows, norms, gaps=present is not None or not self.landmarks[v].complete)


def lay_out_graphs(
    names: Sequence[str],
    landmarks: Sequence[LandmarkRows],
    preparations: Sequence[Preparation],
    bandwidths: Sequence[float],
    scales: Sequence[int],
    *,
    shared: bool,
    concatenation: bool,
    precision: str = "float32",
) -> GraphMap:
    """Return the graphs between rows and landmarks: one per view and scale, and of all views side by side if asked."""
    sources = [(v, bandwidth) for v, bandwidth in enumerate(bandwidths)]
    if concatenation and len(landmarks) > 1:
        sources.append((CONCATENATION, LOCAL))
    shared = shared and len(landmarks) > 1  # with one view there is nothing to share
    graphs = tuple(
        Graph(view, q, bandwidth, shared=shared and view != CONCATENATION)
        for view, bandwidth in sources
        for q in scales
    )
    return GraphMap(tuple(names), tuple(preparations), tuple(landmarks), graphs, precision)


def landmark_rows(landmarks: Views, preparations: Sequence[Preparation]) -> tuple[LandmarkRows, ...]:
    """Return the landmarks in every view, prepared."""
    found = []
    for block, preparation in zip(landmarks.read(slice(None)), preparations, strict=True):
        rows = preparation(block.data)  # (p, d)
        # On the rows' device: sparse rows are on the host even if they were read to another device.
        present = like(np.ones(landmarks.n_rows) if block.present is None else to_host(block.present), rows, bool)
        rows = blank(rows, None if block.present is None else present)
        if preparation.needs_direction:
            present = present & (squared_norms(rows) > 0)
        found.append(LandmarkRows(rows, present))
    return tuple(found)


def median_distance(
    rows: Table, rng: np.random.Generator, preparation: Callable[[Table], Table] = lambda rows: rows
) -> float:
    """Return the median distance between prepared rows, over a sample of at most MEDIAN_ROWS.

    This is the paper's sigma. Where the median is 0 it is the mean distance, and 1 where that is 0 as well.
    """
    if rows.shape[0] > MEDIAN_ROWS:
        rows = rows[np.sort(rng.choice(rows.shape[0], MEDIAN_ROWS, replace=False))]
    rows = preparation(rows)  # (m, d)
    if rows.shape[0] < 2:
        return 1.0
    products = rows @ rows.T
    products = convert(products.toarray() if sparse.issparse(products) else products, "float64")  # (m, m)
    norms = products.diagonal()
    squares = norms[:, None] + norms - 2 * products
    xp = array_namespace(squares)
    once = xp.tril(xp.ones_like(squares, dtype=xp.bool), k=-1)  # every pair once
    distances = squares[once].clip(min=0) ** 0.5  # (m (m - 1) / 2,)
    return kernels_of(distances).median(distances) or float(distances.mean()) or 1.0


def tile_rows(row_distances: int) -> int:
    """Return the number of rows that are searched at once, given the number of distances per row."""
    if not has_many_threads():
        return TILE_ROWS
    return max(TILE_ROWS, min(LARGE_TILE_ROWS, TILE_DISTANCES // row_distances // TILE_ROWS * TILE_ROWS))


def build_graphs(
    rows: Rows, graph_map: GraphMap, familiarity: Callable[[Neighbours], np.ndarray], watch: Stopwatch
) -> Rows:
    """Return the rows' neighbours and familiarity, given ranges of raw rows, each read only when it is processed."""

    def read(rows: RowRange) -> RawRows:
        raw = rows.read()
        check_any_view([view.present for view in raw.views], raw.first_row)
        return raw

    def connect(raw: RawRows) -> JoinedBlock:
        found = graph_map.search(raw.views, raw.first_row, watch)
        familiar = familiarity(found)  # (b,), before weights replace the distances
        block = graph_map.weigh(found, watch)
        return JoinedBlock(block.indices, block.weights, familiar)

    return rows.map(connect, load=read)
