"""A fitted model as plain data: numbers, text and lists, the same that the page is made from."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie import __version__
from coterie.arrays import to_host
from coterie.method.selection import relative_gaps
from coterie.metrics import accuracy_of, ari_of, nmi_of, purity_of
from coterie.model import fitted_of
from coterie.report._colours import PALETTE
from coterie.report._layout import flat_map
from coterie.report._portraits import (
    MOST_CLUSTERS,
    Camera,
    Looks,
    Typical,
    atlas,
    check_looks,
    describe_columns,
    describe_words,
    keep_strongest,
    thumbnails,
    tidy,
    typical_rows,
)
from coterie.report._sample import Outcome, Sample, read_rows, take_sample
from coterie.report._text import shown
from coterie.validation import check_int

VERSION = 1  # of the schema: docs/report.md

MOST_SAMPLED = 10_000
MOST_COLUMNS = 12
MOST_LEVELS = 200  # of a column of names; rarer ones are pooled
MOST_CLASSES = 60  # that the confusion matrix shows
FEW_NUMBERS = 12  # a column of so many different whole numbers is one of names
DISPUTED_ROWS = 24
CONFIDENCE_BINS = 10
NEEDS_ROWS = "Pass X, the rows of the fit, to see this."


def describe(
    model: Any,
    X: Any = None,
    *,
    target: Any = None,
    ids: Any = None,
    columns: Any = None,
    images: Mapping[str, Sequence[int]] | None = None,
    words: Mapping[str, Any] | None = None,
    title: str | None = None,
    options: Mapping[str, Any] | None = None,
    sample: int = 4000,
    random_state: int = 0,
) -> dict[str, Any]:
    """Return what a fit found as plain data, which is also what the report shows.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    X : like in ``fit``, default=None
        The rows of the fit, in their order; only a sample of them is read. Without it, what needs rows is left out.
    target : array-like of shape (n,), default=None
        Known labels to compare with; None and NaN are rows without one.
    ids : array-like of shape (n,), default=None
        The rows' names; None takes those of the fit, or row numbers.
    columns : dict or frame, default=None
        Up to 12 columns of n values, numbers or names, to colour the map by.
    images : dict, default=None
        Views that are images, with their (height, width) or (height, width, channels).
    words : dict, default=None
        Views that are words, with the word of every column: a list, or a dict from words to column numbers.
    title : str, default=None
        Heading of the report.
    options : dict, default=None
        How the fit was started, such as the options of a command; shown with the settings.
    sample : int, default=4000
        Rows to look at, at most 10,000; a few more where clusters are small.
    random_state : int, default=0
        Seed of the sample and of the map.

    Returns
    -------
    dict
        JSON-ready, with ``version``; described in the manual's page on the report.

    Examples
    --------
    >>> from coterie import GuidedCoTraining
    >>> from coterie.datasets import make_views
    >>> data = make_views(300, n_clusters=3, separation=6, random_state=0)
    >>> model = GuidedCoTraining(3, random_state=0).fit(data.views)
    >>> found = describe(model, data.views, target=data.target)
    >>> [cluster["size"] for cluster in found["clusters"]] == np.bincount(model.labels_).tolist()
    True
    >>> found["truth"]["accuracy"]
    1.0
    """
    check_int("describe", "sample", sample, low=1)
    if sample > MOST_SAMPLED:
        raise ValueError(f"The 'sample' parameter of describe must be at most {MOST_SAMPLED}. Got {sample} instead.")
    outcome = Outcome.of(model, X)
    n = len(outcome.labels)
    names = RowNames(n, getattr(model, "row_ids_", None) if ids is None else ids)
    known = None if target is None else Classes(check_length("target", target, n))
    if known is not None and not known.names:
        raise ValueError("The 'target' parameter of describe holds no label at all. Leave it out.")
    drawn = take_sample(model, outcome, X, sample, random_state)
    looks = check_looks(images, words, drawn)
    return {
        "schema": "coterie-report",
        "version": VERSION,
        "coterie": __version__,
        "title": shown(title, 120) if title else "Clustering report",
        "data": describe_data(model, outcome, drawn),
        "settings": describe_settings(model),
        "options": None if options is None else describe_options(options),
        "clusters": describe_clusters(model, outcome, drawn, looks, names, known),
        "embedding": describe_embedding(drawn, looks, names, known, check_columns_to_show(columns, n), random_state),
        "views": describe_views(model, drawn),
        "agreement": describe_agreement(model),
        "disagreement": describe_disagreement(model, drawn, names),
        "spectra": describe_spectra(model),
        "suggestion": describe_suggestion(getattr(model, "k_suggestion_", None)),
        "history": describe_history(model),
        "timings": describe_timings(model),
        "truth": None if known is None else describe_truth(known, outcome.labels, int(model.n_clusters_)),
    }


# -- what the user passes -----------------------------------------------------------------------------------------


class RowNames:
    """The rows' names, shortened; row numbers where there are none."""

    def __init__(self, n_rows: int, ids: Any) -> None:
        self.ids = None if ids is None else check_length("ids", ids, n_rows)

    def __getitem__(self, row: int) -> str:
        return str(row) if self.ids is None else shown(self.ids[row])

    def line(self, row: int) -> dict[str, Any]:
        """Return a row's number and name."""
        return {"row": int(row), "id": self[row]}


