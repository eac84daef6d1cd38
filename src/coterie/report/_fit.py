"""The parts of a report that need no rows: settings, views, agreement, spectra, rounds and timings."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from coterie.method.selection import relative_gaps
from coterie.method.stability import chance_of
from coterie.model import fitted_of
from coterie.report._portraits import tidy
from coterie.report._sample import Outcome, Sample
from coterie.report._text import shown

NEEDS_ROWS = "Pass X, the rows of the fit, to see this."


def describe_data(model: Any, outcome: Outcome, sample: Sample) -> dict[str, Any]:
    """Return the size of the data and of the model, and the overall figures of the fit."""
    stability = getattr(model, "stability_", None)
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
        "stability": None if stability is None else tidy(stability),
        "replicates": None if stability is None else bool(stability >= chance_of(model.n_clusters_)),
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
    """Return the options with which the fit was run, as text."""
    return [{"name": shown(name), "value": shown(value, 500)} for name, value in options.items()]


def in_words(value: Any) -> str:
    """Return a parameter's value as text; for a long array, its shape."""
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"array of shape {value.shape}"
    return shown(repr(value), 160)


def describe_views(model: Any, sample: Sample | None = None) -> list[dict[str, Any]]:
    """Return every view's number of columns, preparation, weight and agreement; the concatenation comes last."""
    lines = []
    present = None if sample is None else sample.present
    for v, name in enumerate(model.view_names_):
        lines.append(
            {
                "name": shown(name),
                "columns": fitted_of(model).shapes[v].n_columns,
                "preparation": model.preparation_[name],
                "weight": tidy(model.view_weights_.get(name, 0.0)),
                "agreement": tidy(model.agreement_.get(name, 0.0)),
                "present": None if present is None else tidy(present[v]),
                "is_concatenation": False,
            }
        )
    for name in model.view_weights_:
        if name not in model.view_names_:  # the concatenation of all views
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
    """Return the pairwise agreement of graphs and of views, and the agreement of each view with each cluster."""
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
    """Return every graph's singular values, and the mean relative gaps as evidence for 2, 3, ... clusters."""
    dropped = model.basis != "subspace" if model.drop_first is None else model.drop_first
    first = 2 if dropped else 1  # the number of the first singular value that is kept
    shortest = min(len(values) for values in model.singular_values_.values())
    kept = np.stack([values[:shortest] for values in model.singular_values_.values()])  # (G, m)
    whole = np.column_stack([np.ones((len(kept), first - 1)), kept])  # the one that is dropped is 1
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
    """Return the name of a graph or view for display; the concatenation is called "all views".

    Examples
    --------
    >>> graph_name("(concatenation) (5 neighbours)")
    'all views (5 neighbours)'
    """
    return shown(name.replace("(concatenation)", "all views", 1) if name.startswith("(concatenation)") else name)


def describe_suggestion(suggestion: Any) -> dict[str, Any] | None:
    """Return the evidence for numbers of clusters; None if their number was given."""
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
    """Return the stages of at least 0.5 ms, in their order, each followed by its timed parts."""
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
    """Return the stages of at least 0.5 ms, without their parts."""
    return [line for line in describe_timings(model) if line["part_of"] is None]


def describe_history(model: Any) -> list[dict[str, Any]]:
    """Return the change of A*, the agreement and the seconds of every round."""
    return [{name: tidy(value) for name, value in line.items()} for line in model.history_]


def describe_candidates(model: Any) -> list[dict[str, Any]] | None:
    """Return the candidate bases that the fit compared; None if there was no choice."""
    return [
        {
            "name": shown(line["name"]),
            "preparation": line["preparation"],
            "rounds": line.get("rounds"),  # older model files lack it
            "agreement": number_or_none(line["agreement"]),
            "stability": number_or_none(line["stability"]),
            "chosen": bool(line["chosen"]),
        }
        for line in getattr(model, "candidates_", ())
    ] or None


def number_or_none(value: Any) -> float | None:
    """Return a number rounded to four significant digits; None stays None."""
    return None if value is None else tidy(value)
