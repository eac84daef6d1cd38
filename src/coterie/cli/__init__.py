"""The ``coterie`` command: arguments in, files and reports out; no logic of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie.cli import compare, convert, demo, describe, drift, fit, predict, report, suggest
from coterie.cli.pipes import watched_output
from coterie.cli.session import Commands

app = typer.Typer(
    name="coterie",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=True,
)
app.command("fit")(fit.fit)
app.command("predict")(predict.predict)
app.command("drift")(drift.drift)
app.command("suggest-k")(suggest.suggest)
app.command("describe")(describe.describe)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("convert")(convert.convert)
app.command("demo")(demo.demo)


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        from coterie import __version__

        typer.echo(f"coterie {__version__}")
        raise typer.Exit()


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=show_version)
    ] = False,
) -> None:
    """Cluster rows that are seen through several views.

    Files go in; labels, a model and a report come out:

    * `coterie fit pixels.npy hog.parquet -k 10 --labels out.csv --model digits.coterie`

    * `coterie predict digits.coterie new_*.npy --labels new.csv`

    * `coterie report digits.coterie pixels.npy hog.parquet -o digits.html`

    * `coterie demo` needs no files at all.

    Exit codes: 0 is success, 1 an internal error of Coterie, 2 bad input or usage, 3 drift that should be looked at,
    130 Ctrl-C, and 141 a closed output pipe.
    """


def main() -> None:
    """Run the command line."""
    with watched_output():
        app()
