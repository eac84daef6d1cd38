"""k-means and cluster-QR, against scikit-learn and groups that are known."""

import numpy as np
from sklearn.metrics import adjusted_rand_score

from coterie.method.assignment import assign, best_of, fit_centroids, lloyd, qr_centroids, refine
from coterie.method.seeding import draw_starts
from coterie.rows.memory import MemoryRows


def unit_blobs(rng, n=300, k=4):
    target = rng.integers(k, size=n)
    rows = np.eye(k)[target] + 0.1 * rng.standard_normal((n, k))
    return target, (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_kmeans_and_cluster_qr_find_the_groups(rng):
    target, rows = unit_blobs(rng)
    for centroids in (best_of(rows, draw_starts(5, 4, rng), 2), qr_centroids(rows, 4)):
        assert adjusted_rand_score(target, assign(rows, centroids).labels) == 1


def test_lloyd_ends_where_scikit_learn_does(rng):
    from sklearn.cluster import KMeans

    _, rows = unit_blobs(rng, n=200)
    start = rows[:4]
    ours, inertia = lloyd(rows, start)
    theirs = KMeans(4, init=start, n_init=1, tol=0, max_iter=100).fit(rows)
    np.testing.assert_allclose(ours, theirs.cluster_centers_, atol=1e-5)
    np.testing.assert_allclose(inertia, theirs.inertia_, rtol=1e-4)


def test_fewer_runs_find_many_groups(rng):
    """Forty groups in 6,000 rows: one run on a part of them, from cluster-QR, misses none."""
    target, rows = unit_blobs(rng, n=6000, k=40)
    blocks = MemoryRows(np.array_split(rows, 3), n_rows=6000, n_threads=2)
    centroids = fit_centroids(blocks, 40, method="kmeans", n_init=1, rng=rng, n_threads=2, all_runs=False)
    assert adjusted_rand_score(target, assign(rows, centroids).labels) > 0.999


def test_refining_on_all_rows(rng):
    target, rows = unit_blobs(rng, n=2000)
    blocks = MemoryRows(np.array_split(rows, 7), n_rows=2000, n_threads=2)
    centroids = refine(blocks, best_of(rows[:100], draw_starts(3, 4, rng), 1))
    means = np.stack([rows[target == group].mean(axis=0) for group in range(4)])
    gaps = np.linalg.norm(centroids[:, None] - means, axis=2).min(axis=1)
    np.testing.assert_allclose(gaps, 0, atol=1e-3)
