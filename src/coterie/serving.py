"""A model over batches of one flat table: Ray Data's ``map_batches``, Spark's ``mapInPandas`` and ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from coterie.arrays import to_host
from coterie.estimator import GuidedCoTraining
from coterie.formats.columns import matching_names
from coterie.model import fitted_of
from coterie.placement import BlockPlan
from coterie.saving import load
from coterie.threads import count_threads
from coterie.views import Shape
from coterie.views.columns import in_short
from coterie.views.frames import column_names, is_frame, listed_values

__all__ = ["BatchPredictor"]

RESULTS = {"label": "int", "confidence": "float", "novelty": "float"}  # and their types in Spark

_MODELS: dict[tuple[str, int], GuidedCoTraining] = {}  # one for each file and its time, in every process
_LOADING = Lock()


class BatchPredictor:
    """Labels batches of rows by a model's file, which every process loads once.

    It is picklable, and small: workers get the path. Calling it with a batch returns a batch of the same kind, which is
    what Ray Data wants of a callable class; `each` takes an iterator of batches, which is what Spark gives.

    Parameters
    ----------
    model : path
        A file that :func:`coterie.save` or ``coterie fit --model`` wrote, where all workers can read it.
    views : dict of str or list of str, default=None
        The columns of each view, as names or patterns ("t*"). None takes the names that the columns had in the fit; of
        a model that was fitted on arrays it is needed.
    keep : list of str, default=()
        Columns that are handed on, such as ids.
    results : list of str, default=("label", "confidence")
        What to add: "label", "confidence" and "novelty".
    n_jobs : int, default=1
        Threads. Ray and Spark run several batches side by side.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import coterie
    >>> from coterie.datasets import make_views
    >>> text, image, _ = (pd.DataFrame(view) for view in make_views(300, 3, random_state=0).views.values())
    >>> rows = text.add_prefix("t").join(image.add_prefix("i")).assign(id=range(300))
    >>> model = coterie.GuidedCoTraining(3, views={"text": "t*", "image": "i*"}, random_state=0).fit(rows)
    >>> path = coterie.save(model, tempfile.mkdtemp() + "/model.coterie")
    >>> predictor = BatchPredictor(path, keep=["id"])
    >>> predictor(rows[:100]).columns.tolist()
    ['id', 'label', 'confidence']
    >>> bool((predictor(rows)["label"] == model.labels_).all())
    True

    With Ray Data, ``dataset.map_batches(BatchPredictor, fn_constructor_args=[path], concurrency=4)``; with Spark,
    ``frame.mapInPandas(predictor.each, predictor.schema(frame))``, or ``mapInArrow``.
    """

    def __init__(
        self,
        model: str | PathLike[str],
        *,
        views: Mapping[str, str | Sequence[str]] | None = None,
        keep: Sequence[str] = (),
        results: Sequence[str] = ("label", "confidence"),
        n_jobs: int = 1,
    ) -> None:
        unknown = [name for name in results if name not in RESULTS]
        if unknown or not results:
            raise ValueError(
                f"The 'results' parameter of BatchPredictor must be some of {', '.join(RESULTS)}. "
                f"Got {list(results)!r} instead."
            )
        self.model = str(model)
        self.views = None if views is None else dict(views)
        self.keep = tuple(keep)
        self.results = tuple(results)
        self.n_jobs = n_jobs

    def __call__(self, batch: Any) -> Any:
        """Return the kept columns and the results of a batch, as the kind of batch that came.

        Parameters
        ----------
        batch : dict of ndarray, pandas or polars frame, Arrow table or record batch

        Returns
        -------
        the same kind
        """
        columns = names_in(batch)
        lacking = [name for name in self.keep if name not in columns]
        if lacking:
            raise ValueError(f"keep names column {lacking[0]!r}, which the batch does not have: {in_short(columns)}.")
        n_rows = len(batch[columns[0]]) if isinstance(batch, Mapping) else len(batch)
        found = self._label(batch, columns) if n_rows else {name: np.empty(0) for name in self.results}
        types = {"label": np.int32}
        found = {name: found[name].astype(types.get(name, np.float32), copy=False) for name in self.results}
        return like_batch(batch, self.keep, found)

    def each(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of every batch: Spark's mapInPandas and mapInArrow take this."""
        for batch in batches:
            yield self(batch)

    def schema(self, frame: Any) -> str:
        """Return the columns that come out, as Spark's mapInPandas and mapInArrow want to be told."""
        types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        named = {**{name: types[name] for name in self.keep}, **{name: RESULTS[name] for name in self.results}}
        return ", ".join(f"`{name}` {kind}" for name, kind in named.items())

    def _label(self, batch: Any, columns: Sequence[str]) -> dict[str, np.ndarray]:
        model = shared_model(self.model)
        fitted = fitted_of(model)
        views = {name: take(batch, chosen) for name, chosen in self._columns_of_views(model, columns).items()}
        if "novelty" in self.results and fitted.novelty_scale is None:
            raise ValueError(
                f"{self.model} was written by an older version of Coterie, which knew no novelty. Fit again."
            )
        plan = BlockPlan(model.block_size, count_threads(self.n_jobs))
        parts = list(fitted.stream(fitted.read(views, model.device), plan))
        names = {"label": "labels", "confidence": "confidence", "novelty": "novelty"}
        return {
            name: np.concatenate([to_host(getattr(part, names[name])) for part in parts]) for name in self.results
        }  # (b,) each

    def _columns_of_views(self, model: GuidedCoTraining, columns: Sequence[str]) -> dict[str, list[str]]:
        """Return which columns of a batch are each view; views of which a batch has none are left out."""
        shapes = dict(zip(model.view_names_, fitted_of(model).shapes, strict=True))
        if self.views is None:
            return known_columns(shapes, columns, self.model)
        unknown = [name for name in self.views if name not in shapes]
        if unknown:
            raise ValueError(f"views names {unknown[0]!r}, but the model's views are {', '.join(shapes)}.")
        return {name: chosen_columns(name, wanted, columns, shapes[name]) for name, wanted in self.views.items()}


