"""Convert input data of all supported types to named, validated views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from numbers import Number
from os import PathLike
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import as_device_tensor, detached, is_complex, is_dask, is_sparse_tensor, precision_of, unmasked
from coterie.formats.errors import one_line
from coterie.rows.partitions import DaskTable, as_dask_table
from coterie.views.cells import Cells, CellTable, cells_of, is_anndata, is_mudata
from coterie.views.columns import named_groups, split_columns, without_others
from coterie.views.frames import frame_values, is_frame
from coterie.views.matching import IdentifiedRows, align_views, check_rows, is_file_table, take_ids
from coterie.views.steps import Table
from coterie.views.views import View, ViewRows, Views, nan_rows

# Types that nested lists may hold: numbers, and those that NumPy converts to numbers or names in an error.
SCALARS = (Number, str, bytes, NoneType, date, time, timedelta)


def as_views(X: Any, groups: Any = None, *, id_column: str | int | None = None, new: bool = False) -> Views:
    """Return input data as validated views.

    Parameters
    ----------
    X : array, frame, AnnData, a list, tuple or dict of them, or MuData
        Several 2-D tables with the same rows are several views. One table is one view, or one for each of
        ``groups``. The modalities of a MuData are views; of an AnnData, X is taken.
    groups : dict or list of column selections, optional
        How to split the columns of one table: slices, lists of column numbers, lists of column names or patterns of
        them, or callables that return one of these. For AnnData and MuData, what to take (`cells_of`).
    id_column : str or int, optional
        The column of frames and files that holds the rows' ids.
    new : bool, default=False
        Whether these are new rows: there may be none, and some may lack every view.

    Examples
    --------
    >>> import numpy as np
    >>> views = as_views({"words": np.zeros((4, 3)), "pixels": np.ones((4, 2))})
    >>> views.names, views.n_rows
    (('words', 'pixels'), 4)
    >>> as_views(np.zeros((4, 5)), groups={"left": slice(0, 2), "right": [2, 3, 4]}).names
    ('left', 'right')
    """
    if isinstance(X, ViewRows):
        return X.views
    X = as_cells(X, groups)
    tables = tables_of(X, groups, id_column)
    if not tables:
        raise ValueError("No views: X is empty. Pass at least one 2-D array.")
    lone = len(tables) == 1 and "X" in tables
    views = [_as_view(name, table, lone, may_be_empty=new) for name, table in tables.items()]
    found = align_views(views, list(tables.values()), X.index if isinstance(X, Cells) else None)
    if not new:
        check_rows(found)
    return found


def view_rows(X: Any, *, views: Any = None, id_column: str | int | None = None) -> ViewRows:
    """Return several views as one object that is indexed by row, for scikit-learn's model selection.

    ``GridSearchCV``, ``cross_val_score`` and ``train_test_split`` index the rows of one X, which a dict of views does
    not allow. The returned object does, and `fit`, `predict` and the other methods accept it. Nothing is copied.

    Parameters
    ----------
    X : like in :meth:`coterie.GuidedCoTraining.fit`
    views : like the parameter of :class:`coterie.GuidedCoTraining`, default=None
    id_column : str or int, default=None
        The column of frames and files that holds the rows' ids.

    Returns
    -------
    ViewRows

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from coterie import GuidedCoTraining, view_rows
    >>> from coterie.datasets import make_views
    >>> rows = view_rows(make_views(300, n_clusters=3, random_state=0).views)
    >>> len(rows), len(rows[:10])
    (300, 10)
    >>> search = GridSearchCV(GuidedCoTraining(3, random_state=0), {"n_landmarks": [50, 100]}, cv=2).fit(rows)
    >>> sorted(search.best_params_)
    ['n_landmarks']
    """
    return ViewRows(as_views(X, views, id_column=id_column))


def tables_of(X: Any, groups: Any, id_column: str | int | None) -> dict[str, Any]:
    """Return the tables that are views, by name."""
    if isinstance(X, Cells):
        return dict(X.tables)
    if groups is not None:
        return _split_columns(X, groups, id_column)
    X = open_paths(X, id_column)
    if _is_dict_of_tables(X):
        tables = {str(name): table for name, table in X.items()}
        if len(tables) < len(X):
            raise ValueError(
                f"Two views have the same name: {', '.join(repr(name) for name in X)}. Rename one of them."
            )
    elif _is_list_of_tables(X):
        tables = {f"view{number}": table for number, table in enumerate(X)}
    else:
        tables = {"X": X}
    lone = len(tables) == 1 and "X" in tables
    return {name: take_ids("X" if lone else f"View {name!r}", table, id_column) for name, table in tables.items()}


def as_cells(X: Any, groups: Any = None) -> Any:
    """Return AnnData and MuData, also in a list or dict, as tables with cell names; other input is unchanged."""
    if is_anndata(X) or is_mudata(X):
        return cells_of(X, groups)
    if isinstance(X, Mapping) and not sparse.issparse(X) and any(map(is_anndata, X.values())):
        return {name: one_table(table) if is_anndata(table) else table for name, table in X.items()}
    if isinstance(X, list | tuple) and any(map(is_anndata, X)):
        return [one_table(table) if is_anndata(table) else table for table in X]
    return X


def one_table(data: Any) -> CellTable:
    """Return X of an AnnData."""
    return cells_of(data).tables["X"]


def match_views(
    X: Any,
    groups: Any,
    names: Sequence[str],
    id_column: str | int | None = None,
    columns: Sequence[tuple[str, ...] | None] | None = None,
) -> Views:
    """Return new rows as views like those of the fit, in the fit's order.

    A dict may leave views out, and a list may hold None: the rows then lack those views. ``columns`` are each view's
    column names in the fit, None for a view without names; other columns of frames, of any type, are left out.
    """
    if isinstance(X, ViewRows):
        refuse_unknown(X.views.names, names)
        return by_names(X.views, names)
    X = as_cells(X, present_modalities(X, groups))
    if groups is None and _names_files(X):
        X = list(open_paths(X, id_column, numeric_only=True).values())  # in the order of the fit's views
    cells = X if isinstance(X, Cells) and not (len(names) == len(X.tables) == 1) else None
    given = new_tables(X if cells is None else cells.tables, names)
    if given is None:
        found = as_views(X, groups, id_column=id_column, new=True)
        if len(found) != len(names):
            raise ValueError(
                f"X has {len(found)} view, but the fit had {len(names)}: {', '.join(names)}. If it is one of them, and "
                f"the rows lack the others, name it: {{{names[0]!r}: X}}."
            )
        renamed = tuple(replace(view, name=name) for name, view in zip(names, found, strict=True))
        return Views(renamed, found.ids)
    if not given:
        raise ValueError("X holds no view at all. Pass at least one of: " + ", ".join(names) + ".")
    if columns is not None:
        known_columns = dict(zip(names, columns, strict=True))
        given = {name: without_others(name, table, known_columns[name], id_column) for name, table in given.items()}
    known = open_paths(given, id_column, numeric_only=True) if cells is None else Cells(given, cells.index)
    return by_names(as_views(known, id_column=id_column, new=True), names)


def by_names(found: Views, names: Sequence[str]) -> Views:
    """Return views in the fit's order; views that are not given are absent from all rows."""
    by_name = {view.name: view for view in found}
    absent = np.broadcast_to(-1, found.n_rows)
    views = tuple(by_name.get(name) or View(name, np.zeros((0, 0)), None, absent) for name in names)
    return Views(views, found.ids)


