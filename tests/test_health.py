"""Numbers stay numbers: float32 beside float64, graphs that hardly hang together, and checks between stages."""

import numpy as np
import pandas as pd
import pytest
from odd_fits import WARNINGS
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining
from coterie.datasets import load_digit_views, make_views
from coterie.method.assignment import fit_centroids
from coterie.method.cotraining import CoTrainingSettings, cotrain
from coterie.method.graphs import Block
from coterie.method.spectra import consensus, graph_spectrum
from coterie.metrics import clustering_accuracy
from coterie.rows.memory import MemoryRows
from coterie.validation import must_be_finite

# How far a float32 fit may be from the same fit in float64: cosines between rows of the embedding, on average and for
# 99 pairs of 100; singular values; and the share of rows that change their cluster. The first two were 1.3e-6 and 9e-6
# at most when this was written, and no row moved. docs/background/determinism.md states these figures.
MEAN_COSINE, MOST_COSINES, SINGULAR, MOVED = 1e-5, 1e-4, 1e-5, 1e-3


@pytest.mark.parametrize("basis", ["diffusion", "subspace"])
@pytest.mark.parametrize("name", ["digits", "rings", "clouds"])
def test_float32_is_near_float64(name, basis):
    if name == "digits":
        views, k = load_digit_views().views, 10
    else:
        views, k = make_views(1000, 5, shape=name.replace("clouds", "blobs"), n_weak=1, random_state=3).views, 5
    n = len(next(iter(views.values())))
    settings = dict(basis=basis, landmarks=np.arange(0, n, 8), store_embedding=True, random_state=0)
    single, double = (GuidedCoTraining(k, dtype=dtype, **settings).fit(views) for dtype in ("float32", "float64"))
    assert double.embedding_.dtype == np.float64
    gaps = np.abs(single.embedding_ @ single.embedding_.T - double.embedding_ @ double.embedding_.T)  # (n, n)
    assert gaps.mean() < MEAN_COSINE
    assert np.quantile(gaps, 0.99) < MOST_COSINES
    for graph, values in double.singular_values_.items():
        np.testing.assert_allclose(single.singular_values_[graph], values, atol=SINGULAR)
    assert 1 - clustering_accuracy(double.labels_, single.labels_) <= MOVED


# -- graphs that hardly hang together ---------------------------------------------------------------------------


def gram_of(weights):
    return weights.T @ weights


def random_graph(rng, n, p, q=3):
    """Rows joined to q of p landmarks, as a dense matrix whose rows sum to one."""
    weights = np.zeros((n, p))
    for row in weights:
        row[rng.choice(p, q, replace=False)] = rng.random(q)
    return weights / weights.sum(axis=1, keepdims=True)


def check_spectrum(weights, r, **settings):
    """A spectrum must be finite, and its vectors those of Zhat by a plain SVD of it."""
    found = graph_spectrum(gram_of(weights), r, **settings)
    degrees = weights.sum(axis=0)
    scaled = weights[:, degrees > 0] / np.sqrt(degrees[degrees > 0])
    values = np.linalg.svd(scaled, compute_uv=False)
    values = np.pad(values, (0, max(0, r + 1 - len(values))))[: len(found.singular_values)]
    np.testing.assert_allclose(found.singular_values, values, atol=1e-7)
    vectors = weights @ found.basis  # (n, r)
    assert np.isfinite(vectors).all()
    rank = int((values[:r] > 1e-5).sum())
    np.testing.assert_allclose(vectors[:, :rank].T @ vectors[:, :rank], np.eye(rank), atol=1e-6)
    np.testing.assert_allclose(vectors[:, rank:], 0, atol=1e-6)


def test_landmarks_of_degree_zero(rng):
    weights = random_graph(rng, 80, 20)
    weights = np.insert(weights, [0, 5, 20], 0.0, axis=1)  # nobody's neighbours
    check_spectrum(weights, 6)


def test_graph_in_many_pieces(rng):
    """As many pieces as landmarks: every eigenvalue is one."""
    check_spectrum(np.eye(30)[rng.integers(30, size=200)], 5)


def test_ill_conditioned_graph(rng):
    """Landmarks that are almost the same, and weights down to 1e-30."""
    weights = random_graph(rng, 100, 12)
    twins = np.column_stack([weights * 0.5, weights * 0.5 * (1 + 1e-9 * rng.random(weights.shape))])
    check_spectrum(twins / twins.sum(axis=1, keepdims=True), 6)
    faint = np.column_stack([weights, 1e-30 * rng.random(100)])
    check_spectrum(faint / faint.sum(axis=1, keepdims=True), 6)


def test_rank_below_the_number_of_vectors(rng):
    check_spectrum(random_graph(rng, 50, 4, q=2), 9)
    check_spectrum(np.ones((20, 1)), 3)


def test_a_graph_that_knows_no_row():
    found = graph_spectrum(np.zeros((6, 6)), 3, drop_first=True)
    np.testing.assert_array_equal(found.basis, 0)
    np.testing.assert_array_equal(found.singular_values, 0)
    shared = consensus(np.zeros((3, 3)), np.ones(1), 2, power=0.25)
    np.testing.assert_array_equal(shared.rotation, 0)


def test_fits_on_disconnected_landmarks():
    """Every landmark is a piece of its own: far more pieces than clusters have room for."""
    data = make_views(300, 6, n_columns=(4, 3), separation=30, random_state=0)
    with pytest.warns(UserWarning, match="|".join(WARNINGS)):
        model = GuidedCoTraining(4, n_landmarks=60, n_neighbors=1, random_state=0).fit(data.views)
    assert np.isfinite(model.transform(data.views)).all()
    np.testing.assert_array_equal(model.predict(data.views), model.labels_)


