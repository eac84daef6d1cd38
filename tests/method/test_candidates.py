"""Candidates are chosen by what each view's neighbours predict: in closed form, and on clusters of any size."""

from dataclasses import replace

import numpy as np
import pytest

from coterie import GuidedCoTraining
from coterie.method.agreement import neighbour_agreement, predicted_labels, share_of_disagreement
from coterie.method.candidates import CLEARLY_LESS, Candidate, are_ambiguous, choose, known_agreements
from coterie.method.graphs import CONCATENATION, Block
from coterie.method.spectra import COMMUTE_FLOOR, Spectrum, weighted_basis, with_constant
from coterie.metrics import ari


def blobs(sizes, columns, rng, separation=9.0):
    """Clusters of the given sizes in random order, with centres of one length in every view."""
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    views = []
    for d in columns:
        centres = rng.standard_normal((len(sizes), d))
        centres *= separation / np.linalg.norm(centres, axis=1, keepdims=True)
        views.append(centres[labels] + rng.standard_normal((len(labels), d)))
    return views, labels


def test_weights_of_vectors():
    spectrum = Spectrum(np.ones((4, 3)), np.sqrt([0.99, 0.9, 0.5, 0.1]))
    squares = np.array([0.99, 0.9, 0.5])
    np.testing.assert_array_equal(weighted_basis(spectrum, "equal"), spectrum.basis)
    np.testing.assert_allclose(weighted_basis(spectrum, "diffusion")[0], squares)
    expected = squares * (0.01 + COMMUTE_FLOOR) / (1 - squares + COMMUTE_FLOOR)
    np.testing.assert_allclose(weighted_basis(spectrum, "commute")[0], expected)


def test_a_graph_with_fewer_landmarks_than_vectors():
    spectrum = Spectrum(np.ones((2, 3)), np.sqrt([0.9, 0.5]))
    np.testing.assert_allclose(weighted_basis(spectrum, "diffusion"), np.tile([0.9, 0.5, 0], (2, 1)))


def test_neighbours_predict_what_their_landmarks_hold():
    # Eight rows, two landmarks, one neighbour each: the landmarks part the rows 0 to 3 from the rows 4 to 7.
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    first = labels[:, None]
    second = np.array([[0], [0], [0], [1], [0], [1], [1], [1]])  # a view that parts them otherwise
    block = Block(np.hstack([first, second, first]).astype(np.uint16), np.ones((8, 3), dtype=np.float32))
    found = neighbour_agreement(block, np.array([0, 1, 2, 3]), [0, 1, CONCATENATION], labels)
    np.testing.assert_allclose(found, [1.0, ari(second[:, 0], labels)])  # and nothing of the concatenation


def test_rows_do_not_predict_themselves():
    """Two landmarks with two rows each, of different labels: each row would have half of the votes for itself."""
    block = Block(np.array([[0], [0], [1], [1]], dtype=np.uint16), np.ones((4, 1), dtype=np.float32))
    labels = np.array([0, 1, 0, 1])
    assert neighbour_agreement(block, np.array([0, 1]), [0], labels) == [ari(1 - labels, labels)]


def test_rows_that_are_alone_are_not_predicted():
    indices, labels = np.array([[0], [0], [1], [1], [2]], dtype=np.uint16), np.array([0, 0, 1, 1, 0])
    block = Block(indices, np.ones((5, 1), dtype=np.float32))
    (predicted,) = predicted_labels(block, np.array([0, 1]), [0], labels)
    np.testing.assert_array_equal(predicted, [0, 0, 1, 1, -1])


def test_rows_that_lack_a_view_are_not_predicted_by_it():
    indices = np.array([[0], [0], [1], [1], [1]], dtype=np.uint16)
    weights = np.array([[1], [1], [1], [1], [0]], dtype=np.float32)  # the last row lacks the view
    labels = np.array([0, 0, 1, 1, 0])
    assert neighbour_agreement(Block(indices, weights), np.array([0, 1]), [0], labels) == [1.0]


EVEN = np.repeat(np.arange(4), 25)
ODD = np.r_[np.zeros(97, dtype=int), 1, 2, 3]  # nearly one cluster


def candidate(name, agreement, labels=EVEN):
    return Candidate(name, 1, np.full(2, agreement), labels, None)


@pytest.mark.parametrize("name", ["commute", "islands"])
def test_the_first_candidate_stays_unless_another_leaves_clearly_less_disagreement(name):
    first = candidate("diffusion", 0.7)
    close, far = (candidate(name, 1 - 0.3 * (CLEARLY_LESS + change)) for change in (0.001, -0.001))
    assert choose([first, close]) is first
    assert choose([first, far]) is far


