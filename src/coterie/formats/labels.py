"""Known labels: find a file's entry that holds them, which is never a view, and match them with rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coterie.formats.checks import MISSING, listed
from coterie.formats.errors import FormatError
from coterie.formats.matching import match_ids, only_numbers

# Names that data sets give their labels, in lower case and without underscores.
LABEL_NAMES = {
    "y",
    "gt",
    "gnd",
    "truth",
    "groundtruth",
    "truelabel",
    "truelabels",
    "label",
    "labels",
    "target",
    "targets",
}


def is_label(name: str) -> bool:
    """Whether an entry holds labels, by its name.

    Examples
    --------
    >>> is_label("ground_truth"), is_label("pixels")
    (True, False)
    """
    return name.rpartition("/")[2].lower().replace("_", "") in LABEL_NAMES


def tables_among(keys: Collection[str], n_dimensions: Callable[[str], int]) -> tuple[str, ...]:
    """Return the entries that are views: tables, else single columns, and labels only if there is nothing else."""
    named = tuple(key for key in keys if not is_label(key))
    return tuple(key for key in named if n_dimensions(key) > 1) or named or tuple(keys)


def find_labels(path: Path, names: Sequence[str], key: str | None) -> str:
    """Return the entry that holds the labels: the requested one, the only one, or the one with a label's name."""
    if key is not None:
        if key not in names:
            raise FormatError(f"{path} has no {key!r} to read labels from (there: {listed(names)}).")
        return key
    found = list(names) if len(names) == 1 else [name for name in names if is_label(name)]
    if len(found) != 1:
        raise FormatError(
            f"{path}: cannot tell which entry holds the labels (there: {listed(names)}). Say which: {path}::name."
        )
    return found[0]


@dataclass(frozen=True)
class Target:
    """Known labels, for evaluation only.

    Attributes
    ----------
    labels : ndarray of shape (n,)
        Numbers or text, as the file has them.
    ids : ndarray of shape (n,) or None
        The rows' names, where the file has any.
    """

    labels: np.ndarray
    ids: np.ndarray | None = None
    where: str = "The target"
    numbers: range | None = None  # pandas' RangeIndex of the rows, if the file has no other ids

    def for_rows(self, ids: np.ndarray | None, n_rows: int) -> np.ndarray:
        """Return the labels of ``n_rows`` rows: by id where both have ids, else by position if ids allow it."""
        if ids is None or self.ids is None:
            if len(self.labels) != n_rows:
                raise FormatError(f"{self.where} has {len(self.labels)} labels for {n_rows} rows. Give both row ids.")
            if self.ids is not None and are_shuffled_numbers(self.ids):
                raise FormatError(
                    f"{self.where} numbers its rows from 0 in another order, but the rows of the data have no ids. "
                    "Give both row ids, or write it without row numbers and in the order of the data."
                )
            return self.labels
        _, (_, found) = match_ids([("The data", ids), (self.where, self.ids)])
        positions = np.arange(n_rows) if found is None else found[:n_rows]
        lacking = np.flatnonzero(positions < 0)
        if len(lacking):
            row = str(ids[lacking[0]])
            raise FormatError(
                f"{self.where} has no label for {len(lacking)} of the rows, {row!r} among them. Add them."
            )
        return self.labels[positions]


def are_shuffled_numbers(ids: np.ndarray) -> bool:
    """Whether ids are the row numbers from 0 in another order, as of a frame that was sorted or shuffled.

    Examples
    --------
    >>> are_shuffled_numbers(np.array([2, 0, 1])), are_shuffled_numbers(np.array([0, 1, 2]))
    (True, False)
    """
    return ids.dtype.kind in "iu" and only_numbers(np.sort(ids)) and not only_numbers(ids)


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
        if codes.max() > sys.maxunicode:  # Python cannot convert these to text
            raise FormatError(f"{where} is not labels: its text has characters that do not exist. Write it again.")
    return values


def as_known_labels(values: np.ndarray, where: str) -> np.ndarray:
    """Return labels as `as_labels` does; refuse missing ones, which scores would take for a class."""
    labels = as_labels(values, where)
    kind = labels.dtype.kind
    missing = MISSING if kind == "U" else tuple(word.encode() for word in MISSING)
    lacking = np.flatnonzero(np.isin(np.char.strip(labels), missing) if kind in "US" else False)
    if len(lacking):
        more = f" and in {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise FormatError(
            f"{where} has no label in row {lacking[0]}{more}, but {str(labels[lacking[0]])!r}. Add them, or leave out "
            "the rows."
        )
    return labels
