"""Prepare the raw rows of a view for measuring distances.

A preparation is a chain of steps (:mod:`coterie.views.steps`), each a function of one row and a few vectors that were
fitted to a sample. The same chain prepares the rows of the fit and new rows. The steps of a view are chosen from its
values, never from labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from coterie.arrays import array_namespace, contiguous, convert, like, power_of_two, precision_of, scaled, to_host
from coterie.kernels import kernels_of
from coterie.validation import warn_caller
from coterie.views.directions import principal_directions
from coterie.views.parts import by_columns, by_rows, is_one_part
from coterie.views.statistics import (
    COMMON,
    LEAST_RANGE,
    RELATIVE_ROUNDING,
    ColumnEnds,
    ColumnMoments,
    column_ends,
    column_moments,
    column_tails,
    rarer_share,
    rounding_of,
)
from coterie.views.steps import (
    Clip,
    Columns,
    CommonTotal,
    Densify,
    Diffuse,
    LogScale,
    Project,
    Sparsify,
    Step,
    Table,
    UnitRows,
    apply_steps,
)

SCALINGS = ("auto", "block", "half", "standard", "none")
METRICS = ("auto", "euclidean", "cosine")

# Columns are divided by their standard deviation to this power.
EXPONENT = {"none": 0.0, "block": 0.0, "half": 0.5, "standard": 1.0}

# A preparation is fitted to at most this many values of a view.
FITTED_NUMBERS = 4_000_000

# -- thresholds; each was chosen between variants on many data sets (docs/background/preparation.md) --

SPARSE_DENSITY = 0.10  # words and graphs: at most this share of the entries is nonzero,
SPARSE_NEGATIVE = 0.02  # at most this share of those is negative,
SPARSE_COLUMNS = 50  # and there are at least this many columns
MOST_LINKED_ROWS = 20_000  # a square sparse table of at most this many rows may be a graph
SKEWED = 1.0  # median skewness from which non-negative columns are put on a log scale
WHOLE_SHARE = 0.99  # share of whole numbers from which rows are scaled to a common total
HEAVY_TAILS = 10.0  # median kurtosis from which columns are clipped,
CLIP = 3.0  # at this many robust standard deviations
ALIKE, UNLIKE = 0.75, 1.25  # log10 of the ratio of columns' scales: below, they share a unit; above, each has its own
LARGEST_GAP = 1.0  # between the values of a two-valued column, in standard deviations of the other columns
LINKED = 2.0  # a graph: linked rows are linked back, or share neighbours, this much more often than by chance

# Values whose relative difference is smaller are one value with different rounding errors.
NOISE = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 1e-14}

# Sparse rows are centred only where their mean is more than FAR_FROM_ZERO times as long as their deviations: in
# float32, distances between such rows would be lost in their squared lengths. Centring makes blocks dense, so it is
# done for at most MOST_CENTRED_COLUMNS columns.
FAR_FROM_ZERO = 100.0
MOST_CENTRED_COLUMNS = 20_000

# Larger numbers, and those below its inverse, are too near the limits of float32.
FLOAT32_REACH = 1e30


@dataclass(frozen=True)
class Preparation:
    """The chain of steps of one view."""

    steps: tuple[Step, ...]
    factor: float  # of all columns: the scale of the view relative to the others
    dtype: np.dtype
    kind: str  # what the view was recognised as

    def __call__(self, data: Table) -> Table:
        """Return prepared rows in the working precision; the input is not modified."""
        narrow = str(data.dtype).endswith("float32") or data.dtype.itemsize <= 2
        working = self.dtype if narrow and not self.wide else np.dtype(np.float64)
        steps = self.steps
        if steps and isinstance(steps[0], Columns) and not sparse.issparse(data):
            if len(steps) == 1:
                return steps[0].level(data, working, self.dtype, self.factor)
            rows, steps = steps[0].level(data, working, working), steps[1:]
        else:
            rows = convert(data, working)
        for step in steps:
            rows = step(rows)
        return contiguous(convert(scaled(rows, self.factor), self.dtype))

    @cached_property
    def wide(self) -> bool:
        """Whether columns are so large or small that float32 could not hold them before they are scaled."""
        levels = [step for step in self.steps if isinstance(step, Columns)]
        centers = [np.abs(step.center) for step in levels if step.center is not None]
        scales = [self.factor * step.scale for step in levels if step.scale is not None] or [np.array([self.factor])]
        totals = [np.array([step.total]) for step in self.steps if isinstance(step, CommonTotal)]
        return any(np.any(center > FLOAT32_REACH) for center in centers) or any(
            np.any((scale > FLOAT32_REACH) | ((scale > 0) & (scale < 1 / FLOAT32_REACH)))
            for scale in [*scales, *totals]
        )

    @property
    def hides_infinity(self) -> bool:
        """Whether the steps turn values that are not finite into finite ones."""
        return any(isinstance(step, Clip) for step in self.steps)

    @property
    def needs_direction(self) -> bool:
        """Whether a row of zeros has no position, like a document without words."""
        return any(isinstance(step, UnitRows) for step in self.steps)

    def describe(self) -> str:
        """Return the kind of the view and the names of its steps."""
        names = [type(step).__name__ for step in self.steps]
        return f"{self.kind}: {', '.join(names) or 'as it is'}"


def prepare(
    sample: Table,
    *,
    scaling: str = "auto",
    metric: str = "auto",
    n_clusters: int = 8,
    dtype: Any = "float32",
    seed: int = 0,
    name: str = "X",
    n_threads: int = 1,
) -> Preparation:
    """Fit the preparation of one view to a sample of its rows; ``name`` is the view's, for warnings.

    Except with ``scaling="none"``, prepared rows have unit mean squared distance from their mean, so that every view
    has the same weight in the concatenation.
    """
    rows = thinned(sample)
    ends = column_ends(rows, n_threads)
    check_ranges(name, ends)
    if scaling == "auto":
        kind = kind_of(sample, rows, ends)
        if kind == "words":
            steps = word_steps(to_host(rows), n_clusters, seed)
        elif kind == "graph":
            steps = graph_steps(to_host(sample), n_clusters, seed)
        else:
            steps = dense_steps(rows, n_clusters, seed, cosine=metric == "cosine", name=name, n_threads=n_threads)
    else:
        kind = "raw" if scaling == "none" else "given"
        moments = column_moments(rows, n_threads=n_threads)
        steps = given_steps(rows, moments, EXPONENT[scaling], cosine=metric == "cosine", name=name)
    warn_of_lost_columns(name, rows, steps, ends)
    steps = [Project(step.directions.astype(dtype)) if isinstance(step, Project) else step for step in steps]
    plain = Preparation(tuple(steps), 1.0, np.dtype(dtype), kind)
    if scaling == "none":
        return plain
    return replace(plain, factor=1.0 / spread(plain, rows, n_threads))


def within_float_range(
    preparations: Sequence[Preparation], raw: Sequence[bool], samples: Sequence[Any], n_threads: int = 1
) -> list[Preparation]:
    """Scale unscaled views by a common power of two where their squares would leave the range of floats.

    A common factor changes neither neighbours nor, with a bandwidth of the same units, weights.
    """
    spreads = [
        spread(preparation, thinned(sample.known()), n_threads)
        for preparation, sample, alone in zip(preparations, samples, raw, strict=True)
        if alone
    ]
    largest = max(spreads, default=1.0)
    if 1e-12 < largest < 1e12:
        return list(preparations)
    factor = 2.0 ** -np.rint(np.log2(largest))
    return [
        replace(preparation, factor=preparation.factor * factor) if alone else preparation
        for preparation, alone in zip(preparations, raw, strict=True)
    ]


def given_steps(rows: Table, moments: ColumnMoments, exponent: float, *, cosine: bool, name: str = "X") -> list[Step]:
    """Return steps that centre columns and divide them by a power of their standard deviation."""
    varies = moments.varies()
    scale = None
    if exponent:
        scale = np.where(varies, np.where(varies, moments.std, 1.0) ** -exponent, 0.0)  # (d,)
    elif sparse.issparse(rows) and not cosine and not varies.all():
        scale = varies.astype(np.float64)  # without centring, constant columns would swamp the others
    if sparse.issparse(rows) and not cosine and far_from_zero(moments, scale):
        if rows.shape[1] <= MOST_CENTRED_COLUMNS:
            return [Densify(), Columns(moments.mean, scale)]
        warn_caller(
            f"View {name!r} is sparse, and the means of its columns are large relative to their standard deviations: "
            "distances between its rows are imprecise. Subtract the columns' means first, or pass dense rows."
        )
    center = None if cosine or sparse.issparse(rows) else moments.mean
    steps: list[Step] = [Columns(center, scale)]
    return [*steps, UnitRows()] if cosine else steps


def far_from_zero(moments: ColumnMoments, scale: np.ndarray | None) -> bool:
    """Whether rows lie so far from zero that products of uncentred rows lose the distances between them."""
    scale = np.where(moments.varies(), 1.0 if scale is None else scale, 0.0)  # (d,)
    mean, std = scale * moments.mean, scale * moments.std
    unit = max(np.abs(mean).max(initial=0.0), np.finfo(np.float64).tiny)  # squares of 1e200 would overflow
    return bool(np.sum((mean / unit) ** 2) > FAR_FROM_ZERO**2 * np.sum((std / unit) ** 2) > 0)


def check_ranges(name: str, ends: ColumnEnds) -> None:
    """Refuse a view whose columns' ranges are too small to scale; warn if only some are."""
    ranges = ends.high / 2 - ends.low / 2  # (d,)
    lost = (ranges > 0) & (ranges < LEAST_RANGE)  # (d,)
    if not lost.any():
        return
    found = (
        f"View {name!r}: in {lost.sum()} columns (the first is column {int(lost.argmax())}) values differ by less than "
        f"{LEAST_RANGE}, which cannot be scaled"
    )
    if (lost | (ranges == 0)).all():
        raise ValueError(f"{found}. Multiply the view by a constant before it is stored.")
    warn_caller(f"{found}; they are treated as constant. Multiply them by a constant before they are stored.")


