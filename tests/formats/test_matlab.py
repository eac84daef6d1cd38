"""MATLAB's older formats, against what SciPy writes and reads, and files that MATLAB itself wrote."""

import io
import os
import struct
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy
import scipy.io
from scipy import sparse

from coterie.formats import FormatError, open_table, open_target, open_views
from coterie.formats.matlab_child import write_variables
from coterie.formats.matlab_files import is_hdf5, read_variables, stored_in, variables

REAL = Path(scipy.__file__).parent / "io" / "matlab" / "tests" / "data"
DTYPES = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]


def flat(key, value):
    """Yield key and value of all that SciPy reads of a variable, named as our readers name it."""
    if value.dtype.names and value.size == 1:
        for name in value.dtype.names:
            yield from flat(f"{key}/{name}", value.flat[0][name])
    elif value.dtype == object and not sparse.issparse(value):
        for i, cell in enumerate(value.ravel(order="F")):
            yield from flat(f"{key}/{i}", cell)
    elif not value.dtype.names:
        yield key, value


def test_another_file_of_the_same_name_size_and_time_is_read(tmp_path, monkeypatch):
    """Archives round times, and relative paths mean another file in another folder."""
    for name, value in (("a", 1.0), ("b", 2.0)):
        (tmp_path / name).mkdir()
        scipy.io.savemat(tmp_path / name / "x.mat", {"x": np.full((3, 2), value)}, format="4")
        os.utime(tmp_path / name / "x.mat", ns=(1, 1))
    for name, value in (("a", 1.0), ("b", 2.0), ("a", 1.0)):
        monkeypatch.chdir(tmp_path / name)
        assert open_table("x.mat")[:].tolist() == np.full((3, 2), value).tolist()


def dense(value):
    return value.toarray() if sparse.issparse(value) else value


def check_file(path, ours):
    """Compare all of a file with what SciPy reads."""
    theirs = {name: value for name, value in scipy.io.loadmat(path).items() if not name.startswith("__")}
    for name, value in theirs.items():
        for key, one in flat(name, value):
            kind, arrays = ours[key].kind, ours[key].arrays
            found = sparse.csr_array(arrays, shape=ours[key].shape) if kind == "sparse" else arrays[0]
            assert (kind == "sparse") == sparse.issparse(one)
            assert found.dtype == one.dtype.newbyteorder("=")
            np.testing.assert_array_equal(dense(found), dense(one), key)


def cells(*values):
    found = np.empty((1, len(values)), dtype=object)
    found[0, :] = values
    return found


@pytest.mark.parametrize("packed", [False, True])
def test_every_type_of_version_5(tmp_path, rng, packed):
    path = tmp_path / "x.mat"
    numbers = rng.integers(0, 100, (4, 3))
    everything = {
        **{f"a{i}": numbers.astype(dtype) for i, dtype in enumerate(DTYPES)},
        "stack": rng.standard_normal((2, 3, 4)),
        "complex": numbers + 1j,
        "thin": sparse.random_array((5, 4), density=0.3, format="csc", rng=rng),
        "thin_complex": sparse.csc_array(np.eye(3) * 1j),
        "text": ["one", "two"],
        "word": "größer",
        "empty": np.zeros((0, 3)),
        "cells": cells(numbers, "word", cells(np.eye(2), sparse.csc_array(np.eye(2)))),
        "data": {"X": cells(np.eye(3), numbers), "gt": [1, 2, 3]},
        "a_long_name_that_does_not_fit_into_eight_bytes": [[1.5]],
    }
    scipy.io.savemat(path, everything, do_compression=packed, long_field_names=True)
    check_file(path, read_variables(path))
    found = variables(path)
    assert found["a0"] == ((4, 3), "numbers")
    assert found["data/X"] == ((1, 2), "cell")
    assert found["thin"] == ((5, 4), "sparse")


def test_every_type_of_version_4(tmp_path, rng):
    path = tmp_path / "x.mat"
    numbers = rng.integers(0, 100, (4, 3))
    everything = {
        **{f"a{i}": numbers.astype(dtype) for i, dtype in enumerate(["f8", "f4", "i4", "i2", "u2", "u1"])},
        "complex": numbers + 1j,
        "thin": sparse.random_array((5, 4), density=0.3, format="csc", rng=rng),
        "thin_complex": sparse.csc_array(np.eye(3) * 1j),
        "text": ["one", "two"],
    }
    scipy.io.savemat(path, everything, format="4")
    check_file(path, read_variables(path))
    assert variables(path)["a0"] == ((4, 3), "numbers")


