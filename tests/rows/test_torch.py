"""Rows on a torch device: on CPU tensors everywhere, and on a real GPU where there is one."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.rows import staging
from coterie.rows.torch import upload

torch = pytest.importorskip("torch")

DEVICES = ["torch", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def on_device(array, device):
    return torch.as_tensor(np.ascontiguousarray(array), device="cpu" if device == "torch" else device)


# -- uploading -------- ----------------------------------------------------------------------------------------------


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


def test_without_a_driver_nothing_is_staged(monkeypatch):
    monkeypatch.setattr(staging, "DRIVER", "no-such-driver.so")
    staging.compiled_copy_loop.cache_clear()
    assert not staging.staged_upload(torch.ones(3), torch.zeros(3))
    staging.compiled_copy_loop.cache_clear()


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
    tensors = {name: on_device(view, device) for name, view in data.views.items()}
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
    for elsewhere in ("cpu", device):
        loaded.set_params(device=elsewhere)
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
    with pytest.raises(MemoryError, match=r"GB are not enough for this fit of 100000 rows.*block_size"):
        GuidedCoTraining.as_published(3, random_state=0).fit(tensors)
    del hog
    torch.cuda.empty_cache()
    assert len(GuidedCoTraining.as_published(3, random_state=0).fit(tensors).labels_) == 100_000


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (4, 1), (4, 3)])
def test_rows_that_run_backwards_are_uploaded(shape):
    """NumPy calls an array with one row contiguous whatever its strides are; torch refuses negative ones."""
    rows = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    np.testing.assert_array_equal(np.asarray(upload(rows[::-1, ::-1], "cpu")), rows[::-1, ::-1])
