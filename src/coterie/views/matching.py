"""Match the rows of several views: by position, by index, by the ids of files, or by Dask's partitions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coterie.rows.partitions import DaskTable, align_tables
from coterie.views.frames import column_names, columns_of, is_frame
from coterie.views.views import View, Views


@dataclass(frozen=True)
class IdentifiedRows:
    """A frame without its id column, and the ids."""

    frame: Any  # (n, d)
    ids: np.ndarray  # (n,)


def take_ids(label: str, table: Any, id_column: str | int | None) -> Any:
    """Return a frame split into its id column and the rest; tables that are not frames are returned unchanged."""
    if id_column is None or not is_frame(table) or (names := column_names(table)) is None:
        return table
    if str(id_column) not in names and isinstance(id_column, int) and -len(names) <= id_column < len(names):
        id_column = names[id_column]
    if str(id_column) not in names:
        index = pandas_index(table)
        if index is not None and index.name == id_column:
            return IdentifiedRows(table, checked_ids(label, np.asarray(index)))
        raise ValueError(
            f"{label} has no column {id_column!r}, which id_column names; it has {', '.join(names[:6])}. "
            "Pass every frame with its ids, or leave out id_column."
        )
    if names.count(str(id_column)) > 1:
        raise ValueError(f"{label} has two columns {str(id_column)!r}, which id_column names. Rename one of them.")
    ids = np.asarray(columns_of(table, names)[names.index(str(id_column))].to_numpy())  # (n,)
    others = [at for at, name in enumerate(names) if name != str(id_column)]  # pandas' names may be integers
    rest = table.iloc[:, others] if hasattr(table, "iloc") else table.select([names[at] for at in others])
    return IdentifiedRows(rest, checked_ids(label, ids))


def checked_ids(label: str, ids: np.ndarray) -> np.ndarray:
    """Return ids as integers or text; refuse missing ones."""
    if ids.dtype.kind in "iuU":
        return ids
    lacking = np.flatnonzero([value is None or value != value for value in ids])
    if len(lacking):
        raise ValueError(f"{label} has no id in row {lacking[0]}. Every row needs one.")
    return ids.astype(np.str_)


def align_views(views: list[View], tables: list[Any], order: Any = None) -> Views:
    """Return the views with their rows matched; ``tables`` are what the user passed for each.

    ``order`` is a pandas index of all rows, for AnnData and MuData, which have one besides those of the tables.
    """
    if order is not None:
        return reindex_views(views, [table.index for table in tables], order)
    if any(isinstance(view.data, DaskTable) for view in views):
        check_divisions(views, tables)
        return align_by_partition(views)
    if all(is_file_table(view.data) for view in views):
        return align_by_file_id(views)
    if any(isinstance(table, IdentifiedRows) for table in tables):
        return align_by_id(views, [getattr(table, "ids", None) for table in tables])
    if any(is_file_table(view.data) for view in views):
        return align_with_files(views, tables)
    return align_by_position(views, [pandas_index(table) for table in tables])


def is_file_table(table: Any) -> bool:
    """Whether a table lies in a file and is read block by block (:mod:`coterie.formats`)."""
    return type(table).__module__.startswith("coterie.formats")


def pandas_index(table: Any) -> Any:
    """Return a pandas frame's index."""
    index = getattr(table, "index", None)
    return index if hasattr(index, "is_unique") and hasattr(index, "get_indexer") else None


def is_default_index(index: Any) -> bool:
    """Whether an index is the row numbers that pandas gives a frame by default."""
    return type(index).__name__ == "RangeIndex" and index.name is None and index.start == 0 and index.step == 1


def check_default_indexes(views: list[View], ids: list[Any]) -> None:
    """Refuse frames of different lengths with default indexes: row 5 of one need not be row 5 of another."""
    numbered = [(view, index) for view, index in zip(views, ids, strict=True) if is_default_index(index)]
    for view, index in numbered[1:]:
        first, own = numbered[0]
        if len(index) != len(own):
            raise ValueError(
                f"View {view.name!r} has {len(index)} rows, but view {first.name!r} has {len(own)}, and their indexes "
                "are pandas' default row numbers, which do not say which rows belong together. Set an index that names "
                'the rows (frame.set_index("id")); if the row numbers are meant, name it (frame.index.name = "row").'
            )


