"""The kernels of a CPU, against sorting and dense algebra."""

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from coterie.kernels import cpu as kernels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("p", "scales"),  # folded from 24 q on, 64 compared at once, more than 256 candidates thinned out
    [(30, [6]), (6, [6]), (64, [3]), (144, [2, 6]), (203, [1]), (1001, [5]), (1001, [5, 10, 80]), (700, [300, 7])],
)
@pytest.mark.parametrize("different", [3, 20, 10**6])  # distances: from nothing but ties to hardly any
def test_smallest_is_a_stable_sort(rng, p, scales, different, dtype):
    distances = rng.integers(0, different, size=(50, p)).astype(dtype)
    distances[::7, ::3] = np.inf
    distances[3] = np.inf  # the row lacks the view
    distances[4, 2:] = np.inf  # fewer landmarks have it than there are neighbours
    sorted_rows = np.argsort(distances, axis=1, kind="stable")
    for q, (indices, values) in zip(scales, kernels.smallest(distances[None], scales), strict=True):
        order = np.sort(sorted_rows[:, :q], axis=1)  # in the order of the landmarks
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(distances, order, 1))


def test_distances_that_are_no_numbers_lead_nowhere_else():
    ((indices, _),) = kernels.smallest(np.full((1, 5, 300), np.nan, dtype=np.float32), [7])
    assert (indices < 300).all()


def test_a_bound_excludes_most_values_though_the_first_landmark_lacks_the_view(rng):
    values = 1 + rng.random(1000).astype(np.float32)
    values[0] = np.inf
    bound = kernels.compiled_loops().bound_of_smallest(values, 10, values[0])
    assert 10 <= (values <= bound).sum() <= 22


@pytest.mark.parametrize("n_views", [2, 3, 5])
def test_smallest_adds_views_up(rng, n_views):
    distances = rng.random((n_views, 40, 130)).astype(np.float32)
    total = sum(distances[1:], distances[0])
    for found, alone in zip(kernels.smallest(distances, [4, 9]), kernels.smallest(total[None], [4, 9]), strict=True):
        np.testing.assert_array_equal(found, alone)


def test_products_are_finished_and_searched_in_one_pass(rng):
    rows, landmarks = (rng.normal(size=(n, 4)).astype(np.float32) for n in (60, 300))
    norms = tuple(np.einsum("ij,ij->i", part, part) for part in (rows, landmarks))
    norms[0][5] = np.inf  # the row lacks the view
    apart = kernels.finish_distances(rows @ landmarks.T, *norms)
    together = rows @ landmarks.T
    found = kernels.new_neighbours(60, 20, 300, rows)
    kernels.finish_and_find(together, *norms, [5, 7], (found[0][:, 3:15], found[1][:, 3:15]))
    np.testing.assert_array_equal(together, apart)
    for part, start in zip(kernels.smallest(apart[None], [5, 7]), (3, 8), strict=True):
        stop = start + part[0].shape[1]
        np.testing.assert_array_equal(found[0][:, start:stop], part[0])
        np.testing.assert_array_equal(found[1][:, start:stop], part[1])


def test_gaussian_weights():
    distances = np.array([[0.0, 1.0, 4.0], [1e8, 1e8 + 1, np.inf], [np.inf] * 3, [0, 0, 0]])
    squares = np.column_stack([distances, distances])
    weights = kernels.gaussian(squares, np.array([0, 3, 6]), [1.0, 0.0])
    row = np.exp([-0.0, -0.5, -2.0])
    np.testing.assert_allclose(weights[0, :3], row / row.sum())
    np.testing.assert_allclose(weights[1, :3], [1 / (1 + np.exp(-0.5)), 1 / (1 + np.exp(0.5)), 0])
    np.testing.assert_array_equal(weights[2], 0)  # the row lacks the view
    np.testing.assert_allclose(weights[3], 1 / 3)
    np.testing.assert_allclose(weights[0, 3:], row / row.sum())  # sigma = (0 + 1 + 2) / 3


