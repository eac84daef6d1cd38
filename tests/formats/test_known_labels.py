"""Known labels: found in files, and matched with rows."""

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
from sklearn.datasets import dump_svmlight_file
from written_files import N, annotated, matlab_file, matlab_variable, row_names, write_annotated

from coterie.datasets import save_views
from coterie.formats import (
    FormatError,
    open_column,
    open_target,
    write_table,
)


@pytest.mark.parametrize(
    "kind", ["npy", "csv", "csv_text", "parquet", "npz", "bundle", "mat", "mat73", "h5ad", "h5", "svm"]
)
def test_known_labels_are_read(tmp_path, kind):
    y = np.arange(N) % 3
    rows = np.zeros((N, 2))
    text = np.array(["u", "v", "w"])[y]
    path, expected, ids = tmp_path / f"y.{kind.partition('_')[0]}", y, None
    if kind == "npy":
        np.save(path, y)
    elif kind == "csv":
        pd.DataFrame({"label": y, "x": 0.5}, index=row_names()).to_csv(path)
        ids = row_names()
    elif kind == "csv_text":
        pd.DataFrame({"kind": text}).to_csv(path, index=False)
        expected = text
    elif kind == "parquet":
        pd.DataFrame({"kind": pd.Categorical(text), "x": 0.5}, index=row_names()).to_parquet(path)
        path, expected, ids = f"{path}::kind", text, row_names()
    elif kind == "npz":
        np.savez(path, rows=rows, target=y[:, None])
    elif kind == "bundle":
        path = save_views(tmp_path / "y.npz", {"a": rows}, y)
    elif kind == "mat":
        scipy.io.savemat(path, {"X": rows, "gt": y.astype(float)})
    elif kind == "mat73":
        path = tmp_path / "y.mat"
        with matlab_file(path) as file:
            matlab_variable(file, "X", rows)
            matlab_variable(file, "Y", y[:, None])
    elif kind == "h5ad":
        write_annotated(annotated(rows), path)
        path, expected, ids = f"{path}::obs/kind", text, row_names()
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["x"], file["labels"] = rows, y
    else:
        dump_svmlight_file(rows + 1, y, str(path))
    target = open_target(path)
    np.testing.assert_array_equal(target.labels, expected)
    assert (None if target.ids is None else target.ids.tolist()) == ids


def test_known_labels_are_matched_with_rows(tmp_path):
    write_table(tmp_path / "y.csv", {"label": [2, 0, 1]}, ids=["p", "q", "r"])
    target = open_target(tmp_path / "y.csv", id_column="id")
    assert target.for_rows(np.array(["r", "p"]), 2).tolist() == [1, 2]
    assert target.for_rows(np.array(["p", "q", "r"]), 3).tolist() == [2, 0, 1]
    assert target.for_rows(None, 3).tolist() == [2, 0, 1]
    with pytest.raises(FormatError, match=r"y.csv has no label for 1 of the rows, 's' among them"):
        target.for_rows(np.array(["s", "p"]), 2)
    with pytest.raises(FormatError, match=r"y.csv has 3 labels for 2 rows"):
        target.for_rows(None, 2)


def test_labels_that_are_none_are_refused(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.eye(3), b=np.eye(3))
    with pytest.raises(FormatError, match=r"cannot tell which entry holds the labels \(there: a, b\)"):
        open_target(tmp_path / "x.npz")
    with pytest.raises(FormatError, match=r"x.npz::a is not one label per row: it holds float64 of shape \(3, 3\)"):
        open_target(tmp_path / "x.npz", "a")
    with pytest.raises(FormatError, match=r"x.npz has no 'c' to read labels from \(there: a, b\)"):
        open_target(f"{tmp_path}/x.npz::c")
    np.save(tmp_path / "x.npy", [0.5, 1.0])
    with pytest.raises(FormatError, match="holds fractions or NaN"):
        open_target(tmp_path / "x.npy")


@pytest.mark.parametrize("lacking", ["", "NaN", "NA", "N/A", "null", "  "])
def test_a_row_without_a_label_is_refused(tmp_path, lacking):
    """Scores would take all of them for a class."""
    (tmp_path / "y.csv").write_text(f"id,label\nu,cat\nv,{lacking}\nw,dog\nx,{lacking}\n")
    with pytest.raises(FormatError, match=r"y.csv has no label in row 1 and in 1 more, but .*leave out the rows"):
        open_target(tmp_path / "y.csv", id_column="id")


def test_labels_are_named_like_columns(tmp_path):
    write_table(tmp_path / "y.csv", {"label": [2, 0, 1], "kind": [0, 0, 1]})
    assert open_target(f"{tmp_path}/y.csv[kind]").labels.tolist() == [0, 0, 1]
    assert open_target(f"{tmp_path}/y.csv::kind").labels.tolist() == [0, 0, 1]
    assert open_target(tmp_path / "y.csv").labels.tolist() == [2, 0, 1]
    with pytest.raises(FormatError, match=r"names 2 columns. Name them one by one."):
        open_target(f"{tmp_path}/y.csv[kind,label]")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_shuffled_row_numbers_are_not_ignored_where_the_data_have_no_ids(tmp_path, suffix):
    """As of two tables: by position, scores would be those of other rows."""
    frame = pd.DataFrame({"label": [5, 6, 7]})
    path = tmp_path / f"y.{suffix}"
    for rows in ([2, 0, 1], [2, 1, 0], [0, 1, 2]):
        part = frame.iloc[rows]
        part.to_csv(path) if suffix == "csv" else part.to_parquet(path)
        target = open_target(path)
        assert target.for_rows(np.arange(3), 3).tolist() == [5, 6, 7]
        if rows == [0, 1, 2]:
            assert target.for_rows(None, 3).tolist() == [5, 6, 7]
        else:
            with pytest.raises(FormatError, match=r"numbers its rows from 0 in another order.*Give both row ids"):
                target.for_rows(None, 3)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_column_of_fractions_or_dates_may_lack_values(tmp_path, suffix):
    frame = pd.DataFrame(
        {"age": [0.5, np.nan, 7], "count": [1, np.nan, 3], "whole": [3, 1, 2], "code": ["07", "7", "8"]}
    )
    frame["day"] = pd.to_datetime(["2026-01-02", None, "2026-03-04"])
    frame["name"] = ["1.5", "two", "3"]
    path = tmp_path / f"x.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    for column in ("age", "count", "whole"):
        found = open_column(f"{path}[{column}]").labels
        assert found.dtype.kind in "if"
        np.testing.assert_array_equal(found, frame[column])
    assert open_column(f"{path}[code]").labels.tolist() == ["07", "7", "8"]
    assert open_column(f"{path}[name]").labels.tolist() == ["1.5", "two", "3"]
    dates = open_column(f"{path}[day]").labels.astype("datetime64[D]")
    assert dates.astype(str).tolist() == ["2026-01-02", "NaT", "2026-03-04"]