def align_by_position(views: list[View], ids: list[Any]) -> Views:
    """Check that the views have the same number of rows; frames with different indexes are matched by index."""
    known = [index for index in ids if index is not None]
    if any(not known[0].equals(index) for index in known[1:]):
        check_all_named(views, ids)
        check_default_indexes(views, ids)
        return align_by_index(views, known)
    first = views[0]
    for view in views[1:]:
        if view.n_rows != first.n_rows:
            raise ValueError(
                f"View {view.name!r} has {view.n_rows} rows, but view {first.name!r} has {first.n_rows}. "
                "Every view needs the same rows in the same order; give a row that lacks a view NaN throughout, "
                "or pass frames whose indexes tell the rows apart."
            )
    return Views(tuple(views), None if not known else np.asarray(known[0]))


def align_by_file_id(views: list[View]) -> Views:
    """Match the rows of tables in files: by id where they have ids, else by position."""
    from coterie.formats import match_rows

    ids, positions = match_rows([view.data for view in views])
    return Views(tuple(replace(view, positions=rows) for view, rows in zip(views, positions, strict=True)), ids)


def align_with_files(views: list[View], tables: list[Any]) -> Views:
    """Match tables in memory with tables in files: by id where several have ids that differ, else by position."""
    from coterie.formats.matching import comparable

    ids = [own_ids(view, table) for view, table in zip(views, tables, strict=True)]
    if any(own is not None and own.dtype.kind in "iu" for own in ids):  # then row numbers are ids like these
        check_default_indexes(views, [pandas_index(table) for table in tables])
        ids = [own_ids(view, table, numbers=True) for view, table in zip(views, tables, strict=True)]
    known = comparable([own for own in ids if own is not None])
    if all(np.array_equal(own, known[0]) for own in known):
        return align_by_position(views, [pandas_index(table) for table in tables])
    check_all_named(views, ids)
    return align_by_id(views, ids)


def own_ids(view: View, table: Any, *, numbers: bool = False) -> np.ndarray | None:
    """Return the row ids of a file or an index; None if there are none, or mere row numbers without ``numbers``."""
    from coterie.formats.matching import only_numbers

    index = pandas_index(table)
    if is_file_table(view.data):
        ids = view.data.ids
        return None if ids is None or (only_numbers(ids) and not numbers) else ids
    if index is None or (is_default_index(index) and not numbers):
        return None
    return checked_ids(f"View {view.name!r}", np.asarray(index))


def check_all_named(views: list[View], ids: list[Any]) -> None:
    """Refuse a view without ids beside views whose ids differ: its rows cannot be matched."""
    nameless = [view.name for view, own in zip(views, ids, strict=True) if own is None]
    if nameless:
        raise ValueError(
            f"The views have different indexes, and view {nameless[0]!r} has none to match its rows by. "
            "Pass it as a frame with an index, or bring all views to the same order first."
        )


def align_by_id(views: list[View], ids: list[np.ndarray | None]) -> Views:
    """Match the rows of frames and files by their ids."""
    from coterie.formats.matching import match_ids

    named = []
    for view, own in zip(views, ids, strict=True):
        if own is None:
            raise ValueError(
                f"id_column names the column of ids, and view {view.name!r} has none to match its rows by. "
                "Pass it as a frame or a file with that column."
            )
        named.append((f"View {view.name!r}", own))
    known, positions = match_ids(named)
    return Views(tuple(moved(view, rows) for view, rows in zip(views, positions, strict=True)), known)


