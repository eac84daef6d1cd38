"""Files written by the libraries that own the formats, read back exactly: whole, by blocks, by rows, in any process."""

import gzip
import io
import json
import pickle
import subprocess
import sys
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
import scipy.io
import zarr
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from coterie.datasets import save_views
from coterie.formats import (
    FormatError,
    match_rows,
    open_table,
    open_target,
    open_views,
    open_writer,
    segments,
    text_files,
    unpacking,
    write_table,
)
from coterie.formats.parquet_footer import null_counts, read_footer

N, D = 503, 6


@dataclass
class Case:
    """A file, and what is in it."""

    path: Any
    values: Any
    columns: tuple | None = None
    ids: list | None = None
    key: str | None = None
    options: dict | None = None


def dense(rng, dtype=np.float64):
    return (rng.standard_normal((N, D)) * 50).astype(dtype)


def thin(rng, form="csr"):
    return sparse.random_array((N, D), density=0.3, rng=rng, format=form)


def names():
    return tuple(f"c{i}" for i in range(D))


def row_names():
    return [f"r{i}" for i in range(N)]


# -- writers ----------------------------------------------------------------------------------------------------


def npy(folder, rng, dtype=np.float32):
    values = dense(rng, dtype)
    np.save(folder / "x.npy", values)
    return Case(folder / "x.npy", values)


def npy_fortran(folder, rng):
    values = np.asfortranarray(dense(rng))
    np.save(folder / "x.npy", values)
    return Case(folder / "x.npy", values)


def npy_big_endian(folder, rng):
    values = dense(rng).astype(">f4")
    np.save(folder / "x.npy", values)
    return Case(folder / "x.npy", values.astype("f4"))


def npy_images(folder, rng):
    images = rng.integers(0, 255, (N, 4, 5, 3)).astype(np.uint8)
    np.save(folder / "x.npy", images)
    return Case(folder / "x.npy", images.reshape(N, -1))


def npy_one_dimension(folder, rng):
    values = dense(rng)[:, 0]
    np.save(folder / "x.npy", values)
    return Case(folder / "x.npy", values[:, None])


def npz_one(folder, rng):
    values = dense(rng, np.int16)
    np.savez(folder / "x.npz", values)
    return Case(folder / "x.npz", values)


def npz_several(folder, rng):
    values = dense(rng, np.float16)
    np.savez(folder / "x.npz", other=np.zeros((3, 2)), mine=values)
    return Case(folder / "x.npz", values, key="mine")


def npz_packed(folder, rng):
    values = dense(rng)
    np.savez_compressed(folder / "x.npz", other=np.zeros((3, 2)), mine=values)
    return Case(folder / "x.npz", values, key="mine")


def npz_csr(folder, rng):
    values = thin(rng)
    sparse.save_npz(folder / "x.npz", values)
    return Case(folder / "x.npz", values)


def npz_csc(folder, rng):
    values = thin(rng, "csc")
    sparse.save_npz(folder / "x.npz", values, compressed=False)
    return Case(folder / "x.npz", values.tocsr())


def npz_coo(folder, rng):
    values = thin(rng, "coo")
    sparse.save_npz(folder / "x.npz", values)
    return Case(folder / "x.npz", values.tocsr())


def bundle_dense(folder, rng):
    values = dense(rng)
    save_views(folder / "x.npz", {"a": np.zeros((N, 2)), "b": values}, np.arange(N) % 3)
    return Case(folder / "x.npz", values, key="b")


def bundle_sparse(folder, rng):
    values = thin(rng)
    save_views(folder / "x.npz", {"a": np.zeros((N, 2)), "b": values}, np.arange(N) % 3)
    return Case(folder / "x.npz", values, key="b")


def csv_pandas(folder, rng):
    values = dense(rng)
    values[7, 2] = np.nan
    pd.DataFrame(values, columns=names()).to_csv(folder / "x.csv", index=False)
    return Case(folder / "x.csv", values, names())


def csv_pandas_index(folder, rng):
    values = dense(rng)
    pd.DataFrame(values, columns=names(), index=row_names()).to_csv(folder / "x.csv")
    return Case(folder / "x.csv", values, names(), row_names())


def csv_numbered_columns(folder, rng):
    values = dense(rng)
    pd.DataFrame(values).to_csv(folder / "x.csv", index=False)
    return Case(folder / "x.csv", values, tuple("012345"))


def csv_windows(folder, rng):
    values = dense(rng)
    text = pd.DataFrame(values, columns=names()).to_csv(index=False, lineterminator="\r\n")
    (folder / "x.csv").write_bytes(b"\xef\xbb\xbf" + text.encode() + b"\r\n\r\n")
    return Case(folder / "x.csv", values, names())


def csv_semicolons(folder, rng):
    values = dense(rng)
    pd.DataFrame(values, columns=names()).to_csv(folder / "x.csv", index=False, sep=";")
    return Case(folder / "x.csv", values, names())


def csv_polars_id(folder, rng):
    values = dense(rng)
    frame = pl.DataFrame({"key": row_names(), **{name: values[:, i] for i, name in enumerate(names())}})
    frame.write_csv(folder / "x.csv")
    return Case(folder / "x.csv", values, names(), row_names(), options={"id_column": "key"})


