"""The small eigenproblems: p x p for a graph, where its rows are; Gk x Gk for the consensus, in float64 on the host."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from coterie.arrays import array_namespace, convert, like, power_of_two, precision_of, stack, to_host
from coterie.kernels import cpu, kernels_of, triangle_side
from coterie.rows import Rows
from coterie.validation import must_be_finite

if TYPE_CHECKING:
    from coterie.method.graphs import Block

HOST = np.empty(0)  # an example of NumPy's arrays

# How a graph's vectors can be weighted, and the floor of 1 - l in commute times: of .1, .03, .01 and .001 the one with
# the highest mean ARI over sets with clusters of unequal size that costs least on sets of equal size.
WEIGHTINGS = ("equal", "diffusion", "commute")
COMMUTE_FLOOR = 0.01

# Directions whose share of the largest eigenvalue is below this are rounding, not structure.
RANK_TOLERANCE = 1e-10

# And so are all directions of a graph where the largest eigenvalue is below this, by precision: that of the constant
# vector, which was subtracted, is 1. Rows of a view without any differences would have directions of rounding errors.
NO_STRUCTURE = {"float64": 1e-10, "float32": 1e-6}

# Directions of the stacked bases that are found besides those that are used: what was left out.
MORE_VALUES = 10

# From ITERATE_FROM landmarks on, and for at most one of VECTORS_PER_PAIR eigenpairs, iterating is faster than a full
# reduction.
ITERATE_FROM = 250
VECTORS_PER_PAIR = 20
# Lanczos' method looks at its vectors after STEPS_PER_PAIR steps for each, at least FEWEST_STEPS, and again later on.
# After MOST_STEPS, or one for every STEP_SIZE rows of the matrix, a full reduction is as fast. PROBE_STEPS more search
# for what it missed: they show a missing eigenvalue that exceeds the last one that is wanted by .02.
FEWEST_STEPS, STEPS_PER_PAIR, MOST_STEPS, STEP_SIZE = 2, 1.5, 300, 3.3
PROBE_STEPS = 25
# Up to this size, a full reduction is faster than to iterate once more with a block of vectors.
REDUCE_UP_TO = 1000
FILTERS = 30
FILTER_GROWTH = {4: 12.0, 8: 30.0}  # log of the largest growth that helps, by bytes of a number
RESIDUAL = {4: 2e-5, 8: 1e-7}  # the largest norm of M v - lambda v, by bytes of a number
# Where more eigenvalues than the block has columns are 1, as in a graph of many components, there is no gap to cut at.
LARGEST_CUT = 0.9


@dataclass(frozen=True)
class Spectrum:
    """The top of a graph's spectrum."""

    basis: np.ndarray  # (p, r): e_i = sum_j z_ij basis[j]; columns beyond the graph's rank are zero
    singular_values: np.ndarray  # (r + 1,) of Zhat, descending, one more than is used: the gap behind r
    constant: Any = 0.0  # () every row's entry in the first singular vector, which is constant
    start: np.ndarray | None = None  # (p, m) where the search for the next round's vectors begins


@dataclass(frozen=True)
class Consensus:
    """The augmented view U* as a combination of the graphs' own bases (the paper's Theorem 1)."""

    rotation: np.ndarray  # (G, r, k): U* = sum_g E^g rotation[g]
    singular_values: np.ndarray  # (m,) the largest of [w_1 E^1 .. w_G E^G], descending
    held: float  # share of the weighted bases that is in the k directions: 1 where all graphs span the same ones


def whole_grams(rows: Rows, n_landmarks: int, bounds: np.ndarray, like: Any = HOST) -> Iterator[np.ndarray]:
    """Yield G = sum_i z_i z_i^T of every graph in turn: all at once would be too many p x p matrices.

    ``like`` is any array of the rows' library and device.
    """
    return map(kernels_of(like).finish_gram, sum_grams(rows, n_landmarks, bounds, like))  # (p, p)


