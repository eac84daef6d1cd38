"""Open tables and labels, from paths or from what is written on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from coterie.formats.checks import address, listed
from coterie.formats.columns import ColumnChoice, choose_columns
from coterie.formats.errors import FormatError, NoColumnError, errors_naming
from coterie.formats.labels import Target, as_known_labels, as_labels
from coterie.formats.matching import joined_numbers, numbered_rows
from coterie.formats.registry import Paths, Request, checked_family, family_of, files_of, stem
from coterie.formats.specs import Spec, name_of_key, names_of_keys, parse_spec
from coterie.formats.stores import Lazy, StackStore, Store
from coterie.formats.tables import FileTable


def open_table(
    path: Paths,
    *,
    key: str | None = None,
    columns: ColumnChoice = None,
    id_column: str | int | None = None,
    header: bool | None = None,
    name: str | None = None,
    numeric_only: bool = False,
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
    columns : name, pattern, number, slice or list of these, default=None
        The columns to read; None reads all of them. In a pattern, * matches any characters and ? matches one. Numbers
        count all columns of the file from 0, including a column of ids.
    id_column : str, int or None, default=None
        The column of a text, parquet or Arrow file that holds the rows' ids. None takes the index that pandas stored,
        if any; AnnData and MuData bring their own.
    header : bool or None, default=None
        Whether the first line of a text file holds names. None detects it, and warns where numbers in it may be names.
    name : str or None, default=None
        The name of the view. None takes the key's last part, or the file's name.
    numeric_only : bool, default=False
        Whether columns of a text, parquet or Arrow file that hold no numbers are left out, with a warning that names
        them; else they are an error. In a text file, the first lines decide.

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
    per image. Numbers in text are float64; columns of several types are read as their common type; a column of lists
    of equal length becomes one column per entry of the lists. Missing values are NaN. pandas' default numbering of rows
    (a RangeIndex) is not used as ids, unless it is that of a sliced or reversed frame, which does not count from 0.

    These are read block by block: ``.npy``, uncompressed ``.npz``, text, parquet, Arrow, HDF5, zarr, and sparse
    matrices that are stored by rows. Compressed ``.npz`` and ``.gz`` are unpacked once, to a temporary file, and so is
    ``.mat`` before version 7.3, by SciPy in a child process; a file that claims to unpack to more than 128 MiB and 250
    times its size is refused. svmlight, and sparse matrices that are stored by columns, are read whole.

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
    request = Request(key, columns, id_column, header, numeric_only)
    stores = [open_store(file, request) for file in files]
    owner = str(path) if isinstance(path, str | PathLike) else f"{files[0]} and {len(files) - 1} more"
    store = stores[0] if len(stores) == 1 else stack_stores(stores, owner)
    numbers = [part.numbers for part in stores]
    if numbered_rows(numbers) is not None:
        store = replace(store, ids=Lazy(joined_numbers, numbers))
    chosen = None  # the reader has selected columns itself
    if family_of(files[0]).holds != "columns":
        chosen = choose_columns(columns, store.columns, store.shape[1], store.where)
    if name is None:
        name = name_of_key(key) if key else stem(Path(path) if isinstance(path, str | PathLike) else files[0])
    name = name.encode("utf-8", "replace").decode()  # names of files may be any bytes; those of views are text
    return FileTable(name, store, chosen, files, request)


def open_views(
    specs: str | PathLike[str] | Mapping[str, Any] | Iterable[str | PathLike[str]],
    *,
    id_column: str | int | None = None,
    header: bool | None = None,
    numeric_only: bool = False,
) -> dict[str, FileTable]:
    """Open views that are written as on the command line.

    A view is written as::

        [name=]path[::key][[columns]]

    ``name`` is the view's name; without it the key's last part or the file's name is taken. ``path`` is a file or a
    folder, ``key`` chooses a table in it (see `open_table`), and ``columns`` are names, patterns of them (``t*``),
    numbers from 0 and ranges of numbers (``2:5`` is 2, 3, 4), with commas between them; names take precedence over
    numbers, and numbers count all columns of the file. The path of an existing file or folder is never parsed.
    Without a key, a file that holds several tables opens as one view for each: the arrays of an ``.npz`` or HDF5 file
    with two or more dimensions, the views of a bundle, the cells of a ``.mat`` file, the modalities of MuData. Known
    labels (``y``, ``gt``, ``labels``, ...) are never a view.

    Parameters
    ----------
    specs : str, path, list of these, or dict
        The views. In a dict, the keys are the views' names, and a list of paths is one table.
    id_column, header, numeric_only
        As in `open_table`; formats without columns are read without an ``id_column``.

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
        for table in open_spec(spec, Request(id_column=id_column, header=header, numeric_only=numeric_only)):
            if table.name in views:
                raise FormatError(
                    f"Two views are called {table.name!r}: {views[table.name].where} and {table.where}. "
                    f"Name one of them: other={table.where}"
                )
            views[table.name] = table
    if id_column is not None and all(table.ids is None for table in views.values()):
        where = next(iter(views.values())).where
        raise NoColumnError(
            f"{where} has no id column {id_column!r}, and neither has any other file: only "
            "text, parquet and Arrow files have columns."
        )
    return views