def tsv_gz(folder, rng):
    values = dense(rng)
    pd.DataFrame(values, columns=names()).to_csv(folder / "x.tsv.gz", index=False, sep="\t")
    return Case(folder / "x.tsv.gz", values, names())


def txt_savetxt(folder, rng):
    values = dense(rng)
    np.savetxt(folder / "x.txt", values, fmt="%25.18e")  # padded with spaces
    with open(folder / "x.txt", "a") as file:
        file.write("\n   \n")
    return Case(folder / "x.txt", values)


def csv_without_names(folder, rng):
    values = dense(rng)
    pd.DataFrame(values, index=row_names()).to_csv(folder / "x.csv", header=False)
    text = (folder / "x.csv").read_text()
    (folder / "x.csv").write_text(text.replace("r", ""))  # ids that are numbers
    return Case(folder / "x.csv", values, None, list(range(N)), options={"id_column": 0})


def parquet_pandas(folder, rng):
    values = dense(rng, np.float32)
    pd.DataFrame(values, columns=names(), index=row_names()).to_parquet(folder / "x.parquet")
    return Case(folder / "x.parquet", values, names(), row_names())


def parquet_row_groups(folder, rng):
    values = dense(rng, np.uint8)
    table = pa.table({name: values[:, i] for i, name in enumerate(names())})
    pq.write_table(table, folder / "x.parquet", row_group_size=100)
    return Case(folder / "x.parquet", values, names())


def parquet_polars_mixed(folder, rng):
    values = dense(rng).round()
    values[:, 2] += 0.25
    frame = pl.DataFrame({name: values[:, i] for i, name in enumerate(names())})
    frame = frame.with_columns(pl.col("c0").cast(pl.Int16), pl.col("c1").cast(pl.Float32), key=pl.Series(row_names()))
    frame.write_parquet(folder / "x.parquet")
    return Case(folder / "x.parquet", values, names(), row_names(), options={"id_column": "key"})


def parquet_nulls(folder, rng):
    values = dense(rng).round()
    values[11, 3] = np.nan
    frame = pd.DataFrame(values, columns=names()).convert_dtypes()
    assert frame["c3"].dtype == "Int64"
    frame.to_parquet(folder / "x.parquet")
    return Case(folder / "x.parquet", values, names())


def parquet_lists(folder, rng):
    values = dense(rng, np.float32)
    table = pa.table({"e": pa.FixedSizeListArray.from_arrays(values.ravel(), D), "w": list(values[:, :2])})
    pq.write_table(table, folder / "x.parquet", row_group_size=200)
    columns = (*(f"e[{i}]" for i in range(D)), "w[0]", "w[1]")
    return Case(folder / "x.parquet", np.column_stack([values, values[:, :2]]), columns)


def parquet_folder(folder, rng):
    values = dense(rng)
    frame = pd.DataFrame(values, columns=names(), index=row_names())
    (folder / "x").mkdir()
    for i, start in enumerate(range(0, N, 45)):  # so many files that 10 must not come before 2
        frame[start : start + 45].to_parquet(folder / "x" / f"part-{i}.parquet")
    (folder / "x" / "_SUCCESS").touch()
    (folder / "x" / "README.md").write_text("parts")
    return Case(folder / "x", values, names(), row_names())


def feather_pandas(folder, rng):
    values = dense(rng, np.float32)
    pd.DataFrame(values, columns=names()).to_feather(folder / "x.feather", chunksize=100)
    return Case(folder / "x.feather", values, names())


def arrow_polars(folder, rng):
    values = dense(rng, np.int32)
    pl.DataFrame(values, schema=list(names())).write_ipc(folder / "x.arrow")
    return Case(folder / "x.arrow", values, names())