class Classes:
    """Names or numbers as places in a sorted list of those that occur, -1 for rows that have none."""

    def __init__(self, values: np.ndarray) -> None:
        listed = values.tolist()
        distinct = dict.fromkeys(listed)  # what is asked of every value is asked of these alone: rows may be millions
        order = sorted((value for value in distinct if not is_missing(value)), key=sort_key)
        codes = dict.fromkeys(distinct, -1) | {value: code for code, value in enumerate(order)}
        self.codes = np.fromiter(map(codes.__getitem__, listed), dtype=np.intp, count=len(listed))  # (n,)
        self.names = [shown(value) for value in order]


def sort_key(value: Any) -> tuple[bool, float, str]:
    """Sort numbers, also those written as text, by size and before all else.

    Examples
    --------
    >>> sorted(["b", "10", "9", "a", 2], key=sort_key)
    [2, '9', '10', 'a', 'b']
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        return True, 0.0, str(value)
    return number != number, number if number == number else 0.0, str(value)


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, NaT or pandas' NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def check_length(name: str, values: Any, n_rows: int) -> Any:
    """Return values that can be looked up by row number, one per row of the fit."""
    values = to_host(values)
    if not isinstance(values, np.ndarray):
        values = as_objects(values)
    if values.shape != (n_rows,):
        raise ValueError(
            f"The {name!r} parameter of describe must have one value per row of the fit, {n_rows}. "
            f"Got an array of shape {values.shape} instead."
        )
    return values


def as_objects(values: Any) -> np.ndarray:
    """Return any sequence as an array of what it holds; strings are not cut or padded."""
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    listed = list(values)
    return np.fromiter(listed, dtype=object, count=len(listed))


# -- the sections ---------------------------------------------------------------------------------------------------


def describe_data(model: Any, outcome: Outcome, sample: Sample) -> dict[str, Any]:
    """Return what was clustered, in a few numbers."""
    return {
        "rows": len(outcome.labels),
        "clusters": int(model.n_clusters_),
        "views": len(model.view_names_),
        "graphs": len(model.singular_values_),
        "landmarks": len(model.landmark_indices_),
        "components": int(model.cluster_centers_.shape[1]),
        "rounds": int(model.n_iter_),
        "seconds": tidy(model.timings_["total"]),
        "confidence": tidy(np.mean(outcome.confidence)),
        "sampled": len(sample.rows),
        "has_rows": sample.views is not None,
        "needs_rows": NEEDS_ROWS,
    }


def describe_settings(model: Any) -> list[dict[str, Any]]:
    """Return all parameters, those that differ from the defaults first."""
    defaults = {name: p.default for name, p in inspect.signature(type(model).__init__).parameters.items()}
    lines = []
    for name, value in model.get_params(deep=False).items():
        text, usual = in_words(value), in_words(defaults.get(name))
        lines.append({"name": name, "value": text, "default": usual, "changed": text != usual})
    return sorted(lines, key=lambda line: not line["changed"])


def describe_options(options: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return how the fit was started."""
    return [{"name": shown(name), "value": shown(value, 500)} for name, value in options.items()]


