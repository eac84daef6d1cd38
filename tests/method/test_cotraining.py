"""Rounds of co-training, against dense algebra; rows that are not consumed can be used again."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from coterie.method import candidates
from coterie.method.cotraining import (
    AugmentedView,
    CoTrainingSettings,
    GraphWeights,
    as_if_complete,
    cotrain,
    first_round,
    graph_agreement,
    pairwise_agreement,
    relative_change,
    solve_at_once,
    solve_graphs,
)
from coterie.method.rowmap import Block
from coterie.method.spectra import Consensus, graph_spectrum
from coterie.rows.memory import MemoryRows

BOUNDS = np.array([0, 3, 7])
N, P = 120, 15


def settings(**changes):
    own = CoTrainingSettings(
        n_components=3,
        n_vectors=4,
        drop_first=False,
        weighting="equal",
        unit=False,
        cosine=True,
        max_iter=3,
        tol=0.0,
        consensus_power=0.0,
        graph_weights=np.ones(2),
        trust=False,
    )
    return replace(own, **changes)


def random_block(rng, n=N, p=P):
    """Two graphs of three and of four neighbours among the landmarks."""
    indices = [np.sort([rng.permutation(p)[:q] for _ in range(n)], axis=1) for q in (3, 4)]
    weights = [rng.random((n, q)) + 0.1 for q in (3, 4)]
    weights = [part / part.sum(axis=1, keepdims=True) for part in weights]
    return Block(np.hstack(indices).astype(np.uint16), np.hstack(weights))


def rows_of(block, n_blocks=3):
    parts = np.array_split(np.arange(len(block.indices)), n_blocks)
    blocks = [Block(block.indices[part].copy(), block.weights[part].copy()) for part in parts]
    return MemoryRows(blocks, n_rows=len(block.indices), n_threads=1)


def dense(block, p=P):
    graphs = []
    for start, stop in pairwise(BOUNDS):
        graph = np.zeros((len(block.indices), p))
        np.put_along_axis(graph, block.indices[:, start:stop].astype(int), block.weights[:, start:stop], axis=1)
        graphs.append(graph)
    return graphs


def normalised(graph):
    degrees = graph.sum(axis=0)
    return graph / np.sqrt(np.where(degrees > 0, degrees, 1))


def test_the_first_round_is_theorem_1(rng):
    """U* spans the first k left singular vectors of the graphs' own bases side by side."""
    block = random_block(rng)
    spectra = solve_graphs(rows_of(block), P, BOUNDS, settings(), block.weights)
    view = first_round(rows_of(block), spectra, BOUNDS, settings(), "float64")
    bases = [np.linalg.svd(normalised(graph), full_matrices=False)[0][:, :4] for graph in dense(block)]
    left, values, _ = np.linalg.svd(np.hstack(bases), full_matrices=False)
    found = view.basis(block, BOUNDS)  # (n, 3)
    np.testing.assert_allclose(found @ found.T, left[:, :3] @ left[:, :3].T, atol=1e-8)
    np.testing.assert_allclose(view.consensus.singular_values**2, values**2, atol=1e-12)
    np.testing.assert_array_equal(view.graphs.common, np.full((2, 2), N))


def test_weights_that_are_known_are_not_found_again(rng):
    block = random_block(rng)
    some = settings(graph_weights=np.array([1.0, 0.25]), trust=True, unit=True)
    spectra = solve_graphs(rows_of(block), P, BOUNDS, some, block.weights)
    judged = first_round(rows_of(block), spectra, BOUNDS, some, "float64")
    again = first_round(rows_of(block), spectra, BOUNDS, some, "float64", judged.graphs)
    np.testing.assert_allclose(again.outer, judged.outer, rtol=1e-12)
    np.testing.assert_allclose(again.basis.rotation, judged.basis.rotation, atol=1e-9)
    given = GraphWeights(np.array([1.0, 0.0]), judged.graphs.common)
    alone = first_round(rows_of(block), spectra, BOUNDS, some, "float64", given)
    assert not alone.basis.rotation[1].any()  # a graph without weight has no part in U*


