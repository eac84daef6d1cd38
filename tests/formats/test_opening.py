"""From paths and from what is written on the command line to tables; files that are not what they are called."""

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
from written_files import (
    D,
    N,
    annotated,
    cells,
    dense,
    feather_pandas,
    h5_chunked,
    h5ad_csr,
    mat5_cell,
    mudata_of,
    npy,
    npz_packed,
    opened,
    parquet_folder,
    parquet_pandas,
    refused,
    same,
    thin,
    tsv_gz,
    write_annotated,
)

from coterie.datasets import save_views
from coterie.formats import (
    FormatError,
    open_table,
    open_views,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_a_file_with_several_tables_is_several_views(tmp_path, rng):
    left, right, y = dense(rng), thin(rng), np.arange(N) % 3
    np.savez(tmp_path / "arrays.npz", left=left, right=left[:, :2], y=y, weights=y / 3)
    save_views(tmp_path / "bundle.npz", {"one": left, "two": right}, y)
    scipy.io.savemat(tmp_path / "cells.mat", {"X": cells(left, left[:, :2]), "Y": y})
    scipy.io.savemat(tmp_path / "matrices.mat", {"fou": left, "pix": left[:, :3], "truth": y})
    with h5py.File(tmp_path / "tree.h5", "w") as file:
        file["a/x"], file["b/x"], file["labels"] = left, left[:, :2], y
    write_annotated(mudata_of(rng)[0], tmp_path / "cells.h5mu")
    for file, expected in {
        "arrays.npz": ["left", "right"],
        "bundle.npz": ["one", "two"],
        "cells.mat": ["X_0", "X_1"],
        "matrices.mat": ["fou", "pix"],
        "tree.h5": ["a_x", "b_x"],
        "cells.h5mu": ["rna", "adt"],
    }.items():
        assert list(open_views([tmp_path / file])) == expected
        assert list(open_views(f"my={tmp_path / file}")) == [f"my.{name}" for name in expected]
    with pytest.raises(FormatError, match=r"arrays.npz holds 2 tables \(left, right\). Choose one: .*::left"):
        open_table(tmp_path / "arrays.npz")
    with pytest.raises(FormatError, match=r"Say whose columns: .*arrays.npz::left"):
        open_views([f"{tmp_path}/arrays.npz[0]"])
    same(open_views([tmp_path / "bundle.npz"])["two"][5:9], right[5:9])


def test_a_view_is_named_and_its_columns_chosen(tmp_path, rng, monkeypatch):
    values = dense(rng)
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", left=values, right=values)
    pd.DataFrame(values, columns=["a", "b", "1", "chr1:5", "d", "e"]).to_csv("t.csv.gz", index=False)
    np.save("a=b[0].npy", values)
    views = open_views(["x.npz::left", "mine=x.npz::right[0, 2:4,-1]", "t.csv.gz[1,chr1:5,b]", "a=b[0].npy"])
    assert list(views) == ["left", "mine", "t", "a=b[0]"]
    same(views["mine"][3:5], values[3:5][:, [0, 2, 3, 5]])
    assert views["t"].columns == ("1", "chr1:5", "b")
    same(views["t"][:], values[:, [2, 3, 1]])
    given = open_views({"one": "x.npz::left[0]", "two": ["a=b[0].npy", "a=b[0].npy"]})
    assert {name: table.shape for name, table in given.items()} == {"one": (N, 1), "two": (2 * N, D)}


def test_views_that_cannot_be_told_apart_are_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "x.npy", np.eye(3))
    with pytest.raises(
        FormatError, match=r"Two views are called 'x': .*a/x.npy and .*b/x.npy. Name one of them: other="
    ):
        open_views([tmp_path / "a" / "x.npy", tmp_path / "b" / "x.npy"])
    with pytest.raises(FormatError, match="No views are given"):
        open_views([])
    with pytest.raises(FormatError, match="is not a view"):
        open_views([f"{tmp_path}/a/x.npy::"])