def in_words(value: Any) -> str:
    """Return a parameter's value as text; long arrays by their shape."""
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"array of shape {value.shape}"
    return shown(repr(value), 160)


def describe_views(model: Any, sample: Sample | None = None) -> list[dict[str, Any]]:
    """Return every view: its size, what was done to it, what it counted and how far it agrees."""
    lines = []
    for v, name in enumerate(model.view_names_):
        views = None if sample is None else sample.views
        present = None if views is None else views[v].present
        lines.append(
            {
                "name": shown(name),
                "columns": fitted_of(model).shapes[v].n_columns,
                "preparation": model.preparation_[name],
                "weight": tidy(model.view_weights_.get(name, 0.0)),
                "agreement": tidy(model.agreement_.get(name, 0.0)),
                "present": None if views is None else tidy(1.0 if present is None else np.mean(present)),
                "is_concatenation": False,
            }
        )
    for name in model.view_weights_:
        if name not in model.view_names_:  # all views side by side
            lines.append(
                {
                    "name": graph_name(name),
                    "columns": sum(line["columns"] for line in lines),
                    "preparation": None,
                    "weight": tidy(model.view_weights_[name]),
                    "agreement": tidy(model.agreement_[name]),
                    "present": None,
                    "is_concatenation": True,
                }
            )
    return lines


def describe_agreement(model: Any) -> dict[str, Any]:
    """Return how alike graphs are, and views, and how far each view alone agrees on each cluster."""
    graph_map = fitted_of(model).row_map.graph_map
    owners = [graph_map.view_name(graph.view) for graph in graph_map.graphs]
    views = list(dict.fromkeys(owners))
    members = np.array([[owner == view for owner in owners] for view in views], dtype=float)  # (V, G)
    members /= members.sum(axis=1, keepdims=True)
    alike = np.asarray(model.graph_agreement_, dtype=float)  # (G, G)
    return {
        "graphs": {"names": [graph_name(name) for name in model.singular_values_], "values": table(alike)},
        "views": {"names": [graph_name(name) for name in views], "values": table(members @ alike @ members.T)},
        "clusters": {"names": [shown(name) for name in model.view_names_], "values": table(model.cluster_agreement_)},
    }


def table(values: np.ndarray) -> list[list[float | None]]:
    """Return a matrix as lists of numbers with three decimals."""
    return [[round(float(v), 3) if np.isfinite(v) else None for v in line] for line in np.asarray(values)]


def describe_spectra(model: Any) -> dict[str, Any]:
    """Return every graph's singular values, and the gaps between them: how far they speak for 2, 3, ... clusters."""
    dropped = model.basis != "subspace" if model.drop_first is None else model.drop_first
    first = 2 if dropped else 1  # the number of the first singular value that is kept
    shortest = min(len(values) for values in model.singular_values_.values())
    kept = np.stack([values[:shortest] for values in model.singular_values_.values()])  # (G, m)
    whole = np.column_stack([np.ones((len(kept), first - 1)), kept])  # the first one is 1 where a graph hangs together
    gaps = relative_gaps(whole).mean(axis=0) if whole.shape[1] > 2 else np.empty(0)
    return {
        "first": first,
        "clusters": int(model.n_clusters_),
        "graphs": [
            {"name": graph_name(name), "values": [tidy(value) for value in values]}
            for name, values in model.singular_values_.items()
        ],
        "gaps": [tidy(gap) for gap in gaps],
        "consensus": [tidy(value) for value in model.consensus_singular_values_],
        "components": int(model.cluster_centers_.shape[1]),
    }


def graph_name(name: str) -> str:
    """Return the name of a graph or view, fit to be shown; the concatenation's in words.

    Examples
    --------
    >>> graph_name("(concatenation) (5 neighbours)")
    'all views (5 neighbours)'
    """
    return shown(name.replace("(concatenation)", "all views", 1) if name.startswith("(concatenation)") else name)


