"""The peers against plain references of a few lines, on easy data, and on the paper's UCI set."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans

from coterie import peers
from coterie.datasets import make_views
from coterie.metrics import ari, clustering_accuracy, nmi
from coterie.peers import LSC, MVSCB, SC, ConcatKMeans, ConcatLSC, ExactGuidedCoTraining, exact, lsc, mvscb
from coterie.peers import _bipartite as bipartite
from coterie.peers import _dense as dense

SMALL = {
    "LSC": lambda **more: LSC(4, view=0, n_landmarks=60, n_neighbors=20, **more),
    "ConcatLSC": lambda **more: ConcatLSC(4, n_landmarks=60, n_neighbors=20, **more),
    "MVSCB": lambda **more: MVSCB(4, n_landmarks=60, n_neighbors=20, **more),
    "SC": lambda **more: SC(4, view=0, **more),
    "ConcatKMeans": lambda **more: ConcatKMeans(4, **more),
    "ExactGuidedCoTraining": lambda **more: ExactGuidedCoTraining(4, max_iter=4, **more),
}
everyone = pytest.mark.parametrize("name", SMALL)


@pytest.fixture(scope="module")
def easy():
    # Clusters that touch: LSC and MVSC-B, which drop the first vector, need a connected graph.
    return make_views(400, 4, n_columns=(12, 8), separation=3.5, random_state=3)


def dense_graph(table, landmarks, q, sigma):
    """Zhat by definition, n x p."""
    squares = ((table[:, None, :] - landmarks[None]) ** 2).sum(axis=2)
    weights = np.zeros_like(squares)
    for i, row in enumerate(squares):
        near = np.argsort(row, kind="stable")[:q]
        weights[i, near] = np.exp(-row[near] / (2 * sigma**2))
    weights /= weights.sum(axis=1, keepdims=True)
    degrees = weights.sum(axis=0)
    return weights / np.sqrt(np.where(degrees > 0, degrees, 1))


def table_and_landmarks(seed, n=150, d=6, p=30):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((n, d)) + rng.integers(0, 2, (n, 1))
    return table, table[rng.choice(n, p, replace=False)]


def test_public_names_are_true():
    assert set(SMALL) <= set(peers.__all__)
    assert all(hasattr(peers, name) for name in peers.__all__)


@everyone
def test_easy_clusters_are_found_and_a_seed_repeats(name, easy, seed):
    model = SMALL[name](random_state=seed)
    labels = model.fit_predict(easy.views)
    assert labels.shape == easy.target.shape
    assert ari(easy.target, labels) > 0.9
    assert np.array_equal(labels, clone(model).fit(easy.views).labels_)


@everyone
def test_input_is_left_as_it_is_and_may_be_of_any_kind(name, easy):
    kept = {view: table.copy() for view, table in easy.views.items()}
    as_dict = SMALL[name](random_state=0).fit_predict(easy.views)
    as_list = SMALL[name](random_state=0).fit_predict(list(easy.views.values()))
    assert np.array_equal(as_dict, as_list)
    assert all(np.array_equal(kept[view], table) for view, table in easy.views.items())


@everyone
def test_sparse_views_give_the_labels_of_dense_ones(name, easy):
    views = {view: sparse.csr_array(table) for view, table in easy.views.items()}
    labels = SMALL[name](random_state=0).fit_predict(views)
    assert ari(easy.target, labels) > 0.9


@everyone
def test_rows_that_lack_a_view_are_clustered_too(name):
    data = make_views(400, 4, n_columns=(12, 8, 8), separation=4, missing=0.1, random_state=3)
    labels = SMALL[name](random_state=0).fit_predict(data.views)
    known = ~np.isnan(data.views["view0"][:, 0])
    assert ari(data.target[known], labels[known]) > 0.7


@everyone
def test_errors_name_the_parameter_and_the_view(name, easy):
    with pytest.raises(ValueError, match=f"The 'n_clusters' parameter of {name} must be an int"):
        SMALL[name]().set_params(n_clusters=0).fit(easy.views)
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=4"):
        SMALL[name]().fit({view: table[:3] for view, table in easy.views.items()})
    broken = {view: table.copy() for view, table in easy.views.items()}
    broken["view0"][5, 1] = np.inf
    with pytest.raises(ValueError, match=r"NaN, infinity.*: view 'view0', row 5"):
        SMALL[name](random_state=0).fit(broken)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LSC(4, view=-1), "The 'view' parameter of LSC must be None or the name or number"),
        (LSC(4, view="x"), r"one of the 2 views \('view0', 'view1'\). Got 'x'"),
        (SC(4, view=2), "The 'view' parameter of SC"),
        (LSC(4, view=0, n_landmarks=5), "The 'n_neighbors' parameter of LSC must be at most n_lan"),
        (LSC(4, view=0, landmarks="grid"), "The 'landmarks' parameter of LSC must be one of"),
        (ConcatLSC(4, bandwidth=-1.0), "The 'bandwidth' parameter of ConcatLSC"),
        (MVSCB(4, r=1.0), "The 'r' parameter of MVSCB must be a finite number above 1"),
        (ConcatKMeans(4, scaling="log"), "The 'scaling' parameter of ConcatKMeans must be one of"),
    ],
)
def test_wrong_settings_are_refused(model, message, easy):
    with pytest.raises(ValueError, match=message):
        model.fit(easy.views)


@pytest.mark.parametrize("model", [SC(2), ExactGuidedCoTraining(2)], ids=["SC", "exact"])
def test_methods_of_all_pairs_refuse_many_rows(model):
    rows = np.zeros((dense.MAX_ROWS + 1, 1), dtype=np.float32)
    with pytest.raises(ValueError, match=r"10,001 rows need about \d\.\d GB .* at most 10,000 rows.*GuidedCoTraining"):
        model.fit(rows)


def test_landmarks_are_means_of_their_rows(seed):
    table, start = table_and_landmarks(seed)
    ours = start
    for _ in range(bipartite.KMEANS_PASSES):
        ours = bipartite.group_means(table, bipartite.nearest(table, ours, 1), ours)
    reference = KMeans(len(start), init=start, n_init=1, max_iter=bipartite.KMEANS_PASSES, tol=0)
    reference.fit(table)
    inertia = ((table - ours[bipartite.nearest(table, ours, 1)]) ** 2).sum()
    assert inertia <= reference.inertia_ * 1.001


def test_a_landmark_without_rows_stays(seed):
    table, start = table_and_landmarks(seed, p=4)
    labels = np.zeros(len(table), dtype=int)
    means = bipartite.group_means(table, labels, start)
    assert np.allclose(means[0], table.mean(axis=0))
    assert np.allclose(means[1:], start[1:])


def test_mean_squared_distance_is_the_mean_over_all_pairs(seed):
    table, landmarks = table_and_landmarks(seed)
    squares = ((table[:, None] - landmarks[None]) ** 2).sum(axis=2)
    assert bipartite.mean_squared_distance(table, landmarks) == pytest.approx(squares.mean())
    as_csr = bipartite.mean_squared_distance(sparse.csr_array(table), sparse.csr_array(landmarks))
    assert as_csr == pytest.approx(squares.mean())


def test_lsc_embeds_like_the_svd_of_the_dense_graph(seed):
    table, landmarks = table_and_landmarks(seed)
    ours = lsc.embed(table, landmarks, 5, 2.0, 3)
    left, values, _ = np.linalg.svd(dense_graph(table, landmarks, 5, 2.0), full_matrices=False)
    reference = left[:, 1:4] / np.linalg.norm(left[:, 1:4], axis=1, keepdims=True)
    assert np.allclose(ours.singular_values[:3], values[1:4], atol=1e-6)
    # Signs are free; inner products between rows are not.
    assert np.allclose(ours.rows @ ours.rows.T, reference @ reference.T, atol=1e-5)


def test_lsc_does_not_depend_on_threads(easy):
    one = LSC(4, view=0, n_landmarks=60, n_neighbors=20, n_jobs=1, random_state=0).fit(easy.views)
    two = LSC(4, view=0, n_landmarks=60, n_neighbors=20, n_jobs=2, random_state=0).fit(easy.views)
    assert np.array_equal(one.embedding_, two.embedding_)


def test_concat_lsc_is_lsc_of_the_concatenation(easy):
    whole = np.hstack(list(easy.views.values()))
    ours = ConcatLSC(4, n_landmarks=60, n_neighbors=20, random_state=0).fit_predict(easy.views)
    assert ari(LSC(4, n_landmarks=60, n_neighbors=20, random_state=0).fit_predict(whole), ours) == 1


def test_mvscb_matches_a_dense_transcription(seed):
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 3, 120)
    tables = [rng.standard_normal((120, 4)) + 2 * target[:, None], rng.standard_normal((120, 3))]
    graphs = [dense_graph(t, t[:25], 5, 2.0) for t in tables]
    a, r, k = np.full(2, 0.5), 2.0, 3
    for _ in range(6):
        left, _, right = np.linalg.svd(sum(w**r * g for w, g in zip(a, graphs, strict=True)))
        u, v = left[:, 1 : k + 1], right[1 : k + 1].T
        costs = np.array([k - np.trace(u.T @ g @ v) for g in graphs])
        a = (r * costs) ** (1 / (1 - r))
        a /= a.sum()
    ours = mvscb.fuse([sparse.csr_array(g) for g in graphs], k, r, max_iter=6, tol=0)
    factors = ours.state.factors
    assert np.allclose(ours.state.weights, a)
    assert ours.objective[-1] == pytest.approx(a**r @ costs)
    assert np.allclose(factors.rows @ factors.rows.T, u @ u.T, atol=1e-8)
    assert np.allclose(factors.landmarks @ factors.landmarks.T, v @ v.T, atol=1e-8)


def test_mvscb_objective_never_rises_and_noise_weighs_less(seed):
    data = make_views(500, 4, n_columns=(10, 10, 10), separation=8, n_noise=1, random_state=seed)
    model = MVSCB(4, n_landmarks=80, random_state=seed).fit(data.views)
    assert all(now <= before + 1e-12 for before, now in zip(model.objective_, model.objective_[1:], strict=False))
    assert model.view_weights_["view2"] == min(model.view_weights_.values())
    assert sum(model.view_weights_.values()) == pytest.approx(1)
    assert model.landmark_labels_.shape == (80,)


def test_exact_method_matches_a_literal_transcription(seed):
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 3, 60)
    affinities = []
    for width in (4, 3):
        rows = rng.standard_normal((60, width)) + 3 * target[:, None]
        squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
        sigma = np.median(np.sqrt(squares[np.triu_indices(60, 1)]))
        affinity = np.exp(-squares / (2 * sigma**2))
        np.fill_diagonal(affinity, 0)
        assert np.allclose(dense.gaussian_affinity(rows, rng), affinity)
        affinities.append(affinity)
    guided = [a.copy() for a in affinities]
    for last in (False, False, True):
        tops = []
        for a in guided:
            half = np.diag(a.sum(axis=1) ** -0.5)
            tops.append(np.linalg.eigh(half @ a @ half)[1][:, -3:])
        m = np.hstack(tops)
        m /= np.linalg.norm(m, axis=1, keepdims=True)
        u, s, _ = np.linalg.svd(m, full_matrices=False)
        guide = np.maximum(u @ np.diag(s) @ u.T, 0)
        guided = guided if last else [guide * a for a in guided]
    assert np.allclose(exact.cotrain(affinities, 3, 3), guide, atol=1e-7)


def test_few_vectors_of_a_large_matrix_are_those_of_all(seed):
    rng = np.random.default_rng(seed)
    half = rng.standard_normal((dense.SMALL + 50, 6)) * [9, 7, 5, 3, 2, 1]
    matrix = half @ half.T
    few = dense.top_vectors(matrix, 3)
    all_of_them = np.linalg.eigh(matrix)[1][:, :-4:-1]
    assert np.allclose(np.abs(few.T @ all_of_them), np.eye(3), atol=1e-6)


def test_concat_kmeans_scales_each_view(easy):
    huge = {**easy.views, "noise": 1e4 * np.random.default_rng(0).standard_normal((400, 3))}
    raw = ConcatKMeans(4, random_state=0).fit_predict(huge)
    block = ConcatKMeans(4, scaling="block", random_state=0).fit_predict(huge)
    assert ari(easy.target, raw) < 0.2
    assert ari(easy.target, block) > 0.9


def test_lsc_on_each_view_of_mfeat_is_near_the_known_figures(mfeat):
    known = dict(zip(mfeat.views, (0.742, 0.734, 0.843, 0.475, 0.886, 0.686), strict=True))
    for view, figure in known.items():
        found = [nmi(mfeat.target, LSC(10, view=view, random_state=s).fit_predict(mfeat.views)) for s in (0, 1)]
        assert np.mean(found) == pytest.approx(figure, abs=0.05), view


def test_mvscb_on_mfeat_is_near_the_paper(mfeat):
    labels = MVSCB(10, random_state=0).fit_predict(mfeat.views)
    assert nmi(mfeat.target, labels) == pytest.approx(0.893, abs=0.05)
    assert clustering_accuracy(mfeat.target, labels) == pytest.approx(0.945, abs=0.05)


def test_exact_method_on_mfeat_is_near_its_paper(mfeat):
    labels = ExactGuidedCoTraining(10, random_state=0).fit_predict(mfeat.views)
    assert clustering_accuracy(mfeat.target, labels) == pytest.approx(0.949, abs=0.03)
    assert nmi(mfeat.target, labels) == pytest.approx(0.896, abs=0.03)
