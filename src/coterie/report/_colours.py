"""Colours and shapes that tell up to a hundred clusters apart, on light and on dark paper.

The ten colours are of lightness 0.5 to 0.8 and chosen one after the other, each as far as can be from those before for
the least of normal and colour-blind eyes (OKLab distances, with protan, deutan and tritan vision simulated). Ten
colours times ten shapes make a hundred marks; on the map, numbers say what colours and shapes do not.
"""

from __future__ import annotations

PALETTE = (
    "#317ebb",
    "#e77022",
    "#1fbfa1",
    "#865824",
    "#c08cf0",
    "#a5798a",
    "#79b06a",
    "#bd3962",
    "#6b48b8",
    "#f0a432",
)

# Outlines within a square from -1 to 1, about equal in area.
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

# From low to high; even in lightness, and readable without red and green.
RAMP = ("#3d4a8f", "#2a8f93", "#8cbf6a", "#eab13a")


def colour_of(cluster: int) -> str:
    """Return a cluster's colour.

    Examples
    --------
    >>> colour_of(0) == colour_of(10) == PALETTE[0]
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
    return cluster // len(PALETTE) % len(SHAPES)
