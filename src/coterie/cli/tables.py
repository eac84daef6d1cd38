"""Files in and out: views as they are written on the command line, and results with the rows' ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from coterie.formats import FileTable

Result = TypeVar("Result")

SCAN_BYTES = 32 << 20


@dataclass(frozen=True)
class OpenedViews:
    """Views that were opened, with their rows matched."""

    files: dict[str, FileTable]
    positions: dict[str, np.ndarray | None]  # (n,) each: where a file has each row; None: in place
    tables: dict[str, Any]  # what a fit takes
    ids: np.ndarray | None  # (n,)
    n_rows: int

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return where each view comes from and how large it is, as plain data."""
        return {
            name: {"where": file.where, "rows": file.shape[0], "columns": file.shape[1], "sparse": file.is_sparse}
            for name, file in self.files.items()
        }


def open_files(specs: Sequence[str], id_column: str | None) -> OpenedViews:
    """Open views and match their rows."""
    from coterie.formats import open_views

    return match_files(open_views(list(specs), id_column=id_column))


def match_files(files: dict[str, FileTable]) -> OpenedViews:
    """Match the rows of views: by id where there are ids, else by position."""
    from coterie.formats import match_rows

    ids, positions = match_rows(list(files.values()))
    n_rows = len(next(iter(files.values()))) if ids is None else len(ids)
    return OpenedViews(files, dict(zip(files, positions, strict=True)), dict(files), ids, n_rows)


def work_on(opened: OpenedViews, work: Callable[[dict[str, Any]], Result]) -> tuple[OpenedViews, Result]:
    """Do work that takes views; return what it took and what it gave.

    Rows of a table in memory that are NaN throughout lack that view, but in a file they are not looked for: it would
    take another pass over all rows. Where they stop the work, those tables are read, and those whose rows are not in
    place, and the work begins again.
    """
    try:
        return opened, work(opened.tables)
    except ValueError as error:
        if "NaN" not in str(error):
            raise
        lacking = [name for name, file in opened.files.items() if opened.tables[name] is file and has_empty_rows(file)]
        if not lacking:
            raise
    moved = [name for name, rows in opened.positions.items() if rows is not None]
    read = {name: read_in_order(opened.files[name], opened.positions[name], opened.ids) for name in {*lacking, *moved}}
    opened = replace(opened, tables={**opened.tables, **read})
    return opened, work(opened.tables)


def has_empty_rows(file: FileTable) -> bool:
    """Whether a table has rows that are NaN throughout: rows that lack this view."""
    if file.is_sparse or file.dtype.kind != "f":
        return False
    step = max(1, SCAN_BYTES // (file.dtype.itemsize * file.shape[1]))
    blocks = (file[start : start + step] for start in range(0, len(file), step))
    return any(np.isnan(block[np.isnan(block[:, 0])]).all(axis=1).any() for block in blocks)


def read_in_order(file: FileTable, rows: np.ndarray | None, ids: np.ndarray | None) -> Any:
    """Read a table whose rows are in another order than those of the others, or fewer; what it lacks is NaN."""
    places = np.arange(len(file)) if rows is None else rows  # (n,)
    present = places >= 0
    if present.all():
        table = file[places]
    else:
        known = file[places[present]]
        table = np.full((len(places), file.shape[1]), np.nan, np.promote_types(file.dtype, np.float32))  # (n, d)
        table[present] = known.toarray() if file.is_sparse else known
    if file.columns is None or not isinstance(table, np.ndarray):
        return table
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{file.where} has rows in another order, or lacks some: pip install pandas") from error
    return pandas.DataFrame(table, index=ids, columns=list(file.columns))


# -- what is written ------------------------------------------------------------------------------------------------


class RehearsalEnd(Exception):
    """Ends a rehearsal of writing before anything is written."""


def check_outputs(tables: Iterable[Path | None], others: Iterable[Path | None], inputs: Iterable[FileTable]) -> None:
    """Open and drop every file that is to be written, so that what cannot be written is known before the work.

    Parameters
    ----------
    tables : paths or None
        Files of rows, whose extension must be one that can be written.
    others : paths or None
        Models and reports.
    inputs : FileTables
        What is read, and must not be overwritten.
    """
    from coterie.datasets._home import written_whole
    from coterie.formats import open_writer

    rows = [path for path in tables if path is not None]
    rest = [path for path in others if path is not None]
    taken = {Path(table.where.partition("::")[0]).resolve(): "is read by this command" for table in inputs}
    for path in (*rows, *rest):
        if (reason := taken.get(path.resolve())) is not None:
            raise ValueError(f"{path} {reason}. Choose another name.")
        taken[path.resolve()] = "would be written twice"
        if path.is_dir():
            raise ValueError(f"{path} cannot be written: it is a folder. Name a file in it.")
        try:
            with suppress(RehearsalEnd), open_writer(path) if path in rows else written_whole(path):
                raise RehearsalEnd
        except OSError as error:
            raise ValueError(f"{path} cannot be written: {error.strerror or error}.") from error


def write_rows(path: Path, columns: Mapping[str, np.ndarray], ids: np.ndarray | None) -> None:
    """Write results, one row each: with ids, else with row numbers; a lone array where the format holds no more."""
    from coterie.formats import write_table

    if path.suffix.lower() == ".npy":
        write_table(path, columns)
    elif ids is not None:
        write_table(path, columns, ids)
    else:
        numbers = np.arange(len(next(iter(columns.values()))))
        write_table(path, {"row": numbers, **columns})


def check_one_column(path: Path | None, confidence: bool) -> None:
    """Refuse two columns in a format of one."""
    if path is not None and path.suffix.lower() == ".npy" and confidence:
        raise ValueError(f"{path} holds one column, so there is no room for --confidence. Write .npz or .parquet.")


def scores(known: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return how well labels match known ones."""
    from coterie import metrics

    return {
        "ACC": metrics.clustering_accuracy(known, labels),
        "NMI": metrics.nmi(known, labels),
        "ARI": metrics.ari(known, labels),
        "purity": metrics.purity(known, labels),
    }
