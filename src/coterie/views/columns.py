"""Select each view's columns from one table, and match the columns of new rows with those of the fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import is_float
from coterie.formats.columns import is_pattern, matching_names
from coterie.rows.partitions import DaskTable
from coterie.validation import warn_caller
from coterie.views.cells import as_list, is_anndata, is_mudata
from coterie.views.frames import column_names, is_frame, take_columns
from coterie.views.matching import IdentifiedRows, take_ids
from coterie.views.views import View, Views


def named_groups(groups: Any) -> list[tuple[str, Any]]:
    """Return pairs of a view's name and its selection of columns."""
    if isinstance(groups, Mapping):
        if len({str(name) for name in groups}) < len(groups):
            raise ValueError(f"Two of views= have the same name: {', '.join(map(repr, groups))}. Rename one of them.")
        return [(str(name), group) for name, group in groups.items()]
    return [(f"view{number}", group) for number, group in enumerate(groups)]


def split_columns(X: Any, groups: Any) -> dict[str, Any]:
    """Return each view's columns of one table, by the name of the view."""
    return {name: select_columns(X, name, group) for name, group in named_groups(groups)}


def settled_groups(X: Any, groups: Any, id_column: str | int | None = None) -> Any:
    """Return selections that choose the same columns of new rows, in any order, and that can be saved to a file.

    For a frame these are column names, without that of the ids. For other tables, a callable is replaced by what it
    returned.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame([[1, 2, 3]], columns=["t0", "t1", "age"])
    >>> settled_groups(frame, {"text": "t*", "person": lambda X: ["age"]})
    {'text': ['t0', 't1'], 'person': ['age']}
    """
    if is_anndata(X) or is_mudata(X):
        return groups if groups is None or isinstance(groups, Mapping) else as_list(groups)
    if groups is None or not (hasattr(X, "shape") or is_frame(X)):
        return groups
    table = take_ids("X", X, id_column)
    X = table.frame if isinstance(table, IdentifiedRows) else X
    found = {}
    for name, group in named_groups(groups):
        names = names_of(X)
        if names is not None and len(set(names)) == len(names):
            found[name] = names_of(select_columns(X, name, group))
        else:
            found[name] = called(group, X)
    return found if isinstance(groups, Mapping) else list(found.values())


def names_of(X: Any) -> list[str] | None:
    """Return the names of a table's columns; None if it has none."""
    return column_names(X) if is_frame(X) or hasattr(X, "columns") else None


def called(group: Any, X: Any) -> Any:
    """Return a selection; a callable is called with the table, as in scikit-learn's ColumnTransformer."""
    if not callable(group):
        return group
    chosen = group(X)
    return chosen if isinstance(chosen, str | slice) else list(np.asarray(chosen).tolist())


def select_columns(X: Any, name: str, group: Any) -> Any:
    """Return some columns of a table."""
    names, group = names_of(X), called(group, X)
    if isinstance(group, str):
        group = [group]
    if isinstance(group, list | tuple) and len(group) > 0 and all(isinstance(c, str) for c in group):
        return by_name(X, name, group, names)
    width = X.shape[1] if getattr(X, "ndim", 2) == 2 else 0
    numbers = np.arange(width)[group] if isinstance(group, slice) else np.atleast_1d(np.asarray(group))
    if numbers.dtype == bool and len(numbers) == width:
        numbers = np.flatnonzero(numbers)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise ValueError(
            f'views[{name!r}] must be a slice, column numbers, column names or patterns of them ("t*"), a mask of '
            f"{width} columns, or a callable that returns one of these. Got {group!r} instead."
        )
    if numbers.size and (numbers.min() < -width or numbers.max() >= width):
        raise ValueError(f"views[{name!r}] reaches past the {width} columns of X.")
    if names is None:
        return X[:, group] if isinstance(group, slice) else X[:, numbers.astype(int)]
    if type(X).__module__.startswith("pyarrow"):  # whose ``columns`` are the values, not names
        return X.select(numbers.tolist())
    return X.iloc[:, numbers] if hasattr(X, "iloc") else X[[names[c] for c in numbers]]