def sum_grams(rows: Rows, n_landmarks: int, bounds: np.ndarray, like: Any) -> Iterator[np.ndarray]:
    """Yield the sums that :func:`whole_grams` is made of, as the kernels add them up."""
    kernels = kernels_of(like)

    def add(block: Block, total: tuple[np.ndarray], columns: slice) -> None:
        kernels.gram(block.indices[:, columns], block.weights[:, columns], total[0])

    graphs = [partial(add, columns=slice(start, stop)) for start, stop in itertools.pairwise(bounds.tolist())]
    return (total for (total,) in rows.sums(graphs, lambda: (kernels.new_gram(n_landmarks, like),)))


def grams_at_once(rows: Rows, n_landmarks: int, bounds: np.ndarray, like: Any) -> Any:
    """Return the matrices of :func:`whole_grams` as one array (G, p, p), which a card must have room for."""
    kernels = kernels_of(like)

    def add(block: Block, total: tuple[Any]) -> None:
        kernels.grams(block.indices, block.weights, bounds, total[0])

    (total,) = rows.sum(add, lambda: (kernels.new_gram(n_landmarks, like, len(bounds) - 1),))
    return kernels.finish_gram(total)


def joined_spectrum(total: np.ndarray, start: np.ndarray | None, solve: Callable[..., Spectrum]) -> Spectrum:
    """Return a graph's spectrum, by ``solve`` among the landmarks that any row is joined to: many may lack its view.

    ``total`` are sums in host memory, and ``start`` is that of a spectrum near this one.
    """
    own = cpu.joined_landmarks(total)  # (o,)
    n_landmarks = triangle_side(len(total))
    if len(own) in (0, n_landmarks):
        return solve(total, start=start)
    found = solve(cpu.select_landmarks(total, own), start=None if start is None else start[own])
    return spread(found, own, n_landmarks)


def graph_spectrum(
    gram: np.ndarray,
    n_components: int,
    *,
    drop_first: bool = False,
    start: np.ndarray | None = None,
    precision: str = "float64",
    goal: str | None = None,
) -> Spectrum:
    """Return the top left singular vectors of Zhat = Z D^(-1/2), as a map from the weights Z.

    Zhat^T Zhat = D^(-1/2) G D^(-1/2) with G = Z^T Z, and D, the column sums of Z, are the row sums of G because the
    rows of Z sum to one (Eqs. (2) to (4)). A landmark without neighbours has degree zero and drops out. With
    ``drop_first`` the constant vector is left out. ``start`` is that of a spectrum near this one. ``precision`` is that
    of the iteration, and ``goal`` the one that it ends at: vectors need not be more precise than the weights they
    multiply. Of an array of one dimension, ``gram`` is the lower triangle.
    """
    xp, kernels = array_namespace(gram), kernels_of(gram)
    gram = kernels.symmetric(gram)
    degrees = kernels.degrees(gram)  # (p,)
    must_be_finite("graphs", degrees)
    roots = xp.where(degrees > 0, degrees, np.inf) ** -0.5  # (p,) D^(-1/2)
    constant = None
    if drop_first:
        # The first vector is known: it is constant over the rows. It is subtracted, and not dropped as the first that
        # found: in a graph of several components the largest eigenvalue is multiple, and any vector could come first.
        constant = (degrees / (xp.sum(degrees, axis=-1, keepdims=True) + np.finfo(float).tiny)) ** 0.5  # (p,)
    p = degrees.shape[-1]
    if p < ITERATE_FROM:
        precision = "float64"  # all of it takes no time
    count = min(n_components + 1, p)
    by_products = start is None and not kernels.BATCHED and can_iterate(p, count)  # with single vectors
    normalised = kernels.occupied_gram if by_products else kernels.normalised_gram
    found = top_eigenpairs(normalised(gram, roots, constant, precision), count, start, goal)
    values, vectors = found.values, found.vectors  # (m,), (p, m)
    used = min(n_components, values.shape[-1])
    lengths = inverse_roots(values[..., :used], NO_STRUCTURE[precision])  # (m,)
    basis = xp.zeros((*degrees.shape, n_components), dtype=gram.dtype, device=gram.device)
    basis[..., :used] = vectors[..., :used] * roots[..., None] * lengths[..., None, :]
    must_be_finite("spectra", basis)
    total = xp.sum(degrees, axis=-1)  # the number of rows
    constant = xp.where(total > 0, total, np.inf) ** -0.5
    return Spectrum(basis, xp.clip(values, 0, None) ** 0.5, constant, found.block)


