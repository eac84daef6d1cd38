"""Columns by pattern, and columns of new rows by name."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy import sparse
from sklearn.compose import make_column_selector

from coterie import GuidedCoTraining, load, save
from coterie.datasets import make_views
from coterie.formats import write_table
from coterie.peers import ConcatKMeans
from coterie.serving import BatchPredictor
from coterie.views import as_views


@pytest.fixture(scope="module")
def data():
    return make_views(120, 3, n_columns=(5, 4), separation=5, random_state=0)


@pytest.fixture(scope="module")
def frame(data):
    """t0 to t4, i0 to i3, and a name that belongs to no view."""
    text, image = (pd.DataFrame(view.astype(np.float64)) for view in data.views.values())
    found = pd.concat([text.add_prefix("t"), image.add_prefix("i")], axis=1)
    return found.assign(note=[f"row {i}" for i in range(120)])


def fit(X, **settings):
    return GuidedCoTraining(3, n_landmarks=40, random_state=0, **settings).fit(X)


PATTERNS = {"text": "t*", "image": ["i0", "i?"]}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_views_by_pattern(data, frame, kind):
    views = as_views(kind(frame), PATTERNS)
    assert [view.columns for view in views] == [("t0", "t1", "t2", "t3", "t4"), ("i0", "i1", "i2", "i3")]
    for view, expected in zip(views, data.views.values(), strict=True):
        np.testing.assert_array_equal(view.read(slice(None)).data, expected)


def test_views_by_callable(frame, tmp_path):
    views = {"text": make_column_selector("^t"), "image": lambda X: [c for c in X.columns if c.startswith("i")]}
    model = fit(frame, views=views)
    np.testing.assert_array_equal(model.labels_, fit(frame, views=PATTERNS).labels_)
    again = load(save(model.set_params(views=None), tmp_path / "m.coterie"))  # what a callable chose is in the file
    np.testing.assert_array_equal(again.predict(frame), model.labels_)
    array = frame.drop(columns="note").to_numpy()
    by_number = fit(array, views={"text": lambda X: np.arange(5), "image": lambda X: slice(5, X.shape[1])})
    np.testing.assert_array_equal(by_number.labels_, model.labels_)


def test_what_matches_nothing_is_named(frame):
    with pytest.raises(ValueError, match=r"views\['text'\]: 'x\*' matches no column of X, which has 't0'.* and 4 more"):
        fit(frame, views={"text": "x*"})
    with pytest.raises(ValueError, match=r"views\['text'\]: 'age' is no column of X.* dict of views"):
        fit(frame, views={"text": ["t0", "age"]})


def test_new_columns_are_matched_by_name(data, frame):
    """Reordered ones are put right, others are left out with a word, missing ones are an error."""
    model = fit(frame, views=PATTERNS)
    np.testing.assert_array_equal(model.predict(frame.iloc[:, ::-1]), model.labels_)
    for new in (1.0, "text, which is no number"):
        with pytest.warns(UserWarning, match="'text' has columns that the fit did not have.*'t_new'"):
            found = fit({"text": frame[["t0", "t1"]]}).predict({"text": frame[["t1", "t0"]].assign(t_new=new)})
        assert len(found) == 120
    with pytest.raises(ValueError, match=r"'i\?' matches no column|is no column of X"):
        model.predict(frame.drop(columns="i3"))
    frames = {name: frame.filter(regex=f"^{name[0]}") for name in ("text", "image")}
    model = fit(frames)
    reordered = {"image": frames["image"].iloc[:, ::-1], "text": pl.from_pandas(frames["text"].iloc[:, ::-1])}
    np.testing.assert_array_equal(model.predict(reordered), model.labels_)
    with pytest.raises(ValueError, match=r"'image' lacks 1 of the fit's 4 columns: 'i2'\. It has 'i0', 'i1', 'i3'"):
        model.predict({"image": frames["image"].drop(columns="i2")})
    sparse_frame = pd.DataFrame.sparse.from_spmatrix(sparse.csr_array(data.views["view1"]), columns=list("abcd"))
    model = fit(sparse_frame.rename(columns=str)[list("abcd")])
    with pytest.raises(ValueError, match="same order"):  # scikit-learn's rule for one table
        model.predict(sparse_frame[list("dcba")])


def test_frames_whose_columns_have_other_names_are_refused_with_both(frame):
    model = fit({"text": frame[["t0", "t1"]]})
    with pytest.raises(ValueError, match=r"'text' lacks 2 of the fit's 2 columns: 't0', 't1'\. It has '0', '1'"):
        model.predict({"text": pd.DataFrame(frame[["t0", "t1"]].to_numpy())})
    with pytest.raises(ValueError, match=r"lacks 1 of the fit's 2 columns: 't1'\. It has 't0', 'T1', 'note'"):
        model.predict({"text": frame[["t0", "t1", "note"]].rename(columns={"t1": "T1"})})


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_names_of_columns_may_repeat(data):
    """scikit-learn would refuse them."""
    twice = pd.DataFrame(data.views["view0"], columns=["a", "a", "b", "b", "c"])
    for X in (twice, [twice, data.views["view1"]]):
        model = fit(X)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
    labels = ConcatKMeans(3, random_state=0).fit(twice).labels_
    np.testing.assert_array_equal(ConcatKMeans(3, random_state=0).fit(twice.to_numpy()).labels_, labels)


def test_names_of_columns_may_be_numbers(data, tmp_path):
    """A fit knows them as text, and pandas does not take text for them."""
    frame = pd.DataFrame(np.hstack(list(data.views.values())))
    model = fit(frame, views={"text": slice(0, 5), "image": [5, 6, 7, 8]})
    np.testing.assert_array_equal(model.predict(frame.iloc[:, ::-1]), model.labels_)
    np.testing.assert_array_equal(
        fit(frame, views={"text": list("01234"), "image": list("5678")}).labels_, model.labels_
    )
    batches = BatchPredictor(save(model, tmp_path / "m.coterie"), keep=["8"])
    np.testing.assert_array_equal(batches(frame)["label"], model.labels_)
    lone = fit({"text": frame[[0, 1]]})
    with pytest.warns(UserWarning, match="left out: '2'"):
        found = lone.predict({"text": frame[[2, 1, 0]]})
    np.testing.assert_array_equal(found, lone.labels_)


def test_a_row_that_only_other_columns_know_lacks_the_view(frame):
    frames = {"text": frame.filter(regex="^t"), "image": frame.filter(regex="^i")}
    model = fit(frames)
    new = frames["text"].assign(other=1.0)
    new.iloc[3, :5] = np.nan
    with pytest.warns(UserWarning, match="left out: 'other'"):
        found = model.predict({"text": new})
    assert found[3] == -1
    assert (np.delete(found, 3) >= 0).all()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.Table.from_pylist])
def test_a_view_of_missing_values_alone_is_lacking(frame, kind, tmp_path):
    """In pandas, such columns hold objects."""
    model = fit(frame, views=PATTERNS)
    rows = frame.filter(regex="^[ti]").iloc[:3].astype(object)
    rows[["i0", "i1", "i2", "i3"]] = None
    expected = model.predict({"text": frame.filter(regex="^t").iloc[:3]})
    for found in (model.predict, lambda X: BatchPredictor(save(model, tmp_path / "m.coterie"))(X)["label"]):
        np.testing.assert_array_equal(found(kind(rows.to_dict("records"))), expected)
    with pytest.raises(ValueError, match="view 'text', row 0 and 2 more near it"):
        model.predict(kind(rows.assign(t0=None).to_dict("records")))


def test_columns_of_dask_frames_are_matched_too(frame):
    dask = pytest.importorskip("dask.dataframe", reason="needs pip install coterie[dask]")
    frames = {name: frame.filter(regex=f"^{name[0]}") for name in ("text", "image")}
    model = fit(frames)
    new = {name: dask.from_pandas(own.iloc[:, ::-1], npartitions=2) for name, own in frames.items()}
    np.testing.assert_array_equal(model.predict(new).compute(), model.labels_)
    split = as_views(dask.from_pandas(frame, npartitions=2), PATTERNS)
    assert [view.columns for view in split] == [("t0", "t1", "t2", "t3", "t4"), ("i0", "i1", "i2", "i3")]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_patterns_in_files(data, frame, tmp_path, suffix):
    path = tmp_path / f"all.{suffix}"
    write_table(path, {name: frame[name].to_numpy() for name in frame if name != "note"})
    by_spec = fit([f"text={path}[t*]", f"image={path}[i0,i?]"])
    assert [len(shape.columns) for shape in by_spec._fitted.shapes] == [5, 4]  # what is named twice is there once
    model = fit(path, views={"text": "t*", "image": "i*"})
    np.testing.assert_array_equal(model.labels_, fit(frame, views={"text": "t*", "image": "i*"}).labels_)
    np.testing.assert_array_equal(model.predict(path), model.labels_)
    write_table(tmp_path / f"new.{suffix}", {name: frame[name].to_numpy() for name in reversed(list(frame)[:-1])})
    np.testing.assert_array_equal(model.predict(tmp_path / f"new.{suffix}"), model.labels_)
    with pytest.raises(ValueError, match=r"has no column 'x\*'"):
        fit(f"{path}[x*]")


def test_lists_in_files_are_chosen_by_name(data, tmp_path):
    table = pa.table({"size": data.views["view1"][:, 0], "embedding": list(data.views["view0"])})
    pa.parquet.write_table(table, tmp_path / "all.parquet")
    model = fit([f"{tmp_path}/all.parquet[embedding]"])
    np.testing.assert_array_equal(model.labels_, fit(data.views["view0"]).labels_)
    both = fit(tmp_path / "all.parquet", views={"text": "emb*", "size": "size"})
    assert [shape.n_columns for shape in both._fitted.shapes] == [5, 1]


def test_only_columns_of_text_are_counted_as_such():
    """Lists of numbers beside them are columns like others."""
    frame = pd.DataFrame({"id": ["a", "b"], "embedding": [[1.0, 2.0], [3.0, 4.0]], "title": ["x", "y"], "x": [1, 2]})
    with pytest.raises(ValueError, match=r"column 'id' and 1 more \("):
        GuidedCoTraining(2).fit(frame)
    with pytest.raises(ValueError, match=r"column 'title' \("):
        GuidedCoTraining(2, id_column="id").fit(frame)
    with pytest.raises(ValueError, match=r"column 'title' and 1 more \("):
        GuidedCoTraining(2).fit(frame.drop(columns="id").assign(day=pd.Timestamp("2026-01-01")))
