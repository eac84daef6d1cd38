"""Match the rows of several tables, by id or by position."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary, ref

import numpy as np

from coterie.formats.errors import FormatError

Matching: TypeAlias = "tuple[np.ndarray | None, list[np.ndarray | None]]"


class HasRows(Protocol):
    """A table whose rows may have ids."""

    @property
    def where(self) -> str:
        """Name of the table in messages."""

    @property
    def ids(self) -> np.ndarray | None:
        """The rows' ids."""

    def __len__(self) -> int: ...


WHOLE_NUMBER = re.compile(r"([+-]?)0*(\d+)(\.0*)?")

# Results by the first table: a command and the fit that it runs match the same tables.
_REMEMBERED: WeakKeyDictionary[HasRows, tuple[list[ref[HasRows]], Matching]] = WeakKeyDictionary()


def match_rows(tables: Sequence[HasRows]) -> Matching:
    """Match the rows of several tables: by id where they have ids, by position where none has.

    Whole numbers and text are compared as text, so that "007" is not "7"; unmatched ids that differ in notation alone
    cause a warning. Ids that are mere row numbers from 0 are ignored where another table has no ids. The result for the
    same tables is cached.

    Parameters
    ----------
    tables : sequence of FileTable
        At least one.

    Returns
    -------
    ids : ndarray of shape (n,) or None
        All ids in the order in which they first appear; None where the tables have none.
    positions : list of (ndarray of shape (n,) or None)
        For each table, its own number of each row, -1 for a row that it lacks; None if they are 0, 1, 2, ...

    Raises
    ------
    FormatError
        If an id appears twice in one table, if a table has no id in common with any other, if only some tables have
        ids, or if tables without ids differ in length.

    Examples
    --------
    >>> import tempfile
    >>> from coterie.formats import open_views, write_table
    >>> folder = tempfile.mkdtemp()
    >>> write_table(f"{folder}/a.csv", {"x": [1.0, 2.0]}, ids=["u", "v"])
    >>> write_table(f"{folder}/b.csv", {"x": [3.0, 4.0]}, ids=["v", "w"])
    >>> tables = open_views([f"{folder}/a.csv", f"{folder}/b.csv"], id_column="id")
    >>> ids, positions = match_rows(list(tables.values()))
    >>> ids.tolist(), [rows.tolist() for rows in positions]
    (['u', 'v', 'w'], [[0, 1, -1], [-1, 0, 1]])
    """
    others, known = _REMEMBERED.get(tables[0], ([], None))
    if known is None or len(others) != len(tables) or any(a() is not b for a, b in zip(others, tables, strict=True)):
        known = _match_rows(tables)
        _REMEMBERED[tables[0]] = ([ref(table) for table in tables], known)
    return known


def _match_rows(tables: Sequence[HasRows]) -> Matching:
    ids = [table.ids for table in tables]
    if all(known is not None for known in ids):
        return match_ids([(table.where, known) for table, known in zip(tables, ids, strict=True) if known is not None])
    for table, known in zip(tables, ids, strict=True):
        if known is not None and not only_numbers(known):
            nameless = next(other.where for other, none in zip(tables, ids, strict=True) if none is None)
            raise FormatError(
                f"{table.where} has row ids but {nameless} has none, so their rows cannot be matched. "
                "Name the id column of every file, or write the files without ids and in the same order."
            )
    check_lengths(tables)
    return next((known for known in ids if known is not None), None), [None] * len(tables)


def check_lengths(tables: Sequence[HasRows]) -> None:
    """Refuse tables that are matched by position and differ in length."""
    for table in tables[1:]:
        if len(table) != len(tables[0]):
            raise FormatError(
                f"{table.where} has {len(table)} rows, but {tables[0].where} has {len(tables[0])}. "
                "Without row ids, every file needs the same rows in the same order."
            )


def only_numbers(ids: np.ndarray) -> bool:
    """Whether ids are mere row numbers from 0."""
    if ids.dtype.kind in "iu":
        return bool((ids == np.arange(len(ids))).all())
    return str(ids[0]) == "0" and bool((ids.astype(np.str_) == np.arange(len(ids)).astype(np.str_)).all())


def numbered_rows(parts: Sequence[range | None]) -> np.ndarray | None:
    """Return pandas' row numbers of a table's files as ids; None if they merely count rows, repeat, or are not known.

    Examples
    --------
    >>> numbered_rows([range(3)]), numbered_rows([range(2, -1, -1)]), numbered_rows([range(2), range(2, 4)])
    (None, array([2, 1, 0]), None)
    """
    known = [part for part in parts if part is not None]
    found = joined_numbers(known) if len(known) == len(parts) else np.empty(0)
    if (found == np.arange(len(found))).all() or len(np.unique(found)) < len(found):
        return None
    return found


