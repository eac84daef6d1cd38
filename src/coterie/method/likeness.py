"""How the views' distances are correlated, so that missing ones can be imputed from the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Iterations of principal axis factoring: the loadings converge long before, and views are few.
FACTOR_PASSES = 50

# No view determines the others: even for a copy, this share of a distance's variance is noise.
LEAST_NOISE = 0.02


@dataclass(frozen=True)
class Likeness:
    """A factor model of a pair's squared distances: d_v = mean_v + loading_v f + noise of variance noise_v.

    The single factor f is how different the two rows are in all views. Given some of the distances, its expectation is
    sum (d_v - mean_v) loading_v / noise_v, divided by 1 + sum loading_v^2 / noise_v. Few or weak views leave it near 0:
    rows that are near to each other in one poor view need not be near in the others.
    """

    means: np.ndarray  # (V,)
    loadings: np.ndarray  # (V,)
    noise: np.ndarray  # (V,)

    def table(self) -> np.ndarray:
        """Return for each view the columns of the kernels: mean, loading, loading / noise, loading^2 / noise."""
        weights = self.loadings / self.noise
        return np.column_stack([self.means, self.loadings, weights, self.loadings * weights])  # (V, 4)


def learn_likeness(distances: np.ndarray) -> Likeness:
    """Return the model of pairs' squared distances (V x pairs), which are infinite where a pair lacks a view.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> alike = rng.standard_normal(10_000)
    >>> views = [5 + 2 * alike, 3 + alike, 4 + alike] + 0.5 * rng.standard_normal((3, 10_000))
    >>> found = learn_likeness(views)
    >>> found.means.round(1), found.loadings.round(1)
    (array([5., 3., 4.]), array([2., 1., 1.]))
    """
    known = np.isfinite(distances)  # (V, m)
    means = np.where(known, distances, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)  # (V,)
    excess = np.where(known, distances - means[:, None], 0)
    both = known.astype(np.float64) @ known.T  # (V, V)
    covariance = excess @ excess.T / np.maximum(both, 1)
    deviations = np.sqrt(covariance.diagonal())  # (V,)
    deviations = np.where(deviations > 0, deviations, 1.0)
    loadings = one_factor(covariance / deviations / deviations[:, None])  # (V,)
    return Likeness(means, loadings * deviations, (1 - loadings**2) * deviations**2)


def one_factor(correlations: np.ndarray) -> np.ndarray:
    """Return the loadings of variables on the one factor that explains most of their correlations.

    By principal axis factoring: the diagonal is replaced by each variable's variance that the factor explains.

    Examples
    --------
    >>> one_factor(np.outer([0.9, 0.8, 0.5], [0.9, 0.8, 0.5])).round(3)
    array([0.9, 0.8, 0.5])
    """
    most = 1 - LEAST_NOISE
    shared = correlations.copy()
    for _ in range(FACTOR_PASSES):
        values, vectors = np.linalg.eigh(shared)
        loadings = vectors[:, -1] * np.sqrt(max(values[-1], 0))
        explained = np.minimum(loadings**2, most)  # (V,)
        np.fill_diagonal(shared, explained)
    loadings = loadings if loadings.sum() > 0 else -loadings
    return np.clip(loadings, 0, np.sqrt(most))  # (V,)
