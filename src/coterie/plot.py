"""The figures of a report drawn with matplotlib, for notebooks and papers.

Every function takes a fitted model and, optionally, the axes to draw on, and returns the axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from coterie.lazy import import_extra
from coterie.report._clusters import class_counts
from coterie.report._colours import PALETTE, RAMP, colour_of, shape_of
from coterie.report._fit import (
    describe_agreement,
    describe_history,
    describe_spectra,
    describe_suggestion,
    describe_views,
    whole_stages,
)
from coterie.report._inputs import Classes, as_numbers, check_values
from coterie.report._layout import flat_map
from coterie.report._sample import Outcome, take_sample
from coterie.report._summary import html_summary
from coterie.report._text import shown
from coterie.validation import check_choice

__all__ = [
    "agreement",
    "cluster_sizes",
    "confusion",
    "embedding",
    "history",
    "html_summary",
    "singular_values",
    "suggestion",
    "timings",
    "view_weights",
]

# matplotlib's markers that look like the report's shapes.
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "p", "*")
MOST_IN_LEGEND = 20
NUMBERS_FIT = 14  # a heat map with at most this many columns shows its numbers


def embedding(
    model: Any, X: Any = None, *, color: Any = "cluster", ax: Any = None, sample: int = 4000, random_state: int = 0
) -> Any:
    """Draw a two-dimensional map of the consensus embedding, with similar rows near each other.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    X : like in ``fit``, default=None
        The rows of the fit, in their order. Not needed where the model was fitted with ``store_embedding``.
    color : "cluster", "confidence" or array-like of shape (n,), default="cluster"
        The values that colours show: the clusters, their confidence, or numbers or names of one's own. A Series is
        matched with the fit's ids by its index.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.
    sample : int, default=4000
        Rows to draw.
    random_state : int, default=0
        Seed of the sample and of the map.

    Returns
    -------
    matplotlib Axes
    """
    outcome = Outcome.of(model, X)
    drawn = take_sample(model, outcome, X, sample, random_state)
    if drawn.embedding is None:
        raise ValueError("The map needs the rows' embedding. Pass X, the rows of the fit, or fit with store_embedding.")
    ax = axes(ax, (7, 6))
    positions = flat_map(drawn.embedding, random_state)  # (s, 2)
    if isinstance(color, str):
        check_choice("embedding", "color", color, ("cluster", "confidence"))
    if isinstance(color, str) and color == "cluster":
        draw_clusters(ax, positions, drawn.labels, int(model.n_clusters_))
    else:
        values = (
            drawn.confidence
            if isinstance(color, str)
            else check_values("color", color, len(outcome.labels), outcome.ids)[drawn.rows]
        )
        draw_values(ax, positions, as_numbers(values), "confidence" if isinstance(color, str) else None)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_title(f"{len(drawn.rows):,} of {len(outcome.labels):,} rows, {model.n_clusters_} clusters")
    return ax


def draw_clusters(ax: Any, positions: np.ndarray, labels: np.ndarray, n_clusters: int) -> None:
    """Draw rows in the colours of their clusters, with the clusters' numbers."""
    for cluster in range(n_clusters):
        mine = positions[labels == cluster]
        if not len(mine):
            continue
        marker, colour = MARKERS[shape_of(cluster)], colour_of(cluster)
        ax.scatter(*mine.T, s=9, c=colour, marker=marker, linewidths=0, alpha=0.85, label=str(cluster))
        ax.annotate(str(cluster), central(mine), ha="center", va="center", fontweight="bold", fontsize=9)
    if n_clusters <= MOST_IN_LEGEND:
        ax.legend(title="cluster", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, markerscale=2)


def central(positions: np.ndarray) -> np.ndarray:
    """Return the position nearest to the median; the median itself may lie between islands, among another cluster.

    Examples
    --------
    >>> central(np.array([[0.0, 0], [1, 0], [9, 0], [9, 1]])).tolist()
    [1.0, 0.0]
    """
    return positions[np.square(positions - np.median(positions, axis=0)).sum(axis=1).argmin()]  # (2,)