def spread(found: Spectrum, own: np.ndarray, n_landmarks: int) -> Spectrum:
    """Return the spectrum of a graph among all landmarks, given that among its ``own`` ones."""
    r = found.basis.shape[1]
    basis = np.zeros((n_landmarks, r))
    basis[own] = found.basis
    values = np.zeros(min(r + 1, n_landmarks))
    values[: len(found.singular_values)] = found.singular_values
    start = None
    if found.start is not None:
        start = np.zeros((n_landmarks, found.start.shape[1]), dtype=found.start.dtype)
        start[own] = found.start
    return replace(found, basis=basis, singular_values=values, start=start)


def with_constant(spectrum: Spectrum) -> Spectrum:
    """Return a spectrum that was found without the constant vector with it in front: its singular value is 1."""
    xp = array_namespace(spectrum.basis)
    constant = xp.asarray(spectrum.constant)[..., None, None]
    first = xp.zeros_like(spectrum.basis[..., :1]) + constant  # (p, 1), for rows that sum to one
    ones = xp.ones_like(spectrum.singular_values[..., :1])
    return replace(
        spectrum,
        basis=xp.concat([first, spectrum.basis], axis=-1),  # (p, r + 1)
        singular_values=xp.concat([ones, spectrum.singular_values], axis=-1),  # (r + 2,)
    )


def together(spectra: Sequence[Spectrum]) -> Spectrum:
    """Return the spectra of several graphs as one, whose arrays have one more dimension in front."""
    xp = array_namespace(spectra[0].basis)
    constants = [xp.asarray(own.constant) for own in spectra]
    return Spectrum(
        stack([own.basis for own in spectra]), stack([own.singular_values for own in spectra]), stack(constants)
    )


def weighted_basis(spectrum: Spectrum, weighting: str) -> np.ndarray:
    """Return a graph's basis with every vector multiplied by its weight, given l, the square of its singular value.

    "equal" leaves the vectors orthonormal, as published. "diffusion" multiplies by l, the share that a random walk of
    two steps leaves of the vector. "commute" multiplies that by (1 - l_1 + c) / (1 - l + c), which follows commute
    times: a cluster that hardly touches the others has l near 1 however small it is, and stands far above directions
    within large clusters. The floor c keeps vectors whose l differ by rounding alike.
    """
    if weighting == "equal":
        return spectrum.basis
    xp = array_namespace(spectrum.basis)
    r = spectrum.basis.shape[-1]
    squares = spectrum.singular_values[..., :r] ** 2  # (m,) where m < r only if there are fewer landmarks
    weights = squares
    if weighting == "commute":
        weights = squares * (1 - squares[..., :1] + COMMUTE_FLOOR) / (1 - squares + COMMUTE_FLOOR)
    used = weights.shape[-1]
    basis = xp.zeros_like(spectrum.basis)
    basis[..., :used] = spectrum.basis[..., :used] * weights[..., None, :]
    return basis  # (p, r)


