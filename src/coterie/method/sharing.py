"""Directions that several views share: noisy views are reduced to what another view confirms.

Noise of one view is independent of the others', whatever its covariance; a cluster shows in several views at once. So
canonical correlations between the views find the directions in which clusters differ, where the directions of largest
variance may be pure noise (Chaudhuri and others 2009; generalised to several views by MAXVAR).

Second moments give these directions only roughly. The means of the clusters that are found in them are more precise, so
k-means and the span of its centroids alternate: linear discriminant analysis without labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh, svd

from coterie.arrays import to_host
from coterie.method.assignment import assign, best_centroids, fewer_runs
from coterie.method.landmarks import means_of_groups
from coterie.method.seeding import draw_starts
from coterie.threads import in_order
from coterie.views.preparation import Preparation, spread
from coterie.views.statistics import column_moments
from coterie.views.steps import Columns, Project, Step, apply_steps

# More columns over all views would make the eigenproblem too large; with fewer rows per column of a view, shared
# directions could not be distinguished from chance.
MOST_SHARED_COLUMNS = 4000
ROWS_PER_COLUMN = 5

# A view's principal directions with less than this share of its mean variance are left out; the same share is added to
# the variance of the others.
RIDGE = 0.01

# Directions at most, as for principal components.
MOST_DIRECTIONS = 200

# An eigenvalue is beyond chance if its excess over 1 is this many times that of the largest one of permuted rows: the
# latter varies by a few hundredths, and a direction that is shared by chance would lead to clusters that replicate.
BEYOND_CHANCE = 1.2

# Alternations of k-means and the span of its centroids, and starts of k-means besides the one from cluster-QR.
TURNS = 2
TURN_STARTS = 2

# Rows of a product that one thread makes at a time.
PART_ROWS = 2048


def shared_preparations(
    blocks: Sequence[Any],
    preparations: Sequence[Preparation],
    n_clusters: int,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> list[Preparation] | None:
    """Return preparations that project on the directions that views share, or None where none is beyond chance.

    ``blocks`` holds the rows of a sample, one block per view, and ``preparations`` their preparations so far.
    """
    complete = np.all([present_rows(block) for block in blocks], axis=0)  # (s,)
    if not complete.any():
        return None
    chains = [with_all_columns(preparation.steps) for preparation in preparations]
    rows = list(in_order(lambda block: known_rows(block, complete), blocks, n_threads))
    numbers = range(len(blocks))
    tables = list(in_order(lambda v: standardised(apply_steps(chains[v], rows[v])), numbers, n_threads))
    widths = [table.shape[1] for table, _ in tables]
    if len(tables) < 2 or sum(widths) > MOST_SHARED_COLUMNS or complete.sum() < ROWS_PER_COLUMN * max(widths):
        return None
    whiteners = [whitener(table, n_threads) for table, _ in tables]
    if not all(own.shape[1] for own in whiteners):  # a view in which all rows are equal
        return None
    white = [project(table, own, n_threads) for (table, _), own in zip(tables, whiteners, strict=True)]  # each (s, w)
    shared = shared_directions(white, min(2 * n_clusters, MOST_DIRECTIONS), rng, n_threads)
    if shared is None:
        return None
    telling = discriminant_directions(white, shared, n_clusters, rng, n_threads)

    def reduced(v: int) -> Preparation:
        part = (whiteners[v] @ telling[v]).astype(preparations[v].dtype)  # (d, m)
        steps, kind = (*chains[v], tables[v][1], Project(part)), f"{preparations[v].kind}, shared"
        plain = replace(preparations[v], steps=steps, factor=1.0, kind=kind)
        return replace(plain, factor=1.0 / spread(plain, rows[v]))

    return list(in_order(reduced, numbers, n_threads))


def present_rows(block: Any) -> np.ndarray:
    """Return which rows of a block have its view."""
    return np.ones(block.data.shape[0], dtype=bool) if block.present is None else to_host(block.present)


def known_rows(block: Any, rows: np.ndarray) -> Any:
    """Return some rows of a block, in host memory and in a precision that every step can work in."""
    return to_host(block.data)[rows].astype(np.float64)


def with_all_columns(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps without a final projection on the directions of largest variance, which may be pure noise."""
    return steps[:-1] if steps and isinstance(steps[-1], Project) else steps