def test_known_graphs(rng):
    _, weights, bounds = random_graphs(rng)
    expected = np.ones((40, 2))
    expected[0, 0] = 0
    np.testing.assert_array_equal(kernels.known_graphs(weights, bounds), expected)


def dense(indices, weights, bounds, p):
    """The graphs as dense n x p matrices."""
    graphs = np.zeros((len(bounds) - 1, len(indices), p))
    for g in range(len(bounds) - 1):
        for s in range(bounds[g], bounds[g + 1]):
            graphs[g, np.arange(len(indices)), indices[:, s]] += weights[:, s]
    return graphs


def random_graphs(rng, n=40, p=12, widths=(3, 5)):
    bounds = np.cumsum([0, *widths])
    indices = np.hstack([np.sort(np.argsort(rng.random((n, p)), axis=1)[:, :q], axis=1) for q in widths])
    weights = rng.random((n, bounds[-1]))
    for a, b in itertools.pairwise(bounds):
        weights[:, a:b] /= weights[:, a:b].sum(axis=1, keepdims=True)
    weights[0, :3] = 0  # a row that lacks the first view
    return indices.astype(np.uint16), weights, bounds


@pytest.mark.parametrize(("r", "k"), [(5, 4), (70, 40)])  # columns are worked on by 32
@pytest.mark.parametrize("unit", [False, True])
def test_gram_project_and_guide_are_dense_algebra(rng, unit, r, k):
    p = 12
    indices, weights, bounds = random_graphs(rng)
    Z = dense(indices, weights, bounds, p)
    bases, rotation = rng.standard_normal((2, p, r)), rng.standard_normal((2, r, k))
    anchors = rng.standard_normal((p, k))

    for g in range(2):
        gram = kernels.new_gram(p, weights)
        kernels.gram(indices[:, bounds[g] : bounds[g + 1]], weights[:, bounds[g] : bounds[g + 1]], gram)
        np.testing.assert_allclose(kernels.finish_gram(gram), Z[g].T @ Z[g], atol=1e-12)

    parts = Z @ bases  # (2, 40, r)
    if unit:
        lengths = np.linalg.norm(parts, axis=2, keepdims=True)
        parts /= np.where(lengths > 0, lengths, 1)
    stacked = kernels.project(indices, weights, bounds, bases, unit)
    np.testing.assert_allclose(stacked, np.hstack(list(parts)), atol=1e-12)
    tables = (bases, rotation) if unit else (bases @ rotation, None)
    rows = kernels.embed(indices, weights, bounds, *tables)
    np.testing.assert_allclose(rows, (parts @ rotation).sum(axis=0), atol=1e-12)

    after = kernels.guide(indices, weights, bounds, *tables, anchors)
    found = dense(indices, after, bounds, p)
    A = np.maximum(rows @ anchors.T, 0)
    for g in range(2):
        sums = (A * Z[g]).sum(axis=1, keepdims=True)
        expected = np.where(sums > 0, A * Z[g] / np.where(sums > 0, sums, 1), Z[g])
        np.testing.assert_allclose(found[g], expected, atol=1e-12)
    np.testing.assert_array_equal(after[0, :3], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 20, 45])
