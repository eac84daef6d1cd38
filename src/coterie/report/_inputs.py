"""The optional inputs of a report: row names, known labels, columns, texts and names of clusters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from coterie.arrays import to_host
from coterie.report._colours import PALETTE
from coterie.report._portraits import tidy
from coterie.report._text import shown
from coterie.validation import shortened
from coterie.views import in_row_order

MOST_COLUMNS = 12
MOST_LEVELS = 200  # of a categorical column; rarer ones are pooled
LONGEST_CLUSTER_NAME = 40
TEXT_IN_LISTS = 160  # letters of a row's text
FEW_NUMBERS = 12  # an integer column with at most this many distinct values is categorical


@dataclass(frozen=True)
class Given:
    """The optional inputs, checked."""

    names: RowNames
    known: Classes | None
    columns: dict[str, Any]  # (n,) each
    texts: Any | None  # (n,)
    cluster_names: dict[int, str]

    def text(self, row: int, longest: int = TEXT_IN_LISTS) -> str | None:
        """Return a row's text on one line, shortened to ``longest``; None for a row without text."""
        if self.texts is None or is_missing(self.texts[row]):
            return None
        return shown(" ".join(str(self.texts[row]).split()), longest)


class RowNames:
    """The rows' names, shortened for display; row numbers if there are none."""

    def __init__(self, n_rows: int, ids: Any) -> None:
        self.ids = None if ids is None else check_length("ids", ids, n_rows)
        self.n_rows = n_rows

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, row: int) -> str:
        return str(row) if self.ids is None else shown(self.ids[row])

    def line(self, row: int) -> dict[str, Any]:
        """Return a row's number and name."""
        return {"row": int(row), "id": self[row]}


class Classes:
    """A categorical column: its sorted distinct values as ``names``, and each row's index into them, -1 if missing."""

    def __init__(self, values: np.ndarray) -> None:
        listed = values.tolist()
        distinct = dict.fromkeys(listed)  # checks run once per distinct value: rows may be millions
        order = sorted((value for value in distinct if not is_missing(value)), key=sort_key)
        codes = dict.fromkeys(distinct, -1) | {value: code for code, value in enumerate(order)}
        self.codes = np.fromiter(map(codes.__getitem__, listed), dtype=np.intp, count=len(listed))  # (n,)
        self.names = [shown(value) for value in order]


def sort_key(value: Any) -> tuple[bool, float, str]:
    """Return a key that sorts numbers, including those written as text, by size and before other text.

    Examples
    --------
    >>> sorted(["b", "10", "9", "a", 2], key=sort_key)
    [2, '9', '10', 'a', 'b']
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        return True, 0.0, str(value)
    return number != number, number if number == number else 0.0, str(value)


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, NaT or pandas' NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def check_length(name: str, values: Any, n_rows: int, ids: np.ndarray | None = None) -> Any:
    """Return one value per row of the fit as an array; a pandas index is matched with the fit's ``ids``."""
    values = in_row_order(f"The {name!r} parameter of describe", values, ids)
    if not isinstance(values, list | tuple):  # to_host would visit a list's entries one by one
        values = to_host(values)
    if not isinstance(values, np.ndarray):
        values = as_objects(values)
    if values.shape != (n_rows,):
        raise ValueError(
            f"The {name!r} parameter must have one value per row of the fit, {n_rows}. "
            f"Got an array of shape {values.shape} instead."
        )
    return as_text(values) if values.dtype.kind in "mM" else values


def check_values(name: str, values: Any, n_rows: int, ids: np.ndarray | None = None) -> Any:
    """Return one number or name per row of the fit, like `check_length`; refuse lists and the like."""
    found = check_length(name, values, n_rows, ids)
    listed = found.tolist() if found.dtype == object else []
    try:
        set(listed)
    except TypeError:  # one of them has no hash
        row = next(row for row, value in enumerate(listed) if not has_hash(value))
        raise ValueError(
            f"The {name!r} parameter must have one number or name per row of the fit. Got {shortened(listed[row])} in "
            f"row {row}: make it one value, such as its length or its entries as text."
        ) from None
    return found


