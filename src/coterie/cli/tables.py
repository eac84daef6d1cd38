"""Files in and out: views as they are written on the command line, and results with the rows' ids."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    from coterie import GuidedCoTraining
    from coterie.formats import FileTable, Target
    from coterie.method.assignment import Prediction
    from coterie.views import View

# What a file wants of some rows: its columns by name.
ColumnsOf: TypeAlias = "Callable[[Prediction], Mapping[str, np.ndarray]]"


@dataclass(frozen=True)
class OpenedViews:
    """Views that were opened, with their rows matched."""

    files: dict[str, FileTable]
    positions: dict[str, np.ndarray | None]  # (n,) each: where a file has each row; None: in place
    tables: dict[str, Any]  # what a fit takes
    ids: np.ndarray | None  # (n,)
    n_rows: int
    id_column: str | int | None = None  # the column of ids that the files were opened with

    @property
    def id_name(self) -> str:
        """What results call the column of ids: as the files do, where one was named."""
        return id_name_of(self.id_column)

    @property
    def sources(self) -> list[Path]:
        """The files that the views come from, and folders of them."""
        tables = self.files.values()
        return [path for table in tables for path in (Path(table.where.partition("::")[0]), *table.files)]

    @property
    def matched(self) -> dict[str, FileTable | MatchedTable]:
        """The views with all rows in one order; what a file lacks is NaN."""
        from coterie.views import View

        return {
            name: file if (rows := self.positions[name]) is None else MatchedTable(View(name, file, file.columns, rows))
            for name, file in self.files.items()
        }

    def order_of(self, name: str) -> Any:
        """Return the rows as one file has them, and then those that it lacks: their numbers, or all as a slice."""
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
    """A view as a table: rows that lack it are NaN throughout, which a sparse table cannot say."""

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
    """Match the rows of views: by id where there are ids, else by position; a fit of the tables takes that over."""
    from coterie.formats import match_rows

    ids, positions = match_rows(list(files.values()))
    n_rows = len(next(iter(files.values()))) if ids is None else len(ids)
    asked = [file.request.id_column for file in files.values() if file.request is not None]
    named = next((name for name in asked if name is not None), None)
    places = dict(zip(files, positions, strict=True))
    return OpenedViews(files, places, dict(files), ids, n_rows, named)


def no_files(id_column: str | int | None) -> OpenedViews:
    """Return views without rows, as on a day without any: with ids, if the files would have had a column of them."""
    import numpy as np

    ids = None if id_column is None else np.empty(0, dtype="U1")
    return OpenedViews({}, {}, {}, ids, 0, id_column)


def id_name_of(id_column: str | int | None) -> str:
    """Return what results call a column of ids that was named; one that was numbered has no name.

    Examples
    --------
    >>> id_name_of("person"), id_name_of("0"), id_name_of(None)
    ('person', 'id', 'id')
    """
    return id_column if isinstance(id_column, str) and not id_column.isdecimal() else "id"


def cluster_sizes(labels: np.ndarray, n_clusters: int) -> list[int]:
    """Return the number of rows in every cluster; rows without one have the label -1."""
    import numpy as np

    return np.bincount(labels[labels >= 0], minlength=n_clusters).tolist()


def read_target(
    path: str | None, id_column: str | None, opened: OpenedViews, header: bool | None = None
) -> np.ndarray | None:
    """Return the known labels of the rows, matched as the views' rows are."""
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
    """Open a column of a file beside the views, with the column of ids that is named or else with that of the views.

    The views' column of ids may be known from the model alone; a file that lacks it is then read without ids.
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
    """Return the columns to colour the map by, each by its name."""
    from coterie.formats.specs import parse_spec

    found = {}
    for spec in specs:
        parts = parse_spec(spec)
        name = parts.name or (parts.columns[0] if parts.columns else None) or parts.key or Path(parts.path).stem
        written = spec.removeprefix(f"{parts.name}=") if parts.name else spec
        found[name] = read_column(written, id_column, opened, header)
    return found or None


# -- what is written ------------------------------------------------------------------------------------------------


PAGE_MARK, PAGE_HEAD = b'<meta name="generator" content="coterie ', 4096  # what a report says of itself, and where


class RehearsalEnd(Exception):
    """Ends a rehearsal of writing before anything is written."""


def check_outputs(
    tables: Iterable[Path | None],
    others: Iterable[Path | None],
    inputs: Iterable[str | Path | None],
    *,
    overwrite: bool,
) -> None:
    """Open and drop every file that is to be written, so that what cannot be written is known before the work.

    Parameters
    ----------
    tables : paths or None
        Files of rows, whose extension must be one that can be written.
    others : paths or None
        Models and reports.
    inputs : paths, files with keys and columns, or None
        Everything that is read, beside the views too, and must not be overwritten. A folder's files are one table.
    overwrite : bool
        Whether files that are there already may be replaced. Pages that Coterie wrote may always be: their models and
        rows are still there.
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
    """Return where a path leads; one that leads back to itself as it is."""
    return Path(os.path.realpath(path))


def file_of(spec: str | Path | None) -> Path | None:
    """Return the file of what is written for a view or a column; a path as it is, and None for none."""
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
    """Write results, one row each: with ids, else with row numbers; a lone array where the format holds no more."""
    from coterie.formats import write_table

    write_table(path, with_names(path, columns, ids, id_name))


def with_names(
    path: Path, columns: Mapping[str, np.ndarray], ids: np.ndarray | None, id_name: str, first_row: int = 0
) -> Mapping[str, np.ndarray]:
    """Return the columns that a file of some consecutive rows gets: ids or row numbers, and results."""
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
    """Send the rows through a model, write what each file wants of them, and return the labels.

    Files are written as rows come; where they want another ``order``, when all have come. Whatever ``check`` raises
    ends it, and no file is left.
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
    """Return what writes rows to a file, or to standard output as CSV."""
    from coterie.formats import open_writer

    return standard_output() if str(path) == "-" else open_writer(path)


@contextmanager
def standard_output() -> Iterator[CsvLines]:
    """Yield what writes rows to standard output."""
    yield CsvLines(sys.stdout)


class CsvLines:
    """Rows as lines of CSV, the first one with the columns' names."""

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
    """Refuse two columns in a format of one."""
    if path is not None and path.suffix.lower() == ".npy" and confidence:
        raise ValueError(
            f"{path} holds one column, so there is no room for --confidence or --novelty. Write .npz or .parquet."
        )


def scores(known: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return how well labels match known ones."""
    from coterie import metrics

    return metrics.scores(known, labels)
