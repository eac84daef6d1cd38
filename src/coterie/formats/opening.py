"""From a path, or from what is written on the command line, to tables and labels."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from os.path import exists  # unlike Path.exists, it takes any text
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from coterie.formats.errors import FormatError, blaming
from coterie.formats.tables import (
    Columns,
    FileTable,
    Lazy,
    StackStore,
    Store,
    Target,
    choose_columns,
    listed,
    place,
)

Source: TypeAlias = "str | PathLike[str] | Sequence[str | PathLike[str]]"

TEXT = frozenset({"text"})


@dataclass(frozen=True)
class Family:
    """Formats that one module reads."""

    module: str
    suffixes: tuple[str, ...]
    magic: frozenset[str]  # what the first bytes may look like
    has_columns: bool = False  # columns have types of their own and are chosen before reading

    def load(self) -> Any:
        """Return the module."""
        return import_module(f"coterie.formats.{self.module}")


FAMILIES = (
    Family("numpy_files", (".npy",), frozenset({".npy"})),
    Family("numpy_files", (".npz",), frozenset({".npz"})),
    Family("text_files", (".csv", ".tsv", ".txt"), TEXT, has_columns=True),
    Family("text_files", (".csv.gz", ".tsv.gz", ".txt.gz"), frozenset({".gz"}), has_columns=True),
    Family("arrow_files", (".parquet", ".pq"), frozenset({".parquet"}), has_columns=True),
    Family("arrow_files", (".feather", ".arrow"), frozenset({".feather", "text"}), has_columns=True),
    Family("matlab_files", (".mat",), frozenset({".mat", ".h5", "text"})),
    Family("tree_files", (".h5", ".hdf5", ".he5", ".h5ad", ".h5mu"), frozenset({".h5"})),
    Family("tree_files", (".zarr",), frozenset()),
    Family("svmlight_files", (".svm", ".svmlight", ".libsvm"), TEXT),
    Family("svmlight_files", (".svm.gz", ".svmlight.gz", ".libsvm.gz"), frozenset({".gz"})),
)

MAGIC = {
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


def open_table(
    path: Source,
    *,
    key: str | None = None,
    columns: Columns = None,
    id_column: str | int | None = None,
    name: str | None = None,
) -> FileTable:
    """Open a table without reading it.

    Parameters
    ----------
    path : path, or list of paths
        A file, a zarr folder, or a folder or list of files of one format, whose rows are one table: a folder's files in
        natural order (``part-2`` before ``part-10``), without those whose name begins with a dot or an underscore or
        whose extension is not known.
    key : str or None, default=None
        Which table of a file that holds several: an array of an ``.npz``, a view of a bundle, a variable, a cell
        (``X/0``) or a struct's field (``data/X``) of a ``.mat``, a path in HDF5, zarr, AnnData (``"obsm/X_pca"``; X if
        None) or MuData (``"rna/obsm/X_pca"``).
    columns : name, number, slice or list of these, default=None
        The columns to read; None reads all of them.
    id_column : str, int or None, default=None
        The column of a text, parquet or Arrow file that holds the rows' ids. None takes the index that pandas stored,
        if any; AnnData and MuData bring their own.
    name : str or None, default=None
        The name of the view. None takes the key's last part, or the file's name.

    Returns
    -------
    FileTable

    Raises
    ------
    FormatError
        If the file cannot be read as a table of real numbers.

    Notes
    -----
    An array of one dimension is a table of one column. One of three or more, such as a stack of images, has one row
    per image. Numbers in text are float64; columns of several types are read as the type that holds them all; a column
    of lists of one length is as many columns. What a file has no value for is NaN. pandas' numbering of rows (a
    RangeIndex) is no ids.

    Read block by block are ``.npy``, uncompressed ``.npz``, text, parquet, Arrow, HDF5, zarr, and sparse matrices that
    are stored by rows. Compressed ``.npz``, ``.gz`` and ``.mat`` are unpacked once, to a temporary file; a file that
    claims to unpack to more than 128 MiB and 250 times its size is refused. svmlight, and sparse matrices that are
    stored by columns, are read whole.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/digits.npy"
    >>> np.save(path, np.arange(12, dtype=np.uint8).reshape(4, 3))
    >>> table = open_table(path)
    >>> table.name, table.shape, table[1:3].tolist()
    ('digits', (4, 3), [[3, 4, 5], [6, 7, 8]])
    """
    files = files_of(path)
    stores = [open_store(file, key, columns, id_column) for file in files]
    owner = str(path) if isinstance(path, str | PathLike) else f"{files[0]} and {len(files) - 1} more"
    store = stores[0] if len(stores) == 1 else stack(stores, owner)
    chosen = (
        None if family_of(files[0]).has_columns else choose_columns(columns, store.columns, store.shape[1], store.where)
    )
    if name is None:
        name = name_of_key(key) if key else stem(Path(path) if isinstance(path, str | PathLike) else files[0])
    return FileTable(name, store, chosen, files)


def open_views(
    specs: str | PathLike[str] | Mapping[str, Any] | Iterable[str | PathLike[str]],
    *,
    id_column: str | int | None = None,
) -> dict[str, FileTable]:
    """Open the views that are written on a command line.

    A view is written as::

        [name=]path[::key][[columns]]

    ``name`` is the view's name; without it the key's last part or the file's name is taken. ``path`` is a file or a
    folder, ``key`` chooses a table in it (see `open_table`), and ``columns`` are names, numbers from 0 and ranges of
    numbers (``2:5`` is 2, 3, 4), with commas between them; a name goes before a number. A path that exists as it is
    written is never taken apart. A file that holds several tables, without a key, is as many views: the arrays of an
    ``.npz`` or HDF5 file with two or more dimensions, the views of a bundle, the cells of a ``.mat`` file, the
    modalities of MuData. Known labels (``y``, ``gt``, ``labels``, ...) are never a view.

    Parameters
    ----------
    specs : str, path, list of these, or dict
        The views. In a dict, the keys are the views' names, and a list of paths is one table.
    id_column : str, int or None, default=None
        The column of ids in text, parquet and Arrow files.

    Returns
    -------
    dict of str to FileTable

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/toy.npz"
    >>> np.savez(path, left=np.eye(3), right=np.ones((3, 2)), y=[0, 0, 1])
    >>> list(open_views([path]))
    ['left', 'right']
    >>> open_views([f"half={path}::left[0:2]"])["half"].shape
    (3, 2)
    """
    if isinstance(specs, str | PathLike):
        specs = [specs]
    asked: list[Spec] = []
    pairs = specs.items() if isinstance(specs, Mapping) else [(None, spec) for spec in specs]
    for named, source in pairs:
        parsed = parse_spec(source) if isinstance(source, str | PathLike) else Spec(None, source)
        asked.append(Spec(parsed.name if named is None else str(named), parsed.path, parsed.key, parsed.columns))
    if not asked:
        raise FormatError("No views are given. Name at least one file.")
    views: dict[str, FileTable] = {}
    for spec in asked:
        for table in spec.open(id_column):
            if table.name in views:
                raise FormatError(
                    f"Two views are called {table.name!r}: {views[table.name].where} and {table.where}. "
                    f"Name one of them: other={table.where}"
                )
            views[table.name] = table
    return views


def open_target(path: str | PathLike[str], key: str | None = None, *, id_column: str | int | None = None) -> Target:
    """Read known labels, for evaluation.

    Parameters
    ----------
    path : str or path
        A file, or ``path::key``.
    key : str or None, default=None
        The column, array, variable or obs column. None takes the only one, or the one that is called ``y``, ``gt``,
        ``truth``, ``label``, ``target`` or the like.
    id_column : str, int or None, default=None
        The column of ids in a text, parquet or Arrow file.

    Returns
    -------
    Target
        Labels, and the rows' ids where the file has any.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/toy.npz"
    >>> np.savez(path, left=np.eye(3), y=[0, 0, 1])
    >>> open_target(path).labels
    array([0, 0, 1])
    """
    spec = parse_spec(path)
    key = spec.key if key is None else key
    return one_target([read_labels(file, key, id_column) for file in files_of(spec.path)], str(path))


def open_column(path: str | PathLike[str], key: str | None = None, *, id_column: str | int | None = None) -> Target:
    """Read one column of any values, such as what a map is to be coloured by.

    Parameters
    ----------
    path : str or path
        A file, ``path[column]`` or ``path::key``.
    key : str or None, default=None
        The column, where the path does not say it.
    id_column : str, int or None, default=None
        The column of ids in a text, parquet or Arrow file.

    Returns
    -------
    Target
        The values, numbers or text, and the rows' ids where the file has any.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/toy.npz"
    >>> np.savez(path, left=np.eye(3), age=[0.5, 1.5, np.nan])
    >>> open_column(f"{path}[age]").labels
    array([0.5, 1.5, nan])
    """
    spec = parse_spec(path)
    if spec.columns is not None and len(spec.columns) > 1:
        raise FormatError(f"{path} names {len(spec.columns)} columns. Name them one by one.")
    key = key or spec.key or (spec.columns[0] if spec.columns else None)
    parts = [read_values(file, key, id_column) for file in files_of(spec.path)]
    return one_target([Target(as_values(part.labels, str(path)), part.ids) for part in parts], str(path))


def one_target(parts: list[Target], where: str) -> Target:
    """Return what several files hold as one column."""
    ids = [part.ids for part in parts if part.ids is not None]
    if 0 < len(ids) < len(parts):
        raise FormatError(f"{where}: some files have row ids and others have none. All must be alike.")
    labels = np.concatenate([part.labels for part in parts])
    return Target(labels, np.concatenate(ids) if ids else None, where)


def read_values(path: Path, key: str | None, id_column: str | int | None) -> Target:
    """Return one column of one file, as it is stored."""
    family = family_of(path)
    check_file(path, family)
    with blaming(place(path, key)):
        found = family.load().labels(path, key, *([id_column] if family.has_columns else []))
    return Target(np.asarray(found.labels), found.ids)


def as_values(values: np.ndarray, where: str) -> np.ndarray:
    """Return numbers, also fractions and NaN, or text, one per row."""
    if values.dtype.kind == "f" and sum(side > 1 for side in values.shape) <= 1:
        return values.ravel()
    return as_labels(values, where)


def read_labels(path: Path, key: str | None, id_column: str | int | None) -> Target:
    """Return the labels of one file."""
    found = read_values(path, key, id_column)
    return Target(as_labels(found.labels, place(path, key)), found.ids)


def as_labels(values: np.ndarray, where: str) -> np.ndarray:
    """Return labels as whole numbers or text, one per row."""
    if sum(side > 1 for side in values.shape) > 1 or values.dtype.kind not in "biufUS":
        raise FormatError(f"{where} is not one label per row: it holds {values.dtype} of shape {values.shape}.")
    values = np.array(values.ravel())
    if values.dtype.kind == "f":
        if not np.isfinite(values).all() or (values != np.round(values)).any():
            raise FormatError(f"{where} is not labels: it holds fractions or NaN. Name another column or key.")
        return values.astype(np.int64)
    if values.dtype.kind == "U" and values.nbytes:
        codes = values.view(values.dtype.str[0] + "u4")
        if codes.max() > sys.maxunicode:  # of which Python can make no text
            raise FormatError(f"{where} is not labels: its text holds letters that there are not. Write it again.")
    return values


# -- what is written on the command line ------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """A view as it is asked for."""

    name: str | None
    path: Any
    key: str | None = None
    columns: tuple[str, ...] | None = None

    def open(self, id_column: str | int | None) -> list[FileTable]:
        """Open the view, or all views of a file that holds several."""
        first = files_of(self.path)[0]
        family = family_of(first)
        ids = id_column if family.has_columns else None
        check_file(first, family)
        with blaming(first):
            keys: tuple[str, ...] = () if self.key else family.load().tables(first)
        if len(keys) < 2:
            key = self.key or (keys[0] if keys else None)
            name = self.name or (None if self.key or not keys else name_of_key(keys[0]))
            return [open_table(self.path, key=key, columns=self.columns, id_column=ids, name=name)]
        if self.columns is not None:
            raise FormatError(
                f"{first} holds {len(keys)} tables ({listed(keys)}). Say whose columns: {first}::{keys[0]}[...]"
            )
        prefix = f"{self.name}." if self.name else ""
        names = [prefix + name for name in names_of_keys(keys)]
        return [open_table(self.path, key=key, id_column=ids, name=name) for key, name in zip(keys, names, strict=True)]


def parse_spec(spec: str | PathLike[str]) -> Spec:
    """Take apart what is written for one view.

    Examples
    --------
    >>> parse_spec("rna=cells.h5mu::rna/obsm/X_pca[0:20]")
    Spec(name='rna', path='cells.h5mu', key='rna/obsm/X_pca', columns=('0:20',))
    >>> parse_spec("C:/data/pixels.npy")
    Spec(name=None, path='C:/data/pixels.npy', key=None, columns=None)
    """
    text = str(spec)
    if exists(text):
        return Spec(None, text)
    name = re.match(r"([^=:/\\\[\]]+)=", text)
    rest = text[name.end() :] if name else text
    columns = re.search(r"\[([^\[\]]*)\]$", rest)
    if columns and not exists(rest):
        rest = rest[: columns.start()]
    else:
        columns = None
    path, colons, key = rest.partition("::")
    if not path or (colons and not key):
        raise FormatError(
            f"{text!r} is not a view. Write [name=]path[::key][[columns]], such as rna=cells.h5ad::obsm/X_pca."
        )
    chosen = tuple(part.strip() for part in columns[1].split(",")) if columns else None
    return Spec(name[1] if name else None, path, key or None, chosen)


def name_of_key(key: str) -> str:
    """Return what a table is called after its key."""
    last = key.removesuffix("/X").rpartition("/")[2]
    return key.replace("/", "_") if last.isdecimal() else last


def names_of_keys(keys: Sequence[str]) -> list[str]:
    """Return what the tables of one file are called."""
    names = [name_of_key(key) for key in keys]
    return names if len(set(names)) == len(names) else [key.replace("/", "_") for key in keys]


def stem(path: Path) -> str:
    """Return a file's name without its extensions.

    Examples
    --------
    >>> stem(Path("data/rna.v2.csv.gz"))
    'rna.v2'
    """
    suffix = suffix_of(path)
    return path.name[: len(path.name) - len(suffix)] or path.name


# -- files ------------------------------------------------------------------------------------------------------


def files_of(source: Source) -> list[Path]:
    """Return the files of a path: itself, or a folder's in natural order."""
    if not isinstance(source, str | PathLike):
        files = [file for path in source for file in files_of(path)]
        if not files:
            raise FormatError("The list of files is empty. Name at least one.")
        return files
    path = Path(source).expanduser()
    if not exists(path):
        raise FormatError(f"There is no file {path}{nearby(path)}.")
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
    """Return what there is instead of a file that is not there."""
    if not path.parent.is_dir():
        return f": there is no folder {path.parent}"
    import difflib

    close = difflib.get_close_matches(path.name, [file.name for file in path.parent.iterdir()], n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def natural(path: Path) -> list[Any]:
    """Return what to sort by so that numbers in names count as numbers."""
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", str(path))]


def is_zarr(path: Path) -> bool:
    """Whether a folder is a zarr store."""
    return path.is_dir() and (path.suffix.lower() == ".zarr" or any((path / name).exists() for name in ZARR))


def suffix_of(path: Path) -> str:
    """Return the extension, with .gz and what is before it."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last == ".gz" else last


def known_suffixes() -> str:
    """Return all extensions that can be read."""
    return ", ".join(suffix for family in FAMILIES for suffix in family.suffixes if not suffix.endswith(".gz"))


def looks_like(path: Path) -> str | None:
    """Return the format that a file's first bytes are those of; "text" where they are nothing known."""
    with open(path, "rb") as file:
        head = file.read(16)
    return next((suffix for magic, suffix in MAGIC.items() if head.startswith(magic)), "text") if head else None


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
        raise FormatError(
            f"{path} has an unknown extension.{hint} Known formats: {known_suffixes()}; text also with .gz."
        )
    return found


def check_file(path: Path, family: Family) -> None:
    """Refuse a file that is empty or begins like another format."""
    if path.is_dir():
        return
    try:
        looks = looks_like(path)
    except OSError as error:
        raise FormatError(f"{path} cannot be opened: {error.strerror or error}.") from error
    if looks is None:
        raise FormatError(f"{path} is empty. Write it again.")
    if looks not in family.magic:
        what = "does not begin like one. Is it complete?" if looks == "text" else f"looks like {looks}. Rename it."
        raise FormatError(f"{path} is called {suffix_of(path)} but {what}")


def open_store(path: Path, key: str | None, columns: Columns, id_column: str | int | None) -> Store:
    """Open one file."""
    family = family_of(path)
    check_file(path, family)
    module = family.load()
    if family.has_columns:
        with blaming(path):
            return module.open_store(path, key, columns, id_column)
    if id_column is not None:
        raise FormatError(
            f"{path} has no column of ids {id_column!r}: only text, parquet and Arrow files have columns."
        )
    with blaming(place(path, key)):
        if key is None:
            keys = module.tables(path)
            if len(keys) > 1:
                raise FormatError(f"{path} holds {len(keys)} tables ({listed(keys)}). Choose one: {path}::{keys[0]}")
            key = keys[0] if keys else None
        return module.open_store(path, key)


def stack(stores: Sequence[Store], owner: str) -> Store:
    """Return the rows of several files as one table; refuse a file that is not like the first."""
    first = stores[0]
    for store in stores[1:]:
        for what, ours, theirs in (
            ("columns", store.shape[1], first.shape[1]),
            ("column names", store.columns, first.columns),
            ("types", store.types or store.dtype, first.types or first.dtype),
            ("row ids", "none" if store.ids is None else "some", "none" if first.ids is None else "some"),
            ("kind", "sparse" if store.is_sparse else "dense", "sparse" if first.is_sparse else "dense"),
        ):
            if ours != theirs:
                raise FormatError(
                    f"{store.where} differs from {first.where} in {what}: {short(ours, theirs)} where that has "
                    f"{short(theirs, ours)}. All files of a table must be alike."
                )
    lengths = [store.shape[0] for store in stores]
    return StackStore(
        where=owner,
        shape=(sum(lengths), first.shape[1]),
        dtype=np.result_type(*[store.dtype for store in stores]),
        columns=first.columns,
        ids=None if first.ids is None else Lazy(joined_ids, tuple(stores)),
        stores=tuple(stores),
        starts=np.concatenate([[0], np.cumsum(lengths)]),
    )


def short(ours: Any, theirs: Any) -> str:
    """Return the part of one description in which it differs from another."""
    if isinstance(ours, str) and isinstance(theirs, str):
        ours, theirs = ours.split(", "), theirs.split(", ")
    if isinstance(ours, Sequence) and isinstance(theirs, Sequence):
        return next((repr(a) for a, b in zip(ours, theirs, strict=False) if a != b), f"{len(ours)} of them")
    return str(ours)


def joined_ids(stores: Sequence[Store]) -> np.ndarray:
    """Return the ids of several stores."""
    return np.concatenate([store.ids() for store in stores if store.ids is not None])
