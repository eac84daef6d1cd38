"""Which module reads a file, by its extension and first bytes; `coterie.formats` says what such a module provides."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from os.path import exists  # unlike Path.exists, it takes any text
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from coterie.files import expand_home
from coterie.formats.columns import ColumnChoice
from coterie.formats.errors import FormatError
from coterie.formats.labels import Target
from coterie.formats.stores import Store

Paths: TypeAlias = "str | PathLike[str] | Sequence[str | PathLike[str]]"

TEXT = frozenset({"text"})


@dataclass(frozen=True)
class Request:
    """What to read from a file."""

    key: str | None = None  # which of its tables
    columns: ColumnChoice = None  # None: all of them
    id_column: str | int | None = None
    header: bool | None = None  # whether the first line of a text holds names; None: find out
    numeric_only: bool = False  # whether columns that hold no numbers are left out, with a warning
    fractions: bool = False  # whether a column read as labels may be fractions and gaps, which text holds as text


class Reader(Protocol):
    """What a module that reads a format provides."""

    def open_store(self, path: Path, request: Request) -> Store:
        """Return a table of the file, without reading it."""

    def read_labels(self, path: Path, request: Request) -> Target:
        """Return known labels, and the rows' ids where the file has any."""


class TablesReader(Reader, Protocol):
    """What a module provides whose files may hold several tables."""

    def list_tables(self, path: Path) -> tuple[str, ...]:
        """Return the keys that open as views of their own; none where the file is one table."""


@dataclass(frozen=True)
class Family:
    """Formats that one module reads."""

    module: str
    suffixes: tuple[str, ...]
    magic: frozenset[str]  # what the first bytes may look like
    # One "table"; "tables" by key; or "columns" that have types of their own and are chosen before reading.
    holds: Literal["table", "tables", "columns"]

    def reader(self) -> Any:
        """Return the module, a `Reader` or `TablesReader`; its library is imported only now."""
        return import_module(f"coterie.formats.{self.module}")

    def list_tables(self, path: Path) -> tuple[str, ...]:
        """Return the keys that open as views of their own; none where the file is one table."""
        return self.reader().list_tables(path) if self.holds == "tables" else ()


# One line per format.
FAMILIES = (
    Family("numpy_files", (".npy",), frozenset({".npy"}), "table"),
    Family("numpy_files", (".npz",), frozenset({".npz"}), "tables"),
    Family("text_files", (".csv", ".tsv", ".txt"), TEXT, "columns"),
    Family("text_files", (".csv.gz", ".tsv.gz", ".txt.gz"), frozenset({".gz"}), "columns"),
    Family("arrow_files", (".parquet", ".pq"), frozenset({".parquet"}), "columns"),
    Family("arrow_files", (".feather", ".arrow"), frozenset({".feather", "text"}), "columns"),
    Family("matlab_files", (".mat",), frozenset({".mat", ".h5", "text"}), "tables"),
    Family("tree_files", (".h5", ".hdf5", ".he5", ".h5ad", ".h5mu"), frozenset({".h5"}), "tables"),
    Family("tree_files", (".zarr",), frozenset(), "tables"),
    Family("svmlight_files", (".svm", ".svmlight", ".libsvm"), TEXT, "table"),
    Family("svmlight_files", (".svm.gz", ".svmlight.gz", ".libsvm.gz"), frozenset({".gz"}), "table"),
)

SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers")  # zipped, as .npz is
FIRST_BYTES = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"PK\x05\x06": ".npz",
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"\x89HDF\r\n\x1a\n": ".h5",
    b"MATLAB": ".mat",
    b"MuData": ".h5",
    b"\x1f\x8b": ".gz",
}
ZARR = ("zarr.json", ".zarray", ".zgroup")


# -- files ------------------------------------------------------------------------------------------------------


