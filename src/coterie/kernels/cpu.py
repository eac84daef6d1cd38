"""The kernels for NumPy arrays: BLAS for products, numba for everything that is not a product."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import accumulate, pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from coterie.kernels import FEW_LANES, PRODUCT_ROWS, _lapack, _plain, triangle_side
from coterie.threads import has_many_threads

# Several graphs, runs or parts are processed one by one, each on a thread of its own.
BATCHED = False

# Products with landmarks and the choice of the nearest ones are two steps.
FUSED = False

# A full reduction of a p x p matrix costs about p / m times this many filters of m columns.
FILTERS_PER_REDUCTION = 1 / 3

# The largest degree of a Chebyshev filter: beyond it, orthonormalising in between finds the vectors sooner.
FILTER_DEGREE = 10

# Rows whose projections on all graphs' bases are computed together, where many threads run side by side.
MANY_PRODUCT_ROWS = 4 * PRODUCT_ROWS

# From this many centroids on, products with all of them are faster than distances one by one.
ASSIGNED_BY_PRODUCTS = 128

# Landmarks of up to this many numbers are also stored dense and as columns, which makes products faster.
DENSE_NUMBERS = 25_000_000

# A symmetric matrix with a smaller share of nonzeros is stored sparse: in a product, a nonzero of a sparse matrix takes
# ten times as long as an entry of a dense one.
SPARSE_SHARE = 1 / 12

# Types that compiled loops over raw rows read directly; others are converted first.
READ_TYPES = (np.uint8, np.float32, np.float64)

# Up to this many rows are processed without compiled loops, inside ``few_rows`` and while numba is not imported.
FEW_ROWS = 64

_plainly: ContextVar[bool] = ContextVar("plainly", default=False)


@contextmanager
def few_rows(n_rows: int) -> Iterator[None]:
    """Use no numba inside, in this thread, if rows are few and no module has imported it so far."""
    token = _plainly.set(n_rows <= FEW_ROWS and "numba" not in sys.modules)
    try:
        yield
    finally:
        _plainly.reset(token)


def loops() -> ModuleType:
    """Return the module of the loops for new rows: compiled ones, or those in NumPy inside :func:`few_rows`."""
    return _plain if _plainly.get() else compiled_loops()


@cache
def compiled_loops() -> ModuleType:
    """Return the compiled loops; numba takes a while to import."""
    from coterie.kernels import _numba

    return _numba


def zeros(shape: tuple[int, ...], like: np.ndarray) -> np.ndarray:
    """Return float64 zeros on the device of ``like``: the host."""
    return np.zeros(shape)


def squared_norms(rows: Any) -> np.ndarray:
    """Return the squared lengths of the rows of an array or a CSR array."""
    if sparse.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()  # (b,)
    return np.einsum("ij,ij->i", rows, rows)  # (b,)


def row_sums(rows: Any) -> np.ndarray:
    """Return the rows' sums in float64."""
    if sparse.issparse(rows):  # SciPy would add float32 up in float32
        return np.asarray(rows.astype(np.float64).sum(axis=1)).ravel()  # (b,)
    sums = np.empty(len(rows))
    loops().row_sums(readable(rows), sums)
    return sums  # (b,)


