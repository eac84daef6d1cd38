"""``coterie predict``: a model and new rows in; their labels out."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.fit import Confidence, Embedding, show_rest
from coterie.cli.session import Voice, cell, numbered
from coterie.cli.start import import_estimator, quick_imports
from coterie.cli.tables import (
    ColumnsOf,
    OpenedViews,
    check_one_column,
    check_outputs,
    cluster_sizes,
    match_files,
    no_files,
    read_target,
    scores,
    stream_rows,
)

if TYPE_CHECKING:
    from rich.console import Console

    from coterie import GuidedCoTraining
    from coterie.formats import FileTable
    from coterie.method.assignment import Prediction

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `coterie fit --model` wrote.")]
NewLabelsFile = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="Write labels: .csv, .parquet, .npy, .npz, .json, ...; - is standard output, as CSV.",
        rich_help_panel=opt.FILES,
    ),
]
Novelty = Annotated[
    bool,
    typer.Option("--novelty", help="Write how unlike the rows of the fit each row is.", rich_help_panel=opt.FILES),
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail if a row lacks every view, instead of labelling it -1.")]

STANDARD_OUTPUT = Path("-")
NEWEST = 2**31  # any format version: only the header is read here, and load() checks the version


def predict(
    ctx: typer.Context,
    model: ModelArgument,
    views: opt.ViewFiles,
    labels: NewLabelsFile = None,
    confidence: Confidence = False,
    novelty: Novelty = False,
    embedding: Embedding = None,
    overwrite: opt.Overwrite = False,
    strict: Strict = False,
    target: opt.TargetFile = None,
    id_column: opt.IdColumn = None,
    header: opt.Header = None,
    numeric_only: opt.NumericOnly = False,
    config: opt.Config = None,
    device: opt.Device = None,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Assign new rows to the clusters of a model, as if they had been in the fit.

    A file is assigned to the view whose name it has, or contains as a word: `new_pixels.npy` is `pixels`. Views may be
    left out, and files without rows give an output without rows. The id column is that of the fit unless another is
    named.

    Examples:

    * `coterie predict digits.coterie new_*.npy --labels new.csv`

    * `coterie predict digits.coterie pixels=more.npy --labels more.parquet --confidence --novelty --embedding more.npz`

    * `coterie predict digits.coterie new_*.npy --labels -` writes to standard output.
    """
    voice = Voice.of(ctx)
    estimator, files = open_new_rows(ctx.params)
    used = id_column or id_column_of_fit(model)
    opened = named_views(files, estimator.view_names_, voice) if files else no_files(used)
    # Rows are read in the order of the model's first view, and written in that of the first file on the command line.
    order = opened.order_of(view_names(list(files), estimator.view_names_)[next(iter(files))]) if files else slice(None)
    check_one_column(labels, confidence or novelty)
    read = [*opened.sources, model, config, target]
    check_new_outputs(labels, embedding, read, overwrite=overwrite, json=json)
    if novelty and not hasattr(estimator, "cluster_sizes_"):
        raise ValueError(f"{model} was written by an older version of Coterie, which had no novelty. Fit again.")
    known = read_target(target, id_column, opened, header)
    started = time.perf_counter()
    columns: dict[Path, ColumnsOf] = {}
    if labels is not None:
        wanted = ["confidence"] * confidence + ["novelty"] * novelty
        columns[labels] = lambda part: {"label": part.labels, **{name: getattr(part, name) for name in wanted}}
    if embedding is not None:
        columns[embedding] = lambda part: {"embedding": part.embedding}
    with voice.bar(f"labelling {opened.n_rows:,} rows"):
        assigned = stream_rows(estimator, opened, columns, order, refuse_lacking if strict else None)  # (n,)
    seconds = time.perf_counter() - started
    unlabelled = int((assigned < 0).sum())
    if unlabelled:
        warnings.warn(f"{unlabelled} rows lack every view, so they have no cluster: their label is -1.", stacklevel=2)
    found: dict[str, Any] = {
        "command": "predict",
        "model": str(model),
        "rows": opened.n_rows,
        "clusters": estimator.n_clusters_,
        "sizes": cluster_sizes(assigned, estimator.n_clusters_),
        "unlabelled": unlabelled,
        "views": opened.facts(),
        "left_out": [name for name in estimator.view_names_ if files and name not in opened.files],
        "scores": None if known is None else scores(known, assigned),
        "seconds": seconds,
        "files": {name: str(path) for name, path in (("labels", labels), ("embedding", embedding)) if path is not None},
    }
    if labels != STANDARD_OUTPUT:
        voice.result(found, lambda console: show(console, found))
    if not found["files"]:
        voice.note("Nothing was written. Add --labels new.csv.")


def open_new_rows(params: Mapping[str, Any]) -> tuple[GuidedCoTraining, dict[str, FileTable]]:
    """Return a command's model and files; --device and --jobs replace the model's own settings."""
    with quick_imports():
        files = open_new_files(*(params[name] for name in ("model", "views", "id_column", "header", "numeric_only")))
        import_estimator()
        from coterie.saving import load
    where = {"device": params["device"], "n_jobs": params["jobs"]}
    estimator = load(params["model"])
    return estimator.set_params(**{name: value for name, value in where.items() if value is not None}), files


