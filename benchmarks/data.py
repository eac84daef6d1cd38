"""The data sets that methods are measured on, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from benchmarks.dataset import DataSet, MissingDataError, bundle
from benchmarks.unequal import unequal_sets
from coterie import datasets
from coterie.datasets import MultiViewData

LSA_COLUMNS = 100


def load_mfeat(home: Any) -> MultiViewData:
    """Return UCI's Multiple Features."""
    return datasets.fetch_mfeat(data_home=home)


# scikit-image's default when the paper was written; the current default gives better clusters with every method.
HOG_BLOCK_NORM = "L1"


def load_usps(home: Any) -> MultiViewData:
    """Return USPS as pixels, GIST and HOG."""
    return datasets.fetch_usps(features=True, block_norm=HOG_BLOCK_NORM, data_home=home)


def load_mnist(home: Any) -> MultiViewData:
    """Return MNIST as pixels, GIST and HOG."""
    return datasets.fetch_mnist(features=True, block_norm=HOG_BLOCK_NORM, data_home=home)


def load_nus_like(home: Any) -> MultiViewData:
    """Return the substitute for NUS-WIDE-Object, in float32."""
    data = datasets.load_views("cifar10_nusstyle_30k", data_home=home)
    views = {name: view.astype(np.float32) for name, view in data.views.items()}
    return MultiViewData(views, data.target, "nus_like")


def with_lsa(name: str) -> Callable[[Any], MultiViewData]:
    """Return a loader of a bundle of weighted words, each view reduced by LSA."""

    @cache  # LSA takes seconds, and its result is small
    def load(home: Any) -> MultiViewData:
        from coterie.features import lsa

        data = datasets.load_views(name, data_home=home)
        views = {view: lsa(words, LSA_COLUMNS, weighting=None) for view, words in data.views.items()}
        return MultiViewData(views, data.target, f"{name} with LSA")

    return load


def synthetic(n_rows: int = 2000, **settings: Any) -> Callable[[Any], MultiViewData]:
    """Return a loader of synthetic rows with known clusters."""
    return lambda home: datasets.make_views(n_rows, 6, random_state=7, **settings)


def load_duplicated(home: Any) -> MultiViewData:
    """Return rows with four copies of the weakest view, which must not outvote the others."""
    data = datasets.make_views(2000, 6, n_columns=(20, 20, 10), separation=2.0, n_weak=1, random_state=7)
    copies = {f"view2_copy{number}": data.views["view2"] for number in range(3)}
    return MultiViewData({**data.views, **copies}, data.target, "duplicated")


def with_noise(load: Callable[[Any], MultiViewData], count: int) -> Callable[[Any], MultiViewData]:
    """Return a loader that adds up to three views of pure noise, of 50, 100 and 150 columns."""

    def noisy(home: Any) -> MultiViewData:
        data = load(home)
        rng = np.random.default_rng(7)
        n = next(iter(data.views.values())).shape[0]
        noise = {f"noise{i + 1}": rng.standard_normal((n, 50 * (i + 1))) for i in range(count)}
        return MultiViewData({**data.views, **noise}, data.target, data.name)

    return noisy


def with_gaps(load: Callable[[Any], MultiViewData], share: float) -> Callable[[Any], MultiViewData]:
    """Return a loader that removes a share of the (row, view) pairs; every row keeps at least one view."""

    def gappy(home: Any) -> MultiViewData:
        data = load(home)
        rng = np.random.default_rng(7)
        n = next(iter(data.views.values())).shape[0]
        gone = rng.random((n, len(data.views))) < share  # (n, V)
        gone[np.arange(n), rng.integers(len(data.views), size=n)] &= ~gone.all(axis=1)
        views = {
            name: np.where(gone[:, [v]], np.nan, view.astype(np.float32))
            for v, (name, view) in enumerate(data.views.items())
        }
        return MultiViewData(views, data.target, data.name)

    return gappy