def arrow_stream(folder, rng):
    values = dense(rng)
    table = pa.table({name: values[:, i] for i, name in enumerate(names())})
    with pa.ipc.new_stream(folder / "x.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    return Case(folder / "x.arrow", values, names())


def mat5(folder, rng):
    values = dense(rng)
    scipy.io.savemat(folder / "x.mat", {"fea": values, "gnd": np.arange(N) % 3})
    return Case(folder / "x.mat", values)


def mat5_cell(folder, rng):
    values = dense(rng)
    scipy.io.savemat(folder / "x.mat", {"X": cells(np.zeros((N, 2)), values)}, do_compression=True)
    return Case(folder / "x.mat", values, key="X[1]")


def mat5_columns_are_samples(folder, rng):
    values = dense(rng)
    scipy.io.savemat(folder / "x.mat", {"X": cells(np.zeros((2, N)), values.T)})
    return Case(folder / "x.mat", values, key="X/1")


def mat5_sparse(folder, rng):
    values = thin(rng)
    scipy.io.savemat(folder / "x.mat", {"X": sparse.csc_matrix(values)})
    return Case(folder / "x.mat", values)


def cells(*tables):
    found = np.empty((1, len(tables)), dtype=object)
    found[0, :] = tables
    return found


def mat73(folder, rng):
    values = dense(rng, np.float32)
    with matlab_file(folder / "x.mat") as file:
        matlab_variable(file, "fea", values, chunks=(2, 100), compression="gzip")
        matlab_variable(file, "gt", np.arange(N)[:, None] % 3)
    return Case(folder / "x.mat", values)


def mat73_cell(folder, rng):
    values = dense(rng)
    with matlab_file(folder / "x.mat") as file:
        matlab_cells(file, "X", [np.zeros((N, 2)), values])
    return Case(folder / "x.mat", values, key="X/1")


def mat73_sparse(folder, rng):
    values = thin(rng)
    with matlab_file(folder / "x.mat") as file:
        matlab_sparse(file, "X", values)
    return Case(folder / "x.mat", values)


def mat73_sparse_columns_are_samples(folder, rng):
    values = thin(rng)
    with matlab_file(folder / "x.mat") as file:
        matlab_cells(file, "X", [np.zeros((2, N)), values.T])
    return Case(folder / "x.mat", values, key="X/1")


class matlab_file:
    """An HDF5 file as MATLAB writes it: a block of 512 bytes comes first."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.file = h5py.File(self.path, "w", userblock_size=512)
        return self.file

    def __exit__(self, *_):
        self.file.close()
        with open(self.path, "r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def matlab_variable(group, name, values, **options):
    node = group.create_dataset(name, data=values.T, **options)
    kind = {"f8": "double", "f4": "single", "i8": "int64"}[values.dtype.str[1:]]
    node.attrs["MATLAB_class"] = np.bytes_(kind)
    return node


def matlab_sparse(group, name, values):
    by_columns = sparse.csc_array(values)
    node = group.create_group(name)
    node.attrs["MATLAB_class"] = np.bytes_("double")
    node.attrs["MATLAB_sparse"] = np.uint64(values.shape[0])
    node["data"], node["ir"] = by_columns.data, by_columns.indices.astype(np.uint64)
    node["jc"] = by_columns.indptr.astype(np.uint64)
    return node


def matlab_cells(file, name, tables):
    refs = file.require_group("#refs#")
    written = [
        (matlab_sparse if sparse.issparse(table) else matlab_variable)(refs, chr(97 + i), table)
        for i, table in enumerate(tables)
    ]
    node = file.create_dataset(name, (len(tables), 1), dtype=h5py.ref_dtype)
    node.attrs["MATLAB_class"] = np.bytes_("cell")
    for i, table in enumerate(written):
        node[i, 0] = table.ref


def h5_plain(folder, rng):
    values = dense(rng, np.float32)
    with h5py.File(folder / "x.h5", "w") as file:
        file["deep/down"] = values
    return Case(folder / "x.h5", values)


def h5_chunked(folder, rng):
    values = dense(rng, np.uint8)
    with h5py.File(folder / "x.hdf5", "w") as file:
        file["labels"] = np.arange(N)
        file["other"] = np.zeros((N, 2))
        file.create_dataset("mine", data=values, chunks=(50, 2), compression="gzip")
    return Case(folder / "x.hdf5", values, key="mine")


def zarr_array(folder, rng):
    values = dense(rng, np.float16)
    array = zarr.create_array(folder / "x.zarr", shape=values.shape, chunks=(100, 4), dtype=values.dtype)
    array[:] = values
    return Case(folder / "x.zarr", values)


def zarr_group(folder, rng):
    values = dense(rng)
    group = zarr.open_group(folder / "x.zarr", mode="w", zarr_format=2)
    group.create_array("other", shape=(3, 2), dtype="f8")
    group.create_array("in/mine", shape=values.shape, chunks=(64, D), dtype="f8")[:] = values
    return Case(folder / "x.zarr", values, key="in/mine")


@contextmanager
def plain_text():
    """Let pandas make text of Python strings: anndata cannot write pandas 3's own text yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pd.option_context("future.infer_string", False):
            yield


@plain_text()
def annotated(X, **parts):
    obs = pd.DataFrame({"kind": pd.Categorical([*"uvw"] * (N // 3) + [*"uv"])}, index=row_names())
    return anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=list(names())[: X.shape[1]]), **parts)


@plain_text()
def write_annotated(data, path):
    (data.write_zarr if path.suffix == ".zarr" else data.write)(path)


def h5ad_csr(folder, rng):
    values = thin(rng)
    write_annotated(annotated(sparse.csr_matrix(values)), folder / "x.h5ad")
    return Case(folder / "x.h5ad", values, names(), row_names())


def h5ad_dense(folder, rng):
    values = dense(rng, np.float32)
    write_annotated(annotated(values), folder / "x.h5ad")
    return Case(folder / "x.h5ad", values, names(), row_names())


def h5ad_layer_csc(folder, rng):
    values = thin(rng)
    write_annotated(annotated(dense(rng), layers={"counts": sparse.csc_matrix(values)}), folder / "x.h5ad")
    return Case(folder / "x.h5ad", values, names(), row_names(), key="layers/counts")


def h5ad_obsm(folder, rng):
    values = dense(rng)
    write_annotated(annotated(np.zeros((N, 2)), obsm={"X_pca": values}), folder / "x.h5ad")
    return Case(folder / "x.h5ad", values, None, row_names(), key="obsm/X_pca")


@plain_text()
def h5ad_raw(folder, rng):
    values = thin(rng)
    data = annotated(sparse.csr_matrix(values))
    data.raw = data
    write_annotated(data[:, :2].copy(), folder / "x.h5ad")
    return Case(folder / "x.h5ad", values, names(), row_names(), key="raw/X")


def anndata_zarr(folder, rng):
    values = thin(rng)
    write_annotated(annotated(sparse.csr_matrix(values)), folder / "x.zarr")
    return Case(folder / "x.zarr", values, names(), row_names())


@plain_text()
def mudata_of(rng):
    rna, pca = thin(rng), dense(rng)
    parts = {"rna": annotated(sparse.csr_matrix(rna), obsm={"X_pca": pca}), "adt": annotated(dense(rng)[:, :2])}
    parts["adt"].var_names = ["p0", "p1"]
    return mudata.MuData(parts), rna, pca


def h5mu_modality(folder, rng):
    data, rna, _ = mudata_of(rng)
    write_annotated(data, folder / "x.h5mu")
    return Case(folder / "x.h5mu", rna, names(), row_names(), key="rna")


def h5mu_obsm(folder, rng):
    data, _, pca = mudata_of(rng)
    write_annotated(data, folder / "x.h5mu")
    return Case(folder / "x.h5mu", pca, None, row_names(), key="mod/rna/obsm/X_pca")


def svmlight(folder, rng):
    values = sparse.csr_array(np.where(rng.random((N, D)) < 0.3, dense(rng), 0).round(6))
    dump_svmlight_file(values, np.arange(N) % 3, str(folder / "x.svm"), zero_based=False)
    return Case(folder / "x.svm", values.tocsr())


def list_of_npy(folder, rng):
    values = dense(rng)
    np.save(folder / "b.npy", values[:100])
    np.save(folder / "a.npy", values[100:])
    return Case([folder / "b.npy", folder / "a.npy"], values)


def folder_of_sparse(folder, rng):
    values = thin(rng)
    (folder / "x").mkdir()
    for i, start in enumerate(range(0, N, 50)):
        sparse.save_npz(folder / "x" / f"{i}.npz", values[start : start + 50])
    return Case(folder / "x", values)


CASES = [
    *(npy, npy_fortran, npy_big_endian, npy_images, npy_one_dimension),
    *(npz_one, npz_several, npz_packed, npz_csr, npz_csc, npz_coo, bundle_dense, bundle_sparse),
    *(
        csv_pandas,
        csv_pandas_index,
        csv_numbered_columns,
        csv_windows,
        csv_semicolons,
        csv_polars_id,
        tsv_gz,
        txt_savetxt,
        csv_without_names,
    ),
    *(parquet_pandas, parquet_row_groups, parquet_polars_mixed, parquet_nulls, parquet_lists, parquet_folder),
    *(feather_pandas, arrow_polars, arrow_stream),
    *(mat5, mat5_cell, mat5_columns_are_samples, mat5_sparse),
    *(mat73, mat73_cell, mat73_sparse, mat73_sparse_columns_are_samples),
    *(h5_plain, h5_chunked, zarr_array, zarr_group),
    *(h5ad_csr, h5ad_dense, h5ad_layer_csc, h5ad_obsm, h5ad_raw, anndata_zarr, h5mu_modality, h5mu_obsm),
    *(svmlight, list_of_npy, folder_of_sparse),
]


def same(block, expected):
    assert type(block) is (sparse.csr_array if sparse.issparse(expected) else np.ndarray)
    assert block.dtype == expected.dtype
    assert block.shape == expected.shape
    as_array = [table.toarray() if sparse.issparse(table) else table for table in (block, expected)]
    np.testing.assert_array_equal(*as_array)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=CASES, ids=lambda write: write.__name__)
def case(request, tmp_path, rng, monkeypatch):
    # Small blocks, so that a file of five hundred rows has many.
    monkeypatch.setattr(segments, "BLOCK_BYTES", 1)
    monkeypatch.setattr(segments, "KEEP_BYTES", 4000)
    monkeypatch.setattr(text_files, "SEGMENT_BYTES", 5000)
    return request.param(tmp_path, rng)


def opened(case):
    return open_table(case.path, key=case.key, **(case.options or {}))


def test_every_format_reads_exactly_what_was_written(case, rng):
    table = opened(case)
    values = case.values if sparse.issparse(case.values) else np.ascontiguousarray(case.values)
    assert table.shape == values.shape
    assert len(table) == N
    assert table.ndim == 2
    assert table.dtype == values.dtype
    assert table.columns == case.columns
    assert (None if table.ids is None else table.ids.tolist()) == case.ids
    assert str(N) in repr(table)
    same(table[:], values)
    for start in range(0, N, 70):
        same(table[start : start + 70], values[start : start + 70])
    rows = np.sort(rng.choice(N, 60, replace=False))
    same(table[rows], values[rows])
    same(table[400:410], values[400:410])
    same(table[3:5], values[3:5])  # back to the beginning
    same(table[rows[::-1]], values[rows[::-1]])
    same(table[[5, 2, 5, -1]], values[[5, 2, 5, N - 1]])
    same(table[np.arange(N) % 2 == 0], values[::2])
    same(table[::50], values[::50])
    same(table[[]], values[:0])
    same(table[10:10], values[:0])
    np.testing.assert_array_equal(np.asarray(table), values.toarray() if sparse.issparse(values) else values)


def test_tables_are_read_by_several_threads_and_after_pickling(case):
    table = opened(case)
    again = pickle.loads(pickle.dumps(table))
    assert (again.name, again.shape, again.columns) == (table.name, table.shape, table.columns)
    starts = [0, 300, 40, 450, 80, 120, 10, 499] * 3
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(lambda start: again[start : start + 40], starts))
    for start, block in zip(starts, blocks, strict=True):
        same(block, case.values[start : start + 40])
    assert len(pickle.dumps(again)) < 20_000  # not the data


def test_columns_are_chosen_by_name_number_and_range(case):
    columns = [*case.columns[2:3], 0, "3:5"] if case.columns else [2, 0, slice(3, 5)]
    if case.values.shape[1] < 5 or (case.columns and "e[0]" in case.columns):
        pytest.skip("too few columns, or lists")
    table = open_table(case.path, key=case.key, columns=columns, **(case.options or {}))
    expected = case.values[:, [2, 0, 3, 4]]
    assert table.columns == (case.columns and tuple(case.columns[i] for i in (2, 0, 3, 4)))
    assert table.shape == (N, 4)
    block = table[20:90]
    expected_block = expected[20:90]
    if sparse.issparse(block):
        block, expected_block = block.toarray(), expected_block.toarray()
    np.testing.assert_array_equal(block, expected_block)


def test_a_table_is_read_in_another_process(tmp_path, rng):
    values = dense(rng, np.float32)
    pd.DataFrame(values, columns=names()).to_parquet(tmp_path / "x.parquet")
    (tmp_path / "table").write_bytes(pickle.dumps(open_table(tmp_path / "x.parquet")))
    code = "import pickle, sys; print(repr(float(pickle.load(open(sys.argv[1], 'rb'))[250:251].sum())))"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "table"], capture_output=True, text=True, check=True)
    assert float(done.stdout) == float(values[250:251].sum())


