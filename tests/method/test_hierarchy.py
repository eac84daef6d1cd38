"""The tree of clusters, against SciPy's average linkage of all rows."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, is_valid_linkage, linkage
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.method.hierarchy import cluster_hierarchy
from coterie.saving import load, save


def test_it_is_average_linkage_of_rows_at_their_centroids(rng):
    centers, sizes = rng.standard_normal((12, 5)), rng.integers(1, 9, 12)
    tree = cluster_hierarchy(centers, sizes)
    assert is_valid_linkage(tree.linkage)
    rows = np.repeat(centers, sizes, axis=0)
    whole = linkage(rows, "average", metric="cosine")  # rows of one cluster merge first, at distance 0
    np.testing.assert_allclose(tree.linkage[:, 2], whole[-11:, 2], atol=1e-12)
    for groups in range(1, 13):
        expected = fcluster(whole, groups, "maxclust")[np.cumsum(sizes) - 1]
        assert adjusted_rand_score(tree.cut(groups), expected) == 1
        assert len(set(tree.cut(groups))) == groups


def test_scale_and_order_of_clusters_do_not_matter(rng):
    centers, sizes = rng.standard_normal((9, 4)), rng.integers(1, 9, 9)
    tree = cluster_hierarchy(centers, sizes)
    np.testing.assert_allclose(cluster_hierarchy(7 * centers, sizes).linkage, tree.linkage)
    moved = rng.permutation(9)
    again = cluster_hierarchy(centers[moved], sizes[moved])
    np.testing.assert_allclose(again.linkage[:, 2], tree.linkage[:, 2])
    assert adjusted_rand_score(again.cut(4), tree.cut(4)[moved]) == 1


def test_heights_rise_and_branches_do_not_cross(rng):
    tree = cluster_hierarchy(rng.standard_normal((20, 3)), np.ones(20))
    assert (np.diff(tree.linkage[:, 2]) >= 0).all()
    assert sorted(tree.order) == list(range(20))
    for groups in range(1, 21):
        drawn = tree.cut(groups)[tree.order]
        assert (np.diff(drawn) >= 0).all()  # a group's leaves lie together, numbered from the first


@pytest.mark.parametrize("k", [1, 2])
def test_few_clusters(k):
    tree = cluster_hierarchy(np.eye(k), np.ones(k))
    assert tree.linkage.shape == (k - 1, 4)
    assert tree.cut(k).tolist() == list(range(k))


def test_empty_clusters_and_centroids_without_direction():
    tree = cluster_hierarchy(np.array([[1.0, 0], [0, 0], [0.9, 0.1]]), np.array([3, 0, 3]))
    assert is_valid_linkage(tree.linkage)
    assert tree.cut(2).tolist() == [tree.cut(2)[2], 1 - tree.cut(2)[2], tree.cut(2)[2]]


def test_a_cut_that_is_not_there_is_refused():
    tree = cluster_hierarchy(np.eye(3), np.ones(3))
    for groups in (0, 4):
        with pytest.raises(ValueError, match="must be between 1 and 3"):
            tree.cut(groups)


def test_a_model_has_its_hierarchy_while_it_has_its_rows(tmp_path):
    data = make_views(300, n_clusters=4, separation=6, random_state=0)
    model = GuidedCoTraining(4, random_state=0)
    assert not hasattr(model, "hierarchy_")
    model.fit(data.views)
    expected = cluster_hierarchy(model.cluster_centers_, np.bincount(model.labels_))
    whole, bare = (load(save(model, tmp_path / f"{rows}.coterie", rows=rows)) for rows in (True, False))
    for found in model.hierarchy_, whole.hierarchy_:
        np.testing.assert_array_equal(found.linkage, expected.linkage)
        np.testing.assert_array_equal(found.order, expected.order)
    assert not hasattr(bare, "hierarchy_")
