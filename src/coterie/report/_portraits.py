"""Each cluster's typical rows, and the columns and words that distinguish it in every view."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from coterie.report._text import shown
from coterie.views import Table, View, column_moments

MOST_CLUSTERS = 100  # at most this many clusters get typical rows and contrasts, the largest first
CONTRASTS_PER_VIEW = 3  # columns that are named for a cluster,
CONTRASTS_PER_CLUSTER = 12  # and the most over all views
LEAST_CONTRAST = 0.1  # standard deviations
WORDS = 8
LEAST_RATIO = 1.2  # of a word's share inside to its share elsewhere
WIDEST = 20_000  # columns that are compared; of a wider view, those with most nonzeros
COLUMN_TILE = 2048
NUMBERED = 0.9  # from this share of numbered columns on, the names of a view's columns are meaningless


@dataclass(frozen=True)
class Appearance:
    """How to show the views that are images or words."""

    images: dict[str, tuple[int, int, int]]  # view -> height, width, channels
    words: dict[str, list[str]]  # view -> the word of each column


def check_appearance(images: Any, words: Any, widths: Mapping[str, int]) -> Appearance:
    """Return ``images`` and ``words``, after checking that they match the views.

    ``widths`` are the views' numbers of columns by name; empty if they are not known.
    """
    for name in [*(images or {}), *(words or {})]:
        if widths and name not in widths:
            raise ValueError(f"There is no view {shown(name)!r} to be shown; there are {', '.join(widths)}.")
    found = Appearance({}, {})
    for name, shape in (images or {}).items():
        sides = tuple(int(side) for side in shape)
        if len(sides) not in (2, 3) or (len(sides) == 3 and sides[2] not in (1, 3, 4)):
            raise ValueError(
                f"images[{shown(name)!r}] must be (height, width) or (height, width, channels) with 1, 3 or 4 "
                f"channels. Got {shape!r} instead."
            )
        if widths and int(np.prod(sides)) != widths[name]:
            raise ValueError(
                f"images[{shown(name)!r}] is {shape!r}, which makes {int(np.prod(sides))} values, but the view has "
                f"{widths[name]} columns. Pass the images' height, width and channels."
            )
        found.images[name] = (sides[0], sides[1], sides[2] if len(sides) == 3 else 1)
    for name, vocabulary in (words or {}).items():
        listed = sorted(vocabulary, key=vocabulary.__getitem__) if isinstance(vocabulary, Mapping) else vocabulary
        if widths and len(listed) != widths[name]:
            raise ValueError(
                f"words[{shown(name)!r}] has {len(listed)} words, but the view has {widths[name]} columns. "
                "Pass one word per column."
            )
        found.words[name] = listed
    return found


# -- typical rows -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Typical:
    """Representative rows of one cluster."""

    central: np.ndarray  # the medoid, then the rows of highest confidence
    border: np.ndarray  # the rows of lowest confidence, the lowest first


def typical_rows(
    labels: np.ndarray, confidence: np.ndarray, medoids: np.ndarray, clusters: np.ndarray
) -> dict[int, Typical]:
    """Return central and border rows of the given clusters, fewer of each if there are many clusters."""
    central, border = (7, 4) if len(clusters) <= 20 else (5, 3) if len(clusters) <= 50 else (4, 2)
    order = np.lexsort((-confidence, labels))  # by cluster, highest confidence first
    bounds = np.searchsorted(labels[order], np.arange(len(medoids) + 1))
    found = {}
    for cluster in clusters:
        members = order[bounds[cluster] : bounds[cluster + 1]]
        medoid = medoids[cluster]
        first = [medoid] if medoid >= 0 else []
        sure = [row for row in members[: central + 1] if row != medoid][: central - 1]
        unsure = [row for row in members[::-1][: border + central] if row != medoid and row not in sure][:border]
        found[int(cluster)] = Typical(np.array([*first, *sure], dtype=int), np.array(unsure, dtype=int))
    return found


# -- contrasts ------------------------------------------------------------------------------------------------------


def contrasts(rows: Table, labels: np.ndarray, n_clusters: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield for every cluster the columns' means inside and outside, and their difference in standard deviations."""
    members = membership(labels, n_clusters)  # (k, m)
    counts = members.sum(axis=1)  # (k,)
    sums = column_sums(members, rows)  # (k, d)
    total = sums.sum(axis=0)
    moments = column_moments(rows)
    std = np.where(moments.varies(), moments.std, np.inf)  # (d,)
    for cluster, count in enumerate(counts):
        inside = sums[cluster] / max(count, 1)
        outside = (total - sums[cluster]) / max(counts.sum() - count, 1)
        apart = count > 0 and count < counts.sum()
        yield inside, outside, (inside - outside) / std if apart else np.zeros(len(std))


def membership(labels: np.ndarray, n_clusters: int) -> sparse.csr_array:
    """Return the indicator matrix of clusters and rows, (k, m)."""
    ones = np.ones(len(labels))
    return sparse.csr_array((ones, (labels, np.arange(len(labels)))), shape=(n_clusters, len(labels)))