def draw_values(ax: Any, positions: np.ndarray, values: np.ndarray, label: str | None) -> None:
    """Draw rows coloured by numbers, with a colour bar, or by names, with a legend."""
    if values.dtype.kind in "iuf":
        dots = ax.scatter(*positions.T, s=9, c=values, cmap=ramp(), linewidths=0)
        ax.figure.colorbar(dots, ax=ax, label=label)
        return
    classes = Classes(values)
    for code, name in enumerate(classes.names[: len(PALETTE)]):
        ax.scatter(*positions[classes.codes == code].T, s=9, c=PALETTE[code], linewidths=0, label=plain(name))
    others = (classes.codes < 0) | (classes.codes >= len(PALETTE))
    if others.any():
        ax.scatter(*positions[others].T, s=9, c="0.7", linewidths=0, label="others")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, markerscale=2)


def cluster_sizes(model: Any, *, ax: Any = None) -> Any:
    """Draw the number of rows in every cluster as bars.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    sizes = np.bincount(Outcome.of(model).labels, minlength=model.n_clusters_)  # (k,)
    ax = axes(ax, (max(5, 0.28 * len(sizes)), 3.5))
    ax.bar(np.arange(len(sizes)), sizes, color=[colour_of(cluster) for cluster in range(len(sizes))])
    if len(sizes) <= MOST_IN_LEGEND:
        ax.set_xticks(np.arange(len(sizes)))
    ax.set_xlabel("cluster")
    ax.set_ylabel("rows")
    return ax


def view_weights(model: Any, *, ax: Any = None) -> Any:
    """Draw the weight of every view and its agreement with the consensus.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "timings_")
    views = describe_views(model)
    ax = axes(ax, (6, 1 + 0.5 * len(views)))
    at = np.arange(len(views))
    for shift, part in ((-0.2, "weight"), (0.2, "agreement")):
        ax.barh(
            at + shift, [view[part] for view in views], 0.38, label=part, color=PALETTE[0 if part == "weight" else 2]
        )
    ax.set_yticks(at, [plain(view["name"]) for view in views])
    ax.invert_yaxis()
    ax.legend(frameon=False)
    return ax


def agreement(model: Any, *, between: str = "views", ax: Any = None) -> Any:
    """Draw the agreement of views or graphs with each other, or of each view with each cluster, as a heat map.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    between : "views", "graphs" or "clusters", default="views"
        What is compared; "clusters" draws a line per cluster and a column per view.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "timings_")
    check_choice("agreement", "between", between, ("views", "graphs", "clusters"))
    found = describe_agreement(model)[between]
    columns = [plain(name) for name in found["names"]]
    rows = [str(cluster) for cluster in range(model.n_clusters_)] if between == "clusters" else columns
    values = np.array(found["values"], dtype=float)
    return heat_map(ax, values, values, rows, columns, "{:.2f}")


def confusion(model: Any, target: Any, *, ax: Any = None) -> Any:
    """Draw the confusion matrix of clusters and known classes; shades are shares of the cluster's rows.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    target : array-like of shape (n,)
        Known labels; None and NaN mark rows without one. A Series is matched with the fit's ids by its index.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    outcome = Outcome.of(model)
    labels = outcome.labels
    known = Classes(check_values("target", target, len(labels), outcome.ids))
    counts = class_counts(known, labels, int(model.n_clusters_))  # (k, classes)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = [str(cluster) for cluster in range(model.n_clusters_)]
    ax = heat_map(ax, shares, counts, rows, [plain(name) for name in known.names], "{:,}")
    ax.set_xlabel("known label")
    ax.set_ylabel("cluster")
    return ax


def heat_map(ax: Any, shades: np.ndarray, values: np.ndarray, rows: list[str], columns: list[str], form: str) -> Any:
    """Draw a heat map of ``shades``, from 0 to 1, with ``values`` written on it if they fit."""
    ax = axes(ax, (2 + 0.5 * len(columns), 1.2 + 0.36 * len(rows)))
    ax.imshow(shades, cmap=shade(), vmin=0, vmax=1, aspect="auto")
    turned = max(map(len, columns)) > 4
    ax.set_xticks(np.arange(len(columns)), columns, rotation=45 * turned, ha="right" if turned else "center")
    ax.set_yticks(np.arange(len(rows)), rows)
    if len(columns) <= NUMBERS_FIT:
        for (i, j), value in np.ndenumerate(values):
            colour = "white" if shades[i, j] > 0.55 else "black"
            ax.text(j, i, form.format(value) if value else "", ha="center", va="center", fontsize=8, color=colour)
    return ax


