"""Arrays that are no tables, and sparse ones that point outside."""

import h5py
import numpy as np
import pytest
import scipy.io
from scipy import sparse
from written_files import D, h5ad_layer_csc, mat73_sparse, refused, thin

from coterie.formats import (
    FormatError,
    open_table,
)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


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