def chosen_columns(view: str, wanted: str | Sequence[str], columns: Sequence[str], shape: Shape) -> list[str]:
    """Return the columns of a batch that names or patterns choose, in the order of the fit where it had their names."""
    choices = [wanted] if isinstance(wanted, str) else list(wanted)
    matched = [[choice] if choice in columns else matching_names(choice, columns) for choice in choices]
    found = list(dict.fromkeys(name for names in matched for name in names))
    if not found:
        raise ValueError(f"views[{view!r}]: {wanted!r} is no column of the batch: {in_short(columns)}.")
    return list(shape.columns) if shape.columns and set(shape.columns) <= set(found) else found


def known_columns(shapes: Mapping[str, Shape], columns: Sequence[str], where: str) -> dict[str, list[str]]:
    """Return the columns that each view had in the fit, by name; "embedding[0]" and so on are the list "embedding"."""
    found: dict[str, list[str]] = {}
    owners: dict[str, str] = {}
    for view, shape in shapes.items():
        if shape.columns is None:
            raise ValueError(f"{where} was fitted on arrays without column names. Pass views={{{view!r}: [...], ...}}.")
        names = [name if name in columns else name.partition("[")[0] for name in shape.columns]
        chosen = [name for name in dict.fromkeys(names) if name in columns]
        twice = next((name for name in chosen if name in owners), None)
        if twice is not None:
            raise ValueError(
                f"Column {twice!r} is of views {owners[twice]!r} and {view!r}. Pass views= with the columns of each."
            )
        owners |= dict.fromkeys(chosen, view)
        if chosen:
            found[view] = chosen
    if not found:
        raise ValueError(f"The batch has none of the model's columns: {in_short(columns)}. Pass views=.")
    return found


def shared_model(path: str) -> GuidedCoTraining:
    """Return the model of a file, loaded once in a process, and again when the file is another."""
    key = (path, Path(path).stat().st_mtime_ns)
    with _LOADING:
        if key not in _MODELS:
            for old in [known for known in _MODELS if known[0] == path]:
                del _MODELS[old]
            _MODELS[key] = load(path)
        return _MODELS[key]


# -- batches --------------------------------------------------------------------------------------------------------


def names_in(batch: Any) -> list[str]:
    """Return the names of a batch's columns."""
    if isinstance(batch, Mapping):
        return [str(name) for name in batch]
    if is_frame(batch):
        names = column_names(as_table(batch))
        if names is not None:
            return names
    raise TypeError(
        "A batch must be a dict of arrays, a pandas or polars frame, or an Arrow table or record batch. "
        f"Got a {type(batch).__name__} instead."
    )


def as_table(batch: Any) -> Any:
    """Return an Arrow record batch as a table, and other batches as they are."""
    if type(batch).__name__ != "RecordBatch":
        return batch
    import pyarrow

    return pyarrow.Table.from_batches([batch])


def take(batch: Any, names: list[str]) -> Any:
    """Return some columns of a batch as a view."""
    if not isinstance(batch, Mapping):
        table = as_table(batch)
        return table.select(names) if hasattr(table, "select") and not hasattr(table, "iloc") else table[names]
    return np.column_stack([numbers_of(name, np.asarray(batch[name])) for name in names])  # (b, d)


def numbers_of(name: str, column: np.ndarray) -> np.ndarray:
    """Return a column of numbers (b,), or of lists of them (b, width)."""
    if column.dtype != object:
        return column
    found = listed_values("The batch", name, column)
    if found is None:
        raise ValueError(f"The batch holds values that are not numbers in column {name!r}. Leave it out of views=.")
    return found


def like_batch(batch: Any, keep: Sequence[str], found: Mapping[str, np.ndarray]) -> Any:
    """Return columns of a batch and results beside them, in the batch's kind."""
    if isinstance(batch, Mapping):
        return {**{name: batch[name] for name in keep}, **found}
    library = type(batch).__module__.split(".")[0]
    if library == "pyarrow":
        import pyarrow

        kept = {name: batch.column(name) for name in keep}
        made = {name: pyarrow.array(values) for name, values in found.items()}
        return type(batch).from_pydict({**kept, **made})
    if library == "polars":
        import polars

        return batch.select(list(keep)).with_columns([polars.Series(name, values) for name, values in found.items()])
    return batch[list(keep)].assign(**found)
