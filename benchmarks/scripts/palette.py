"""The report's forty colours: as far apart as possible in normal and in three kinds of colour-blind vision.

Candidates are a grid of RGB colours within limits of OKLab lightness and chroma. The distance of a pair is the smallest
of its OKLab distance and, times ALLOWANCE, its distances in simulated protan, deutan and tritan vision (Machado,
Oliveira and Fernandes 2009, severity 1); the allowance is because colour-blind vision spans a plane of colours, not a
space. Colours are chosen greedily, then swapped until no swap helps, and ordered such that the first few are farthest
apart.
"""

from __future__ import annotations

import numpy as np

COUNT = 40
LIGHTNESS = (0.46, 0.84)  # visible on white and on black
CHROMA = (0.035, 0.19)  # grey is reserved for missing values; saturated red, green and blue would dominate
ALLOWANCE = 2.0
START = "#317ebb"

SIGHTS = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_CONES = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
TO_LAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip


def oklab(linear: np.ndarray) -> np.ndarray:
    return np.cbrt(np.clip(linear, 0, 1) @ TO_CONES.T) @ TO_LAB.T


def linear_of(rgb: np.ndarray) -> np.ndarray:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def candidates() -> np.ndarray:
    """Return the colours of an RGB grid within LIGHTNESS and CHROMA, (m, 3), 8 bits a channel."""
    steps = np.round(np.linspace(0, 255, 24)).astype(int)
    rgb = np.array(np.meshgrid(steps, steps, steps)).reshape(3, -1).T
    lab = oklab(linear_of(rgb / 255))
    light = (lab[:, 0] > LIGHTNESS[0]) & (lab[:, 0] < LIGHTNESS[1])
    chroma = np.hypot(lab[:, 1], lab[:, 2])
    return rgb[light & (chroma > CHROMA[0]) & (chroma < CHROMA[1])]


def distances(rgb: np.ndarray) -> np.ndarray:
    """Return the pairwise distances of colours, (m, m), the smallest over all kinds of vision."""
    linear = linear_of(rgb / 255)
    least = np.full((len(rgb), len(rgb)), np.inf, dtype=np.float32)
    for name, sight in SIGHTS.items():
        lab = oklab(linear @ sight.T).astype(np.float32)
        square = np.maximum((lab**2).sum(1)[:, None] + (lab**2).sum(1) - 2 * lab @ lab.T, 0)
        least = np.minimum(least, np.sqrt(square) * (1 if name == "normal" else ALLOWANCE))
    return least


def choose(gaps: np.ndarray, first: int) -> list[int]:
    chosen = [first]
    while len(chosen) < COUNT:
        chosen.append(int(gaps[chosen].min(axis=0).argmax()))
    for _ in range(2000):
        inside = gaps[np.ix_(chosen, chosen)] + np.eye(COUNT, dtype=np.float32) * 9
        worst = inside.min()
        pair = [int(at) for at in np.unravel_index(inside.argmin(), inside.shape)]
        best = max(((swap(gaps, chosen, at), at) for at in pair if at >= 1), default=None)
        if best is None or best[0][0] <= worst + 1e-6:
            break
        chosen[best[1]] = best[0][1]
    return chosen


def swap(gaps: np.ndarray, chosen: list[int], at: int) -> tuple[float, int]:
    rest = [c for i, c in enumerate(chosen) if i != at]
    reach = gaps[rest].min(axis=0)
    return float(reach.max()), int(reach.argmax())


def ordered(gaps: np.ndarray, chosen: list[int]) -> list[int]:
    """Return the colours in greedy order, so that the first few are as far apart as possible."""
    inside = gaps[np.ix_(chosen, chosen)]
    order = [0]
    while len(order) < len(chosen):
        reach = inside[order].min(axis=0)
        reach[order] = -1
        order.append(int(reach.argmax()))
    return [chosen[i] for i in order]


def main() -> None:
    start = np.array([[int(START[i : i + 2], 16) for i in (1, 3, 5)]])
    rgb = np.vstack([start, candidates()])
    gaps = distances(rgb)
    chosen = ordered(gaps, choose(gaps, 0))
    for place, number in enumerate(chosen):
        reach = gaps[number, chosen[:place]].min() if place else 1.0
        print("#" + "".join(f"{value:02x}" for value in rgb[number]), f"{reach:.3f}")


if __name__ == "__main__":
    main()
