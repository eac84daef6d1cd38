"""Every cluster: size, confidence, stability, distinguishing columns, and match with known labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from coterie.method.hierarchy import centroid_distances
from coterie.metrics import accuracy_of, ari_of, nmi_of, purity_of
from coterie.report._cameras import Camera, thumbnails
from coterie.report._inputs import Classes, Given
from coterie.report._portraits import (
    Appearance,
    Typical,
    describe_columns,
    describe_words,
    has_meaning,
    keep_strongest,
    tidy,
    words_of_texts,
)
from coterie.report._sample import Outcome, Sample
from coterie.report._text import shown

MOST_CLASSES = 60  # the confusion matrix shows at most this many
CONFIDENCE_BINS = 10
LEAST_STABILITY = 0.5  # below this, other landmarks give a different cluster: it does not replicate
NEAREST = 3
LONGEST_TEXT = 2000  # words are taken from this many leading letters of a row's text


def describe_clusters(
    model: Any,
    outcome: Outcome,
    sample: Sample,
    appearance: Appearance,
    given: Given,
    typical: dict[int, Typical],
    album: Any,
) -> list[dict[str, Any]]:
    """Return every cluster's size, confidence and stability, with typical rows and contrasts for the largest."""
    labels, confidence, k = outcome.labels, outcome.confidence, int(model.n_clusters_)
    sizes = np.bincount(labels, minlength=k)  # (k,)
    sums = np.bincount(labels, weights=confidence, minlength=k)
    bins = np.clip((confidence * CONFIDENCE_BINS).astype(int), 0, CONFIDENCE_BINS - 1)  # (n,)
    histogram = np.bincount(labels * CONFIDENCE_BINS + bins, minlength=k * CONFIDENCE_BINS).reshape(k, -1)
    near = near_clusters(np.asarray(model.cluster_centers_, dtype=float), sizes)
    stability = getattr(model, "cluster_stability_", None)
    majority = None if given.known is None else majorities(given.known, labels, k)
    clusters = []
    for c in range(k):
        clusters.append(
            {
                "label": c,
                "name": given.cluster_names.get(c),
                "size": int(sizes[c]),
                "share": tidy(sizes[c] / len(labels)),
                "confidence": tidy(sums[c] / sizes[c]) if sizes[c] else None,
                "stability": None if stability is None else tidy(stability[c]),
                "replicates": None if stability is None else bool(stability[c] >= LEAST_STABILITY),
                "histogram": histogram[c].tolist(),
                "nearest": near[c][0]["cluster"] if near[c] else None,
                "near": near[c],
                "medoid": given.names.line(model.medoid_indices_[c]) if model.medoid_indices_[c] >= 0 else None,
                "majority": None if majority is None else majority[c],
                "seen_by": seen_by(model, c) if sizes[c] else [],
                "lacking": lacking(sample, model.view_names_, c),
                "is_portrayed": c in typical,
                "central": [],
                "border": [],
                "views": [],
            }
        )
    parts = describe_in_views(sample, appearance, typical, k, given, album)
    for c, rows in typical.items():
        for part in ("central", "border"):
            clusters[c][part] = [describe_row(row, confidence, given) for row in getattr(rows, part)]
        clusters[c]["views"] = [{"view": view, **found[c]} for view, found in parts]
    keep_strongest([cluster for cluster in clusters if cluster["is_portrayed"]])
    return clusters


def describe_row(row: int, confidence: np.ndarray, given: Given) -> dict[str, Any]:
    """Return a row's number, name, confidence and, where texts were passed, text."""
    line = {**given.names.line(row), "confidence": round(float(confidence[row]), 3)}
    return line if given.texts is None else {**line, "text": given.text(row)}


def near_clusters(centers: np.ndarray, sizes: np.ndarray) -> list[list[dict[str, Any]]]:
    """Return every cluster's nearest clusters by the cosine between centroids, with the cosines.

    Cosines, because the centroid of a loose cluster is short, and so by distance it would be near to all others.
    """
    alike = 1 - centroid_distances(centers)  # (k, k), minus infinity for a cluster and itself
    alike[:, sizes == 0] = -np.inf
    ranked = np.argsort(-alike, axis=1, kind="stable")[:, :NEAREST]
    return [
        [{"cluster": int(other), "similarity": tidy(alike[c, other])} for other in line if np.isfinite(alike[c, other])]
        for c, line in enumerate(ranked)
    ]


def seen_by(model: Any, cluster: int) -> list[dict[str, Any]]:
    """Return the views, ranked by the share of the cluster's rows that each view alone assigns to it."""
    shares = np.asarray(model.cluster_agreement_, dtype=float)[cluster]  # (V,)
    order = np.argsort(-np.nan_to_num(shares, nan=-1), kind="stable")
    return [{"view": shown(model.view_names_[v]), "agreement": tidy(shares[v])} for v in order]


def lacking(sample: Sample, view_names: Any, cluster: int) -> list[dict[str, Any]]:
    """Return the views that most of a cluster's rows lack while most other rows have them."""
    if sample.opinions is None:
        return []
    missing = sample.opinions[sample.drawn] < 0  # (s, V)
    mine = sample.labels[sample.drawn] == cluster
    if not mine.any() or mine.all():
        return []
    inside, outside = missing[mine].mean(axis=0), missing[~mine].mean(axis=0)  # (V,)
    return [
        {"view": shown(view_names[v]), "inside": tidy(inside[v]), "outside": tidy(outside[v])}
        for v in np.flatnonzero((inside > 0.5) & (outside < inside / 2))
    ]


def describe_in_views(
    sample: Sample, appearance: Appearance, typical: dict[int, Typical], n_clusters: int, given: Given, album: Any
) -> list[tuple[str, dict[int, dict[str, Any]]]]:
    """Return for every view and cluster the pictures, words or columns that distinguish the cluster."""
    found: list[tuple[str, dict[int, dict[str, Any]]]] = []
    drawn, labels = np.flatnonzero(sample.drawn), sample.labels[sample.drawn]
    if album is not None:
        pictures = thumbnails(album, typical, sample, 1 + len(appearance.images))
        found.append((album.name, {c: {"kind": "images", **pictures[c]} for c in typical}))
    if given.texts is not None:
        vocabulary, held = words_of_texts([given.text(row, LONGEST_TEXT) or "" for row in sample.rows[drawn]])
        lists = describe_words(vocabulary, held, labels, n_clusters)
        found.append(("texts", {c: {"kind": "words", "words": lists[c]} for c in typical}))
    for view in sample.views or ():
        block = view.read(drawn)
        of_known = labels if block.present is None else labels[block.present]
        if not len(of_known):
            continue  # a view that was left out
        if view.name in appearance.images:
            pictures = thumbnails(
                Camera.focus(view, appearance.images[view.name]), typical, sample, len(appearance.images)
            )
            parts = {c: {"kind": "images", **pictures[c]} for c in typical}
        elif view.name in appearance.words:
            lists = describe_words(appearance.words[view.name], block.known(), of_known, n_clusters)
            parts = {c: {"kind": "words", "words": lists[c]} for c in typical}
        else:
            lists = describe_columns(view, block.known(), of_known, n_clusters)
            parts = {
                c: {"kind": "columns", "has_meaning": has_meaning(view.columns), "columns": lists[c]} for c in typical
            }
        found.append((shown(view.name), parts))
    return found


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
    diagonal = np.lexsort((-kept.max(axis=1), kept.argmax(axis=1)))  # (k,) so that matches lie on the diagonal
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
