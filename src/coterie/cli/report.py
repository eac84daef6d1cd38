"""``coterie report``: a model and the rows of its fit in; an interactive page out."""

from __future__ import annotations

import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.fit import Images, check_report, parse_images, report_writer
from coterie.cli.predict import ModelArgument, open_new_files, view_names
from coterie.cli.session import Voice, cell
from coterie.cli.start import import_estimator, quick_imports
from coterie.cli.tables import OpenedViews, check_outputs, match_files, read_column, read_columns, read_target
from coterie.files import expand_home

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from coterie import GuidedCoTraining
    from coterie.formats import FileTable

Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="Where to write: .html, or the page's data as .json.", rich_help_panel=opt.FILES),
]
PictureFiles = Annotated[
    str | None,
    typer.Option(
        "--pictures",
        metavar="FOLDER|PATH[COLUMN]",
        help="The rows' own pictures: files called by the rows' ids, or a column of paths.",
        autocompletion=opt.complete_files,
        rich_help_panel=opt.FILES,
    ),
]
Names = Annotated[
    Path | None,
    typer.Option("--names", metavar="JSON", help="Names of clusters, as the page writes.", rich_help_panel=opt.FILES),
]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="MODEL", help="Another fit, to compare with.", rich_help_panel=opt.FILES),
]
Levels = Annotated[
    str | None,
    typer.Option(
        "--levels",
        metavar="N[,N...]",
        help="Numbers of groups that the tree of clusters is cut into.",
        rich_help_panel=opt.SHOWN,
    ),
]
Title = Annotated[str | None, typer.Option("--title", help="Heading of the page.", rich_help_panel=opt.SHOWN)]
SampleSize = Annotated[
    int, typer.Option("--sample", min=1, max=10_000, help="Rows on the map.", rich_help_panel=opt.SHOWN)
]
Open = Annotated[bool, typer.Option("--open", help="Show the page in the browser.", rich_help_panel=opt.SHOWN)]


def report(
    ctx: typer.Context,
    model: ModelArgument,
    views: opt.ViewFiles,
    out: Out = Path("report.html"),
    overwrite: opt.Overwrite = False,
    target: opt.TargetFile = None,
    id_column: opt.IdColumn = None,
    header: opt.Header = None,
    numeric_only: opt.NumericOnly = False,
    colour_by: opt.ColourBy = None,
    text: opt.Text = None,
    pictures: PictureFiles = None,
    image: Images = None,
    names: Names = None,
    against: Against = None,
    levels: Levels = None,
    title: Title = None,
    sample: SampleSize = 4000,
    seed: opt.Seed = 0,
    jobs: opt.Jobs = None,
    open_page: Open = False,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    verbose: opt.Verbose = False,
    debug: opt.Debug = False,
) -> None:
    """Write a page about a fit, from its model and its rows.

    Pass the files of the fit. A file is assigned to the view whose name it has, or contains as a word. The id column is
    that of the fit unless another is named.

    Examples:

    * `coterie report digits.coterie pixels.npy hog.parquet text.npz -o digits.html --target y.npy`

    * `coterie report digits.coterie pixels.npy hog.parquet text.npz --colour-by people.csv[age] --levels 4`

    * `coterie report digits.coterie pixels.npy hog.parquet text.npz --against digits.coterie --title "Two runs"`
    """
    voice = Voice.of(ctx)
    started = time.perf_counter()
    check_report(out)
    with voice.bar("report"):
        voice.stage("opening files")
        with quick_imports():
            files = open_new_files(model, views, id_column, header, numeric_only)
            import_estimator()
            from coterie.saving import load
        estimator = load(model)
        estimator.set_params(verbose=verbose, **({} if jobs is None else {"n_jobs": jobs}))
        voice.stage("matching rows")
        opened = match_to_model(files, estimator)
        listed = None if is_folder(pictures) else pictures  # the page may be written into the folder of pictures
        read = [*opened.sources, model, against, target, text, names, listed, *(colour_by or [])]
        check_outputs([], [out], read, overwrite=overwrite)
        voice.stage("reading columns")
        given = Extras(
            target=read_target(target, id_column, opened, header),
            columns=read_columns(colour_by or [], id_column, opened, header),
            texts=None if text is None else read_column(text, id_column, opened, header),
            pictures=read_pictures(pictures, id_column, opened, header),
            against=None if against is None else load(against),
        )
    with voice.bar(f"report of {opened.n_rows:,} rows"):
        write(
            estimator,
            out,
            opened,
            given,
            images=parse_images(image or []),
            names=names,
            against_title=None if against is None else against.name,
            levels=parse_levels(levels),
            title=title,
            options=opt.recorded(ctx),
            sample=sample,
            random_state=seed,
        )
    found = {
        "command": "report",
        "model": str(model),
        "rows": opened.n_rows,
        "clusters": estimator.n_clusters_,
        "stability": getattr(estimator, "stability_", None),
        "seconds": time.perf_counter() - started,
        "files": {"report": str(out)},
    }
    voice.result(found, lambda console: show(console, found))
    if open_page:
        show_in_browser(out, voice)


