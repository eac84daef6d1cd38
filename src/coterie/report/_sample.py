"""The sample of rows that a report reads; its size does not grow with the number of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from coterie.arrays import to_host
from coterie.method.assignment import assign
from coterie.model import Fitted, fitted_of, row_ids_of
from coterie.threads import count_threads, in_order, one_thread_per_block
from coterie.views import View, Views, check_columns

LEAST_PER_CLUSTER = 12  # at least this many rows of every cluster are sampled, or all of a smaller one
SAME_ROWS = 0.95  # least share of sampled rows whose predicted label must equal that of the fit
TILE = 512


@dataclass(frozen=True)
class Outcome:
    """Labels, confidence, embedding and ids of all rows of the fit, in host memory."""

    labels: np.ndarray  # (n,)
    confidence: np.ndarray  # (n,)
    embedding: np.ndarray | None  # (n, c), where the fit kept it
    ids: np.ndarray | None  # (n,), where rows have some

    @classmethod
    def of(cls, model: Any, X: Any = None) -> Outcome:
        """Return a model's outcome; a model that was saved without its rows predicts X again."""
        check_is_fitted(model, "timings_")  # every complete fit sets it
        if hasattr(model, "labels_"):
            known = to_host((model.labels_, model.confidence_, getattr(model, "embedding_", None)))
            return cls(*known, getattr(model, "row_ids_", None))
        if X is None:
            raise ValueError(
                "This model was loaded from a file without rows, so it has no labels_. "
                "Pass X, the rows of the fit, or save the model with rows=True."
            )
        parts = [to_host((part.labels, part.confidence)) for part in model.stream(X)]  # one pass over the rows
        labels, confidence = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls(labels, confidence, None, row_ids_of(model, X))


@dataclass(frozen=True)
class Sample:
    """A sample of the rows of the fit, with the model's results for them."""

    rows: np.ndarray  # (s,) row numbers, ascending
    labels: np.ndarray  # (s,)
    confidence: np.ndarray  # (s,)
    drawn: np.ndarray  # (s,) bool: drawn at random within its cluster; False for rows added by number
    uniform: np.ndarray  # (s,) bool: drawn from all rows with equal probability, and so used for shares of all rows
    views: Views | None = None  # these rows alone, in host memory; None without X
    present: np.ndarray | None = None  # (V,) share of all rows that have each view
    embedding: np.ndarray | None = None  # (s, c)
    opinions: np.ndarray | None = None  # (s, V): the cluster that each view alone supports

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the positions in the sample of the given row numbers, which it must contain."""
        return np.searchsorted(self.rows, rows)


def take_sample(model: Any, outcome: Outcome, X: Any, size: int, seed: int, wanted: Any = ()) -> Sample:
    """Return a random sample and the ``wanted`` rows; with X, which is read once, also their values and embedding."""
    drawn, uniform = draw_rows(outcome.labels, model.n_clusters_, size, seed)
    rows = np.union1d(drawn, np.asarray(wanted, dtype=drawn.dtype))
    known = outcome.labels[rows], outcome.confidence[rows]
    kept = Sample(rows, *known, np.isin(rows, drawn), np.isin(rows, drawn[uniform]))
    if X is None:
        return replace(kept, embedding=None if outcome.embedding is None else outcome.embedding[rows])
    fitted = fitted_of(model)
    whole = fitted.matched(X, model.id_column)
    check_columns(whole, fitted.shapes)
    if whole.n_rows != len(outcome.labels):
        raise ValueError(
            f"X has {whole.n_rows} rows, but the model was fitted on {len(outcome.labels)}. "
            "Pass the rows of the fit, in their order."
        )
    check_order(outcome.ids, whole.ids)
    views = in_memory(whole, rows, count_threads(model.n_jobs))
    embedding, opinions = explain_all(fitted, views, count_threads(model.n_jobs))
    same = float(np.mean(assign(embedding, model.cluster_centers_).labels == kept.labels))
    if same < SAME_ROWS:
        raise ValueError(
            f"X does not hold the rows of the fit: only {same:.0%} of those looked at get their label again. "
            "Pass the rows of the fit, in their order."
        )
    present = np.array([share_present(*pair, kept.uniform) for pair in zip(whole, views, strict=True)])  # (V,)
    return replace(kept, views=views, present=present, embedding=embedding, opinions=opinions)


def check_order(own: np.ndarray | None, ids: np.ndarray | None) -> None:
    """Raise ValueError if rows have the ids of the fit in another order; ids of which the fit has none say nothing."""
    if own is None or ids is None or np.array_equal(own, ids):
        return
    numbers = {row: number for number, row in enumerate(own.tolist())}
    for number, row in enumerate(ids.tolist()):
        if numbers.get(row, number) != number:
            raise ValueError(
                f"X has the rows of the fit in another order: its row {number} is {str(row)!r}, which is row "
                f"{numbers[row]} of the fit. Pass the rows of the fit, in their order."
            )


def in_memory(views: Views, rows: np.ndarray, n_threads: int) -> Views:
    """Return some rows as views in host memory, so that files are read only once."""
    # Views are read in parallel by threads; Dask's workers read all views of a partition together.
    taken = views.take(rows) if views.on_dask else in_order(lambda view: view.take(rows), views, n_threads)
    return Views(tuple(replace(view, data=to_host(view.data)) for view in taken))


def share_present(whole: View, sampled: View, uniform: np.ndarray) -> float:
    """Return the share of rows that have a view, estimated from the sample if only reading shows which rows lack it."""
    if whole.may_lack:
        return 1.0 if sampled.present is None else float(np.mean(sampled.present[uniform]))
    return 1.0 if whole.present is None else float(np.mean(whole.present))


def explain_all(fitted: Fitted, views: Views, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the embedding of all rows, and the cluster to which each view alone assigns them."""
    tiles = [np.arange(start, min(start + TILE, views.n_rows)) for start in range(0, views.n_rows, TILE)]
    with one_thread_per_block():
        parts = list(in_order(lambda tile: explain(fitted, views, tile), tiles, n_threads))
    embedding, opinions = (np.concatenate(part) for part in zip(*parts, strict=True))
    return embedding, opinions  # (s, c), (s, V)


def explain(fitted: Fitted, views: Views, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the embedding of some rows, and the cluster to which each view alone assigns them."""
    return fitted.explain_rows(to_host(views.read(rows)))  # (b, c), (b, V)


def draw_rows(labels: np.ndarray, n_clusters: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted row numbers, and which of them are a uniform sample of all rows.

    The others are added for clusters with fewer than LEAST_PER_CLUSTER rows in that sample.

    Examples
    --------
    >>> import numpy as np
    >>> labels = np.repeat([0, 1], [10_000, 3])
    >>> rows, uniform = draw_rows(labels, 2, 100, seed=0)
    >>> len(rows), rows[-3:], int(uniform.sum())
    (103, array([10000, 10001, 10002]), 100)
    """
    n = len(labels)
    if n <= size:
        return np.arange(n), np.ones(n, dtype=bool)
    rng = np.random.default_rng(seed)
    drawn = rng.choice(n, size, replace=False)
    chosen = np.zeros(n, dtype=bool)
    chosen[drawn] = True
    seen = np.bincount(labels[drawn], minlength=n_clusters)
    for cluster in np.flatnonzero(seen < LEAST_PER_CLUSTER):
        rest = np.flatnonzero((labels == cluster) & ~chosen)
        chosen[rng.permutation(rest)[: LEAST_PER_CLUSTER - seen[cluster]]] = True
    rows = np.flatnonzero(chosen)
    return rows, np.isin(rows, drawn)  # (s,), (s,)