def warn_of_lost_columns(name: str, rows: Table, steps: Sequence[Step], ends: ColumnEnds) -> None:
    """Warn of columns that are left out because their type has too few digits to separate their rows."""
    kind, peak = str(precision_of(rows)), ends.peak
    with np.errstate(over="ignore"):
        ranges = ends.high - ends.low  # (d,)
        differs = ranges > NOISE.get(kind, 0.0) * peak
        # A standard deviation is at least range / √2n, so that most tables need not compute theirs.
        if not (differs & (ranges <= rounding_of(rows) * peak * np.sqrt(2 * rows.shape[0]))).any():
            return
    left_out = [step.scale == 0 for step in steps if isinstance(step, Columns) and step.scale is not None]  # (d,) each
    lost = differs & ~column_moments(rows).varies() & np.any(left_out, axis=0)  # (d,)
    if lost.any():
        remedy = "" if kind not in ("float16", "float32") else ", or store float64"
        warn_caller(
            f"View {name!r}: {lost.sum()} columns (the first is column {int(lost.argmax())}) are so large relative to "
            f"their standard deviation that {kind} holds too few digits of it; they are left out. Subtract a constant "
            f"from them before they are stored{remedy}."
        )


def warn_of_own_units(name: str, scale: np.ndarray, std: np.ndarray) -> None:
    """Warn of columns that outweigh all others, and are too few for the view to be standardised."""
    usual = np.quantile(scale[scale > 0], 0.95)
    odd = scale > 10**UNLIKE * usual  # (d,)
    if odd.any() and np.linalg.norm(std[odd]) > np.linalg.norm(std[~odd]):
        warn_caller(
            f"View {name!r}: {odd.sum()} of {len(scale)} columns (the first is column {int(odd.argmax())}) vary more "
            f"than {10**UNLIKE:.0f} times as much as nearly all others, and decide alone which rows are near each "
            "other. Pass scaling='standard' if their unit is another, and leave them out if they only number the rows."
        )


