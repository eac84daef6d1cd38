"""Selections of a file's columns, by name, pattern, number or range."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from coterie.formats.checks import listed
from coterie.formats.errors import FormatError, NoColumnError
from coterie.validation import warn_caller

ColumnChoice: TypeAlias = "str | int | slice | Sequence[str | int | slice] | None"

EXACT = 2.0**53  # float64 holds all whole numbers up to this one


def choose_columns(
    columns: ColumnChoice, names: Sequence[str] | None, width: int, where: str, hidden: Collection[int] = ()
) -> np.ndarray | None:
    """Return the numbers of the chosen columns; None: all of them.

    A choice is a name, a pattern of names ("t*"), a number, or a range of numbers as in Python; "3" and "2:5" may be
    written as text. An existing name takes precedence over a pattern and a number. Numbers count all columns of the
    file. Columns of row ids are ``hidden``: ranges and patterns leave them out. A pattern adds only columns that are
    not chosen yet.

    Examples
    --------
    >>> choose_columns(["b", "0", "2:"], ("a", "b", "c", "d"), 4, "a.csv").tolist()
    [1, 0, 2, 3]
    >>> choose_columns("0:3", ("id", "a", "b", "c"), 4, "a.csv", hidden=[0]).tolist()
    [1, 2]
    """
    if columns is None:
        return np.array([c for c in range(width) if c not in hidden]) if hidden else None
    numbers = {name: number for number, name in enumerate(names or ())}
    chosen: list[int] = []
    for choice in [columns] if isinstance(columns, str | int | slice) else columns:
        span: Sequence[int] | None = named_columns(choice, numbers) or as_range(choice, width, where)
        if span is None:
            there = listed(names) if names else f"it has no names, only numbers from 0 to {width - 1}"
            raise NoColumnError(f"{where} has no column {choice!r} ({there}).")
        kept = [number for number in span if number not in hidden]
        if not kept:
            raise FormatError(f"{where}: {choice!r} holds the row ids and no values. Choose other columns.")
        chosen.extend(number for number in kept if not is_pattern(choice, numbers) or number not in chosen)
    if not chosen:
        raise FormatError(f"{where}: no column is chosen. Name at least one of {listed(names or range(width))}.")
    return np.array(chosen)


def warn_of_others(others: Sequence[str], where: str) -> None:
    """Warn of columns that are left out because they hold no numbers."""
    if others:
        warn_caller(f"{where}: left out because they hold no numbers: {listed(others)}.")


def warn_of_rounding(name: str, where: str) -> None:
    """Warn of whole numbers in a column that float64, which the table is read as, does not hold."""
    warn_caller(
        f"{where}: column {name!r} holds whole numbers above 2**53, which are rounded because it is read as float64. "
        "If they are ids, name the id column (id_column: --id-column), or leave it out (choose columns); else subtract "
        "a constant from them before they are stored."
    )


def is_rounded(value: int) -> bool:
    """Whether float64 does not hold a whole number.

    Examples
    --------
    >>> is_rounded(2**53), is_rounded(2**53 + 1), is_rounded(10**400)
    (False, True, True)
    """
    try:
        return float(value) != value
    except OverflowError:
        return True


def named_columns(choice: Any, numbers: Mapping[str, int]) -> list[int]:
    """Return the numbers of the columns that match a name or a pattern of names; empty if none does."""
    if not isinstance(choice, str):
        return []
    return [numbers[choice]] if choice in numbers else [numbers[name] for name in matching_names(choice, numbers)]


def is_pattern(choice: Any, names: Collection[str] = ()) -> bool:
    """Whether a choice is a pattern of names, and not a name itself."""
    return isinstance(choice, str) and ("*" in choice or "?" in choice) and choice not in names


def matching_names(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern matches: * matches any characters, ? matches one; all else is literal.

    Examples
    --------
    >>> matching_names("t*", ["t0", "text", "age"]), matching_names("age", ["age"])
    (['t0', 'text'], [])
    """
    if not is_pattern(pattern):
        return []
    parts = ({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in pattern)
    shape = re.compile("".join(parts), re.DOTALL)
    return [name for name in names if shape.fullmatch(name)]


def as_range(choice: Any, width: int, where: str) -> range | None:
    """Return the columns of a number or a range; None if it is neither, or a number out of range."""
    span = parse_range(choice) if isinstance(choice, str) else choice
    if isinstance(span, slice):
        found = range(width)[span]
        if any(end is not None and not -width <= end <= width for end in (span.start, span.stop)) or not found:
            written = choice if isinstance(choice, str) else f"{span.start}:{span.stop}"
            raise FormatError(
                f"{where} has {width} columns, counted from 0, and {written!r} is no range of them. Choose others."
            )
        return found
    if span is None or not -width <= int(span) < width:
        return None
    return range(width)[int(span) % width :][:1]


def parse_range(text: str) -> int | slice | None:
    """Return text as a number or a range; None if it is neither.

    Examples
    --------
    >>> parse_range("3"), parse_range("2:"), parse_range("age")
    (3, slice(2, None, None), None)
    """
    ends = text.split(":")
    try:
        numbers = [int(end) if end.strip() else None for end in ends]
    except ValueError:
        return None
    return numbers[0] if len(ends) == 1 else slice(*numbers) if len(ends) == 2 else None
