"""A fitted estimator as a few lines of HTML, for notebooks, made without a template engine."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from coterie.model import fitted_of
from coterie.report._colours import colour_of
from coterie.report._fit import describe_settings, describe_views, whole_stages
from coterie.report._page import count, percent, seconds
from coterie.report._sample import Outcome
from coterie.report._text import shown

MOST_LISTED = 12  # clusters or views

STYLE = """<style>
.coterie { font: 13px/1.5 system-ui, sans-serif; max-width: 960px; color: inherit; }
.coterie h4 { margin: 0 0 2px; font-size: 15px; }
.coterie p { margin: 0 0 8px; opacity: .75; }
.coterie .parts { display: flex; flex-wrap: wrap; gap: 12px 28px; align-items: flex-start; }
.coterie table { font: inherit; color: inherit; border-collapse: collapse; margin: 0;
  font-variant-numeric: tabular-nums; }
.coterie caption { text-align: left; font-weight: 600; padding: 0 0 2px; color: inherit; }
.coterie td, .coterie th { padding: 1px 10px 1px 0; text-align: left; font-weight: 400; border: 0; background: none; }
.coterie th { overflow-wrap: anywhere; max-width: 220px; }
.coterie .bar { display: inline-block; width: 90px; height: 8px; border-radius: 3px; vertical-align: middle;
  margin-right: 6px; background: color-mix(in srgb, currentColor 12%, transparent); }
.coterie .bar i { display: block; height: 100%; border-radius: 3px; }
</style>"""


class Html(str):
    """Text that is HTML and is not escaped again."""


def fill(template: str, **values: Any) -> Html:
    """Return a template filled with values, each escaped unless it is an Html.

    Examples
    --------
    >>> fill("<b>{name}</b>{rest}", name="<i>", rest=Html("<br>"))
    '<b>&lt;i&gt;</b><br>'
    """
    safe = {name: value if isinstance(value, Html) else escape(str(value)) for name, value in values.items()}
    return Html(template.format(**safe))


def join(parts: Any) -> Html:
    """Return pieces of HTML, concatenated."""
    return Html("".join(parts))


def bar(value: float, most: float, colour: str = "#317ebb") -> Html:
    """Return a bar whose length is a value's share of ``most``."""
    width = 100 * value / most if most > 0 else 0
    return fill(
        '<span class="bar"><i style="width:{width}%;background:{colour}"></i></span>',
        width=f"{width:.4g}",
        colour=colour,
    )


def html_summary(model: Any) -> str:
    """Return a short HTML summary of a fitted estimator: sizes, views with their weights, and timings.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.

    Returns
    -------
    str

    Examples
    --------
    >>> from coterie import GuidedCoTraining
    >>> from coterie.datasets import make_views
    >>> model = GuidedCoTraining(3, random_state=0).fit(make_views(200, 3, random_state=0).views)
    >>> "200 rows in 3 clusters" in html_summary(model)
    True
    """
    return str(
        fill(
            '<div class="coterie">{style}<h4>{name}: {rows} rows in {clusters} clusters</h4><p>{settings}</p>'
            '<div class="parts">{sizes}{views}{times}</div></div>',
            style=Html(STYLE),
            name=type(model).__name__,
            rows=count(fitted_of(model).n_rows),
            clusters=model.n_clusters_,
            settings=changed_settings(model),
            sizes=sizes_table(model),
            views=views_table(model),
            times=times_table(model),
        )
    )


def changed_settings(model: Any) -> str:
    """Return the parameters that differ from the defaults, on one line."""
    changed = [f"{line['name']}={line['value']}" for line in describe_settings(model) if line["changed"]]
    return shown(", ".join(changed), 300) if changed else "all settings at their defaults"


def sizes_table(model: Any) -> Html:
    """Return a table of the clusters, largest first; nothing for a model that was saved without rows."""
    if not hasattr(model, "labels_"):
        return Html("")
    labels = Outcome.of(model).labels
    sizes = np.bincount(labels, minlength=model.n_clusters_)  # (k,)
    ranked = [int(label) for label in np.argsort(-sizes, kind="stable")]
    lines = [
        fill(
            "<tr><th>{label}</th><td>{bar}{size}</td><td>{share}</td></tr>",
            label=label,
            bar=bar(sizes[label], sizes.max(), colour_of(label)),
            size=count(sizes[label]),
            share=percent(sizes[label] / len(labels)),
        )
        for label in ranked[:MOST_LISTED]
    ]
    return fill("<table><caption>Clusters</caption>{lines}{rest}</table>", lines=join(lines), rest=rest(ranked))


def views_table(model: Any) -> Html:
    """Return a table of the views with their weights and agreement."""
    views = describe_views(model)
    most = max(view["weight"] for view in views)
    lines = [
        fill(
            "<tr><th>{name}</th><td>{columns}</td><td>{weight_bar}{weight}</td><td>{agreement_bar}{agreement}</td></tr>",
            name=view["name"],
            columns=count(view["columns"]),
            weight_bar=bar(view["weight"], most),
            weight=f"{view['weight']:.2f}",
            agreement_bar=bar(view["agreement"], 1, "#1fbfa1"),
            agreement=f"{view['agreement']:.2f}",
        )
        for view in views[:MOST_LISTED]
    ]
    return fill(
        "<table><caption>Views</caption><tr><th></th><th>columns</th><th>weight</th><th>agreement</th></tr>"
        "{lines}{rest}</table>",
        lines=join(lines),
        rest=rest(views),
    )


def times_table(model: Any) -> Html:
    """Return a table of the fit's stages and their time."""
    stages = whole_stages(model)
    most = max((stage["seconds"] for stage in stages), default=0)
    lines = [
        fill(
            "<tr><th>{stage}</th><td>{bar}{time}</td></tr>",
            stage=stage["stage"],
            bar=bar(stage["seconds"], most, "#a5798a"),
            time=seconds(stage["seconds"]),
        )
        for stage in stages
    ]
    total = seconds(model.timings_["total"])
    return fill("<table><caption>Time: {total}</caption>{lines}</table>", total=total, lines=join(lines))


def rest(listed: Any) -> Html:
    """Return a line with the number of entries that are not listed; nothing if all are."""
    more = len(listed) - MOST_LISTED
    return fill("<tr><td colspan=4>and {more} more</td></tr>", more=more) if more > 0 else Html("")
