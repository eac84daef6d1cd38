"""Prepared rows have the spread and the lengths that they promise."""

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.datasets import make_blobs

from coterie import GuidedCoTraining
from coterie.metrics import ari
from coterie.views import prepare


@pytest.mark.parametrize("scaling", ["block", "half", "standard"])
@pytest.mark.parametrize("unit", [1e-25, 1.0, 1e25])
def test_prepared_rows_have_unit_spread(rng, scaling, unit):
    X = unit * (rng.standard_normal((200, 5)) * [1, 2, 3, 4, 100] + 50)
    prepared = prepare(X, scaling=scaling, metric="euclidean", dtype="float64")(X)
    np.testing.assert_allclose(prepared.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose((prepared**2).sum(axis=1).mean(), 1)
    ratio = prepared.std(axis=0)[4] / prepared.std(axis=0)[0]
    before = X.std(axis=0)[4] / X.std(axis=0)[0]
    exponent = {"block": 1, "half": 0.5, "standard": 0}[scaling]
    np.testing.assert_allclose(ratio, before**exponent)


def test_cosine_rows_have_unit_length(rng):
    X = rng.random((30, 4))
    X[3] = 0
    for data in (X, sparse.csr_array(X)):
        prepared = prepare(data, scaling="none", metric="cosine", dtype="float64")(data)
        rows = prepared.toarray() if sparse.issparse(prepared) else prepared
        lengths = np.linalg.norm(rows, axis=1)
        np.testing.assert_allclose(np.delete(lengths, 3), 1)
        assert lengths[3] == 0


VALUES = {
    "far from zero": lambda rng: rng.standard_normal((200, 5)) + 1e3,
    "counts": lambda rng: rng.poisson(rng.gamma(0.3, 3, (200, 60))).astype(float),
    "skewed": lambda rng: np.exp(2 * rng.standard_normal((200, 5))),
    "heavy tails": lambda rng: rng.standard_t(2, (200, 5)),
    "words": lambda rng: np.where(rng.random((200, 300)) < 0.03, rng.random((200, 300)), 0),
}


@pytest.mark.parametrize("settings", [{}, {"scaling": "block"}, {"scaling": "none"}, {"metric": "cosine"}], ids=str)
@pytest.mark.parametrize("values", VALUES)
def test_rows_are_prepared_alike_however_they_are_stored(rng, values, settings):
    """A model of dense rows may be asked about sparse ones, and the other way round."""
    X = VALUES[values](rng)
    for fitted in (X, sparse.csr_array(X)):
        preparation = prepare(fitted, dtype="float64", **settings)
        rows, others = (
            found.toarray() if sparse.issparse(found) else found for found in map(preparation, (X, sparse.csr_array(X)))
        )
        np.testing.assert_allclose(others, rows, atol=1e-9)


@pytest.mark.parametrize("offset", [1e4, 1e5, 1e6])
@pytest.mark.parametrize("scaling", ["block", "half", "standard", "none", "as published"])
def test_sparse_rows_far_from_zero(offset, scaling):
    """Distances do not depend on where zero is, and neither do labels, however rows are stored."""
    from coterie import GuidedCoTraining
    from coterie.metrics import ari

    rng = np.random.default_rng(0)
    target = rng.integers(3, size=400)
    table = 6 * rng.standard_normal((3, 8))[target] + rng.standard_normal((400, 8)) + offset
    if scaling == "as published":
        model = GuidedCoTraining.as_published(3, random_state=0)
    else:
        model = GuidedCoTraining(3, random_state=0, scaling=scaling)
    assert ari(target, model.fit(sparse.csr_array(table)).labels_) > 0.95
    np.testing.assert_array_equal(model.predict(sparse.csr_array(table)), model.labels_)


def test_float32_far_from_zero():
    rng = np.random.default_rng(0)
    target = rng.integers(3, size=400)
    table = rng.standard_normal((3, 8))[target] + 0.2 * rng.standard_normal((400, 8))
    from coterie import GuidedCoTraining
    from coterie.metrics import ari

    model = GuidedCoTraining(3, random_state=0)
    assert ari(target, model.fit((table + 1e6).astype(np.float32)).labels_) > 0.95
    mixed = np.column_stack([table, 1e7 + table[:, 0]]).astype(np.float32)
    with pytest.warns(
        UserWarning, match=r"View 'X': 1 columns \(the first is column 8\).*float32 holds too few digits"
    ):
        model.fit(mixed)
    with pytest.warns(UserWarning, match="distances between its rows are imprecise"):
        prepare(sparse.csr_array(np.full((50, 25_000), 1e5) + rng.standard_normal((50, 25_000))), scaling="block")


@pytest.mark.parametrize("kind", ["float64", "int64"])
def test_columns_that_double_precision_cannot_hold_are_named(kind):
    """Whole numbers beyond 2^53, and fractions beside 1e14; a constant that was computed in several ways is not."""
    rng = np.random.default_rng(0)
    large = (2**60 + rng.integers(300, size=200)) if kind == "int64" else 1e14 + rng.standard_normal(200)
    table = np.column_stack([rng.integers(9, size=(200, 2)), large]).astype(kind)
    with pytest.warns(
        UserWarning, match=rf"1 columns \(the first is column 2\).*{kind} holds too few digits"
    ) as caught:
        prepare(table)
    assert str(caught[0].message).endswith("before they are stored.")
    noise = np.where(rng.random(200) < 0.5, 0.1 + 0.2, 0.3)
    prepare(np.column_stack([table[:, :2], noise]))


def spread_units(rng):
    return rng.standard_normal((500, 30)) * 10 ** rng.uniform(-2, 2, size=30)


KINDS = {
    "plain": lambda rng: rng.standard_normal((500, 40)),
    "units": spread_units,
    "skewed": lambda rng: rng.lognormal(size=(500, 10)),
    "counts": lambda rng: rng.poisson(rng.lognormal(1, 2, size=(500, 60))).astype(np.uint8),
    "heavy": lambda rng: rng.standard_t(2, size=(500, 12)),
    "wide": lambda rng: rng.standard_normal((60, 300)),
    "words": lambda rng: (rng.random((300, 400)) < 0.02).astype(np.float32),
    "constant": lambda rng: np.column_stack([np.ones(100), rng.standard_normal((100, 3))]),
    "pixels": lambda rng: rng.integers(0, 255, size=(500, 30)).astype(np.uint8) * (rng.random((500, 30)) < 0.3),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_are_prepared_like_arrays(rng, kind):
    """The same steps are decided on, and the rows come out the same up to the sign of directions."""
    torch = pytest.importorskip("torch")
    table = KINDS[kind](rng)
    theirs, mine = prepare(table, seed=1), prepare(torch.as_tensor(table), seed=1)
    assert mine.describe() == theirs.describe()
    assert mine.factor == pytest.approx(theirs.factor, rel=1e-5)
    here, there = np.asarray(theirs(table)), mine(torch.as_tensor(table))
    there = there.toarray() if sparse.issparse(there) else np.asarray(there)
    np.testing.assert_allclose(there @ there.T, here @ here.T, atol=2e-3 * np.abs(here @ here.T).max())


@pytest.mark.parametrize("scaling", ["auto", "block", "half", "standard", "none"])
@pytest.mark.parametrize("unit", [1e-308, 1e-320, 5e-324])
def test_values_that_cannot_be_scaled_are_named(rng, scaling, unit):
    """One over the smallest floats is infinite, which looked like infinite values."""
    X = np.round(100 * rng.standard_normal((200, 3)))
    with pytest.raises(ValueError, match=r"'tiny': in 3 columns \(.*cannot be scaled. Multiply the view by a constant"):
        prepare(X * unit, scaling=scaling, name="tiny")
    X[:, 1] *= unit
    with pytest.warns(
        UserWarning, match=r"in 1 columns \(the first is column 1\).*cannot be scaled; they are treated as"
    ):
        prepared = prepare(X, scaling=scaling, name="tiny")(X)
    assert np.isfinite(prepared).all()
    assert not prepared[:, 1].any()


@pytest.mark.parametrize("unit", [30, 1e6])
def test_a_few_columns_of_another_unit_are_named(rng, unit):
    """The quantiles that tell units apart do not show one column of forty; of ten, they do."""
    X = rng.standard_normal((400, 40))
    X[:, 7] *= unit
    with pytest.warns(UserWarning, match=r"'rna': 1 of 40 columns \(the first is column 7\).*'standard'"):
        prepare(X, name="rna")
    for known in (X[:, :10], X / np.where(np.arange(40) == 7, 5, 1) if unit == 30 else X[:, 8:]):
        prepare(known, name="rna")
    prepare(X, name="rna", scaling="standard")


# -- columns of two values -----------------------------------------------------------------------------------------


def gaps_and_widths(X):
    """Return the prepared columns' distances between their ends, and their standard deviations."""
    prepared = prepare(X, dtype="float64", metric="euclidean")(X)
    return np.ptp(prepared, axis=0), prepared.std(axis=0)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, torch.as_tensor])