def standardised(rows: Any) -> tuple[np.ndarray, Columns]:
    """Return rows with columns of mean zero and deviation one (constant ones are zero), and the step that does it."""
    rows = rows.toarray() if sparse.issparse(rows) else rows
    moments = column_moments(rows)
    varies = moments.varies()
    scale = np.where(varies, 1 / np.where(varies, moments.std, 1.0), 0.0)  # (d,)
    columns = Columns(moments.mean, scale)
    largest = max(np.abs(rows).max(initial=0), scale.max(initial=0))
    # Columns of tiny or huge units are standardised in float64: float32 cannot represent them, or their scale.
    precision = np.float32 if largest < np.finfo(np.float32).max else np.float64
    return columns(rows.astype(precision)).astype(np.float32), columns  # (s, d)


def shared_directions(
    white: Sequence[np.ndarray], most: int, rng: np.random.Generator, n_threads: int = 1
) -> list[np.ndarray] | None:
    """Return each view's part of the directions that white views share beyond chance (w x m), or None.

    With A the views side by side, the eigenvalues of A^T A / n are 1 in directions where views are independent, and up
    to the number of views where they agree. The largest eigenvalue after permuting the rows of every view is what
    chance gives with as many rows and columns.
    """
    values, vectors = eigh(correlation(white, n_threads=n_threads))
    orders = [rng.permutation(len(table)) for table in white]
    chance = eigh(correlation(white, orders, n_threads), eigvals_only=True)[-1]
    m = min(int((values > 1 + BEYOND_CHANCE * (chance - 1)).sum()), most)
    if m == 0:
        return None
    top = vectors[:, ::-1][:, :m]  # (sum of w, m)
    return np.split(top, np.cumsum([table.shape[1] for table in white])[:-1])


def discriminant_directions(
    white: Sequence[np.ndarray],
    directions: Sequence[np.ndarray],
    k: int,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> Sequence[np.ndarray]:
    """Return each view's directions in which clusters differ (w x k - 1), starting from the given ones."""
    for _ in range(TURNS if k > 1 else 0):
        directions = centroid_spans(white, group_along(white, directions, k, rng, n_threads), k)
    return directions


def group_along(
    tables: Sequence[np.ndarray], directions: Sequence[np.ndarray], k: int, rng: np.random.Generator, n_threads: int
) -> np.ndarray:
    """Return the clusters that k-means finds along the given directions of every view."""
    parts = [project(table, own, n_threads) for table, own in zip(tables, directions, strict=True)]  # each (s, m)
    rows, draws = np.hstack(parts), draw_starts(fewer_runs(TURN_STARTS, k), k, rng)
    return assign(rows, best_centroids(rows, draws, n_threads)).labels  # (s,)


def centroid_spans(tables: Sequence[np.ndarray], labels: np.ndarray, k: int) -> list[np.ndarray]:
    """Return the principal directions of the clusters' means in every view (w x k - 1), scaled by their spread."""
    found = []
    for table in tables:
        means, counts = means_of_groups(table, labels, k)
        _, lengths, directions = svd(means * np.sqrt(counts / len(table))[:, None], full_matrices=False)
        m = min(k - 1, MOST_DIRECTIONS)
        found.append((directions[:m].T * lengths[:m]).astype(np.float64))  # (w, m)
    return found


def whitener(table: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """Return W such that ``table @ W`` has nearly unit covariance; directions with hardly any variance are left out."""
    values, vectors = eigh(correlation([table], n_threads=n_threads))
    floor = RIDGE * values.mean()
    kept = values > floor
    return vectors[:, kept] * (values[kept] + floor) ** -0.5  # (d, w)


def correlation(
    tables: Sequence[np.ndarray], orders: Sequence[np.ndarray] | None = None, n_threads: int = 1
) -> np.ndarray:
    """Return A^T A / n of tables side by side, the rows of each taken in its own order."""

    n = len(tables[0])
    orders = [np.arange(n)] * len(tables) if orders is None else orders

    def gram(part: slice) -> np.ndarray:
        rows = np.hstack([table[order[part]] for table, order in zip(tables, orders, strict=True)])  # (b, sum of d)
        return (rows.T @ rows).astype(np.float64)

    parts = in_order(gram, parts_of(n), n_threads)
    total = next(parts)
    for part in parts:  # one by one: all of them together may not fit in memory
        total += part
    return total / n


def project(table: np.ndarray, directions: np.ndarray, n_threads: int) -> np.ndarray:
    """Return the table times the directions, in its own precision."""
    own = directions.astype(table.dtype)
    return np.concatenate(list(in_order(lambda part: table[part] @ own, parts_of(len(table)), n_threads)))


def parts_of(n_rows: int) -> list[slice]:
    """Return the parts of rows that threads work on, the same ones for any number of threads."""
    return [slice(start, start + PART_ROWS) for start in range(0, n_rows, PART_ROWS)]
