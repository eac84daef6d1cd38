"""What "auto" means, from the parameters and the number of rows alone."""

import numpy as np
import pytest

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.settings import as_scales, settle, weigh_views
from coterie.views import View, Views


class Unread:
    """A table that has a shape and nothing else: reading a row of it would fail."""

    dtype = np.dtype("float32")

    def __init__(self, n_rows, n_columns=4):
        self.shape = n_rows, n_columns


def settled(n_rows=1000, n_views=2, device=None, **parameters):
    views = Views(tuple(View(f"view{v}", Unread(n_rows)) for v in range(n_views)), device=device)
    return settle("GuidedCoTraining", GuidedCoTraining(**{"n_clusters": 4, **parameters}).get_params(), views)


@pytest.mark.parametrize(
    ("n_rows", "basis", "n_landmarks", "scales"),
    [
        (100, "diffusion", 100, (5, 10, 80)),
        (20_000, "diffusion", 1000, (5, 10, 80)),
        (20_001, "diffusion", 1500, (5, 10)),
        (200_000, "diffusion", 1500, (5, 10)),
        (200_001, "diffusion", 1000, (10,)),
        (10**9, "subspace", 600, (8,)),
    ],
)
def test_landmarks_and_neighbours_follow_the_number_of_rows(n_rows, basis, n_landmarks, scales):
    found = settled(n_rows, basis=basis)
    assert (found.landmarks.wanted, found.graphs.scales) == (n_landmarks, scales)


def test_many_clusters_have_more_landmarks():
    assert settled(5000, n_clusters=900).landmarks.wanted == 1800


@pytest.mark.parametrize(
    ("n_clusters", "n_neighbors", "scales"),
    [(50, "auto", [5, 10, 80]), (51, "auto", [5, 10]), (400, "auto", [5, 10]), (900, "auto", [5]), (900, 80, [80])],
)
def test_no_scale_spans_more_than_four_clusters(n_clusters, n_neighbors, scales):
    graphs = settled(20_000, n_clusters=n_clusters, n_neighbors=n_neighbors).graphs
    assert graphs.neighbors("GuidedCoTraining", 1000, 20_000) == scales


def test_many_clusters_have_few_vectors_more():
    rounds = settled(n_clusters=200).rounds.for_graphs([0, 1], 200)
    assert rounds["diffusion"].n_vectors == 220


@pytest.mark.parametrize(("present", "count"), [(1.0, 1000), (0.8, 1250), (0.5, 2000), (0.1, 2000)])
def test_rows_that_lack_views_have_more_landmarks(present, count):
    assert settled(10_000).landmarks.count(present) == count


def test_landmarks_are_at_most_seven_tenths_of_rows_that_lack_views():
    assert settled(1200).landmarks.count(0.5) == 840
    assert settled(1200, n_landmarks=500).landmarks.count(0.5) == 500  # a number that was given is kept


def test_no_scale_reaches_half_of_the_landmarks():
    assert settled().graphs.neighbors("GuidedCoTraining", 100, 100) == [5, 10, 50]
    assert settled().graphs.neighbors("GuidedCoTraining", 8, 8) == [4]
    assert settled(n_neighbors=[9, 3]).graphs.neighbors("GuidedCoTraining", 10, 50) == [9, 3]
    with pytest.raises(ValueError, match=r"'n_neighbors'.*below the number of landmarks, 9 \(n_samples=50\)"):
        settled(n_neighbors=[9, 3]).graphs.neighbors("GuidedCoTraining", 9, 50)


@pytest.mark.parametrize(
    ("n_rows", "n_landmarks", "basis", "learned"),
    [
        (90_000, 1500, "diffusion", 90_000),
        (10**6, 500, "diffusion", 100_000),
        (10**6, 1500, "diffusion", 150_000),
        (10**6, 1500, "subspace", 10**6),
    ],
)
def test_rounds_learn_from_a_sample_of_many_rows(n_rows, n_landmarks, basis, learned):
    assert settled(basis=basis).learned_rows(n_rows, n_landmarks) == learned


