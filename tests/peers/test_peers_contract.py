"""scikit-learn's contract and Coterie's: the same for every peer."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from coterie import peers
from coterie.datasets import make_views
from coterie.metrics import ari
from coterie.peers import _dense as dense

# Methods that look at several views, ready for four clusters of a few hundred rows.
SEVERAL = {
    "AASC": {},
    "CoRegularised": {},
    "CoTraining": {"max_iter": 3},
    "DiMSC": {"max_iter": 3},
    "ExactGuidedCoTraining": {"max_iter": 4},
    "LTMSC": {},
    "MMSC": {},
    "MSCMO": {},
    "MVSCB": {"n_landmarks": 60, "n_neighbors": 20},
    "MultiNMF": {},
    "MultipleKernelLaplacian": {},
    "RMSC": {"weight": 0.03},
}
# Less work for methods whose defaults are for real data.
QUICK = {
    "AIMC": {"n_init": 3},
    "FastMICE": {"n_members": 5},
    "LMVSC": {"n_landmarks": 10, "n_init": 2},
    "SparseAutoencoder": {"hidden": (8,), "n_epochs": 5},
}
ALL_PAIRS = sorted({*SEVERAL, "SC", "SparseAutoencoder"} - {"MVSCB", "MultiNMF"})
every_one = pytest.mark.parametrize("name", SEVERAL)


def make(name, **more):
    return getattr(peers, name)(4, **{**SEVERAL.get(name, {}), **more})


@pytest.fixture(scope="module")
def easy():
    return make_views(200, 4, n_columns=(12, 8), separation=4, random_state=3)


# The checks cut max_iter to a few rounds, which is not enough for the constraints of these two.
@pytest.mark.filterwarnings("ignore:.* stopped after:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Only . of . clusters hold rows")
@parametrize_with_checks([getattr(peers, name)(3, **{**SEVERAL, **QUICK}.get(name, {})) for name in peers.__all__])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every_one
def test_easy_clusters_are_found_and_a_seed_repeats(name, easy, seed):
    model = make(name, random_state=seed)
    labels = model.fit_predict(easy.views)
    assert ari(easy.target, labels) > 0.9
    assert np.array_equal(labels, make(name, random_state=seed).fit(list(easy.views.values())).labels_)


@every_one
def test_what_is_learned_has_the_shape_that_the_manual_says(name, easy):
    model = make(name, random_state=0).fit(easy.views)
    assert model.labels_.shape == (200,)
    assert model.n_iter_ >= 1
    if hasattr(model, "embedding_"):
        assert model.embedding_.shape[0] == 200
        assert np.isfinite(model.embedding_).all()
    if hasattr(model, "objective_"):
        assert len(model.objective_) == model.n_iter_
    if hasattr(model, "view_weights_"):
        assert list(model.view_weights_) == list(easy.views)
        assert sum(model.view_weights_.values()) == pytest.approx(1)
    for section in ("Parameters", "Attributes", "References", "Examples"):
        assert re.search(rf"^    {section}$", type(model).__doc__, re.MULTILINE)
    for attribute in [key for key in vars(model) if key.endswith("_") and key != "n_features_in_"]:
        assert f"{attribute} :" in type(model).__doc__
    assert not hasattr(model, "predict")


@every_one
def test_sparse_views_and_frames_give_the_clusters_of_arrays(name, easy):
    pandas = pytest.importorskip("pandas")
    kept = {view: table.copy() for view, table in easy.views.items()}
    first, second = easy.views.values()
    mixed = {"a": sparse.csr_array(first), "b": pandas.DataFrame(second)}
    assert ari(easy.target, make(name, random_state=0).fit_predict(mixed)) > 0.9
    assert all(np.array_equal(kept[view], table) for view, table in easy.views.items())


@every_one
def test_rows_that_lack_a_view_are_clustered_too(name):
    data = make_views(240, 4, n_columns=(12, 8, 8), separation=5, missing=0.1, random_state=3)
    labels = make(name, random_state=0).fit_predict(data.views)
    complete = ~np.any([np.isnan(view[:, 0]) for view in data.views.values()], axis=0)
    assert ari(data.target[complete], labels[complete]) > 0.7


@every_one
def test_one_view_is_enough(name, easy):
    labels = make(name, random_state=0).fit_predict(easy.views["view0"])
    assert ari(easy.target, labels) > 0.7


@every_one
def test_errors_name_the_parameter_and_the_view(name, easy):
    with pytest.raises(ValueError, match=f"The 'n_clusters' parameter of {name} must be an int"):
        make(name).set_params(n_clusters=0).fit(easy.views)
    with pytest.raises(ValueError, match=f"The 'n_init' parameter of {name} must be an int of at least 1. Got 0"):
        make(name, n_init=0).fit(easy.views)
    with pytest.raises(ValueError, match=f"The 'max_iter' parameter of {name} must be an int"):
        make(name, max_iter=0).fit(easy.views)
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=4"):
        make(name).fit({view: table[:3] for view, table in easy.views.items()})
    broken = {view: table.copy() for view, table in easy.views.items()}
    broken["view0"][5, 1] = np.inf
    with pytest.raises(ValueError, match=r"NaN, infinity.*: view 'view0', row 5"):
        make(name, random_state=0).fit(broken)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("AASC", {"bandwidth": "mean"}, "The 'bandwidth' parameter of AASC must be one of 'median', 'local'"),
        ("CoRegularised", {"kind": "both"}, "The 'kind' parameter of CoRegularised must be one of 'pairwise', 'cent"),
        ("CoRegularised", {"weight": 0}, "The 'weight' parameter of CoRegularised must be a finite number above 0"),
        ("CoRegularised", {"view": 7}, "The 'view' parameter of CoRegularised must be .*the name or number"),
        ("CoTraining", {"view": "x"}, r"one of the 2 views \('view0', 'view1'\). Got 'x'"),
        ("DiMSC", {"diversity": -1}, "The 'diversity' parameter of DiMSC must be a finite number of at least 0"),
        ("DiMSC", {"n_neighbors": 0}, "The 'n_neighbors' parameter of DiMSC"),
        ("LTMSC", {"weight": -0.1}, "The 'weight' parameter of LTMSC must be a finite number above 0"),
        ("MSCMO", {"gamma": 1.0}, "The 'gamma' parameter of MSCMO must be a number between 0 and 1. Got 1.0"),
        ("MMSC", {"tol": -1}, "The 'tol' parameter of MMSC must be a finite number of at least 0"),
    ],
)
def test_wrong_settings_are_refused(name, parameters, message, easy):
    with pytest.raises(ValueError, match=message):
        make(name, **parameters).fit(easy.views)


@pytest.mark.parametrize("name", ALL_PAIRS)
def test_methods_of_all_pairs_refuse_what_memory_cannot_hold(name, monkeypatch):
    rows = np.zeros((5_000, 1))
    monkeypatch.setattr(dense, "available_bytes", lambda: 300_000_000)
    with pytest.raises(ValueError, match=rf"{name} .* 5,000 rows need about \d\.\d GB .* 0\.3 GB are available"):
        make(name).fit(rows)


@pytest.mark.parametrize("name", ALL_PAIRS)
def test_methods_of_all_pairs_refuse_many_rows(name):
    rows = np.zeros((dense.MAX_ROWS + 1, 1), dtype=np.float32)
    with pytest.raises(ValueError, match=r"10,001 rows need about \d+\.\d GB .* at most 10,000 rows.*GuidedCoTraining"):
        make(name).fit(rows)


def test_available_memory_is_what_the_system_says(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   2048 kB\n", encoding="ascii")
    assert dense.available_bytes(tmp_path / "meminfo") == 2048 * 1024
    assert dense.available_bytes(tmp_path / "nothing") is None


@pytest.mark.parametrize("name", ["LTMSC", "RMSC"])
def test_rounds_that_end_too_soon_are_a_warning(name, easy):
    with pytest.warns(UserWarning, match=rf"{name} stopped after 2 rounds with a residual of .* Raise max_iter"):
        make(name, max_iter=2).fit(easy.views)
