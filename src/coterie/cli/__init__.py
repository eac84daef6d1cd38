"""The ``coterie`` command: arguments in, files and reports out; no logic of its own."""

from __future__ import annotations

import typer

from coterie.cli import bench, compare, convert, demo, describe, fit, predict, suggest
from coterie.cli.session import Commands

app = typer.Typer(
    name="coterie",
    cls=Commands,
    help="Cluster rows that are seen through several views.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=True,
)
app.command("fit")(fit.fit)
app.command("predict")(predict.predict)
app.command("suggest-k")(suggest.suggest)
app.command("describe")(describe.describe)
app.command("compare")(compare.compare)
app.command("convert")(convert.convert)
app.command("demo")(demo.demo)
app.add_typer(bench.app, name="bench")


@app.callback()
def options(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    """Cluster rows that are seen through several views."""
    if version:
        from coterie import __version__

        typer.echo(f"coterie {__version__}")
        raise typer.Exit()


def main() -> None:
    """Run the command line."""
    app()
