"""``coterie fit``: views in; labels, a model and a report out."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.session import Voice, cell, numbered
from coterie.cli.start import import_estimator, quick_imports
from coterie.cli.tables import (
    OpenedViews,
    check_one_column,
    check_outputs,
    cluster_sizes,
    open_files,
    read_column,
    read_columns,
    read_target,
    scores,
    stream_rows,
    write_rows,
)

if TYPE_CHECKING:
    from rich.console import Console

    from coterie import GuidedCoTraining

LabelsFile = Annotated[
    Path | None,
    typer.Option("--labels", help="Write labels: .csv, .parquet, .npy, .npz, .json, ...", rich_help_panel=opt.FILES),
]
ModelFile = Annotated[
    Path | None,
    typer.Option("--model", help="Write the model, for `coterie predict`.", rich_help_panel=opt.FILES),
]
ReportFile = Annotated[
    Path | None,
    typer.Option("--report", help="Write a report: .html, or its data as .json.", rich_help_panel=opt.FILES),
]
Embedding = Annotated[
    Path | None,
    typer.Option(
        "--embedding",
        help="Write each row's embedding, its coordinates in the augmented view.",
        rich_help_panel=opt.FILES,
    ),
]
Confidence = Annotated[
    bool, typer.Option("--confidence", help="Write how sure each label is, beside it.", rich_help_panel=opt.FILES)
]
AlignTo = Annotated[
    Path | None,
    typer.Option(
        "--align-to",
        metavar="MODEL",
        help="An older model: clusters that are the same keep its numbers.",
        rich_help_panel=opt.FILES,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Say what the fit would take (memory, disk, time) and stop.", rich_help_panel=opt.SHOWN
    ),
]
Images = Annotated[
    list[str] | None,
    typer.Option(
        "--image",
        metavar="VIEW=HxW[xC]",
        help="A view of images, to be shown in the report (repeat).",
        rich_help_panel=opt.FILES,
    ),
]


def fit(
    ctx: typer.Context,
    views: opt.ViewFiles,
    clusters: opt.Clusters = "auto",
    labels: LabelsFile = None,
    model: ModelFile = None,
    report: ReportFile = None,
    embedding: Embedding = None,
    confidence: Confidence = False,
    overwrite: opt.Overwrite = False,
    align_to: AlignTo = None,
    image: Images = None,
    colour_by: opt.ColourBy = None,
    text: opt.Text = None,
    target: opt.TargetFile = None,
    id_column: opt.IdColumn = None,
    header: opt.Header = None,
    numeric_only: opt.NumericOnly = False,
    config: opt.Config = None,
    seed: opt.Seed = 0,
    landmarks: opt.Landmarks = None,
    neighbors: opt.Neighbors = None,
    scaling: opt.Scaling = None,
    metric: opt.Metric = None,
    weights: opt.Weights = None,
    published: opt.Published = False,
    max_iter: opt.MaxIter = None,
    setting: opt.Setting = None,
    device: opt.Device = None,
    jobs: opt.Jobs = None,
    memory_limit: opt.MemoryLimit = None,
    work_dir: opt.WorkDir = None,
    dry_run: DryRun = False,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    verbose: opt.Verbose = False,
    debug: opt.Debug = False,
) -> None:
    """Cluster rows that are seen through several views.

    Every file is a view; rows are matched by id where files have ids, else by position. Nothing need be scaled first.

    Examples:

    * `coterie fit pixels.npy hog.parquet text.npz -k 10 --labels out.parquet --model digits.coterie --report digits.html`

    * `coterie fit rna=cells.h5mu::rna protein=cells.h5mu::prot --labels out.csv --confidence` looks for the number of clusters.

    * `coterie fit people.csv[age,income] visits=visits.csv[2:] --id-column person -k 4 --labels out.csv`

    * `coterie fit digits.npz -k 10 --target digits.npz::y --json` compares with known labels.

    * `coterie fit pixels.npy hog.parquet -k 10 --dry-run` estimates time and memory, and does not fit.

    * `coterie fit --config run.toml --seed 1` takes all other options from a file.

    * `coterie fit pixels.npy hog.parquet -k 10 --memory-limit 8GB --work-dir job --labels out.parquet` takes more rows than fit in memory, and continues where it stopped when it is run again.
    """  # noqa: E501
    voice = Voice.of(ctx)
    with voice.bar("fit"), quick_imports():
        voice.stage("opening files")
        opened = open_files(views, id_column, header, numeric_only)  # before slow imports: errors in files come at once
        voice.stage("loading")
        import_estimator()
    estimator = opt.make_model(ctx.params)
    estimator.set_params(store_embedding=embedding is not None and memory_limit is None, id_column=id_column)
    check_one_column(labels, confidence)
    read = [*opened.sources, config, target, text, *(colour_by or [])]  # an older model may be replaced
    check_outputs([labels, embedding], [model, report], read, overwrite=overwrite)
    older = None
    if align_to is not None:
        from coterie.saving import load

        older = load(align_to)
        check_older(align_to, older, opened)
    shapes = parse_images(image or [])
    check_report(report)
    if dry_run:
        tell_forecast(voice, estimator, opened)
        return
    known = read_target(target, id_column, opened, header)
    columns = read_columns(colour_by or [], id_column, opened, header)
    texts = None if text is None else read_column(text, id_column, opened, header)
    if report is not None:
        check_shown(shapes, columns, opened)
    started = time.perf_counter()
    with voice.bar(f"fitting {opened.n_rows:,} rows"):
        estimator.fit(opened.tables)
        changes: list[str] = []
        if older is not None:
            from coterie.alignment import align

            aligned = align(estimator, older, opened.tables)
            estimator, changes = aligned.model, aligned.in_words()
    seconds = time.perf_counter() - started
    found: dict[str, Any] = {
        "command": "fit",
        "changes": changes,
        "rows": opened.n_rows,
        "clusters": estimator.n_clusters_,
        "sizes": cluster_sizes(estimator.labels_, estimator.n_clusters_),
        "basis": chosen_basis(getattr(estimator, "candidates_", None), estimator.basis),
        "stability": getattr(estimator, "stability_", None),
        "candidates": getattr(estimator, "candidates_", None),
        "views": view_facts(estimator, opened),
        "scores": None if known is None else scores(known, estimator.labels_),
        "seconds": seconds,
        "files": {},
        "config": opt.recorded(ctx),
    }
    write_outputs(estimator, opened, found, labels=labels, embedding=embedding, model=model, confidence=confidence)
    if report is not None:
        told = {"target": known, "ids": opened.ids, "images": shapes, "columns": columns, "texts": texts}
        with voice.bar(f"report of {opened.n_rows:,} rows"):
            report_writer(report)(estimator, report, opened.tables, options=found["config"], **told)
        found["files"]["report"] = str(report)
    voice.result(found, lambda console: show(console, found))
    if not found["files"]:
        voice.note("Nothing was written. Add --labels out.csv, --model m.coterie or --report r.html.")


def tell_forecast(voice: Voice, estimator: GuidedCoTraining, opened: OpenedViews) -> None:
    """Print an estimate of a fit's memory, disk space and time."""
    from dataclasses import asdict

    expected = estimator.estimate(opened.tables)
    found = {"command": "fit", "dry_run": True, **asdict(expected)}
    voice.result(found, lambda console: console.print(cell(str(expected)), soft_wrap=True))