def troubled(name: str, title: str, n_views: int, load: Callable[[Any], MultiViewData]) -> dict[str, DataSet]:
    """Return the variants of a data set: with one to three views of noise, and with 30 and 50 % of pairs missing."""
    noisy = {
        f"{name}_noise{count}": DataSet(f"{title}, {count} of noise", n_views + count, with_noise(load, count))
        for count in (1, 2, 3)
    }
    gappy = {
        f"{name}_missing{percent}": DataSet(f"{title}, {percent} % missing", n_views, with_gaps(load, percent / 100))
        for percent in (30, 50)
    }
    return {**noisy, **gappy}


def load_digits(home: Any) -> MultiViewData:
    """Return scikit-learn's digits, seen in four ways."""
    return datasets.load_digit_views()


FOUR = (20, 20, 10, 10)

PLAIN = {
    "uci": DataSet("UCI", 6, load_mfeat, paper="UCI"),
    "usps": DataSet("USPS", 3, load_usps, paper="USPS"),
    "mnist": DataSet("MNIST", 3, load_mnist, paper="MNIST"),
    "nus_like": DataSet("NUS-like", 5, load_nus_like),
    "reuters_1200": DataSet("Reuters 1200", 5, bundle("reuters_1200")),
    "reuters_1200_lsa": DataSet("Reuters 1200, LSA", 5, with_lsa("reuters_1200")),
    "reuters_600": DataSet("Reuters 600", 5, bundle("reuters_600_fullvocab")),
    "reuters_600_lsa": DataSet("Reuters 600, LSA", 5, with_lsa("reuters_600_fullvocab")),
    "scene15": DataSet("Scene-15", 3, bundle("scene15")),
    "100leaves": DataSet("100 leaves", 3, bundle("100leaves")),
    "bbcsport": DataSet("BBCSport", 2, bundle("bbcsport")),
    "citeseer": DataSet("Citeseer", 2, bundle("citeseer")),
    "digits": DataSet("Digits", 4, load_digits),
    "weak": DataSet("Weak views", 4, synthetic(n_columns=FOUR, separation=2.0, n_weak=2)),
    "scaled": DataSet("Bad scales", 4, synthetic(n_columns=FOUR, separation=2.0, badly_scaled=True)),
    "duplicated": DataSet("Duplicated view", 6, load_duplicated),
    "missing": DataSet("Missing views", 4, synthetic(n_columns=FOUR, separation=2.0, missing=0.3)),
    "noise": DataSet("Noise views", 4, synthetic(n_columns=FOUR, separation=2.0, n_noise=2)),
    **troubled("uci", "UCI", 6, load_mfeat),
    **troubled("digits", "Digits", 4, load_digits),
    **troubled("scene15", "Scene-15", 3, bundle("scene15")),
}
UNEQUAL = unequal_sets(PLAIN)
DATA = {**PLAIN, **UNEQUAL}


def load_data(name: str, data_home: Any = None, rows: int | None = None) -> MultiViewData:
    """Return a data set by name; ``rows`` keeps a random sample of that size, always the same one.

    Raises
    ------
    MissingDataError
        If its files, or the package that makes its features, are missing.
    """
    try:
        data = DATA[name].load(data_home)
    except (OSError, ImportError, datasets.DownloadError) as error:
        raise MissingDataError(f"{name}: {error}") from error
    if data.target is None:
        raise MissingDataError(f"{name}: it has no classes to compare with.")
    if rows is None or rows >= len(data.target):
        return data
    kept = np.sort(np.random.default_rng(0).choice(len(data.target), rows, replace=False))
    views = {view: table[kept] for view, table in data.views.items()}
    return MultiViewData(views, data.target[kept], data.name)


def shuffled(data: MultiViewData, seed: int) -> MultiViewData:
    """Return the rows and their classes in random order, because files are often sorted by class."""
    assert data.target is not None
    order = np.random.default_rng(seed).permutation(len(data.target))  # (n,)
    views = {name: reordered(table, order) for name, table in data.views.items()}
    return MultiViewData(views, data.target[order], data.name)


def reordered(table: Any, order: np.ndarray) -> Any:
    """Return a table with permuted rows; the columns of a square table, such as a citation graph, are permuted, too.

    Examples
    --------
    >>> reordered(np.array([[0, 1], [2, 3]]), np.array([1, 0]))
    array([[3, 2],
           [1, 0]])
    """
    rows = table[order]
    return rows[:, order] if table.shape[0] == table.shape[1] else rows
