"""A fitted model as plain data (numbers, text and lists), from which the page is made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coterie import __version__
from coterie.progress import Progress
from coterie.report._against import describe_against, other_column, other_labels
from coterie.report._cameras import Album, picture_paths
from coterie.report._clusters import describe_clusters, describe_truth
from coterie.report._fit import (
    describe_agreement,
    describe_candidates,
    describe_data,
    describe_history,
    describe_options,
    describe_settings,
    describe_spectra,
    describe_suggestion,
    describe_timings,
    describe_views,
)
from coterie.report._inputs import (
    Classes,
    Given,
    RowNames,
    check_cluster_names,
    check_columns_to_show,
    check_length,
    check_values,
)
from coterie.report._map import describe_disagreement, describe_embedding
from coterie.report._portraits import MOST_CLUSTERS, check_appearance, typical_rows
from coterie.report._sample import Outcome, Sample, take_sample
from coterie.report._text import shown
from coterie.report._tree import describe_tree
from coterie.validation import check_int

VERSION = 1  # of the schema: docs/reference/report.md

MOST_SAMPLED = 10_000


def describe(
    model: Any,
    X: Any = None,
    *,
    target: Any = None,
    ids: Any = None,
    columns: Any = None,
    images: Mapping[str, Sequence[int]] | None = None,
    words: Mapping[str, Any] | None = None,
    texts: Any = None,
    pictures: Any = None,
    names: Any = None,
    against: Any = None,
    against_title: str | None = None,
    levels: Sequence[int] | None = None,
    title: str | None = None,
    options: Mapping[str, Any] | None = None,
    sample: int = 4000,
    random_state: int = 0,
) -> dict[str, Any]:
    """Return the contents of a report as plain data.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    X : like in ``fit``, default=None
        The rows of the fit, in their order; only a sample of them is read. Without X, parts that need rows are left
        out.
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
    texts : array-like of shape (n,), default=None
        A text per row; texts are shown with rows, and their most distinctive words with clusters.
    pictures : path or array-like of shape (n,), default=None
        A picture per row: a folder of files that are named after the rows, or a path per row.
    names : dict or path, default=None
        Names of clusters by number, or a JSON file of them, such as the page exports.
    against : GuidedCoTraining, default=None
        Another fit of the same rows, to compare with.
    against_title : str, default=None
        The name of that fit.
    levels : sequence of int, default=None
        Numbers of groups at which the tree of clusters is cut; the page shows the first.
    title : str, default=None
        Heading of the report.
    options : dict, default=None
        The options of the command that ran the fit, or the like; shown with the settings.
    sample : int, default=4000
        Rows to sample, at most 10,000; a few more are added from small clusters.
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
    progress = Progress(getattr(model, "verbose", False))
    with progress.stage("labels"):
        outcome = Outcome.of(model, X)
        others = None if against is None else other_labels(against, X, outcome)  # (n,)
    given = check_given(model, outcome, target, ids, columns, texts, names)
    sizes = np.bincount(outcome.labels, minlength=int(model.n_clusters_))  # (k,)
    with progress.stage("sample"):
        portrayed = np.sort(np.argsort(-sizes, kind="stable")[:MOST_CLUSTERS])
        typical = typical_rows(outcome.labels, outcome.confidence, model.medoid_indices_, portrayed)
        wanted = [row for rows in typical.values() for row in (*rows.central, *rows.border)]
        drawn = take_sample(model, outcome, X, sample, random_state, wanted)
    appearance = check_appearance(images, words, {view.name: view.n_columns for view in drawn.views or ()})
    with progress.stage("pictures"):
        album = open_album(model, outcome, pictures, given, drawn)
    with progress.stage("clusters"):
        clusters = describe_clusters(model, outcome, drawn, appearance, given, typical, album)
    with progress.stage("map"):
        embedding = describe_embedding(model, drawn, appearance, given, album, random_state)
    compared = None
    if others is not None:
        compared = describe_against(outcome, others, int(against.n_clusters_), against_title)
        if embedding is not None:
            embedding["derived"].append(other_column(others, drawn, int(against.n_clusters_), compared["title"]))
    return {
        "schema": "coterie-report",
        "version": VERSION,
        "coterie": __version__,
        "title": shown(title, 120) if title else "Clustering report",
        "data": {**describe_data(model, outcome, drawn), "unread_pictures": 0 if album is None else album.unread},
        "settings": describe_settings(model),
        "options": None if options is None else describe_options(options),
        "clusters": clusters,
        "tree": describe_tree(model, sizes, levels),
        "embedding": embedding,
        "against": compared,
        "views": describe_views(model, drawn),
        "agreement": describe_agreement(model),
        "disagreement": describe_disagreement(model, drawn, given.names),
        "spectra": describe_spectra(model),
        "suggestion": describe_suggestion(getattr(model, "k_suggestion_", None)),
        "candidates": describe_candidates(model),
        "history": describe_history(model),
        "timings": describe_timings(model),
        "truth": None if given.known is None else describe_truth(given.known, outcome.labels, len(sizes)),
    }


def check_given(
    model: Any, outcome: Outcome, target: Any, ids: Any, columns: Any, texts: Any, cluster_names: Any
) -> Given:
    """Return the optional inputs, checked."""
    n_rows, own = len(outcome.labels), outcome.ids
    known = None if target is None else Classes(check_values("target", target, n_rows, own))
    if known is not None and not known.names:
        raise ValueError("The 'target' parameter of describe holds no label at all. Leave it out.")
    return Given(
        RowNames(n_rows, own if ids is None else ids),
        known,
        check_columns_to_show(columns, n_rows, own),
        None if texts is None else check_length("texts", texts, n_rows, own),
        check_cluster_names(cluster_names, int(model.n_clusters_)),
    )


def open_album(model: Any, outcome: Outcome, pictures: Any, given: Given, sample: Sample) -> Album | None:
    """Return the pictures of the sampled rows, read from image files and shrunk."""
    if pictures is None:
        return None
    if not isinstance(pictures, str | os.PathLike):
        pictures = check_length("pictures", pictures, len(given.names), outcome.ids)
    names = [str(row) if given.names.ids is None else str(given.names.ids[row]) for row in sample.rows]
    return Album.open(picture_paths(pictures, names, sample.rows), model.n_jobs)