@pytest.mark.parametrize("change", ["width", "names", "types", "format"])
def test_files_of_one_table_must_be_alike(tmp_path, change):
    pd.DataFrame({"a": [1.0], "b": [2.0]}).to_parquet(tmp_path / "1.parquet")
    other = {"width": {"a": [1.0]}, "names": {"a": [1.0], "z": [2.0]}, "types": {"a": [1.0], "b": [2]}}
    if change == "format":
        np.save(tmp_path / "2.npy", np.eye(2))
        message = "2.npy differs from .*1.parquet in column names"
    else:
        pd.DataFrame(other[change]).to_parquet(tmp_path / "2.parquet")
        message = {
            "width": "2.parquet differs from .*1.parquet in columns: 1 where that has 2",
            "names": "2.parquet differs from .*1.parquet in column names: 'z' where that has 'b'",
            "types": "2.parquet differs from .*1.parquet in types: 'b int64' where that has 'b double'",
        }[change]
    with pytest.raises(FormatError, match=message):
        open_table(tmp_path)


def test_a_broken_file_in_the_middle_is_named(tmp_path, rng):
    case = parquet_folder(tmp_path, rng)
    table = opened(case)
    broken = case.path / "part-5.parquet"
    content = bytearray(broken.read_bytes())
    content[4:2000] = bytes(1996)
    broken.write_bytes(content)
    assert table[:225].shape == (225, D)
    with pytest.raises(FormatError, match=r"part-5.parquet, rows 0 to 44, cannot be read"):
        table[220:280]


@pytest.mark.parametrize("write", [npy, npz_packed, parquet_pandas, feather_pandas, mat5_cell, h5_chunked, h5ad_csr])
def test_truncated_files(write, tmp_path, rng):
    case = write(tmp_path, rng)
    content = case.path.read_bytes()
    for share in (0.3, 0.9):
        case.path.write_bytes(content[: int(len(content) * share)])
        refused(case.path, "truncated|cannot be read|complete", key=case.key)


def test_truncated_gzip(tmp_path, rng):
    case = tsv_gz(tmp_path, rng)
    case.path.write_bytes(case.path.read_bytes()[:-100])
    refused(case.path, "x.tsv.gz cannot be read: Compressed file ended")


def test_wrong_keys_and_columns(tmp_path, rng):
    np.savez(tmp_path / "x.npz", left=np.eye(3), right=np.eye(3))
    refused(tmp_path / "x.npz", r"has no array 'middle' \(there: left, right\)", key="middle")
    save_views(tmp_path / "b.npz", {"one": np.eye(3)})
    refused(tmp_path / "b.npz", r"has no view 'two' \(there: one\)", key="two")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a/b"] = np.eye(3)
    refused(tmp_path / "x.h5", r"has no 'c' \(there: a/b\)", key="c")
    refused(tmp_path / "x.h5", r"x.h5::a is a group, not an array \(there: b\)", key="a")
    scipy.io.savemat(tmp_path / "x.mat", {"X": cells(np.eye(3), np.eye(3)), "s": "text"})
    refused(tmp_path / "x.mat", r"has no variable 'Z' \(there: X, s\)", key="Z")
    refused(tmp_path / "x.mat", "has no 'X/2': 'X' has 2 cells, counted from 0", key="X/2")
    refused(tmp_path / "x.mat", "x.mat::X is a cell array of 2. Choose a cell: .*x.mat::X/0", key="X")
    write_annotated(annotated(dense(rng), obsm={"X_pca": dense(rng)}), tmp_path / "x.h5ad")
    refused(tmp_path / "x.h5ad", r"has no 'obsm/X_umap' \(there: X, obsm/X_pca\)", key="obsm/X_umap")
    write_annotated(mudata_of(rng)[0], tmp_path / "x.h5mu")
    refused(tmp_path / "x.h5mu", r"has no modality 'atac' \(there: rna, adt\)", key="atac")
    pd.DataFrame({"a": [1.0], "b": [2.0]}).to_parquet(tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", r"has no column 'c' \(a, b\)", columns=["c"])
    refused(tmp_path / "x.parquet", "has no key 'a'. Choose columns: .*x.parquet\\[a\\]", key="a")
    np.save(tmp_path / "x.npy", np.eye(3))
    refused(tmp_path / "x.npy", r"has no column '3' \(it has no names, only numbers from 0 to 2\)", columns="3")
    refused(tmp_path / "x.npy", "has no column of ids 'id'", id_column="id")
    refused(tmp_path / "x.npy", "has no key 'a'", key="a")
