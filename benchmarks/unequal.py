"""The data sets of the suite "unequal", by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.dataset import DataSet, bundle
from benchmarks.shapes import geometric_sizes, make_blobs, make_noisy, zipf, zipf_sizes
from coterie.datasets import MultiViewData

DRAWS = 3  # of each thinned set and of blobs; a set's name ends in the number of its draw
BLOB_ROWS = 3000
TWO, THREE, FOUR = (20, 10), (20, 10, 5), (20, 20, 10, 10)

# Clusters that only one view shows: six (two per view) beside one that all views show, or two small ones beside four.
ALONE = np.array([[c == 0 or (c - 1) // 2 == v for c in range(7)] for v in range(3)])  # (V, k)
SMALL_ALONE = np.array([[1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 1]], dtype=bool)  # (V, k)


def one_small(percent: int) -> tuple[int, int, int]:
    """Return the sizes of three clusters of which one has a given share of the rows."""
    large = BLOB_ROWS * (100 - percent) // 200
    return large, large, BLOB_ROWS * percent // 100


# Name -> title, rows of each cluster, columns of each view, and which view shows which cluster.
BLOBS: dict[str, tuple[str, Sequence[int], Sequence[int], np.ndarray | None]] = {
    **{f"blobs_{p}pct": (f"3 blobs, one of {p} %", one_small(p), TWO, None) for p in (1, 2, 5, 10)},
    "blobs_ten": ("10 blobs of 40 to 4,000 rows", geometric_sizes(4000, 40, 10), TWO, None),
    "blobs_geometric": ("8 blobs, each half of the last", geometric_sizes(2048, 16, 8), THREE, None),
    "blobs_two_three": ("5 blobs, 2 large and 3 small", (2000,) * 2 + (60,) * 3, TWO, None),
    "blobs_two_six": ("8 blobs, 2 large and 6 small", (2000,) * 2 + (60,) * 6, THREE, None),
    "blobs_thirty": ("30 blobs of sizes 1/rank", zipf_sizes(1500, 30), FOUR, None),
    "alone_all": ("7 blobs, 6 of which one view shows", (400,) * 7, (10, 10, 10), ALONE),
    "alone_small": ("6 blobs, 2 small ones of which one view shows", (700,) * 4 + (100,) * 2, TWO, SMALL_ALONE),
}

# Name -> columns of the views, and rows; each with 20 clusters, in white and in correlated noise.
NOISY = {
    "100": ((64, 36), 5_000),
    "300": ((200, 100), 20_000),
    "1000": ((600, 400), 20_000),
    "896": ((512, 256, 128), 50_000),
    "100_many": ((64, 36), 200_000),
}

THINNED = ("uci", "usps", "mnist", "digits", "bbcsport", "reuters_1200", "scene15", "100leaves", "hw2sources", "mnist4")
OTHERS = {  # not in other suites
    "hw2sources": DataSet("Digits of two sources", 2, bundle("hw2sources")),
    "mnist4": DataSet("MNIST, 4 classes", 3, bundle("mnist4")),
}

# Sets that take minutes with some method; --quick leaves them out.
LARGE = ("mnist", "usps", "300", "1000", "896", "100_many", "citeseq")


def thinned(load: Callable[[Any], MultiViewData], draw: int) -> Callable[[Any], MultiViewData]:
    """Return a loader of a data set whose classes are thinned to sizes proportional to 1 / rank."""

    def thin(home: Any) -> MultiViewData:
        data = load(home)
        assert data.target is not None
        views, target = zipf(data.views, data.target, draw)
        return MultiViewData(views, target, data.name)

    return thin


def load_cells(key: str, home: Any) -> MultiViewData:
    """Return the cells of CITE-seq with their coarse or fine types as target."""
    from coterie.datasets import load_views
    from coterie.datasets._home import find_home

    data = load_views("citeseq_pbmc10k", data_home=home)
    with np.load(find_home(home) / "citeseq_pbmc10k.npz", allow_pickle=False) as file:
        return MultiViewData(data.views, file[key].astype(np.int32), "CITE-seq")


def zipf_sets(plain: Mapping[str, DataSet]) -> dict[str, DataSet]:
    """Return the thinned sets, by name."""
    whole = {**plain, **OTHERS}
    return {
        f"zipf_{name}_{draw}": DataSet(
            f"{whole[name].title}, 1/rank", whole[name].n_views, thinned(whole[name].load, draw)
        )
        for name in THINNED
        for draw in range(DRAWS)
    }


def blob_sets() -> dict[str, DataSet]:
    """Return the blobs, by name."""
    return {
        f"{name}_{draw}": DataSet(title, len(columns), blob_maker(sizes, columns, draw, shown))
        for name, (title, sizes, columns, shown) in BLOBS.items()
        for draw in range(DRAWS)
    }


def blob_maker(
    sizes: Sequence[int], columns: Sequence[int], draw: int, shown: np.ndarray | None
) -> Callable[[Any], MultiViewData]:
    """Return a loader of synthetic blobs."""
    return lambda home: make_blobs(sizes, columns, draw, shown=shown)


def noisy_sets() -> dict[str, DataSet]:
    """Return the sets with many noisy columns, by name."""
    return {
        f"{kind}_{name}": DataSet(
            f"{kind.capitalize()} noise, {' + '.join(map(str, columns))} columns, {rows:,} rows",
            len(columns),
            noisy_maker(rows, columns, kind == "correlated"),
        )
        for name, (columns, rows) in NOISY.items()
        for kind in ("white", "correlated")
    }


def noisy_maker(rows: int, columns: Sequence[int], correlated: bool) -> Callable[[Any], MultiViewData]:
    """Return a loader of synthetic rows with many noisy columns."""
    return lambda home: make_noisy(rows, 20, columns, 0, correlated=correlated)


CELLS = {
    "citeseq_5": DataSet("CITE-seq, 5 types", 2, partial(load_cells, "y")),
    "citeseq_10": DataSet("CITE-seq, 10 types", 2, partial(load_cells, "y_l2")),
}


def unequal_sets(plain: Mapping[str, DataSet]) -> dict[str, DataSet]:
    """Return all sets of the suite, by name; ``plain`` holds the sets to be thinned."""
    return {**blob_sets(), **zipf_sets(plain), **CELLS, **noisy_sets()}


def is_small(name: str) -> bool:
    """Return whether every method takes seconds on a data set of the suite.

    Examples
    --------
    >>> is_small("zipf_uci_0"), is_small("zipf_mnist_0"), is_small("white_100"), is_small("white_1000")
    (True, False, True, False)
    """
    kind, _, rest = name.partition("_")
    if kind == "zipf":
        rest = rest.rpartition("_")[0]
    return kind not in LARGE and rest not in LARGE
