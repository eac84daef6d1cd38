"""The GPU's code: on CPU tensors everywhere, and on a real GPU where there is one."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.kernels import cpu
from coterie.method.seeding import draw_starts, far_apart, far_apart_at_once
from coterie.rows import couriers
from coterie.rows.torch import upload

torch = pytest.importorskip("torch")
from coterie.kernels import torch as kernels  # noqa: E402

DEVICES = ["torch", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def place(array, device):
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


# -- the way to a card ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("f4", (1000, 7)), ("f8", (300_001, 33)), ("u1", (5_000_003,)), ("?", (77,)), ("f2", (0, 5)), (">i2", (1234, 9))],
)
def test_rows_arrive_as_they_are(rng, device, dtype, shape):
    plain = (200 * rng.random(shape)).astype(dtype)
    closed = plain.copy()
    closed.flags.writeable = False
    for rows in (plain, closed, np.asfortranarray(plain), plain[::2]):
        found = upload(rows, "cpu" if device == "torch" else device)
        np.testing.assert_array_equal(found.cpu().numpy(), rows)


def test_without_a_driver_couriers_stay_at_home(monkeypatch):
    monkeypatch.setattr(couriers, "DRIVER", "no-such-driver.so")
    couriers.carrier.cache_clear()
    assert not couriers.send(torch.ones(3), torch.zeros(3))
    couriers.carrier.cache_clear()


# -- kernels ------------------------------------------------------------------------------------------------------


def search(rows, landmarks, q, device, row_norms=None, landmark_norms=None, precision="float32"):
    """What ``nearest`` finds, sorted by landmark; norms are the rows' own unless some lack the view."""
    norms = [(table**2).sum(axis=1, dtype=float) if known is None else known
             for table, known in ((rows, row_norms), (landmarks, landmark_norms))]  # fmt: skip
    tensors = [place(np.asarray(part, dtype=np.float32), device) for part in (rows, norms[0], landmarks, norms[1])]
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
    found = kernels.gaussian(place(squares.copy(), device), bounds, bandwidths)
    np.testing.assert_allclose(found.cpu(), cpu.gaussian(squares, bounds, bandwidths), rtol=1e-5, atol=1e-6)


def test_distances_over_lacking_views_are_those_of_the_cpu(rng, device):
    distances = 4 * rng.random((4, 20, 30)).astype(np.float32)
    distances[rng.random(distances.shape) < 0.5] = np.inf
    likeness = rng.random((4, 4)).astype(np.float32)
    found = kernels.whole_distances(place(distances, device), place(likeness, device))
    np.testing.assert_allclose(found.cpu(), cpu.whole_distances(distances, likeness), rtol=1e-5)


