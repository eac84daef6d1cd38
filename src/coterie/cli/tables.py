"""Files in and out: views from the command line's file arguments, and results with the rows' ids."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from coterie.cli.pipes import check_open

if TYPE_CHECKING:
    import numpy as np

    from coterie import GuidedCoTraining
    from coterie.formats import FileTable, Target
    from coterie.method.assignment import Prediction
    from coterie.views import View

# Maps the prediction of a block of rows to the columns, by name, that are written to a file.
ColumnsOf: TypeAlias = "Callable[[Prediction], Mapping[str, np.ndarray]]"


@dataclass(frozen=True)
class OpenedViews:
    """Opened views, with their rows matched."""

    files: dict[str, FileTable]
    positions: dict[str, np.ndarray | None]  # (n,) each: a row's number in the file, -1 if absent; None: the same order
    tables: dict[str, Any]  # the argument of fit
    ids: np.ndarray | None  # (n,)
    n_rows: int
    id_column: str | int | None = None  # the column of ids that the files were opened with

    @property
    def id_name(self) -> str:
        """The name of the id column in results: that in the files if it was given by name, else "id"."""
        return id_name_of(self.id_column)

    @property
    def sources(self) -> list[Path]:
        """The paths of the views: files, and folders together with the files in them."""
        tables = self.files.values()
        return [path for table in tables for path in (Path(table.where.partition("::")[0]), *table.files)]

    @property
    def matched(self) -> dict[str, FileTable | MatchedTable]:
        """The views with their rows in one common order; rows that a file lacks are NaN."""
        from coterie.views import View

        return {
            name: file if (rows := self.positions[name]) is None else MatchedTable(View(name, file, file.columns, rows))
            for name, file in self.files.items()
        }

    def order_of(self, name: str) -> Any:
        """Return the index that sorts the rows as in one file, absent rows last; a slice if that is their order."""
        import numpy as np

        rows = self.positions[name]
        return slice(None) if rows is None else np.argsort(np.where(rows < 0, len(rows), rows), kind="stable")  # (n,)

    def facts(self) -> dict[str, dict[str, Any]]:
        """Return where each view comes from and how large it is, as plain data."""
        return {
            name: {"where": file.where, "rows": file.shape[0], "columns": file.shape[1], "sparse": file.is_sparse}
            for name, file in self.files.items()
        }


class MatchedTable:
    """A view as a table, NaN in rows that lack it; it is then dense, as a sparse table cannot mark missing rows."""

    ndim = 2

    def __init__(self, view: View) -> None:
        import numpy as np

        lacks = bool((view.positions < 0).any()) if view.positions is not None else False
        self._view = view
        self.shape, self.columns = (view.n_rows, view.n_columns), view.columns
        self.is_sparse = view.data.is_sparse and not lacks
        self.dtype = np.promote_types(view.data.dtype, np.float32) if lacks else view.data.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        import numpy as np

        block = self._view.read(rows)
        data = block.data if self.is_sparse or not hasattr(block.data, "toarray") else block.data.toarray()
        if block.present is None:
            return data.astype(self.dtype, copy=False)
        return np.where(block.present[:, None], data, np.nan).astype(self.dtype, copy=False)  # (b, d)


def open_files(
    specs: Sequence[str], id_column: str | None, header: bool | None = None, numeric_only: bool = False
) -> OpenedViews:
    """Open views and match their rows."""
    from coterie.formats import open_views

    return match_files(open_views(list(specs), id_column=id_column, header=header, numeric_only=numeric_only))


def match_files(files: dict[str, FileTable]) -> OpenedViews:
    """Match the rows of views: by id where there are ids, else by position. A fit of ``tables`` matches them again."""
    from coterie.formats import match_rows

    ids, positions = match_rows(list(files.values()))
    n_rows = len(next(iter(files.values()))) if ids is None else len(ids)
    asked = [file.request.id_column for file in files.values() if file.request is not None]
    named = next((name for name in asked if name is not None), None)
    places = dict(zip(files, positions, strict=True))
    return OpenedViews(files, places, dict(files), ids, n_rows, named)


def no_files(id_column: str | int | None) -> OpenedViews:
    """Return views without rows, for an empty batch; ``ids`` is an empty array if there is an id column."""
    import numpy as np

    ids = None if id_column is None else np.empty(0, dtype="U1")
    return OpenedViews({}, {}, {}, ids, 0, id_column)


def id_name_of(id_column: str | int | None) -> str:
    """Return the name of the id column in results: "id" where the column was given by number or not at all.

    Examples
    --------
    >>> id_name_of("person"), id_name_of("0"), id_name_of(None)
    ('person', 'id', 'id')
    """
    return id_column if isinstance(id_column, str) and not id_column.isdecimal() else "id"


def cluster_sizes(labels: np.ndarray, n_clusters: int) -> list[int]:
    """Return the number of rows in every cluster; rows with the label -1 have none."""
    import numpy as np

    return np.bincount(labels[labels >= 0], minlength=n_clusters).tolist()


def read_target(
    path: str | None, id_column: str | None, opened: OpenedViews, header: bool | None = None
) -> np.ndarray | None:
    """Return the known labels, in the order of the matched rows."""
    if path is None:
        return None
    from coterie.formats import open_target

    target = open_beside(open_target, path, id_column, opened, header)
    moved = next((name for name, rows in opened.positions.items() if rows is not None), None)
    if moved is not None and target.ids is None:
        raise ValueError(
            f"{path} has no row ids, but the views' rows are matched by id ({opened.files[moved].where} has them in "
            "another order, or lacks some). Give the known labels ids too."
        )
    return target.for_rows(opened.ids, opened.n_rows)  # (n,)


def read_column(spec: str, id_column: str | None, opened: OpenedViews, header: bool | None = None) -> np.ndarray:
    """Return one column of a file, in the order of the rows."""
    from coterie.formats import open_column

    found = open_beside(open_column, spec, id_column, opened, header)
    moved = next((name for name, rows in opened.positions.items() if rows is not None), None)
    if moved is not None and found.ids is None:
        raise ValueError(f"{spec} has no row ids, but the views' rows are matched by id. Give its rows ids too.")
    return found.for_rows(opened.ids, opened.n_rows)  # (n,)


def open_beside(
    opening: Callable[..., Target], spec: str, id_column: str | None, opened: OpenedViews, header: bool | None
) -> Target:
    """Open one column of another file, with the given id column or else with that of the views.

    A file that lacks the views' id column is read without ids, because the user did not name that column for it: it may
    come from the model.
    """
    from coterie.formats.errors import NoColumnError

    try:
        return opening(spec, id_column=opened.id_column if id_column is None else id_column, header=header)
    except NoColumnError:
        if id_column is not None:
            raise
        return opening(spec, header=header)


def read_columns(
    specs: list[str], id_column: str | None, opened: OpenedViews, header: bool | None = None
) -> dict[str, np.ndarray] | None:
    """Return the columns to colour the map by, as a dict from names to values."""
    from coterie.formats.specs import parse_spec

    found = {}
    for spec in specs:
        parts = parse_spec(spec)
        name = parts.name or (parts.columns[0] if parts.columns else None) or parts.key or Path(parts.path).stem
        if name in found:
            raise ValueError(f"Two columns to colour by are called {name!r}. Name one of them: other={spec}")
        written = spec.removeprefix(f"{parts.name}=") if parts.name else spec
        found[name] = read_column(written, id_column, opened, header)
    return found or None


# -- what is written ------------------------------------------------------------------------------------------------


PAGE_MARK, PAGE_HEAD = b'<meta name="generator" content="coterie ', 4096  # marks our reports; bytes that are searched


class RehearsalEnd(Exception):
    """Raised to leave a writer before it writes anything."""


def check_outputs(
    tables: Iterable[Path | None],
    others: Iterable[Path | None],
    inputs: Iterable[str | Path | None],
    *,
    overwrite: bool,
) -> None:
    """Check that every output can be written, by opening it and discarding the file, before any work is done.

    Parameters
    ----------
    tables : paths or None
        Tables of results, whose extension must be a format that can be written.
    others : paths or None
        Models and reports.
    inputs : paths, files with keys and columns, or None
        Everything that the command reads, which must not be overwritten. No output may lie in a folder that is read.
    overwrite : bool
        Whether existing files may be replaced. Reports that Coterie wrote may always be replaced: they can be made
        again from the model and the rows.
    """
    from coterie.files import expand_home, written_whole
    from coterie.formats import open_writer

    rows = [path for path in tables if path is not None]
    rest = [path for path in others if path is not None]
    taken = {real_path(where): "is read by this command" for where in map(file_of, inputs) if where is not None}
    for path in (*rows, *rest):
        if str(path) == "-":
            raise ValueError(
                "- cannot be written: results go to files, not to standard output. Name one, such as out.csv; --json "
                "prints what was found."
            )
        own = real_path(expand_home(path))
        for place in (own, *own.parents):
            if place in taken and (place == own or place.is_dir()):
                inside = "" if place == own else f" lies in {place}, which"
                raise ValueError(f"{path}{inside} {taken[place]}. Choose another name.")
        taken[own] = "would be written twice"
        if own.is_dir():
            raise ValueError(f"{path} cannot be written: it is a folder. Name a file in it.")
        if own.is_file() and not overwrite and not is_own_page(own):
            raise ValueError(f"{path} is there already. Choose another name, or add --overwrite.")
        try:
            with suppress(RehearsalEnd), open_writer(path) if path in rows else written_whole(path):
                raise RehearsalEnd
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            raise ValueError(f"{path} cannot be written: {why}.") from error


def real_path(path: Path) -> Path:
    """Return a path with symbolic links resolved; unlike Path.resolve, this does not fail on a loop of links."""
    return Path(os.path.realpath(path))


def file_of(spec: str | Path | None) -> Path | None:
    """Return the file that a view or column specification names; None for None."""
    from coterie.files import expand_home
    from coterie.formats.specs import parse_spec

    if spec is None:
        return None
    return expand_home(spec if isinstance(spec, Path) else parse_spec(spec).path)


def is_own_page(path: Path) -> bool:
    """Whether a file is a report that Coterie wrote."""
    with path.open("rb") as file:
        return PAGE_MARK in file.read(PAGE_HEAD)


def write_rows(path: Path, columns: Mapping[str, np.ndarray], ids: np.ndarray | None, id_name: str) -> None:
    """Write results with ids or, without ids, row numbers; a .npy file holds the result's array alone."""
    from coterie.formats import write_table

    write_table(path, with_names(path, columns, ids, id_name))


