"""Two fits of the same rows: which clusters match, and which rows changed cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from coterie.arrays import to_host
from coterie.metrics import ari_of, nmi_of
from coterie.model import row_ids_of
from coterie.report._inputs import describe_levels
from coterie.report._portraits import tidy
from coterie.report._sample import Outcome, Sample
from coterie.report._text import shown
from coterie.views import rows_as_in

FEW_FLOWS = 120  # at most this many flows are drawn, the largest first


def other_labels(other: Any, X: Any, outcome: Outcome) -> np.ndarray:
    """Return another fit's labels of the same rows: its ``labels_`` or, if it has none, its predictions."""
    n_rows, told = len(outcome.labels), "The labels of the 'against' model"
    if hasattr(other, "labels_"):
        labels = np.asarray(to_host(other.labels_))
        if len(labels) != n_rows:
            raise ValueError(
                f"The 'against' model was fitted on {len(labels)} rows, this one on {n_rows}. "
                "Compare fits of the same rows, in the same order."
            )
        return rows_as_in(told, labels, getattr(other, "row_ids_", None), outcome.ids)
    if X is None:
        raise ValueError(
            "The 'against' model was saved without its rows, so it has no labels_. Pass X, the rows of the fit, "
            "or save it with rows=True."
        )
    labels = np.concatenate([to_host(part.labels) for part in other.stream(X)])  # (n,)
    return rows_as_in(told, labels, row_ids_of(other, X), outcome.ids)


def describe_against(outcome: Outcome, labels: np.ndarray, n_others: int, title: str | None) -> dict[str, Any]:
    """Return which clusters of two fits match, one to one with most shared rows in total, and the flows of rows."""
    mine = outcome.labels.astype(np.int64)
    k = int(mine.max(initial=0)) + 1
    counts = np.bincount(mine * n_others + labels, minlength=k * n_others).reshape(k, n_others)  # (k, others)
    pairs = dict(zip(*map(np.ndarray.tolist, linear_sum_assignment(-counts)), strict=True))
    pairs = {c: other for c, other in pairs.items() if counts[c, other]}
    stayed = sum(int(counts[c, other]) for c, other in pairs.items())
    return {
        "title": shown(title) if title else "another run",
        "clusters": n_others,
        "ari": tidy(ari_of(counts)),
        "nmi": tidy(nmi_of(counts)),
        "stayed": tidy(stayed / len(mine)),
        "matches": [describe_match(counts, c, pairs.get(c)) for c in range(k)],
        "unmatched": sorted(set(range(n_others)) - set(pairs.values())),
        "flows": describe_flows(counts),
        "sizes": counts.sum(axis=1).tolist(),
        "other_sizes": counts.sum(axis=0).tolist(),
    }


def describe_match(counts: np.ndarray, cluster: int, other: int | None) -> dict[str, Any]:
    """Return a cluster, its match in the other fit, their shared rows, and the other clusters that held its rows."""
    line = counts[cluster]
    shared = 0 if other is None else int(line[other])
    union = int(line.sum() + (0 if other is None else counts[:, other].sum())) - shared
    elsewhere = [int(o) for o in np.argsort(-line, kind="stable") if line[o] and o != other][:3]
    return {
        "cluster": cluster,
        "other": other,
        "shared": shared,
        "jaccard": tidy(shared / union) if union else None,
        "left": int(line.sum()) - shared,
        "elsewhere": [{"other": o, "rows": int(line[o])} for o in elsewhere],
    }


def describe_flows(counts: np.ndarray) -> list[list[int]]:
    """Return the largest flows as triples: cluster, the other fit's cluster, number of rows."""
    order = np.argsort(-counts, axis=None, kind="stable")[:FEW_FLOWS]
    found = [(*map(int, np.unravel_index(place, counts.shape)), int(counts.flat[place])) for place in order]
    return [list(flow) for flow in found if flow[2]]


def other_column(labels: np.ndarray, sample: Sample, n_others: int, title: str) -> dict[str, Any]:
    """Return the other fit's clusters of the sampled rows, as a column to colour the map by."""
    names = [str(c) for c in range(n_others)]
    return describe_levels(f"cluster in {title}", names, labels[sample.rows].astype(np.intp))