def has_hash(value: Any) -> bool:
    """Return whether a value can be counted; a tuple that holds a list cannot."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def as_text(times: np.ndarray) -> np.ndarray:
    """Return dates, times or durations as text, None where they are missing; as numbers, they would be nanoseconds.

    Examples
    --------
    >>> as_text(np.array(["2026-01-02", "NaT"], dtype="datetime64[ns]")).tolist()
    ['2026-01-02', None]
    """
    known = np.datetime_as_string(times, unit="auto") if times.dtype.kind == "M" else times
    found = np.array([str(own) for own in known], dtype=object)
    found[np.isnat(times)] = None
    return found


def as_objects(values: Any) -> np.ndarray:
    """Return any sequence as an array, of objects unless it is a frame's column: strings are not cut or padded."""
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    listed = list(values)
    return np.fromiter(listed, dtype=object, count=len(listed))


def check_columns_to_show(columns: Any, n_rows: int, ids: np.ndarray | None = None) -> dict[str, Any]:
    """Return the columns to colour the map by, checked."""
    if columns is None:
        return {}
    named = columns if isinstance(columns, Mapping) else {name: columns[name] for name in columns.columns}
    if len(named) > MOST_COLUMNS:
        raise ValueError(
            f"The 'columns' parameter of describe must hold at most {MOST_COLUMNS} columns. Got {len(named)} instead."
        )
    return {name: check_values(f"columns[{shown(name)}]", values, n_rows, ids) for name, values in named.items()}


def describe_column(name: Any, values: Any, rows: np.ndarray) -> dict[str, Any]:
    """Return some rows of a column as plain data: numbers, or a categorical column's levels and codes."""
    taken = as_numbers(values[rows])
    whole = taken.dtype.kind in "iu" and len(np.unique(taken)) <= FEW_NUMBERS
    if taken.dtype.kind in "iuf" and not whole:
        return {"name": shown(name), "kind": "number", "values": [tidy(value) for value in taken]}
    classes = Classes(taken)
    return describe_levels(shown(name), classes.names, classes.codes)


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return an object array of numbers and missing values as an array of numbers; other arrays unchanged.

    Examples
    --------
    >>> as_numbers(np.array([1.5, None], dtype=object)), as_numbers(np.array(["a"]))
    (array([1.5, nan]), array(['a'], dtype='<U1'))
    """
    if values.dtype != object:
        return values
    tried = np.array([np.nan if is_missing(value) else value for value in values.tolist()])
    return tried if tried.ndim == 1 and tried.dtype.kind in "iuf" and not np.isnan(tried).all() else values


def describe_classes(known: Classes, rows: np.ndarray) -> dict[str, Any]:
    """Return the known labels of some rows as a categorical column."""
    return describe_levels("known label", known.names, known.codes[rows])


def describe_levels(name: str, levels: list[str], codes: np.ndarray) -> dict[str, Any]:
    """Return a categorical column, -1 for missing values; levels are sorted by frequency if not all get a colour."""
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    order = np.arange(len(levels))
    if len(levels) > len(PALETTE):
        order = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    kept = [levels[i] for i in order]
    ranks = np.full(len(levels) + 1, len(order), dtype=int)
    ranks[order] = np.arange(len(order))
    ranks[-1] = -1
    if len(order) < len(levels):
        kept.append("(other)")
    return {"name": name, "kind": "name", "levels": kept, "values": ranks[codes].tolist()}


def check_cluster_names(names: Any, n_clusters: int) -> dict[int, str]:
    """Return names of clusters by number, from a dict or from a JSON file that the page exported.

    Examples
    --------
    >>> check_cluster_names({"0": "T cells", 2: "B cells"}, 3)
    {0: 'T cells', 2: 'B cells'}
    """
    if names is None:
        return {}
    if isinstance(names, str | PathLike):
        names = read_cluster_names(Path(names))
    if not isinstance(names, Mapping):
        raise ValueError(f"The 'names' parameter must be a dict from clusters to names. Got {type(names).__name__}.")
    found = {}
    for cluster, name in names.items():
        number = int(cluster) if str(cluster).isdecimal() else -1
        if not 0 <= number < n_clusters or not isinstance(name, str):
            raise ValueError(
                f"The 'names' parameter must give clusters 0 to {n_clusters - 1} names that are text. "
                f"Got {shown(cluster)!r}: {shown(repr(name))} instead."
            )
        if name.strip():
            found[number] = shown(name.strip(), LONGEST_CLUSTER_NAME)
    return found


def read_cluster_names(path: Path) -> Any:
    """Return the content of a JSON file of cluster names."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f'{path} is not a JSON file of names, such as {{"0": "T cells"}}: {error}') from error
