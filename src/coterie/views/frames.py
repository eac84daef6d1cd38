"""Convert frames of pandas, polars, modin and Arrow to numeric arrays and column names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

# Frames of these libraries are recognised by the module they come from, so that none need be imported.
FRAME_LIBRARIES = ("pandas", "polars", "modin", "pyarrow")


def is_frame(table: Any) -> bool:
    """Whether a table is a frame (or a column) of a known library."""
    return type(table).__module__.split(".")[0] in FRAME_LIBRARIES


def frame_values(label: str, frame: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return a frame's values, NaN where they are missing, and the names of their columns.

    A column of lists of equal length, as files store embeddings, becomes one column per entry of the lists.
    """
    if type(frame).__name__ == "LazyFrame":
        raise ValueError(f"{label} is a LazyFrame, whose rows are not there yet. Pass frame.collect().")
    names = column_names(frame)
    if names is None and not hasattr(frame, "to_numpy"):
        raise ValueError(f"{label} is a {type(frame).__name__}, which is no table. Pass a frame or an array.")
    if names is None:
        return frame.to_numpy(), None  # a column, which is refused for its shape
    columns = columns_of(frame, names)
    plain = [is_numeric(column) for column in columns]
    if all(plain):
        return whole_values(frame, columns), tuple(names)
    if not len(columns[0]):
        return np.zeros((0, len(names))), tuple(names)
    parts, found = [], []
    for name, column, numeric in zip(names, columns, plain, strict=True):
        values = column_values(column) if numeric else listed_values(label, name, column)
        refuse_text(label, names, columns, name) if values is None else parts.append(values)
        found += [name] if values is None or values.ndim == 1 else [f"{name}[{j}]" for j in range(values.shape[1])]
    return np.column_stack(parts), tuple(found)  # (n, d)


def column_names(frame: Any) -> list[str] | None:
    """Return the names of a frame's columns; None if it has none."""
    if type(frame).__module__.startswith("pyarrow"):
        return list(map(str, frame.column_names)) if hasattr(frame, "column_names") else None
    return [str(name) for name in frame.columns] if hasattr(frame, "columns") else None


def for_sklearn(table: Any) -> Any:
    """Return a table for scikit-learn's checks: zeros of the same shape for a frame with repeated names."""
    names = column_names(table) if is_frame(table) else None
    return table if names is None or len(set(names)) == len(names) else np.broadcast_to(0.0, table.shape)


def columns_of(frame: Any, names: Sequence[str]) -> list[Any]:
    """Return a frame's columns, by position: names may repeat in pandas."""
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, j] for j in range(len(names))]
    return [frame.column(j) for j in range(len(names))] if hasattr(frame, "column") else frame.get_columns()


def take_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return some columns of a frame by name; pandas' own names may be integers, and may repeat."""
    if not hasattr(frame, "iloc"):
        return frame.select(names)
    numbers: dict[str, list[int]] = {}
    for number, name in enumerate(frame.columns):
        numbers.setdefault(str(name), []).append(number)
    return frame.iloc[:, [number for name in names for number in numbers[name]]]


def is_numeric(column: Any) -> bool:
    """Whether a column has a numeric type, in any of the libraries."""
    kind = getattr(dtype_of(column), "kind", None)
    if kind is not None:
        return kind in "biuf" and "categor" not in str(dtype_of(column))
    name = str(dtype_of(column)).lower()
    return name.startswith(("int", "uint", "float", "double", "halffloat", "bool", "decimal", "null"))


def dtype_of(column: Any) -> Any:
    """Return a column's type."""
    return column.dtype if hasattr(column, "dtype") else column.type


def whole_values(frame: Any, columns: Sequence[Any]) -> Any:
    """Return the values of a frame whose columns are all numeric."""
    if hasattr(frame, "iloc") and any(hasattr(dtype_of(column), "na_value") for column in columns):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    if hasattr(frame, "column_names") and type(frame).__module__.startswith("pyarrow"):
        return np.column_stack([column_values(column) for column in columns])
    return frame.to_numpy()


def column_values(column: Any) -> np.ndarray:
    """Return one column of numbers, NaN where they are missing."""
    if hasattr(dtype_of(column), "na_value"):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)  # (n,)
    return np.asarray(column.to_numpy())  # (n,)


def listed_values(label: str, name: str, column: Any) -> np.ndarray | None:
    """Return a column of lists, or of objects that are numbers, as an array; None for text and categories."""
    kind = getattr(dtype_of(column), "kind", None)
    if kind in ("m", "M") or str(dtype_of(column)).lower().startswith(("date", "time", "duration")):
        raise ValueError(
            f"{label} holds dates or times in column {name!r} ({dtype_of(column)}). "
            "Turn them into numbers whose unit you choose."
        )
    entries = list(column.to_pylist() if hasattr(column, "to_pylist") else column)
    known = [entry for entry in entries if not is_missing(entry)]
    if known and all(isinstance(entry, list | tuple) or np.ndim(entry) == 1 for entry in known):
        return stacked(label, name, entries, known)
    if not known and str(dtype_of(column)) == "object":
        return np.full(len(entries), np.nan)  # (n,): of missing values alone, pandas does not know the type
    if not known or any(isinstance(entry, str | bytes) for entry in known) or "categor" in str(dtype_of(column)):
        return None
    try:
        return np.array([np.nan if is_missing(entry) else entry for entry in entries], dtype=np.float64)  # (n,)
    except (TypeError, ValueError):
        return None


def stacked(label: str, name: str, entries: Sequence[Any], known: Sequence[Any]) -> np.ndarray:
    """Return lists of equal length as rows; a missing list becomes a row of NaN."""
    width = len(known[0])
    other = next((len(entry) for entry in known if len(entry) != width), None)
    if other is not None:
        raise ValueError(
            f"{label} holds lists of {width} and of {other} numbers in column {name!r}. Give all rows the same length."
        )
    try:
        rows = np.array([np.asarray(entry, dtype=np.float64) for entry in known])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{label} holds lists of what are not numbers in column {name!r} ({error}).") from error
    found = np.full((len(entries), width), np.nan)  # (n, width)
    found[[not is_missing(entry) for entry in entries]] = rows
    return found


def is_missing(entry: Any) -> bool:
    """Whether an entry is None, NaN or pandas' NA."""
    return (
        entry is None or type(entry).__name__ in ("NAType", "NaTType") or (isinstance(entry, float) and entry != entry)
    )


def holds_text(name: str, column: Any) -> bool:
    """Whether a column holds neither numbers nor lists of them."""
    try:
        return not is_numeric(column) and listed_values("A view", name, column) is None
    except ValueError:  # dates, or lists of unequal lengths: not numbers either
        return True


def refuse_text(label: str, names: Sequence[str], columns: Sequence[Any], first: str) -> None:
    """Raise the error for columns that are not numbers; ``first`` is the first of them."""
    at = list(names).index(first)
    if getattr(dtype_of(columns[at]), "kind", None) == "c":
        raise ValueError(
            f"Complex data not supported: {label} holds {dtype_of(columns[at])} in column {first!r}. "
            "Pass real and imaginary parts as columns."
        )
    rest = [name for name, column in zip(names[at + 1 :], columns[at + 1 :], strict=True) if holds_text(name, column)]
    more = f" and {len(rest)} more" if rest else ""
    raise ValueError(
        f"{label} holds values that are not numbers: column {first!r}{more} ({dtype_of(columns[at])}). "
        "Encode text and categories as numbers first, leave those columns out, or name a column of ids (id_column)."
    )