def test_a_view_that_agrees_with_nothing_does_not_decide():
    """Another average would count its small change, where the other view leaves half of the disagreement."""
    before, after = np.array([0.9, 0.1]), np.array([0.95, 0.08])
    assert share_of_disagreement(after, before) == pytest.approx(np.sqrt(0.5 * 0.92 / 0.9))
    assert share_of_disagreement(np.ones(2), np.ones(2)) == 1


def test_small_gains_beside_a_view_of_noise_are_none():
    """They are a tenth of what the other view disagrees on, and a thousandth of all."""
    first = replace(candidate("diffusion", 0.9), agreements=np.array([0.98, 0.0]))
    assert choose([first, replace(candidate("commute", 0.9), agreements=np.array([0.985, 0.0]))]) is first


def test_disagreement_is_compared_a_cluster():
    """Two of four clusters are merged and a row is split off: views disagree on less, but not a cluster."""
    merged = np.repeat([0, 1, 2, 3], [49, 1, 25, 25])
    first, other = candidate("diffusion", 0.8), candidate("islands", 0.84, merged)
    shares = np.array([0.49, 0.01, 0.25, 0.25])
    in_effect = np.exp(-np.sum(shares * np.log(shares)))
    assert other.disagreement_ratio(first) == pytest.approx(0.8 * 4 / in_effect)
    assert choose([first, other]) is first
    assert choose([first, candidate("islands", 0.84)]).name == "islands"


def test_clusters_of_a_few_odd_rows_must_lead_by_far():
    first = candidate("diffusion", 0.69)
    assert choose([first, candidate("islands", 0.85, ODD)]) is first
    close, far = candidate("commute", 0.8, ODD), candidate("islands", 0.95, ODD)
    assert choose([first, close, far]) is first
    assert choose([first, close, candidate("islands", 1.0 - 1e-9, ODD)]).name == "islands"


def test_separate_clusters_are_for_the_second_candidate():
    first, second, third = candidate("diffusion", 1.0), candidate("commute", 0.995), candidate("islands", 0.995)
    assert choose([first, second, third]) is second


def test_clusters_that_do_not_replicate_are_not_taken_where_others_do():
    """Only beyond chance, or where views agree better with the others, too; and only where it was measured."""
    taken, other = candidate("diffusion", 0.8), candidate("islands", 0.7)

    def chosen(stability, of_other, better=other):
        return choose([replace(taken, stability=stability), replace(better, stability=of_other)]).name

    assert chosen(None, None) == "diffusion"
    assert chosen(0.3, 0.8) == "islands"
    assert chosen(0.6, 0.9) == "diffusion"  # replicates
    assert chosen(0.45, 0.55) == "diffusion"  # no clear lead
    assert chosen(0.1, 0.4) == "diffusion"  # both may be chance,
    assert chosen(0.1, 0.4, candidate("islands", 0.801)) == "islands"  # but views prefer one
    assert chosen(0.3, 0.9, candidate("islands", 0.9, ODD)) == "diffusion"  # a few odd rows replicate, too


def test_doubt_is_a_difference_of_clusters():
    other = np.roll(EVEN, 12)
    assert not are_ambiguous([candidate("diffusion", 0.8), candidate("commute", 0.6), candidate("islands", 0.4)])
    assert are_ambiguous([candidate("diffusion", 0.8), candidate("commute", 0.8), candidate("islands", 0.8, other)])
    assert are_ambiguous([candidate("diffusion", 0.8), candidate("islands", 0.9)])  # the others are guided first
    assert not are_ambiguous([candidate("diffusion", 0.8), candidate("islands", 0.999)])  # clusters hardly touch


def test_the_same_clusters_need_not_be_judged_again():
    before = [candidate("diffusion", 0.5, np.array([0, 0, 1, 2])), candidate("commute", 0.7, np.array([0, 1, 1, 2]))]
    assert known_agreements(np.array([2, 0, 0, 1]), before) is before[1].agreements
    assert known_agreements(np.array([0, 1, 2, 2]), before) is None


def test_entropy_is_that_of_the_shares():
    assert candidate("diffusion", 1.0).entropy == pytest.approx(np.log(4))


@pytest.mark.parametrize(
    ("sizes", "columns"),
    [
        ((1500, 1500, 30), (10, 8)),  # 1 % of the rows
        ((1500, 1500, 160), (10, 8)),  # 5 %
        ((2000, 2000, 80, 80, 80), (20, 15, 10)),
        (tuple(int(40 * 100 ** (i / 9)) for i in range(10)), (20, 15, 10)),  # 40 to 4,000 rows
    ],
)
def test_clusters_of_any_size_are_found(sizes, columns, rng):
    views, labels = blobs(sizes, columns, rng)
    model = GuidedCoTraining(len(sizes), random_state=0, n_landmarks=300).fit(views)
    assert ari(labels, model.labels_) > 0.99
    assert [line["name"] for line in model.candidates_ if line["chosen"]] != ["diffusion"]
    np.testing.assert_array_equal(model.predict(views), model.labels_)