def word_steps(rows: Table, n_clusters: int, seed: int) -> list[Step]:
    """Return steps for counts of words: log counts, inverse document frequencies, unit rows, truncated SVD."""
    words = sparse.csr_array(rows.astype(np.float64))
    words.eliminate_zeros()
    n, d = words.shape
    unit = log_unit(np.abs(words.data))
    documents = np.bincount(words.indices, minlength=d)  # (d,) rows in which a word occurs
    steps: list[Step] = [Sparsify(), LogScale(unit), Columns(None, 1 + np.log((1 + n) / (1 + documents))), UnitRows()]
    rank = min(max(50, 2 * n_clusters), 200)
    if min(n, d) <= rank + 1:
        return steps
    return [*steps, Project(principal_directions(apply_steps(steps, words), rank, seed)), UnitRows()]


def graph_steps(rows: Table, n_clusters: int, seed: int) -> list[Step]:
    """Return steps for a graph: replace links by where short random walks end, unit rows, truncated SVD."""
    links = sparse.csr_array(rows.astype(np.float64))
    n = links.shape[0]
    links = links * (1 / np.median(links.data[links.data > 0]))  # a median link then has the weight of a self-loop, 1
    both = links.maximum(links.T).maximum(sparse.eye_array(n, format="csr"))
    transition = sparse.diags_array(1 / np.asarray(both.sum(axis=1)).ravel()) @ both
    steps: list[Step] = [Diffuse(sparse.csr_array(transition)), UnitRows()]
    rank = min(max(200, 2 * n_clusters), 400)
    if n <= rank + 1:
        return steps
    return [*steps, Project(principal_directions(apply_steps(steps, links), rank, seed)), UnitRows()]


