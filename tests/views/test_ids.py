"""Ids stay with their rows: frames of every library, files, and what a model returns for them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from coterie import GuidedCoTraining, load, save
from coterie.datasets import make_views
from coterie.formats import write_table

N = 120
IDS = np.array([f"row{i}" for i in range(N)])


@pytest.fixture(scope="module")
def frames():
    """Two views; the second lacks every fourth row and has the others backwards."""
    data = make_views(N, 3, n_columns=(5, 4), separation=5, random_state=0)
    text, image = (pd.DataFrame(view.astype(np.float64)).add_prefix("c") for view in data.views.values())
    kept = np.delete(np.arange(N), np.arange(0, N, 4))[::-1]
    return {"text": text.assign(id=IDS), "image": image.assign(id=IDS).iloc[kept]}


@pytest.fixture(scope="module")
def by_index(frames):
    return fit({name: frame.set_index("id") for name, frame in frames.items()})


def fit(X, **settings):
    return GuidedCoTraining(3, n_landmarks=40, random_state=0, **settings).fit(X)


def in_kind(frames, kind, folder):
    if kind in ("csv", "parquet"):
        for name, frame in frames.items():
            values = {column: frame[column].to_numpy() for column in frame if column != "id"}
            write_table(folder / f"{name}.{kind}", values, ids=frame["id"].to_numpy(dtype=str))
        return {name: folder / f"{name}.{kind}" for name in frames}
    make = {"pandas": pd.DataFrame, "polars": pl.from_pandas, "arrow": pa.Table.from_pandas}[kind]
    return {name: make(frame.reset_index(drop=True)) for name, frame in frames.items()}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "csv", "parquet"])
def test_an_id_column(frames, by_index, kind, tmp_path):
    given = in_kind(frames, kind, tmp_path)
    model = fit(given, id_column="id")
    assert model.row_ids_.tolist() == IDS.tolist()
    np.testing.assert_array_equal(model.labels_, by_index.labels_)
    found = model.predict_frame(given)
    assert found.index.tolist() == IDS.tolist()
    np.testing.assert_array_equal(found["label"], model.labels_)
    again = load(save(model, tmp_path / "m.coterie"))  # the file knows the column of ids
    pd.testing.assert_frame_equal(again.predict_frame(given), found, check_exact=False, atol=1e-5)


def test_names_of_columns_beside_the_ids_may_be_numbers(frames, by_index):
    """pandas.DataFrame(array) with a column of ids beside has them."""
    numbered = {
        name: frame.rename(columns={c: int(c[1:]) for c in frame if c != "id"}) for name, frame in frames.items()
    }
    found = fit(numbered, id_column="id")
    np.testing.assert_array_equal(found.labels_, by_index.labels_)
    np.testing.assert_array_equal(found.predict(numbered), found.labels_)


def test_frames_and_files_are_matched_with_each_other(frames, by_index, tmp_path):
    files = in_kind(frames, "parquet", tmp_path)
    mixed = fit({"text": pl.from_pandas(frames["text"]), "image": files["image"]}, id_column="id")
    np.testing.assert_array_equal(mixed.labels_, by_index.labels_)
    assert mixed.row_ids_.tolist() == IDS.tolist()
    numbered = {name: frame.assign(id=frame["id"].str[3:].astype(int)) for name, frame in frames.items()}
    assert fit(numbered, id_column="id").row_ids_.tolist() == list(range(N))


def test_an_index_is_matched_with_the_ids_of_a_file(frames, by_index, tmp_path):
    """Whoever has ids is matched by them; rows without any stay in place as long as the others' ids are the same."""
    text, image = (frame.set_index("id") for frame in frames.values())
    image.to_parquet(tmp_path / "image.parquet")
    mixed = {"text": text, "image": tmp_path / "image.parquet"}
    model = fit(mixed)
    np.testing.assert_array_equal(model.labels_, by_index.labels_)
    assert model.row_ids_.tolist() == IDS.tolist()
    np.testing.assert_array_equal(by_index.predict(mixed), by_index.labels_)
    text[::-1].to_parquet(tmp_path / "text.parquet")
    with pytest.raises(ValueError, match="different indexes, and view 'more' has none to match its rows by"):
        fit({"text": text, "back": tmp_path / "text.parquet", "more": np.ones((N, 2))})
    placed = fit({"text": tmp_path / "text.parquet", "more": text.to_numpy()[::-1]})
    again = fit({"text": text.to_numpy()[::-1], "more": text.to_numpy()[::-1]})
    np.testing.assert_array_equal(placed.labels_, again.labels_)