# -- views ------------------------------------------------------------------------------------------------------


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


# -- matching rows ----------------------------------------------------------------------------------------------


def frames(folder, **ids):
    """Open a csv file for each list of ids; its values are the ids' places in it."""
    for name, rows in ids.items():
        pd.DataFrame({"x": np.arange(float(len(rows)))}, index=pd.Index(rows, name="id")).to_csv(folder / f"{name}.csv")
    return list(open_views([folder / f"{name}.csv" for name in ids], id_column="id").values())


def test_rows_are_matched_by_id(tmp_path):
    ids, positions = match_rows(frames(tmp_path, a=["p", "q", "r"], b=["r", "s", "p"], c=["p", "q", "r", "s"]))
    assert ids.tolist() == ["p", "q", "r", "s"]
    assert positions[0].tolist() == [0, 1, 2, -1]
    assert positions[1].tolist() == [2, -1, 0, 1]
    assert positions[2] is None


def test_matched_rows_fit_a_view(tmp_path):
    from coterie.views import View

    tables = frames(tmp_path, a=["p", "q", "r"], b=["r", "s", "p"])
    _, positions = match_rows(tables)
    views = [View(table.name, table, table.columns, rows) for table, rows in zip(tables, positions, strict=True)]
    blocks = [view.read(slice(0, 4)) for view in views]
    assert blocks[0].data.ravel().tolist() == [0, 1, 2, 0]
    assert blocks[1].data.ravel().tolist() == [2, 0, 0, 1]
    assert blocks[1].present.tolist() == [True, False, True, True]