def dense_steps(
    rows: Table, n_clusters: int, seed: int, *, cosine: bool = False, name: str = "X", n_threads: int = 1
) -> list[Step]:
    """Return steps for dense views.

    They reduce skew or heavy tails, standardise columns of different units and keep the directions of most variance.
    """
    steps: list[Step] = [Densify()] if sparse.issparse(rows) else []
    rounding = rounding_of(rows)
    values = wide(apply_steps(steps, rows))
    moments = column_moments(values, rounding, n_threads)
    tails = tail_steps(values, moments, n_threads)
    if tails:
        values = transformed(tails, values, "float64", n_threads)
        moments = column_moments(values, rounding, n_threads)
    varies = moments.varies()
    if not varies.any():
        return [*steps, *tails, Columns(moments.mean, np.zeros(len(varies)))]
    scale = column_scale(moments, len(values))  # (d,)
    powers = closed_gaps(unit_powers(scale, varies), moments, rarer_share(values, moments, n_threads))  # (d,)
    warn_of_own_units(name, powers * scale, powers * moments.std)
    powers /= power_of_two((powers * moments.std).max())  # what follows is computed in float32
    level: list[Step] = [Columns(None if cosine else moments.mean, powers)]
    if cosine:
        level.append(UnitRows())
    rank = most_directions(n_clusters)
    if min(values.shape) > rank:
        levelled = transformed(level, values, "float32", n_threads)
        level.append(Project(principal_directions(levelled, rank, seed, n_threads)))
    return [*steps, *tails, *level]


def wide(values: np.ndarray) -> np.ndarray:
    """Return tensors as float64; NumPy arrays as they are, since they are converted part by part, in the cache."""
    return convert(values, "float64") if is_one_part(values) else values


