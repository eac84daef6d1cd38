"""The large one-view methods against dense references of a few lines."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import sparse

from coterie.datasets import make_views
from coterie.method.distances import LandmarkRows
from coterie.metrics import ari, nmi
from coterie.peers import (
    KASP,
    PIC,
    SC,
    CommuteTime,
    Nystroem,
    Sequential,
    ShinnouSasaki,
    SparseAutoencoder,
    autoencoder,
    commute_time,
    nystroem,
    pic,
    sequential,
)
from coterie.peers._bipartite import connect


def blobs(rng, n=120, d=4, k=3, apart=4.0):
    target = rng.integers(0, k, n)
    return rng.standard_normal((n, d)) + apart * rng.standard_normal((k, d))[target], target


def gaussian(table, sigma):
    squares = ((table[:, None] - table) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * sigma**2))


# -- Nystroem ----------------------------------------------------------------------------------------------------


def test_nystroem_with_all_rows_as_landmarks_is_spectral_clustering(rng):
    table, _ = blobs(rng)
    kernel = nystroem.Kernel(LandmarkRows(table, np.ones(len(table), dtype=bool)), 1.0)
    basis, values = nystroem.spectral_basis(table, kernel, 3, 1)
    affinity = gaussian(table, 1.0)
    roots = affinity.sum(axis=1) ** -0.5
    wanted, vectors = np.linalg.eigh(affinity * roots * roots[:, None])
    assert np.allclose(values, wanted[:-4:-1], atol=1e-6)
    reference = vectors[:, :-4:-1]
    reference = reference / np.linalg.norm(reference, axis=1, keepdims=True)
    ours = nystroem.embed(table, kernel, basis, 1)
    assert np.allclose(ours @ ours.T, reference @ reference.T, atol=1e-4)


def test_nystroem_with_few_landmarks_follows_the_papers_own_formulas(rng):
    table, _ = blobs(rng, n=60)
    p = 12
    sigma = 3.0
    kernel = nystroem.Kernel(LandmarkRows(table[:p], np.ones(p, dtype=bool)), sigma)
    basis, _ = nystroem.spectral_basis(table, kernel, 3, 1)
    whole = gaussian(table, sigma)
    a, b = whole[:p, :p], whole[:p, p:]
    first = a.sum(axis=1) + b.sum(axis=1)
    second = b.T.sum(axis=1) + b.T @ np.linalg.solve(a, b.sum(axis=1))
    a = a / np.sqrt(np.outer(first, first))
    b = b / np.sqrt(np.outer(first, second))
    values, vectors = np.linalg.eigh(a)
    half = vectors @ np.diag(values**-0.5) @ vectors.T
    lengths, tops = np.linalg.eigh(a + half @ b @ b.T @ half)
    embedding = np.vstack([a, b.T]) @ half @ tops[:, :-4:-1] @ np.diag(lengths[:-4:-1] ** -0.5)
    assert np.allclose(embedding.T @ embedding, np.eye(3), atol=1e-6)  # orthogonal in one step
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    ours = nystroem.embed(table, kernel, basis, 1)
    assert np.allclose(ours @ ours.T, embedding @ embedding.T, atol=1e-5)


# -- KASP, and Shinnou and Sasaki --------------------------------------------------------------------------------


def test_kasp_with_a_centroid_for_every_row_is_spectral_clustering(rng):
    table, _ = blobs(rng)
    ours = KASP(3, n_landmarks=120, random_state=0).fit(table)
    exact = SC(3, random_state=0).fit(table)
    assert ari(exact.labels_, ours.labels_) == 1
    gram = ours.landmark_embedding_ @ ours.landmark_embedding_.T
    assert np.allclose(gram, exact.embedding_ @ exact.embedding_.T, atol=1e-3)


def test_kasp_gives_every_row_the_cluster_of_its_nearest_centroid(rng):
    table, _ = blobs(rng)
    model = KASP(3, n_landmarks=20, random_state=0).fit(table)
    centers = np.asarray(model._centers) + table.mean(axis=0)  # tables are centred
    nearest = ((table[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(model.labels_, model.landmark_labels_[nearest])


def test_rows_that_remain_are_the_farthest_from_their_centres(rng):
    table, target = blobs(rng, apart=8)
    model = ShinnouSasaki(3, n_landmarks=10, n_remaining=30, random_state=0).fit(table)
    assert len(model.remaining_) == 30
    assert len(model.landmark_labels_) == 10
    assert ari(target, model.labels_) > 0.9


def test_shinnou_sasaki_without_removed_rows_sees_every_row(rng):
    table, _ = blobs(rng)
    model = ShinnouSasaki(3, n_landmarks=5, n_remaining=120, random_state=0).fit(table)
    assert np.array_equal(model.remaining_, np.arange(120))


# -- PIC ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("affinity", ["cosine", "shifted"])
def test_pic_is_its_dense_power_iteration(rng, affinity):
    table = rng.random((70, 5)) + 3 * np.eye(5)[rng.integers(0, 3, 70)]
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    matrix = unit @ unit.T if affinity == "cosine" else (1 + unit @ unit.T) / 2
    np.fill_diagonal(matrix, 0)
    degrees = matrix.sum(axis=1)
    walk = matrix / degrees[:, None]
    v, step = degrees / degrees.sum(), degrees / degrees.sum()
    for _ in range(1000):
        after = walk @ v
        after /= np.abs(after).sum()
        before, step, v = step, np.abs(after - v), after
        if np.abs(step - before).max() <= 1e-5 / 70:
            break
    ours, history = pic.power_iteration(pic.random_walk(table, affinity), 1000, 1e-5)
    assert np.allclose(ours, v, atol=1e-12)
    sparse_too, _ = pic.power_iteration(pic.random_walk(sparse.csr_array(table), affinity), 1000, 1e-5)
    assert np.allclose(sparse_too, v, atol=1e-12)
    assert history[-1] <= 1e-5


def test_pic_finds_topics_and_refuses_negative_degrees(rng):
    topics = np.kron(np.eye(3), np.ones(30))[rng.permutation(np.repeat(np.arange(3), [20, 50, 90]))]  # (n, 90)
    words = topics * (rng.random(topics.shape) < 0.3) + 0.02 * (rng.random(topics.shape) < 0.1)
    labels = PIC(3, random_state=0).fit_predict(sparse.csr_array(words))
    assert ari(topics.argmax(axis=1), labels) > 0.9
    with pytest.raises(ValueError, match=r"The degree of row \d+ is -.*Set affinity='shifted'"):
        PIC(2, affinity="cosine").fit(np.array([[1.0, 0.1], [-1.0, 0.1], [-1.0, -0.1], [1.0, -0.3]]))


# -- Sequential --------------------------------------------------------------------------------------------------


def test_sequential_sums_do_not_depend_on_blocks(rng):
    table, _ = blobs(rng, n=300)
    landmarks = table[:20].astype(np.float32)
    grams = []
    for size in (7, 64, 1000):
        model = Sequential(3, n_landmarks=20, block_size=size, random_state=0)
        views = model._read_views(table)
        reader = model._learn_reader(views, "raw")
        blocks = sequential.Blocks(reader, views, size, 1)
        grams.append(sequential.sum_gram(blocks, landmarks, 4, 1.5))
    rows = connect(table.astype(np.float32), landmarks, 4, 1.5, 1)
    indices, weights = rows.collect(lambda b: b.indices), rows.collect(lambda b: b.weights)
    z = np.zeros((300, 20))
    np.put_along_axis(z, indices.astype(int), weights, axis=1)
    assert all(np.allclose(gram, z.T @ z, atol=1e-5) for gram in grams)


def test_sequential_reads_a_memory_map_block_by_block(rng, tmp_path):
    table, target = blobs(rng, n=600, apart=8)
    np.save(tmp_path / "rows.npy", table)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = Sequential(3, n_landmarks=50, block_size=100, random_state=0)
    labels = model.fit_predict(mapped)
    assert np.array_equal(labels, model.fit(table).labels_)
    assert ari(target, labels) > 0.9


def test_centres_end_at_the_means_of_what_they_were_given(rng):
    rows = [rng.standard_normal((20, 2)) for _ in range(5)]
    one = sequential.move_centers(np.zeros((1, 2)), iter(rows))
    assert np.allclose(one, np.vstack(rows).mean(axis=0))


# -- commute times -----------------------------------------------------------------------------------------------


def test_distances_are_resistances(rng):
    pytest.importorskip("pyamg")
    table, _ = blobs(rng, n=50)
    graph = commute_time.neighbour_graph(table, 6, 1)
    laplacian = sparse.csgraph.laplacian(graph).toarray()
    inverse = np.linalg.pinv(laplacian)
    resistances = inverse.diagonal()[:, None] + inverse.diagonal() - 2 * inverse
    rows = commute_time.commute_embedding(graph, 1500, 1e-8, rng).rows
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    away = ~np.eye(50, dtype=bool)
    assert np.abs(squares[away] / resistances[away] - 1).max() < 0.25  # Johnson and Lindenstrauss


def test_pieces_of_the_graph_are_joined(rng):
    table = np.vstack([rng.standard_normal((20, 2)) + 100 * i for i in range(3)])
    graph = commute_time.neighbour_graph(table, 3, 1)
    assert sparse.csgraph.connected_components(graph, directed=False)[0] == 1
    assert np.allclose(graph.toarray(), graph.toarray().T)


def test_commute_time_names_its_extra_where_pyamg_is_lacking(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyamg", None)
    with pytest.raises(ImportError, match=r"pyamg.*pip install coterie\[commute\]"):
        CommuteTime(3, random_state=0).fit(blobs(rng)[0])


# -- auto-encoders -----------------------------------------------------------------------------------------------


def test_autoencoder_learns_and_repeats(rng):
    pytest.importorskip("torch")
    table, target = blobs(rng, apart=8)
    model = SparseAutoencoder(3, hidden=(32, 8), n_epochs=40, random_state=0).fit(table)
    assert model.n_iter_ == len(model.objective_) == 80
    assert model.objective_[39] < 0.7 * model.objective_[0]
    assert model.embedding_.shape == (120, 8)
    again = SparseAutoencoder(3, hidden=(32, 8), n_epochs=40, random_state=0).fit(table)
    assert np.array_equal(model.embedding_, again.embedding_)
    assert ari(target, model.labels_) > 0.9


def test_autoencoder_refuses_more_rows_than_pairs_have_room_for():
    with pytest.raises(ValueError, match=r"SparseAutoencoder.*10,001 rows"):
        SparseAutoencoder(2).fit(np.zeros((10_001, 1), dtype=np.float32))


def test_penalty_is_the_divergence_between_activities():
    torch = pytest.importorskip("torch")
    own = torch.tensor([0.1, 0.5])
    wanted = 0.1 * np.log(0.1 / 0.5) + 0.9 * np.log(0.9 / 0.5)
    assert float(autoencoder.sparsity_penalty(torch, own, 0.1)) == pytest.approx(wanted / 2, rel=1e-5)


def test_transition_rows_are_random_walks(rng):
    affinity = gaussian(rng.standard_normal((20, 3)), 1.0)
    assert np.allclose(autoencoder.transition_rows(affinity).sum(axis=1), 20, rtol=1e-5)


# -- on real digits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Nystroem, KASP, ShinnouSasaki, Sequential])
def test_pixels_of_mfeat(mfeat, make):
    labels = make(10, view="pix", random_state=0).fit_predict(mfeat.views)
    assert nmi(mfeat.target, labels) > 0.6


def test_several_views_are_better_side_by_side():
    data = make_views(400, 4, n_columns=(6, 6), separation=3, random_state=1)
    alone = [ari(data.target, KASP(4, view=v, n_landmarks=80, random_state=0).fit_predict(data.views)) for v in (0, 1)]
    assert ari(data.target, KASP(4, n_landmarks=80, random_state=0).fit_predict(data.views)) > max(alone)