@pytest.mark.parametrize("consume", [False, True])
def test_rows_are_left_as_they_are_unless_consumed(rng, consume):
    block = random_block(rng)
    rows = rows_of(block)
    training = cotrain(rows, random_block(rng, P), BOUNDS, settings(), consume=consume)
    assert len(training.guides) == 2
    guided = training.rows.collect(lambda part: part.weights)
    assert not np.allclose(guided, block.weights)
    if consume:
        assert len(rows.blocks) == 0
    else:
        np.testing.assert_array_equal(rows.collect(lambda part: part.weights), block.weights)


def test_rounds_do_not_depend_on_whether_rows_are_consumed(rng):
    block, landmarks = random_block(rng), random_block(rng, P)
    first, second = (cotrain(rows_of(block), landmarks, BOUNDS, settings(), consume=own) for own in (False, True))
    np.testing.assert_array_equal(first.view.basis.bases, second.view.basis.bases)
    np.testing.assert_array_equal(*(training.rows.collect(lambda part: part.weights) for training in (first, second)))


def test_one_round_guides_nothing(rng):
    rows = rows_of(random_block(rng))
    training = cotrain(rows, random_block(rng, P), BOUNDS, settings(max_iter=1), consume=True)
    assert training.rows is rows
    assert training.guides == ()
    assert training.view is training.first_view
    assert np.isnan(training.history[0].change)


def test_change_is_that_of_the_affinities(rng):
    before, now = rng.standard_normal((2, 20, 3))
    expected = np.linalg.norm(now @ now.T - before @ before.T) / np.linalg.norm(before @ before.T)
    assert relative_change(before, now) == pytest.approx(expected)
    assert relative_change(before, before) == pytest.approx(0, abs=1e-7)


def test_parts_of_h_are_scaled_to_all_rows():
    outer, common = np.ones((4, 4)), np.array([[10.0, 5.0], [5.0, 8.0]])
    found = as_if_complete(outer, common)
    np.testing.assert_allclose(found[:2, :2], 1)
    np.testing.assert_allclose(found[:2, 2:], 2)
    np.testing.assert_allclose(found[2:, 2:], 10 / 8)


def test_graphs_that_are_the_same_agree(rng):
    own = random_block(rng)
    indices, weights = own.indices[:, :3], own.weights[:, :3]
    block, bounds = Block(np.hstack([indices, indices]), np.hstack([weights, weights])), np.array([0, 3, 6])
    spectra = solve_graphs(rows_of(block), P, bounds, settings(n_components=4), block.weights)
    view = first_round(rows_of(block), spectra, bounds, settings(n_components=4), "float64")
    np.testing.assert_allclose(pairwise_agreement(view), 1, atol=1e-9)
    np.testing.assert_allclose(graph_agreement(view), 1, atol=1e-9)


def test_agreement_is_a_share_of_the_most_that_the_consensus_could_hold(rng):
    """It is 1 where U*'s directions are a graph's own leading ones, however short, and 0 where none is."""
    own = np.linalg.qr(rng.standard_normal((60, 9)))[0] * 0.9 ** np.arange(9)  # (n, r)
    other = np.linalg.qr(np.hstack([own, rng.standard_normal((60, 9))]))[0][:, 9:] * 0.9 ** np.arange(9)
    stacked = np.hstack([own, own, other])
    for k in (2, 5):
        rotation = np.zeros((27, k))
        np.fill_diagonal(rotation, (0.5 / 0.9) ** np.arange(k))  # U*: the first graph's directions, the last one short
        shared = Consensus(rotation.reshape(3, 9, k), np.ones(k), 1.0)
        view = AugmentedView(None, (), shared, stacked.T @ stacked, GraphWeights(np.ones(3), np.full((3, 3), 60.0)))
        np.testing.assert_allclose(graph_agreement(view), [1, 1, 0], atol=1e-9)


