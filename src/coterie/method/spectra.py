"""The small eigenproblems: p x p per graph, on its rows' device; Gr x Gr for the consensus, in float64 on the host."""

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

HOST = np.empty(0)  # any NumPy array, as an example of the library and device

# The weightings of a graph's vectors, and the floor of 1 - l in commute times: of .1, .03, .01 and .001, the one with
# the highest mean ARI on data with clusters of unequal size that costs least on data with clusters of equal size.
WEIGHTINGS = ("equal", "diffusion", "commute")
COMMUTE_FLOOR = 0.01

# Eigenvalues below this share of the largest one are rounding errors.
RANK_TOLERANCE = 1e-10

# So are all eigenvalues of a graph whose largest one is below this, by precision: the constant vector, which was
# subtracted, had eigenvalue 1. Where all rows of a view are equal, the vectors would be rounding errors.
NO_STRUCTURE = {"float64": 1e-10, "float32": 1e-6}

# Singular values of the stacked bases that are computed beyond those that are used, to show what was left out.
MORE_VALUES = 10

# From ITERATE_FROM landmarks on, and with at least VECTORS_PER_PAIR landmarks per wanted eigenpair, iterative methods
# are faster than a full reduction.
ITERATE_FROM = 250
VECTORS_PER_PAIR = 20
# Lanczos' method first checks for convergence after STEPS_PER_PAIR iterations per eigenpair, at least FEWEST_STEPS.
# After MOST_STEPS iterations, or one per STEP_SIZE rows of the matrix, a full reduction is as fast. PROBE_STEPS more
# search for missed eigenvalues: they find one that exceeds the last wanted one by .02.
FEWEST_STEPS, STEPS_PER_PAIR, MOST_STEPS, STEP_SIZE = 2, 1.5, 300, 3.3
PROBE_STEPS = 25
# Up to this size of the matrix, a full reduction is faster than subspace iteration.
REDUCE_UP_TO = 1000
FILTERS = 30  # at most; then a full reduction
FILTER_GROWTH = {4: 12.0, 8: 30.0}  # log of the largest useful growth by one filter, by bytes of a number
RESIDUAL = {4: 2e-5, 8: 1e-7}  # the largest norm of M v - lambda v that counts as converged, by bytes of a number
# In a graph with more components than the block has columns, all eigenvalues of the block are 1: the cut of the filter
# must stay below, although there is no gap to cut at.
LARGEST_CUT = 0.9


@dataclass(frozen=True)
class Spectrum:
    """The top of a graph's spectrum."""

    basis: np.ndarray  # (p, r): e_i = sum_j z_ij basis[j]; columns beyond the graph's rank are zero
    singular_values: np.ndarray  # (r + 1,) of Zhat, descending; one more than is used, to show the gap behind r
    constant: Any = 0.0  # () every row's entry in the first singular vector, which is constant
    start: np.ndarray | None = None  # (p, m) start of the iteration for the next round's vectors


@dataclass(frozen=True)
class Consensus:
    """The augmented view U* as a combination of the graphs' own bases (the paper's Theorem 1)."""

    rotation: np.ndarray  # (G, r, k): U* = sum_g E^g rotation[g]
    singular_values: np.ndarray  # (m,) the largest of [w_1 E^1 .. w_G E^G], descending
    held: float  # share of the weighted bases that is in the k directions: 1 where all graphs span the same ones


def whole_grams(rows: Rows, n_landmarks: int, bounds: np.ndarray, like: Any = HOST) -> Iterator[np.ndarray]:
    """Yield G = sum_i z_i z_i^T (p x p) of one graph after the other: all at once would take too much memory.

    ``like`` is any array of the rows' library and device.
    """
    return map(kernels_of(like).finish_gram, sum_grams(rows, n_landmarks, bounds, like))  # (p, p)