def check_older(path: Path, older: GuidedCoTraining, opened: OpenedViews) -> None:
    """Refuse an older model that cannot label the rows, before they are fitted."""
    from coterie.alignment import check_rows_for

    try:
        check_rows_for(older, opened.tables)
    except ValueError as error:
        raise ValueError(f"{path} cannot label these rows, so clusters cannot be aligned to its: {error}") from error


def check_shown(images: Any, columns: Any, opened: OpenedViews) -> None:
    """Refuse images and columns that the report cannot show, before the fit."""
    from coterie.report._inputs import check_columns_to_show
    from coterie.report._portraits import check_appearance

    check_appearance(images, None, {name: file.shape[1] for name, file in opened.files.items()})
    check_columns_to_show(columns, opened.n_rows)


def check_report(path: Path | None) -> None:
    """Refuse an unknown extension of a report, or one whose library is not installed, before the work."""
    if path is None:
        return
    if path.suffix.lower() not in (".html", ".htm", ".json"):
        raise ValueError(f"{path} cannot be written: a report is a page, .html, or its data, .json. Name it so.")
    if path.suffix.lower() != ".json":
        from coterie.report._page import environment

        environment()


def report_writer(path: Path) -> Callable[..., Path]:
    """Return the function that writes a report: as JSON or as a page."""
    from coterie.report import write_json, write_report

    return write_json if path.suffix.lower() == ".json" else write_report


