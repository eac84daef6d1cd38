"""Landmarks are medoids, by brute force."""

import numpy as np

from coterie.method.landmarks import kmedoids, medoids_of_groups


def test_medoid_of_a_group_by_brute_force(rng):
    """The row nearest to the mean has the least sum of squared distances to the others."""
    rows = rng.standard_normal((60, 3))
    labels = rng.integers(4, size=60).astype(np.int32)
    found = medoids_of_groups(rows, labels, 4)
    for group in range(4):
        members = np.flatnonzero(labels == group)
        sums = ((rows[members][:, None] - rows[members]) ** 2).sum(axis=(1, 2))
        assert found[group] == members[sums.argmin()]


def test_landmarks_cover_all_groups(rng):
    rows = np.repeat(50 * rng.standard_normal((10, 4)), 30, axis=0) + rng.standard_normal((300, 4))
    landmarks = kmedoids(rows, 40, rng)
    assert len(np.unique(landmarks)) == 40
    assert set(landmarks // 30) == set(range(10))


def test_landmarks_are_distinct_rows(rng):
    rows = np.repeat(rng.standard_normal((7, 3)), 10, axis=0)
    landmarks = kmedoids(rows, 20, rng)
    assert len(np.unique(rows[landmarks], axis=0)) == len(landmarks) <= 7
