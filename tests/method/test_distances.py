"""Imputed distances, and the factor model behind them."""

import numpy as np

from coterie.method.distances import impute_distances
from coterie.method.likeness import Likeness, learn_likeness


def test_lacking_views_are_expected_as_a_gaussian_would(rng):
    """The factor model is a Gaussian with covariance loading loading^T + noise; conditioning it takes V x V solves."""
    model = Likeness(rng.random(4) + 2, rng.random(4), rng.random(4) + 0.1)
    covariance = np.outer(model.loadings, model.loadings) + np.diag(model.noise)
    distances = rng.random((4, 6, 9)) * 4
    distances[rng.random(distances.shape) < 0.5] = np.inf
    distances[:, 0, 0], distances[:, 0, 1] = np.inf, [1.0, 2.0, 3.0, 4.0]
    whole = impute_distances(distances, model)
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