def test_rows_get_their_nearest_centroid(rng, k, dtype):
    rows, centroids = rng.random((50, 35)).astype(dtype), rng.random((k, 35))
    labels, nearest, second = kernels.assign(rows, centroids)
    squares = ((rows[:, None] - centroids) ** 2).sum(axis=2)
    np.testing.assert_array_equal(labels, squares.argmin(axis=1))
    ordered = np.sort(np.column_stack([squares, np.full(50, np.inf)]), axis=1)
    np.testing.assert_allclose(np.column_stack([nearest, second]), ordered[:, :2], rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_many_centroids_are_told_apart_by_products(rng, monkeypatch, dtype):
    """Ties included: the first of equally near centroids is the row's, however products are rounded."""
    rows = rng.standard_normal((700, 20)).astype(dtype)
    centroids = rows[rng.integers(700, size=130)]
    centroids[70] = centroids[3]
    assert len(centroids) >= kernels.ASSIGNED_BY_PRODUCTS
    found = kernels.assign(rows, centroids)
    alone = [np.concatenate(part) for part in zip(*(kernels.assign(row[None], centroids) for row in rows), strict=True)]
    for many, one in zip(found, alone, strict=True):
        np.testing.assert_array_equal(many, one)
    monkeypatch.setattr(kernels, "ASSIGNED_BY_PRODUCTS", 1000)
    labels, nearest, second = kernels.assign(rows, centroids)
    np.testing.assert_array_equal(found[0], labels)
    np.testing.assert_allclose(found[1:], (nearest, second), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 529, 1057, 2640])  # a row beside one, two and four parts; and five whole ones
def test_products_do_not_depend_on_the_rows_at_once(rng, n_rows, dtype):
    """To the last bit: more threads take more rows at once. On AVX-512, OpenBLAS rounds small products differently."""
    rows, columns = rng.standard_normal((n_rows, 20)).astype(dtype), rng.standard_normal((20, 50)).astype(dtype)
    found = kernels.products(rows, columns)
    np.testing.assert_allclose(found, rows @ columns, rtol=1e-3, atol=1e-5)
    for size in (kernels.PRODUCT_ROWS, 2 * kernels.PRODUCT_ROWS, kernels.MANY_PRODUCT_ROWS):
        parts = np.empty_like(found)
        for start in range(0, n_rows, size):
            kernels.products(rows[start : start + size], columns, parts[start : start + size])
        assert parts.tobytes() == found.tobytes()


@pytest.mark.parametrize("n_rows", [1, 3, 600])
@pytest.mark.parametrize("kinds", list(itertools.product((np.asarray, csr_array), repeat=2)))
def test_rows_and_columns_of_products_may_be_sparse(rng, n_rows, kinds):
    """Rows that all lack a sparse view are dense, whatever its landmarks are."""
    rows, columns = rng.standard_normal((n_rows, 20)), rng.standard_normal((20, 50))
    own, others = (kind(part) for kind, part in zip(kinds, (rows, columns), strict=True))
    out = np.empty((n_rows, 50))
    for found in (kernels.products(own, others), kernels.products(own, others, out), out):
        np.testing.assert_allclose(found, rows @ columns, atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float32, 1e-5), (np.float64, 1e-12)])
@pytest.mark.parametrize("count", [1, 7, 60])
def test_the_largest_eigenpairs(rng, dtype, atol, count):
    root = rng.standard_normal((60, 80)) / 9
    matrix = (root @ root.T).astype(dtype)
    values, vectors = kernels.largest_eigenpairs(matrix, count)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(root @ root.T)[::-1][:count], atol=atol)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(count), atol=atol)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("unit", [0, 1e-25, 1, 1e15])
@pytest.mark.parametrize("n_parts", [1, 3, 30])
def test_eigenvectors_of_an_eigenvalue_that_is_there_several_times(dtype, unit, n_parts):
    matrix = np.kron(np.eye(n_parts), np.ones((4, 4)) / 4).astype(dtype)  # 1 for every part, and zeros
    values, vectors = kernels.largest_eigenpairs(matrix * dtype(unit), n_parts + 2)
    np.testing.assert_allclose(values, unit * np.r_[np.ones(n_parts), 0, 0], atol=1e-6 * unit)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n_parts + 2), atol=2e-6)
    if unit:
        np.testing.assert_allclose(matrix @ vectors, vectors * (values / unit), atol=2e-6)