def open_target(
    path: str | PathLike[str], key: str | None = None, *, id_column: str | int | None = None, header: bool | None = None
) -> Target:
    """Read known labels, for evaluation.

    Parameters
    ----------
    path : str or path
        A file, ``path[column]`` or ``path::key``.
    key : str or None, default=None
        The column, array, variable or obs column, where the path does not say it. None takes the only one, or the one
        that is called ``y``, ``gt``, ``truth``, ``label``, ``target`` or the like.
    id_column, header
        As in `open_table`; formats without columns are read without an ``id_column``.

    Returns
    -------
    Target
        Labels, whole numbers or text, and the rows' ids where the file has any.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/toy.npz"
    >>> np.savez(path, left=np.eye(3), y=[0, 0, 1])
    >>> open_target(path).labels
    array([0, 0, 1])
    """
    return column_of_files(path, Request(key, None, id_column, header), as_known_labels)


def open_column(
    path: str | PathLike[str], key: str | None = None, *, id_column: str | int | None = None, header: bool | None = None
) -> Target:
    """Read one column of any values, for example to colour a map by; parameters are those of `open_target`.

    Returns
    -------
    Target
        The values, numbers, dates or text, and the rows' ids where the file has any.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> path = tempfile.mkdtemp() + "/toy.npz"
    >>> np.savez(path, left=np.eye(3), age=[0.5, 1.5, np.nan])
    >>> open_column(f"{path}[age]").labels
    array([0.5, 1.5, nan])
    """
    return column_of_files(path, Request(key, None, id_column, header, fractions=True), as_values)


def column_of_files(
    path: str | PathLike[str], request: Request, convert: Callable[[np.ndarray, str], np.ndarray]
) -> Target:
    """Return a column of a file, or of several files as one, with values checked and converted by ``convert``."""
    spec = parse_spec(path)
    if spec.columns is not None and len(spec.columns) > 1:
        raise FormatError(f"{path} names {len(spec.columns)} columns. Name them one by one.")
    request = replace(request, key=request.key or spec.key or (spec.columns[0] if spec.columns else None))
    parts = []
    for file in files_of(spec.path):
        family = checked_family(file)
        with errors_naming(address(file, request.key)):
            found = family.reader().read_labels(file, request)
        parts.append(replace(found, labels=convert(np.asarray(found.labels), address(file, request.key))))
    return one_target(parts, str(path))


