"""How many clusters: exact where clusters are plain, honest where there are none."""

import numpy as np
import pytest
from scipy.linalg import hadamard
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining, suggest_k
from coterie.datasets import load_digit_views, make_views
from coterie.method.agreement import partition_agreement, weakest_cluster
from coterie.method.graphs import CONCATENATION, Block
from coterie.method.selection import (
    Islands,
    KSuggestion,
    island_labels,
    prefer_islands,
    relative_gaps,
    shared_prefixes,
    smooth,
    split_views,
    top_directions,
    weakest_islands,
)


def suggest(data, **settings):
    return suggest_k(data.views, random_state=0, **settings)


# -- the whole -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 5, 9])
def test_blobs_are_counted_exactly(k, seed):
    data = make_views(800, k, n_columns=(12, 8), separation=7, random_state=seed)
    found = suggest(data, k_max=12)
    assert found.best == k
    assert found.strength > 0.9
    assert repr(found).startswith(f"KSuggestion(best={k}, top=({k}, ")


@pytest.mark.parametrize(("n", "k"), [(1000, 30)])
def test_many_blobs_are_counted_exactly(n, k):
    assert suggest(make_views(n, k, separation=7, random_state=1)).best == k


@pytest.mark.parametrize("k", [2, 4])
def test_rings_are_counted_exactly(k):
    assert suggest(make_views(1000, k, shape="rings", separation=8, random_state=0), k_max=10).best == k


def test_one_view_is_enough():
    data = make_views(800, 6, n_columns=10, separation=7, random_state=0)
    found = suggest(data, k_max=12)
    assert found.best == 6
    np.testing.assert_array_equal(found.agreement, found.stability)


def test_a_view_of_noise_does_not_change_the_count():
    data = make_views(1000, 7, n_columns=(10, 10, 10), n_noise=1, separation=7, random_state=0)
    assert suggest(data, k_max=14).best == 7


def test_missing_views_do_not_change_the_count():
    data = make_views(1000, 5, n_columns=(10, 10, 10), missing=0.2, separation=7, random_state=0)
    assert suggest(data, k_max=10).best == 5


def test_noise_is_not_taken_for_clusters(seed):
    data = make_views(800, 1, n_columns=(8, 6), random_state=seed)
    found = suggest(data, k_max=16)
    assert not found.is_clear
    assert found.best <= 3
    assert "The evidence is weak" in str(found)


def test_noise_in_one_view_is_not_taken_for_clusters(seed):
    assert not suggest(make_views(800, 1, n_columns=3, random_state=seed), k_max=16).is_clear


def test_a_cube_is_hardly_ever_taken_for_clusters():
    cubes = [np.random.default_rng(seed).random((800, n_columns)) for n_columns in (1, 2, 4) for seed in range(8)]
    # One in twenty is; which ones is rounding.
    assert sum(suggest_k([cube], k_max=16, random_state=0).is_clear for cube in cubes) <= 3


def test_digits_are_among_the_first_three():
    found = suggest_k(load_digit_views().views, k_max=20, random_state=0)
    assert 10 in found.top(3)
    assert found.is_clear