def by_name(X: Any, view: str, group: Iterable[str], names: Sequence[str] | None) -> Any:
    """Return the columns of a frame that match names or patterns."""
    if names is None:
        raise ValueError(
            f"views[{view!r}] names columns, but X has no column names. Pass a frame, or slices or column numbers."
        )
    chosen: list[str] = []
    for choice in group:
        found = [choice] if choice in names else matching_names(choice, names)
        if not found:
            verb = "matches no column of X" if is_pattern(choice) else "is no column of X"
            raise ValueError(
                f"views[{view!r}]: {choice!r} {verb}, which has {in_short(names)}. Pass all columns that views= names; "
                "new rows may lack a view if they are a dict of views."
            )
        chosen += [column for column in found if column not in chosen]
    return take_columns(X, chosen)


def in_short(names: Sequence[str], most: int = 6) -> str:
    """Return the first names and the number of the others, for a message.

    Examples
    --------
    >>> in_short(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


# -- new rows -----------------------------------------------------------------------------------------------------


def without_others(view: str, table: Any, names: tuple[str, ...] | None, id_column: str | int | None) -> Any:
    """Return a frame of new rows without columns that the fit did not have; other tables are returned unchanged."""
    own = column_names(table) if is_frame(table) and names is not None else None
    if own is None or names is None:
        return table
    if isinstance(id_column, int) or len(set(own)) < len(own) or not hasattr(table, "__len__") or not len(table):
        return table
    refuse_missing(view, own, [name for name in names if not {name, name.partition("[")[0]} & set(own)], len(names))
    wanted = {*names, *(name.partition("[")[0] for name in names), str(id_column)}  # "a[0]" is of the lists in "a"
    extra = [column for column in own if column not in wanted]
    if not extra:
        return table
    warn_of_extra(view, extra)
    return take_columns(table, [column for column in own if column in wanted])


def refuse_missing(view: str, own: Sequence[str], missing: Sequence[str], n_columns: int) -> None:
    """Refuse new rows that lack columns of the fit."""
    if missing:
        raise ValueError(
            f"View {view!r} lacks {len(missing)} of the fit's {n_columns} columns: {in_short(missing)}. It has "
            f"{in_short(own)}. Pass all columns of the fit, or leave the view out."
        )


def warn_of_extra(view: str, extra: Sequence[str]) -> None:
    """Warn of columns that are left out because the fit did not have them."""
    warn_caller(f"View {view!r} has columns that the fit did not have, and they are left out: {in_short(extra)}.")


def match_columns(views: Views, known: Sequence[tuple[str, ...] | None]) -> Views:
    """Return new rows with the columns of the fit, matched by name: in the fit's order, without any others.

    ``known`` are each view's column names in the fit; None for a view without names, whose columns are left as they
    are.
    """
    return replace(views, views=tuple(match_view(view, names) for view, names in zip(views, known, strict=True)))


def match_view(view: View, names: tuple[str, ...] | None) -> View:
    """Return one view with the columns of the fit."""
    own = view.columns
    if own is None or names is None or own == names or not view.data.shape[0] or len(set(own)) < len(own):
        return view
    numbers = {column: number for number, column in enumerate(own)}
    refuse_missing(view.name, own, [column for column in names if column not in numbers], len(names))
    extra = [column for column in own if column not in set(names)]
    if extra:
        warn_of_extra(view.name, extra)
    chosen = np.array([numbers[column] for column in names])  # (d,)
    if isinstance(view.data, DaskTable):
        return replace(view, columns=names, data=DaskTable(view.data.array[:, chosen], view.data.device))
    # A row may be NaN in all columns of the fit and have numbers in the others.
    may_lack = view.may_lack or (bool(extra) and not sparse.issparse(view.data) and is_float(view.data))
    return replace(view, columns=names, chosen=chosen, may_lack=may_lack)