def test_eigenpairs_of_a_tridiagonal_matrix(rng):
    diagonal, off_diagonal = rng.standard_normal(80), rng.standard_normal(79)
    off_diagonal[30] = 0  # two blocks
    expected = np.linalg.eigvalsh(np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1))[-9:]
    values = kernels.tridiagonal_values(diagonal, off_diagonal, 9)
    np.testing.assert_allclose(values, expected, atol=1e-13)
    vectors = kernels.tridiagonal_vectors(diagonal, off_diagonal, values)
    images = diagonal[:, None] * vectors
    images[1:] += off_diagonal[:, None] * vectors[:-1]
    images[:-1] += off_diagonal[:, None] * vectors[1:]
    np.testing.assert_allclose(images, vectors * values, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(9), atol=1e-12)


@pytest.mark.parametrize("diagonal", [0.0, 1.0])
@pytest.mark.parametrize("size", [2, 3, 4, 9])
def test_eigenpairs_where_bisection_meets_a_pivot_of_zero(diagonal, size):
    matrix = diagonal * np.eye(size) + (np.eye(size, k=1) + np.eye(size, k=-1)) / 2
    values, vectors = kernels.largest_eigenpairs(matrix, size)
    expected = diagonal + np.cos(np.pi * np.arange(1, size + 1) / (size + 1))  # descending
    np.testing.assert_allclose(values, expected, atol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=1e-12)


@pytest.mark.parametrize("nearly", [0.0, 1e-6, 0.3])
def test_singular_vectors_where_many_values_are_nearly_equal(rng, nearly):
    left, right = (np.linalg.qr(rng.standard_normal((n, 130)))[0] for n in (131, 130))
    matrix = ((left * (1 + nearly * rng.random(130))) @ right.T).astype(np.float32)
    turned, values, back = kernels.singular_vectors(matrix)
    np.testing.assert_allclose((turned * values) @ back, matrix, atol=1e-5)
    np.testing.assert_allclose(turned.T @ turned, np.eye(130), atol=1e-5)
    np.testing.assert_allclose(back @ back.T, np.eye(130), atol=1e-5)


def test_eigenvectors_of_a_matrix_that_is_not_finite_are_refused():
    with pytest.raises(ValueError, match="must be finite"):
        kernels.largest_eigenpairs(np.full((3, 3), np.nan), 2)


def test_a_krylov_basis_is_orthonormal_and_ends_where_it_is_invariant(rng):
    turn = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    matrix = (turn * np.r_[np.linspace(0.5, 1, 6), np.zeros(44)]) @ turn.T
    basis, (diagonal, off_diagonal) = np.zeros((31, 50)), np.zeros((2, 30))
    basis[0] = rng.standard_normal(50)
    basis[0] /= np.linalg.norm(basis[0])
    rows = kernels.extend_krylov(kernels.symmetric(matrix), basis, diagonal, off_diagonal, 0, 30)
    assert rows == 7  # six values and zero
    np.testing.assert_allclose(basis[:rows] @ basis[:rows].T, np.eye(rows), atol=1e-12)
    inner = np.diag(diagonal[:rows]) + np.diag(off_diagonal[: rows - 1], 1) + np.diag(off_diagonal[: rows - 1], -1)
    np.testing.assert_allclose(np.linalg.eigvalsh(inner)[1:], np.linspace(0.5, 1, 6), atol=1e-9)


@pytest.mark.parametrize("p", [1, 3, 4, 5, 37, 40])
def test_a_symmetric_matrix_is_worked_on_as_a_triangle(rng, p):
    matrix = rng.random((p, p))
    matrix += matrix.T
    triangle = kernels.symmetric(matrix)
    np.testing.assert_array_equal(kernels.whole(triangle), matrix)
    np.testing.assert_allclose(kernels.degrees(triangle), matrix.sum(axis=1))
    own = np.flatnonzero(rng.random(p) < 0.5)
    np.testing.assert_array_equal(kernels.whole(kernels.select_landmarks(triangle, own)), matrix[np.ix_(own, own)])
    vector, image = rng.standard_normal(p), np.empty(p)
    kernels.compiled_loops().multiply(kernels.as_lower(triangle), vector, image)
    np.testing.assert_allclose(image, matrix @ vector, atol=1e-12)