def describe_suggestion(suggestion: Any) -> dict[str, Any] | None:
    """Return the evidence for numbers of clusters, where the fit looked for it."""
    if suggestion is None:
        return None
    parts = ("scores", "agreement", "stability", "separation", "shared", "gap")
    return {
        "k": [int(k) for k in suggestion.k],
        **{part: [tidy(value) for value in getattr(suggestion, part)] for part in parts},
        "best": suggestion.best,
        "top": list(suggestion.top(5)),
        "strength": tidy(suggestion.strength),
        "is_clear": bool(suggestion.is_clear),
    }


def describe_timings(model: Any) -> list[dict[str, Any]]:
    """Return the stages that took time, in their order, each followed by its parts where they were timed."""
    taken = {stage: seconds for stage, seconds in model.timings_.items() if stage != "total" and seconds >= 0.0005}
    wholes = [stage for stage in taken if ": " not in stage]
    lines = []
    for whole in wholes:
        lines.append({"stage": whole, "seconds": tidy(taken[whole]), "part_of": None})
        for stage in taken:
            if stage.startswith(f"{whole}: "):
                part = stage.removeprefix(f"{whole}: ")
                lines.append({"stage": part, "seconds": tidy(taken[stage]), "part_of": whole})
    return lines


def whole_stages(model: Any) -> list[dict[str, Any]]:
    """Return the stages that took time, without their parts."""
    return [line for line in describe_timings(model) if line["part_of"] is None]


def describe_history(model: Any) -> list[dict[str, Any]]:
    """Return the rounds: the change of A*, the agreement and the seconds of each."""
    return [{name: tidy(value) for name, value in line.items()} for line in model.history_]


def describe_clusters(
    model: Any, outcome: Outcome, sample: Sample, looks: Looks, names: RowNames, known: Classes | None
) -> list[dict[str, Any]]:
    """Return every cluster's size and confidence, and portraits of the largest."""
    labels, confidence, k = outcome.labels, outcome.confidence, int(model.n_clusters_)
    sizes = np.bincount(labels, minlength=k)  # (k,)
    sums = np.bincount(labels, weights=confidence, minlength=k)
    bins = np.clip((confidence * CONFIDENCE_BINS).astype(int), 0, CONFIDENCE_BINS - 1)  # (n,)
    histogram = np.bincount(labels * CONFIDENCE_BINS + bins, minlength=k * CONFIDENCE_BINS).reshape(k, -1)
    nearest = nearest_centers(np.asarray(model.cluster_centers_, dtype=float))
    portrayed = np.sort(np.argsort(-sizes, kind="stable")[:MOST_CLUSTERS])
    typical = typical_rows(labels, confidence, model.medoid_indices_, portrayed)
    parts = describe_in_views(sample, looks, typical, k)
    majority = None if known is None else majorities(known, labels, k)
    clusters = []
    for c in range(k):
        line: dict[str, Any] = {
            "label": c,
            "size": int(sizes[c]),
            "share": tidy(sizes[c] / len(labels)),
            "confidence": tidy(sums[c] / sizes[c]) if sizes[c] else None,
            "histogram": histogram[c].tolist(),
            "nearest": None if nearest is None else int(nearest[c]),
            "medoid": names.line(model.medoid_indices_[c]) if model.medoid_indices_[c] >= 0 else None,
            "majority": None if majority is None else majority[c],
            "is_portrayed": c in typical,
            "central": [],
            "border": [],
            "views": [],
        }
        if c in typical:
            for part in ("central", "border"):
                line[part] = [
                    {**names.line(row), "confidence": round(float(confidence[row]), 3)}
                    for row in getattr(typical[c], part)
                ]
            line["views"] = [{"view": view, **found[c]} for view, found in parts]
        clusters.append(line)
    keep_strongest([cluster for cluster in clusters if cluster["is_portrayed"]])
    return clusters