def sum_grams(rows: Rows, n_landmarks: int, bounds: np.ndarray, like: Any) -> Iterator[np.ndarray]:
    """Yield the sums behind :func:`whole_grams` as the kernels accumulate them: in host memory, the lower triangle."""
    kernels = kernels_of(like)

    def add(block: Block, total: tuple[np.ndarray], columns: slice) -> None:
        kernels.gram(block.indices[:, columns], block.weights[:, columns], total[0])

    graphs = [partial(add, columns=slice(start, stop)) for start, stop in itertools.pairwise(bounds.tolist())]
    return (total for (total,) in rows.sums(graphs, lambda: (kernels.new_gram(n_landmarks, like),)))


def grams_at_once(rows: Rows, n_landmarks: int, bounds: np.ndarray, like: Any) -> Any:
    """Return the matrices of :func:`whole_grams` as one array (G, p, p), which must fit in a GPU's memory."""
    kernels = kernels_of(like)

    def add(block: Block, total: tuple[Any]) -> None:
        kernels.grams(block.indices, block.weights, bounds, total[0])

    (total,) = rows.sum(add, lambda: (kernels.new_gram(n_landmarks, like, len(bounds) - 1),))
    return kernels.finish_gram(total)


def joined_spectrum(total: np.ndarray, start: np.ndarray | None, solve: Callable[..., Spectrum]) -> Spectrum:
    """Return a graph's spectrum by ``solve``, using only landmarks that any row is joined to: many may lack its view.

    ``total`` holds the sums of :func:`sum_grams` in host memory, and ``start`` is that of a similar spectrum.
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
    ``drop_first`` the constant vector is left out. ``start`` is that of a similar spectrum. The iteration works in
    ``precision`` and stops at the accuracy of ``goal``: vectors need not be more precise than the weights that they
    multiply. A one-dimensional ``gram`` is the lower triangle.
    """
    xp, kernels = array_namespace(gram), kernels_of(gram)
    gram = kernels.symmetric(gram)
    degrees = kernels.degrees(gram)  # (p,)
    must_be_finite("graphs", degrees)
    roots = xp.where(degrees > 0, degrees, np.inf) ** -0.5  # (p,) D^(-1/2)
    constant = None
    if drop_first:
        # The first vector is known: it is constant over the rows. It is subtracted beforehand, not dropped afterwards:
        # in a graph of several components the largest eigenvalue is multiple, and any of its vectors could come first.
        constant = (degrees / (xp.sum(degrees, axis=-1, keepdims=True) + np.finfo(float).tiny)) ** 0.5  # (p,)
    p = degrees.shape[-1]
    if p < ITERATE_FROM:
        precision = "float64"  # such a small problem takes no time
    count = min(n_components + 1, p)
    by_products = start is None and not kernels.BATCHED and can_iterate(p, count)  # by Lanczos' method
    normalised = kernels.packed_gram if by_products else kernels.normalised_gram
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
    """Return a graph's spectrum with rows for all landmarks, zero for those that are not its ``own``."""
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
    """Return a spectrum with the constant vector, which had been left out, as its first; its singular value is 1."""
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
    """Return the spectra of several graphs stacked into one, whose arrays have a new first axis (G, ...)."""
    xp = array_namespace(spectra[0].basis)
    constants = [xp.asarray(own.constant) for own in spectra]
    return Spectrum(
        stack([own.basis for own in spectra]), stack([own.singular_values for own in spectra]), stack(constants)
    )


def weighted_basis(spectrum: Spectrum, weighting: str) -> np.ndarray:
    """Return a graph's basis with every vector multiplied by a weight, a function of its squared singular value l.

    "equal" leaves the vectors orthonormal, as published. "diffusion" multiplies by l, the share of the vector that is
    left after two steps of a random walk. "commute" multiplies that by (1 - l_1 + c) / (1 - l + c), which follows
    commute times: a cluster that hardly touches the others has l near 1, however small it is, and gets a far larger
    weight than directions within large clusters. The floor c gives vectors whose l differ by rounding similar weights.
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
    """Return the top k left singular vectors of the weighted stack of bases.

    ``outer`` is H = sum_i e_i e_i^T of the unweighted stack (Gr x Gr); ``weights`` has one number per graph. Every
    vector is multiplied by (its eigenvalue / the largest one)^``power``, so that directions that few graphs agree on
    get less weight.
    """
    n_graphs = len(weights)
    outer = to_host(outer)  # small enough that the host solves it faster
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
    """Return the ``count`` + MORE_VALUES largest eigenpairs of a positive semi-definite matrix, descending.

    A graph of low rank has columns of zeros, above all where nearly every row is a cluster. They are left out, because
    time grows with the cube of the columns; missing pairs are zeros.
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
    block: np.ndarray | None = None  # (p, m or more) the subspace they were found in