@plain_text()
def test_modalities_with_other_cells_are_matched(tmp_path, rng):
    cells = annotated(dense(rng))
    rna, adt = cells[:400].copy(), cells[100:][::-1].copy()
    adt.var_names = [f"p{i}" for i in range(D)]
    mudata.MuData({"rna": rna, "adt": adt}).write(tmp_path / "x.h5mu")
    views = open_views([tmp_path / "x.h5mu"])
    ids, (in_rna, in_adt) = match_rows(list(views.values()))
    assert ids.tolist() == row_names()[:400] + row_names()[:399:-1]
    assert (in_rna >= 0).sum() == 400
    assert in_adt[100] == N - 101
    assert (in_adt[:100] == -1).all()


def test_equal_ids_leave_rows_in_place(tmp_path):
    ids, positions = match_rows(frames(tmp_path, a=[7, 3, 5], b=[7, 3, 5]))
    assert ids.tolist() == [7, 3, 5]
    assert positions == [None, None]


def test_whole_numbers_match_the_same_numbers_as_text(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=["7", "3"]).to_parquet(tmp_path / "b.parquet")
    tables = [*frames(tmp_path, a=[3, 7]), open_table(tmp_path / "b.parquet")]
    ids, positions = match_rows(tables)
    assert ids.tolist() == ["3", "7"]
    assert positions[1].tolist() == [1, 0]