def with_names(
    path: Path, columns: Mapping[str, np.ndarray], ids: np.ndarray | None, id_name: str, first_row: int = 0
) -> Mapping[str, np.ndarray]:
    """Return the columns of a file for a block of rows: ids or row numbers, then results; no ids in .npy."""
    import numpy as np

    size = len(next(iter(columns.values())))
    if path.suffix.lower() == ".npy":
        return columns
    if ids is None:
        return {"row": np.arange(first_row, first_row + size), **columns}
    taken = any(name == id_name or name.startswith(f"{id_name}_") for name in columns)
    return {"id" if taken else id_name: ids[first_row : first_row + size], **columns}


def stream_rows(
    estimator: GuidedCoTraining,
    opened: OpenedViews,
    files: Mapping[Path, ColumnsOf],
    order: Any = slice(None),
    check: Callable[[Prediction], None] | None = None,
) -> np.ndarray:
    """Predict the rows block by block, write each file's columns, and return the labels.

    In the order of the rows, files are written block by block; in another ``order``, only after the last block. If
    ``check`` raises for a block, no file is left behind.
    """
    import numpy as np

    labels: list[np.ndarray] = []
    held: dict[Path, list[Mapping[str, np.ndarray]]] = {path: [] for path in files}
    with ExitStack() as stack:
        in_place = isinstance(order, slice)
        writers = {path: stack.enter_context(writer_of(path)) for path in files if in_place}
        for part in estimator.stream(opened.tables) if opened.n_rows else [no_rows(estimator)]:
            if check is not None:
                check(part)
            for path, columns in files.items():
                if in_place:
                    writers[path].write(with_names(path, columns(part), opened.ids, opened.id_name, part.first_row))
                else:
                    held[path].append(columns(part))
            labels.append(part.labels)
    if not in_place:
        ids = None if opened.ids is None else opened.ids[order]
        for path, parts in held.items():
            whole = {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
            with writer_of(path) as writer:
                writer.write(with_names(path, whole, ids, opened.id_name))
    return np.concatenate(labels)  # (n,)


def no_rows(estimator: GuidedCoTraining) -> Prediction:
    """Return the prediction of no rows."""
    import numpy as np

    from coterie.method.assignment import Prediction

    none = np.empty(0, dtype=np.float32)
    width = estimator.cluster_centers_.shape[1]
    return Prediction(0, np.empty(0, dtype=np.int32), none, np.empty((0, width), dtype=np.float32), none)


def writer_of(path: Path) -> Any:
    """Return a writer of rows to a file, or as CSV to standard output for "-"."""
    from coterie.formats import open_writer

    return standard_output() if str(path) == "-" else open_writer(path)


@contextmanager
def standard_output() -> Iterator[CsvLines]:
    """Yield a writer of CSV to standard output."""
    check_open()
    yield CsvLines(sys.stdout)


class CsvLines:
    """A writer of CSV; the first line has the columns' names."""

    def __init__(self, stream: Any) -> None:
        self._lines = csv.writer(stream, lineterminator="\n")
        self._begun = False

    def write(self, columns: Mapping[str, np.ndarray]) -> None:
        """Write some rows."""
        if not self._begun:
            self._lines.writerow(columns)
            self._begun = True
        self._lines.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))


def check_one_column(path: Path | None, confidence: bool) -> None:
    """Refuse --confidence or --novelty for .npy, which holds one column."""
    if path is not None and path.suffix.lower() == ".npy" and confidence:
        raise ValueError(
            f"{path} holds one column, so there is no room for --confidence or --novelty. Write .npz or .parquet."
        )


def scores(known: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return the metrics of labels against known labels."""
    from coterie import metrics

    return metrics.scores(known, labels)