def test_sums_over_rows_are_those_of_the_cpu(rng, device):
    indices, weights, bounds = random_block(rng)
    bases = rng.standard_normal((2, 40, 9)).astype(np.float32)
    tensors = (place(indices.astype(np.int16), device), place(weights, device))
    for start, stop in itertools.pairwise(bounds):
        expected, total = cpu.new_gram(40, weights), kernels.new_gram(40, tensors[1])
        cpu.gram(indices[:, start:stop], weights[:, start:stop], expected)
        kernels.gram(*(t[:, start:stop] for t in tensors), total)
        np.testing.assert_allclose(kernels.finish_gram(total).cpu(), cpu.finish_gram(expected), atol=1e-6)
    some = place(bases, device)[:, :, :5]  # not in one piece: kernels must not take it for one
    np.testing.assert_allclose(
        kernels.project(*tensors, bounds, some, False).cpu(),
        cpu.project(indices, weights, bounds, np.ascontiguousarray(bases[:, :, :5]), False),
        rtol=1e-4,
        atol=1e-5,
    )
    np.testing.assert_array_equal(kernels.known_graphs(tensors[1], bounds).cpu(), cpu.known_graphs(weights, bounds))
    rows = rng.standard_normal((10_000, 6)).astype(np.float32)
    outer, squares, fourths = (kernels.zeros(shape, some) for shape in ((6, 6), (6,), (6,)))
    kernels.add_outer(place(rows, device), outer)
    kernels.add_powers(place(rows, device), squares, fourths)
    np.testing.assert_allclose(squares.cpu(), (rows.astype(float) ** 2).sum(axis=0))
    np.testing.assert_allclose(fourths.cpu(), (rows.astype(float) ** 4).sum(axis=0))
    np.testing.assert_allclose(outer.cpu(), rows.T.astype(float) @ rows, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("unit", [False, True])
def test_rows_are_placed_and_guided_as_on_the_cpu(rng, device, unit):
    indices, weights, bounds = random_block(rng)
    bases = rng.standard_normal((2, 40, 9)).astype(np.float32)
    rotation = np.asfortranarray(rng.standard_normal((18, 4)).astype(np.float32)).reshape(2, 9, 4)
    anchors = rng.standard_normal((40, 4)).astype(np.float32)
    tensors = (place(indices.astype(np.int16), device), place(weights, device))
    projected = kernels.project(*tensors, bounds, place(bases, device), unit)
    np.testing.assert_allclose(projected.cpu(), cpu.project(indices, weights, bounds, bases, unit), atol=1e-5)
    turned = torch.from_numpy(rotation).to(tensors[0].device)  # keeps the strides, which are odd
    ours = (place(bases, device), turned) if unit else (place(bases @ rotation, device), None)
    theirs = (bases, rotation) if unit else (bases @ rotation, None)
    embedded = kernels.embed(*tensors, bounds, *ours)
    np.testing.assert_allclose(embedded.cpu(), cpu.embed(indices, weights, bounds, *theirs), atol=2e-5)
    guided = kernels.guide(*tensors, bounds, *ours, place(anchors, device))
    expected = cpu.guide(indices, weights, bounds, *theirs, anchors)
    np.testing.assert_allclose(guided.cpu(), expected, atol=1e-4)


def test_groups_are_those_of_the_cpu(rng, device):
    rows = rng.standard_normal((500, 4)).astype(np.float32)
    centers = rows[:6].copy()
    for ours, theirs in zip(
        kernels.assign(place(rows, device), place(centers, device)), cpu.assign(rows, centers), strict=True
    ):
        np.testing.assert_allclose(ours.cpu(), theirs, atol=1e-4)
    labels = cpu.assign(rows, centers)[0]
    sums, counts = np.zeros((6, 4)), np.zeros(6)
    cpu.add_groups(rows, labels, sums, counts)
    found = kernels.zeros((6, 4), place(rows, device)), kernels.zeros((6,), place(rows, device))
    kernels.add_groups(place(rows, device), place(labels, device), *found)
    np.testing.assert_allclose(found[0].cpu(), sums, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found[1].cpu(), counts)
    means = (sums / counts[:, None]).astype(np.float32)
    nearest = kernels.nearest_in_group(place(rows, device), place(labels, device), place(means, device), 0.0)
    np.testing.assert_array_equal(nearest.cpu(), cpu.nearest_in_group(rows, labels, means, 0.0))


def test_starts_are_those_of_the_cpu(rng, device):
    rows = rng.standard_normal((400, 6)).astype(np.float32)
    draws = draw_starts(4, 7, rng)
    found = far_apart_at_once(place(rows, device), draws).cpu().numpy()  # (4, 7, 6)
    np.testing.assert_array_equal(found, [rows[far_apart(rows, own)] for own in draws])


# -- the estimator ------------------------------------------------------------------------------------------------

SMALL = {"n_landmarks": 80, "n_neighbors": [5, 12], "random_state": 0}


def fits(device, views, k=4, **settings):
    settings = {**SMALL, **settings}
    return GuidedCoTraining(k, **settings).fit(views), GuidedCoTraining(k, device=device, **settings).fit(views)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"basis": "subspace", "guide": "inner", "bandwidth": "median", "scaling": "none", "max_iter": 4},
        {"neighbors": "shared"},
        {"concatenation": False, "dtype": "float64"},
        {"metric": "cosine"},
        {"block_size": 100, "dtype": "tf32"},
    ],
    ids=lambda settings: ", ".join(settings) or "defaults",
)
def test_labels_are_those_of_the_cpu(device, settings):
    data = make_views(600, 4, random_state=1)
    host, other = fits(device, data.views, **settings)
    assert adjusted_rand_score(host.labels_, other.labels_) >= 0.99
    assert isinstance(other.labels_, np.ndarray)
    np.testing.assert_array_equal(other.predict(data.views), other.labels_)
    np.testing.assert_allclose(other.confidence(data.views), other.confidence_, atol=1e-3)
    again = other.predict({name: view[:7] for name, view in data.views.items()})
    np.testing.assert_array_equal(again, other.labels_[:7])
    assert adjusted_rand_score(host.view_labels(data.views)[:, 0], other.view_labels(data.views)[:, 0]) > 0.95
    for name, weight in host.view_weights_.items():
        assert other.view_weights_[name] == pytest.approx(weight, rel=0.02)