def open_new_files(
    model: Path, views: Sequence[str], id_column: str | None, header: bool | None = None, numeric_only: bool = False
) -> dict[str, FileTable]:
    """Open new rows with the given id column, or with that of the fit if any of the files has it.

    Columns without numbers are left out if the fit was run with --numeric-only. If no file has rows, none is returned.
    """
    from coterie.formats.errors import NoColumnError

    left_out = config_of_fit(model).get("numeric-only") is True
    options: dict[str, Any] = {"header": header, "numeric_only": numeric_only or left_out}
    used = id_column_of_fit(model)
    if used is not None and id_column is None:
        try:
            return open_unless_empty(views, used, options)
        except NoColumnError:  # if no file has the column, the files are read without ids
            if any(has_ids(view, used, options) for view in views):
                raise
    return open_unless_empty(views, id_column, options)


def has_ids(view: str, id_column: str | int, options: dict[str, Any]) -> bool:
    """Whether a file has the id column, even if it cannot be opened for another reason."""
    from coterie.formats import open_views
    from coterie.formats.errors import FormatError, NoColumnError

    try:
        return any(table.ids is not None for table in open_views([view], id_column=id_column, **options).values())
    except FormatError as error:
        return not isinstance(error, NoColumnError)


def open_unless_empty(
    views: Sequence[str], id_column: str | int | None, options: dict[str, Any]
) -> dict[str, FileTable]:
    """Open files; return none of them if none has rows."""
    from coterie.formats import open_views
    from coterie.formats.errors import NoRowsError

    try:
        return open_views(list(views), id_column=id_column, **options)
    except NoRowsError:
        if all(lacks_rows(view, options["header"]) for view in views):
            return {}
        raise


def config_of_fit(model: Path) -> dict[str, Any]:
    """Return the options of the command that made a model; empty for a model that was fitted in Python."""
    return told_of_fit(told_of_fit(header_of(model), "notes"), "config")


def id_column_of_fit(model: Path) -> str | int | None:
    """Return the ``id_column`` parameter of a fit, from the command line or from Python."""
    found = told_of_fit(header_of(model), "parameters").get("id_column")
    return found if isinstance(found, str | int) else None


def header_of(model: Path) -> dict[str, Any]:
    """Return the content of a model file's header."""
    from coterie.storage.container import read_container_header

    return read_container_header(model, newest=NEWEST).content


def told_of_fit(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a dict in a file's header; an empty one if the entry is missing or not a dict."""
    found = content.get(name)
    return found if isinstance(found, dict) else {}


def lacks_rows(view: str, header: bool | None = None) -> bool:
    """Whether a file has columns and no rows."""
    from coterie.formats import open_views
    from coterie.formats.errors import FormatError, NoRowsError

    try:
        open_views([view], header=header)
    except FormatError as error:  # errors about values, such as a column of text, imply that there are rows
        return isinstance(error, NoRowsError)
    return False


def named_views(files: Mapping[str, FileTable], known: Sequence[str], voice: Voice) -> OpenedViews:
    """Return the files as views of the model, in the model's order, with their rows matched."""
    names = view_names(list(files), known)
    for given, name in names.items():
        if given != name:
            voice.note(f"{files[given].where} is taken as view {name!r}.")
    named = {names[given]: file for given, file in files.items()}
    return match_files({name: named[name] for name in known if name in named})


def check_new_outputs(
    labels: Path | None, embedding: Path | None, inputs: Sequence[str | Path | None], *, overwrite: bool, json: bool
) -> None:
    """Refuse outputs that cannot be written or that exist already; labels may go to standard output, "-"."""
    if labels == STANDARD_OUTPUT and json:
        raise ValueError("--labels - and --json both write to standard output. Leave one of them out.")
    check_outputs([None if labels == STANDARD_OUTPUT else labels, embedding], [], inputs, overwrite=overwrite)


def refuse_lacking(part: Prediction) -> None:
    """Refuse rows that lack every view."""
    import numpy as np

    from coterie.views.checks import and_more

    lacking = np.flatnonzero(np.asarray(part.labels) < 0)
    if len(lacking):
        raise ValueError(
            f"Every view is missing in row {part.first_row + lacking[0]}{and_more(len(lacking) - 1)}. Leave such rows "
            "out, or leave out --strict: their label is then -1."
        )


def view_names(given: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return the model's view for each file: the view of the same name, or the only one in the name as a word.

    Examples
    --------
    >>> view_names(["new_pixels", "hog"], ["pixels", "hog", "text"])
    {'new_pixels': 'pixels', 'hog': 'hog'}
    """
    found: dict[str, str] = {}
    for name in given:
        fits = [name] if name in known else [view for view in known if holds(name, view)]
        longest = [view for view in fits if not any(view != other and holds(other, view) for other in fits)]
        taken = next((other for other, view in found.items() if longest == [view]), None)
        if len(longest) != 1:
            raise ValueError(
                f"{name!r} is none of the model's views ({', '.join(known)}). Say which one it is: {known[0]}=PATH."
            )
        if taken is not None:
            raise ValueError(f"{taken!r} and {name!r} both are view {longest[0]!r}. Name them: {known[0]}=PATH.")
        found[name] = longest[0]
    return found


def holds(name: str, word: str) -> bool:
    """Whether a name contains a word, with no letter or digit directly before or after it."""
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", name) is not None


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the result of a prediction."""
    sizes = found["sizes"]
    used = sum(size > 0 for size in sizes)
    console.print(
        f"[bold]{numbered(found['rows'], 'row')}[/bold] in {used} of {found['clusters']} clusters, "
        f"{found['seconds']:.1f} s"
    )
    if found["left_out"]:
        console.print(cell(f"without views: {', '.join(found['left_out'])}"))
    show_rest(console, found)