def files_of(source: Paths) -> list[Path]:
    """Return the files of a path: itself, or a folder's in natural order."""
    if not isinstance(source, str | PathLike):
        files = [file for path in source for file in files_of(path)]
        if not files:
            raise FormatError("The list of files is empty. Name at least one.")
        return files
    path = expand_home(source)
    if str(source) == "-":
        raise FormatError("- cannot be read: rows are read several times. Write standard input to a file first.")
    if not exists(path):
        raise FormatError(f"There is no file {path}{nearby(path)}.")
    if not path.is_dir() and not path.is_file():
        raise FormatError(f"{path} is a device or a pipe, and rows are read several times. Write them to a file first.")
    if not path.is_dir() or is_zarr(path):
        return [path]
    found = [file for file in path.rglob("*") if file.is_file() or is_zarr(file)]
    inside = [file.relative_to(path) for file in found]
    shown = [file for file in inside if not any(part[0] in "._" for part in file.parts)]
    whole = [path / file for file in sorted(shown, key=natural) if not any(is_zarr(path / up) for up in file.parents)]
    files = [file for file in whole if is_known(file)]
    if not files:
        raise FormatError(f"{path} is a folder without data files. Known formats: {known_suffixes()}.")
    return files


def nearby(path: Path) -> str:
    """Return a hint for the error about a missing file: a broken link, a missing folder, or a similar name."""
    if path.is_symlink():
        return f": it is a link to {os.readlink(path)}, which leads nowhere"
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    import difflib

    close = difflib.get_close_matches(path.name, [file.name for file in path.parent.iterdir()], n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def natural(path: Path) -> list[Any]:
    """Return a key that sorts numbers in names by their values."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", str(path))]


def is_zarr(path: Path) -> bool:
    """Whether a folder is a zarr store."""
    return path.is_dir() and (path.suffix.lower() == ".zarr" or any((path / name).exists() for name in ZARR))


def suffix_of(path: Path) -> str:
    """Return the extension in lower case; with .gz, also the extension before it."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last == ".gz" else last


def known_suffixes() -> str:
    """Return all extensions that can be read."""
    return ", ".join(suffix for family in FAMILIES for suffix in family.suffixes if not suffix.endswith(".gz"))


def looks_like(path: Path) -> str | None:
    """Return the format that a file's first bytes belong to; "text" if it is unknown, None for an empty file."""
    with open(path, "rb") as file:
        head = file.read(16)
    return next((suffix for magic, suffix in FIRST_BYTES.items() if head.startswith(magic)), "text") if head else None


def is_known(path: Path) -> bool:
    """Whether a file's extension is that of a known format."""
    return is_zarr(path) or any(suffix_of(path) in family.suffixes for family in FAMILIES)


def family_of(path: Path) -> Family:
    """Return the family that reads a file, by its extension."""
    suffix = ".zarr" if is_zarr(path) else suffix_of(path)
    found = next((family for family in FAMILIES if suffix in family.suffixes), None)
    if found is None:
        looks = looks_like(path)
        hint = f" It looks like {looks}: rename it." if looks not in (None, "text") else ""
        if suffix in SPREADSHEETS:
            hint = " Save the sheet as .csv (UTF-8)."
        raise FormatError(
            f"{path} has an unknown extension.{hint} Known formats: {known_suffixes()}; text also with .gz."
        )
    return found


def checked_family(path: Path) -> Family:
    """Return the family that reads a file; refuse one that is empty or begins like another format."""
    family = family_of(path)
    if path.is_dir():
        return family
    try:
        looks = looks_like(path)
    except OSError as error:
        raise FormatError(f"{path} cannot be opened: {error.strerror or error}.") from error
    if looks is None:
        raise FormatError(f"{path} is empty. Write it again.")
    if looks not in family.magic:
        what = "does not begin like one. Is it complete?" if looks == "text" else f"looks like {looks}. Rename it."
        raise FormatError(f"{path} is called {suffix_of(path)} but {what}")
    return family


def stem(path: Path) -> str:
    """Return a file's name without its extensions.

    Examples
    --------
    >>> stem(Path("data/rna.v2.csv.gz"))
    'rna.v2'
    """
    suffix = suffix_of(path)
    return path.name[: len(path.name) - len(suffix)] or path.name