@pytest.mark.parametrize("n_rounds", [1, 2, 3])
def test_the_first_rounds_of_many_are_those_that_there_would_have_been(rng, n_rounds):
    block = random_block(rng)
    landmarks = Block(block.indices[:P], block.weights[:P])
    rows = rows_of(block)
    many = cotrain(rows, landmarks, BOUNDS, settings(max_iter=4)).until(n_rounds, rows, BOUNDS)
    few = cotrain(rows_of(block), landmarks, BOUNDS, settings(max_iter=n_rounds))
    assert len(many.history) == len(many.views) == n_rounds
    assert len(many.guides) == n_rounds - 1
    np.testing.assert_array_equal(*(own.rows.take(np.arange(N)).weights for own in (many, few)))
    np.testing.assert_array_equal(many.view.basis(landmarks, BOUNDS), few.view.basis(landmarks, BOUNDS))


def test_rounds_end_where_somebody_has_seen_enough(rng):
    block = random_block(rng)
    landmarks = Block(block.indices[:P], block.weights[:P])
    told = []

    def go_on(guides, view):
        told.append(len(guides))
        return len(guides) < 1

    training = cotrain(rows_of(block), landmarks, BOUNDS, settings(max_iter=9), go_on=go_on)
    assert told == [0, 1]
    assert len(training.history) == 2


@pytest.mark.parametrize(
    ("name", "moved", "settled"), [("diffusion", 2, True), ("diffusion", 60, False), ("islands", 0, False)]
)
def test_rounds_end_where_clusters_have_settled(rng, name, moved, settled):
    """They go on where many rows change their cluster, and with "islands", whose small clusters show late."""
    labels = np.arange(1000) % 5
    first = candidates.Candidate(name, 1, 0.8, labels, None)
    stopping = candidates.EarlyStopping(first, (1, 2, 5), None, None, (), 5, rng)
    assert not stopping.has_converged()
    others = labels.copy()
    others[:moved] = (others[:moved] + 1) % 5
    stopping.checked.append(replace(first, rounds=2, labels=others))
    assert stopping.has_converged() == settled


def test_graphs_of_tensors_in_host_memory_are_solved_as_numpys_are(rng):
    """Enough landmarks for iterated eigenvectors; filters of all graphs at once, a GPU's way, took 80 times as long."""
    torch = pytest.importorskip("torch")
    block = random_block(rng, n=900, p=300)
    tensors = Block(torch.as_tensor(block.indices.astype(np.int16)), torch.as_tensor(block.weights))
    spectra, found = (
        solve_graphs(MemoryRows([rows], n_rows=900, n_threads=1), 300, BOUNDS, settings(), rows.weights)
        for rows in (block, tensors)
    )
    for expected, spectrum in zip(spectra, found, strict=True):
        assert torch.is_tensor(spectrum.basis)
        np.testing.assert_array_equal(spectrum.basis, expected.basis)
        np.testing.assert_array_equal(spectrum.singular_values, expected.singular_values)


def test_graphs_that_are_solved_at_once_are_those_one_by_one(rng):
    torch = pytest.importorskip("torch")
    grams = [graph.T @ graph for graph in dense(random_block(rng, n=900, p=300), p=300)]
    solve = partial(graph_spectrum, n_components=4, drop_first=True)
    starts = [None, None]
    for _ in range(2):  # from a random start, and from where the first search ended
        found = solve_at_once(torch.as_tensor(np.stack(grams)), starts, solve)
        starts = [spectrum.start for spectrum in found]
        for spectrum, gram in zip(found, grams, strict=True):
            expected = solve(gram, precision="float64")
            np.testing.assert_allclose(spectrum.singular_values, expected.singular_values, atol=1e-9)
            lengths = np.linalg.norm(expected.basis, axis=0)
            turned = np.abs(np.sum(spectrum.basis.numpy() * expected.basis, axis=0)) / lengths**2  # (r,)
            np.testing.assert_allclose(turned, 1, atol=1e-6)
