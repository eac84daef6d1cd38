"""Spectra against LAPACK."""

from functools import partial

import numpy as np
import pytest
from scipy.linalg import eigh

from coterie.kernels import cpu
from coterie.method import spectra
from coterie.method.spectra import consensus, graph_spectrum, joined_spectrum


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


def graph_in_pieces(rng, n_components, size=480):
    """D^(-1/2) Z^T Z D^(-1/2): its largest eigenvalue, 1, comes once for every piece."""
    homes = np.arange(size) % n_components
    gram = np.zeros((size, size))
    for group in range(n_components):
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


@pytest.mark.parametrize("n_components", [1, 3, 40])
def test_iterated_eigenpairs_are_the_exact_ones(rng, monkeypatch, n_components):
    """Also for graphs in many pieces, whose largest eigenvalue comes many times."""
    matrix = graph_in_pieces(rng, n_components)
    monkeypatch.setattr(cpu, "FILTERS_PER_REDUCTION", np.inf)  # some of these take longer than a full reduction would
    is_spectrum_of(matrix, spectra.filtered_subspace(matrix, 20), 1e-8)
    found = spectra.top_eigenpairs(matrix, 20)
    is_spectrum_of(matrix, found, 1e-8)
    is_spectrum_of(matrix, spectra.top_eigenpairs(matrix, 20, found.block), 1e-8)
    assert (found.block is None) == (spectra.lanczos(matrix, 20) is not None)  # not tried again where it failed


@pytest.mark.parametrize(("precision", "atol"), [("float32", 1e-5), ("float64", 1e-8)])
def test_lanczos_says_what_it_misses(rng, precision, atol):
    connected, in_pieces = graph_in_pieces(rng, 1), graph_in_pieces(rng, 40)
    is_spectrum_of(connected, spectra.lanczos(connected.astype(precision), 20), atol)
    assert spectra.lanczos(in_pieces.astype(precision), 20) is None


def test_one_pair_is_found_by_lanczos_method(rng):
    matrix = graph_in_pieces(rng, 1)
    is_spectrum_of(matrix, spectra.lanczos(matrix, 1), 1e-8)


def test_weights_of_graphs(rng):
    """A graph of weight zero is ignored, and a heavy one decides."""
    bases = [np.linalg.qr(rng.standard_normal((50, 3)))[0] for _ in range(2)]
    stacked = np.hstack(bases)
    for weights in ([1, 0], [1, 1e-4]):
        rotation = consensus(stacked.T @ stacked, np.array(weights, float), 3).rotation
        U = stacked @ rotation.reshape(-1, 3)
        np.testing.assert_allclose(np.linalg.norm(bases[0].T @ U) ** 2, 3, atol=1e-6)


def test_of_many_directions_those_that_are_used_are_found(rng):
    """The consensus is that of all eigenvectors, and so is the share that it holds."""
    stacked = rng.standard_normal((700, 600)) * np.linspace(2, 0.1, 600)
    outer = stacked.T @ stacked
    found = consensus(outer, np.ones(2), 30)
    values, vectors = np.linalg.eigh(outer)
    np.testing.assert_allclose(found.singular_values, np.sqrt(values[::-1][: len(found.singular_values)]))
    assert 30 <= len(found.singular_values) < 600
    np.testing.assert_allclose(found.held, values[-30:].sum() / values.sum())
    own = found.rotation.reshape(600, 30)
    np.testing.assert_allclose(own @ own.T, (vectors[:, -30:] / values[-30:]) @ vectors[:, -30:].T, atol=1e-8)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("p", [30, 500])
def test_a_view_without_differences_has_no_directions(rng, p, precision):
    """All rows have the same neighbours: beside the constant vector there are rounding errors only."""
    weights = rng.random(7)
    weights /= weights.sum()
    gram = np.zeros((p, p))
    gram[:7, :7] = 300 * np.outer(weights, weights)
    found = graph_spectrum(gram, 4, drop_first=True, precision=precision)
    np.testing.assert_array_equal(found.basis, 0)
    assert np.abs(graph_spectrum(gram, 4, precision=precision).basis).max() > 0  # the constant vector itself


def test_landmarks_that_no_row_is_joined_to_change_nothing(rng):
    """Where most landmarks lack a view, its graph has the spectrum of the others alone, and zeros for them."""
    Z = rng.random((900, 300)) * (rng.random((900, 300)) < 0.05) + np.eye(300)[np.arange(900) % 300]
    Z /= Z.sum(axis=1, keepdims=True)
    gram, own = np.zeros((700, 700)), np.sort(rng.permutation(700)[:300])
    gram[np.ix_(own, own)] = Z.T @ Z
    solve = partial(graph_spectrum, n_components=5, drop_first=True)
    among_all, alone = joined_spectrum(gram[np.tril_indices(700)], None, solve), solve(Z.T @ Z)
    np.testing.assert_array_equal(among_all.basis[own], alone.basis)
    np.testing.assert_array_equal(among_all.singular_values, alone.singular_values)
    assert not np.delete(among_all.basis, own, axis=0).any()
    values = np.linalg.svd(Z / np.sqrt(Z.sum(axis=0)), compute_uv=False)
    np.testing.assert_allclose(among_all.singular_values, values[1:7], atol=1e-6)


def test_a_graph_among_fewer_landmarks_than_vectors_is_filled_with_zeros(rng):
    gram = np.zeros((40, 40))
    gram[:3, :3] = 0.1 + np.eye(3)
    found = joined_spectrum(gram[np.tril_indices(40)], None, partial(graph_spectrum, n_components=6))
    assert found.basis.shape == (40, 6)
    assert found.singular_values.shape == (7,)
    assert not found.basis[3:].any()
    assert not found.basis[:, 3:].any()
    assert not found.singular_values[3:].any()


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_graph_that_no_row_has_a_neighbour_in_has_a_basis_of_zeros(precision):
    """It has no nonzeros: a compiled loop took them for a matrix that is stored whole, and read beyond its end."""
    p = 300
    found = graph_spectrum(np.zeros(p * (p + 1) // 2), 4, drop_first=True, precision=precision)
    np.testing.assert_array_equal(found.basis, np.zeros((p, 4)))
    np.testing.assert_array_equal(found.singular_values, np.zeros(5))