def chosen_basis(candidates: list[dict[str, Any]] | None, asked: str) -> str:
    """Return the basis that a fit chose among its candidates, or the ``basis`` parameter if there were none.

    Examples
    --------
    >>> chosen_basis([{"name": "diffusion", "chosen": False}, {"name": "commute", "chosen": True}], "auto")
    'commute'
    >>> chosen_basis(None, "subspace")
    'subspace'
    """
    return next((line["name"] for line in candidates or () if line["chosen"]), asked)


def view_facts(estimator: GuidedCoTraining, opened: OpenedViews) -> dict[str, dict[str, Any]]:
    """Return each view's source, size, preparation, weight and agreement as plain data."""
    return {
        name: {
            **facts,
            "preparation": estimator.preparation_[name],
            "weight": estimator.view_weights_.get(name),
            "agreement": estimator.agreement_.get(name),
        }
        for name, facts in opened.facts().items()
    }


def write_outputs(
    estimator: GuidedCoTraining,
    opened: OpenedViews,
    found: dict[str, Any],
    *,
    labels: Path | None,
    embedding: Path | None,
    model: Path | None,
    confidence: bool,
) -> None:
    """Write labels, embedding and model, and record their paths in ``found``."""
    files = found["files"]
    if labels is not None:
        columns = {"label": estimator.labels_}
        if confidence:
            columns["confidence"] = estimator.confidence_
        write_rows(labels, columns, opened.ids, opened.id_name)
        files["labels"] = str(labels)
    if embedding is not None:
        if estimator.store_embedding:
            write_rows(embedding, {"embedding": estimator.embedding_}, opened.ids, opened.id_name)
        else:  # not stored under --memory-limit: the rows are transformed once more
            stream_rows(estimator, opened, {embedding: lambda part: {"embedding": part.embedding}})
        files["embedding"] = str(embedding)
    if model is not None:
        from coterie.saving import save

        save(estimator, model, notes={"command": "fit", "config": found["config"], "views": found["views"]})
        files["model"] = str(model)


def parse_images(values: list[str]) -> dict[str, tuple[int, ...]] | None:
    """Return the image shape of each view that --image names, as (height, width) or (height, width, channels).

    Examples
    --------
    >>> parse_images(["pixels=28x28", "photos=32x32x3"])
    {'pixels': (28, 28), 'photos': (32, 32, 3)}
    """
    shapes = {}
    for value in values:
        name, _, sides = value.rpartition("=")
        parts = sides.lower().split("x")
        if not name or len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
            raise ValueError(f"--image takes view=HEIGHTxWIDTH or view=HEIGHTxWIDTHxCHANNELS. Got {value!r}.")
        shapes[name] = tuple(map(int, parts))
    return shapes or None


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the result of a fit."""
    from rich.table import Table

    sizes = found["sizes"]
    span = f"{min(sizes):,} to {max(sizes):,} rows" if min(sizes) < max(sizes) else numbered(max(sizes), "row")
    console.print(
        f"[bold]{numbered(found['rows'], 'row')}, {numbered(found['clusters'], 'cluster')}[/bold] of {span}, "
        f"{found['seconds']:.1f} s"
    )
    lacking = any(view["rows"] < found["rows"] for view in found["views"].values())
    table = Table("view", *["rows"] * lacking, "columns", "weight", "agreement", "prepared as")
    for name, view in found["views"].items():
        sizes = [f"{view['rows']:,}"] * lacking + [f"{view['columns']:,}"]
        table.add_row(
            cell(name), *sizes, f"{view['weight']:.2f}", f"{view['agreement']:.2f}", cell(view["preparation"])
        )
    console.print(table)
    show_choice(console, found)
    show_rest(console, found)


def show_choice(console: Console, found: dict[str, Any]) -> None:
    """Print the chosen basis, the agreement of all candidates, and the stability of the clusters."""
    weighed = [
        f"{line['name']}{' on shared directions' if line['preparation'] == 'shared' else ''} {line['agreement']:.3f}"
        for line in found["candidates"] or ()
    ]
    chosen = f"basis: {found['basis']}" + (f" (views' agreement: {', '.join(weighed)})" if weighed else "")
    console.print(cell(chosen if found["stability"] is None else f"{chosen}, stability {found['stability']:.2f}"))


def show_rest(console: Console, found: dict[str, Any]) -> None:
    """Print the changes since an older fit, the scores against known labels, and the files that were written."""
    for change in found.get("changes", ()):
        console.print(change)
    if found.get("scores") is not None:
        console.print(", ".join(f"{name} {value:.3f}" for name, value in found["scores"].items()))
    for what, path in found["files"].items():
        console.print(f"{what}: {cell(path)}", soft_wrap=True)
