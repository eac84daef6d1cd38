"""A fitted model: what it publishes, and what it is asked for new rows."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import coterie
from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.model import Fitted, attributes_of_a_fit, fitted_of
from coterie.placement import BlockPlan


@pytest.fixture(scope="module")
def views():
    return make_views(240, 3, separation=6, random_state=0).views


@pytest.fixture
def model(views):
    return GuidedCoTraining(3, random_state=0, n_landmarks=60).fit(views)


def test_every_field_is_an_attribute():
    own = {known.field for known in attributes_of_a_fit().values()}
    assert own == {field.name for field in fields(Fitted)} - {"n_rows"}
    assert all(name.endswith("_") != name.startswith("_") for name in attributes_of_a_fit())


def test_attributes_are_those_of_the_docstring(views):
    """Each published attribute is documented, and each documented one is published."""
    text = GuidedCoTraining.__doc__.split("Attributes\n")[1].split("Examples\n")[0]
    documented = {
        line.split(" : ")[0].strip() for line in text.splitlines() if line.startswith("    ") and " : " in line
    }
    published = {name for name in attributes_of_a_fit() if not name.startswith("_")}
    assert published - documented == {"n_features_in_", "feature_names_in_"}  # scikit-learn's own
    computed = {name for name, value in vars(GuidedCoTraining).items() if isinstance(value, property)}
    assert documented <= published | computed


def test_an_estimator_publishes_what_its_model_has(model):
    fitted = fitted_of(model)
    published = fitted.published()
    assert set(published) <= set(dir(model))
    for name in published:
        assert getattr(model, name) is getattr(fitted, name.removesuffix("_"))
    assert {"labels_", "row_ids_", "stability_"} <= set(published)
    for name in ("embedding_", "k_suggestion_", "n_features_in_", "_row_map"):
        assert name not in published
        with pytest.raises(AttributeError, match=f"has no attribute {name!r}"):
            getattr(model, name)


def test_it_says_why_an_attribute_is_lacking(model, tmp_path):
    with pytest.raises(AttributeError, match=r"'labels_': call 'fit' first"):
        _ = GuidedCoTraining(3).labels_
    with pytest.raises(AttributeError, match=r"'embedding_': fit with store_embedding=True, or call 'transform'"):
        _ = model.embedding_
    loaded = coterie.load(coterie.save(model, tmp_path / "m.coterie"))
    with pytest.raises(AttributeError, match=r"'labels_': .* saved with rows=True"):
        _ = loaded.labels_
    with pytest.raises(AttributeError, match=r"has no attribute 'lables_'$"):
        _ = model.lables_


def test_before_a_fit_there_is_nothing():
    model = GuidedCoTraining(3)
    assert not any(hasattr(model, name) for name in attributes_of_a_fit())
    assert "labels_" not in dir(model)
    with pytest.raises(NotFittedError):
        fitted_of(model)


def test_a_refit_leaves_nothing_of_the_fit_before(model, views):
    model.set_params(store_embedding=True, n_clusters="auto").fit(views["view0"])
    assert {"embedding_", "k_suggestion_", "n_features_in_"} <= set(dir(model))
    model.set_params(store_embedding=False, n_clusters=3, measure_stability=False).fit(views)
    for name in ("embedding_", "k_suggestion_", "n_features_in_", "stability_", "cluster_stability_"):
        assert not hasattr(model, name)


def test_attributes_that_were_set_by_hand_end_with_the_next_fit(model, views):
    model.labels_ = np.zeros(3)
    assert model.labels_.shape == (3,)
    assert model.fit(views).labels_.shape == (240,)


def test_output_settings_stay(model, views):
    model.set_output(transform="pandas").fit(views)
    assert list(model.transform(views).columns) == ["guidedcotraining0", "guidedcotraining1", "guidedcotraining2"]


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_predict_the_same(model, views, again):
    found = again(model)
    np.testing.assert_array_equal(found.predict(views), model.labels_)
    np.testing.assert_array_equal(found.labels_, model.labels_)


def test_a_model_cannot_be_changed(model):
    with pytest.raises(FrozenInstanceError):
        fitted_of(model).labels = None


def test_a_model_works_without_an_estimator(model, views):
    fitted = fitted_of(model)
    rows, plan = fitted.read(views, "cpu"), BlockPlan(100)
    np.testing.assert_array_equal(fitted.predict(rows, plan), model.labels_)
    # In blocks of another size: some processors' BLAS rounds a row by its position among the others.
    np.testing.assert_allclose(fitted.confidence_of(rows, plan), model.confidence_, atol=1e-6)
    np.testing.assert_allclose(fitted.transform(rows, plan), model.transform(views), atol=1e-6)
    np.testing.assert_array_equal(fitted.view_labels(rows, plan), model.view_labels(views))
    parts = list(fitted.stream(rows, plan))
    assert [part.first_row for part in parts] == [0, 100, 200]
    np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), model.labels_)


def test_rows_can_be_explained_a_few_at_a_time(model, views):
    fitted = fitted_of(model)
    embedding, by_view = fitted.explain_rows(fitted.read(views, "cpu").read(np.array([3, 5, 200])))
    np.testing.assert_allclose(embedding, model.transform(views)[[3, 5, 200]], atol=1e-6)
    np.testing.assert_array_equal(by_view, model.view_labels(views)[[3, 5, 200]])


def test_a_model_without_rows_lacks_their_attributes(model, views):
    fitted = replace(fitted_of(model), labels=None, confidence=None, row_ids=None)
    assert not fitted.has_rows
    assert not {"labels_", "confidence_", "row_ids_"} & set(fitted.published())
    np.testing.assert_array_equal(fitted.predict(fitted.read(views, "cpu"), BlockPlan()), model.labels_)


def test_one_table_has_features(views):
    import pandas as pd

    frame = pd.DataFrame(views["view0"], columns=[f"c{i}" for i in range(views["view0"].shape[1])])
    model = GuidedCoTraining(3, random_state=0, n_landmarks=60).fit(frame)
    assert model.n_features_in_ == frame.shape[1]
    assert model.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"c0": "other"}))


def test_frames_of_predictions_have_the_rows_ids(views):
    import pandas as pd

    ids = [f"row{i}" for i in range(240)]
    first, second = (pd.DataFrame(views[name], index=ids) for name in ("view0", "view1"))
    model = GuidedCoTraining(3, random_state=0, n_landmarks=60).fit({"a": first, "b": second.iloc[::-1]})
    found = model.predict_frame({"a": first.iloc[5:9], "b": second.iloc[7:12]})
    assert found.index.tolist() == [f"row{i}" for i in range(5, 12)]
    assert list(found.columns) == ["label", "confidence", "novelty"]
    whole = model.predict_frame({"a": first, "b": second})
    np.testing.assert_array_equal(whole["label"], model.labels_)
    np.testing.assert_array_equal(whole["confidence"], model.confidence_)
    none = model.predict_frame({"a": first.iloc[:0], "b": second.iloc[:0]})
    assert none.shape == (0, 3)
    assert none.dtypes.equals(whole.dtypes)


@pytest.mark.filterwarnings("ignore:Only . of 3 clusters hold rows")
def test_graphs_agree_with_themselves_where_each_has_one_vector(views):
    """That vector is the constant one, which is left out only where there are others."""
    for model in (GuidedCoTraining(3, basis="subspace", n_components=1), GuidedCoTraining.as_published(1)):
        found = model.set_params(n_landmarks=50, random_state=0).fit(views).graph_agreement_
        np.testing.assert_allclose(found.diagonal(), 1)