def test_rows_are_matched_by_place_where_there_are_no_ids(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    np.save(tmp_path / "z.npy", np.eye(4))
    x, z = open_table(tmp_path / "x.npy"), open_table(tmp_path / "z.npy")
    assert match_rows([x, x]) == (None, [None, None])
    with pytest.raises(FormatError, match=r"z.npy has 4 rows, but .*x.npy has 3."):
        match_rows([x, z])
    (numbered,) = frames(tmp_path, a=[0, 1, 2])  # what pandas writes for rows without names
    assert match_rows([x, numbered])[1] == [None, None]


def test_rows_that_cannot_be_matched_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    with pytest.raises(FormatError, match=r"a.csv has row ids but .*x.npy has none"):
        match_rows([open_table(tmp_path / "x.npy"), *frames(tmp_path, a=["p", "q", "r"])])
    with pytest.raises(FormatError, match=r"b.csv has the row id 'q' more than once"):
        match_rows(frames(tmp_path, a=["p", "q"], b=["q", "p", "q"]))
    with pytest.raises(FormatError, match=r"a.csv has the row id 'q' more than once"):
        match_rows(frames(tmp_path, a=["q", "q"], b=["q", "q"]))


# -- what is wrong with a file ----------------------------------------------------------------------------------


def refused(path, message, **options):
    """The file is refused in one line that names it."""
    with pytest.raises(FormatError, match=message) as caught:
        open_table(path, **options)[:]
    said = str(caught.value)
    assert "\n" not in said
    assert Path(path).name.partition("::")[0] in said


def test_files_that_are_not_there_or_empty(tmp_path):
    np.save(tmp_path / "digits.npy", np.eye(3))
    refused(tmp_path / "digit.npy", r"There is no file .*digit.npy \(did you mean digits.npy\?\)")
    refused(tmp_path / "no" / "x.npy", "there is no folder .*no")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "is a folder without data files. Known formats: .npy, .npz, .csv")
    for suffix in ("npy", "npz", "csv", "csv.gz", "parquet", "feather", "mat", "h5", "h5ad", "svm"):
        path = tmp_path / f"none.{suffix}"
        path.touch()
        refused(path, f"none.{suffix} is empty")


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


def test_wrong_and_unknown_extensions(tmp_path, rng):
    source = npy(tmp_path, rng).path
    for suffix in ("npz", "csv", "parquet", "h5", "mat", "svm"):
        path = tmp_path / f"y.{suffix}"
        path.write_bytes(source.read_bytes())
        refused(path, rf"y.{suffix} is called .{suffix} but looks like .npy. Rename it.")
    (tmp_path / "y.npy").write_text("1,2\n3,4\n")
    refused(tmp_path / "y.npy", "does not begin like one")
    (tmp_path / "y.xyz").write_bytes(source.read_bytes())
    refused(tmp_path / "y.xyz", "unknown extension. It looks like .npy: rename it. Known formats: .npy, .npz")
    (tmp_path / "bytes.csv").write_bytes(b"1\0\0\0,2\n")
    refused(tmp_path / "bytes.csv", "is not text")


def test_text_among_the_numbers(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3,4\n5,six\n")
    refused(path, "column 'b' holds 'six' in line 4, which is not a number")
    assert open_table(path, columns="a")[:].tolist() == [[1], [3], [5]]
    path.write_text("a,b\n1,2\n3\n")
    refused(path, "line 3 has 1 fields where the first line has 2")
    path.write_text("cell1,0.5,2\ncell2,0.1,3\n")
    refused(path, "the first line is neither names nor numbers \\('cell1' beside '0.5'\\)")
    path.write_text("a,a\n1,2\n")
    refused(path, "two columns 'a'")
    path.write_text("a,b\n")
    refused(path, "has no rows")
    pl.DataFrame({"a": [1.0], "b": ["x"]}).write_parquet(tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", "column 'b' holds .*string.*, not numbers, from row 0 on")
    assert open_table(tmp_path / "x.parquet", id_column="b").ids.tolist() == ["x"]
    pd.DataFrame({"d": pd.to_datetime(["2020-01-01"])}).to_parquet(tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", "column 'd' holds dates or times")


def test_text_in_the_middle_names_the_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "SEGMENT_BYTES", 1000)
    lines = ["a,b", *(f"{i},{i}" for i in range(2000))]
    lines[1501] = "1500,n.a."
    (tmp_path / "x.csv").write_text("\n".join(lines))
    table = open_table(tmp_path / "x.csv")
    assert table[:1300].shape == (1300, 2)
    for _ in range(2):  # what failed once fails again
        with pytest.raises(FormatError, match=r"x.csv: column 'b' holds 'n.a.' in line 1502"):
            table[1400:1600]
    assert table[1800:].shape == (200, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([{}], dtype=object), "holds Python objects, which Coterie never unpickles"),
        (np.array([["a"]]), "holds text"),
        (np.ones((2, 2)) * 1j, "holds complex numbers"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "holds dates or times"),
        (np.array(3.0), "is a single number"),
        (np.zeros((0, 3)), "has no rows"),
        (np.zeros((3, 0)), "has no columns"),
        (np.zeros(3, dtype=[("a", float), ("b", int)]), r"holds records \(a, b\)"),
    ],
)
def test_arrays_that_are_no_tables(tmp_path, values, message):
    np.save(tmp_path / "x.npy", values, allow_pickle=True)
    refused(tmp_path / "x.npy", message)
    np.savez(tmp_path / "x.npz", a=values, b=np.eye(2))
    refused(tmp_path / "x.npz", message, key="a")
    if values.dtype.kind == "f":
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["a"] = values
        refused(tmp_path / "x.h5", message)


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