def readable(data: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """Return an array in a type and layout that compiled loops read, without a copy if it has them."""
    data = np.ascontiguousarray(data)
    return data if data.dtype in READ_TYPES else data.astype(dtype)


def column_ends(data: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the least and the largest value of every column, and the numbers of its nonzeros and negative values."""
    low, high, nonzeros, negatives = np.empty((4, data.shape[1]))
    compiled_loops().column_ends(readable(data), low, high, nonzeros, negatives)
    return low, high, nonzeros, negatives  # (d,) each


def column_tails(data: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of ((x - mean) * scale)^3 and of its fourth power, column by column."""
    skewness, kurtosis = np.empty((2, data.shape[1]))
    compiled_loops().column_tails(readable(data), mean, scale, skewness, kurtosis)
    return skewness, kurtosis  # (d,), (d,)


def column_mean_and_std(data: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns' means and standard deviations in float64."""
    if not sparse.issparse(data):
        mean, std = np.empty((2, data.shape[1]))
        compiled_loops().column_mean_and_std(readable(data), mean, std)
        return mean, std  # (d,), (d,)
    (n, d), values, columns = data.shape, data.data.astype(np.float64), data.indices
    mean = np.bincount(columns, values, d) / n
    # A zero that is not stored lies |mean| from the mean.
    squares = np.bincount(columns, (values - mean[columns]) ** 2, d)
    return mean, np.sqrt((squares + (n - np.bincount(columns, minlength=d)) * mean**2) / n)  # (d,), (d,)


def median(values: np.ndarray) -> float:
    """Return the median."""
    return float(np.median(values))


def column_quantiles(data: np.ndarray, share: float) -> np.ndarray:
    """Return a quantile of every column."""
    return np.median(data, axis=0) if share == 0.5 else np.quantile(data, share, axis=0)  # (d,)


def principal_directions(rows: Any, rank: int, seed: int) -> np.ndarray:
    """Return the top right singular vectors of rows, which may be sparse."""
    from sklearn.utils.extmath import randomized_svd

    settings = {"n_oversamples": 10, "n_iter": 4, "random_state": seed}
    try:
        return randomized_svd(rows, rank, **settings)[2].T  # (d, r)
    except np.linalg.LinAlgError:  # see singular_vectors
        return randomized_svd(rows, rank, svd_lapack_driver="gesvd", **settings)[2].T


def orthonormal(block: np.ndarray) -> np.ndarray:
    """Return orthonormal columns that span those of a block."""
    return np.linalg.qr(block)[0]  # (n, m)


def small_eigenpairs(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all eigenvalues of a small symmetric matrix, ascending, and their vectors."""
    return np.linalg.eigh(matrix)  # (m,), (m, m)


def largest_eigenpairs(matrix: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest eigenvalues of a symmetric matrix, descending, and their vectors.

    If LAPACK fails to find these, all eigenpairs are computed.
    """
    if not np.isfinite(matrix).all():
        raise ValueError("A matrix whose eigenvectors are sought must be finite.")
    values, vectors = _lapack.top_eigenpairs(matrix, count)
    if len(values) < count:
        values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:count], vectors[:, ::-1][:, :count]  # (m,), (p, m)


class LowerTriangle(NamedTuple):
    """A symmetric matrix as its lower triangle, row by row: all entries, or only the nonzeros.

    With only the nonzeros, ``values`` hold half of the diagonal, and c c^T, which has no zeros, is still to be
    subtracted. The graph may have several connected components. The eigenvalue 1 is then multiple, which Lanczos'
    method could miss, but its eigenvectors are known: the parts of c in the components. Products leave all of these
    out.
    """

    values: np.ndarray  # (e,)
    columns: np.ndarray  # (e,) of the values
    starts: np.ndarray  # (p + 1,) where each row begins; empty if all entries are stored
    constant: np.ndarray  # (p,) c
    components: np.ndarray  # (p,) connected component of every landmark
    shares: np.ndarray  # (m,) squared norm of the part of c in every component

    @property
    def dtype(self) -> np.dtype:
        """The values' type."""
        return self.values.dtype

    @property
    def known(self) -> np.ndarray:
        """Orthonormal eigenvectors of the eigenvalue 1, orthogonal to c: one fewer than the components (p, u - 1)."""
        used = self.shares > 0
        if used.sum() < 2:
            return np.empty((len(self.constant), 0))
        roots = np.sqrt(self.shares[used])  # (u,) c in the basis of the components' unit vectors
        others = np.zeros((len(used), len(roots) - 1))
        others[used] = np.linalg.qr(roots[:, None], mode="complete")[0][:, 1:] / roots[:, None]  # orthogonal to c
        return self.constant[:, None] * others[self.components]


def as_lower(matrix: LowerTriangle | np.ndarray) -> LowerTriangle:
    """Return a lower triangle as a :class:`LowerTriangle`."""
    if isinstance(matrix, LowerTriangle):
        return matrix
    constant, none = np.zeros(side(matrix), matrix.dtype), np.empty(0, np.int64)
    return LowerTriangle(matrix, np.empty(0, np.uint32), none, constant, none, np.empty(0))


def symmetric(matrix: LowerTriangle | np.ndarray) -> LowerTriangle | np.ndarray:
    """Return the lower triangle of a symmetric matrix, row by row, which is half as much to read."""
    if isinstance(matrix, LowerTriangle) or matrix.ndim == 1:
        return matrix
    triangle = np.empty(len(matrix) * (len(matrix) + 1) // 2, dtype=matrix.dtype)
    compiled_loops().fill_triangle(matrix, triangle)
    return triangle


def whole(matrix: LowerTriangle | np.ndarray) -> np.ndarray:
    """Return the whole of a symmetric matrix, given that or its lower triangle."""
    if not isinstance(matrix, LowerTriangle) and matrix.ndim > 1:
        return matrix
    found = np.empty((side(matrix), side(matrix)), dtype=matrix.dtype)
    if isinstance(matrix, LowerTriangle):
        compiled_loops().fill_from_nonzeros(*matrix[:4], found)
    else:
        compiled_loops().fill_symmetric(matrix, found)
    return found  # (p, p)


def side(matrix: LowerTriangle | np.ndarray) -> int:
    """Return the number of rows of a symmetric matrix, given the whole of it or its lower triangle."""
    if isinstance(matrix, LowerTriangle):
        return len(matrix.constant)
    return len(matrix) if matrix.ndim > 1 else triangle_side(len(matrix))


def degrees(triangle: np.ndarray) -> np.ndarray:
    """Return the row sums of a symmetric matrix, given its lower triangle."""
    sums = np.zeros(triangle_side(len(triangle)))
    compiled_loops().add_row_sums(triangle, sums)
    return sums  # (p,)


def normalised_gram(triangle: np.ndarray, roots: np.ndarray, constant: np.ndarray | None, precision: str) -> np.ndarray:
    """Return D^(-1/2) G D^(-1/2), given the roots of 1 / D, less c c^T for a ``constant`` vector c."""
    found = np.empty(triangle.shape, dtype=precision)
    compiled_loops().normalise(triangle, roots, np.zeros_like(roots) if constant is None else constant, found)
    return found  # a triangle


def packed_gram(
    triangle: np.ndarray, roots: np.ndarray, constant: np.ndarray | None, precision: str
) -> LowerTriangle | np.ndarray:
    """Return the same as :func:`normalised_gram`, but only its nonzeros where they are few."""
    n_nonzeros = compiled_loops().count_nonzeros(triangle)
    if n_nonzeros > SPARSE_SHARE * len(triangle):
        return normalised_gram(triangle, roots, constant, precision)
    p, loops = len(roots), compiled_loops()
    values, columns = np.empty(n_nonzeros, precision), np.empty(n_nonzeros, np.uint32)
    starts, components = np.empty(p + 1, np.int64), np.empty(p, np.int64)
    loops.normalise_nonzeros(triangle, roots, values, columns, starts)
    n_components = loops.label_components(columns, starts, components)
    constant = np.zeros(p) if constant is None else constant
    shares = np.bincount(components, constant**2, n_components)  # (m,)
    return LowerTriangle(values, columns, starts, constant.astype(precision), components, shares)


def search_krylov(
    matrix: LowerTriangle | np.ndarray,
    basis: np.ndarray,
    diagonal: np.ndarray,
    off_diagonal: np.ndarray,
    done: int,
    first_check: int,
    count: int,
    tolerance: float,
) -> int:
    """Continue Lanczos' method; see ``_numba.search_krylov``."""
    given = (as_lower(matrix), basis, diagonal, off_diagonal, done, first_check, count, tolerance)
    return int(compiled_loops().search_krylov(*given))


def extend_krylov(
    matrix: LowerTriangle | np.ndarray,
    basis: np.ndarray,
    diagonal: np.ndarray,
    off_diagonal: np.ndarray,
    first: int,
    last: int,
) -> int:
    """Add rows to an orthonormal Krylov basis; see ``_numba.extend_krylov``."""
    return int(compiled_loops().extend_krylov(as_lower(matrix), basis, diagonal, off_diagonal, first, last))


singular_vectors = _lapack.singular_vectors
tridiagonal_values = _lapack.tridiagonal_values
tridiagonal_vectors = _lapack.tridiagonal_vectors


def as_columns(rows: Any) -> Any:
    """Return rows as columns, in the layout with the fastest products unless that would take a lot of memory."""
    n, d = rows.shape
    if n * d > DENSE_NUMBERS:
        return rows.T.tocsr() if sparse.issparse(rows) else rows.T  # (d, n)
    dense = rows.toarray() if sparse.issparse(rows) else rows
    return np.ascontiguousarray(dense.T)  # (d, n)


def products(rows: Any, columns: Any, out: np.ndarray | None = None) -> np.ndarray:
    """Return ``rows @ columns`` as an array, in ``out`` if there is one; either may be sparse."""
    if not (sparse.issparse(rows) or sparse.issparse(columns)):
        return row_product(rows, columns, out)  # (b, p)
    found = rows @ columns
    found = found.toarray() if sparse.issparse(found) else found
    if out is None:
        return found
    out[...] = found
    return out


def finish_distances(products: np.ndarray, row_norms: np.ndarray, landmark_norms: np.ndarray) -> np.ndarray:
    """Turn products x.m into squared distances, in place."""
    loops().finish_distances(products, row_norms, landmark_norms)
    return products


def impute_distances(distances: np.ndarray, likeness: np.ndarray) -> np.ndarray:
    """Return squared distances over all views, the missing ones imputed; see ``_numba.impute_distances``."""
    total = np.empty_like(distances[0])
    loops().impute_distances(distances, likeness, total)
    return total  # (b, p)


def finish_and_find(
    products: np.ndarray,
    row_norms: np.ndarray,
    landmark_norms: np.ndarray,
    scales: Sequence[int],
    found: tuple[np.ndarray, np.ndarray],
) -> None:
    """Turn products x.m into squared distances, in place, and write the nearest landmarks to ``found``: in one pass."""
    loops().smallest(products[None], row_norms, landmark_norms, np.array(scales), *found)


def smallest(
    distances: np.ndarray, scales: Sequence[int], found: tuple[np.ndarray, np.ndarray] | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return each row's q nearest landmarks by the sum of distances (V, b, p), in the order of the landmarks.

    The list has a pair of landmark numbers and distances (b, q) for every q of ``scales``: the columns of ``found``,
    which are written to, or of new arrays.
    """
    _, n, p = distances.shape
    indices, values = found or new_neighbours(n, sum(scales), p, distances)
    nothing = np.empty(0, distances.dtype)  # the distances are finished
    loops().smallest(np.ascontiguousarray(distances), nothing, nothing, np.array(scales), indices, values)
    stops = accumulate(scales)
    return [(indices[:, stop - q : stop], values[:, stop - q : stop]) for q, stop in zip(scales, stops, strict=True)]


def new_neighbours(n_rows: int, n_neighbours: int, n_landmarks: int, like: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return empty arrays for landmark numbers and for distances in the precision of ``like``."""
    index_type = np.uint16 if n_landmarks <= 2**16 else np.uint32
    return np.empty((n_rows, n_neighbours), index_type), np.empty((n_rows, n_neighbours), like.dtype)


def rows_beyond(squares: np.ndarray, columns: Sequence[tuple[int, int]], limits: np.ndarray) -> np.ndarray:
    """Return the numbers of rows with a finite value beyond the limit of its range of columns (first, last)."""
    beyond = np.zeros(len(squares), dtype=bool)
    loops().mark_beyond(squares, np.array(columns), limits, beyond)
    return np.flatnonzero(beyond)


def gaussian(squares: np.ndarray, bounds: np.ndarray, bandwidths: Sequence[float]) -> np.ndarray:
    """Turn squared distances into exp(-d^2 / 2 sigma^2), each graph's summing to one (the paper's Eq. (1)), in place.

    A bandwidth of 0 means the row's own; see ``_numba.gaussian_exponents``.
    """
    loops().gaussian_exponents(squares, bounds, np.array(bandwidths, dtype=np.float64))
    with np.errstate(under="ignore"):
        np.exp(squares, out=squares)  # NumPy's exp uses vector instructions
    loops().unit_sums(squares, bounds)
    return squares


def sort_neighbours(indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort each graph's neighbours by landmark, as :func:`smallest` returns them, in place."""
    for start, stop in pairwise(bounds):
        compiled_loops().sort_neighbours(indices[:, start:stop], weights[:, start:stop])
    return indices, weights


def host_neighbours(indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours, which are already in the layout of these kernels."""
    return indices, weights


def new_gram(n_landmarks: int, like: np.ndarray) -> np.ndarray:
    """Return zeros that :func:`gram` adds to."""
    return np.zeros(n_landmarks * (n_landmarks + 1) // 2)  # a triangle: half as much to add up and to send


def gram(indices: np.ndarray, weights: np.ndarray, total: np.ndarray) -> None:
    """Add sum_i z_i z_i^T of one graph, its neighbours sorted, to ``total``: the lower triangle, row by row."""
    n_landmarks = triangle_side(len(total))
    if not compiled_loops().gram(indices, weights, n_landmarks, total):
        check_landmark_numbers(indices, n_landmarks)


def check_landmark_numbers(indices: np.ndarray, n_landmarks: int) -> None:
    """Raise an error for neighbours that are not landmarks: compiled loops would access memory out of bounds."""
    if not indices.size:
        return
    least = 0 if indices.dtype.kind == "u" else int(indices.min())
    if least < 0 or int(indices.max()) >= n_landmarks:
        raise IndexError(
            f"Neighbours must be landmarks 0 to {n_landmarks - 1}. Got {indices.min()} to {indices.max()}."
        )


def finish_gram(total: np.ndarray) -> np.ndarray:
    """Return the whole symmetric matrix of sums."""
    return whole(total)  # (p, p)


def select_landmarks(total: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Return the rows and columns of the sums that belong to the landmarks ``own``."""
    found = np.empty(len(own) * (len(own) + 1) // 2)
    compiled_loops().select_landmarks(total, own, found)
    return found


def joined_landmarks(total: np.ndarray) -> np.ndarray:
    """Return the numbers of the landmarks that are a neighbour of any row, ascending."""
    numbers = np.arange(triangle_side(len(total)))
    return np.flatnonzero(total[numbers * (numbers + 3) // 2])  # the diagonal


def project(indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray, bases: np.ndarray, unit: bool) -> np.ndarray:
    """Return [e^1_i .. e^G_i]: the rows' projections on every graph's basis, side by side."""
    n_graphs, _, r = bases.shape
    stacked = np.empty((len(indices), n_graphs * r), dtype=bases.dtype)
    indices, weights = np.ascontiguousarray(indices), np.ascontiguousarray(weights)
    check_landmark_numbers(indices, bases.shape[1])
    loops().project(indices, weights, bounds, widened(bases), unit, stacked)
    return stacked


def embed(
    indices: np.ndarray, weights: np.ndarray, bounds: np.ndarray, bases: np.ndarray, rotation: np.ndarray | None
) -> np.ndarray:
    """Return u*_i = sum_g e^g_i R^g, each e^g_i of length one; without ``rotation`` sum_g sum_j z^g_ij B^g[j]."""
    check_landmark_numbers(indices, bases.shape[1])
    indices, weights, wide = np.ascontiguousarray(indices), np.ascontiguousarray(weights), widened(bases)
    if rotation is None:
        rows = np.empty((len(indices), bases.shape[2]), dtype=bases.dtype)
        loops().embed(indices, weights, bounds, wide, rows)
        return rows  # (b, k)
    flat = rotation.reshape(-1, rotation.shape[2])  # (G r, k)
    rows = np.empty((len(indices), flat.shape[1]), dtype=bases.dtype)
    for some in cached_parts(len(rows)):  # the projections stay in the cache
        stacked = np.empty((len(rows[some]), len(flat)), dtype=bases.dtype)
        loops().project(indices[some], weights[some], bounds, wide, True, stacked)
        row_product(stacked, flat, rows[some])
    return rows  # (b, k)


def cached_parts(n_rows: int) -> list[slice]:
    """Return slices of the rows whose projections fit the cache, larger ones where many threads run side by side."""
    size = MANY_PRODUCT_ROWS if has_many_threads() else PRODUCT_ROWS
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def widened(tables: np.ndarray) -> np.ndarray:
    """Return tables padded with columns of zeros to a multiple of FEW_LANES, which compiled loops add at once."""
    *shape, width = tables.shape
    wide = np.zeros((*shape, -(-width // FEW_LANES) * FEW_LANES), dtype=tables.dtype)
    wide[..., :width] = tables
    return wide


def row_product(rows: np.ndarray, columns: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return ``rows @ columns``, from products of PRODUCT_ROWS rows each, in one call that releases the GIL once.

    BLAS rounds products of other sizes differently, so bits would depend on how many rows are multiplied at once. A
    single row is duplicated, because a product with one row is rounded differently, too.
    """
    whole = len(rows) // PRODUCT_ROWS * PRODUCT_ROWS
    if out is None:
        out = np.empty((len(rows), columns.shape[1]), np.result_type(rows, columns))
    if whole:
        parts, found = (own[:whole].reshape(-1, PRODUCT_ROWS, own.shape[1]) for own in (rows, out))  # views
        np.matmul(parts, columns, out=found)
    if len(rows) == whole + 1:
        out[whole:] = (np.repeat(rows[whole:], 2, axis=0) @ columns)[:1]
    elif len(rows) > whole:
        np.matmul(rows[whole:], columns, out=out[whole:])
    return out


def guide(
    indices: np.ndarray,
    weights: np.ndarray,
    bounds: np.ndarray,
    bases: np.ndarray,
    rotation: np.ndarray | None,
    anchors: np.ndarray,
) -> np.ndarray:
    """Return Z <- A* (Hadamard) Z, rows of each graph summing to one again, with A*_ij = u*_i . anchor_j."""
    guided = np.empty_like(weights)
    embedding = embed(indices, weights, bounds, bases, rotation)  # (b, k)
    check_landmark_numbers(indices, len(anchors))
    loops().guide(indices, weights, bounds, embedding, widened(anchors), guided)
    return guided


def known_graphs(weights: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return 1 where a row has neighbours in a graph, and 0 where it lacks the graph's view."""
    known = np.empty((len(weights), len(bounds) - 1), dtype=weights.dtype)
    compiled_loops().known_graphs(weights, bounds, known)
    return known  # (b, G)


def add_powers(rows: np.ndarray, squares: np.ndarray, fourths: np.ndarray) -> None:
    """Add sum_i e_i^2 and sum_i e_i^4 of every column."""
    compiled_loops().add_powers(rows, squares, fourths)


def add_outer(rows: np.ndarray, total: np.ndarray) -> None:
    """Add sum_i e_i e_i^T to ``total``."""
    total += rows.T @ rows


def unit_rows(rows: np.ndarray) -> np.ndarray:
    """Divide every row by its length, in place; a row of zeros stays as it is."""
    loops().unit_rows(rows)
    return rows


def assign(embedding: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return each row's nearest centroid, and the squared distances to the two nearest ones."""
    labels = np.empty(len(embedding), dtype=np.int32)
    nearest, second = np.empty((2, len(embedding)))
    embedding, centroids = np.ascontiguousarray(embedding), centroids.astype(embedding.dtype)
    if len(centroids) < ASSIGNED_BY_PRODUCTS:
        columns = widened(centroids.T)  # (d, width)
        loops().assign(embedding, columns, len(centroids), labels, nearest, second)
        return labels, nearest, second
    norms = squared_norms(centroids)  # (k,)
    for some in cached_parts(len(embedding)):
        products = row_product(embedding[some], centroids.T)  # (b, k)
        loops().assign_from(products, embedding[some], centroids, norms, labels[some], nearest[some], second[some])
    return labels, nearest, second


def zero_rows(rows: np.ndarray) -> np.ndarray:
    """Return which rows are zero."""
    zero = np.empty(len(rows), dtype=bool)
    loops().zero_rows(rows, zero)
    return zero  # (b,)


def confidence(nearest: np.ndarray, second: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Return 1 - d / d', given the squared distances to the two nearest centroids; 0 for rows of ``zero``."""
    found = np.empty(len(nearest), dtype=np.float32)
    loops().confidence(nearest, second, zero, found)
    return found  # (b,)


def add_groups(rows: np.ndarray, labels: np.ndarray, sums: np.ndarray, counts: np.ndarray) -> None:
    """Add every row to its group's ``sums`` (groups x d) and ``counts``."""
    compiled_loops().add_groups(rows, labels, sums, counts)


def nearest_centroids(rows: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's nearest centroid and the squared distance to it, for several runs (runs x k x c)."""
    found = [assign(rows, own) for own in centroids]
    labels, nearest = (np.stack([run[part] for run in found]) for part in range(2))
    return labels, nearest  # (runs, n), (runs, n)


def group_centroids(rows: np.ndarray, labels: np.ndarray, nearest: np.ndarray, n_groups: int) -> np.ndarray:
    """Return the groups' means, for several runs; an empty group restarts at the row farthest from its centroid."""
    return np.stack(
        [_group_centroids(rows, *run, n_groups) for run in zip(labels, nearest, strict=True)]
    )  # (runs, k, c)


def _group_centroids(rows: np.ndarray, labels: np.ndarray, nearest: np.ndarray, n_groups: int) -> np.ndarray:
    sums, counts = np.zeros((n_groups, rows.shape[1])), np.zeros(n_groups)
    add_groups(rows, labels, sums, counts)
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        farthest = np.argsort(-nearest, kind="stable")[: len(empty)]
        sums[empty], counts[empty] = rows[farthest], 1
    return (sums / counts[:, None]).astype(rows.dtype)  # (k, c)


def add_start(
    rows: np.ndarray, norms: np.ndarray, least: np.ndarray | None, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the next start of each run of greedy k-means++, and every row's squared distance to the nearest start.

    Starts are row numbers. ``least`` are those distances for the starts so far, None before the first; ``draws``
    (runs x trials) are random numbers. The trial that leaves the least sum of squared distances wins.
    """
    if least is None:
        numbers = np.minimum((draws[:, 0] * len(rows)).astype(np.int64), len(rows) - 1)  # (runs,)
        return numbers, np.stack([_squares_to(rows, norms, int(number)) for number in numbers])  # (runs, n)
    found = [_add_start(rows, norms, own, trials) for own, trials in zip(least, draws, strict=True)]
    return np.array([number for number, _ in found]), np.stack([own for _, own in found])


def _add_start(rows: np.ndarray, norms: np.ndarray, least: np.ndarray, draws: np.ndarray) -> tuple[int, np.ndarray]:
    odds = np.cumsum(least, dtype=np.float64)
    numbers = np.minimum(np.searchsorted(odds, draws * odds[-1]), len(rows) - 1)  # (trials,)
    after = np.empty_like(least)  # (n,)
    best = compiled_loops().nearest_start(_products_with(rows, numbers), norms, numbers, least, after)
    return int(numbers[best]), after


def _squares_to(rows: np.ndarray, norms: np.ndarray, number: int) -> np.ndarray:
    """Return the squared distances of all rows to one of them."""
    return np.maximum(norms + norms[number] - 2 * _products_with(rows, [number])[:, 0], 0)  # (n,)


def _products_with(rows: np.ndarray, numbers: Any) -> np.ndarray:
    """Return the products of all rows with some of them."""
    with np.errstate(invalid="ignore"):  # all numbers are finite, but some BLAS read beyond the rows and set the flag
        return rows @ rows[numbers].T  # (n, trials)


def nearest_in_group(rows: np.ndarray, labels: np.ndarray, means: np.ndarray, slack: float) -> np.ndarray:
    """Return for every group the member nearest to its mean; see :func:`least_in_group`."""
    gaps = np.empty(len(rows))
    compiled_loops().distance_to_group(rows, labels, means, gaps)
    return least_in_group(gaps, labels, len(means), slack)


def least_in_group(values: np.ndarray, labels: np.ndarray, n_groups: int, slack: float = 0.0) -> np.ndarray:
    """Return for every group the member with the least value, -1 for an empty group.

    It is the first member whose value exceeds the least by at most the share ``slack`` of it.
    """
    found = np.full(n_groups, -1)
    compiled_loops().least_in_group(values, labels, slack, found)
    return found  # (groups,)


def count_groups(labels: np.ndarray, n_groups: int) -> np.ndarray:
    """Return the number of rows in every group."""
    return np.bincount(labels, minlength=n_groups)  # (groups,)


def label_votes(
    indices: np.ndarray,
    weights: np.ndarray,
    labels: np.ndarray,
    n_labels: int,
    graphs: Sequence[tuple[int, int]] | None = None,
) -> np.ndarray:
    """Return Z D^(-1) Z^T Y of one graph without each row's own part: the labels of its landmarks' *other* rows.

    A row's votes sum to one, or to less where it is alone at some of its landmarks. ``graphs`` are the column ranges
    (first, last) of several graphs, whose votes are added up; without them all columns belong to one graph.
    """
    indices, weights = np.ascontiguousarray(indices), np.ascontiguousarray(weights)
    votes, loops = np.zeros((len(indices), n_labels)), compiled_loops()  # (n, k)
    for first, last in graphs or [(0, indices.shape[1])]:
        at_landmarks = widened(np.zeros((int(indices[:, first:last].max()) + 1, n_labels)))  # (p, width)
        loops.add_votes(indices, weights, first, last, labels, at_landmarks)
        loops.other_votes(indices, weights, first, last, labels, at_landmarks, at_landmarks.sum(axis=1), votes)
    return votes


def level(rows: np.ndarray, center: np.ndarray, scale: np.ndarray, out: np.dtype) -> np.ndarray:
    """Return (x - center) * scale, column by column, of values of any type, as an array of type ``out``."""
    found = np.empty(rows.shape, dtype=out)
    loops().level(readable(rows, center.dtype), center, scale, found)
    return found
