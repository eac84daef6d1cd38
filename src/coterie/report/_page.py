"""The plain data of a report as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from coterie.files import write_text
from coterie.lazy import import_extra
from coterie.progress import Progress
from coterie.report._colours import CLUSTERS_PER_SHAPE, PALETTE, RAMP, SHAPES, colour_of, shape_of
from coterie.report._describe import describe
from coterie.report._sankey import sankey

NUMBERS_FIT = 14  # columns of a heat map up to which its numbers are written out
MANY = 12  # columns above which their heads are vertical

# Concatenated in this order, they are the page's script, in one function scope, and its style sheet.
PARTS = ("base", "hints", "colours", "map", "drawing", "selection", "tree", "names", "main")
STYLES = ("base.css", "workbench.css")


def write_report(model: Any, path: str | os.PathLike[str], X: Any = None, **settings: Any) -> Path:
    """Write a report of a fit as one self-contained HTML file, which needs neither network nor other files.

    Parameters
    ----------
    model : GuidedCoTraining
        A fitted estimator.
    path : str or path
        Where to write; an existing file is replaced.
    X : like in ``fit``, default=None
        The rows of the fit, in their order; only a sample of them is read.
    **settings
        Other parameters of :func:`coterie.report.describe`.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import tempfile
    >>> from coterie import GuidedCoTraining
    >>> from coterie.datasets import make_views
    >>> data = make_views(200, n_clusters=3, random_state=0)
    >>> model = GuidedCoTraining(3, random_state=0).fit(data.views)
    >>> write_report(model, tempfile.mkdtemp() + "/out.html", data.views).name
    'out.html'
    """
    found = describe(model, X, **settings)
    with Progress(getattr(model, "verbose", False)).stage("page"):
        write_text(path, render(found))
    return Path(path)


def write_json(model: Any, path: str | os.PathLike[str], X: Any = None, **settings: Any) -> Path:
    """Write the plain data of a report as JSON.

    Parameters
    ----------
    model, path, X, **settings
        As for :func:`coterie.report.write_report`.

    Returns
    -------
    Path
        The file that was written.
    """
    found = describe(model, X, **settings)
    write_text(path, json.dumps(found, allow_nan=False, ensure_ascii=False, indent=1))
    return Path(path)


def render(found: dict[str, Any]) -> str:
    """Return the HTML page for the result of :func:`coterie.report.describe`."""
    template = environment().get_template("page.html")
    script = '"use strict";\n(() => {\n' + "\n".join(read(f"{name}.js") for name in PARTS) + "})();"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return template.render(
        **found,
        css="\n".join(read(name) for name in STYLES),
        script=script,
        script_digest=digest,
        points=script_json(points(found)),
        palette=PALETTE,
        shapes=SHAPES,
        ramp=RAMP,
    )


@cache  # compiling the templates takes longer than rendering them
def environment() -> Any:
    """Return the template engine, which escapes everything that is not marked as safe."""
    jinja2 = import_extra("jinja2", "report", "A report")
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(read),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        brief=brief, count=count, percent=percent, digits=digits, seconds=seconds, line=line, sankey=sankey
    )
    found.globals.update(colour_of=colour_of, shape_of=shape_of, numbers_fit=NUMBERS_FIT, many=MANY)
    return found


def read(name: str) -> str:
    """Return the text of one of the page's files."""
    return files("coterie.report").joinpath("page", name).read_text(encoding="utf-8")


def points(found: dict[str, Any]) -> dict[str, Any]:
    """Return the data for the page's script."""
    return {
        "embedding": found["embedding"],
        "rows": found["data"]["rows"],
        "views": [view["name"] for view in found["views"] if not view["is_concatenation"]],
        "clusters": [{part: line[part] for part in ("label", "size", "name")} for line in found["clusters"]],
        "tree": None if found["tree"] is None else {part: found["tree"][part] for part in ("merges", "order")},
        "per_shape": CLUSTERS_PER_SHAPE,
        "palette": PALETTE,
        "shapes": SHAPES,
        "ramp": RAMP,
    }


def script_json(value: Any) -> str:
    """Return JSON that is safe in a script element: no string in it can close the element.

    Examples
    --------
    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# -- numbers as text ------------------------------------------------------------------------------------------------


def count(value: float) -> str:
    """Return a whole number with thousands separators.

    Examples
    --------
    >>> count(1234567)
    '1,234,567'
    """
    return f"{int(value):,}"


def brief(value: float) -> str:
    """Return a whole number in at most five characters.

    Examples
    --------
    >>> brief(950), brief(9_999), brief(100_349), brief(1_250_000)
    ('950', '9,999', '100k', '1.2M')
    """
    if value < 10_000:
        return count(value)
    return (
        f"{value / 1000:.0f}k" if value < 999_500 else f"{value / 1e6:.3g}M" if value >= 1e8 else f"{value / 1e6:.1f}M"
    )


def percent(value: float | None) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.0004), percent(0.123), percent(0.9996), percent(1), percent(None)
    ('<0.1%', '12.3%', '>99.9%', '100%', '-')
    """
    if value is None:
        return "-"
    if 0 < value < 0.001:
        return "<0.1%"
    if 0.999 < value < 1:
        return ">99.9%"
    return "100%" if value == 1 else "0%" if value == 0 else f"{100 * value:.1f}%"


def digits(value: float | None) -> str:
    """Return a number with about three digits.

    Examples
    --------
    >>> digits(0.12345), digits(12.345), digits(123456.7), digits(0.0000123), digits(None)
    ('0.123', '12.3', '123,457', '1.23e-05', '-')
    """
    if value is None:
        return "-"
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-3:
        return f"{value:.3g}"
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3f}"


def seconds(value: float) -> str:
    """Return a duration.

    Examples
    --------
    >>> seconds(0.0123), seconds(3.21), seconds(75.2), seconds(4000)
    ('12 ms', '3.2 s', '1 min 15 s', '1 h 6 min')
    """
    if value < 0.9995:
        return f"{1000 * value:.0f} ms"
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def line(values: list[float], low: float, high: float) -> str:
    """Return the SVG path of a line plot in a square of 100 units: the first value on the left, ``high`` at the top.

    Examples
    --------
    >>> line([1, 0, 0.5], 0, 1)
    'M0 0L50 100L100 50'
    """
    across, up = 100 / max(len(values) - 1, 1), 100 / max(high - low, 1e-12)
    return "M" + "L".join(f"{i * across:.4g} {(high - value) * up:.4g}" for i, value in enumerate(values))
