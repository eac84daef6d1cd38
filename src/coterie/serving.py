"""Prediction from model files: in processes that start fast, and in Ray Data's and Spark's functions over batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from coterie.arrays import to_host, unmasked
from coterie.formats.columns import matching_names
from coterie.formats.stores import file_version
from coterie.kernels.cpu import few_rows
from coterie.model import Fitted
from coterie.model_file import read_model
from coterie.placement import BlockPlan, as_given
from coterie.storage.container import naming_file, refuse_file
from coterie.storage.encoding import conforms
from coterie.threads import count_threads
from coterie.views import Shape, Views
from coterie.views.cells import CellTable
from coterie.views.columns import in_short
from coterie.views.frames import column_names, is_frame, listed_values, take_columns

__all__ = ["BatchPredictor", "Predictor"]

RESULTS = {"label": "int", "confidence": "float", "novelty": "float"}  # and their types in Spark

_MODELS: dict[tuple[str, tuple[int, ...]], Predictor] = {}  # of this process, by file and its version
_LOADING = Lock()


class Predictor:
    """Labels rows by a model file; it is ready several times sooner than the estimator from ``coterie.load``.

    It is no estimator, so it does without scikit-learn, which takes longest to import. It also does without numba, as
    long as every call has at most 64 rows and nothing else has imported it. Without numba, sums are rounded
    differently: results are those of the loaded model up to the last digits of a float32, and labels are the same
    unless a row is that close to a tie between two clusters.

    Parameters
    ----------
    path : path
        A file that :func:`coterie.save` or ``coterie fit --model`` wrote.
    n_jobs : int, default=1
        Threads.

    Examples
    --------
    >>> import tempfile
    >>> import coterie
    >>> from coterie.datasets import make_views
    >>> views = make_views(300, 3, random_state=0).views
    >>> model = coterie.GuidedCoTraining(3, random_state=0).fit(views)
    >>> predictor = Predictor(coterie.save(model, tempfile.mkdtemp() + "/model.coterie"))
    >>> bool((predictor.predict(views) == model.labels_).all())
    True
    """

    def __init__(self, path: str | PathLike[str], *, n_jobs: int = 1) -> None:
        saved = read_model(path)
        with naming_file(path):
            self.device, self.id_column, self.block_size = parameters_of_rows(saved.parameters)
        self.fitted = saved.fitted
        self.n_jobs = n_jobs

    def predict(self, X: Any) -> Any:
        """Return the clusters of rows, -1 for rows that lack every view; X is as in ``GuidedCoTraining.predict``."""
        return self._apply(Fitted.predict, X)  # (n,)

    def confidence(self, X: Any) -> Any:
        """Return how much nearer each row is to its own cluster than to the next."""
        return self._apply(Fitted.confidence_of, X)  # (n,)

    def novelty(self, X: Any) -> Any:
        """Return how different each row is from all rows of the fit, between 0 and 1."""
        return self._apply(Fitted.novelty_of, X)  # (n,)

    def transform(self, X: Any) -> Any:
        """Return the rows' embedding."""
        return self._apply(Fitted.transform, X)  # (n, c)

    def _apply(self, function: Callable[[Fitted, Views, BlockPlan], Any], X: Any) -> Any:
        views, plan = (
            self.fitted.read(X, self.device, self.id_column),
            BlockPlan(self.block_size, count_threads(self.n_jobs)),
        )
        with few_rows(views.n_rows):
            return as_given(function(self.fitted, views, plan), X)


def parameters_of_rows(parameters: Mapping[str, Any]) -> tuple[str, str | int | None, int | None]:
    """Return the parameters of a file that new rows need: the device, the column of ids, and the size of blocks."""
    given: list[Any] = [parameters.get(name) for name in ("device", "id_column", "block_size")]
    device, id_column, size = given
    if not isinstance(device, str):
        refuse_file("its device has no name")
    if not conforms(id_column, str | int | None) or not conforms(size, int | None) or (size is not None and size < 1):
        refuse_file("its parameters are not possible")
    return device, id_column, size


