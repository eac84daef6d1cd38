"""``coterie drift``: a model and new rows in; whether the new rows still resemble those of the fit."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.predict import ModelArgument, named_views, open_new_rows
from coterie.cli.session import Voice, cell, numbered

if TYPE_CHECKING:
    from rich.console import Console

LOOK_AT_IT = 3  # the exit code

Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        help="How far shares may differ (that of novel rows by half of it), besides what chance explains.",
        min=0.0,
        max=1.0,
    ),
]


def drift(
    ctx: typer.Context,
    model: ModelArgument,
    views: opt.ViewFiles,
    tolerance: Tolerance = 0.1,
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
    """Compare a batch of rows with the rows of the fit.

    Compares the rows' novelty (how unlike all rows of the fit they are), the clusters' shares of the rows, and the
    shares of rows with missing views. The exit code is 3 if something should be looked at, and 0 if not.

    Examples:

    * `coterie drift digits.coterie new_*.npy`

    * `coterie drift digits.coterie pixels=more.npy --tolerance 0.05 --json`
    """
    voice = Voice.of(ctx)
    estimator, files = open_new_rows(ctx.params)
    if not files:
        raise ValueError("The files have no rows, so there is nothing to compare.")
    from coterie.drift import measure_drift

    opened = named_views(files, estimator.view_names_, voice)
    with voice.bar(f"comparing {opened.n_rows:,} rows"):
        measured = measure_drift(estimator, opened.tables, tolerance=tolerance)
    found: dict[str, Any] = {"command": "drift", "model": str(model), "views": opened.facts(), **asdict(measured)}
    found["drifted"] = bool(measured.alarms)
    voice.result(found, lambda console: show(console, found, tolerance))
    if measured.alarms:
        raise typer.Exit(LOOK_AT_IT)


def show(console: Console, found: dict[str, Any], tolerance: float) -> None:
    """Print how a batch differs from the fit."""
    console.print(
        f"[bold]{numbered(found['n_rows'], 'row')}[/bold]: {found['novel']:.1%} novel (5.0% expected), "
        f"the clusters' shares differ by {found['share_shift']:.1%}"
    )
    for name, share in found["lacking"].items():
        if share or found["fitted_lacking"][name]:
            console.print(cell(f"without {name}: {share:.1%} ({found['fitted_lacking'][name]:.1%} in the fit)"))
    for alarm in found["alarms"]:
        console.print(f"[bold]look at it:[/bold] {cell(alarm)}", soft_wrap=True)
    if not found["alarms"]:
        console.print(verdict(found["novel"], found["n_rows"], tolerance), soft_wrap=True)


def verdict(novel: float, n_rows: int, tolerance: float) -> str:
    """Return what to think of a batch without alarms, which may hold more novel rows than chance explains."""
    from coterie.drift import NOVEL, chance

    if novel <= 1 - NOVEL + chance(1 - NOVEL, n_rows):
        return "as in the fit"
    return (
        f"within the tolerance of {tolerance:g}, but more rows are novel than chance explains: they may be of a new "
        f"kind. Look at those with a novelty above {NOVEL} (coterie predict --novelty), or lower --tolerance."
    )