def top_eigenpairs(
    matrix: np.ndarray, count: int, start: np.ndarray | None = None, goal: str | None = None
) -> Eigenpairs:
    """Return the ``count`` largest eigenvalues of a symmetric matrix, descending, and their vectors.

    The eigenvalues must lie in [0, 1], as those of a graph's normalised Gram matrix do. A one-dimensional ``matrix`` is
    the lower triangle.
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
    # Lanczos' method would fail for the next round's graph too: given these vectors as a start, it is not tried there.
    block = vectors if iterate and size <= REDUCE_UP_TO and not kernels.BATCHED else None
    return Eigenpairs(convert(values, "float64"), convert(vectors, "float64"), block)


def can_iterate(size: int, count: int) -> bool:
    """Whether iterative methods find ``count`` eigenpairs of a matrix faster than a full reduction."""
    return size >= ITERATE_FROM and VECTORS_PER_PAIR * count <= size


def lanczos(matrix: cpu.LowerTriangle | np.ndarray, count: int) -> Eigenpairs | None:
    """Return the top eigenpairs by Lanczos' method, the fastest one, or None where it misses some.

    It starts from a single vector, so it may find only one vector of a multiple eigenvalue, as 1 is in a graph of
    several components. For a sparse matrix the vectors of 1 are known from the components, and are not searched for.
    """
    lower = cpu.as_lower(cpu.symmetric(matrix))
    known = lower.known[:, :count]  # (p, s)
    ones = np.ones(known.shape[1])
    if len(ones) == count:
        return Eigenpairs(ones, known)
    found = lanczos_eigenpairs(lower, count - len(ones))
    if found is None:
        return None
    return Eigenpairs(np.concatenate([ones, found.values]), np.column_stack([known, found.vectors]))


def lanczos_eigenpairs(lower: cpu.LowerTriangle, count: int) -> Eigenpairs | None:
    """Return the top eigenpairs by Lanczos' method alone, or None where it misses some or does not converge."""
    size = cpu.side(lower)
    most, done, tolerance = min(MOST_STEPS, int(size / STEP_SIZE)), 0, RESIDUAL[lower.dtype.itemsize]
    basis = np.empty((most + 1, size), dtype=lower.dtype)
    basis[0] = random_direction(size, lower.dtype)
    diagonal, off_diagonal = np.zeros((2, most))
    while done < most:
        first_check = max(FEWEST_STEPS, int(STEPS_PER_PAIR * count))
        done = cpu.search_krylov(lower, basis, diagonal, off_diagonal, done, first_check, count, tolerance)
        if not done:
            return None
        step, left = (diagonal[:done], off_diagonal[: done - 1]), float(off_diagonal[done - 1])
        values = cpu.tridiagonal_values(*step, count)  # (m,) ascending
        ritz_vectors = cpu.tridiagonal_vectors(*step, values)  # (steps, m)
        if ritz_residual(ritz_vectors, left) <= tolerance:
            vectors = basis[:done].T @ ritz_vectors[:, ::-1].astype(lower.dtype)  # (p, m)
            missed = largest_remaining(lower, vectors) > values[0] + tolerance
            return None if missed else Eigenpairs(values[::-1], vectors.astype(np.float64))
    return None


def ritz_residual(ritz_vectors: np.ndarray, left: float) -> float:
    """Return the largest norm of M v - lambda v over the Ritz vectors v of Lanczos' method.

    ``ritz_vectors`` are eigenvectors of the tridiagonal matrix (iterations x m): v is the basis times one of them.
    ``left`` is the norm of the vector that the last iteration left.
    """
    return left * float(np.abs(ritz_vectors[-1]).max()) if ritz_vectors.size else np.inf