def test_rows_that_lack_views(device, rng):
    data = make_views(600, 4, random_state=2)
    views = {name: view.copy() for name, view in data.views.items()}
    for number, view in enumerate(views.values()):
        view[rng.random(600) < 0.2 * (number > 0)] = np.nan
    host, other = fits(device, views)
    assert adjusted_rand_score(host.labels_, other.labels_) >= 0.97
    np.testing.assert_array_equal(other.predict(views), other.labels_)


def test_sparse_and_whole_number_views(device, rng):
    from scipy import sparse

    data = make_views(500, 4, random_state=3)
    first, second = list(data.views.values())[:2]
    counts = sparse.csr_array(rng.poisson(np.exp(np.clip(first, -4, 2))) * (rng.random(first.shape) < 0.9))
    views = {"counts": counts, "bytes": np.clip(20 * second + 128, 0, 255).astype(np.uint8)}
    host, other = fits(device, views)
    assert adjusted_rand_score(host.labels_, other.labels_) >= 0.95
    np.testing.assert_array_equal(other.predict(views), other.labels_)


def test_choosing_k(device):
    data = make_views(600, 4, separation=7, random_state=0)
    _, other = fits(device, data.views, k="auto")
    assert other.n_clusters_ == 4


def test_kind_of_output_follows_the_input(device):
    data = make_views(400, 3, random_state=0)
    tensors = {name: place(view, device) for name, view in data.views.items()}
    model = GuidedCoTraining(3, store_embedding=True, **SMALL).fit(tensors)
    for found in (model.labels_, model.confidence_, model.embedding_, model.predict(tensors), model.transform(tensors)):
        assert isinstance(found, torch.Tensor)
        assert found.device.type == next(iter(tensors.values())).device.type
    host = GuidedCoTraining(3, **SMALL).fit(data.views)
    assert adjusted_rand_score(host.labels_, model.labels_.cpu()) >= 0.99
    np.testing.assert_array_equal(model.predict(data.views), model.labels_.cpu())  # NumPy rows, the cores' kernels


def test_same_bytes_again(device):
    data = make_views(500, 4, random_state=0)
    first, second = (
        GuidedCoTraining(4, device=device, store_embedding=True, **SMALL).fit(data.views) for _ in range(2)
    )
    np.testing.assert_array_equal(first.embedding_, second.embedding_)


def test_a_fit_goes_on_elsewhere(device, tmp_path):
    """A model that was fitted on one device is saved, loaded, and asked on another."""
    import coterie

    data = make_views(400, 3, random_state=0)
    model = GuidedCoTraining(3, device=device, **SMALL).fit(data.views)
    loaded = coterie.load(coterie.save(model, tmp_path / "model.coterie"))
    for place_of in ("cpu", device):
        loaded.set_params(device=place_of)
        np.testing.assert_array_equal(loaded.predict(data.views), model.labels_)


@pytest.mark.parametrize("wrong", ["cuda:77", "abacus"])
def test_devices_that_are_not_there(wrong):
    data = make_views(100, 3, random_state=0)
    with pytest.raises(ValueError, match=rf"device='{wrong}' cannot be used: .*device=\"cpu\""):
        GuidedCoTraining(3, device=wrong).fit(data.views)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_too_little_memory_is_an_error_that_helps():
    data = make_views(100_000, 3, n_columns=(64, 32), random_state=0)
    tensors = [torch.as_tensor(view, device="cuda") for view in data.views.values()]
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    hog = torch.empty(max(1, int(free - 30e6)), dtype=torch.uint8, device="cuda")
    with pytest.raises(MemoryError, match=r"GB do not do for this fit of 100000 rows.*block_size"):
        GuidedCoTraining.as_published(3, random_state=0).fit(tensors)
    del hog
    torch.cuda.empty_cache()
    assert len(GuidedCoTraining.as_published(3, random_state=0).fit(tensors).labels_) == 100_000
