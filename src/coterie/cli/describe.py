"""``coterie describe``: the metadata of a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.fit import chosen_basis, show_choice
from coterie.cli.pipes import check_open
from coterie.cli.predict import ModelArgument
from coterie.cli.session import Voice, cell, in_json
from coterie.cli.start import import_estimator, quick_imports

if TYPE_CHECKING:
    from rich.console import Console

Toml = Annotated[
    bool,
    typer.Option("--toml", help="The options of the fit, for `coterie fit --config`.", rich_help_panel=opt.SHOWN),
]


def describe(
    ctx: typer.Context,
    model: ModelArgument,
    toml: Toml = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Show what is in a model file: views, parameters, versions and how it was made.

    Only the file's header is read, and nothing in it is executed.

    Examples:

    * `coterie describe digits.coterie`

    * `coterie describe digits.coterie --toml` prints the options, with which `coterie fit --config` repeats the fit.
    """
    with quick_imports():
        import_estimator()
        from coterie.saving import describe_file

    found = {"command": "describe", "model": str(model), **describe_file(model)}
    found["basis"] = chosen_basis(found["candidates"], str(found["parameters"].get("basis", "auto")))
    if toml:
        check_open()
        typer.echo(as_config(found), nl=False)
    else:
        Voice.of(ctx).result(found, lambda console: show(console, found))


def as_config(found: dict[str, Any]) -> str:
    """Return the options with which a model was fitted, as a TOML file."""
    options = (found["notes"] or {}).get("config")
    if not isinstance(options, dict):
        raise ValueError(f"{found['model']} does not say how it was made: it was not written by coterie fit.")
    return opt.as_toml(options)


def show(console: Console, found: dict[str, Any]) -> None:
    """Print what is in a model file."""
    from rich.table import Table

    console.print(
        f"[bold]{found['n_clusters']} clusters of {found['n_rows']:,} rows[/bold], {found['n_landmarks']:,} landmarks, "
        f"{found['file_bytes'] / 1e6:.1f} MB"
    )
    console.print(cell(f"written by Coterie {found['coterie']} on {found['saved']}"))
    console.print(cell(", ".join(f"{name} {version}" for name, version in found["libraries"].items())))
    table = Table("view", "columns", "names", "prepared as")
    for view in found["views"]:
        names = view["columns"] or []
        shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
        table.add_row(cell(view["name"]), f"{view['n_columns']:,}", cell(shown) or "-", cell(view["preparation"]))
    console.print(table)
    show_choice(console, found)
    console.print("parameters: " + cell(", ".join(f"{name}={value!r}" for name, value in found["parameters"].items())))
    if found["notes"]:
        show_notes(console, found["notes"], str(found["model"]))


def show_notes(console: Console, notes: dict[str, Any], model: str) -> None:
    """Print the command that made a model; notes without such a command are printed as JSON."""
    config = notes.get("config")
    files = config.get("views") if isinstance(config, dict) else None
    if isinstance(files, list):
        made = f"made by coterie fit {' '.join(map(str, files))}; coterie describe {model} --toml has all options"
    else:
        made = f"notes: {in_json(notes)}"
    console.print(cell(made), soft_wrap=True)