def transformed(steps: Sequence[Step], values: np.ndarray, dtype: str, n_threads: int) -> np.ndarray:
    """Return values after steps in float64, in the given precision."""
    return by_rows(lambda part: convert(apply_steps(steps, convert(part, "float64")), dtype), values, n_threads)


def most_directions(n_clusters: int) -> int:
    """Return the largest number of columns that a dense view is projected to."""
    return min(max(20, 2 * n_clusters), 200)


def tail_steps(values: np.ndarray, moments: ColumnMoments, n_threads: int = 1) -> list[Step]:
    """Return the steps for skewed or heavy-tailed columns: a log scale, or clipping."""
    varies = moments.varies()
    if not varies.any():
        return []
    skewness, kurtosis = np.median(column_tails(values, moments, n_threads), axis=1)
    if moments.low.min() >= 0 and skewness > SKEWED:
        return log_steps(values, n_threads)
    return [clip_step(values, moments, n_threads)] if kurtosis > HEAVY_TAILS else []


def log_steps(values: np.ndarray, n_threads: int) -> list[Step]:
    """Return the steps that put non-negative columns on a log scale; rows of counts are first given a common total."""
    xp, kernels = array_namespace(values), kernels_of(values)
    steps: list[Step] = []
    if values.shape[1] >= SPARSE_COLUMNS and share_of_whole(values, n_threads) >= WHOLE_SHARE:
        totals = by_rows(lambda part: xp.sum(convert(part, "float64"), axis=1), values, n_threads)  # (n,)
        steps.append(CommonTotal(float(kernels.column_quantiles(totals[totals > 0][:, None], 0.5)[0])))
        values = transformed(steps, values, "float64", n_threads)
    return [*steps, LogScale(log_unit(convert(values[values > 0], "float64")))]


def clip_step(values: np.ndarray, moments: ColumnMoments, n_threads: int) -> Clip:
    """Return the step that clips columns at CLIP robust standard deviations from their medians."""
    xp, kernels = array_namespace(values), kernels_of(values)

    def middle_and_width(part: np.ndarray) -> np.ndarray:
        part = convert(part, "float64")
        middle = kernels.column_quantiles(part, 0.5)  # (w,)
        width = kernels.column_quantiles(xp.abs(part - like(middle, part)), 0.9)
        return np.stack([middle, width])

    middle, width = by_columns(middle_and_width, values, n_threads)  # (d,), (d,)
    width = CLIP * np.where(width > 0, width / 1.645, moments.std)  # for a Gaussian: its standard deviation
    return Clip(middle - width, middle + width)


def share_of_whole(values: np.ndarray, n_threads: int) -> float:
    """Return the share of values that are whole numbers."""
    xp = array_namespace(values)
    counts = by_rows(lambda part: xp.sum(part == xp.round(part), axis=1), values, n_threads)  # (n,)
    return int(xp.sum(counts)) / max(math.prod(values.shape), 1)


def log_unit(sizes: np.ndarray) -> float:
    """Return the unit of a log scale: the median, or more where the largest value would overflow in that unit."""
    if not len(sizes):
        return 1.0
    return max(float(kernels_of(sizes).column_quantiles(sizes[:, None], 0.5)[0]), float(sizes.max()) / FLOAT32_REACH)


def column_scale(moments: ColumnMoments, n_rows: int) -> np.ndarray:
    """Return the columns' standard deviations over the root of their shares of nonzeros, 1 for constant columns.

    A column that is zero almost everywhere, such as a pixel at the border of images, has a small standard deviation
    but not a small unit.
    """
    active = np.maximum(moments.nonzeros, 1) / n_rows  # (d,)
    return np.where(moments.varies(), moments.std / np.sqrt(active), 1.0)