class BatchPredictor:
    """Labels batches of rows by a model file, which every process loads once.

    It is picklable, and small: workers get the path. Calling it with a batch returns a batch of the same kind, as Ray
    Data requires of a callable class; `each` takes an iterator of batches, which is what Spark passes.

    Parameters
    ----------
    model : path
        A file that :func:`coterie.save` or ``coterie fit --model`` wrote, where all workers can read it.
    views : dict of str or list of str, default=None
        The columns of each view, as names or patterns ("t*"). None takes the names that the columns had in the fit; for
        a model that was fitted on arrays, ``views`` is required.
    keep : list of str, default=()
        Columns that are passed through, such as ids.
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
        taken = next((name for name in keep if name in results), None)
        if taken is not None:
            raise ValueError(f"keep names column {taken!r}, and a result is called so. Rename the column in the batch.")
        self.model = str(model)
        self.views = None if views is None else dict(views)
        self.keep = tuple(keep)
        self.results = tuple(results)
        self.n_jobs = n_jobs

    def __call__(self, batch: Any) -> Any:
        """Return the kept columns and the results of a batch, as a batch of the same kind.

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
        n_rows = len(next(iter(batch.values()), ())) if isinstance(batch, Mapping) else len(batch)
        found = self._label(batch, columns) if n_rows else {name: np.empty(0) for name in self.results}
        types = {"label": np.int32}
        found = {name: found[name].astype(types.get(name, np.float32), copy=False) for name in self.results}
        return like_batch(batch, self.keep, found)

    def each(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the results of every batch; this is the function for Spark's mapInPandas and mapInArrow."""
        for batch in batches:
            yield self(batch)

    def schema(self, frame: Any) -> str:
        """Return the schema of the output, which Spark's mapInPandas and mapInArrow require."""
        types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        named = {**{name: types[name] for name in self.keep}, **{name: RESULTS[name] for name in self.results}}
        return ", ".join(f"`{name}` {kind}" for name, kind in named.items())

    def _label(self, batch: Any, columns: Sequence[str]) -> dict[str, np.ndarray]:
        model = shared_model(self.model)
        views = {name: take(batch, chosen) for name, chosen in self._columns_of_views(model.fitted, columns).items()}
        if "novelty" in self.results and model.fitted.novelty_scale is None:
            raise ValueError(
                f"{self.model} was written by an older version of Coterie, which had no novelty. Fit again."
            )
        rows, plan = model.fitted.read(views, model.device), BlockPlan(model.block_size, count_threads(self.n_jobs))
        with few_rows(rows.n_rows):
            parts = list(model.fitted.stream(rows, plan))
        names = {"label": "labels", "confidence": "confidence", "novelty": "novelty"}
        return {
            name: np.concatenate([to_host(getattr(part, names[name])) for part in parts]) for name in self.results
        }  # (b,) each

    def _columns_of_views(self, fitted: Fitted, columns: Sequence[str]) -> dict[str, list[str]]:
        """Return a batch's columns by view; views of which the batch has none are left out."""
        shapes = dict(zip(fitted.view_names, fitted.shapes, strict=True))
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
    """Return the columns that each view had in the fit, by name; a list column "embedding" holds "embedding[0]" etc."""
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


def shared_model(path: str) -> Predictor:
    """Return the model of a file, loaded once per process, and again when the file has changed."""
    key = (path, file_version(Path(path).stat()))
    with _LOADING:
        if key not in _MODELS:
            for old in [known for known in _MODELS if known[0] == path]:
                del _MODELS[old]
            _MODELS[key] = Predictor(path)
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
    """Return some columns of a batch as a view, with the columns' names: they are matched with those of the fit."""
    if not isinstance(batch, Mapping):
        return take_columns(as_table(batch), names)
    parts = [numbers_of(name, np.asarray(unmasked(batch[name]))) for name in names]
    columns = [own for name, part in zip(names, parts, strict=True) for own in names_of_columns(name, part)]
    return CellTable(np.column_stack(parts), None, tuple(columns))  # (b, d)


def names_of_columns(name: str, part: np.ndarray) -> list[str]:
    """Return the names of a column of numbers, or of the columns that a column of lists becomes."""
    return [name] if part.ndim == 1 else [f"{name}[{j}]" for j in range(part.shape[1])]


def numbers_of(name: str, column: np.ndarray) -> np.ndarray:
    """Return a column of numbers (b,), or of lists of them (b, width)."""
    if column.dtype != object:
        return column
    found = listed_values("The batch", name, column)
    if found is None:
        raise ValueError(f"The batch holds values that are not numbers in column {name!r}. Leave it out of views=.")
    return found


def like_batch(batch: Any, keep: Sequence[str], found: Mapping[str, np.ndarray]) -> Any:
    """Return kept columns of a batch with its results, as a batch of the same kind."""
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

        # Not by with_columns: a frame without columns has no rows.
        return polars.DataFrame([*batch.select(list(keep)), *(polars.Series(*result) for result in found.items())])
    return take_columns(batch, keep).assign(**found)