def test_the_answer_depends_on_nothing_but_the_seed():
    data = make_views(500, 4, separation=4, random_state=0)
    first, second = (suggest(data, k_max=8, n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(first.scores, second.scores)


def test_separation_is_the_confidence_of_a_fit_without_guiding():
    data = make_views(900, 4, n_columns=(12, 8), separation=4, random_state=0)
    found = suggest(data, k_max=6)
    assert found.best == 4
    fits = [
        GuidedCoTraining(4, n_neighbors=10, max_iter=1, basis=basis, random_state=0).fit(data.views)
        for basis in ("diffusion", "islands")
    ]
    assert found.separation[2] == pytest.approx(max(fit.confidence_.mean() for fit in fits), abs=0.1)


def test_columns_of_one_table_can_be_views():
    data = make_views(400, 3, n_columns=(6, 5), separation=7, random_state=0)
    table = np.hstack(list(data.views.values()))
    assert suggest_k(table, views=[slice(0, 6), slice(6, 11)], k_max=6, random_state=0).best == 3


# -- clusters of unequal size ---------------------------------------------------------------------------------------


def blobs(sizes, columns, rng, gap=8.0):
    """Gaussian clusters whose two nearest centres are ``gap`` deviations apart in every view."""
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    views = []
    for d in columns:
        centres = rng.standard_normal((len(sizes), d))
        gaps = np.linalg.norm(centres[:, None] - centres, axis=2)
        centres *= gap / gaps[gaps > 0].min()
        views.append(centres[labels] + rng.standard_normal((len(labels), d)))
    return views


@pytest.mark.parametrize(
    "sizes", [(1485, 1485, 30), (1455, 1455, 90), (2000, 2000, 60, 60, 60), (1024, 512, 256, 128, 64, 32)]
)
def test_small_clusters_count(sizes, rng):
    found = suggest_k(blobs(sizes, (20, 10), rng), k_max=12, random_state=0)
    assert found.best == len(sizes)
    assert found.is_clear


@pytest.mark.parametrize("sizes", [(4000, 1800, 800, 360, 160, 70, 40), (2048, 1024, 512, 256, 128, 64, 32)])
def test_clusters_of_one_row_in_a_hundred_count(sizes, seed):
    found = suggest_k(blobs(sizes, (20, 10), np.random.default_rng(seed)), random_state=seed)
    assert found.best == len(sizes)
    assert found.is_clear


@pytest.mark.parametrize(("sizes", "n_columns"), [((180, 20), 3), ((600, 300, 150, 80, 50, 20), 4)])
def test_small_clusters_count_in_one_view_of_few_columns(sizes, n_columns, seed):
    """A cut through a cloud of few dimensions leaves few rows on its border: neighbours nearly tell its halves."""
    found = suggest_k(blobs(sizes, (n_columns,), np.random.default_rng(seed)), random_state=seed)
    assert found.best == len(sizes)
    assert found.is_clear


def test_a_few_odd_rows_are_no_cluster(rng):
    views = blobs((400, 400), (8, 6), rng)
    for view in views:
        view[:5] += 100 * rng.standard_normal((5, view.shape[1]))
    assert suggest_k(views, k_max=8, random_state=0).best == 2


def test_the_weakest_cluster_is_the_one_that_views_tell_worst():
    """Two landmarks; the first view joins every row to its cluster's, the second one puts one row of four wrong."""
    labels = np.repeat([0, 1], 4)
    indices = np.column_stack([labels, np.where(np.arange(8) == 3, 1, labels)]).astype(np.uint16)
    block = Block(indices, np.ones((8, 2)))
    assert weakest_cluster(block, np.array([0, 1, 2]), [0, 1], labels) == pytest.approx((1 + 3 / 4) / 2)
    assert weakest_cluster(block, np.array([0, 1, 2]), [0, CONCATENATION], labels) == 1


def test_odd_rows_go_to_the_next_large_cluster():
    """Twelve rows at 0, five at 3, twelve at 10."""
    rows = np.repeat([0.0, 3.0, 10.0], [12, 5, 12])[:, None]
    labels = island_labels(rows, np.array([[0.0], [3.0], [10.0]]))
    assert labels.tolist() == [0] * 17 + [1] * 12


def test_all_clusters_are_small_where_rows_are_few():
    assert island_labels(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]])).tolist() == [0, 1]


def test_islands_without_odd_rows_are_those_of_a_smaller_number():
    found = weakest_islands([Islands(2, 1.0), Islands(2, 0.8), Islands(4, 0.5), Islands(1, 0.0)], k_max=4)
    np.testing.assert_array_equal(found, [1, np.nan, 0.5])


def weighed(scores, islands, agreement=1.0, n_views=2):
    """Evidence for 2, 3 and 4 clusters."""
    figure, ones = np.full(3, agreement), np.ones(3)
    return KSuggestion(
        np.array([2, 3, 4]), np.array(scores), figure, figure, ones, ones, ones, {}, ones, n_views, np.array(islands)
    )


@pytest.mark.parametrize(
    ("scores", "islands", "agreement", "n_views", "best"),
    [
        ([0.6, 0.4, 0.1], [1, 0.96, 0.9], 1.0, 2, 3),  # more islands than the scores tell of
        ([0.6, 0.4, 0.1], [1, 0.96, 0.9], 1.0, 1, 2),  # but one view would tell a cut, too
        ([0.1, 0.4, 0.6], [1, 0.5, 0.5], 1.0, 2, 4),  # fewer, and the evidence for four is clear
        ([0.1, 0.4, 0.6], [1, 0.5, 0.5], 0.05, 2, 2),  # fewer, and it is not
        ([0.1, 0.4, 0.6], [np.nan, 0.5, 0.5], 0.05, 2, 4),  # none
    ],
)
def test_islands_are_preferred_where_they_tell_more(scores, islands, agreement, n_views, best):
    assert prefer_islands(weighed(scores, islands, agreement, n_views)).best == best


# -- what is returned ----------------------------------------------------------------------------------------------


def test_the_evidence_has_one_line_for_every_k():
    found = suggest(make_views(400, 3, n_columns=(6, 5), separation=7, random_state=0), k_max=6)
    assert found.k.tolist() == [2, 3, 4, 5, 6]
    for name in ("scores", "agreement", "stability", "separation", "shared", "gap", "islands", "consensus_gap"):
        assert getattr(found, name).shape == (5,)
    assert {name.split(" (")[0] for name in found.graph_gaps} == {"view0", "view1", "(concatenation)"}
    assert all(gaps.shape == (5,) for gaps in found.graph_gaps.values())
    assert found.table(2).splitlines()[1].split()[0] == "3"
    assert len(found.table(2).splitlines()) == 3


