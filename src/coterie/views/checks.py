"""Checks of the user's rows: errors that name the view, the rows and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import array_namespace, to_host
from coterie.kernels import kernels_of
from coterie.views.columns import in_short
from coterie.views.matching import in_python
from coterie.views.parts import by_rows
from coterie.views.steps import Table
from coterie.views.views import View, Views


@dataclass(frozen=True)
class Shape:
    """Number and names of a view's columns in the fit."""

    n_columns: int
    columns: tuple[str, ...] | None

    @classmethod
    def of(cls, view: View) -> Shape:
        """Return a view's shape."""
        return cls(view.n_columns, view.columns)


def check_columns(views: Views, shapes: Sequence[Shape]) -> None:
    """Refuse views whose columns differ from the fit's; views that no row has are not checked."""
    for view, shape in zip(views, shapes, strict=True):
        if 0 in view.data.shape:
            continue
        if view.n_columns != shape.n_columns:
            raise ValueError(
                f"View {view.name!r} has {view.n_columns} columns, but it had {shape.n_columns} in the fit. "
                "Pass the same columns in the same order."
            )
        if view.columns is not None and shape.columns is not None and view.columns != shape.columns:
            other = next(pair for pair in zip(view.columns, shape.columns, strict=True) if pair[0] != pair[1])
            raise ValueError(
                f"View {view.name!r} has column {other[0]!r} where it had {other[1]!r} in the fit. "
                "Pass the same columns in the same order."
            )


def check_overlap(views: Views, n_clusters: int) -> None:
    """Refuse views that too few rows have, or that share too few rows with the others."""
    if views.complete:
        return
    presence = views.presence()  # (n, V)
    shared = presence.astype(np.int64).T @ presence  # (V, V): rows that have both views
    needed = n_clusters + 1
    for v, name in enumerate(views.names):
        if shared[v, v] < needed:
            raise ValueError(
                f"View {name!r} is known for {shared[v, v]} of {views.n_rows} rows, too few to find {n_clusters} "
                "clusters in. Leave the view out, or add rows that have it."
            )
    from scipy.sparse.csgraph import connected_components  # slow to import, and most views lack no rows

    n_groups, groups = connected_components(sparse.csr_array(shared >= needed))
    if n_groups > 1:
        apart = ", ".join(repr(name) for name, group in zip(views.names, groups, strict=True) if group == groups[0])
        raise ValueError(
            f"The views do not overlap enough: fewer than {needed} rows have both one of {apart} and one of the other "
            f"views, so their clusters cannot be matched{ids_in_words(views, presence, groups)}. "
            "Add rows that have both, or cluster the views apart."
        )


def ids_in_words(views: Views, presence: np.ndarray, groups: np.ndarray) -> str:
    """Return an example id of each of two groups of views, for an error; empty if they share rows or have no ids."""
    if views.ids is None:
        return ""
    apart = groups != groups[0]  # (V,)
    first, other = presence[:, ~apart].any(axis=1), presence[:, apart].any(axis=1)  # (n,)
    if (first & other).any():
        return ""
    pairs = ((views.ids[first][0], views.names[0]), (views.ids[other][0], views.names[int(apart.argmax())]))
    shown = " and ".join(f"{in_python(own)!r} in {name!r}" for own, name in pairs)
    return f": their ids have nothing in common ({shown})"


def check_any_view(present: Sequence[Any], rows: int | np.ndarray) -> None:
    """Refuse rows that lack every view.

    ``present`` holds a mask of rows for each view, None if all rows have it; ``rows`` are the rows' numbers, or the
    number of the first row.
    """
    if any(own is None for own in present):
        return
    lost = np.flatnonzero(~np.array([to_host(own) for own in present]).any(axis=0))
    if len(lost):
        first = rows + lost[0] if np.ndim(rows) == 0 else np.asarray(rows)[lost[0]]
        raise ValueError(
            f"Every view is NaN throughout in row {first}{and_more(len(lost) - 1)}: there is nothing to cluster "
            "them by. Leave such rows out."
        )


def and_more(count: int) -> str:
    """Return the number of further rows in words, for an error that names one row.

    Examples
    --------
    >>> and_more(0), and_more(3)
    ('', ' and 3 more near it')
    """
    return f" and {count} more near it" if count else ""


def check_finite_rows(
    name: str,
    data: Table,
    present: Any,
    rows: int | np.ndarray,
    n_threads: int = 1,
    columns: Sequence[str] | None = None,
) -> None:
    """Raise an error that names the view, the rows and the columns if any value is not a finite number."""
    with np.errstate(all="ignore"):
        sums = by_rows(kernels_of(data).row_sums, data, n_threads)  # (b,): finite only if every value is
    check_finite(name, sums, present, rows, data, columns)


def check_finite(
    name: str,
    values: Any,
    present: Any,
    rows: int | np.ndarray,
    data: Table,
    columns: Sequence[str] | None = None,
) -> None:
    """Raise an error that names view, rows and columns if any of ``values``, one for each row, is not finite.

    ``rows`` are the rows' numbers, or the number of the first row; ``present`` is the mask of rows that have the view,
    None if all have it; ``data`` are the rows themselves, and ``columns`` the names of their columns, if they have any.
    """
    with np.errstate(all="ignore"):
        if present is None and np.isfinite(float(values.sum())):  # so all are, as they nearly always are
            return
    bad = ~array_namespace(values).isfinite(values)
    if present is not None:
        bad &= present
    if bool(bad.any()):
        where = np.flatnonzero(to_host(bad))
        numbers = rows + where if np.ndim(rows) == 0 else np.asarray(rows)[where]
        raise ValueError(
            f"Input contains NaN, infinity or values too large to square: view {name!r}, row {numbers[0]}"
            f"{and_more(len(numbers) - 1)}{columns_in_words(data, where, columns)}. "
            "Drop or impute such values; a row that lacks the whole view is NaN in all its columns."
        )


def columns_in_words(data: Table, rows: np.ndarray, columns: Sequence[str] | None) -> str:
    """Return the columns in which some rows hold NaN or infinity, for an error; empty if all values are finite."""
    wrong = np.zeros(data.shape[1], bool)  # (d,)
    for start in range(0, len(rows), 1024):
        values = data[rows[start : start + 1024]]  # (b, d)
        if sparse.issparse(values):
            stored = values.tocoo()
            wrong[stored.col[~np.isfinite(stored.data)]] = True
        else:
            wrong |= ~np.isfinite(to_host(values)).all(axis=0)
    found: list[Any] = [c if columns is None else columns[c] for c in np.flatnonzero(wrong).tolist()]
    return f", column{'s' * (len(found) > 1)} {in_short(found)}" if found else ""
