"""The same seed gives the same bytes in any process, on any threads; places and blocks differ by rounding only."""

import ast
import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining
from coterie.arrays import map_arrays
from coterie.datasets import load_digit_views, make_views
from coterie.kernels import cpu
from coterie.kernels import torch as torch_kernels
from coterie.method.landmarks import kmedoids
from coterie.rows.memory import ROWS_PER_RUN

# Fits that between them take every path on which sums are made and numbers are drawn.
FITS = {
    "defaults": (dict(n=600, k=5), {}),
    "as published": (dict(n=500, k=4), {"basis": "subspace", "bandwidth": "median", "guide": "inner", "max_iter": 4}),
    "k chosen": (dict(n=400, k=4), {"n_clusters": "auto", "n_landmarks": 100}),
    "wide": (dict(n=6000, k=4, columns=(24, 30)), {"block_size": 1500, "n_landmarks": 200}),
    "twins": (dict(n=150, k=3, copies=3), {"landmarks": "kmedoids++"}),
}


def fit(name, **more):
    data, settings = FITS[name]
    made = make_views(data["n"], data["k"], n_columns=data.get("columns", (6, 5)), separation=6, random_state=0)
    views = {name: np.repeat(view, data.get("copies", 1), axis=0) for name, view in made.views.items()}
    settings = {"n_clusters": data["k"], "n_init": 3, "random_state": 7, "store_embedding": True, **settings, **more}
    return GuidedCoTraining(**settings).fit(views)


def digest(model):
    """A fingerprint of every number that a fit leaves behind, except seconds."""
    found = hashlib.sha256()
    names = ("labels_", "confidence_", "embedding_", "cluster_centers_", "medoid_indices_", "landmark_indices_")
    names += ("singular_values_", "consensus_singular_values_", "graph_agreement_", "cluster_agreement_")
    names += ("stability_", "cluster_stability_", "view_weights_", "agreement_")
    for thing in (*(getattr(model, name) for name in names), model._fitted.row_map.guides, model._fitted.row_map.basis):
        map_arrays(thing, lambda part: found.update(np.asarray(part).tobytes()))
    return found.hexdigest()


@pytest.fixture(scope="module")
def models():
    return {name: fit(name) for name in FITS}


@pytest.fixture(scope="module")
def digests(models):
    return {name: digest(model) for name, model in models.items()}


def test_another_run_gives_the_same_bytes(digests):
    assert {name: digest(fit(name)) for name in FITS} == digests


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_give_the_same_bytes(digests, n_jobs):
    assert {name: digest(fit(name, n_jobs=n_jobs)) for name in FITS} == digests


def test_threads_give_the_same_bytes_where_sums_are_made_in_runs():
    X = next(iter(make_views(2 * ROWS_PER_RUN + 5, 3, n_columns=(3,), random_state=0).views.values()))
    settings = dict(n_landmarks=20, n_neighbors=3, n_init=1, measure_stability=False, random_state=0)
    one, two = (GuidedCoTraining(3, n_jobs=jobs, **settings).fit(X) for jobs in (1, 2))
    assert one.labels_.tobytes() == two.labels_.tobytes()
    assert one.confidence_.tobytes() == two.confidence_.tobytes()
    assert one.cluster_centers_.tobytes() == two.cluster_centers_.tobytes()


def test_another_process_gives_the_same_bytes(digests):
    """In a new process, dicts and sets have another order, and the libraries are told another number of threads."""
    code = "import test_determinism as t; print({name: t.digest(t.fit(name)) for name in t.FITS})"
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    for threads in ("1", "2"):
        limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        environment = {**os.environ, **limits, "PYTHONPATH": path, "PYTHONHASHSEED": threads}
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.strip() == str(digests)


def test_threads_give_the_same_bytes_where_blas_multiplies_twelve_rows_at_once():
    """As OpenBLAS does with AVX2 (Haswell); other libraries ignore this variable."""
    code = "import test_determinism as t; print([t.digest(t.fit('wide', n_jobs=n)) for n in (1, 8)])"
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_CORETYPE": "Haswell"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    one, eight = ast.literal_eval(run.stdout)
    assert one == eight


def test_another_seed_gives_other_bytes(digests):
    assert digest(fit("defaults", random_state=8)) != digests["defaults"]


@pytest.mark.parametrize("other", [{"block_size": 64}, {"block_size": 100_000}, {"device": "torch"}], ids=str)
@pytest.mark.parametrize("name", FITS)
def test_blocks_and_places_give_the_same_clusters(models, name, other):
    assert adjusted_rand_score(models[name].labels_, fit(name, **other).labels_) >= 0.999


def test_places_give_the_same_digits():
    views = load_digit_views().views
    settings = dict(n_landmarks=300, n_neighbors=10, measure_stability=False, random_state=0)
    plain, tensors = (GuidedCoTraining(10, device=device, **settings).fit(views) for device in ("cpu", "torch"))
    assert adjusted_rand_score(plain.labels_, tensors.labels_) >= 0.999


# -- ties are broken by row number -------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "torch"])
def test_twins_have_the_first_one_as_medoid(device):
    model = fit("twins", device=device)
    assert (model.medoid_indices_ % 3 == 0).all()  # rows 3i, 3i + 1 and 3i + 2 are the same
    assert (model.landmark_indices_ % 3 == 0).all()
    np.testing.assert_array_equal(model.labels_.reshape(-1, 3), model.labels_[::3, None].repeat(3, axis=1))


def test_places_break_ties_alike():
    plain, tensors = fit("twins", device="cpu"), fit("twins", device="torch")
    np.testing.assert_array_equal(plain.landmark_indices_, tensors.landmark_indices_)
    np.testing.assert_array_equal(plain.labels_, tensors.labels_)


def test_kernels_break_ties_alike(rng):
    import torch

    rows = rng.integers(3, size=(500, 2)).astype(np.float32)  # nine different rows: most distances are ties
    centers = rows[:40]
    own, norms = (rows**2).sum(axis=1), (centers**2).sum(axis=1)
    distances = np.maximum(own[:, None] + norms - 2 * rows @ centers.T, 0)
    expected = np.argsort(distances, axis=1, kind="stable")[:, :7]
    ((on_host, _),) = cpu.smallest(distances[None], [7])
    np.testing.assert_array_equal(on_host, np.sort(expected, axis=1))
    ((sorted_there, _),) = torch_kernels.smallest(torch.as_tensor(distances)[None], [7])
    np.testing.assert_array_equal(sorted_there, expected)
    fused, _ = torch_kernels.nearest(*(torch.as_tensor(part) for part in (rows, own, centers, norms)), 7)
    np.testing.assert_array_equal(fused, expected)
    labels = rng.integers(5, size=500).astype(np.int32)
    values = rng.integers(4, size=500).astype(np.float64)
    first = [min(np.flatnonzero(labels == g), key=lambda row: (values[row], row)) for g in range(5)]
    np.testing.assert_array_equal(cpu.least_in_group(values, labels, 5), first)
    np.testing.assert_array_equal(
        torch_kernels.least_in_group(torch.as_tensor(values), torch.as_tensor(labels), 5), first
    )


def test_medoids_of_twins_are_the_first_ones(rng):
    import torch

    rows = np.repeat(rng.standard_normal((50, 3)), 4, axis=0).astype(np.float32)
    plain = kmedoids(rows, 12, np.random.default_rng(0))
    assert (plain % 4 == 0).all()
    np.testing.assert_array_equal(plain, kmedoids(torch.as_tensor(rows), 12, np.random.default_rng(0)))