def moved(view: View, positions: np.ndarray | None) -> View:
    """Return a view with rows in a new order; ``positions`` are the view's own row numbers, -1 for rows it lacks."""
    if positions is None:
        return view
    own = view.positions
    return replace(view, positions=positions if own is None else np.where(positions >= 0, own[positions], -1))


def align_by_partition(views: list[View]) -> Views:
    """Check that Dask collections have the same rows, and rechunk them to the same partitions."""
    own = next(view.name for view in views if isinstance(view.data, DaskTable))
    for view in views:
        if not isinstance(view.data, DaskTable):
            raise ValueError(
                f"View {own!r} is a Dask collection, but view {view.name!r} is not. Pass all views as Dask "
                "collections: dask.array.from_array turns an array into one."
            )
    found = align_by_position(views, [None] * len(views))
    tables = align_tables([view.data for view in found])
    return Views(tuple(replace(view, data=table) for view, table in zip(found, tables, strict=True)))


def check_divisions(views: list[View], tables: list[Any]) -> None:
    """Refuse Dask dataframes whose known divisions begin or end at different index values."""
    known = [
        (view.name, in_python(table.divisions[0]), in_python(table.divisions[-1]))
        for view, table in zip(views, tables, strict=True)
        if getattr(table, "known_divisions", False)
    ]
    for name, first, last in known[1:]:
        other, *ends = known[0]
        if [first, last] != ends:
            raise ValueError(
                f"View {name!r} has an index from {first!r} to {last!r}, but that of view {other!r} goes from "
                f"{ends[0]!r} to {ends[1]!r}. Rows of Dask collections are matched by position: bring them to the same "
                "rows, or reset the indexes if they mean nothing (frame.reset_index(drop=True))."
            )


def align_by_index(views: list[View], ids: list[Any]) -> Views:
    """Match the rows of frames by their indexes: a row has the views whose index holds its id."""
    if len({index.dtype.kind for index in ids}) > 1:  # pandas would convert int64 and uint64 together to float
        ids = [index.astype(object) for index in ids]
    union = ids[0]
    for view, index in zip(views, ids, strict=True):
        check_index(view.name, index)
        union = appended(union, index[union.get_indexer(index) < 0])
    warn_of_notation(views, ids)
    return reindex_views(views, ids, union)


def warn_of_notation(views: list[View], ids: list[Any]) -> None:
    """Warn of unmatched ids that differ in notation alone, such as 7, "7" and "007"."""
    from coterie.formats.matching import notation_mismatches

    lone = []
    for number, (view, index) in enumerate(zip(views, ids, strict=True)):
        others = [other for at, other in enumerate(ids) if at != number]
        alone = np.all([other.get_indexer(index) < 0 for other in others], axis=0)  # (n,)
        lone.append((f"View {view.name!r}", np.asarray(index)[alone]))
    for sentence in notation_mismatches(lone):
        warnings.warn(sentence, stacklevel=2)


def appended(index: Any, more: Any) -> Any:
    """Return two indexes as one; pandas' ``append`` would convert objects that are integers and fractions to float."""
    if not len(more):
        return index
    if index.nlevels > 1 or index.dtype != object:
        return index.append(more)
    return type(index)(np.concatenate([index.to_numpy(), more.to_numpy()]), dtype=object)


def check_index(name: str, index: Any) -> None:
    """Refuse an index with repeated or missing ids: rows with the same such id need not be the same."""
    if index.nlevels == 1 and (index.hasnans or "" in index):
        row = int((index.isna() if index.hasnans else index.to_numpy() == "").argmax())
        raise ValueError(f"View {name!r} has no id in row {row}. Every row needs one in the index.")
    if not index.is_unique:
        again = index[index.duplicated()][0]
        raise ValueError(
            f"View {name!r} has repeated row ids ({in_python(again)!r} among them), so its "
            "rows cannot be matched with those of the other views. Make the index unique."
        )


def in_python(value: Any) -> Any:
    """Return an id as a Python value: the repr of NumPy's scalars includes their type.

    Examples
    --------
    >>> in_python(np.str_("cell7")), in_python(np.int64(7)), in_python((1, "a"))
    ('cell7', 7, (1, 'a'))
    """
    return value.item() if isinstance(value, np.generic) else value


