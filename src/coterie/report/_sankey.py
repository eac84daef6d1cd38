"""A Sankey diagram of the rows' flows between the clusters of two fits, as SVG paths, 100 units wide."""

from __future__ import annotations

from typing import Any, TypeAlias

Places: TypeAlias = dict[int, dict[str, float]]  # node -> "top", "height", and "unit", the height of one row

LEFT, RIGHT, WIDTH = 12.0, 86.0, 2.0
UNITS_PER_NODE = 4.2  # of height, so that labels have room
GAP = 1.2


def sankey(against: dict[str, Any]) -> dict[str, Any]:
    """Return the nodes, flows and height of the diagram.

    Examples
    --------
    >>> two = {"sizes": [2, 2], "other_sizes": [4], "flows": [[0, 0, 2], [1, 0, 2]]}
    >>> two["matches"] = [{"cluster": 0, "other": 0}, {"cluster": 1, "other": None}]
    >>> drawn = sankey(two)
    >>> len(drawn["nodes"]), len(drawn["flows"]), [node["cluster"] for node in drawn["nodes"]]
    (3, 2, [0, 1, 0])
    """
    partner = {line["other"]: line["cluster"] for line in against["matches"] if line["other"] is not None}
    order = [c for c, size in enumerate(against["sizes"]) if size]
    others = [line["other"] for line in against["matches"] if line["other"] is not None]
    others += [o for o, size in enumerate(against["other_sizes"]) if size and o not in partner]
    height = UNITS_PER_NODE * max(len(order), len(others), 3)
    total = sum(against["sizes"])
    starts = stack([against["sizes"][c] for c in order], order, height, total)
    ends = stack([against["other_sizes"][o] for o in others], others, height, total)
    nodes = [node(LEFT, starts[c], str(c), c, "end") for c in order]
    nodes += [node(RIGHT, ends[o], str(o), partner.get(o), "start") for o in others]
    return {"height": round(height, 2), "nodes": nodes, "flows": flows(against["flows"], starts, ends)}


def stack(sizes: list[int], names: list[int], height: float, total: int) -> Places:
    """Return the top, height and row height of nodes that are stacked one below the other."""
    unit = (height - GAP * max(len(sizes) - 1, 0)) / max(total, 1)
    found, top = {}, 0.0
    for name, size in zip(names, sizes, strict=True):
        found[name] = {"top": top, "height": unit * size, "unit": unit}
        top += unit * size + GAP
    return found


def node(x: float, place: dict[str, float], label: str, cluster: int | None, anchor: str) -> dict[str, Any]:
    """Return the coordinates of a node and of its label."""
    return {
        "x": x,
        "y": round(place["top"], 3),
        "height": round(max(place["height"], 0.15), 3),
        "middle": round(place["top"] + place["height"] / 2, 3),
        "text": x - 1 if anchor == "end" else x + WIDTH + 1,
        "anchor": anchor,
        "label": label,
        "cluster": cluster,
    }


def flows(listed: list[list[int]], starts: Places, ends: Places) -> list[dict[str, Any]]:
    """Return flows as ribbons; those of one node are stacked in the order of their other ends, so that few cross."""
    left = {name: place["top"] for name, place in starts.items()}
    right = {name: place["top"] for name, place in ends.items()}
    arrivals = {}
    for cluster, other, rows in sorted(listed, key=lambda flow: (ends[flow[1]]["top"], starts[flow[0]]["top"])):
        arrivals[cluster, other] = right[other]
        right[other] += rows * ends[other]["unit"]
    found = []
    for cluster, other, rows in sorted(listed, key=lambda flow: (starts[flow[0]]["top"], ends[flow[1]]["top"])):
        top, end = left[cluster], arrivals[cluster, other]
        left[cluster] += rows * starts[cluster]["unit"]
        path = ribbon(top, left[cluster], end, end + rows * ends[other]["unit"])
        found.append({"cluster": cluster, "other": other, "rows": rows, "path": path})
    return found


def ribbon(top: float, bottom: float, end_top: float, end_bottom: float) -> str:
    """Return the SVG path of a flow's outline."""
    start, stop, middle = LEFT + WIDTH, RIGHT, (LEFT + WIDTH + RIGHT) / 2
    return (
        f"M{start:g} {top:.2f}C{middle:g} {top:.2f} {middle:g} {end_top:.2f} {stop:g} {end_top:.2f}"
        f"V{end_bottom:.2f}C{middle:g} {end_bottom:.2f} {middle:g} {bottom:.2f} {start:g} {bottom:.2f}Z"
    )
