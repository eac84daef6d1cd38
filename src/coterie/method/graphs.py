"""Views and landmarks -> for each graph, q landmark numbers and weights a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from coterie.arrays import convert, like, to_host
from coterie.kernels import is_tensor
from coterie.method.rowmap import CONCATENATION, LOCAL, Graph, GraphMap, LandmarkRows, blank
from coterie.progress import Stopwatch
from coterie.views.preparation import Preparation, Table, squared_norms

if TYPE_CHECKING:
    from coterie.rows import Rows
    from coterie.views.tables import Views

# The median distance is taken over all pairs of this many rows.
MEDIAN_ROWS = 1000


def lay_out_graphs(
    landmarks: Views,
    preparations: Sequence[Preparation],
    bandwidths: Sequence[float],
    scales: Sequence[int],
    *,
    shared: bool,
    concatenation: bool,
    precision: str = "float32",
) -> GraphMap:
    """Return the graphs that join rows to landmarks: every view, and all side by side if asked, at every scale."""
    sources = [(v, bandwidth) for v, bandwidth in enumerate(bandwidths)]
    if concatenation and len(landmarks) > 1:
        sources.append((CONCATENATION, LOCAL))
    shared = shared and len(landmarks) > 1  # one view's neighbours are its own
    graphs = tuple(
        Graph(view, q, bandwidth, shared=shared and view != CONCATENATION)
        for view, bandwidth in sources
        for q in scales
    )
    return GraphMap(landmarks.names, tuple(preparations), landmark_rows(landmarks, preparations), graphs, precision)


def landmark_rows(landmarks: Views, preparations: Sequence[Preparation]) -> tuple[LandmarkRows, ...]:
    """Return the landmarks as every view sees them."""
    found = []
    for block, preparation in zip(landmarks.read(slice(None)), preparations, strict=True):
        rows = preparation(block.data)  # (p, d)
        # Where rows are: sparse ones are on the host, whatever device they were read to.
        present = like(np.ones(landmarks.n_rows) if block.present is None else to_host(block.present), rows, bool)
        rows = blank(rows, None if block.present is None else present)
        if preparation.needs_direction:
            present = present & (squared_norms(rows) > 0)
        found.append(LandmarkRows(rows, present))
    return tuple(found)


def median_distance(
    rows: Table, rng: np.random.Generator, preparation: Callable[[Table], Table] = lambda rows: rows
) -> float:
    """Return the median distance between rows, prepared, over a sample of them where there are many.

    This is the paper's sigma. It falls back to the mean where more than half of the rows are alike, and to 1 where
    all are.
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
    once = like(np.tri(len(norms), k=-1), squares, bool)  # every pair
    distances = squares[once].clip(min=0) ** 0.5  # (m (m - 1) / 2,)
    middle = distances.median() if is_tensor(distances) else np.median(distances)
    return float(middle) or float(distances.mean()) or 1.0


def build_graphs(rows: Rows, graph_map: GraphMap, watch: Stopwatch) -> Rows:
    """Return the rows' neighbours for ranges of raw rows, each read when its turn comes."""
    return rows.map(lambda raw: graph_map.connect(raw.views, raw.first_row, watch), load=lambda rows: rows.read())
