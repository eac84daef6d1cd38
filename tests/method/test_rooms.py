"""Each room alone, against answers that can be worked out by hand or by brute force."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eigh
from sklearn.metrics import adjusted_rand_score

from coterie.kernels import cpu as kernels
from coterie.method import spectra
from coterie.method.assignment import assign, best_of, lloyd, qr_centroids, refine
from coterie.method.landmarks import kmedoids
from coterie.method.likeness import Likeness, learn_likeness
from coterie.method.rowmap import whole_distances
from coterie.method.seeding import draw_starts, far_apart
from coterie.method.spectra import consensus, graph_spectrum
from coterie.rows.memory import MemoryRows
from coterie.threads import in_order, one_thread_per_block
from coterie.views.preparation import prepare
from coterie.views.tables import as_views, match_views

# -- kernels ------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("n_views", [2, 3, 5])
def test_smallest_adds_views_up(rng, n_views):
    distances = rng.random((n_views, 40, 130)).astype(np.float32)
    total = sum(distances[1:], distances[0])
    for found, alone in zip(kernels.smallest(distances, [4, 9]), kernels.smallest(total[None], [4, 9]), strict=True):
        np.testing.assert_array_equal(found, alone)


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


def test_lacking_views_are_expected_as_a_gaussian_would(rng):
    """The factor model is a Gaussian with covariance loading loading^T + noise; conditioning it takes V x V solves."""
    model = Likeness(rng.random(4) + 2, rng.random(4), rng.random(4) + 0.1)
    covariance = np.outer(model.loadings, model.loadings) + np.diag(model.noise)
    distances = rng.random((4, 6, 9)) * 4
    distances[rng.random(distances.shape) < 0.5] = np.inf
    distances[:, 0, 0], distances[:, 0, 1] = np.inf, [1.0, 2.0, 3.0, 4.0]
    whole = whole_distances(distances, model)
    for i, j in np.ndindex(6, 9):
        known = np.isfinite(distances[:, i, j])
        if not known.any():
            assert whole[i, j] == np.inf
            continue
        excess = distances[known, i, j] - model.means[known]
        slopes = covariance[np.ix_(~known, known)] @ np.linalg.inv(covariance[np.ix_(known, known)])
        lacking = (model.means[~known] + slopes @ excess).sum()
        np.testing.assert_allclose(whole[i, j], distances[known, i, j].sum() + max(lacking, 0))
    assert whole[0, 1] == 10  # what lacks nothing is the plain sum, to the last bit


def test_likeness_is_learned_where_pairs_lack_views(rng):
    alike = rng.standard_normal(50_000)
    loadings = np.array([2.0, 1.0, 0.5, 0.0, 0.0])
    distances = 9 + loadings[:, None] * alike + rng.standard_normal((5, len(alike)))
    distances[4] = 3  # a view in which all rows are alike
    distances[rng.random(distances.shape) < 0.5] = np.inf
    found = learn_likeness(distances)
    np.testing.assert_allclose(found.means, [9, 9, 9, 9, 3], atol=0.05)
    np.testing.assert_allclose(found.loadings, loadings, atol=0.05)
    np.testing.assert_allclose(found.noise[:4], 1, atol=0.3)
    assert np.isfinite(found.table()).all()
    copies = learn_likeness(np.stack([9 + alike, 9 + alike]))  # two views that say the same
    assert np.isfinite(copies.table()).all()
    nothing = learn_likeness(np.full((3, 10), np.inf))
    assert np.isfinite(nothing.table()).all()


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


# -- views --------------------------------------------------------------------------------------------------------


def test_forms_of_input(rng):
    import pandas as pd
    import polars as pl

    a, b = rng.random((6, 3)), rng.random((6, 2))
    frame = pd.DataFrame(np.hstack([a, b]), columns=list("abcde"))
    forms = [
        as_views([a, b]),
        as_views((a, sparse.csc_array(b))),
        as_views([a.tolist(), b.tolist()]),
        as_views({"x": a, "y": pd.DataFrame(b)}),
        as_views([pl.DataFrame(a), pl.DataFrame(b)]),
        as_views(np.hstack([a, b]), groups=[slice(0, 3), [3, 4]]),
        as_views(frame, groups={"x": ["a", "b", "c"], "y": ["d", "e"]}),
        as_views(sparse.csr_array(np.hstack([a, b])), groups=[slice(0, 3), slice(3, 5)]),
        as_views(pl.from_pandas(frame), groups={"x": ["a", "b", "c"], "y": slice(3, 5)}),
    ]
    for views in forms:
        assert (len(views), views.n_rows) == (2, 6)
        for block, expected in zip(views.read(slice(1, 5)), (a, b), strict=True):
            data = block.data.toarray() if sparse.issparse(block.data) else block.data
            np.testing.assert_allclose(data, expected[1:5])
    assert len(as_views(a.tolist())) == 1


def test_rows_that_lack_a_view():
    a = np.arange(8.0).reshape(4, 2)
    b = a.copy()
    b[2] = np.nan
    views = as_views({"a": a, "b": b})
    np.testing.assert_array_equal(views.presence()[:, 1], [True, True, False, True])
    block = views[1].read(np.array([1, 2]))
    np.testing.assert_array_equal(block.present, [True, False])
    np.testing.assert_array_equal(block.data, [[2, 3], [0, 0]])
    with pytest.raises(ValueError, match=r"row 2.*nothing to cluster them by"):
        as_views({"a": b, "b": b})


def test_frames_are_matched_by_index():
    import pandas as pd

    a = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=["u", "v", "w"])
    b = pd.DataFrame({"y": [30.0, 40.0, 10.0]}, index=["w", "z", "u"])
    views = as_views({"a": a, "b": b})
    assert views.ids.tolist() == ["u", "v", "w", "z"]
    np.testing.assert_array_equal(views.presence(), [[1, 1], [1, 0], [1, 1], [0, 1]])
    np.testing.assert_array_equal(views[1].read(slice(None)).data[:, 0], [10, 0, 30, 40])
    same_order = as_views({"a": a, "b": a})
    assert same_order.ids.tolist() == ["u", "v", "w"]
    twins = pd.DataFrame({"y": [1.0, 2.0]}, index=["u", "u"])
    with pytest.raises(ValueError, match=r"'b' has repeated row ids \('u'"):
        as_views({"a": a, "b": twins})


def test_sparse_rows_that_lack_a_view():
    import dataclasses

    view = as_views(sparse.csr_array(np.arange(1.0, 7).reshape(3, 2)))[0]
    view = dataclasses.replace(view, positions=np.array([2, -1, 0]))
    block = view.read(slice(0, 3))
    np.testing.assert_array_equal(block.data.toarray(), [[5, 6], [0, 0], [1, 2]])


def test_new_rows_may_leave_views_out():
    views = match_views({"b": np.ones((5, 2))}, None, ("a", "b"))
    assert views.names == ("a", "b")
    np.testing.assert_array_equal(views.presence(), [[False, True]] * 5)
    views = match_views([None, np.ones((5, 2))], None, ("a", "b"))
    np.testing.assert_array_equal(views.presence(), [[False, True]] * 5)


# -- preparation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["block", "half", "standard"])
@pytest.mark.parametrize("unit", [1e-25, 1.0, 1e25])
def test_prepared_rows_have_unit_spread(rng, scaling, unit):
    X = unit * (rng.standard_normal((200, 5)) * [1, 2, 3, 4, 100] + 50)
    prepared = prepare(X, scaling=scaling, metric="euclidean", dtype="float64")(X)
    np.testing.assert_allclose(prepared.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose((prepared**2).sum(axis=1).mean(), 1)
    ratio = prepared.std(axis=0)[4] / prepared.std(axis=0)[0]
    before = X.std(axis=0)[4] / X.std(axis=0)[0]
    exponent = {"block": 1, "half": 0.5, "standard": 0}[scaling]
    np.testing.assert_allclose(ratio, before**exponent)


def test_cosine_rows_have_unit_length(rng):
    X = rng.random((30, 4))
    X[3] = 0
    for data in (X, sparse.csr_array(X)):
        prepared = prepare(data, scaling="none", metric="cosine", dtype="float64")(data)
        rows = prepared.toarray() if sparse.issparse(prepared) else prepared
        lengths = np.linalg.norm(rows, axis=1)
        np.testing.assert_allclose(np.delete(lengths, 3), 1)
        assert lengths[3] == 0


# -- landmarks ----------------------------------------------------------------------------------------------------


def test_medoid_of_a_group_by_brute_force(rng):
    """The row nearest to the mean has the least sum of squared distances to the others."""
    from coterie.method.landmarks import medoids_of_groups

    rows = rng.standard_normal((60, 3))
    labels = rng.integers(4, size=60).astype(np.int32)
    found = medoids_of_groups(rows, labels, 4)
    for group in range(4):
        members = np.flatnonzero(labels == group)
        sums = ((rows[members][:, None] - rows[members]) ** 2).sum(axis=(1, 2))
        assert found[group] == members[sums.argmin()]


def test_landmarks_cover_all_groups(rng):
    rows = np.repeat(50 * rng.standard_normal((10, 4)), 30, axis=0) + rng.standard_normal((300, 4))
    landmarks = kmedoids(rows, 40, rng)
    assert len(np.unique(landmarks)) == 40
    assert set(landmarks // 30) == set(range(10))


def test_landmarks_are_distinct_rows(rng):
    rows = np.repeat(rng.standard_normal((7, 3)), 10, axis=0)
    landmarks = kmedoids(rows, 20, rng)
    assert len(np.unique(rows[landmarks], axis=0)) == len(landmarks) <= 7


# -- spectra ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_first", [False, True])
def test_graph_spectrum_is_the_svd(rng, drop_first):
    Z = rng.random((50, 8)) * (rng.random((50, 8)) < 0.5)
    Z[:, 3] = 0  # nobody's neighbour
    Z = Z[Z.sum(axis=1) > 0]
    Z /= Z.sum(axis=1, keepdims=True)
    degrees = Z.sum(axis=0)
    hat = Z[:, degrees > 0] / np.sqrt(degrees[degrees > 0])
    left, values, _ = np.linalg.svd(hat, full_matrices=False)
    found = graph_spectrum(Z.T @ Z, 3, drop_first=drop_first)
    first = int(drop_first)
    np.testing.assert_allclose(found.singular_values, values[first : first + 4], atol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(Z @ found.basis * left[:, first : first + 3], 0)), 1)
    assert not found.basis[3].any()


def graph_in_pieces(rng, n_pieces, size=480):
    """D^(-1/2) Z^T Z D^(-1/2): its largest eigenvalue, 1, comes once for every piece."""
    homes = np.arange(size) % n_pieces
    gram = np.zeros((size, size))
    for group in range(n_pieces):
        mine = np.flatnonzero(homes == group)
        Z = rng.random((3 * len(mine), len(mine))) * (rng.random((3 * len(mine), len(mine))) < 0.1)
        Z[: len(mine)] += np.eye(len(mine))
        Z /= np.maximum(Z.sum(axis=1, keepdims=True), 1e-12)
        gram[np.ix_(mine, mine)] = Z.T @ Z
    roots = gram.sum(axis=1) ** -0.5
    return gram * roots * roots[:, None]


def is_spectrum_of(matrix, found, atol):
    exact = eigh(matrix, eigvals_only=True)[::-1][: len(found.values)]
    np.testing.assert_allclose(found.values, exact, atol=atol)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(len(exact)), atol=10 * atol)
    np.testing.assert_allclose(matrix @ found.vectors, found.vectors * found.values, atol=100 * atol)


@pytest.mark.parametrize("n_pieces", [1, 3, 40])
def test_iterated_eigenpairs_are_the_exact_ones(rng, monkeypatch, n_pieces):
    """Also for graphs in many pieces, whose largest eigenvalue comes many times."""
    matrix = graph_in_pieces(rng, n_pieces)
    monkeypatch.setattr(spectra, "PATIENCE", np.inf)  # some of these take longer than a full reduction would
    is_spectrum_of(matrix, spectra.filtered_subspace(matrix, 20), 1e-8)
    is_spectrum_of(matrix, spectra.top_eigenpairs(matrix, 20), 1e-8)


@pytest.mark.parametrize(("precision", "atol"), [("float32", 1e-5), ("float64", 1e-8)])
def test_lanczos_says_what_it_misses(rng, precision, atol):
    connected, in_pieces = graph_in_pieces(rng, 1), graph_in_pieces(rng, 40)
    is_spectrum_of(connected, spectra.lanczos(connected.astype(precision), 20), atol)
    assert spectra.lanczos(in_pieces.astype(precision), 20) is None


def test_weights_of_graphs(rng):
    """A graph of weight zero has no say, and a heavy one decides."""
    bases = [np.linalg.qr(rng.standard_normal((50, 3)))[0] for _ in range(2)]
    stacked = np.hstack(bases)
    for weights in ([1, 0], [1, 1e-4]):
        rotation = consensus(stacked.T @ stacked, np.array(weights, float), 3).rotation
        U = stacked @ rotation.reshape(-1, 3)
        np.testing.assert_allclose(np.linalg.norm(bases[0].T @ U) ** 2, 3, atol=1e-6)


# -- assignment ---------------------------------------------------------------------------------------------------


def unit_blobs(rng, n=300, k=4):
    target = rng.integers(k, size=n)
    rows = np.eye(k)[target] + 0.1 * rng.standard_normal((n, k))
    return target, (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_kmeans_and_cluster_qr_find_the_groups(rng):
    target, rows = unit_blobs(rng)
    for centroids in (best_of(rows, draw_starts(5, 4, rng), 2), qr_centroids(rows, 4)):
        assert adjusted_rand_score(target, assign(rows, centroids).labels) == 1


def test_lloyd_ends_where_scikit_learn_does(rng):
    from sklearn.cluster import KMeans

    _, rows = unit_blobs(rng, n=200)
    start = rows[:4]
    ours, inertia = lloyd(rows, start)
    theirs = KMeans(4, init=start, n_init=1, tol=0, max_iter=100).fit(rows)
    np.testing.assert_allclose(ours, theirs.cluster_centers_, atol=1e-5)
    np.testing.assert_allclose(inertia, theirs.inertia_, rtol=1e-4)


def test_starts_are_far_apart(rng):
    """One row of each of eight groups, and as good as scikit-learn's: the sum of squared distances left."""
    from sklearn.cluster import kmeans_plusplus

    rows = (20 * np.eye(8).repeat(30, axis=0) + rng.standard_normal((240, 8))).astype(np.float32)
    for draws in draw_starts(5, 8, rng):
        assert sorted(far_apart(rows, draws) // 30) == list(range(8))
    noise = rng.standard_normal((500, 4)).astype(np.float32)

    def left(starts):
        return np.square(noise[:, None] - starts).sum(axis=2).min(axis=1).sum()

    ours = [left(noise[far_apart(noise, draws)]) for draws in draw_starts(30, 10, rng)]
    theirs = [left(kmeans_plusplus(noise, 10, random_state=seed)[0]) for seed in range(30)]
    assert 0.95 < np.mean(ours) / np.mean(theirs) < 1.05


def test_starts_of_equal_rows(rng):
    assert len(far_apart(np.ones((5, 2), dtype=np.float32), draw_starts(1, 4, rng)[0])) == 4


def test_refining_on_all_rows(rng):
    target, rows = unit_blobs(rng, n=2000)
    blocks = MemoryRows(np.array_split(rows, 7), n_rows=2000, n_threads=2)
    centroids = refine(blocks, best_of(rows[:100], draw_starts(3, 4, rng), 1))
    means = np.stack([rows[target == group].mean(axis=0) for group in range(4)])
    gaps = np.linalg.norm(centroids[:, None] - means, axis=2).min(axis=1)
    np.testing.assert_allclose(gaps, 0, atol=1e-3)


# -- rows and threads ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_verbs_of_rows(rng, n_threads):
    data = rng.standard_normal((103, 3))
    rows = MemoryRows(np.array_split(data, 20), n_rows=103, n_threads=n_threads)
    doubled = rows.map(lambda block: 2 * block)
    np.testing.assert_array_equal(doubled.collect(lambda block: block), 2 * data)
    np.testing.assert_array_equal(rows.take(np.array([0, 5, 50, 102])), data[[0, 5, 50, 102]])

    def add(block, total):
        total[0][...] += block.T @ block

    (outer,) = rows.sum(add, lambda: (np.zeros((3, 3)),))
    np.testing.assert_allclose(outer, data.T @ data)


def test_sums_do_not_depend_on_threads(rng):
    data = rng.standard_normal((1000, 5)).astype(np.float32)

    def add(block, total):
        total[0][...] += block.sum(axis=0)

    sums = [
        MemoryRows(np.array_split(data, 30), n_rows=1000, n_threads=t).sum(add, lambda: (np.zeros(5, np.float32),))[0]
        for t in (1, 2, 3, 8)
    ]
    for other in sums[1:]:
        np.testing.assert_array_equal(sums[0], other)


def test_in_order_passes_errors_on():
    def fail_at_seven(item):
        if item == 7:
            raise ValueError("seven")
        return item

    with pytest.raises(ValueError, match="seven"):
        list(in_order(fail_at_seven, range(100), 2))


def test_thread_limits_are_put_back_even_when_fits_overlap():
    from threadpoolctl import threadpool_info

    def limits():
        return sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())

    before = limits()
    first, second = one_thread_per_block(), one_thread_per_block()
    first.__enter__()
    second.__enter__()
    assert all(number == 1 for _, number in limits())
    first.__exit__(None, None, None)
    assert all(number == 1 for _, number in limits())
    second.__exit__(None, None, None)
    assert limits() == before