def new_tables(X: Any, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the tables of a dict or list, by the names of the fit's views and in their order; None for one table."""
    if _is_dict_of_tables(X):
        refuse_unknown(list(map(str, X)), names)
        known = {str(name): table for name, table in X.items() if table is not None}
        return {name: known[name] for name in names if name in known}  # the order of views decides that of rows
    if not _is_list_of_tables(X):
        return None
    if len(X) != len(names):
        raise ValueError(
            f"X has {len(X)} view{'s' * (len(X) != 1)}, but the fit had {len(names)}: {', '.join(names)}. "
            "Pass them in the same order; None stands for a view that the rows lack."
        )
    return {name: table for name, table in zip(names, X, strict=True) if table is not None}


def refuse_unknown(given: Sequence[str], names: Sequence[str]) -> None:
    """Refuse views that the fit did not have."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(
            f"View {unknown[0]!r} was not in the fit, which had {', '.join(names)}. Pass a dict with these names "
            "(views that the rows lack may be left out), or fit again."
        )


def present_modalities(X: Any, groups: Any) -> Any:
    """Return the selected modalities of a MuData that it has: new cells may lack some."""
    if not is_mudata(X) or groups is None:
        return groups
    if isinstance(groups, Mapping):
        return {name: entry for name, entry in groups.items() if name in X.mod}
    return [name for name in groups if name in X.mod]


def open_paths(X: Any, id_column: str | int | None = None, *, numeric_only: bool = False) -> Any:
    """Return X with file paths replaced by tables, named as by :func:`coterie.formats.open_views`."""
    options: dict[str, Any] = {"id_column": id_column, "numeric_only": numeric_only}
    several = X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else ()
    if not _names_files(X) and not any(map(_names_files, several)):
        return X
    from coterie.formats import open_views

    if _names_files(X):
        return open_views(X, **options)
    if not isinstance(X, Mapping):
        return [one_file(table, options) if _names_files(table) else table for table in X]
    tables: dict[Any, Any] = {}
    for name, table in X.items():
        tables.update(open_views({name: table}, **options) if _names_files(table) else {name: table})
    return tables


def one_file(path: Any, options: Mapping[str, Any]) -> Any:
    """Return the table of a file, or of several files that make up one table; refuse a file that holds several."""
    from coterie.formats import open_table, open_views

    found = list(open_views({"X": path} if isinstance(path, list | tuple) else path, **options).values())
    return found[0] if len(found) == 1 else open_table(path)


def _names_files(X: Any) -> bool:
    """Whether X is a path or a list of paths."""
    if isinstance(X, list | tuple) and X:
        return all(isinstance(item, str | PathLike) for item in X)
    return isinstance(X, str | PathLike)


def _is_dict_of_tables(X: Any) -> bool:
    return isinstance(X, Mapping) and not sparse.issparse(X)  # SciPy's DOK arrays are dicts


def _is_list_of_tables(X: Any) -> bool:
    """Whether X is a list of views, and not one table written as nested lists."""
    if not isinstance(X, list | tuple) or not X:
        return False
    if any(hasattr(item, "ndim") or isinstance(item, CellTable) or is_frame(item) or item is None for item in X):
        return True
    first = X[0]
    return isinstance(first, list | tuple) and bool(first) and isinstance(first[0], list | tuple)


def _split_columns(X: Any, groups: Any, id_column: str | int | None = None) -> dict[str, Any]:
    if isinstance(X, str | PathLike):
        from coterie.formats import open_table

        return {
            name: open_table(X, columns=group, name=name, id_column=id_column) for name, group in named_groups(groups)
        }
    if _is_dict_of_tables(X) or _is_list_of_tables(X):
        raise ValueError(
            "views= splits the columns of one table, but X is a list or dict of tables already. "
            "Leave out views=, or pass one array or frame."
        )
    X = take_ids("X", X, id_column)
    if isinstance(X, IdentifiedRows):
        return {name: IdentifiedRows(table, X.ids) for name, table in split_columns(X.frame, groups).items()}
    if not is_frame(X) and not sparse.issparse(X) and not is_dask(X):
        check_is_table("X", X)
        X = as_array("X", X)
    return split_columns(X, groups)


def _as_view(name: str, table: Any, lone: bool, *, may_be_empty: bool) -> View:
    label = "X" if lone else f"View {name!r}"
    columns = None
    if isinstance(table, IdentifiedRows):
        table = table.frame
    if is_frame(table):
        table, columns = frame_values(label, table)
    elif getattr(table, "columns", None) is not None:  # of a Dask dataframe, a file or cells
        columns = tuple(str(c) for c in table.columns)
    if isinstance(table, CellTable):
        table = table.data
    table = _unmapped(name, table)
    data = table if is_file_table(table) else _as_dask_table(label, table) or _as_table(label, table)
    if data.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {data.ndim}D array instead: {label} has shape {data.shape}. "
            "Reshape your data: one row per sample, one column per feature "
            "(array.reshape(1, -1) for a single row, array.reshape(-1, 1) for a single feature)."
        )
    if data.shape[0] == 0 and not may_be_empty:
        raise ValueError(
            f"{label}: found array with 0 sample(s) (shape={data.shape}) while a minimum of 1 is "
            "required. Pass at least as many rows as clusters."
        )
    if data.shape[1] == 0:
        raise ValueError(
            f"{label}: found array with 0 feature(s) (shape={data.shape}) while a minimum of 1 is "
            "required. Leave the view out."
        )
    if is_file_table(data) or isinstance(data, DaskTable):  # too large to search for NaN now
        return View(name, data, columns, may_lack=not data.is_sparse and data.dtype.kind == "f")
    return View(name, data, columns, _positions_of_present_rows(data))


def _unmapped(name: str, table: Any) -> Any:
    """Return a memory map as a table that frees pages after reading them, which NumPy's memory maps do not."""
    if not isinstance(table, np.memmap) or table.ndim != 2 or not table.flags.c_contiguous:
        return table
    if table.filename is None or table.mode == "c" or table.dtype.kind not in "biuf" or not table.size:
        return table  # no file, or changes to the map that are not in the file
    from coterie.formats.tables import mapped_table

    pages = table._mmap  # type: ignore[attr-defined]
    return mapped_table(name, table, pages, Path(table.filename))


def _as_table(label: str, table: Any) -> Table:
    """Return the table as a real NumPy array or CSR, copying only what cannot be used as it is."""
    if sparse.issparse(table):
        check_sparse(label, table)
        data: Any = sparse.csr_array(table)
        if not data.has_canonical_format:
            data = data.copy()
            data.sum_duplicates()
    else:
        check_is_table(label, table)
        if (tensor := as_device_tensor(table)) is not None:
            check_real_numbers(label, tensor)
            return tensor
        data = as_array(label, table)
    check_real_numbers(label, data)
    kind = data.dtype.kind
    if kind in "mM":
        raise ValueError(f"{label} holds dates or times ({data.dtype}). Turn them into numbers whose unit you choose.")
    if data.dtype.names:
        raise ValueError(f"{label} holds records ({', '.join(data.dtype.names)}). Pass a frame of them (pd.DataFrame).")
    if kind in "biuf":
        return data
    if kind in "US":  # also digits: columns of text are refused in frames too
        raise ValueError(
            f"{label} holds values that are not numbers ({data.dtype}). Encode text and categories as numbers first, "
            "convert numbers that were read as text (astype(float)), or leave those columns out."
        )
    if sparse.issparse(data):
        raise ValueError(f"{label} holds {data.dtype}. Convert it to numbers.")
    try:
        return data.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"{label} holds values that are not numbers ({error}). "
            "Encode text and categories as numbers first, or leave those columns out."
        ) from error


