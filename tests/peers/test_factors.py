"""MultiNMF and MMSC: no negative entries, objectives that never rise, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from coterie.datasets import make_views
from coterie.metrics import ari
from coterie.peers import MMSC, MultiNMF
from coterie.peers import _dense as dense
from coterie.peers.mmsc import refine_indicator, smoothing_kernel
from coterie.peers.multinmf import Factor, factorise, non_negative, squared_error, unit_columns, update_view
from coterie.views import as_views


@pytest.fixture
def tables(seed):
    data = make_views(120, 3, n_columns=(9, 7), separation=4, random_state=seed)
    return [non_negative(view) for view in as_views(data.views)]


def test_tables_have_no_negative_values_and_a_sum_of_one(tables):
    assert all(table.min() == 0 and table.sum() == pytest.approx(1) for table in tables)
    counts = sparse.random_array((30, 6), density=0.3, rng=0, format="csr")
    (view,) = as_views([counts])
    assert sparse.issparse(non_negative(view))  # nothing has to be raised


@pytest.mark.parametrize("weight", [0.01, 1.0])
def test_multinmfs_objective_never_rises(weight, tables, rng):
    found = factorise(tables, 3, weight, max_iter=60, tol=0, rng=rng)
    assert (np.diff(found.objective) <= 1e-12).all()
    for table, factor in zip(tables, found.state.views, strict=True):
        assert (factor.rows >= 0).all()
        assert np.allclose(factor.columns.sum(axis=0), 1)
        assert squared_error(table, factor) < 0.5 * np.sum((table - table.mean(axis=0)) ** 2)
    expected = sum(squared_error(t, f) for t, f in zip(tables, found.state.views, strict=True))
    expected += weight * sum(np.sum((f.rows - found.state.common) ** 2) for f in found.state.views)
    assert found.objective[-1] == pytest.approx(expected)


def test_strongly_drawn_factors_agree(tables, rng):
    state = factorise(tables, 3, 100.0, max_iter=60, tol=0, rng=rng).state
    size = np.linalg.norm(state.common)
    assert all(np.linalg.norm(factor.rows - state.common) < 0.01 * size for factor in state.views)


def test_one_view_is_plain_nmf(tables, rng):
    """Without agreement the updates are those of Lee and Seung, up to the scale of columns."""
    table = tables[0]
    start = unit_columns(Factor(rng.uniform(size=(120, 3)), rng.uniform(size=(9, 3))))
    rows, columns = start.rows, start.columns
    for _ in range(20):
        columns = columns * (table.T @ rows) / (columns @ rows.T @ rows)
        rows = rows * (table @ columns) / (rows @ columns.T @ columns)
    ours = update_view(table, start, start.rows, weight=0.0, repeats=20)
    assert np.allclose(ours.rows @ ours.columns.T, rows @ columns.T)


def test_errors_of_sparse_and_dense_tables_are_the_same(tables, rng):
    factor = Factor(rng.uniform(size=(120, 3)), rng.uniform(size=(9, 3)))
    assert squared_error(sparse.csr_array(tables[0]), factor) == pytest.approx(squared_error(tables[0], factor))


def test_multinmf_finds_topics_in_counts(rng):
    topics = rng.dirichlet(np.full(30, 0.1), size=3)
    target = rng.integers(0, 3, 150)
    views = [sparse.csr_array(rng.multinomial(60, topics[target])) for _ in range(2)]
    assert ari(target, MultiNMF(3, random_state=0).fit_predict(views)) > 0.9


@pytest.fixture
def affinities(rng, seed):
    data = make_views(100, 3, n_columns=(8, 6), separation=3, random_state=seed)
    return dense.view_affinities(as_views(data.views), rng)


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0])
def test_the_kernel_is_what_the_views_own_indicators_leave(weight, affinities, rng):
    kernel = smoothing_kernel(affinities, weight)
    indicator = rng.uniform(size=(100, 3))
    total = 0.0
    for affinity in affinities:
        laplacian = dense.laplacian(affinity)
        own = np.linalg.solve(laplacian + weight * np.eye(100), weight * indicator)
        total += np.trace(own.T @ laplacian @ own) + weight * np.sum((own - indicator) ** 2)
    expected = weight * len(affinities) * (np.sum(indicator**2) - np.trace(indicator.T @ kernel @ indicator))
    assert total == pytest.approx(expected)
    assert kernel.min() >= 0
    assert 0.9 < np.linalg.eigvalsh(kernel).max() <= 1 + 1e-12  # 1 for each view, with other vectors


def test_mmscs_objective_never_rises_and_columns_are_nearly_orthogonal(affinities, rng):
    kernel = smoothing_kernel(affinities, 1.0)
    found = refine_indicator(kernel, rng.integers(0, 3, 100), 3, max_iter=1000, tol=0)
    assert (np.diff(found.objective) <= 1e-12).all()
    indicator = found.state
    assert (indicator >= 0).all()
    units = indicator / np.linalg.norm(indicator, axis=0)
    assert np.abs(units.T @ units - np.eye(3)).max() < 0.3


def test_mmscs_updates_rest_where_the_gradient_vanishes(affinities):
    kernel = smoothing_kernel(affinities, 1.0)
    start = np.arange(100) % 3
    g = refine_indicator(kernel, start, 3, max_iter=5000, tol=1e-15).state
    gradient = 2 * g @ (g.T @ g) - 2 * g - 2 * kernel @ g
    assert np.abs(g * gradient).max() < 1e-3


def test_mmsc_labels_are_the_largest_entries():
    data = make_views(120, 3, n_columns=(8, 6), separation=6, random_state=0)
    model = MMSC(3, random_state=0).fit(data.views)
    assert np.array_equal(model.labels_, model.embedding_.argmax(axis=1))
