"""Which module reads a file, and that every module is what the registry takes it for."""

import ast
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pandas as pd
import pytest
from written_files import npy, refused

from coterie import formats
from coterie.formats import (
    FormatError,
    open_table,
    write_table,
)
from coterie.formats.registry import FAMILIES, Reader, TablesReader


@pytest.fixture
def rng():
    return np.random.default_rng(0)


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


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.suffixes[0])
def test_every_module_provides_what_a_reader_must(family):
    reader = import_module(f"coterie.formats.{family.module}")
    protocols = (Reader, TablesReader) if family.holds == "tables" else (Reader,)
    wanted = {name: member for one in protocols for name, member in vars(one).items() if not name.startswith("_")}
    assert list(wanted) == ["open_store", "read_labels", "list_tables"][: len(protocols) + 1]
    for name, member in wanted.items():
        found = getattr(reader, name)
        assert found.__module__ == reader.__name__
        assert get_type_hints(found) == get_type_hints(member)
        assert found.__doc__


def test_every_extension_has_one_module():
    known = [suffix for family in FAMILIES for suffix in family.suffixes]
    assert len(set(known)) == len(known)


def test_a_file_may_begin_with_a_tilde(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    np.save("~tilde.npy", np.eye(3))
    assert open_table("~tilde.npy").shape == (3, 3)
    write_table("~out.csv", {"x": [1.0, 2.0]})
    assert open_table("~out.csv").shape == (2, 1)
    (tmp_path / "home").mkdir()
    np.save(tmp_path / "home" / "x.npy", np.eye(4))
    assert open_table("~/x.npy").shape == (4, 4)
    with pytest.raises(FormatError, match=r"There is no file ~none.npy"):
        open_table("~none.npy")


def test_formats_stand_on_nothing_above_them():
    """Neither at the top of a module nor inside a function."""
    allowed = ("coterie.formats", "coterie.files", "coterie.lazy", "coterie.machine", "coterie.validation")
    for path in Path(formats.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            above = [name for name in names if name.split(".")[0] == "coterie" and not name.startswith(allowed)]
            assert not above, f"{path.name} imports {above}"


def test_spreadsheets_are_to_be_saved_as_text(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.xlsx", "w") as sheet:  # as .xlsx is, and .npz
        sheet.writestr("xl/workbook.xml", "<workbook/>")
    refused(tmp_path / "x.xlsx", r"unknown extension\. Save the sheet as \.csv \(UTF-8\)\. Known formats")