def describe_in_views(
    sample: Sample, looks: Looks, typical: dict[int, Typical], n_clusters: int
) -> list[tuple[str, dict[int, dict[str, Any]]]]:
    """Return for every view, and every cluster in it, pictures, words or columns that set it apart."""
    if sample.views is None:
        return []
    found: list[tuple[str, dict[int, dict[str, Any]]]] = []
    for view in sample.views:
        block = read_rows(view, sample.rows)
        labels = sample.labels if block.present is None else sample.labels[block.present]
        if view.name in looks.images:
            camera = Camera.focus(view, looks.images[view.name], sample.rows)
            pictures = thumbnails(camera, typical, sample, len(looks.images))
            parts = {c: {"kind": "images", **pictures[c]} for c in typical}
        elif view.name in looks.words:
            lists = describe_words(looks.words[view.name], block.known(), labels, n_clusters)
            parts = {c: {"kind": "words", "words": lists[c]} for c in typical}
        else:
            lists = describe_columns(view, block.known(), labels, n_clusters)
            parts = {c: {"kind": "columns", "columns": lists[c]} for c in typical}
        found.append((shown(view.name), parts))
    return found


def nearest_centers(centers: np.ndarray) -> np.ndarray | None:
    """Return the cluster whose centroid lies in the most similar direction; None where there is but one.

    By distance, the centroid of a loose cluster, which is short, would be everybody's neighbour.
    """
    if len(centers) < 2:
        return None
    lengths = np.linalg.norm(centers, axis=1, keepdims=True)
    units = centers / np.where(lengths > 0, lengths, 1)
    alike = units @ units.T  # (k, k)
    np.fill_diagonal(alike, -np.inf)
    return alike.argmax(axis=1)  # (k,)


def majorities(known: Classes, labels: np.ndarray, n_clusters: int) -> list[dict[str, Any] | None]:
    """Return every cluster's most frequent class, and its share of the rows whose class is known."""
    counts = class_counts(known, labels, n_clusters)  # (k, classes)
    totals = counts.sum(axis=1)
    top = counts.argmax(axis=1)
    return [
        {"class": known.names[top[c]], "share": tidy(counts[c, top[c]] / totals[c])} if totals[c] else None
        for c in range(n_clusters)
    ]