def match_to_model(files: dict[str, FileTable], estimator: GuidedCoTraining) -> OpenedViews:
    """Return the files as views of the model, in the model's order, with their rows matched."""
    if not files:
        raise ValueError("The files have no rows, so there is nothing to report. Pass the files of the fit.")
    names = view_names(list(files), estimator.view_names_)
    named = {names[given]: file for given, file in files.items()}
    return match_files({name: named[name] for name in estimator.view_names_ if name in named})


@dataclass(frozen=True)
class Extras:
    """The inputs of a report other than the views."""

    target: np.ndarray | None = None  # (n,)
    columns: dict[str, np.ndarray] | None = None  # (n,) each
    texts: np.ndarray | None = None  # (n,)
    pictures: Any = None  # (n,) paths, or a folder
    against: GuidedCoTraining | None = None


def write(estimator: Any, out: Path, opened: OpenedViews, given: Extras, **settings: Any) -> None:
    """Write the page, or its data."""
    report_writer(out)(estimator, out, opened.tables, ids=opened.ids, **vars(given), **settings)


def read_pictures(spec: str | None, id_column: str | None, opened: OpenedViews, header: bool | None = None) -> Any:
    """Return a folder of pictures, or one path per row; paths are relative to the file that lists them."""
    if spec is None:
        return None
    if is_folder(spec):
        return expand_home(spec)
    from coterie.formats.specs import parse_spec

    base = expand_home(parse_spec(spec).path).parent
    return [base / str(path) for path in read_column(spec, id_column, opened, header)]


def is_folder(spec: str | None) -> bool:
    """Whether the value of --pictures is a folder."""
    return spec is not None and expand_home(spec).is_dir()


def parse_levels(value: str | None) -> list[int] | None:
    """Return the numbers of groups that --levels lists.

    Examples
    --------
    >>> parse_levels("4,12"), parse_levels(None)
    ([4, 12], None)
    """
    if value is None:
        return None
    parts = [part.strip() for part in value.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ValueError(f"--levels takes numbers of groups, such as 4 or 4,12. Got {value!r}.")
    return [int(part) for part in parts]


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the written file and, for a page, the address to open in a browser."""
    stability = "" if found["stability"] is None else f", stability {found['stability']:.2f}"
    console.print(
        f"[bold]{found['rows']:,} rows in {found['clusters']} clusters[/bold]{stability}, {found['seconds']:.1f} s"
    )
    path = Path(found["files"]["report"])
    console.print(f"report: {cell(str(path))}", soft_wrap=True)
    if path.suffix.lower() != ".json":
        console.print(f"open it: {cell(address_of(path))}", soft_wrap=True)


def show_in_browser(path: Path, voice: Voice) -> None:
    """Open a page in the browser; if there is none, print its address."""
    if not webbrowser.open(address_of(path)):
        voice.note(f"No browser was found. Open {address_of(path)} yourself.")


def address_of(page: Path) -> str:
    """Return the file URL of a page."""
    return expand_home(page).resolve().as_uri()