def test_ties_everywhere():
    """Corners of a cube: every distance comes often, and every eigenvalue too."""
    corners = np.array(np.meshgrid(*[[0.0, 1.0]] * 5)).reshape(5, -1).T
    for settings in ({}, {"n_neighbors": 3}, {"basis": "subspace"}, {"assign_labels": "cluster_qr"}):
        model = GuidedCoTraining(2, random_state=0, **settings).fit([corners, corners[:, ::-1]])
        assert np.isfinite(model.transform([corners, corners[:, ::-1]])).all()
        assert set(model.labels_) <= {0, 1}


# -- no NaN leaves a stage --------------------------------------------------------------------------------------

SETTINGS = CoTrainingSettings(
    n_components=2,
    n_vectors=2,
    drop_first=False,
    weighting="equal",
    unit=False,
    cosine=True,
    max_iter=2,
    tol=0.0,
    consensus_power=0.0,
    graph_weights=np.ones(1),
    trust=False,
)


def blocks(weights):
    indices = np.tile(np.arange(3, dtype=np.uint16), (len(weights), 1))
    return Block(indices, weights.astype(np.float32))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_one_number_that_is_not_finite_is_seen(bad, kind):
    table = np.ones((40, 5), dtype=np.float32)
    if kind == "torch":
        import torch

        table = torch.as_tensor(table)
    must_be_finite("spectra", table, table.sum(axis=1))
    table[17, 3] = bad
    with pytest.raises(ValueError, match=r"stage 'spectra' are not finite.*try scaling='standard'"):
        must_be_finite("spectra", table)


def test_numbers_that_cancel_are_seen():
    with pytest.raises(ValueError, match="stage 'guide'"):
        must_be_finite("guide", np.array([np.inf, -np.inf]))


def test_weights_that_are_not_finite_do_not_leave_the_graphs(rng):
    weights = rng.dirichlet(np.ones(3), size=30)
    fine = MemoryRows([blocks(weights)], n_rows=30, n_threads=1)
    cotrain(fine, blocks(weights[:3]), np.array([0, 3]), SETTINGS)
    weights[11, 1] = np.nan
    spoilt = MemoryRows([blocks(weights)], n_rows=30, n_threads=1)
    with pytest.raises(ValueError, match="stage 'graphs'"):
        cotrain(spoilt, blocks(weights[:3]), np.array([0, 3]), SETTINGS)


def test_landmarks_that_are_not_finite_do_not_guide(rng):
    weights = rng.dirichlet(np.ones(3), size=30)
    rows = MemoryRows([blocks(weights)], n_rows=30, n_threads=1)
    weights = weights[:3].copy()
    weights[0, 0] = np.inf
    with pytest.raises(ValueError, match="stage 'guide'"):
        cotrain(rows, blocks(weights), np.array([0, 3]), SETTINGS)


def test_the_augmented_view_is_checked():
    outer = np.eye(4)
    outer[2, 1] = np.nan
    with pytest.raises(ValueError, match="stage 'augmented view'"):
        consensus(outer, np.ones(2), 2)
    with pytest.raises(ValueError, match="stage 'augmented view'"):
        consensus(np.eye(4), np.array([1.0, np.nan]), 2)


def test_the_embedding_is_checked(rng):
    embedding = rng.standard_normal((30, 2))
    embedding[4] = np.nan
    with pytest.raises(ValueError, match="stage 'embedding'"):
        fit_centroids(MemoryRows([embedding], n_rows=30, n_threads=1), 2, method="kmeans", n_init=1, rng=rng)


def test_distances_of_far_rows_stay_in_order():
    """Rows farther from every landmark than float32 can tell apart still go to the side that they are on."""
    data = make_views(300, 3, n_columns=(5,), separation=8, random_state=0)
    X = next(iter(data.views.values())).astype(np.float64)
    model = GuidedCoTraining(3, random_state=0).fit(X)
    assert adjusted_rand_score(data.target, model.labels_) == 1
    with pytest.raises(ValueError, match=r"too large to square: view 'X', row 0"):
        model.predict(X[:1] * 1e200)
    assert np.isfinite(model.transform(X[:5] * 1e6)).all()


def test_columns_that_are_not_finite_are_named():
    """Missing values of a wide table are to be imputed column by column, so rows alone do not help."""
    table = pd.DataFrame(np.random.default_rng(0).random((60, 9)), columns=list("abcdefghi"))
    table.loc[[3, 40], "b"], table.loc[7, "h"] = np.nan, np.inf
    with pytest.raises(ValueError, match=r"view 'X', row 3 and 2 more near it, columns 'b', 'h'\. Drop or impute"):
        GuidedCoTraining(2).fit(table)
    model = GuidedCoTraining(2, random_state=0).fit(table.fillna(0).replace(np.inf, 0).to_numpy())
    with pytest.raises(ValueError, match=r"view 'X', row 1, column 4\. Drop"):
        model.predict(np.where(np.arange(18).reshape(2, 9) == 13, np.nan, 0.5))
    links = sparse.csr_array(np.eye(60, 80))
    links.data[5] = np.nan
    with pytest.raises(ValueError, match=r"row 5, column 5\. Drop"):
        GuidedCoTraining(2).fit(links)