def class_counts(known: Classes, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return how many rows of each cluster are of each class."""
    width = len(known.names)
    has = known.codes >= 0
    flat = labels[has].astype(np.int64) * width + known.codes[has]
    return np.bincount(flat, minlength=n_clusters * width).reshape(n_clusters, width)  # (k, classes)


def describe_embedding(
    sample: Sample,
    looks: Looks,
    names: RowNames,
    known: Classes | None,
    extra: dict[str, Any],
    seed: int,
) -> dict[str, Any] | None:
    """Return the map of the sampled rows, and what it can be coloured by."""
    if sample.embedding is None:
        return None
    places = flat_map(sample.embedding, seed)
    shown_columns = [describe_column(name, values, sample.rows) for name, values in extra.items()]
    if known is not None:
        shown_columns.insert(0, describe_classes(known, sample.rows))
    picture = None
    if sample.views is not None and looks.images:
        view = next(view for view in sample.views if view.name in looks.images)
        picture = atlas(Camera.focus(view, looks.images[view.name], sample.rows), sample)
    return {
        "rows": sample.rows.tolist(),
        "ids": [names[row] for row in sample.rows] if names.ids is not None else None,
        "x": np.round(places[:, 0].astype(float), 4).tolist(),
        "y": np.round(places[:, 1].astype(float), 4).tolist(),
        "cluster": sample.labels.tolist(),
        "confidence": np.round(sample.confidence.astype(float), 3).tolist(),
        "opinions": None if sample.opinions is None else sample.opinions.tolist(),
        "columns": shown_columns,
        "pictures": picture,
    }


def check_columns_to_show(columns: Any, n_rows: int) -> dict[str, Any]:
    """Return the columns that the map can be coloured by."""
    if columns is None:
        return {}
    named = columns if isinstance(columns, Mapping) else {name: columns[name] for name in columns.columns}
    if len(named) > MOST_COLUMNS:
        raise ValueError(
            f"The 'columns' parameter of describe must hold at most {MOST_COLUMNS} columns. Got {len(named)} instead."
        )
    return {name: check_length(f"columns[{shown(name)}]", values, n_rows) for name, values in named.items()}


def describe_column(name: Any, values: Any, rows: np.ndarray) -> dict[str, Any]:
    """Return some rows of a column: numbers, or numbers of names."""
    taken = as_numbers(values[rows])
    whole = taken.dtype.kind in "iu" and len(np.unique(taken)) <= FEW_NUMBERS
    if taken.dtype.kind in "iuf" and not whole:
        return {"name": shown(name), "kind": "number", "values": [tidy(value) for value in taken]}
    classes = Classes(taken)
    return describe_levels(shown(name), classes.names, classes.codes)


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return objects that are all numbers, or missing, as an array of numbers; anything else as it is.

    Examples
    --------
    >>> as_numbers(np.array([1.5, None], dtype=object)), as_numbers(np.array(["a"]))
    (array([1.5, nan]), array(['a'], dtype='<U1'))
    """
    if values.dtype != object:
        return values
    tried = np.array([np.nan if is_missing(value) else value for value in values.tolist()])
    return tried if tried.ndim == 1 and tried.dtype.kind in "iuf" and not np.isnan(tried).all() else values


def describe_classes(known: Classes, rows: np.ndarray) -> dict[str, Any]:
    """Return the known labels of some rows as a column."""
    return describe_levels("known label", known.names, known.codes[rows])


def describe_levels(name: str, levels: list[str], codes: np.ndarray) -> dict[str, Any]:
    """Return a column of names and their numbers, -1 for none; where not all get a colour, frequent ones come first."""
    counts = np.bincount(codes[codes >= 0], minlength=len(levels))
    order = np.arange(len(levels))
    if len(levels) > len(PALETTE):
        order = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    kept = [levels[i] for i in order]
    ranks = np.full(len(levels) + 1, len(order), dtype=int)
    ranks[order] = np.arange(len(order))
    ranks[-1] = -1
    if len(order) < len(levels):
        kept.append("(other)")
    return {"name": name, "kind": "name", "levels": kept, "values": ranks[codes].tolist()}


def describe_disagreement(model: Any, sample: Sample, names: RowNames) -> dict[str, Any] | None:
    """Return how often the views alone, before any guiding, agree with the outcome, and the most disputed rows."""
    if sample.opinions is None:
        return None
    asked = sample.opinions >= 0  # (s, V)
    with_outcome = (sample.opinions == sample.labels[:, None]) & asked
    counts = asked.sum(axis=1)
    share = with_outcome.sum(axis=1) / np.maximum(counts, 1)  # (s,) of the views that know the row
    disputed = np.lexsort((sample.confidence, share))[:DISPUTED_ROWS]
    return {
        "views": [shown(name) for name in model.view_names_],
        "rows_looked_at": len(sample.rows),
        "unanimous": tidy(np.mean(share == 1)),
        "outvoted": tidy(np.mean(share < 0.5)),
        "by_view": [tidy(v) for v in with_outcome.sum(axis=0) / np.maximum(asked.sum(axis=0), 1)],
        "rows": [
            {
                **names.line(sample.rows[i]),
                "cluster": int(sample.labels[i]),
                "confidence": round(float(sample.confidence[i]), 3),
                "opinions": sample.opinions[i].tolist(),
            }
            for i in disputed
            if share[i] < 1
        ],
    }


def describe_truth(known: Classes, labels: np.ndarray, n_clusters: int) -> dict[str, Any]:
    """Return how well the clusters match known labels."""
    counts = class_counts(known, labels, n_clusters)  # (k, classes)
    by_class = counts.T  # (classes, k)
    order = np.argsort(-counts.sum(axis=0), kind="stable")[:MOST_CLASSES]
    order = np.sort(order)
    names = [known.names[i] for i in order]
    kept = counts[:, order]
    if len(order) < counts.shape[1]:
        kept = np.column_stack([kept, counts.sum(axis=1) - kept.sum(axis=1)])
        names.append("(other)")
    diagonal = np.lexsort((-kept.max(axis=1), kept.argmax(axis=1)))  # (k,) so that what fits lies on a diagonal
    return {
        "rows": int(counts.sum()),
        "accuracy": tidy(accuracy_of(by_class)),
        "nmi": tidy(nmi_of(by_class)),
        "ari": tidy(ari_of(by_class)),
        "purity": tidy(purity_of(by_class)),
        "classes": names,
        "clusters": diagonal.tolist(),
        "counts": kept[diagonal].tolist(),
    }