def joined_numbers(parts: Sequence[range]) -> np.ndarray:
    """Return the row numbers of all files of a table."""
    return np.concatenate([np.arange(part.start, part.stop, part.step) for part in parts])  # (n,)


def comparable(lists: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return ids of one kind, as text if kinds differ: NumPy would convert int64 and uint64 together to float.

    Examples
    --------
    >>> [ids.tolist() for ids in comparable([np.array([7], np.int64), np.array([8], np.uint64)])]
    [['7'], ['8']]
    """
    kinds = {ids.dtype.kind for ids in lists}
    return list(lists) if len(kinds) == 1 else [ids.astype(np.str_) for ids in lists]


def match_ids(named: Sequence[tuple[str, np.ndarray]]) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """Return all ids, and each table's row numbers of them, as `match_rows`; ``named`` are names and ids of tables."""
    lists = comparable([ids for _, ids in named])
    first = lists[0]
    alike = all(len(ids) == len(first) and bool((ids == first).all()) for ids in lists[1:])
    every: Any = first if alike else np.concatenate(lists)
    values, appears, numbers = np.unique(every, return_index=True, return_inverse=True)
    order = np.argsort(appears)  # (n,) the distinct ids as they first appear
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks = np.split(rank[numbers], np.cumsum([len(ids) for ids in lists])[:-1]) if not alike else [rank[numbers]]
    in_tables = np.bincount(rank[numbers])  # (n,) how often an id appears
    positions: list[np.ndarray | None] = []
    lone = [(where, ids[in_tables[mine] == 1]) for (where, _), mine, ids in zip(named, ranks, lists, strict=False)]
    hint = "" if alike else next(notation_mismatches(lone), "")
    for (where, _), mine, ids in zip(named, ranks, lists, strict=False):
        refuse_empty(where, ids)
        rows = np.full(len(order), -1)
        rows[mine] = np.arange(len(mine))
        if (rows >= 0).sum() < len(mine):
            again = int(np.flatnonzero(rows[mine] != np.arange(len(mine)))[0])
            raise FormatError(f"{where} has the row id {str(ids[again])!r} more than once. Make the ids unique.")
        if not alike and (in_tables[mine] == 1).all():
            other, theirs = next(pair for pair in named if pair[0] != where)
            raise FormatError(
                f"{where} has no row id in common with {other}: its first is {str(ids[0])!r}, and there it is "
                f"{str(theirs[0])!r}. {hint or 'Name the column of ids that both have, or write the ids alike.'}"
            )
        in_place = len(rows) == len(mine) and bool((rows == np.arange(len(rows))).all())
        positions.append(None if in_place else rows)
    if hint:
        warnings.warn(hint, stacklevel=2)
    return values[order], positions if not alike else [None] * len(named)


def refuse_empty(where: str, ids: np.ndarray) -> None:
    """Refuse empty ids: two rows without an id need not be the same."""
    if ids.dtype.kind == "U" and (ids == "").any():
        raise FormatError(f"{where} has no id in row {int((ids == '').argmax())}. Every row needs one.")


def notation_mismatches(lone: Sequence[tuple[str, np.ndarray]]) -> Iterator[str]:
    """Yield a sentence for every two tables with ids that differ in notation alone.

    ``lone`` are the tables' names and those of their ids that no other table has.
    """
    if all(ids.dtype.kind in "iu" for _, ids in lone):
        return  # integers have one notation
    plain = [(where, by_plain_id(ids)) for where, ids in lone if len(ids)]
    for (where, own), (other, theirs) in combinations(plain, 2):
        both = [(own[text], theirs[text]) for text in own if text in theirs]
        if both:
            yield (
                f"{where} and {other} have {len(both)} row ids that differ in zeros, a point, blanks or type alone, "
                f"such as {both[0][0]!r} and {both[0][1]!r}. These are not matched: write them alike if they mean the "
                "same rows."
            )


def by_plain_id(ids: np.ndarray) -> dict[str, Any]:
    """Return ids by their plain form; ids of the table that share one are different ids, and left out."""
    found: dict[str, Any] = {}
    for row in ids.tolist():
        text = plain_id(str(row))
        found[text] = None if text in found else row
    return {text: row for text, row in found.items() if row is not None}


def plain_id(text: str) -> str:
    """Return an id without what a spreadsheet adds or drops: blanks, a plus, leading zeros, a point and zeros after it.

    Examples
    --------
    >>> [plain_id(text) for text in ("007", " 7", "7.0", "+7", "-07", "7a", "0")]
    ['7', '7', '7', '7', '-7', '7a', '0']
    """
    number = WHOLE_NUMBER.fullmatch(text.strip())
    return text.strip() if number is None else number[1].replace("+", "") + number[2]