def largest_remaining(matrix: cpu.LowerTriangle | np.ndarray, vectors: np.ndarray) -> float:
    """Return a nearly sharp lower bound of the largest eigenvalue whose vectors are orthogonal to the given ones.

    It takes PROBE_STEPS iterations of Lanczos' method. Their Krylov basis begins with the given vectors, so it stays
    orthogonal to them.
    """
    size, count = vectors.shape
    first, last = count, min(count + PROBE_STEPS, size - 1)
    basis = np.empty((last + 1, size), dtype=matrix.dtype)
    basis[:count] = vectors.T
    start = random_direction(size, matrix.dtype, seed=1).copy()
    for _ in range(2):  # once would leave rounding errors
        start -= vectors @ (vectors.T @ start)
    basis[count] = start / np.linalg.norm(start)
    diagonal, off_diagonal = np.zeros((2, last))
    stop = min(cpu.extend_krylov(matrix, basis, diagonal, off_diagonal, first, last), last)
    return float(cpu.tridiagonal_values(diagonal[first:stop], off_diagonal[first : stop - 1], 1)[0])


@lru_cache(maxsize=8)
def random_direction(size: int, dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Return a random vector of length one, the same in every call."""
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
        if number or cold:  # a warm start is orthonormal already
            block = kernels.orthonormal(block)
        image = matrix @ block  # (p, m)
        values, rotation = kernels.small_eigenpairs(convert(block.mT @ image, "float64"))  # Rayleigh-Ritz
        values, rotation = xp.flip(values, axis=-1), convert(xp.flip(rotation, axis=-1), precision_of(matrix))
        block, image = block @ rotation, image @ rotation
        gaps = image[..., :count] - block[..., :count] * convert(values[..., None, :count], precision_of(matrix))
        cut = convert(xp.clip(values[..., -1:], 1e-3, LARGEST_CUT), precision_of(matrix))
        # In one copy, because each waits for the device.
        square, largest_cut = to_host(stack([xp.max(xp.sum(gaps * gaps, axis=-2)), xp.max(cut)])).tolist()
        residual = square**0.5
        if residual < tolerance:
            return Eigenpairs(values[..., :count], convert(block[..., :count], "float64"), block)
        if number > 1 and filters_left(before, residual, tolerance) > most_filters:
            return None  # a full reduction is faster
        before = residual
        block = chebyshev(matrix, block, image, cut[..., None], largest_cut)
    return None


def filters_left(before: float, now: float, goal: float) -> float:
    """Return how many more filters a residual needs, at the rate of the last one.

    Examples
    --------
    >>> round(filters_left(1e-1, 1e-2, 1e-5))
    3
    """
    return np.log(now / goal) / np.log(before / now) if now < before else np.inf


def chebyshev(
    matrix: np.ndarray, block: np.ndarray, image: np.ndarray, cut: np.ndarray, largest_cut: float
) -> np.ndarray:
    """Apply the Chebyshev polynomial that is small on [0, cut] and grows fast above, to a block, which is consumed.

    ``image`` is matrix @ block. Of several matrices each has its own cut.
    """
    xp = array_namespace(matrix)
    half = cut / 2
    # An eigenvalue of 1 grows like exp(degree * steepness). Growth beyond the precision gains nothing.
    steepness = float(np.arccosh(2 / largest_cut - 1))
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
        if matrix.dtype.itemsize < 8:  # entries grow like (4 / cut)^degree, which would overflow float32
            scale = xp.max(xp.abs(now))
            now, before = now / scale, before / scale
    return now


def inverse_roots(values: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """Return values^(-1/2); zero for rounding errors, and for all values if the largest is at most ``floor``."""
    xp = array_namespace(values)
    largest = xp.max(values, axis=-1, keepdims=True)
    real = (values > RANK_TOLERANCE * xp.clip(largest, np.finfo(float).tiny, None)) & (largest > floor)
    return xp.where(real, xp.where(real, values, 1.0) ** -0.5, 0.0)
