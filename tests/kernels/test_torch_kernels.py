"""The kernels for tensors are those of the CPU: on CPU tensors everywhere, and on a real GPU where there is one."""

import itertools

import numpy as np
import pytest

from coterie.kernels import cpu
from coterie.method.agreement import group_by_view, partition_agreement, predicted_labels
from coterie.method.assignment import best_centroids, best_of
from coterie.method.graphs import Block
from coterie.method.seeding import draw_starts, kmeans_plus_plus

torch = pytest.importorskip("torch")
from coterie.kernels import _torch_kmeans, _torch_votes  # noqa: E402
from coterie.kernels import torch as kernels  # noqa: E402
from coterie.kernels._torch_columns import host_eigenpairs, orthonormal_by_cholesky  # noqa: E402

DEVICES = ["torch", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def on_device(array, device):
    return torch.as_tensor(np.ascontiguousarray(array), device="cpu" if device == "torch" else device)


def random_block(rng, n=300, p=40, widths=(3, 8)):
    """Neighbours and weights of two graphs, and a row that lacks the first view."""
    bounds = np.cumsum([0, *widths])
    indices = np.hstack([np.sort(np.argsort(rng.random((n, p)), axis=1)[:, :q], axis=1) for q in widths])
    weights = rng.random((n, bounds[-1])).astype(np.float32)
    for start, stop in itertools.pairwise(bounds):
        weights[:, start:stop] /= weights[:, start:stop].sum(axis=1, keepdims=True)
    weights[5, : widths[0]] = 0
    return indices.astype(np.uint16), weights, bounds


def search(rows, landmarks, q, device, row_norms=None, landmark_norms=None, precision="float32"):
    """What ``nearest`` finds, sorted by landmark; norms are the rows' own unless some lack the view."""
    norms = [(table**2).sum(axis=1, dtype=float) if known is None else known
             for table, known in ((rows, row_norms), (landmarks, landmark_norms))]  # fmt: skip
    tensors = [on_device(np.asarray(part, dtype=np.float32), device) for part in (rows, norms[0], landmarks, norms[1])]
    indices, squares = (found.cpu().numpy() for found in kernels.nearest(*tensors, q, precision))
    order = np.argsort(indices, axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(squares, order, axis=1)


def brute_force(rows, landmarks, q):
    exact = ((rows[:, None].astype(float) - landmarks[None]) ** 2).sum(axis=2)
    order = np.sort(np.argsort(exact, axis=1, kind="stable")[:, :q], axis=1)
    return order, np.take_along_axis(exact, order, axis=1)


@pytest.mark.parametrize(
    ("n", "d", "p", "q"),
    [(1000, 20, 300, 8), (257, 64, 130, 5), (64, 3, 12, 10), (300, 300, 64, 1), (500, 8, 400, 12), (200, 5, 150, 50)],
)
def test_nearest_is_a_brute_force_search(rng, device, n, d, p, q):
    rows = rng.standard_normal((n, d)).astype(np.float32)
    landmarks = rows[:p].copy() if p <= n else rng.standard_normal((p, d)).astype(np.float32)
    norms = (landmarks.astype(float) ** 2).sum(axis=1)
    norms[3] = np.inf  # a landmark that lacks the view is nobody's neighbour
    found, squares = search(rows, landmarks, q, device, landmark_norms=norms)
    expected, exact = brute_force(rows, np.delete(landmarks, 3, axis=0), q)
    np.testing.assert_array_equal(found, expected + (expected >= 3))
    np.testing.assert_allclose(squares, exact, rtol=1e-4, atol=1e-5 * d)  # |x|^2 is about d


@pytest.mark.parametrize("stride", [32, 64])
def test_neighbours_that_stand_in_one_lane_are_all_found(rng, device, stride):
    landmarks = 10 + rng.standard_normal((640, 16)).astype(np.float32)
    landmarks[5::stride] -= 10  # where all rows are
    rows = rng.standard_normal((300, 16)).astype(np.float32)
    found, squares = search(rows, landmarks, 8, device)
    expected, exact = brute_force(rows, landmarks, 8)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(squares, exact, rtol=1e-4, atol=1e-4)


def test_of_landmarks_at_the_same_distance_the_first_are_nearest(rng, device):
    landmarks = np.repeat(rng.standard_normal((1, 12)), 200, axis=0).astype(np.float32)
    rows = rng.standard_normal((70, 12)).astype(np.float32)
    found, _ = search(rows, landmarks, 9, device)
    np.testing.assert_array_equal(found, np.tile(np.arange(9), (70, 1)))


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_neighbours_do_not_depend_on_units(rng, device, scale):
    rows, landmarks = (rng.standard_normal((size, 24)).astype(np.float32) for size in (300, 100))
    plain, squares = search(rows, landmarks, 8, device)
    found, scaled = search(rows * np.float32(scale), landmarks * np.float32(scale), 8, device)
    assert (found == plain).mean() > 0.999
    np.testing.assert_allclose(np.sort(scaled, axis=1) / scale**2, np.sort(squares, axis=1), rtol=1e-4, atol=1e-4)


def test_rows_at_the_origin_of_nothing_else_are_searched_too(device):
    zeros = np.zeros((40, 4), dtype=np.float32)
    found, squares = search(zeros, zeros, 3, device)
    np.testing.assert_array_equal(found, np.tile(np.arange(3), (40, 1)))
    np.testing.assert_array_equal(squares, 0)


def test_fewer_landmarks_than_neighbours_can_be_known(rng, device):
    rows = rng.standard_normal((50, 4)).astype(np.float32)
    norms = np.full(20, np.inf)
    norms[:2] = (rows[:2] ** 2).sum(axis=1)
    own = (rows**2).sum(axis=1)
    own[7] = np.inf  # a row that lacks the view has no neighbours
    found, squares = search(rows, rows[:20], 5, device, row_norms=own, landmark_norms=norms)
    known = np.isfinite(squares).sum(axis=1)
    assert known[7] == 0
    assert (np.delete(known, 7) == 2).all()
    assert ((found >= 0) & (found < 20)).all()


@pytest.mark.parametrize("bandwidth", [0.0, 0.7])
def test_weights_are_those_of_the_cpu(rng, device, bandwidth):
    squares = np.sort(rng.random((60, 7)), axis=1).astype(np.float32)
    squares[1, 4:], squares[2], squares[3] = np.inf, np.inf, 0
    bounds, bandwidths = np.array([0, 3, 7]), [bandwidth, 0.3]
    found = kernels.gaussian(on_device(squares.copy(), device), bounds, bandwidths)
    np.testing.assert_allclose(found.cpu(), cpu.gaussian(squares, bounds, bandwidths), rtol=1e-5, atol=1e-6)


def test_distances_over_lacking_views_are_those_of_the_cpu(rng, device):
    distances = 4 * rng.random((4, 20, 30)).astype(np.float32)
    distances[rng.random(distances.shape) < 0.5] = np.inf
    likeness = rng.random((4, 4)).astype(np.float32)
    found = kernels.impute_distances(on_device(distances, device), on_device(likeness, device))
    np.testing.assert_allclose(found.cpu(), cpu.impute_distances(distances, likeness), rtol=1e-5)


def test_sums_over_rows_are_those_of_the_cpu(rng, device):
    indices, weights, bounds = random_block(rng)
    bases = rng.standard_normal((2, 40, 9)).astype(np.float32)
    tensors = (on_device(indices.astype(np.int16), device), on_device(weights, device))
    for start, stop in itertools.pairwise(bounds):
        expected, total = cpu.new_gram(40, weights), kernels.new_gram(40, tensors[1])
        cpu.gram(indices[:, start:stop], weights[:, start:stop], expected)
        kernels.gram(*(t[:, start:stop] for t in tensors), total)
        np.testing.assert_allclose(kernels.finish_gram(total).cpu(), cpu.finish_gram(expected), atol=1e-6)
    some = on_device(bases, device)[:, :, :5]  # not in one piece: kernels must not take it for one
    np.testing.assert_allclose(
        kernels.project(*tensors, bounds, some, False).cpu(),
        cpu.project(indices, weights, bounds, np.ascontiguousarray(bases[:, :, :5]), False),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_array_equal(kernels.known_graphs(tensors[1], bounds).cpu(), cpu.known_graphs(weights, bounds))
    rows = rng.standard_normal((10_000, 6)).astype(np.float32)
    outer, squares, fourths = (kernels.zeros(shape, some) for shape in ((6, 6), (6,), (6,)))
    kernels.add_outer(on_device(rows, device), outer)
    kernels.add_powers(on_device(rows, device), squares, fourths)
    np.testing.assert_allclose(squares.cpu(), (rows.astype(float) ** 2).sum(axis=0))
    np.testing.assert_allclose(fourths.cpu(), (rows.astype(float) ** 4).sum(axis=0))
    np.testing.assert_allclose(outer.cpu(), rows.T.astype(float) @ rows, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("unit", [False, True])
def test_rows_are_placed_and_guided_as_on_the_cpu(rng, device, unit):
    indices, weights, bounds = random_block(rng)
    bases = rng.standard_normal((2, 40, 9)).astype(np.float32)
    rotation = np.asfortranarray(rng.standard_normal((18, 4)).astype(np.float32)).reshape(2, 9, 4)
    anchors = rng.standard_normal((40, 4)).astype(np.float32)
    tensors = (on_device(indices.astype(np.int16), device), on_device(weights, device))
    projected = kernels.project(*tensors, bounds, on_device(bases, device), unit)
    np.testing.assert_allclose(projected.cpu(), cpu.project(indices, weights, bounds, bases, unit), atol=1e-5)
    turned = torch.from_numpy(rotation).to(tensors[0].device)  # keeps the strides, which are odd
    ours = (on_device(bases, device), turned) if unit else (on_device(bases @ rotation, device), None)
    theirs = (bases, rotation) if unit else (bases @ rotation, None)
    embedded = kernels.embed(*tensors, bounds, *ours)
    np.testing.assert_allclose(embedded.cpu(), cpu.embed(indices, weights, bounds, *theirs), atol=2e-5)
    guided = kernels.guide(*tensors, bounds, *ours, on_device(anchors, device))
    expected = cpu.guide(indices, weights, bounds, *theirs, anchors)
    np.testing.assert_allclose(guided.cpu(), expected, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_whose_squares_underflow_stay_as_they_are(device, dtype):
    rows = np.array([[3, 4], [0, 0], [1e-30, 1e-25], [1e-200, 1e-190]], dtype=dtype)  # (4, 2)
    expected = cpu.unit_rows(rows.copy())
    assert np.abs(expected).max() < 1
    np.testing.assert_allclose(kernels.unit_rows(on_device(rows, device)).cpu().numpy(), expected, rtol=1e-6)


def test_groups_are_those_of_the_cpu(rng, device):
    rows = rng.standard_normal((500, 4)).astype(np.float32)
    centers = rows[:6].copy()
    for ours, theirs in zip(
        kernels.assign(on_device(rows, device), on_device(centers, device)), cpu.assign(rows, centers), strict=True
    ):
        np.testing.assert_allclose(ours.cpu(), theirs, atol=1e-4)
    labels = cpu.assign(rows, centers)[0]
    sums, counts = np.zeros((6, 4)), np.zeros(6)
    cpu.add_groups(rows, labels, sums, counts)
    found = kernels.zeros((6, 4), on_device(rows, device)), kernels.zeros((6,), on_device(rows, device))
    kernels.add_groups(on_device(rows, device), on_device(labels, device), *found)
    np.testing.assert_allclose(found[0].cpu(), sums, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found[1].cpu(), counts)
    means = (sums / counts[:, None]).astype(np.float32)
    nearest = kernels.nearest_in_group(
        on_device(rows, device), on_device(labels, device), on_device(means, device), 0.0
    )
    np.testing.assert_array_equal(nearest.cpu(), cpu.nearest_in_group(rows, labels, means, 0.0))


def test_starts_are_those_of_the_cpu(rng, device):
    rows = rng.standard_normal((400, 6)).astype(np.float32)
    draws = draw_starts(4, 7, rng)
    found = kmeans_plus_plus(on_device(rows, device), draws).cpu().numpy()  # (4, 7)
    np.testing.assert_array_equal(found, kmeans_plus_plus(rows, draws))


def test_kmeans_ends_where_the_cpu_does(rng, device):
    centers = 10 * rng.standard_normal((5, 3))
    rows = (centers[rng.integers(5, size=500)] + rng.standard_normal((500, 3))).astype(np.float32)
    draws = draw_starts(4, 5, rng)
    found = best_of(on_device(rows, device), draws, 1).cpu().numpy()  # (5, 3)
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(best_of(rows, draws, 2), axis=0), atol=1e-4)


def test_an_empty_group_restarts_at_the_farthest_row(device):
    rows = np.array([[0.0], [1.0], [9.0]], dtype=np.float32)
    starts = np.array([[[0.0], [99.0]]], dtype=np.float32)
    means, _ = kernels.kmeans_runs(on_device(rows, device), on_device(starts, device), 1)
    np.testing.assert_allclose(means.cpu().numpy()[0, :, 0], [10 / 3, 9])
    nearest = cpu.nearest_centroids(rows, starts)
    np.testing.assert_allclose(cpu.group_centroids(rows, *nearest, 2), means.cpu().numpy())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(
    ("n", "c", "k", "runs"), [(700, 10, 10, 3), (5000, 3, 5, 12), (90, 20, 24, 2), (20_000, 32, 32, 4)]
)
@pytest.mark.parametrize("one_table", [True, False])
def test_a_launch_for_all_passes_is_a_launch_for_each(rng, monkeypatch, n, c, k, runs, one_table):
    rows = on_device(rng.standard_normal((n, c) if one_table else (runs, n, c)).astype(np.float32), "cuda")
    draws = on_device(draw_starts(runs, k, rng), "cuda")
    starts = torch.as_tensor(rng.standard_normal((runs, k, c)), dtype=torch.float32, device="cuda")
    starts[:, -1] = 99  # nobody's nearest
    found = [(kernels.kmeans_plus_plus(rows, draws), *kernels.kmeans_runs(rows, starts, most)) for most in (1, 3)]
    _, ends, inertias = kernels.kmeans_plus_plus(rows, draws), *kernels.kmeans_runs(rows, starts, 100)
    monkeypatch.setattr(_torch_kmeans, "MOST_FUSED", 0)
    for most, (numbers, centroids, sums) in zip((1, 3), found, strict=True):
        assert (numbers == kernels.kmeans_plus_plus(rows, draws)).float().mean() > 0.99  # a draw may fall on a border
        expected = kernels.kmeans_runs(rows, starts, most)
        torch.testing.assert_close(centroids, expected[0], atol=1e-3, rtol=1e-3)
        torch.testing.assert_close(sums.float(), expected[1], rtol=1e-4, atol=0)
    torch.testing.assert_close(kernels.kmeans_runs(rows, ends, 1)[1], inertias.float(), rtol=1e-4, atol=0)  # settled
    torch.testing.assert_close(kernels.kmeans_runs(rows, starts, 100)[1], inertias.float(), rtol=1e-2, atol=0)


def inertia(rows, labels):
    """The sum of squared distances to the groups' means."""
    return sum(np.sum((rows[labels == group] - rows[labels == group].mean(axis=0)) ** 2) for group in np.unique(labels))


def test_tables_are_cut_at_once_as_one_by_one(rng, device):
    """Columns of zeros that fill narrower tables up change nothing, and neither do the tables beside one."""
    centers = rng.standard_normal((2, 6, 5))
    tables = [(own[rng.integers(6, size=300)] + 0.3 * rng.standard_normal((300, 5))) for own in centers]
    tables = [
        on_device(table.astype(np.float32)[:, :width], device) for table, width in zip(tables, (3, 5), strict=True)
    ]
    some, draws = np.stack([np.arange(0, 300, 2)] * 2), np.stack([draw_starts(3, 6, rng) for _ in tables])
    found = kernels.cluster_tables(tables, some, draws, 100).cpu().numpy()  # (2, 300)
    for labels, table, own in zip(found, tables, draws, strict=True):
        centroids = best_centroids(table.cpu().numpy()[::2], own)
        rows = table.cpu().numpy()
        expected = cpu.assign(rows, centroids)[0]
        # Rounding may end at another, equally good cut where clusters touch.
        assert partition_agreement(labels, expected) > 0.95
        assert inertia(rows, labels) == pytest.approx(inertia(rows, expected), rel=0.01)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.0, 1.0])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_quantiles_of_columns_are_numpys(rng, device, n, share):
    data = rng.standard_normal((n, 5))
    found = kernels.column_quantiles(on_device(data, device), share)
    np.testing.assert_allclose(found, np.quantile(data, share, axis=0), rtol=1e-12)
    np.testing.assert_allclose(cpu.column_quantiles(data, share), found, rtol=1e-12)


@pytest.mark.parametrize("dependence", [1e-2, 1e-13, 0.0])
def test_columns_become_orthonormal(rng, device, dependence):
    """Also columns that are dependent: then by reflections."""
    one, other = (np.linalg.qr(rng.standard_normal((3, size, 8)))[0] for size in (200, 8))
    block = on_device(one * np.geomspace(1, max(dependence, 1e-300), 8) @ other, device)
    found = kernels.orthonormal(block).cpu().numpy()  # (3, 200, 8)
    np.testing.assert_allclose(np.swapaxes(found, 1, 2) @ found, np.broadcast_to(np.eye(8), (3, 8, 8)), atol=1e-10)
    first = one[..., :1]  # the block's strongest direction
    np.testing.assert_allclose(found @ (np.swapaxes(found, 1, 2) @ first), first, atol=1e-8)


@pytest.mark.parametrize("dependence", [1e-2, 1e-13])
def test_cholesky_says_how_far_it_came(rng, dependence):
    one, other = (np.linalg.qr(rng.standard_normal((3, size, 8)))[0] for size in (200, 8))
    block = torch.as_tensor(one * np.geomspace(1, dependence, 8) @ other)
    found, gap = orthonormal_by_cholesky(block)
    assert gap < 1e-12
    torch.testing.assert_close(found.mT @ found, torch.eye(8, dtype=torch.float64).expand(3, 8, 8))
    block[1, :, 3] = 0
    assert not orthonormal_by_cholesky(block)[1] < 1e-12


@pytest.mark.parametrize(("n", "d"), [(400, 60), (60, 400), (35, 35)])
def test_principal_directions_are_those_of_the_cpu(rng, device, n, d):
    rows = (rng.standard_normal((n, 12)) @ rng.standard_normal((12, d)) + rng.standard_normal((n, d))).astype("float32")
    mine, theirs = kernels.principal_directions(on_device(rows, device), 20, 3), cpu.principal_directions(rows, 20, 3)
    assert mine.shape == theirs.shape == (d, 20)
    np.testing.assert_allclose(mine.T @ mine, np.eye(20), atol=1e-6)
    np.testing.assert_allclose(np.abs(np.sum(mine * theirs, axis=0)), 1, atol=1e-3)  # the same ones, but for the sign
    np.testing.assert_allclose(mine @ mine.T, theirs @ theirs.T, atol=1e-3)


def test_directions_that_rows_do_not_have_are_zero(rng, device):
    rows = (rng.standard_normal((200, 3)) @ rng.standard_normal((3, 40))).astype("float32")
    found = kernels.principal_directions(on_device(rows, device), 20, 0)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(rows @ found @ found.T, rows, atol=1e-4)


def test_eigenpairs_of_the_host_are_those_of_the_device(rng, device):
    """They are taken where a GPU's solver gives up."""
    matrices = rng.standard_normal((3, 12, 12))
    matrices = on_device(matrices + matrices.transpose(0, 2, 1), device)
    values, vectors = host_eigenpairs(matrices)
    np.testing.assert_allclose(values.cpu(), kernels.symmetric_eigenpairs(matrices)[0].cpu(), atol=1e-12)
    np.testing.assert_allclose((matrices @ vectors).cpu(), (vectors * values[:, None]).cpu(), atol=1e-12)


@pytest.mark.parametrize("most", [2**25, 1])
def test_votes_of_neighbours_are_those_of_the_cpu(rng, device, monkeypatch, most):
    monkeypatch.setattr(_torch_votes, "MOST_VOTES", most)
    indices, weights, bounds = random_block(rng, widths=(3, 8, 5))
    weights[:7, bounds[1] : bounds[2]] = 0  # rows that lack a view
    indices[7, bounds[1] : bounds[2]] = indices.max() + 1 + np.arange(bounds[2] - bounds[1])  # and one that is alone
    graph_views = [0, 1, 0]
    partitions = rng.integers(4, size=(3, len(indices))).astype(np.int32)
    own = on_device(indices.astype(np.int16), device), on_device(weights, device)
    found = kernels.prediction_tables(*own, bounds, group_by_view(graph_views), on_device(partitions, device))
    for labels, tables in zip(partitions, found, strict=True):
        predicted = predicted_labels(Block(indices, weights), bounds, graph_views, labels)
        for theirs, table in zip(predicted, tables, strict=True):
            known = theirs >= 0
            np.testing.assert_array_equal(
                table, np.bincount(4 * theirs[known] + labels[known], minlength=16).reshape(4, 4)
            )


def test_shares_of_votes_sum_to_one(rng):
    indices, weights, bounds = random_block(rng)
    for start, stop in itertools.pairwise(bounds):
        own = indices[:, start:stop], weights[:, start:stop]
        votes = cpu.label_votes(*own, rng.integers(4, size=len(indices)).astype(np.int32), 4)
        np.testing.assert_allclose(votes.sum(axis=1), own[1].any(axis=1), atol=1e-6)


@pytest.mark.parametrize("k", [3, 100])
def test_counts_and_least_members_are_those_of_the_cpu(rng, device, k):
    labels, values = rng.integers(k - 1, size=500).astype(np.int32), rng.random(500).astype(np.float32)
    own = on_device(labels, device), on_device(values, device)
    assert (kernels.count_groups(own[0], k) == cpu.count_groups(labels, k)).all()
    found = kernels.least_in_group(own[1], own[0], k).cpu().numpy()
    assert (found == cpu.least_in_group(values, labels, k)).all()
    assert found[k - 1] == -1