@pytest.mark.parametrize(("make", "share"), [("pair", 0.03), ("pair", 0.1), ("moon", 0.1)])
def test_two_clusters_of_which_one_is_small(make, share, rng):
    labels = rng.permutation(np.repeat([0, 1], [1500 - int(share * 1500), int(share * 1500)]))
    views = [{"pair": pair, "moon": moon}[make](labels, rng) for _ in range(2)]
    assert ari(labels, GuidedCoTraining(2, random_state=0).fit(views).labels_) > 0.95


@pytest.mark.parametrize("columns", [(6, 4), (8,), (5, 5, 5)])
def test_a_small_cluster_that_touches_a_large_one(columns, rng):
    """Every view has smooth cuts through the large cluster that its own neighbours predict; they do not replicate."""
    target = np.repeat([0, 1], [1350, 150])
    views = [rng.standard_normal((1500, d)) for d in columns]
    for view, d in zip(views, columns, strict=True):
        view[target == 1] += 3.0 * unit(rng.standard_normal(d)) if len(columns) > 1 else 3.4 * unit(np.ones(d))
    model = GuidedCoTraining(2, random_state=0).fit(views)
    assert ari(target, model.labels_) > 0.5


def unit(vector):
    return vector / np.linalg.norm(vector)


def moon(labels, rng):
    """Two crescents, one in the other."""
    angles, side = np.pi * rng.random(len(labels)), 1 - 2 * labels
    curve = np.column_stack([side * np.cos(angles) + labels, side * np.sin(angles) + labels / 2])
    return curve + 0.07 * rng.standard_normal(curve.shape)


def pair(labels, rng):
    return rng.standard_normal((len(labels), 8)) + 5 * labels[:, None] / np.sqrt(8)


def test_rounds_stop_where_the_views_agree_most(rng):
    views, _ = blobs((600, 600, 40), (10, 8), rng)
    model = GuidedCoTraining(3, random_state=0).fit(views)
    (chosen,) = (line for line in model.candidates_ if line["chosen"])
    assert chosen["rounds"] == model.n_iter_ == len(model.history_)
    assert GuidedCoTraining(3, max_iter=3, tol=0, random_state=0).fit(views).n_iter_ == 3


def test_clusters_that_hardly_touch_need_no_rounds(rng):
    views, _ = blobs((300, 200, 100), (5, 4), rng, separation=20.0)
    model = GuidedCoTraining(3, random_state=0).fit(views)
    assert model.n_iter_ == 1
    assert {line["rounds"] for line in model.candidates_} == {1}
    assert GuidedCoTraining(3, random_state=0, max_iter=4).fit(views).n_iter_ == 4


def test_words_alone_are_merged_one_way(rng):
    """Near-duplicates lie apart from all other texts in every view, and are not taken for clusters."""
    topics = rng.dirichlet(np.full(400, 0.05), size=(2, 3))
    labels = np.repeat(np.arange(3), 100)
    views = [np.stack([rng.multinomial(60, words[topic]) for topic in labels]) for words in topics]
    for words in views:
        words[:8] = words[0] + rng.poisson(0.02, words[:8].shape)  # eight versions of one text
    model = GuidedCoTraining(3, random_state=0).fit(views)
    assert {line["name"] for line in model.candidates_} == {"diffusion"}
    assert ari(labels, model.labels_) > 0.9


def test_the_constant_comes_first_again():
    spectrum = Spectrum(np.full((4, 2), 0.1), np.sqrt([0.9, 0.5, 0.1]), 0.25)
    found = with_constant(spectrum)
    np.testing.assert_allclose(found.basis, [[0.25, 0.1, 0.1]] * 4)
    np.testing.assert_allclose(found.singular_values**2, [1, 0.9, 0.5, 0.1])
    weights = [1.0, *(own * COMMUTE_FLOOR / (1 - own + COMMUTE_FLOOR) for own in (0.9, 0.5))]
    np.testing.assert_allclose(weighted_basis(found, "commute")[0], [0.25, 0.1, 0.1] * np.array(weights))


def test_a_basis_can_be_asked_for(rng):
    views, labels = blobs((600, 600, 40), (10, 8), rng)
    for basis, rounds in (("diffusion", 2), ("islands", 10), ("commute", 5)):
        model = GuidedCoTraining(3, basis=basis, tol=0, random_state=0).fit(views)
        assert model.n_iter_ == rounds
        assert not hasattr(model, "candidates_")
    assert ari(labels, model.labels_) > 0.99  # commute