def test_rows_outside_of_the_table(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    table = open_table(tmp_path / "x.npy")
    with pytest.raises(IndexError, match=r"x.npy has 3 rows. Asked for 1 to 3"):
        table[[1, 3]]
    with pytest.raises(TypeError, match="by a slice or a list of row numbers"):
        table[0.5]


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


# -- files that lie ---------------------------------------------------------------------------------------------


def npy_header(shape, dtype="<f8"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def test_headers_that_ask_for_more_than_there_is(tmp_path):
    (tmp_path / "x.npy").write_bytes(npy_header((10**12, 10**6)) + bytes(800))
    refused(tmp_path / "x.npy", "its header asks for 8,000,000,000,000,000,128 bytes")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", npy_header((10**12, 10**6)) + bytes(800))
    refused(tmp_path / "x.npz", "its header asks for")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("a", (10**9, 10**6), chunks=(1000, 1000), dtype="f8")
    refused(tmp_path / "x.h5", "x.h5::a claims 8,000,000,000,000,000 bytes from 0 in the file")
    zarr.create_array(tmp_path / "x.zarr", shape=(10**9, 10**6), chunks=(1000, 1000), dtype="f8")
    refused(tmp_path / "x.zarr", "x.zarr claims 8,000,000,000,000,000 bytes")


def test_zip_and_gzip_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "BOMB_BYTES", 1 << 20)
    np.savez_compressed(tmp_path / "x.npz", np.zeros((1000, 1000)))
    refused(tmp_path / "x.npz", r"claims 8,000,128 bytes from 7,\d+ in the file, more than 250 times as many")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"0,0,0,0\n" * 500_000))
    refused(tmp_path / "x.csv.gz", "more than 250 times as many")


def test_missing_values_are_counted_as_arrow_does(tmp_path):
    path = tmp_path / "x.parquet"
    gaps = {f"c{i}": [None if j % 7 < i % 3 else j for j in range(50)] for i in range(40)}
    table = pa.table({**gaps, "text": ["a", None] * 25, "lists": [[1, None], None] * 25, "größe": list(range(50))})
    for options in ({"row_group_size": 7}, {"use_dictionary": False}, {"version": "1.0"}):
        pa.parquet.write_table(table, path, **options)
        found = null_counts(read_footer(path))
        about = pa.parquet.read_metadata(path)
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        for i, column in enumerate(found):
            assert about.schema.column(i).path == column
            assert found[column] == sum(group.column(i).statistics.null_count for group in groups)
    pa.parquet.write_table(table, path, write_statistics=False)
    assert set(null_counts(read_footer(path)).values()) == {None}


def test_sparse_arrays_that_point_outside(tmp_path, rng):
    values = thin(rng)
    values.indices = values.indices.copy()
    values.indices[500] = 77
    np.savez(tmp_path / "x.npz", format=b"csr", shape=values.shape, **parts_of(values))
    table = open_table(tmp_path / "x.npz")
    assert table[:10].shape == (10, D)
    with pytest.raises(
        FormatError, match=r"x.npz: rows 100 to 502 have an entry in column 77, but there are 6 columns"
    ):
        table[100:]
    values.indptr = values.indptr.copy()
    values.indptr[20] = 10**9
    np.savez(tmp_path / "x.npz", format=b"csr", shape=values.shape, **parts_of(values))
    with pytest.raises(FormatError, match=r"row pointers \(indptr\) of rows 10 to 29 are broken"):
        open_table(tmp_path / "x.npz")[10:30]
    np.savez(tmp_path / "x.npz", format=b"csr", shape=(9999, D), **parts_of(values))
    refused(tmp_path / "x.npz", "is not a sparse matrix of 9999 rows: it has 504 row pointers")


@pytest.mark.parametrize("kind", ["npz", "mat5", "mat73", "h5ad"])
def test_sparse_columns_that_point_outside(kind, tmp_path, rng):
    by_columns = sparse.csc_matrix(thin(rng))
    indices = by_columns.indices.copy()
    indices[7] = 10**6
    if kind == "npz":
        path = tmp_path / "x.npz"
        np.savez(path, format=b"csc", shape=by_columns.shape, **parts_of(by_columns) | {"indices": indices})
        refused(path, "cannot be read")
    elif kind == "mat5":
        by_columns.indices = indices
        scipy.io.savemat(tmp_path / "x.mat", {"X": by_columns})
        refused(tmp_path / "x.mat", "cannot be read")
    else:
        case = (mat73_sparse if kind == "mat73" else h5ad_layer_csc)(tmp_path, rng)
        with h5py.File(case.path, "r+") as file:
            file["X/ir" if kind == "mat73" else "layers/counts/indices"][7] = 10**6
        refused(case.path, "cannot be read", key=case.key)


