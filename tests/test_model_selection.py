"""scikit-learn's model selection over several views, weights of rows, and soft assignment."""

import dask.array
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

from coterie import GuidedCoTraining, view_rows
from coterie.datasets import make_views
from coterie.views import in_row_order, rows_as_in

N, K = 300, 3


@pytest.fixture(scope="module")
def data():
    return make_views(N, K, n_columns=(6, 5), separation=5, random_state=0)


def fit(X, **settings):
    return GuidedCoTraining(K, n_landmarks=60, random_state=0).fit(X, **settings)


def test_a_grid_over_a_dict_of_views(data):
    views = {"words": sparse.csr_array(data.views["view0"]), "frame": pd.DataFrame(data.views["view1"])}
    rows = view_rows(views)
    search = GridSearchCV(GuidedCoTraining(K, random_state=0), {"n_landmarks": [40, 80], "basis": ["commute"]}, cv=3)
    search.fit(rows)
    assert search.best_estimator_.view_names_ == ("words", "frame")
    assert 0.9 < search.best_score_ <= 1
    np.testing.assert_array_equal(search.predict(rows), search.best_estimator_.predict(views))
    old, new = train_test_split(rows, test_size=100, random_state=0)
    assert (len(old), len(new)) == (200, 100)
    assert np.mean(cross_val_score(GuidedCoTraining(K, random_state=0), rows, cv=3)) > 0.9


def test_rows_are_taken_without_a_copy(data):
    rows = view_rows(data.views)[np.array([5, 3, 3])]
    assert np.shares_memory(rows.views[0].data, data.views["view0"])
    np.testing.assert_array_equal(rows.views[0].read(slice(None)).data, data.views["view0"][[5, 3, 3]])
    lacking = {**data.views, "view1": np.where(np.arange(N)[:, None] < 10, np.nan, data.views["view1"])}
    part = view_rows(lacking)[5:15]
    assert part.views.presence()[:, 1].tolist() == [False] * 5 + [True] * 5
    model = fit(data.views)
    expected = model.predict({name: view[5:15] for name, view in lacking.items()})
    np.testing.assert_array_equal(model.predict(part), expected)
    partitioned = view_rows(dask.array.from_array(data.views["view0"], chunks=100))
    with pytest.raises(ValueError, match="Rows of Dask collections cannot be chosen one by one"):
        partitioned[:5]


def test_rows_of_other_views_are_refused(data):
    model = fit(data.views)
    for names in (("view0", "image"), ("words", "image")):
        rows = view_rows(dict(zip(names, data.views.values(), strict=True)))
        with pytest.raises(ValueError, match="was not in the fit, which had view0, view1"):
            model.predict(rows)


def test_rows_are_shown_by_their_views_and_not_by_their_values(data):
    widths = [f"{name}: {view.shape[1]}" for name, view in data.views.items()]
    assert repr(view_rows(data.views)[:7]) == f"ViewRows({', '.join(['7 rows', *widths])})"


def test_the_score_knows_noise(data):
    """Views that show the clusters have a high score, one of noise beside them a lower one, and noise alone none."""
    noise = np.random.default_rng(0).standard_normal((N, 5))
    good = fit(data.views).score(data.views)
    mixed = {"view0": data.views["view0"], "noise": noise}
    assert good > 0.95 > 0.7 > fit(mixed).score(mixed) > 0.3
    lost = {name: np.full_like(view, np.nan) for name, view in data.views.items()}
    assert np.isnan(fit(data.views).score(lost))


def test_weights_are_repeated_rows(data):
    repeats = np.random.default_rng(0).integers(1, 4, size=N)
    again = {name: np.repeat(view, repeats, axis=0) for name, view in data.views.items()}
    weighted, repeated = fit(data.views, sample_weight=repeats), fit(again)
    first = np.cumsum(repeats) - repeats
    np.testing.assert_array_equal(weighted.labels_, repeated.labels_[first])
    np.testing.assert_array_equal(weighted.cluster_sizes_, np.bincount(repeated.labels_))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_)
    np.testing.assert_array_equal(weighted.predict(data.views), weighted.labels_)
    owner = np.repeat(np.arange(N), repeats)
    np.testing.assert_array_equal(weighted.landmark_indices_, owner[repeated.landmark_indices_])
    np.testing.assert_array_equal(weighted.medoid_indices_, owner[repeated.medoid_indices_])
    plain = fit(data.views, sample_weight=np.ones(N))
    np.testing.assert_array_equal(plain.labels_, fit(data.views).labels_)


