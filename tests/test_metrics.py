import itertools

import numpy as np
import pandas as pd
import pytest

from coterie.metrics import ari, clustering_accuracy, nmi, purity


def test_accuracy_by_brute_force(rng):
    true, pred = rng.integers(4, size=50), rng.integers(4, size=50)
    best = max(np.mean(np.array(names)[pred] == true) for names in itertools.permutations(range(4)))
    assert clustering_accuracy(true, pred) == pytest.approx(best)


def test_more_clusters_than_classes():
    assert clustering_accuracy([0, 0, 1, 1], [0, 1, 2, 2]) == 0.75
    assert purity([0, 0, 1, 1], [0, 1, 2, 2]) == 1
    assert purity([0, 0, 1, 1], [0, 0, 0, 0]) == 0.5


def test_names_of_clusters_do_not_matter(rng):
    true = rng.integers(5, size=100)
    other = np.array(list("badce"))[true]
    for metric in (clustering_accuracy, nmi, ari, purity):
        assert metric(true, other) == pytest.approx(1)


def test_chance_is_near_zero(rng):
    true, pred = rng.integers(5, size=20_000), rng.integers(5, size=20_000)
    assert abs(ari(true, pred)) < 0.01
    assert nmi(true, pred) < 0.01


@pytest.mark.parametrize("metric", [clustering_accuracy, nmi, ari, purity])
def test_lengths_must_agree(metric):
    with pytest.raises(ValueError, match="same length"):
        metric([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="empty"):
        metric([], [])
    with pytest.raises(ValueError, match="labels_true is missing in row 1"):
        metric([0, float("nan"), 1], [0, 1, 1])


MISSING = [
    pd.Series([0, np.nan, 1], dtype=object),
    pd.Series(["a", None, "b"]),
    pd.Series(["a", None, "b"], dtype="category"),
    pd.Series(["a", pd.NA, "b"], dtype=object),
    pd.to_datetime(pd.Series(["2020-01-01", None, "2021-01-01"])),
    np.ma.array([0, 5, 1], mask=[False, True, False]),
    ["a", None, "b"],
]


@pytest.mark.parametrize("labels", MISSING)
def test_missing_labels_are_no_class(labels):
    with pytest.raises(ValueError, match="labels_true is missing in row 1"):
        ari(labels, [0, 1, 1])
    with pytest.raises(ValueError, match="labels_pred is missing in row 1"):
        ari([0, 1, 1], labels)


@pytest.mark.filterwarnings("ignore:The number of unique classes")  # says scikit-learn 1.7
@pytest.mark.parametrize(("classes", "clusters"), [(1, 1), (1, 4), (3, 1), (4, 7), (40, 40)])
def test_the_same_as_scikit_learn(rng, classes, clusters):
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    true, pred = rng.integers(classes, size=40), rng.integers(clusters, size=40)
    assert nmi(true, pred) == pytest.approx(normalized_mutual_info_score(true, pred), abs=1e-12)
    assert ari(true, pred) == pytest.approx(adjusted_rand_score(true, pred), abs=1e-12)
