"""``coterie predict``: a model and new rows in; their labels out."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.cli import options as opt
from coterie.cli.fit import Confidence, Embedding, LabelsFile, show_rest
from coterie.cli.session import Voice, cell
from coterie.cli.start import import_estimator, quick_imports
from coterie.cli.tables import Columns, check_one_column, check_outputs, match_files, read_target, scores, stream_rows

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from coterie.method.assignment import Prediction

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that `coterie fit --model` wrote.")]


def predict(
    ctx: typer.Context,
    model: ModelArgument,
    views: opt.ViewFiles,
    labels: LabelsFile = None,
    confidence: Confidence = False,
    embedding: Embedding = None,
    target: opt.TargetFile = None,
    id_column: opt.IdColumn = None,
    header: opt.Header = None,
    config: opt.Config = None,
    device: opt.Device = None,
    jobs: opt.Jobs = None,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Give new rows the labels that they would have had in the fit.

    A file is the view whose name it has, or holds as a word: `new_pixels.npy` is `pixels`. Views may be left out.

    Examples:

    * `coterie predict digits.coterie new_*.npy --labels new.csv`

    * `coterie predict digits.coterie pixels=more.npy --labels more.parquet --confidence --embedding more.npz`
    """
    voice = Voice.of(ctx)
    with quick_imports():
        from coterie.formats import open_views

        files = open_views(list(views), id_column=id_column, header=header)
        import_estimator()
        from coterie.saving import load
    estimator = load(model)
    if device is not None:
        estimator.set_params(device=device)
    if jobs is not None:
        estimator.set_params(n_jobs=jobs)
    names = view_names(list(files), estimator.view_names_)
    for given, name in names.items():
        if given != name:
            voice.note(f"{files[given].where} is taken as view {name!r}.")
    named = {names[given]: file for given, file in files.items()}
    # Rows are in the order of the fit's first view, as the model has them; they are written as the first file has them.
    opened = match_files({name: named[name] for name in estimator.view_names_ if name in named})
    order = opened.order_of(next(iter(named)))
    check_one_column(labels, confidence)
    check_outputs([labels, embedding], [], opened.files.values())
    known = read_target(target, id_column, opened, header)
    started = time.perf_counter()
    columns: dict[Path, Columns] = {}
    if labels is not None:
        columns[labels] = with_confidence if confidence else label_alone
    if embedding is not None:
        columns[embedding] = lambda part: {"embedding": part.embedding}
    with voice.bar(f"labelling {opened.n_rows:,} rows"):
        assigned = stream_rows(estimator, opened, columns, order)  # (n,)
    seconds = time.perf_counter() - started
    found: dict[str, Any] = {
        "command": "predict",
        "model": str(model),
        "rows": opened.n_rows,
        "clusters": estimator.n_clusters_,
        "sizes": count(assigned, estimator.n_clusters_),
        "views": opened.facts(),
        "left_out": [name for name in estimator.view_names_ if name not in opened.files],
        "scores": None if known is None else scores(known, assigned),
        "seconds": seconds,
        "files": {name: str(path) for name, path in (("labels", labels), ("embedding", embedding)) if path is not None},
    }
    voice.result(found, lambda console: show(console, found))
    if not found["files"]:
        voice.note("Nothing was written. Add --labels new.csv.")


def view_names(given: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """Return which view of the model each file is: that of its name, or the only one that its name holds as a word.

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
    """Whether a name has a word in it that neither letters nor digits touch."""
    return re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", name) is not None


def label_alone(part: Prediction) -> dict[str, Any]:
    """Return the columns of a file of labels."""
    return {"label": part.labels}


def with_confidence(part: Prediction) -> dict[str, Any]:
    """Return the columns of a file of labels and how sure they are."""
    return {"label": part.labels, "confidence": part.confidence}


def count(labels: np.ndarray, n_clusters: int) -> list[int]:
    """Return the number of rows in every cluster."""
    import numpy as np

    return np.bincount(labels, minlength=n_clusters).tolist()


def show(console: Console, found: dict[str, Any]) -> None:
    """Print what was predicted."""
    sizes = found["sizes"]
    used = sum(size > 0 for size in sizes)
    console.print(
        f"[bold]{found['rows']:,} rows[/bold] in {used} of {found['clusters']} clusters, {found['seconds']:.1f} s"
    )
    if found["left_out"]:
        console.print(cell(f"without views: {', '.join(found['left_out'])}"))
    show_rest(console, found)
