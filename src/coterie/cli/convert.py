"""``coterie convert``: tables from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.session import Voice, cell
from coterie.cli.tables import check_outputs, open_files, read_target

if TYPE_CHECKING:
    from rich.console import Console

Out = Annotated[
    Path, typer.Argument(metavar="OUT", help="The file to write; its extension chooses the format.", show_default=False)
]
Dense = Annotated[bool, typer.Option("--dense", help="Write sparse tables as dense ones.", rich_help_panel=opt.FILES)]


def convert(
    ctx: typer.Context,
    views: opt.ViewFiles,
    out: Out,
    target: opt.TargetFile = None,
    id_column: opt.IdColumn = None,
    header: opt.Header = None,
    numeric_only: opt.NumericOnly = False,
    dense: Dense = False,
    overwrite: opt.Overwrite = False,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Write views to a file of another format, block by block.

    One table may become .npy, .npz, .csv, .tsv, .parquet, .feather, .arrow, .json, .jsonl or .h5; several become one
    .npz or .h5, their rows matched. Sparse tables stay sparse in .npz and .h5.

    Examples:

    * `coterie convert hog.parquet hog.npy`

    * `coterie convert cells.h5mu::rna[0:5] rna.csv`

    * `coterie convert pixels.npy hog.parquet text.npz digits.h5 --target y.npy`
    """
    from coterie.formats import write_views

    voice = Voice.of(ctx)
    opened = open_files(views, id_column, header, numeric_only)
    known = read_target(target, id_column, opened, header)
    check_outputs([], [out], [*opened.sources, target], overwrite=overwrite)
    for name, table in opened.matched.items():
        if opened.files[name].is_sparse and not table.is_sparse and not dense:
            raise ValueError(
                f"View {name!r} is sparse and lacks rows that others have; only a dense table can say so. Pass --dense."
            )
    if opened.ids is not None and (
        out.suffix.lower() == ".npy" or (out.suffix.lower() == ".npz" and len(opened.files) > 1)
    ):
        voice.note(f"{out} has no place for row ids; they are left out.")
    with voice.steps(f"writing {out}", opened.n_rows) as step:
        write_views(
            out,
            opened.matched,
            ids=opened.ids,
            target=known,
            dense=dense,
            tell=lambda rows: step(rows, f"writing {out}"),
        )
    found = {"command": "convert", "rows": opened.n_rows, "views": opened.facts(), "files": {"out": str(out)}}
    voice.result(found, lambda console: show(console, found))


def show(console: Console, found: dict[str, Any]) -> None:
    """Print what was written."""
    views = ", ".join(f"{name} ({view['columns']:,} columns)" for name, view in found["views"].items())
    console.print(cell(f"{found['files']['out']}: {found['rows']:,} rows of {views}"), soft_wrap=True)
