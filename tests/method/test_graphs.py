"""Graphs between rows and landmarks, against all distances worked out one by one."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from coterie.method.graphs import (
    CONCATENATION,
    LARGE_TILE_ROWS,
    LOCAL,
    TILE_ROWS,
    host_block,
    landmark_rows,
    lay_out_graphs,
    median_distance,
    tile_rows,
)
from coterie.threads import MANY_THREADS, in_order
from coterie.views import as_views, prepare

N_ROWS = 2 * TILE_ROWS + 176  # three tiles, the last one not full


def made_views(rng):
    return as_views({"a": rng.standard_normal((N_ROWS, 4)), "b": 9 * rng.standard_normal((N_ROWS, 7)) + 3})


def made_map(views, *, shared=False):
    """Two scales of two views, one with a bandwidth of its own for every row, and of both side by side."""
    preparations = [prepare(view.data, scaling="block", dtype="float64") for view in views]
    landmarks = views.take(np.arange(0, N_ROWS, 40))
    rows = landmark_rows(landmarks, preparations)
    return lay_out_graphs(views.names, rows, preparations, [LOCAL, 0.5], [3, 6], shared=shared, concatenation=True)


def expected(graph_map, views, graph):
    """A graph as a dense matrix, from the paper's Eq. (1)."""
    rows = [preparation(view.data) for preparation, view in zip(graph_map.preparations, views, strict=True)]
    squares = [cdist(own, known.rows, "sqeuclidean") for own, known in zip(rows, graph_map.landmarks, strict=True)]
    by_view = {0: squares[0], 1: squares[1], CONCATENATION: squares[0] + squares[1]}
    chosen = np.argsort(by_view[graph.search], axis=1)[:, : graph.n_neighbors]  # (n, q)
    near = np.take_along_axis(by_view[graph.view], chosen, axis=1)
    sigma = np.sqrt(near).mean(axis=1, keepdims=True) if graph.bandwidth == LOCAL else graph.bandwidth
    weights = np.exp(-near / (2 * sigma**2))
    found = np.zeros((len(chosen), graph_map.n_landmarks))
    np.put_along_axis(found, chosen, weights / weights.sum(axis=1, keepdims=True), axis=1)
    return found


def as_matrices(graph_map, block):
    for start, stop in zip(graph_map.bounds[:-1], graph_map.bounds[1:], strict=True):
        found = np.zeros((len(block.indices), graph_map.n_landmarks))
        np.put_along_axis(found, block.indices[:, start:stop].astype(int), block.weights[:, start:stop], axis=1)
        yield found


@pytest.mark.parametrize("device", [None, "cpu"], ids=["cpu", "torch"])
@pytest.mark.parametrize("shared", [False, True])
def test_neighbours_and_weights_are_those_of_all_distances(rng, shared, device):
    views = made_views(rng)
    graph_map = made_map(views, shared=shared)
    blocks, placed = views.read(slice(None)), graph_map
    if device is not None:
        pytest.importorskip("torch")
        blocks, placed = [block.on(device) for block in blocks], graph_map.on(device)
    block = host_block(placed.connect(blocks), graph_map.bounds)
    assert len(graph_map.graphs) == 6
    for graph, found in zip(graph_map.graphs, as_matrices(graph_map, block), strict=True):
        np.testing.assert_allclose(found, expected(graph_map, views, graph), atol=1e-10)


def test_a_row_alone_is_the_row_among_others(rng):
    """To the last bit: that is what makes prediction exact."""
    views = made_views(rng)
    graph_map = made_map(views)
    together = graph_map.connect(views.read(slice(None)))
    for row in (0, TILE_ROWS - 1, TILE_ROWS, N_ROWS - 1):
        alone = graph_map.connect(views.read(slice(row, row + 1)))
        assert alone.indices.tobytes() == together.indices[row].tobytes()
        assert alone.weights.tobytes() == together.weights[row].tobytes()


def test_larger_tiles_beside_many_threads_change_no_bit(rng):
    views = made_views(rng)
    graph_map = made_map(views)
    alone = graph_map.connect(views.read(slice(None)))

    def beside(number):
        block = graph_map.connect(views.read(slice(None)))
        return tile_rows(len(views) * graph_map.n_landmarks), block.indices.tobytes(), block.weights.tobytes()

    for found in in_order(beside, range(MANY_THREADS), MANY_THREADS):
        assert found == (LARGE_TILE_ROWS, alone.indices.tobytes(), alone.weights.tobytes())
    assert tile_rows(1000) == TILE_ROWS  # this thread has no others beside it


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_median_distance_is_that_of_all_pairs(rng, library):
    rows = rng.standard_normal((46, 3))  # 1,035 pairs: an odd number, so the median is one of them
    found = rows if library == "numpy" else pytest.importorskip("torch").as_tensor(rows)
    assert median_distance(found, rng) == pytest.approx(np.median(pdist(rows)))
    assert median_distance(np.ones((5, 2)), rng) == 1
    mostly_equal = np.repeat([[0.0], [1.0]], [9, 1], axis=0)
    assert median_distance(mostly_equal, rng) == pytest.approx(pdist(mostly_equal).mean())