def parts_of(values):
    return {"data": values.data, "indices": values.indices, "indptr": values.indptr}


# -- writing ----------------------------------------------------------------------------------------------------

LABELS = np.array([2, 0, 1, 0])
SURE = np.array([0.5, np.nan, 1.0, 0.25], dtype=np.float32)
IDS = ["p", 'q "and", so on', "r", "\u00e4"]


def read_back(path):
    """Read with the library that people will use."""
    suffix = path.name.partition(".")[2]
    if suffix.startswith(("csv", "tsv")):
        return pd.read_csv(path, sep="\t" if suffix.startswith("tsv") else ",")
    if suffix in ("parquet", "feather"):
        return pl.read_parquet(path).to_pandas() if suffix == "parquet" else pd.read_feather(path)
    if suffix == "json":
        return pd.DataFrame(json.loads(path.read_text()))
    if suffix == "jsonl":
        return pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
    with np.load(path) as arrays:
        return pd.DataFrame(dict(arrays))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "tsv.gz", "parquet", "feather", "json", "jsonl", "npz"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_results_are_written_in_one_go_or_in_blocks(tmp_path, suffix, blocks):
    path = tmp_path / f"out.{suffix}"
    with open_writer(path) as writer:
        for rows in np.array_split(np.arange(4), blocks):
            columns = {"label": LABELS[rows], "sure": SURE[rows]}
            writer.write(columns, ids=[IDS[row] for row in rows])
        assert not path.exists()
    frame = read_back(path)
    assert list(frame.columns) == ["id", "label", "sure"]
    assert frame["id"].tolist() == IDS
    assert frame["label"].tolist() == LABELS.tolist()
    np.testing.assert_array_equal(frame["sure"].to_numpy(dtype=np.float32), SURE)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_an_array_is_written_block_by_block(tmp_path, rng):
    values = dense(rng, np.float32)
    with open_writer(tmp_path / "x.npy") as writer:
        for start in range(0, N, 100):
            writer.write({"embedding": values[start : start + 100]})
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), values)
    same(open_table(tmp_path / "x.npy")[:], values)
    write_table(tmp_path / "x.csv", {"embedding": values[:3].astype(float)})
    assert open_table(tmp_path / "x.csv").columns == tuple(f"embedding_{i}" for i in range(D))
    np.testing.assert_array_equal(open_table(tmp_path / "x.csv")[:], values[:3])


def test_gzipped_results_do_not_depend_on_the_time(tmp_path):
    for name in ("a", "b"):
        write_table(tmp_path / f"{name}.csv.gz", {"label": LABELS})
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "feather", "json", "jsonl", "npy", "npz"])
def test_nothing_half_written_is_left(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    write_table(path, {"label": LABELS})
    before = path.read_bytes()

    def interrupted():
        with open_writer(path) as writer:
            writer.write({"label": LABELS + 1})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"out.xls cannot be written: .xls is none of .csv, .csv.gz"):
        write_table(tmp_path / "out.xls", {"label": LABELS})
    with pytest.raises(FormatError, match=r"holds one column, without ids. Got id, label"):
        write_table(tmp_path / "out.npy", {"label": LABELS}, ids=IDS)
    with pytest.raises(FormatError, match=r"one length. Got {'label': 4, 'sure': 3}"):
        write_table(tmp_path / "out.csv", {"label": LABELS, "sure": SURE[:3]})
    with pytest.raises(FormatError, match="two columns are called 'id'"):
        write_table(tmp_path / "out.csv", {"id": LABELS}, ids=IDS)
    with pytest.raises(FormatError, match="was given no rows"), open_writer(tmp_path / "out.csv"):
        pass
    with open_writer(tmp_path / "out.parquet") as writer:
        writer.write({"label": LABELS})
        with pytest.raises(FormatError, match=r"a block has label \(f\), but the first one had label \(i\)"):
            writer.write({"label": SURE})
    (tmp_path / "out.parquet").unlink()
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FormatError, match="it is a folder"):
        write_table(tmp_path / "folder.csv", {"label": LABELS})
    assert [file.name for file in tmp_path.iterdir()] == ["folder.csv"]


# -- the package ------------------------------------------------------------------------------------------------


def test_importing_the_room_loads_no_format():
    code = (
        "import sys, coterie.formats as f; [getattr(f, name) for name in f.__all__];"
        "print(sorted({'pyarrow', 'h5py', 'zarr', 'anndata', 'mudata', 'pandas', 'polars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_missing_library_is_an_error_that_names_the_extra(tmp_path, monkeypatch):
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "x.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"Reading parquet needs pyarrow .*pip install coterie\[files\]"):
        open_table(tmp_path / "x.parquet")
