"""Which of a file's entries are known labels: never a view, and what evaluation asks for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coterie.formats.errors import FormatError
from coterie.formats.tables import listed

# What data sets call their labels, in small letters and without underscores.
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


def find_labels(path: Path, names: Sequence[str], key: str | None) -> str:
    """Return the entry that holds the labels: the one asked for, the only one, or the one that is called so."""
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
