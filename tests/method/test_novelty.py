"""How unlike everything seen a row is: uniform for rows like those of the fit, near 1 for noise and absurd rows."""

from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie import GuidedCoTraining
from coterie.datasets import load_digit_views, make_views
from coterie.method.novelty import UNSEEN, quantiles, scale_of
from coterie.model import fitted_of

OLD_FILE = Path(__file__).parents[1] / "data" / "model_v1.coterie"
SETS = {
    "blobs": lambda: make_views(1200, 5, random_state=0),
    "unequal views": lambda: make_views(2400, 4, separation=3, n_weak=1, random_state=1),
    "missing views": lambda: make_views(2400, 5, missing=0.2, random_state=1),
    "digits": load_digit_views,
}


def parts(name):
    """Return rows to fit, and rows that are held out."""
    data = SETS[name]()
    order = np.random.default_rng(0).permutation(len(data.target))
    cut = 2 * len(order) // 3
    return tuple({view: table[rows] for view, table in data.views.items()} for rows in (order[:cut], order[cut:]))


@pytest.fixture(scope="module", params=SETS)
def fitted(request):
    old, new = parts(request.param)
    return GuidedCoTraining(5, random_state=0).fit(old), old, new


def ks_distance(values):
    """Return the Kolmogorov-Smirnov distance between a sample and the uniform distribution."""
    values, n = np.sort(values), len(values)
    return max(np.abs(np.arange(1, n + 1) / n - values).max(), np.abs(np.arange(n) / n - values).max())


def test_rows_that_were_held_out_are_uniform(fitted):
    model, _, new = fitted
    assert ks_distance(model.novelty(new)) < 0.08
    first = next(iter(new))
    some = ~np.isnan(new[first]).any(axis=1)
    assert ks_distance(model.novelty({first: new[first][some]})) < 0.12  # as they are with one view alone


def test_noise_is_novel(fitted):
    model, old, new = fitted
    rng = np.random.default_rng(0)
    noise = {
        name: np.nanmean(old[name], axis=0) + np.nanstd(old[name], axis=0) * rng.standard_normal(view.shape)
        for name, view in new.items()
    }
    found = model.novelty(noise)
    assert (found > 0.95).mean() > 0.95
    assert found.min() > 0.9


def test_absurd_rows_are_novel_and_unsure_and_still_have_labels(fitted):
    model, old, _ = fitted
    absurd = {name: np.array([[1000.0], [-1000.0]]) * np.ones(view.shape[1]) for name, view in old.items()}
    assert (model.novelty(absurd) > 0.95).all()
    assert (model.confidence(absurd) < 0.1).all()
    assert set(model.predict(absurd)) <= set(range(5))
    for part in model.stream(absurd):
        np.testing.assert_array_equal(part.novelty, model.novelty(absurd))
        np.testing.assert_array_equal(part.confidence, model.confidence(absurd))


def test_one_absurd_view_is_enough(fitted):
    model, _, new = fitted
    first = next(iter(new))
    rows = ~np.isnan(new[first]).any(axis=1)
    spoiled = {name: view[rows].copy() for name, view in new.items()}
    before = model.confidence(spoiled)
    spoiled[first] += 1000
    assert (model.novelty(spoiled) > 0.95).all()
    assert (model.confidence(spoiled) <= before + 0.2).mean() > 0.9  # the other views may be surer than all together


def test_rows_of_the_fit_are_as_they_were(fitted):
    model, old, _ = fitted
    np.testing.assert_array_equal(model.confidence(old), model.confidence_)
    np.testing.assert_array_equal(model.predict(old), model.labels_)


@pytest.fixture(scope="module")
def with_a_far_row():
    """More rows than the scale is learned from, one of them far out in both views and not among those."""
    X = [np.array(view) for view in make_views(3000, 3, n_columns=(4, 3), random_state=0).views.values()]
    for view in X:
        view[1502] += 1000
    return X


def as_dask(X):
    da = pytest.importorskip("dask.array")
    return [da.from_array(view, chunks=(1000, -1)) for view in X]