def test_defaults_of_the_rounds():
    found = settled().rounds.for_graphs([0, 1, -1], 4)
    assert {name: own.max_iter for name, own in found.items()} == {"diffusion": 5, "commute": 10, "islands": 10}
    assert settled().rounds.checked_rounds("islands") == (1, 2, 5, 10)
    alone = {name: settled(basis=name).rounds.checked_rounds(name) for name in found}
    assert alone == {"diffusion": (2,), "commute": (5,), "islands": (10,)}
    rounds = found["commute"]
    assert (rounds.n_components, rounds.n_vectors, rounds.drop_first, rounds.unit, rounds.trust) == (4, 6, True, 1, 1)
    np.testing.assert_array_equal(rounds.graph_weights, [1, 1, 1])


def test_rounds_as_published():
    published = GuidedCoTraining.as_published(4).get_params()
    (rounds,) = settled(**published).rounds.for_graphs([0, 1], 4).values()
    assert (rounds.n_components, rounds.n_vectors, rounds.drop_first, rounds.unit, rounds.trust) == (4, 4, False, 0, 0)
    assert (rounds.weighting, rounds.consensus_power, rounds.cosine, rounds.max_iter) == ("equal", 0.0, False, 10)


def test_weights_of_views_and_of_the_concatenation():
    np.testing.assert_allclose(weigh_views("it", {"b": 3.0}, ["a", "b"]), [1, 3, 2])
    np.testing.assert_allclose(weigh_views("it", "auto", list("abcdefgh")), [1] * 8 + [2])  # sqrt(8 / 2)
    np.testing.assert_allclose(weigh_views("it", [1e308, 1e308], ["a", "b"]), [1e308] * 3)


def test_the_number_of_clusters_may_be_left_open():
    found = settled(1000, n_clusters="auto")
    assert (found.n_clusters, found.most_clusters, found.least_clusters) == (None, 40, 2)
    assert settled(50, n_clusters="auto").most_clusters == 5
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=4"):
        settled(3)


def test_stability_is_measured_unless_on_a_device():
    assert settled().measure_stability
    assert not settled(device="cuda").measure_stability
    assert settled(device="cuda", measure_stability=True).measure_stability
    assert not settled(measure_stability=False).measure_stability


def test_landmarks_that_are_given():
    found = settled(landmarks=np.arange(30)).landmarks
    assert (found.method, found.wanted, found.count(0.5)) == ("given", 30, 30)


def test_tf32_is_float32_with_other_products():
    found = settled(dtype="tf32")
    assert (found.preparation.dtype, found.graphs.precision) == ("float32", "tf32")
    found = settled(dtype=np.float64)
    assert (found.preparation.dtype, found.graphs.precision) == (np.float64, "float32")


def test_numbers_of_neighbours_as_lists():
    assert as_scales(np.array([3, 7])) == [3, 7]
    assert as_scales(5) == [5]


def test_nothing_that_was_passed_in_is_changed():
    parameters = GuidedCoTraining(3, bandwidth=["local", 2.0], view_weights={"view0": 2}).get_params()
    before = {name: repr(value) for name, value in parameters.items()}
    settle("GuidedCoTraining", parameters, Views((View("view0", Unread(100)), View("view1", Unread(100)))))
    assert {name: repr(value) for name, value in parameters.items()} == before


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int64])
def test_numpys_numbers_are_those_of_python(kind):
    """Numbers of 8 bits overflow where they are multiplied with the number of rows."""
    views = make_views(200, 3, n_columns=(6, 4), random_state=0).views
    asked = {"n_clusters": 3, "n_landmarks": 60, "n_neighbors": [3, 5], "block_size": 100, "n_init": 2, "max_iter": 2}
    numbers = {name: np.array(value, kind) if name == "n_neighbors" else kind(value) for name, value in asked.items()}
    chosen = {"basis": np.str_("commute"), "drop_first": np.bool_(True), "view_weights": np.array([1, 2], np.float16)}
    given = GuidedCoTraining(**numbers, **chosen, random_state=0)
    plain = {"basis": "commute", "drop_first": True, "view_weights": [1.0, 2.0]}
    expected = GuidedCoTraining(**asked, **plain, random_state=0)
    np.testing.assert_array_equal(given.fit(views).labels_, expected.fit(views).labels_)
    assert given.estimate(views).memory == expected.estimate(views).memory