@pytest.mark.parametrize("units", [1.0, [1, 1e3, 1e-2, 1, 1]])
def test_two_values_are_at_most_a_standard_deviation_of_the_others_apart(rng, kind, units):
    answers = 5 * (rng.random((400, 2)) < [0.5, 0.9])
    X = np.column_stack([rng.standard_normal((400, 3)), answers]) * units
    gaps, widths = gaps_and_widths(X)
    np.testing.assert_allclose(gaps[3:], np.median(widths[:3]))
    same = prepare(kind(X), dtype="float64")(kind(X))
    np.testing.assert_allclose(np.asarray(same), prepare(X, dtype="float64")(X), atol=1e-12)


def test_other_columns_keep_their_gaps(rng):
    """A column that already is close, a value of a few rows, three values, and a table in which all have two."""
    noise = rng.standard_normal((400, 3))
    rare, three = np.zeros(400), rng.integers(3, size=400)
    rare[:3] = 5
    for beside in (0.3 * (rng.random(400) < 0.5), rare, three):
        X = np.column_stack([noise, beside])
        gaps, widths = gaps_and_widths(X)
        np.testing.assert_allclose(gaps / widths[0], np.ptp(X, axis=0) / X.std(axis=0)[0])
    answers = (rng.random((400, 4)) < 0.3) * [1.0, 2.0, 3.0, 4.0]
    gaps, _ = gaps_and_widths(answers)
    np.testing.assert_allclose(gaps / gaps[0], [1, 2, 3, 4])


@pytest.mark.parametrize("numbers", [0, 2])
def test_rare_kinds_do_not_bring_the_others_together(rng, numbers):
    """The small deviations of columns of rare values are no measure of how far others may be apart."""
    common, rare = np.eye(4)[rng.integers(4, size=400)], np.eye(400)[:, :5]
    measured = 0.5 * rng.standard_normal((400, numbers))
    gaps, widths = gaps_and_widths(np.column_stack([common, rare, measured]))
    np.testing.assert_allclose(gaps[:4], np.median(widths[9:]) if numbers else gaps[4])


@pytest.mark.parametrize("seed", range(3))
def test_a_random_answer_does_not_take_the_place_of_the_clusters(seed):
    rng = np.random.default_rng(seed)
    numbers, kinds = make_blobs(900, n_features=6, centers=5, center_box=(-4, 4), random_state=seed)
    table = np.column_stack([numbers, rng.random(900) < 0.5, np.eye(4)[rng.integers(4, size=900)]])
    assert ari(kinds, GuidedCoTraining(5, random_state=0).fit(table).labels_) > 0.9