def as_array(label: str, table: Any) -> np.ndarray:
    """Return an array, a tensor or nested lists as a NumPy array, NaN where it is masked; refuse others."""
    try:
        if isinstance(table, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in table):
            table = np.ma.array(table)
        return np.asarray(unmasked(detached(table)))
    except (TypeError, ValueError, RuntimeError) as error:  # tensors raise RuntimeError
        raise ValueError(
            f"{label} is no table that NumPy can read ({one_line(error)}). Give all rows the same number of columns, "
            "all values a plain type such as float32, and every view its own entry of a list or dict."
        ) from error


def check_sparse(label: str, table: Any) -> None:
    """Refuse a sparse matrix with indices out of range: compiled loops would access memory outside of its arrays."""
    if not hasattr(table, "check_format"):
        return
    try:
        table.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"{label} is a sparse matrix of shape {table.shape} with indices that are not its own ({error}). "
            "Count rows and columns from 0, and pass the shape that they are of."
        ) from error


def check_is_table(label: str, table: Any) -> None:
    """Refuse objects that are not tables before NumPy iterates over them, which may never end."""
    if is_sparse_tensor(table):
        raise ValueError(f"{label} is a sparse tensor. Pass a scipy.sparse.csr_array, or .to_dense() of it.")
    if any(hasattr(table, known) for known in ("__array__", "__array_interface__", "__dlpack__")):
        return
    if not isinstance(table, list | tuple):
        raise ValueError(
            f"{label} must be a table: an array, a sparse matrix, a frame, AnnData or nested lists of numbers; several "
            f"of them make a list or dict of views. Got a {type(table).__name__} instead."
        )
    for item in table:
        if not isinstance(item, SCALARS):
            check_is_table(label, item)


def check_real_numbers(label: str, table: Any) -> None:
    """Refuse complex numbers."""
    if is_complex(table):
        raise ValueError(
            f"Complex data not supported: {label} holds {precision_of(table)}. "
            "Pass real and imaginary parts as columns."
        )


def _as_dask_table(label: str, table: Any) -> DaskTable | None:
    """Return a Dask collection as a table; None for other types."""
    if not is_dask(table):
        return None
    found = as_dask_table(table)
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{label} holds {found.dtype}. Turn its columns into real numbers, or leave them out.")
    return found


def _positions_of_present_rows(data: Table) -> np.ndarray | None:
    """Return each row's number, -1 for rows that are NaN throughout; None if no row is."""
    missing = () if sparse.issparse(data) else nan_rows(data)
    if not len(missing):
        return None
    positions = np.arange(data.shape[0])
    positions[missing] = -1
    return positions