@pytest.mark.parametrize("deflated", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5])
def test_a_normalised_matrix_of_mostly_zeros_is_the_same_without_them(rng, share, deflated):
    matrix = np.where(rng.random((60, 60)) < share, rng.random((60, 60)), 0) + np.diag(rng.random(60))
    triangle = kernels.symmetric(matrix + matrix.T)
    degrees = kernels.degrees(triangle)
    roots, constant = degrees**-0.5, np.sqrt(degrees / degrees.sum()) if deflated else None
    expected = kernels.whole(kernels.normalised_gram(triangle, roots, constant, "float64"))
    found = kernels.packed_gram(triangle, roots, constant, "float64")
    assert isinstance(found, kernels.LowerTriangle) == (share < 0.05)
    np.testing.assert_allclose(kernels.whole(found), expected, atol=1e-15)
    lower, vector, image = kernels.as_lower(found), rng.standard_normal(60), np.empty(60)
    kernels.compiled_loops().multiply(lower, vector, image)
    known = lower.known  # (60, s)
    np.testing.assert_allclose(image, (expected - known @ known.T) @ vector, atol=1e-13)
    np.testing.assert_allclose(known.T @ known, np.eye(known.shape[1]), atol=1e-13)
    np.testing.assert_allclose(expected @ known, known, atol=1e-13)
    if deflated and share < 0.05:
        matrix = kernels.whole(triangle)
        assert known.shape[1] == connected_components(matrix)[0] - 1


def test_steps_of_lanczos_method_end_where_the_pairs_that_are_sought_have_converged(rng):
    turn = np.linalg.qr(rng.standard_normal((300, 300)))[0]
    triangle = kernels.symmetric((turn * np.linspace(0, 1, 300) ** 4) @ turn.T)
    basis, (diagonal, off_diagonal) = np.zeros((201, 300)), np.zeros((2, 200))
    basis[0] = rng.standard_normal(300)
    basis[0] /= np.linalg.norm(basis[0])
    steps = kernels.search_krylov(triangle, basis, diagonal, off_diagonal, 0, 9, 6, 1e-6)
    assert 9 < steps < 200
    values = kernels.tridiagonal_values(diagonal[:steps], off_diagonal[: steps - 1], 6)
    vectors = basis[:steps].T @ kernels.tridiagonal_vectors(diagonal[:steps], off_diagonal[: steps - 1], values)
    left = np.linalg.norm(kernels.whole(triangle) @ vectors - vectors * values, axis=0)  # (6,)
    assert left[0] <= 1e-6  # of the least, which is the last to converge
    assert left.max() == left[0]


def test_weights_of_zero_add_nothing_to_a_gram(rng):
    indices = np.sort(np.argsort(rng.random((50, 12)))[:, :5]).astype(np.uint16)
    weights = np.where(rng.random((50, 5)) < 0.4, 0, rng.random((50, 5))).astype(np.float32)
    dense = np.zeros((50, 12))
    np.put_along_axis(dense, indices.astype(np.int64), weights.astype(np.float64), axis=1)
    total = kernels.new_gram(12, weights)
    kernels.gram(indices, weights, total)
    np.testing.assert_allclose(kernels.finish_gram(total), dense.T @ dense, atol=1e-12)


def test_votes_of_several_graphs_are_added_up(rng):
    indices = np.argsort(rng.random((60, 9)))[:, :7].astype(np.uint16)
    weights, labels = rng.random((60, 7)).astype(np.float32), rng.integers(3, size=60).astype(np.int32)
    graphs = [(0, 3), (3, 7)]
    alone = [kernels.label_votes(indices[:, a:b], weights[:, a:b], labels, 3) for a, b in graphs]
    np.testing.assert_array_equal(kernels.label_votes(indices, weights, labels, 3, graphs), alone[0] + alone[1])