def consensus(outer: np.ndarray, weights: np.ndarray, n_components: int, *, power: float = 0.0) -> Consensus:
    """Return the k left singular vectors of the weighted stack of bases that hold most of it.

    ``outer`` is H = sum_i e_i e_i^T of the unweighted stack (Gr x Gr); ``weights`` has one number per graph. Every
    vector is multiplied by its share of the largest eigenvalue to the given ``power``: directions that few graphs
    agree on get less weight.
    """
    n_graphs = len(weights)
    outer = to_host(outer)  # small enough to be solved faster there
    must_be_finite("augmented view", outer, weights)
    held = outer.diagonal().reshape(n_graphs, -1).sum(axis=1)  # (G,)
    weights = np.where(held > 0, weights, 0.0)  # a graph without any vector has no weight
    unit = power_of_two(weights.max())  # only ratios matter, and the square of 1e200 would overflow
    scale = np.repeat(weights / unit, outer.shape[0] // n_graphs)  # (G r,)
    matrix = outer * scale * scale[:, None]  # (G r, G r)
    values, vectors = occupied_eigenpairs(matrix, n_components)
    kept = values[:n_components]
    lengths = inverse_roots(kept) * (kept / max(values[0], np.finfo(float).tiny)) ** power  # (k,)
    rotation = vectors[:, :n_components] * lengths * scale[:, None]  # (G r, k)
    must_be_finite("augmented view", rotation)
    total = max(values.sum(), matrix.trace(), np.finfo(float).tiny)
    rotation = rotation.reshape(n_graphs, -1, rotation.shape[1])
    return Consensus(rotation, unit * np.sqrt(values), float(kept.sum() / total))


def occupied_eigenpairs(matrix: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues of a matrix that has none below zero, descending, and vectors for those above zero.

    There are MORE_VALUES more than ``count``. A graph of low rank has columns of zeros, most of all where nearly every
    row is a cluster. Time grows with the cube of the columns, so these are left out.
    """
    occupied = matrix.diagonal() > 0  # (m,)
    occupied[0] = True  # so that a matrix of zeros has an eigenvalue too
    size = min(len(matrix), count + MORE_VALUES)
    most = min(size, int(occupied.sum()))
    found, directions = kernels_of(matrix).largest_eigenpairs(matrix[np.ix_(occupied, occupied)], most)
    values, vectors = np.zeros(size), np.zeros((len(matrix), size))
    values[:most] = np.maximum(found, 0)
    vectors[occupied, :most] = directions
    return values, vectors  # (s,), (m, s)


@dataclass(frozen=True)
class Eigenpairs:
    """The largest eigenvalues of a symmetric matrix, descending, and their vectors."""

    values: np.ndarray  # (m,)
    vectors: np.ndarray  # (p, m)
    block: np.ndarray | None = None  # (p, more than m) the subspace they were found in


def top_eigenpairs(
    matrix: np.ndarray, count: int, start: np.ndarray | None = None, goal: str | None = None
) -> Eigenpairs:
    """Return the ``count`` largest eigenvalues of a symmetric matrix, descending, and their vectors.

    The eigenvalues must lie in [0, 1], as those of a graph's normalised Gram matrix do. Of an array of one dimension,
    ``matrix`` is the lower triangle.
    """
    kernels = kernels_of(matrix)
    size = kernels.side(matrix)
    iterate = can_iterate(size, count)
    if iterate:
        found = None if kernels.BATCHED or start is not None else lanczos(matrix, count)
        if found is None and (kernels.BATCHED or size > REDUCE_UP_TO):
            tolerance = RESIDUAL[np.dtype(goal or precision_of(matrix)).itemsize]
            found = filtered_subspace(kernels.whole(matrix), count, start, tolerance)
        if found is not None:
            return found
    values, vectors = kernels.largest_eigenpairs(kernels.whole(matrix), count)
    # Lanczos' method would fail for the next round's graph as well: with a start it is not tried.
    block = vectors if iterate and size <= REDUCE_UP_TO and not kernels.BATCHED else None
    return Eigenpairs(convert(values, "float64"), convert(vectors, "float64"), block)


def can_iterate(size: int, count: int) -> bool:
    """Whether some eigenpairs of a matrix are so few that iterating is faster than a full reduction."""
    return size >= ITERATE_FROM and VECTORS_PER_PAIR * count <= size


def lanczos(matrix: cpu.Lower | np.ndarray, count: int) -> Eigenpairs | None:
    """Return the top eigenpairs by Lanczos' method, the fastest one, or None where it misses some.

    It starts from a single vector, and may find only one vector of a multiple eigenvalue, as 1 is in a graph of several
    components. Those of a sparse graph are known, and are left out.
    """
    lower = cpu.as_lower(cpu.symmetric(matrix))
    known = lower.known[:, :count]  # (p, s)
    ones = np.ones(known.shape[1])
    if len(ones) == count:
        return Eigenpairs(ones, known)
    found = single_eigenpairs(lower, count - len(ones))
    if found is None:
        return None
    return Eigenpairs(np.concatenate([ones, found.values]), np.column_stack([known, found.vectors]))


def single_eigenpairs(lower: cpu.Lower, count: int) -> Eigenpairs | None:
    """Return the top eigenpairs by Lanczos' method, or None where it misses some."""
    size = cpu.side(lower)
    most, done, tolerance = min(MOST_STEPS, int(size / STEP_SIZE)), 0, RESIDUAL[lower.dtype.itemsize]
    basis = np.empty((most + 1, size), dtype=lower.dtype)
    basis[0] = random_direction(size, lower.dtype)
    diagonal, beside = np.zeros((2, most))
    while done < most:
        first_look = max(FEWEST_STEPS, int(STEPS_PER_PAIR * count))
        done = cpu.search_krylov(lower, basis, diagonal, beside, done, first_look, count, tolerance)
        if not done:
            return None
        step, left = (diagonal[:done], beside[: done - 1]), float(beside[done - 1])
        values = cpu.tridiagonal_values(*step, count)  # (m,) ascending
        turn = cpu.tridiagonal_vectors(*step, values)  # (steps, m)
        if ritz_residual(turn, left) <= tolerance:
            vectors = basis[:done].T @ turn[:, ::-1].astype(lower.dtype)  # (p, m)
            missed = largest_beside(lower, vectors) > values[0] + tolerance
            return None if missed else Eigenpairs(values[::-1], vectors.astype(np.float64))
    return None


def ritz_residual(turn: np.ndarray, left: float) -> float:
    """Return the largest norm of M v - lambda v after some steps of Lanczos' method, which ``left`` a vector so long.

    ``turn`` are eigenvectors of the tridiagonal matrix (steps x m): v is the basis times one of them.
    """
    return left * float(np.abs(turn[-1]).max()) if turn.size else np.inf


def largest_beside(matrix: cpu.Lower | np.ndarray, vectors: np.ndarray) -> float:
    """Return a lower bound, nearly sharp, of the largest eigenvalue whose vectors are orthogonal to the given ones.

    By some more steps of Lanczos' method: a Krylov basis that begins with the given vectors stays orthogonal to them.
    """
    size, count = vectors.shape
    first, last = count, min(count + PROBE_STEPS, size - 1)
    basis = np.empty((last + 1, size), dtype=matrix.dtype)
    basis[:count] = vectors.T
    start = random_direction(size, matrix.dtype, seed=1).copy()
    for _ in range(2):  # once would leave rounding errors
        start -= vectors @ (vectors.T @ start)
    basis[count] = start / np.linalg.norm(start)
    diagonal, beside = np.zeros((2, last))
    stop = min(cpu.extend_krylov(matrix, basis, diagonal, beside, first, last), last)
    return float(cpu.tridiagonal_values(diagonal[first:stop], beside[first : stop - 1], 1)[0])


@lru_cache(maxsize=8)
def random_direction(size: int, dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Return a random vector of length one, always the same."""
    direction = np.random.default_rng(seed).standard_normal(size)
    return (direction / np.linalg.norm(direction)).astype(dtype)  # (p,)


def filtered_subspace(
    matrix: np.ndarray, count: int, start: np.ndarray | None = None, tolerance: float = RESIDUAL[8]
) -> Eigenpairs | None:
    """Return the top eigenpairs by subspace iteration with Chebyshev filters, or None where it does not converge.

    A block of vectors finds eigenvalues of any multiplicity, such as that of 1 in a graph of many components, which
    methods that start from a single vector can miss.
    """
    xp, kernels = array_namespace(matrix), kernels_of(matrix)
    size = matrix.shape[-1]
    width = min(size, count + max(10, count // 2))
    cold = start is None
    if start is None:
        start = like(np.random.default_rng(0).standard_normal((size, width)), matrix)
        start = xp.broadcast_to(start, (*matrix.shape[:-1], width))
    block, before = start, np.inf  # (p, m)
    most_filters = kernels.FILTERS_PER_REDUCTION * size / width
    for number in range(FILTERS):
        if number or cold:  # where the last search ended, vectors are orthonormal already
            block = kernels.orthonormal(block)
        image = matrix @ block  # (p, m)
        values, rotation = kernels.small_eigenpairs(convert(block.mT @ image, "float64"))  # Rayleigh-Ritz
        values, rotation = xp.flip(values, axis=-1), convert(xp.flip(rotation, axis=-1), precision_of(matrix))
        block, image = block @ rotation, image @ rotation
        gaps = image[..., :count] - block[..., :count] * convert(values[..., None, :count], precision_of(matrix))
        residual = float(xp.max(xp.sum(gaps * gaps, axis=-2))) ** 0.5
        if residual < tolerance:
            return Eigenpairs(values[..., :count], convert(block[..., :count], "float64"), block)
        if number > 1 and filters_left(before, residual, tolerance) > most_filters:
            return None  # a full reduction is faster
        before = residual
        cut = convert(xp.clip(values[..., -1:], 1e-3, LARGEST_CUT), precision_of(matrix))
        block = chebyshev(matrix, block, image, cut[..., None])
    return None


def filters_left(before: float, now: float, goal: float) -> float:
    """Return how many more filters a residual needs, at the rate of the last one.

    Examples
    --------
    >>> round(filters_left(1e-1, 1e-2, 1e-5))
    3
    """
    return np.log(now / goal) / np.log(before / now) if now < before else np.inf


def chebyshev(matrix: np.ndarray, block: np.ndarray, image: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Apply the Chebyshev polynomial that is small on [0, cut] and grows fast above; ``image`` is matrix @ block."""
    xp = array_namespace(matrix)
    half = cut / 2
    # An eigenvalue of 1 grows like exp(degree * steepness). Growth beyond the precision gains nothing.
    steepness = float(np.arccosh(2 / float(xp.max(cut)) - 1))
    most = kernels_of(matrix).FILTER_DEGREE
    degree = int(np.clip(FILTER_GROWTH[matrix.dtype.itemsize] / steepness, 2, most))
    before, now = block, (image - half * block) / half
    if kernels_of(matrix).BATCHED and matrix.ndim == 3 and matrix.dtype.itemsize == 8:
        return kernels_of(matrix).chebyshev_steps(matrix, before, now, half, degree)
    doubled = (2 / half) * matrix
    diagonal = np.arange(matrix.shape[-1])
    doubled[..., diagonal, diagonal] -= 2
    for _ in range(degree - 1):
        before, now = now, doubled @ now - before
        if matrix.dtype.itemsize < 8:  # of the order of (4 / cut)^degree, which would overflow float32
            scale = xp.max(xp.abs(now))
            now, before = now / scale, before / scale
    return now


def inverse_roots(values: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """Return values^(-1/2), zero for values that are rounding errors: all of them where none is above a ``floor``."""
    xp = array_namespace(values)
    largest = xp.max(values, axis=-1, keepdims=True)
    real = (values > RANK_TOLERANCE * xp.clip(largest, np.finfo(float).tiny, None)) & (largest > floor)
    return xp.where(real, xp.where(real, values, 1.0) ** -0.5, 0.0)