def reindex_views(views: list[View], ids: list[Any], order: Any) -> Views:
    """Return the views with the rows of ``order``: a row has the views whose index holds its id."""
    aligned = []
    for view, index in zip(views, ids, strict=True):
        if index.equals(order):
            aligned.append(view)
            continue
        check_index(view.name, index)
        found = moved(view, np.asarray(index.get_indexer(order)))
        in_place = np.array_equal(np.asarray(found.positions), np.arange(view.data.shape[0]))
        aligned.append(replace(view, positions=None) if in_place else found)
    return Views(tuple(aligned), np.asarray(order))


def in_row_order(label: str, values: Any, ids: np.ndarray | None) -> Any:
    """Return per-row values in the rows' order: a pandas Series is reordered if its index holds the rows' ids.

    Values whose index has no id in common with the rows are taken to be in the rows' order already.
    """
    index = pandas_index(values)
    if index is None or ids is None or is_default_index(index) or np.array_equal(np.asarray(index), ids):
        return values
    known = set(in_unit_of(ids, np.asarray(index)).tolist())
    found = np.array([row in known for row in ids.tolist()])  # (n,)
    if not found.any():
        from coterie.formats.matching import notation_mismatches

        sentence = next(notation_mismatches([(label, np.asarray(index)), ("the rows", ids)]), None)
        if sentence is not None:
            raise ValueError(f"{sentence} Pass an array if the values are in the rows' order.")
        return values
    if not found.all() or not index.is_unique:
        raise ValueError(
            f"{label} has an index, with {found.sum()} of the {len(ids)} rows' ids in it. "
            "It must have each of them once; pass an array if the values are in the rows' order."
        )
    return values.reindex(ids)


def rows_as_in(label: str, values: np.ndarray, own: np.ndarray | None, ids: np.ndarray | None) -> np.ndarray:
    """Return per-row values of rows with the ids ``own`` in the order of ``ids``.

    Ids that have none in common, or that are not known, say nothing of the order: it is that of the values.

    Examples
    --------
    >>> rows_as_in("The labels", np.array([1, 2, 3]), np.array(["a", "b", "c"]), np.array(["c", "a", "b"])).tolist()
    [3, 1, 2]
    """
    if own is None or ids is None or np.array_equal(own, ids):
        return values
    places = {row: place for place, row in enumerate(in_unit_of(ids, own).tolist())}
    found = np.array([places.get(row, -1) for row in ids.tolist()], dtype=np.intp)  # (n,)
    if (found < 0).all():
        return values
    if (found < 0).any() or len(np.unique(found)) < len(found):
        raise ValueError(
            f"{label} are of rows with other ids: {(found >= 0).sum()} of the {len(ids)} rows have theirs among "
            "them, and each must have its own once. Compare the same rows."
        )
    return values[found]


def in_unit_of(ids: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return ids that are times in the unit of others: in another one they are other values in Python.

    A time that the other unit does not hold is none of the others, and becomes NaT.
    """
    if own.dtype.kind not in "mM" or own.dtype.kind != ids.dtype.kind:
        return own
    found = own.astype(ids.dtype)  # rounded down where the unit is coarser
    found[found.astype(own.dtype) != own] = "NaT"
    return found


def check_rows(views: Views) -> None:
    """Refuse rows that lack every view, as far as that is known before they are read."""
    if any(view.positions is None for view in views):
        return
    lost = np.flatnonzero(~views.presence().any(axis=1))
    if len(lost):
        label = "X" if len(views) == 1 else "Every view"
        first = f"row {lost[0]}" if views.ids is None else f"row {str(views.ids[lost[0]])!r}"
        raise ValueError(
            f"{label} is NaN throughout in {len(lost)} rows (the first is {first}): "
            "there is nothing to cluster them by. Leave them out."
        )
