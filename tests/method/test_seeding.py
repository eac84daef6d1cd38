"""Starts of k-means, against scikit-learn's."""

import numpy as np

from coterie.method.seeding import draw_starts, kmeans_plus_plus


def test_starts_are_far_apart(rng):
    """One row of each of eight groups, and as good as scikit-learn's: the sum of squared distances left."""
    from sklearn.cluster import kmeans_plusplus

    rows = (20 * np.eye(8).repeat(30, axis=0) + rng.standard_normal((240, 8))).astype(np.float32)
    for numbers in kmeans_plus_plus(rows, draw_starts(5, 8, rng)):
        assert sorted(numbers // 30) == list(range(8))
    noise = rng.standard_normal((500, 4)).astype(np.float32)

    def left(starts):
        return np.square(noise[:, None] - starts).sum(axis=2).min(axis=1).sum()

    ours = [left(noise[numbers]) for numbers in kmeans_plus_plus(noise, draw_starts(30, 10, rng))]
    theirs = [left(kmeans_plusplus(noise, 10, random_state=seed)[0]) for seed in range(30)]
    assert 0.95 < np.mean(ours) / np.mean(theirs) < 1.05


def test_starts_of_equal_rows(rng):
    assert kmeans_plus_plus(np.ones((5, 2), dtype=np.float32), draw_starts(1, 4, rng)).shape == (1, 4)