def column_sums(members: sparse.csr_array, rows: Table) -> np.ndarray:
    """Return the columns' sums over each cluster."""
    if sparse.issparse(rows):
        return (members @ rows.astype(np.float64)).toarray()  # (k, d)
    sums = np.empty((members.shape[0], rows.shape[1]))
    for start in range(0, rows.shape[1], COLUMN_TILE):
        tile = slice(start, start + COLUMN_TILE)
        sums[:, tile] = members @ rows[:, tile].astype(np.float64)
    return sums


def busiest_columns(rows: Table) -> np.ndarray:
    """Return the numbers of at most WIDEST columns, those with most nonzeros."""
    d = rows.shape[1]
    if d <= WIDEST:
        return np.arange(d)
    entries = np.bincount(rows.indices, minlength=d) if sparse.issparse(rows) else np.count_nonzero(rows, axis=0)
    return np.sort(np.argsort(-entries, kind="stable")[:WIDEST])


def describe_columns(view: View, rows: Table, labels: np.ndarray, n_clusters: int) -> list[list[dict[str, Any]]]:
    """Return for every cluster the columns whose means inside and outside differ most, in standard deviations."""
    chosen = busiest_columns(rows)
    rows = rows if len(chosen) == rows.shape[1] else rows[:, chosen]
    found = []
    for inside, outside, gaps in contrasts(rows, labels, n_clusters):
        top = np.argsort(-np.abs(gaps), kind="stable")[:CONTRASTS_PER_VIEW]
        found.append(
            [
                {
                    "column": column_name(view, int(chosen[c])),
                    "difference": round(float(gaps[c]), 3),
                    "inside": tidy(inside[c]),
                    "outside": tidy(outside[c]),
                }
                for c in top
                if abs(gaps[c]) >= LEAST_CONTRAST
            ]
        )
    return found


def column_name(view: View, number: int) -> str:
    """Return a column's name, or its number."""
    return f"column {number}" if view.columns is None else shown(view.columns[number])


def describe_words(
    vocabulary: list[str], rows: Table, labels: np.ndarray, n_clusters: int
) -> list[list[dict[str, Any]]]:
    """Return every cluster's most distinctive words, by share inside * log(share inside / share outside)."""
    chosen = busiest_columns(rows)
    occurs = (sparse.csr_array(rows[:, chosen]) != 0).astype(np.float64)  # (m, d)
    found = []
    for inside, outside, _ in contrasts(occurs, labels, n_clusters):
        least = 0.5 / max(len(labels), 1)  # keeps the ratio finite for words that occur only inside
        telling = inside * np.log((inside + least) / (outside + least))
        top = np.argsort(-telling, kind="stable")[:WORDS]
        found.append(
            [
                {
                    "word": shown(vocabulary[int(chosen[c])], 32),
                    "inside": round(float(inside[c]), 4),
                    "outside": round(float(outside[c]), 4),
                }
                for c in top
                if telling[c] > 0 and inside[c] >= LEAST_RATIO * outside[c]
            ]
        )
    return found


def has_meaning(names: Sequence[str] | None) -> bool:
    """Whether columns have meaningful names, unlike the numbered ones of embeddings, such as "t0".

    Names of entries of a column of lists, such as "text_embedding[0]", are numbered as well.

    Examples
    --------
    >>> has_meaning(["age", "income"]), has_meaning(["t0", "t1", "t2"]), has_meaning(None)
    (True, False, False)
    >>> has_meaning(["text_embedding[0]", "text_embedding[1]"])
    False
    """
    if names is None:
        return False
    numbered = sum(re.fullmatch(r"\D{0,12}\d+|.*\[\d+\]", name) is not None for name in names)
    return numbered < NUMBERED * len(names)


def words_of_texts(texts: Sequence[str]) -> tuple[list[str], sparse.csr_array]:
    """Return the words that occur in more than one text, and the (texts, words) occurrence matrix."""
    found = [set(re.findall(r"[^\W\d_]{3,}", text.lower())) for text in texts]
    counts = Counter(word for words in found for word in words)
    vocabulary = sorted(word for word, count in counts.items() if count > 1)
    places = {word: number for number, word in enumerate(vocabulary)}
    held = [sorted(places[word] for word in words if word in places) for words in found]
    ends = np.cumsum([0, *map(len, held)])
    flat = np.array([number for numbers in held for number in numbers], dtype=np.int64)
    shape = (len(found), len(vocabulary))
    return vocabulary, sparse.csr_array((np.ones(len(flat)), flat, ends), shape=shape)


def keep_strongest(clusters: list[dict[str, Any]]) -> None:
    """Keep at most CONTRASTS_PER_CLUSTER columns of each cluster over all views, the strongest (and ties), in place."""
    for cluster in clusters:
        named = [line for view in cluster["views"] for line in view.get("columns", ())]
        if len(named) <= CONTRASTS_PER_CLUSTER:
            continue
        least = sorted((abs(line["difference"]) for line in named), reverse=True)[CONTRASTS_PER_CLUSTER - 1]
        for view in cluster["views"]:
            view["columns"] = [line for line in view.get("columns", ()) if abs(line["difference"]) >= least]


def tidy(value: Any) -> float | None:
    """Return a number rounded to four significant digits; None for NaN and infinity."""
    return float(f"{float(value):.4g}") if np.isfinite(value) else None
