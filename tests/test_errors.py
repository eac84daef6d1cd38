"""Bad input gets an error that names the culprit and the remedy; odd but good input works."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from coterie import GuidedCoTraining, peers
from coterie.datasets import make_views


@pytest.fixture(scope="module")
def good():
    return make_views(120, 3, n_columns=(5, 4), random_state=0).views


def changed(good, **views):
    return {**good, **views}


BAD_VIEWS = {
    "other length": (lambda v: v[:50], r"'view1' has 50 rows.*'view0' has 120.*same rows"),
    "no rows": (lambda v: v[:0], r"'view1'.*0 sample"),
    "no columns": (lambda v: v[:, :0], r"'view1'.*0 feature.*Leave the view out"),
    "one NaN": (lambda v: put(v, np.nan), r"NaN.*'view1', row 7.*impute"),
    "infinity": (lambda v: put(v, np.inf), r"infinity.*'view1', row 7"),
    "text": (lambda v: np.full(v.shape, "a"), r"'view1'.*not numbers.*Encode"),
    "text of digits": (lambda v: v.astype(str), r"'view1'.*not numbers \(<U.*astype\(float\)"),
    "objects": (lambda v: np.full(v.shape, {}, dtype=object), r"'view1'.*not numbers"),
    "complex": (lambda v: v + 1j, r"Complex data not supported.*'view1'"),
    "1-D": (lambda v: v[:, 0], r"got 1D array.*'view1'.*Reshape"),
    "3-D": (lambda v: v[:, :, None], r"got 3D array.*'view1'"),
    "sparse with NaN": (lambda v: sparse.csr_array(put(v, np.nan)), r"NaN.*'view1', row 7"),
}


def put(view, value):
    view = view.copy()
    view[7, 1] = value
    return view


@pytest.mark.parametrize("case", BAD_VIEWS)
def test_bad_views(good, case):
    spoil, message = BAD_VIEWS[case]
    with pytest.raises((ValueError, TypeError), match=message):
        GuidedCoTraining(3).fit(changed(good, view1=spoil(good["view1"])))


@pytest.mark.parametrize("seed", [-1, 2**40, "x", np.random.default_rng(0)])
def test_what_is_no_random_state_is_named(good, seed):
    for model in (GuidedCoTraining(3, random_state=seed), peers.MVSCB(3, random_state=seed)):
        owner = type(model).__name__
        with pytest.raises(ValueError, match=f"'random_state' parameter of {owner} must be an int from 0 to"):
            model.fit(good)


@pytest.mark.parametrize("case", ["one NaN", "infinity", "text", "text of digits", "complex", "1-D", "other length"])
def test_bad_new_rows(good, case):
    spoil, message = BAD_VIEWS[case]
    model = GuidedCoTraining(3, random_state=0).fit(good)
    with pytest.raises(ValueError, match=message):
        model.predict(changed(good, view1=spoil(good["view1"])))


BAD_PARAMETERS = [
    ({"n_clusters": 0}, "'n_clusters'.*at least 1.*Got 0"),
    ({"n_clusters": -2}, "'n_clusters'"),
    ({"n_clusters": 2.5}, "'n_clusters'.*Got 2.5"),
    ({"n_clusters": True}, "'n_clusters'"),
    ({"n_clusters": 121}, "n_samples=120 should be >= n_clusters=121"),
    ({"n_landmarks": 0}, "'n_landmarks'"),
    ({"n_landmarks": 121}, "'n_landmarks'.*at most the number of rows, 120"),
    ({"n_landmarks": 2}, "'n_landmarks'.*at least n_clusters=3"),
    ({"n_landmarks": "many"}, "'n_landmarks'.*at least 1 or 'auto'. Got 'many'"),
    ({"n_clusters": "many"}, "'n_clusters'.*at least 1 or 'auto'. Got 'many'"),
    ({"n_neighbors": "few"}, "'n_neighbors'.*at least 1, a list of different ones, or 'auto'. Got 'few'"),
    ({"n_neighbors": 0}, "'n_neighbors'"),
    ({"n_neighbors": 20, "n_landmarks": 20}, "'n_neighbors'.*below the number of landmarks, 20"),
    ({"max_iter": 0}, "'max_iter'"),
    ({"n_init": 0}, "'n_init'"),
    ({"tol": -1}, "'tol'"),
    ({"tol": float("nan")}, "'tol'"),
    ({"n_components": 0}, "'n_components'"),
    ({"block_size": 0}, "'block_size'"),
    ({"guide": "sine"}, "'guide'.*'cosine', 'inner'.*Got 'sine'"),
    ({"neighbors": "both"}, "'neighbors'"),
    ({"assign_labels": "discretize"}, "'assign_labels'"),
    ({"landmarks": "grid"}, "'landmarks'"),
    ({"landmarks": [0, 1]}, "'landmarks'.*at least n_clusters=3"),
    ({"landmarks": 5}, "'landmarks'.*Got 5"),
    ({"landmarks": None}, "'landmarks'.*Got None"),
    ({"n_neighbors": []}, "'n_neighbors'"),
    ({"n_neighbors": [5, 5]}, "'n_neighbors'.*different"),
    ({"n_jobs": 0}, "'n_jobs'"),
    ({"n_jobs": "2"}, "'n_jobs'"),
    ({"concatenation": "no"}, "'concatenation'"),
    ({"store_embedding": "no"}, "'store_embedding'"),
    ({"drop_first": "x"}, "'drop_first'"),
    ({"dtype": "foo"}, "'dtype'"),
    ({"view_weights": "learned"}, "'view_weights'.*'auto'"),
    ({"view_weights": [1, -1]}, "'view_weights'"),
    ({"landmarks": [0, 1, 120]}, "'landmarks'.*from 0 to 119"),
    ({"landmarks": [-1, 1, 5]}, "'landmarks'.*from 0 to 119"),
    ({"landmarks": [5, 5, 6]}, "'landmarks'.*row 5 is repeated"),
    ({"landmarks": [0.5, 1.5, 2.5]}, "'landmarks'.*row numbers"),
    ({"bandwidth": 0}, "'bandwidth'"),
    ({"bandwidth": -1.0}, "'bandwidth'"),
    ({"bandwidth": "wide"}, "'bandwidth'"),
    ({"scaling": "minmax"}, "'scaling'"),
    ({"scaling": ["block"]}, "'scaling'.*list of 2"),
    ({"scaling": {"nobody": "block"}}, "'scaling'.*view0, view1"),
    ({"metric": "manhattan"}, "'metric'"),
    ({"dtype": "int32"}, "'dtype'"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS, ids=str)
def test_bad_parameters(good, parameters, message):
    with pytest.raises(ValueError, match=message):
        GuidedCoTraining(**{"n_clusters": 3, **parameters}).fit(good)


def test_bad_column_groups():
    X = np.zeros((20, 4))
    for groups, message in (
        ({"a": slice(0, 2), "b": [3, 4]}, "'b'.*past the 4 columns"),
        ({"a": ["width"]}, "'a'.*no column names"),
        ({"a": slice(2, 2)}, "'a'.*0 feature"),
    ):
        with pytest.raises(ValueError, match=message):
            GuidedCoTraining(2, views=groups).fit(X)
    with pytest.raises(ValueError, match="one table"):
        GuidedCoTraining(2, views={"a": [0]}).fit([X, X])


def test_more_clusters_than_distinct_rows():
    X = np.repeat(np.eye(3), 20, axis=0)
    with pytest.raises(ValueError, match="3 distinct rows, fewer than n_clusters=5"):
        GuidedCoTraining(5).fit([X, X])


def test_new_rows_with_other_columns(good):
    model = GuidedCoTraining(3, random_state=0).fit(good)
    with pytest.raises(ValueError, match=r"'view1' has 3 columns, but it had 4"):
        model.predict(changed(good, view1=good["view1"][:, :3]))
    with pytest.raises(ValueError, match=r"'view2' was not in the fit.*view0, view1"):
        model.predict(changed(good, view2=good["view1"]))
    with pytest.raises(ValueError, match=r"1 view, but the fit had 2: view0, view1\. .* name it: {'view0': X}"):
        model.predict(good["view0"])
    with pytest.raises(ValueError, match="3 views, but the fit had 2"):
        model.predict([*good.values(), good["view0"]])
    with pytest.raises(ValueError, match="no view at all"):
        model.predict({})


def test_predict_before_fit(good):
    for method in ("predict", "transform"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(GuidedCoTraining(3), method)(good)


@pytest.mark.parametrize("X", [[], {}, None, 3.0, "abc"], ids=str)
def test_not_tables_at_all(X):
    with pytest.raises(ValueError):  # noqa: PT011 - the text differs, the class must not
        GuidedCoTraining(2).fit(X)


def labels_are_complete(model, n, k):
    assert model.labels_.shape == (n,)
    assert set(model.labels_.tolist()) <= set(range(k))
    assert np.isfinite(model._fitted.row_map.basis.bases).all()


def test_constant_columns_and_views(good):
    views = {
        **{name: np.column_stack([view, np.full(120, 7.0)]) for name, view in good.items()},
        "flat": np.full((120, 3), 2.5),
        "zero": np.zeros((120, 2), dtype=int),
        "empty": sparse.csr_array((120, 4)),
    }
    for scaling in ("half", "block", "standard", "none"):
        model = GuidedCoTraining(3, scaling=scaling, random_state=0).fit(views)
        labels_are_complete(model, 120, 3)
        np.testing.assert_array_equal(model.predict(views), model.labels_)


def test_duplicate_rows(good):
    views = {name: np.repeat(view[:15], 8, axis=0) for name, view in good.items()}
    with pytest.warns(UserWarning, match="Only 15 rows are distinct"):
        model = GuidedCoTraining(3, n_landmarks=60, random_state=0).fit(views)
    labels_are_complete(model, 120, 3)
    for row in range(15):
        assert len(set(model.labels_[8 * row : 8 * row + 8])) == 1


@pytest.mark.parametrize("n", [3, 4, 5, 8])
def test_few_more_rows_than_clusters(good, n):
    views = {name: view[:n] for name, view in good.items()}
    model = GuidedCoTraining(3, random_state=0).fit(views)
    labels_are_complete(model, n, 3)


def test_one_cluster_and_one_column(good):
    model = GuidedCoTraining(1, random_state=0).fit({name: v[:, :1] for name, v in good.items()})
    assert set(model.labels_) == {0}


@pytest.mark.filterwarnings("ignore:.* rows are zero in the embedding")
def test_disconnected_graph_and_unused_landmarks():
    """Far more components than clusters, and landmarks that are nobody's neighbour but their own."""
    rng = np.random.default_rng(0)
    X = np.repeat(100 * np.arange(20)[:, None], 15, axis=0) + rng.standard_normal((300, 2))
    for drop_first in (False, True):
        model = GuidedCoTraining(4, n_neighbors=2, n_landmarks=100, drop_first=drop_first, random_state=0)
        labels_are_complete(model.fit([X, X[:, ::-1]]), 300, 4)


def test_rank_below_the_number_of_components(good):
    model = GuidedCoTraining(3, n_landmarks=5, n_neighbors=2, n_components=12, random_state=0)
    labels_are_complete(model.fit(good), 120, 3)


def test_rows_far_from_everything(good):
    views = {name: view.astype(float) for name, view in good.items()}
    views["view0"][3] = 1e12
    model = GuidedCoTraining(3, random_state=0).fit(views)
    labels_are_complete(model, 120, 3)