def one_target(parts: list[Target], where: str) -> Target:
    """Return the columns of several files as one."""
    ids = [part.ids for part in parts if part.ids is not None]
    if 0 < len(ids) < len(parts):
        raise FormatError(f"{where}: some files have row ids and others have none. All must be alike.")
    labels = np.concatenate([part.labels for part in parts])
    return Target(labels, np.concatenate(ids) if ids else numbered_rows([part.numbers for part in parts]), where)


def as_values(values: np.ndarray, where: str) -> np.ndarray:
    """Return numbers, also fractions and NaN, dates, or text, one per row."""
    if values.dtype.kind in "fM" and sum(side > 1 for side in values.shape) <= 1:
        return values.ravel()
    return as_labels(values, where)


def open_spec(spec: Spec, request: Request) -> list[FileTable]:
    """Open the view of a specification, or all views of a file that holds several."""
    first = files_of(spec.path)[0]
    family = checked_family(first)
    options: dict[str, Any] = {"header": request.header, "numeric_only": request.numeric_only}
    if family.holds == "columns":
        options["id_column"] = request.id_column
    with errors_naming(first):
        keys = () if spec.key else family.list_tables(first)
    if len(keys) < 2:
        key = spec.key or (keys[0] if keys else None)
        name = spec.name or (None if spec.key or not keys else name_of_key(keys[0]))
        return [open_table(spec.path, key=key, columns=spec.columns, name=name, **options)]
    if spec.columns is not None:
        raise FormatError(
            f"{first} holds {len(keys)} tables ({listed(keys)}). Say whose columns: {first}::{keys[0]}[...]"
        )
    prefix = f"{spec.name}." if spec.name else ""
    names = [prefix + name for name in names_of_keys(keys)]
    return [open_table(spec.path, key=key, name=name, **options) for key, name in zip(keys, names, strict=True)]


def open_store(path: Path, request: Request) -> Store:
    """Open one file."""
    family = checked_family(path)
    if family.holds != "columns" and request.id_column is not None:
        raise FormatError(
            f"{path} has no column of ids {request.id_column!r}: only text, parquet and Arrow files have columns."
        )
    if family.holds != "tables" and request.key is not None:
        remedy = f"Choose columns: {path}[{request.key}]." if family.holds == "columns" else "Leave the key out."
        raise FormatError(f"{path} is a single table and has no key {request.key!r}. {remedy}")
    with errors_naming(address(path, request.key)):
        if request.key is None:
            keys = family.list_tables(path)
            if len(keys) > 1:
                raise FormatError(f"{path} holds {len(keys)} tables ({listed(keys)}). Choose one: {path}::{keys[0]}")
            request = replace(request, key=keys[0] if keys else None)
        return family.reader().open_store(path, request)


def stack_stores(stores: Sequence[Store], owner: str) -> Store:
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
                    f"{store.where} differs from {first.where} in {what}: {difference(ours, theirs)} where that has "
                    f"{difference(theirs, ours)}. All files of a table must be alike."
                )
    lengths = [store.shape[0] for store in stores]
    return StackStore(
        where=owner,
        shape=(sum(lengths), first.shape[1]),
        dtype=np.result_type(*[store.dtype for store in stores]),
        columns=first.columns,
        ids=None if first.ids is None else Lazy(joined_ids, tuple(stores)),
        is_sparse=first.is_sparse,
        stores=tuple(stores),
        starts=np.concatenate([[0], np.cumsum(lengths)]),
    )


def difference(ours: Any, theirs: Any) -> str:
    """Return the first part of a description that differs from another description."""
    if isinstance(ours, str) and isinstance(theirs, str):
        ours, theirs = ours.split(", "), theirs.split(", ")
    if isinstance(ours, Sequence) and isinstance(theirs, Sequence):
        return next((repr(a) for a, b in zip(ours, theirs, strict=False) if a != b), f"{len(ours)} of them")
    return str(ours)


def joined_ids(stores: Sequence[Store]) -> np.ndarray:
    """Return the ids of several stores."""
    return np.concatenate([store.ids() for store in stores if store.ids is not None])