def test_candidates_are_ranked_by_score():
    ones = np.ones(3)
    found = KSuggestion(np.array([2, 3, 4]), np.array([0.1, 0.5, 0.3]), ones, ones, ones, ones, ones, {}, ones, 2)
    assert found.best == 3
    assert found.top(2) == (3, 4)
    assert found.top(9) == (3, 4, 2)
    assert found.strength == 1
    assert not found.are_seen.any()  # as in models that were saved before islands were counted


# -- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k_max", [1, 2.5, "many"])
def test_a_k_max_that_is_no_number_of_clusters_is_refused(k_max):
    with pytest.raises(ValueError, match=r"'k_max' parameter of suggest_k must be an int of at least 2"):
        suggest_k(np.zeros((50, 2)), k_max=k_max)


def test_a_k_max_that_rows_are_too_few_for_is_refused():
    with pytest.raises(ValueError, match=r"'k_max' parameter of suggest_k must be at most half of the 50 rows"):
        suggest_k(np.zeros((50, 2)), k_max=26)


@pytest.mark.parametrize("n_rows", [2, 60])
def test_two_distinct_rows_are_too_few_to_choose_a_number_of_clusters_by(rng, n_rows):
    rows = np.repeat(rng.standard_normal((2, 4)), n_rows // 2, axis=0)
    for choose in (suggest_k, GuidedCoTraining("auto").fit):
        with pytest.raises(ValueError, match=r"X has 2 distinct landmarks, too few to choose n_clusters by"):
            choose(rows)


def test_fewer_distinct_rows_than_the_default_k_max(rng):
    rows = np.repeat(rng.standard_normal((4, 4)), 15, axis=0)
    assert suggest_k(rows, random_state=0).k.tolist() == [2, 3]


# -- the pieces ----------------------------------------------------------------------------------------------------


def test_agreement_of_partitions_is_scikit_learns_rand_index(rng):
    first, second = rng.integers(4, size=(2, 200))
    second = np.where(rng.random(200) < 0.5, first, second)
    assert partition_agreement(first, second) == pytest.approx(adjusted_rand_score(first, second))


def test_agreement_of_partitions_is_about_rows_that_both_hold():
    assert partition_agreement(np.array([0, 1, -1, -1]), np.array([-1, -1, 0, 1])) == 0
    assert partition_agreement(np.array([0, 1, 0, 1, -1]), np.array([1, 0, 1, 0, 0])) == 1


@pytest.mark.parametrize("labels", [np.zeros(5, dtype=int), np.arange(5)], ids=["one cluster", "single rows"])
def test_partitions_without_structure_do_not_agree(labels):
    assert partition_agreement(labels, labels) == 0
    assert partition_agreement(labels, np.array([0, 0, 1, 1, 1])) == pytest.approx(0)


def test_shared_vectors_of_the_same_basis_in_another_order():
    waves = hadamard(16)
    swapped = shared_prefixes(waves[:, :4], waves[:, [0, 2, 1, 3]])
    np.testing.assert_allclose(swapped, [0, 0, 1, 1], atol=1e-12)


def test_gap_behind_three_components():
    values = np.sqrt(np.array([[1, 1, 1, 0.5, 0.4, 0.3]]))
    assert relative_gaps(values)[0].argmax() == 1  # k = 2, 3, 4, 5


def test_a_cloud_has_the_same_gap_everywhere():
    numbers = np.arange(9)
    values = np.sqrt(1 - 0.01 * numbers)[None]  # Weyl's law in two dimensions
    gaps = relative_gaps(values)[0]
    np.testing.assert_allclose(gaps, 1, atol=0.15)


def test_top_directions_are_left_singular_vectors(rng):
    for shape in ((30, 6), (6, 30)):
        rows = rng.standard_normal(shape)
        left = np.linalg.svd(rows, full_matrices=False)[0][:, :3]
        found = rows @ top_directions(rows, 3)
        np.testing.assert_allclose(np.abs(np.sum(found * left, axis=0)), 1, atol=1e-8)


@pytest.mark.parametrize(("n_views", "n_ways"), [(1, 0), (2, 1), (3, 3), (4, 3), (6, 3)])
def test_views_are_parted_in_two(n_views, n_ways, rng):
    views = [[2 * v, 2 * v + 1] for v in range(n_views)]
    ways = split_views(views, rng)
    assert len(ways) == n_ways
    for one, other in ways:
        assert sorted(one + other) == list(range(2 * n_views))


def test_smoothing_keeps_a_constant():
    np.testing.assert_allclose(smooth(np.full(5, 0.7)), 0.7)
