"""scikit-learn's contract, and what importing the package may cost."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import coterie
from coterie import GuidedCoTraining
from coterie.datasets import make_views

# They weight rows in another order than they repeat them in, with weights of zero; what is drawn follows the order.
# test_model_selection.py compares weights with rows that are repeated in place.
REORDERED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "landmarks are drawn by row number, and the rows are shuffled"
    for kind in ("dense", "sparse")
}


@pytest.mark.filterwarnings("ignore:Only . of . clusters hold rows")  # the checks' data can be as small as that
@parametrize_with_checks(
    [GuidedCoTraining(3), GuidedCoTraining.as_published(3)], expected_failed_checks=lambda estimator: REORDERED
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_is_light():
    code = """
import sys
import coterie, coterie.datasets, coterie.features, coterie.formats
assert set(coterie.__all__) <= set(dir(coterie))
print([name for name in ("numpy", "scipy", "sklearn", "numba", "torch", "matplotlib", "pandas") if name in sys.modules])
"""
    assert run_python(code).strip() == "[]"


def test_using_the_estimator_loads_no_heavy_library():
    code = """
import sys
from coterie import GuidedCoTraining, datasets
GuidedCoTraining(2).fit(datasets.make_views(50, 2).views)
print([name for name in ("torch", "dask", "matplotlib", "skimage", "pooch") if name in sys.modules])
"""
    assert run_python(code).strip() == "[]"


def test_public_names_exist():
    for package in (coterie, coterie.datasets, coterie.features, coterie.formats):
        for name in package.__all__:
            assert getattr(package, name) is not None
        assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = coterie.nonsense


def test_clone_and_parameters():
    model = GuidedCoTraining(4, n_neighbors=5, landmarks="random")
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(n_clusters=7).n_clusters == 7


def test_pipeline_and_set_output():
    X = make_views(200, 3, n_columns=6, random_state=0).views["view0"]
    pipeline = make_pipeline(StandardScaler(), GuidedCoTraining(3, random_state=0))
    labels = pipeline.fit_predict(X)
    np.testing.assert_array_equal(pipeline.predict(X), labels)
    frame = GuidedCoTraining(3, random_state=0).set_output(transform="pandas").fit(X).transform(X)
    assert list(frame.columns) == [f"guidedcotraining{c}" for c in range(3)]


def test_verbose_tells_stages_and_rounds(capsys):
    views = make_views(200, 3, random_state=0).views
    model = GuidedCoTraining(3, verbose=1, random_state=0).fit(views)
    lines = capsys.readouterr().err
    for word in ("landmarks", "graphs", "round 1", "agreement", "assignment"):
        assert word in lines
    assert set(model.timings_) >= {"landmarks", "graphs", "rounds", "assignment", "total"}
    assert len(model.history_) == model.n_iter_


def test_as_published_takes_overrides():
    model = GuidedCoTraining.as_published(10, n_landmarks=50)
    assert (model.n_landmarks, model.guide, model.bandwidth) == (50, "inner", "median")
