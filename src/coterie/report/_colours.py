"""Colours and shapes of clusters, for light and dark backgrounds.

Forty colours of OKLab lightness 0.46 to 0.84. The distance of two colours is the smallest of those in normal and in
simulated protan, deutan and tritan vision; the colours are chosen to be as far apart as possible, the first few
farthest. benchmarks/scripts/palette.py makes them. The shape changes every ten clusters, for readers to whom two
colours look alike.
"""

from __future__ import annotations

# fmt: off
PALETTE = (
    "#317ebb", "#ffbc00", "#b11600", "#4edeff", "#859000", "#ff6f85", "#7a2ca6", "#bc85ff",
    "#006f4e", "#a66485", "#21b1a6", "#9bde90", "#b1b1d3", "#59597a", "#c89b43", "#7a64de",
    "#8590d3", "#b15900", "#6f7a59", "#0059c8", "#ff9b6f", "#a63790", "#00d3a6", "#909b7a",
    "#d37a59", "#7a4e2c", "#16852c", "#e9bcc8", "#4385f4", "#c84ea6", "#e990f4", "#d3436f",
    "#de85bc", "#d3b190", "#6459b1", "#b12c59", "#85b1ff", "#b164d3", "#9bbc00", "#439b4e",
)
# fmt: on

CLUSTERS_PER_SHAPE = 10

# SVG paths within a square from -1 to 1, about equal in area.
SHAPES = (
    "M.9 0A.9.9 0 1 1-.9 0A.9.9 0 1 1 .9 0Z",
    "M-.8-.8H.8V.8H-.8Z",
    "M0-1.05L1.05.8H-1.05Z",
    "M0-1.1L1.1 0L0 1.1L-1.1 0Z",
    "M0 1.05L1.05-.8H-1.05Z",
    "M-.35-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z",
    "M-1-.6L-.6-1L0-.4L.6-1L1-.6L.4 0L1 .6L.6 1L0 .4L-.6 1L-1 .6L-.4 0Z",
    "M-1-1H1L.25 0L1 1H-1L-.25 0Z",
    "M-1-1L0-.25L1-1V1L0 .25L-1 1Z",
    "M0-1.1L.3-.35L1.05-.3L.5.2L.65.95L0 .55L-.65.95L-.5.2L-1.05-.3L-.3-.35Z",
)

# From low to high; lightness rises evenly, so that the order is visible without telling red from green.
RAMP = ("#3d4a8f", "#2a8f93", "#8cbf6a", "#eab13a")


def colour_of(cluster: int) -> str:
    """Return a cluster's colour.

    Examples
    --------
    >>> colour_of(0) == colour_of(40) == PALETTE[0]
    True
    """
    return PALETTE[cluster % len(PALETTE)]


def shape_of(cluster: int) -> int:
    """Return the number of a cluster's shape.

    Examples
    --------
    >>> shape_of(3), shape_of(13), shape_of(103)
    (0, 1, 0)
    """
    return cluster // CLUSTERS_PER_SHAPE % len(SHAPES)