@pytest.mark.skipif(not REAL.is_dir(), reason="SciPy was installed without its tests")
def test_files_that_matlab_wrote():
    odd = ("func", "object", "parabola", "sqr", "nasty", "empty_struct", "malformed", "corrupted", "bad_", "debigged")
    paths = [path for path in sorted(REAL.glob("*.mat")) if not any(mark in path.name for mark in odd)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in paths:
            if not is_hdf5(path):
                out = io.BytesIO()
                write_variables(str(path), out)  # good files need no child process
                check_file(path, stored_in(out.getvalue()))
    assert len(paths) > 80


def element(kind, data, order="<"):
    return struct.pack(f"{order}II", kind, len(data)) + data + bytes(-len(data) % 8)


def variable(name, shape, values, order="<", kind=6, flags=0):
    """A variable of version 5 as an element; values are (kind, bytes)."""
    parts = [
        element(6, struct.pack(f"{order}II", flags << 8 | kind, 0), order),
        element(5, struct.pack(f"{order}{len(shape)}i", *shape), order),
        element(1, name.encode(), order),
        *(element(*value, order) for value in values),
    ]
    return element(14, b"".join(parts), order)


def version_5(*elements, order="<"):
    mark = b"\x00\x01IM" if order == "<" else b"\x01\x00MI"
    return b"MATLAB 5.0 MAT-file".ljust(124) + mark + b"".join(elements)


def packed(data):
    """An element as a compressed element, which is not filled up to eight bytes."""
    data = zlib.compress(data)
    return struct.pack("<II", 15, len(data)) + data


def test_big_endian(tmp_path, rng):
    path = tmp_path / "x.mat"
    values = rng.standard_normal((7, 3))
    path.write_bytes(version_5(variable("X", (7, 3), [(9, values.astype(">f8").T.tobytes())], ">"), order=">"))
    np.testing.assert_array_equal(open_table(path)[:], values)
    assert open_table(path).dtype == np.float64
    header = struct.pack(">5i", 1000, 7, 3, 0, 2) + b"X\0"  # version 4
    path.write_bytes(header + values.astype(">f8").T.tobytes())
    np.testing.assert_array_equal(open_table(path)[2:4], values[2:4])


def test_a_struct_holds_views_and_labels(tmp_path, rng):
    path = tmp_path / "x.mat"
    views = [rng.standard_normal((6, 2)), rng.standard_normal((6, 4))]
    scipy.io.savemat(path, {"data": {"X": cells(*views), "gt": np.arange(6) % 2}}, do_compression=True)
    found = open_views([path])
    assert list(found) == ["data_X_0", "data_X_1"]
    np.testing.assert_array_equal(found["data_X_1"][:], views[1])
    np.testing.assert_array_equal(open_target(path).labels, np.arange(6) % 2)
    assert open_table(path, key="data/X/0").shape == (6, 2)


THREE = [(9, np.arange(3.0).tobytes())]
BROKEN = {
    "more values than the shape": version_5(variable("X", (1, 2), THREE)),
    "fewer values than the shape": version_5(variable("X", (1 << 30, 1 << 30), THREE)),
    "a negative side": version_5(variable("X", (-3, -1), THREE)),
    "no values": version_5(variable("X", (3, 1), [])),
    "an unknown class": version_5(variable("X", (3, 1), THREE, kind=99)),
    "an object": version_5(variable("X", (3, 1), THREE, kind=3)),
    "half a number": version_5(variable("X", (3, 1), [(9, b"abc")])),
    "cells that are none": version_5(variable("X", (1, 1), THREE, kind=1)),
    "cells that are not there": version_5(variable("X", (1 << 30, 1 << 30), [], kind=1)),
    "pointers that are not there": version_5(variable("X", (3, 1 << 30), [(5, b""), (5, b""), *THREE], kind=5)),
    "rows beyond measure": version_5(variable("X", (1 << 30, 1), [(5, bytes(4)), (5, bytes(8)), *THREE], kind=5)),
    "a size that lies": version_5(variable("X", (3, 1), THREE))[:-8],
    "no version": version_5(variable("X", (3, 1), THREE)).replace(b"\x00\x01IM", b"\x00\x09IM"),
    "a packed lie": version_5(packed(variable("X", (1 << 20, 1 << 20), THREE))),
    "packed junk": version_5(struct.pack("<II", 15, 9) + b"not zlib."),
    "packed twice": version_5(packed(packed(variable("X", (3, 1), THREE)))),
    "a packed stream that ends early": version_5(packed(variable("X", (300, 1), [(9, bytes(2400))]))[:-6]),
    "version 4 beyond its end": struct.pack("<5i", 0, 1 << 30, 1 << 30, 0, 2) + b"X\0" + bytes(80),
    "version 4 with a negative side": struct.pack("<5i", 0, -1, -1, 0, 2) + b"X\0" + bytes(8),
    "version 4 with an endless name": struct.pack("<5i", 0, 1, 1, 0, 1 << 30) + b"X\0" + bytes(8),
    "version 4, sparse without measure": struct.pack("<5i", 2, 1, 3, 0, 2) + b"X\0" + np.full(3, 1e300).tobytes(),
    "version 4, sparse, NaN rows": struct.pack("<5i", 2, 1, 3, 0, 2) + b"X\0" + np.full(3, np.nan).tobytes(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(tmp_path, name):
    path = tmp_path / "x.mat"
    path.write_bytes(BROKEN[name])
    with pytest.raises(FormatError, match=f"^{path}[^\n]*$"):
        open_table(path)


def test_odd_files_are_read_as_scipy_reads_them(tmp_path):
    path = tmp_path / "x.mat"
    path.write_bytes(version_5(variable("X", (3,), THREE)))
    assert open_table(path)[:].tolist() == [[0.0], [1.0], [2.0]]
    path.write_bytes(version_5(variable("X", (3, 1), [(16, b"abc")])))
    assert open_table(path)[:].tolist() == [[97], [98], [99]]


def test_cells_inside_cells_without_end(tmp_path):
    """SciPy follows them by calling itself, until there is no stack left."""
    inside = variable("", (3, 1), THREE)
    head = variable("", (1, 1), [], kind=1)[8:]
    for _ in range(3000):
        inside = element(14, head + inside)
    path = tmp_path / "x.mat"
    path.write_bytes(version_5(element(14, variable("X", (1, 1), [], kind=1)[8:] + inside)))
    with pytest.raises(FormatError, match=f"^{path}[^\n]*$"):
        open_table(path)


def test_a_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr("coterie.formats.unpacking.BOMB_BYTES", 1 << 20)
    path = tmp_path / "x.mat"
    path.write_bytes(version_5(packed(variable("X", (1 << 20, 1), [(9, bytes(8 << 20))]))))
    with pytest.raises(FormatError, match="more than 250 times as many"):
        open_table(path)