def unit_powers(scale: np.ndarray, varies: np.ndarray) -> np.ndarray:
    """Return the factors of columns, 0 for constant ones: 1 where columns share a unit, 1 / scale where they do not."""
    low, high = np.log10(np.quantile(scale[varies], [0.05, 0.95]))
    exponent = np.clip((high - low - ALIKE) / (UNLIKE - ALIKE), 0, 1)
    return np.where(varies, scale**-exponent, 0.0)  # (d,)


def closed_gaps(powers: np.ndarray, moments: ColumnMoments, share: np.ndarray) -> np.ndarray:
    """Return the factors of columns, smaller for two-valued ones among others; ``share`` is as of `rarer_share`.

    No row lies between yes and no, so a row's nearest neighbours would all be on its side of every such column, and the
    graph would fall apart there, whether or not the column has to do with the clusters. Brought closer than neighbours
    are in the other columns, both sides are joined.
    """
    two = share >= COMMON  # (d,)
    others = moments.varies() & (share == 0)  # without rare values: their deviations are no measure of distances
    if not (two.any() and others.any()):
        return powers
    gaps = np.where(two, moments.high / 2 - moments.low / 2, 1.0) * 2  # (d,)
    most = LARGEST_GAP * np.median((powers * moments.std)[others])
    return np.where(two, np.minimum(powers, most / gaps), powers)


# -- what a view holds ------------------------------------------------------------------------------------------------


def spread(preparation: Preparation, rows: Table, n_threads: int = 1) -> float:
    """Return the root mean squared distance of prepared rows from their mean.

    Where rows differ by no more than the rounding of the working precision, it is the size of their largest value, or
    1: rounding errors must not be magnified.
    """
    exact = replace(preparation, dtype=np.dtype(np.float64))
    moments = column_moments(by_rows(exact, rows, n_threads), n_threads=n_threads)
    std, size = moments.std, float(moments.peak.max(initial=0.0))
    widest = float(std.max(initial=0.0))
    if widest <= RELATIVE_ROUNDING[preparation.dtype.itemsize] * size:
        return size or 1.0
    return widest * float(
        np.sqrt(np.sum((std / widest) ** 2))
    )  # relative to the widest: squares of 1e-200 would vanish


def kind_of(sample: Table, rows: Table, ends: ColumnEnds) -> str:
    """Return what a view holds: words, a graph, or a dense table, however it is stored."""
    n, d = rows.shape
    n_values, n_negative = ends.nonzeros.sum(), ends.negatives.sum()
    if not 0 < n_values <= SPARSE_DENSITY * n * d or n_negative > SPARSE_NEGATIVE * n_values:
        return "dense"
    if sample.shape[0] == d <= MOST_LINKED_ROWS and not n_negative and links_rows(to_host(sample)):
        return "graph"
    return "words" if d >= SPARSE_COLUMNS else "dense"


def links_rows(square: Table) -> bool:
    """Whether a square table is an adjacency matrix: linked rows are linked back, or share neighbours."""
    links = sparse.csr_array(square != 0).astype(np.float64)
    links = links - links.multiply(sparse.eye_array(links.shape[0], format="csr"))
    n, n_links = links.shape[0], links.sum()
    if n_links == 0:
        return False
    density = n_links / n**2
    back = links.multiply(links.T).sum() / n_links
    some = links[:: max(1, n // 500)]  # (m, n)
    common = some @ links.T  # (m, n) shared neighbours
    shared = some.multiply(common).sum() / max(some.sum(), 1)
    return bool(back > LINKED * density or shared > LINKED * common.sum() / np.prod(common.shape))


def thinned(sample: Table) -> Table:
    """Return evenly spaced rows, with at most FITTED_NUMBERS values."""
    per_row = sample.nnz / max(sample.shape[0], 1) if sparse.issparse(sample) else sample.shape[1]
    step = int(np.ceil(sample.shape[0] * per_row / FITTED_NUMBERS))
    return sample if step <= 1 else sample[::step]