def test_weights_with_an_index_are_those_of_the_rows_it_names(data):
    import pandas as pd

    repeats = pd.Series(np.random.default_rng(0).integers(1, 4, size=N), index=[f"row{i}" for i in range(N)])
    frames = {name: pd.DataFrame(view, index=repeats.index) for name, view in data.views.items()}
    expected = fit(frames, sample_weight=repeats.to_numpy())
    for given in (repeats, repeats[::-1]):
        np.testing.assert_array_equal(fit(frames, sample_weight=given).cluster_sizes_, expected.cluster_sizes_)
    with pytest.raises(ValueError, match=f"sample_weight has an index, with {N - 1} of the {N} rows' ids in it"):
        fit(frames, sample_weight=repeats[1:])


@pytest.mark.parametrize("unit", ["ns", "s"])
def test_weights_may_be_named_by_times(unit):
    times = pd.date_range("2026-01-01", periods=N, freq="h")
    ids, repeats = np.asarray(times), pd.Series(np.arange(N), index=times.as_unit(unit))
    np.testing.assert_array_equal(in_row_order("sample_weight", repeats[::-1], ids), np.arange(N))
    np.testing.assert_array_equal(
        rows_as_in("The labels", np.arange(N), np.asarray(repeats.index), ids[::-1]), repeats[::-1]
    )
    with pytest.raises(ValueError, match=f"sample_weight has an index, with {N - 1} of the {N} rows' ids in it"):
        in_row_order("sample_weight", repeats[1:], ids)


def test_times_of_a_finer_unit_are_not_rounded_to_those_of_the_rows():
    ids = np.asarray(pd.date_range("2026-01-01", periods=N, freq="s").as_unit("s"))
    later = np.asarray(pd.DatetimeIndex(ids).as_unit("ns") + pd.Timedelta("500ms"))
    mixed = np.where(np.arange(N) < 2, later, ids.astype(later.dtype))
    with pytest.raises(ValueError, match=f"{N - 2} of the {N} rows"):
        rows_as_in("The labels", np.arange(N), mixed[::-1], ids)
    with pytest.raises(ValueError, match=f"{N - 2} of the {N} rows' ids"):
        in_row_order("sample_weight", pd.Series(np.arange(N), index=mixed), ids)
    np.testing.assert_array_equal(rows_as_in("The labels", np.arange(N), later[::-1], ids), np.arange(N))


def test_weights_whose_ids_are_written_otherwise_are_refused(data):
    import pandas as pd

    frames = {name: pd.DataFrame(view, index=np.arange(5, 5 + N)) for name, view in data.views.items()}
    weights = pd.Series(1.0, index=[f"{row:04}" for row in range(5, 5 + N)])
    with pytest.raises(ValueError, match=r"sample_weight and the rows have .* such as '0005' and 5"):
        GuidedCoTraining(3, random_state=0).fit(frames, sample_weight=weights)


MASKED = np.ma.array(np.ones(N), mask=np.arange(N) == 7)


@pytest.mark.parametrize("weights", [np.ones(5), np.zeros(N), np.full(N, 0.5), np.full(N, np.nan), ["a"] * N, MASKED])
def test_weights_that_are_no_counts(data, weights):
    with pytest.raises(ValueError, match="sample_weight"):
        fit(data.views, sample_weight=weights)


@pytest.mark.parametrize("weight", [1e11, 1e300])
def test_weights_of_more_rows_than_a_fit_could_have(data, weight):
    with pytest.raises(ValueError, match=r"'sample_weight' of GuidedCoTraining.fit stands for .* common factor"):
        fit(data.views, sample_weight=np.full(N, weight))


def test_weights_may_be_objects_that_are_whole_numbers(data):
    repeats = np.arange(N) % 2 + 1
    assert (fit(data.views, sample_weight=repeats.astype(object)).cluster_sizes_.sum()) == repeats.sum()


def test_memberships(data):
    model = fit(data.views)
    shares = model.memberships(data.views)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(shares.argmax(axis=1), model.labels_)
    top = np.sort(shares, axis=1)[:, ::-1]
    np.testing.assert_allclose(1 - np.sqrt(top[:, 1] / top[:, 0]), model.confidence_, atol=1e-3)  # the same distances