@pytest.mark.parametrize("kind", ["memory", "disk", "dask", "torch"])
def test_far_rows_of_the_fit_are_as_unsure_as_new_ones(with_a_far_row, kind, tmp_path):
    settings = {"disk": {"work_dir": tmp_path}, "torch": {"device": "torch"}}.get(kind, {})
    if kind == "torch":
        pytest.importorskip("torch")
    X = as_dask(with_a_far_row) if kind == "dask" else with_a_far_row
    light = {"landmarks": np.arange(0, 3000, 30), "n_init": 2, "measure_stability": False, "block_size": 700}
    model = GuidedCoTraining(3, scaling="block", random_state=0, **light, **settings).fit(X)
    found = np.asarray(model.confidence_)
    np.testing.assert_array_equal(np.asarray(model.confidence(X)), found)
    np.testing.assert_array_equal(model.confidence(with_a_far_row), found)
    assert found[1502] < 0.1
    assert np.median(found) > 0.5


def test_it_is_in_the_file(fitted, tmp_path):
    model, _, new = fitted
    again = coterie.load(coterie.save(model, tmp_path / "model.coterie"))
    np.testing.assert_array_equal(again.novelty(new), model.novelty(new))


def test_older_files_load_and_say_that_they_lack_it():
    model = coterie.load(OLD_FILE)
    assert fitted_of(model).novelty_scale is None
    rows = {
        name: np.zeros((2, shape.n_columns))
        for name, shape in zip(model.view_names_, fitted_of(model).shapes, strict=True)
    }
    with pytest.raises(ValueError, match="older version of Coterie"):
        model.novelty(rows)
    assert next(model.stream(rows)).novelty is None
    assert model.confidence(rows).shape == (2,)


@pytest.mark.parametrize(
    "settings",
    [
        {"concatenation": False},
        {"neighbors": "shared"},
        {"n_neighbors": 1, "n_landmarks": 60},
        {"dtype": "float64"},
        {"n_neighbors": (2, 30), "metric": "cosine"},
    ],
    ids=str,
)
def test_other_graphs(settings):
    old, new = parts("blobs")
    model = GuidedCoTraining(5, random_state=0, **settings).fit(old)
    assert ks_distance(model.novelty(new)) < 0.12
    absurd = {name: np.vstack([view[:1] + 1e4, view[:1]]) for name, view in new.items()}
    assert model.novelty(absurd)[0] > 0.95
    np.testing.assert_array_equal(model.confidence(old), model.confidence_)


def test_every_row_a_landmark_of_itself_alone():
    old, new = parts("blobs")
    model = GuidedCoTraining(5, random_state=0, n_neighbors=1, n_landmarks=800).fit(old)
    with pytest.raises(ValueError, match="n_neighbors is 1"):
        model.novelty(new)


def test_repeated_rows_are_usual():
    rows = np.repeat(np.random.default_rng(0).standard_normal((12, 4)), 40, axis=0)
    model = GuidedCoTraining(3, random_state=0).fit(rows)
    assert (model.novelty(rows) < 1).all()
    np.testing.assert_array_equal(model.confidence(rows), model.confidence_)
    assert (model.novelty(rows[:1] + 100) > 0.95).all()


def test_quantiles_of_ties_and_of_nothing():
    values, levels = quantiles(np.zeros(10))
    assert (values == 0).all()
    assert (levels == 0.5).all()
    values, levels = quantiles(np.full(3, np.nan))
    assert (values == UNSEEN).all()


def test_scale_by_hand():
    """One view, no ties: novelty is the share of rows that are nearer."""
    distances = np.arange(1.0, 102)[:, None]
    scale = scale_of(distances, np.zeros(1), 1)
    np.testing.assert_allclose(scale.novelty(distances)[:, None], (distances - 0.5) / 101, atol=1e-6)
    assert scale.novelty(np.array([[0.5], [500.0], [np.nan]])).tolist() == pytest.approx(
        [0.5 / 101, 1.0, 0.0], abs=0.01
    )
    np.testing.assert_allclose(scale.familiarity(np.array([[101.0], [202.0], [404.0], [np.nan]])), [1, 1, 0.5, 1])