def test_row_numbers_of_a_frame_are_matched_with_those_of_a_file(frames, tmp_path):
    """As if the file had been read: the same rows, in another order, went to other rows."""
    text, _ = (frame.drop(columns="id") for frame in frames.values())
    moved = text.add_prefix("m").sample(frac=1, random_state=0)
    moved.to_parquet(tmp_path / "moved.parquet")
    mixed, read = {"text": text, "moved": tmp_path / "moved.parquet"}, {"text": text, "moved": moved}
    model = fit(mixed)
    np.testing.assert_array_equal(model.confidence_, fit(read).confidence_)
    assert model.row_ids_.tolist() == list(range(N))
    np.testing.assert_array_equal(model.predict(mixed), model.labels_)
    text.to_csv(tmp_path / "text.csv")  # its ids are row numbers
    found = fit({"text": tmp_path / "text.csv", "moved": moved})
    np.testing.assert_allclose(found.confidence_, model.confidence_, atol=1e-5)
    with pytest.raises(ValueError, match="default row numbers"):
        fit({**mixed, "short": text[:90]})
    moved.set_index(np.arange(N) + 1000).to_parquet(tmp_path / "moved.parquet")
    with pytest.raises(ValueError, match=r"no row id in common with .* its first is '0', and there it is '1000'"):
        fit(mixed)


def test_one_table_with_ids_and_views(frames, tmp_path):
    text = frames["text"]
    groups = {"left": "c[0]", "some": "c?"}
    for X in (text, pl.from_pandas(text)):
        model = fit(X, id_column="id", views={"left": ["c0", "c1"], "right": ["c2", "c3", "c4"]})
        assert model.row_ids_.tolist() == IDS.tolist()
        np.testing.assert_array_equal(model.predict(X[list(reversed(text.columns))]), model.labels_)
    short = text.rename(columns={"c0": "i0", "c1": "i1"})
    model = fit(short, id_column="id", views={"left": "i*", "right": "c*"})  # the pattern matches "id" too
    assert [shape.columns for shape in model._fitted.shapes] == [("i0", "i1"), ("c2", "c3", "c4")]
    np.testing.assert_array_equal(model.predict(short), model.labels_)
    path = in_kind(frames, "parquet", tmp_path)["text"]
    model = fit(path, id_column="id", views={"left": "c0", "right": ["c2", "c3"]})
    assert model.row_ids_.tolist() == IDS.tolist()
    with pytest.raises(ValueError, match=r"'c\[0\]' is no column"):
        fit(text, id_column="id", views=groups)


def test_what_is_no_id(frames):
    with pytest.raises(ValueError, match="View 'image' has no column 'id', which id_column names"):
        fit({**frames, "image": frames["image"].drop(columns="id")}, id_column="id")
    with pytest.raises(ValueError, match="view 'image' has none to match its rows by"):
        fit({"text": frames["text"], "image": np.ones((N, 3))}, id_column="id")
    with pytest.raises(ValueError, match=r"View 'text' has the row id 'row0' more than once"):
        fit({**frames, "text": frames["text"].assign(id="row0")}, id_column="id")
    with pytest.raises(ValueError, match="View 'text' has no id in row 2"):
        fit({**frames, "text": frames["text"].assign(id=[*IDS[:2], None, *IDS[3:]])}, id_column="id")
    unnamed = frames["text"].assign(id=[*IDS[:2], None, *IDS[3:]]).set_index("id")
    with pytest.raises(ValueError, match="View 'text' has no id in row 2"):
        fit({**frames, "text": unnamed}, id_column="id")


@pytest.mark.parametrize("lacking", [None, np.nan, ""])
def test_rows_that_an_index_does_not_name_are_refused(frames, lacking):
    """As they are in a column of ids: what has no name in one frame need not be what has none in another."""
    unnamed = frames["text"].assign(id=[*IDS[:2], lacking, *IDS[3:]]).set_index("id")
    with pytest.raises(ValueError, match="View 'text' has no id in row 2"):
        fit({"text": unnamed, "image": unnamed.iloc[::-1]})


