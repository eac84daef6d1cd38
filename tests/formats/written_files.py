"""Files of every format, written by the libraries that own the formats, and what is in them."""

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
from pandas_text import plain_text
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from coterie.datasets import save_views
from coterie.formats import (
    FormatError,
    open_table,
)

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


def opened(case):
    return open_table(case.path, key=case.key, **(case.options or {}))


def refused(path, message, **options):
    """The file is refused in one line that names it."""
    with pytest.raises(FormatError, match=message) as caught:
        open_table(path, **options)[:]
    said = str(caught.value)
    assert "\n" not in said
    assert Path(path).name.partition("::")[0] in said
