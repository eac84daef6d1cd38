"""LT-MSC and DiMSC: optimality by lower bounds and plain solvers, and what their shared pieces promise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import solve_sylvester

from coterie.datasets import make_views
from coterie.peers import _subspace as subspace
from coterie.peers import dimsc, ltmsc
from coterie.views import as_views

WEIGHT = 0.2


@pytest.fixture(scope="module")
def coordinates():
    data = make_views(80, 3, n_columns=(7, 5), separation=3, random_state=1)
    return [subspace.row_coordinates(view) for view in as_views(data.views)]


@pytest.fixture(scope="module")
def found(coordinates):
    problem = ltmsc.build_problem([rows.T for rows in coordinates])
    return problem, ltmsc.represent(problem, WEIGHT, max_iter=500, tol=1e-6)


def unfold(tensor, axis):
    return np.moveaxis(tensor, axis, 0).reshape(tensor.shape[axis], -1)


def test_coordinates_keep_inner_products_and_rank():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((30, 4)) @ rng.standard_normal((4, 50))  # wider than long, of rank 4
    (view,) = as_views([table])
    rows = subspace.row_coordinates(view)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    assert rows.shape == (30, 4)
    assert np.allclose(rows @ rows.T, unit @ unit.T)


def test_affinity_is_symmetric_without_a_diagonal(rng):
    representations = rng.standard_normal((2, 6, 6))
    affinity = subspace.shared_affinity(list(representations))
    expected = sum(np.abs(z) + np.abs(z.T) for z in representations)
    np.fill_diagonal(expected, 0)
    assert np.allclose(affinity, expected)


def ltmsc_cost(problem, tensor):
    norms = sum(np.linalg.norm(unfold(tensor, axis), ord="nuc") for axis in range(3)) / 3
    errors = [x - a @ y for x, a, y in zip(problem.tables, problem.dictionaries, tensor, strict=True)]
    return norms + WEIGHT * np.linalg.norm(np.vstack(errors), axis=0).sum()


def test_ltmsc_meets_its_constraints(found):
    problem, result = found
    assert result.converged
    for v, (x, a) in enumerate(zip(problem.tables, problem.dictionaries, strict=True)):
        assert np.allclose(x, a @ result.state.tensor[v] + result.state.errors[v], atol=1e-4)
    assert all(np.allclose(copy, result.state.tensor, atol=1e-4) for copy in result.state.copies)


def test_ltmscs_objective_is_at_its_lower_bound(found):
    """<L, X> is below every cost where columns of L are no longer than lambda and A^T L = sum_m W_m, |W_m|_2 <= 1/3."""
    problem, result = found
    multipliers = result.state.error_multipliers
    pulls = np.stack([a.T @ m for a, m in zip(problem.dictionaries, multipliers, strict=True)])  # (V, D, n)
    missing = (pulls - sum(result.state.copy_multipliers)) / 3
    sizes = [
        np.linalg.norm(unfold(w + missing, axis), ord=2) * 3
        for w, axis in zip(result.state.copy_multipliers, (1, 2, 0), strict=True)
    ]
    longest = np.linalg.norm(np.vstack(multipliers), axis=0).max() / WEIGHT
    bound = sum(np.sum(m * x) for m, x in zip(multipliers, problem.tables, strict=True)) / max(1, longest, *sizes)
    reached = ltmsc_cost(problem, result.state.tensor)
    assert bound <= reached + 1e-9
    assert reached - bound < 0.02 * reached
    assert result.objective[-1] == pytest.approx(reached, rel=1e-3)


def test_ltmsc_in_a_basis_is_ltmsc_with_all_rows(found, coordinates):
    """The same rounds on n x n coefficients, without the basis of the columns' space, end at the same ones."""
    problem, result = found
    tables = tuple(rows.T for rows in coordinates)
    n = tables[0].shape[1]
    inverses = tuple(ltmsc.cho_factor(x.T @ x + 3 * np.eye(n)) for x in tables)
    whole = ltmsc.represent(ltmsc.Problem(np.eye(n), tables, tables, inverses), WEIGHT, max_iter=500, tol=1e-6)
    for full, reduced in zip(whole.state.tensor, result.state.tensor, strict=True):
        assert np.allclose(full, problem.basis @ reduced, atol=1e-5)


def test_columns_are_shortened_together(rng):
    blocks = [rng.standard_normal((3, 10)), rng.standard_normal((2, 10))]
    shrunk, norm = ltmsc.shrink_columns(blocks, 1.0)
    lengths = np.linalg.norm(np.vstack(blocks), axis=0)
    assert np.allclose(np.linalg.norm(np.vstack(shrunk), axis=0), np.maximum(lengths - 1, 0))
    assert norm == pytest.approx(np.maximum(lengths - 1, 0).sum())


def test_sylvesters_equation_is_solved(coordinates, rng):
    rows = coordinates[0]
    gram = rows @ rows.T  # X^T X with a row of the data in each column of X
    half = rng.standard_normal((80, 80))
    right = half @ half.T + np.eye(80)
    problem = dimsc.build_problem([rows], 5, rng)
    found = problem.bases[0] @ dimsc.solve_view(problem.bases[0], problem.strengths[0], right)
    assert np.allclose(found, solve_sylvester(gram, right, gram), atol=1e-8)


def test_sylvesters_equation_is_the_kronecker_system(rng):
    rows = rng.standard_normal((8, 3))
    gram = rows @ rows.T
    half = rng.standard_normal((8, 8))
    right = half @ half.T + np.eye(8)
    left = np.kron(gram, np.eye(8)) + np.kron(np.eye(8), right)  # of vec by rows
    expected = np.linalg.solve(left, gram.ravel()).reshape(8, 8)
    basis, values, _ = np.linalg.svd(rows, full_matrices=False)
    assert np.allclose(basis @ dimsc.solve_view(basis, values**2, right), expected)


@pytest.mark.parametrize("diversity", [0.0, 0.1, 10.0])
def test_dimscs_objective_never_rises(diversity, coordinates, rng):
    problem = dimsc.build_problem(coordinates, 5, rng)
    found = dimsc.diversify(problem, 0.1, diversity, max_iter=6, tol=0)
    assert (np.diff(found.objective) <= 1e-9).all()


def test_dimscs_cost_is_that_of_its_definition(coordinates, rng):
    problem = dimsc.build_problem(coordinates, 5, rng)
    state = dimsc.diversify(problem, 0.1, 0.5, max_iter=2, tol=0).state
    full = [u @ y for u, y in zip(problem.bases, state, strict=True)]
    expected, centre = 0.0, np.eye(80) - 1 / 80
    for rows, z, laplacian in zip(coordinates, full, problem.laplacians, strict=True):
        expected += np.sum((rows.T - rows.T @ z) ** 2) + 0.1 * np.trace(z @ laplacian @ z.T)
    kernels = [z.T @ z for z in full]
    expected += 0.5 * np.trace(kernels[0] @ centre @ kernels[1] @ centre)
    assert dimsc.total_cost(problem, 0.1, 0.5, state) == pytest.approx(expected)


def test_diversity_makes_views_differ(coordinates, rng):
    problem = dimsc.build_problem(coordinates, 5, rng)

    def dependence(diversity):
        one, other = dimsc.diversify(problem, 0.1, diversity, max_iter=6, tol=0).state
        return np.sum((dimsc.centred(one) @ other.T) ** 2)

    assert dependence(10.0) < dependence(0.1) < dependence(0.0)