def test_two_columns_of_ids_are_refused(frames):
    twice = frames["text"].rename(columns={"c0": "id"})
    with pytest.raises(ValueError, match="View 'text' has two columns 'id', which id_column names"):
        fit({**frames, "text": twice}, id_column="id")


@pytest.mark.parametrize("way", ["index", "id_column"])
def test_large_ids_of_unlike_types_are_told_apart(frames, by_index, way, tmp_path):
    """What int64, uint64 and float64 have in common is exact only up to 2^53."""
    numbered = {name: frame.assign(id=frame["id"].str[3:].astype(np.int64) + 2**60) for name, frame in frames.items()}
    numbered["image"] = numbered["image"].astype({"id": np.uint64})
    given = numbered if way == "id_column" else {name: frame.set_index("id") for name, frame in numbered.items()}
    model = fit(given, id_column="id" if way == "id_column" else None)
    assert [int(row) for row in model.row_ids_] == [2**60 + i for i in range(N)]
    np.testing.assert_array_equal(model.labels_, by_index.labels_)
    kept = load(save(model, tmp_path / "m.coterie", rows=True))
    assert kept.row_ids_.tolist() == model.row_ids_.tolist()


def test_set_output_gives_ids_too(frames, by_index):
    given = {name: frame.set_index("id") for name, frame in frames.items()}
    model = fit(given).set_output(transform="pandas")
    labels = model.predict(given)
    assert (labels.name, labels.index.tolist()) == ("cluster", IDS.tolist())
    np.testing.assert_array_equal(labels, by_index.labels_)
    np.testing.assert_array_equal(model.fit_predict(given), labels)
    embedding = model.transform(given)
    assert embedding.index.tolist() == IDS.tolist()
    assert embedding.columns.tolist() == [f"guidedcotraining{j}" for j in range(3)]
    found = model.set_output(transform="polars").predict(given)
    assert found.columns == ["id", "cluster"]
    assert found["id"].to_list() == IDS.tolist()
    assert isinstance(model.set_output(transform="default").predict(given), np.ndarray)
    plain = fit(frames["text"].drop(columns="id").to_numpy()).set_output(transform="polars")
    assert plain.predict(frames["text"].drop(columns="id").to_numpy()).name == "cluster"


def test_a_row_without_any_view_has_no_label(frames, by_index, tmp_path):
    """New rows get -1, in memory and in files; a fit refuses them."""
    given = {name: frame.set_index("id") for name, frame in frames.items()}
    given["text"] = given["text"].copy()
    given["text"].iloc[[4, 5]] = np.nan  # the image of row 4 is missing too
    labels = by_index.predict(given)
    assert np.flatnonzero(labels < 0).tolist() == [4]
    assert np.isnan(by_index.memberships(given)[4]).all()
    np.testing.assert_allclose(np.delete(by_index.memberships(given), 4, axis=0).sum(axis=1), 1, rtol=1e-6)
    files = in_kind({name: frame.reset_index() for name, frame in given.items()}, "parquet", tmp_path)
    by_file = fit(in_kind(frames, "polars", tmp_path), id_column="id")
    np.testing.assert_array_equal(by_file.predict(files), labels)
    with pytest.raises(ValueError, match="NaN throughout in 1 rows \\(the first is row 'row4'\\)"):
        fit(given)
    with pytest.raises(ValueError, match="Every view is NaN throughout in row 4"):
        fit(files, id_column="id")


def test_lists_in_a_file_may_be_missing(frames, tmp_path):
    """A row without an embedding lacks the view."""
    rows = frames["text"][[f"c{j}" for j in range(5)]].to_numpy()
    lists = [None if i in (0, 7) else list(row) for i, row in enumerate(rows)]
    for kind in (pa.list_(pa.float64()), pa.list_(pa.float64(), 5)):
        table = pa.table({"id": IDS, "embedding": pa.array(lists, kind)})
        pa.parquet.write_table(table, tmp_path / "text.parquet")
        model = fit({"text": rows})
        found = model.set_params(id_column="id").predict({"text": tmp_path / "text.parquet"})
        assert np.flatnonzero(found < 0).tolist() == [0, 7]
        np.testing.assert_array_equal(np.delete(found, [0, 7]), np.delete(model.labels_, [0, 7]))
