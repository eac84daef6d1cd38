"""The map of the sampled rows, the columns to colour it by, and the rows that views disagree about."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from coterie.model import fitted_of
from coterie.placement import BlockPlan
from coterie.report._cameras import Camera, atlas
from coterie.report._inputs import Classes, Given, RowNames, describe_classes, describe_column, describe_levels
from coterie.report._layout import flat_map
from coterie.report._portraits import Appearance, tidy
from coterie.report._sample import Sample
from coterie.report._text import shown
from coterie.threads import count_threads

DISPUTED_ROWS = 24
NEAR_ROWS = 10  # nearest rows on the map that are checked for the same missing view
LEAST_MISSING = 0.02  # a view is checked if at least this share of rows lacks it and at least this share has it
APART = 0.7  # 0: rows that lack a view lie anywhere on the map; 1: only among themselves


def describe_embedding(
    model: Any, sample: Sample, appearance: Appearance, given: Given, album: Any, seed: int
) -> dict[str, Any] | None:
    """Return the map of the sampled rows and the columns to colour it by; None without an embedding."""
    if sample.embedding is None:
        return None
    spots = flat_map(sample.embedding, seed)  # (s, 2)
    shown_columns = [describe_column(name, values, sample.rows) for name, values in given.columns.items()]
    if given.known is not None:
        shown_columns.insert(0, describe_classes(given.known, sample.rows))
    return {
        "rows": sample.rows.tolist(),
        "ids": [given.names[row] for row in sample.rows] if given.names.ids is not None else None,
        "texts": None if given.texts is None else [given.text(row) for row in sample.rows],
        "x": np.round(spots[:, 0].astype(float), 4).tolist(),
        "y": np.round(spots[:, 1].astype(float), 4).tolist(),
        "cluster": sample.labels.tolist(),
        "confidence": np.round(sample.confidence.astype(float), 3).tolist(),
        "opinions": None if sample.opinions is None else sample.opinions.tolist(),
        "columns": shown_columns,
        "derived": derived_columns(model, sample),
        "apart": describe_rows_apart(model, sample, spots),
        "pictures": describe_pictures(sample, appearance, album),
    }


def describe_pictures(sample: Sample, appearance: Appearance, album: Any) -> dict[str, Any] | None:
    """Return one image of all sampled rows' pictures, from their image files or else from the first view of images."""
    if album is not None:
        return atlas(album, len(sample.rows))
    if sample.views is None or not appearance.images:
        return None
    view = next(view for view in sample.views if view.name in appearance.images)
    if not view.read(slice(None)).known().shape[0]:
        return None  # a view that was left out
    return atlas(Camera.focus(view, appearance.images[view.name]), len(sample.rows))


def derived_columns(model: Any, sample: Sample) -> list[dict[str, Any]]:
    """Return the columns to colour the map by that come from the model: stability, novelty and present views."""
    found = []
    if hasattr(model, "cluster_stability_"):
        values = np.asarray(model.cluster_stability_, dtype=float)[sample.labels]
        found.append({"name": "cluster stability", "kind": "number", "values": [tidy(value) for value in values]})
    if sample.views is not None and (fitted := fitted_of(model)).novelty_scale is not None:  # older files have none
        plan = BlockPlan(model.block_size, count_threads(model.n_jobs))
        values = np.asarray(fitted.novelty_of(sample.views, plan), dtype=float)
        found.append({"name": "novelty", "kind": "number", "values": [tidy(value) for value in values]})
    if sample.opinions is not None and (sample.opinions < 0).any():
        found.append(describe_presence(model, sample))
    return found


def describe_presence(model: Any, sample: Sample) -> dict[str, Any]:
    """Return which views each row has, as a categorical column."""
    names = [shown(name) for name in model.view_names_]
    lacks = [tuple(np.flatnonzero(line < 0)) for line in sample.opinions]  # type: ignore[union-attr]
    said = ["all views" if not line else "lacks " + ", ".join(names[v] for v in line) for line in lacks]
    classes = Classes(np.array(said, dtype=object))
    return describe_levels("views present", classes.names, classes.codes)


def describe_rows_apart(model: Any, sample: Sample, spots: np.ndarray) -> list[dict[str, Any]]:
    """Return the views whose absence separates rows on the map.

    Compares the share of the nearest rows of rows that lack a view which lack it too with that share among all rows.
    Where the first is far larger, the rows are grouped by what they lack, not by what the views say.
    """
    if sample.opinions is None or len(sample.rows) <= NEAR_ROWS or not (sample.opinions < 0).any():
        return []
    near = cKDTree(spots).query(spots, k=NEAR_ROWS + 1)[1][:, 1:]  # (s, NEAR_ROWS)
    found = []
    for v, name in enumerate(model.view_names_):
        missing = sample.opinions[:, v] < 0  # (s,)
        share = missing.mean()
        if not LEAST_MISSING <= share <= 1 - LEAST_MISSING:
            continue
        together = missing[near[missing]].mean()
        if (together - share) / (1 - share) >= APART:
            found.append({"view": shown(name), "lacking": tidy(share), "together": tidy(together)})
    return found


def describe_disagreement(model: Any, sample: Sample, names: RowNames) -> dict[str, Any] | None:
    """Return how often the labels by single views, before any guiding, equal the fit's, and the most disputed rows."""
    if sample.opinions is None:
        return None
    asked = sample.opinions >= 0  # (s, V)
    with_outcome = (sample.opinions == sample.labels[:, None]) & asked
    counts = asked.sum(axis=1)
    share = with_outcome.sum(axis=1) / np.maximum(counts, 1)  # (s,) of the views that have the row
    drawn = sample.uniform
    disputed = np.lexsort((sample.confidence, share))[:DISPUTED_ROWS]
    return {
        "views": [shown(name) for name in model.view_names_],
        "rows_looked_at": int(drawn.sum()),
        "unanimous": tidy(np.mean(share[drawn] == 1)),
        "outvoted": tidy(np.mean(share[drawn] < 0.5)),
        "by_view": [tidy(v) for v in with_outcome[drawn].sum(axis=0) / np.maximum(asked[drawn].sum(axis=0), 1)],
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