def singular_values(model: Any, *, ax: Any = None) -> Any:
    """Draw the singular values of every graph after the last round, and a line behind the k-th.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "timings_")
    found = describe_spectra(model)
    ax = axes(ax, (7, 4))
    for number, graph in enumerate(found["graphs"]):
        at = found["first"] + np.arange(len(graph["values"]))
        marker, colour = MARKERS[shape_of(number)], colour_of(number)
        ax.plot(
            at, graph["values"], color=colour, marker=marker, markersize=3.5, linewidth=1, label=plain(graph["name"])
        )
    ax.axvline(found["clusters"] + 0.5, color="0.5", linestyle="--", linewidth=1)
    ax.set_xlabel("number")
    ax.set_ylabel("singular value")
    if len(found["graphs"]) <= MOST_IN_LEGEND:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
    return ax


def suggestion(model: Any, *, ax: Any = None) -> Any:
    """Draw the score of every number of clusters.

    Parameters
    ----------
    model : GuidedCoTraining or KSuggestion
        An estimator fitted with ``n_clusters="auto"``, or the result of ``suggest_k``. For a fit with a given number of
        clusters, the gaps between its singular values are drawn instead of scores.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    evidence = model if hasattr(model, "scores") else getattr(model, "k_suggestion_", None)
    ax = axes(ax, (7, 3.5))
    found = describe_suggestion(evidence)
    if found is None:
        check_is_fitted(model, "timings_")
        spectra = describe_spectra(model)
        k, heights, best = [2 + i for i in range(len(spectra["gaps"]))], spectra["gaps"], spectra["clusters"]
        ax.set_ylabel("gap behind the k-th singular value")
    else:
        k, heights, best = found["k"], found["scores"], found["best"]
        ax.set_ylabel("score")
    ax.bar(k, heights, color=[PALETTE[0] if number == best else "0.75" for number in k])
    ax.set_xlabel("clusters")
    return ax


def history(model: Any, *, ax: Any = None) -> Any:
    """Draw the change of A* in every round, and the agreement: the share of all bases that the consensus holds.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "timings_")
    lines = describe_history(model)
    ax = axes(ax, (5, 3.5))
    rounds = np.arange(1, len(lines) + 1)
    for number, part in enumerate(("change", "agreement")):
        values = [np.nan if line[part] is None else line[part] for line in lines]
        label = "change of A*" if part == "change" else part
        ax.plot(rounds, values, marker="o", color=PALETTE[number], label=label)
    ax.set_xticks(rounds)
    ax.set_xlabel("round")
    ax.set_ylim(0, None)
    ax.legend(frameon=False)
    return ax


def timings(model: Any, *, ax: Any = None) -> Any:
    """Draw the duration of every stage of the fit.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    ax : matplotlib Axes, default=None
        Where to draw; None makes a new figure.

    Returns
    -------
    matplotlib Axes
    """
    check_is_fitted(model, "timings_")
    stages = whole_stages(model)
    ax = axes(ax, (5, 1 + 0.35 * len(stages)))
    ax.barh([stage["stage"] for stage in stages], [stage["seconds"] for stage in stages], color=PALETTE[0])
    ax.invert_yaxis()
    ax.set_xlabel("seconds")
    return ax


# -- matplotlib -----------------------------------------------------------------------------------------------------


def axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    plt = import_extra("matplotlib.pyplot", "plot", "Plotting")
    return plt.subplots(figsize=size, layout="constrained")[1]


def ramp() -> Any:
    """Return the colour map for numbers, from low to high."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("coterie", RAMP)


def shade() -> Any:
    """Return the colour map of heat maps."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("coterie-heat", ["#f3f1ec", "#2a6f8a"])


def plain(name: str) -> str:
    """Return a name as matplotlib must get it: "$" would begin a formula, a leading "_" hide a legend's entry."""
    text = shown(name).replace("$", r"\$")
    return "\u200a" + text if text.startswith("_") else text
