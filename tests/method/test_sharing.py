"""Directions that views share, against canonical correlations and against noise that hides clusters."""

import warnings

import numpy as np
import pytest

from coterie import GuidedCoTraining
from coterie.method.sharing import (
    RIDGE,
    discriminant_directions,
    shared_directions,
    shared_preparations,
    standardised,
    whitener,
)
from coterie.metrics import ari
from coterie.views import as_views, prepare


def hidden_clusters(n, k, columns, rng, *, length=3.0, nuisance=2.0):
    """Clusters whose centres are far shorter than the noise of every view, which is correlated."""
    labels = rng.integers(k, size=n)
    views = []
    for d in columns:
        centres = rng.standard_normal((k, d))
        centres *= length / np.linalg.norm(centres, axis=1, keepdims=True)
        factors = rng.standard_normal((n, d // 8)) @ (nuisance * rng.standard_normal((d // 8, d)) / np.sqrt(d // 8))
        views.append((centres[labels] + factors + rng.standard_normal((n, d))).astype(np.float32))
    return views, labels


def test_whitened_rows_have_unit_covariance_but_for_the_ridge(rng):
    rows = rng.standard_normal((5000, 4)) @ rng.standard_normal((4, 6))  # of rank 4
    white = rows @ whitener(rows)
    assert white.shape[1] <= 4
    variances = np.linalg.eigvalsh(rows.T @ rows / len(rows))
    floor = RIDGE * variances.mean()
    kept = variances[variances > floor]
    np.testing.assert_allclose(white.T @ white / len(white), np.diag(kept / (kept + floor)), atol=1e-10)


def test_a_common_factor_is_the_only_shared_direction(rng):
    factor = rng.standard_normal(4000)
    tables = []
    for d in (6, 9):
        noise = rng.standard_normal((4000, d)) @ rng.standard_normal((d, d))
        tables.append((noise + 3 * factor[:, None] * rng.standard_normal(d)).astype(np.float32))
    white = [table @ whitener(table) for table in tables]
    found = shared_directions(white, 5, rng)
    assert [part.shape for part in found] == [(table.shape[1], 1) for table in white]
    for table, part in zip(white, found, strict=True):
        assert abs(np.corrcoef((table @ part)[:, 0], factor)[0, 1]) > 0.9


def test_views_that_no_row_has_together_share_nothing(rng):
    first, second = rng.standard_normal((2, 200, 3))
    first[:100], second[100:] = np.nan, np.nan
    blocks = as_views([first, second]).read(slice(None))
    preparations = [prepare(first[100:]), prepare(second[:100])]
    assert shared_preparations(blocks, preparations, 2, rng) is None


def test_directions_do_not_depend_on_the_number_of_threads(rng):
    views, _ = hidden_clusters(6000, 5, (40, 30), rng)
    blocks, preparations = as_views(views).read(slice(None)), [prepare(view) for view in views]
    found = [shared_preparations(blocks, preparations, 5, np.random.default_rng(0), n) for n in (1, 3)]
    for one, several in zip(*found, strict=True):
        np.testing.assert_array_equal(one.steps[-1].directions, several.steps[-1].directions)
        assert one.factor == several.factor


def test_a_view_without_differences_shares_nothing(rng):
    views = [rng.standard_normal((200, 3)), np.ones((200, 2))]
    blocks = as_views(views).read(slice(None))
    assert shared_preparations(blocks, [prepare(view, scaling="none") for view in views], 2, rng) is None


def held_share(means, directions):
    """The share of the squared length of means that lies in the span of directions."""
    basis, _ = np.linalg.qr(directions)
    return np.sum((means @ basis) ** 2) / np.sum(means**2)


def test_the_span_of_centroids_holds_more_of_what_tells_clusters_apart(rng):
    """With few rows for so many columns, second moments show the clusters' directions only roughly."""
    k, n = 8, 6000
    labels, white = rng.integers(k, size=n), []
    for d in (250, 200):
        centres = rng.standard_normal((k, d))
        centres *= 3 / np.linalg.norm(centres, axis=1, keepdims=True)
        table, _ = standardised(centres[labels] + rng.standard_normal((n, d)))
        white.append(table @ whitener(table).astype(np.float32))
    rough = shared_directions(white, 2 * k, rng)
    for table, before, after in zip(white, rough, discriminant_directions(white, rough, k, rng), strict=True):
        means = np.stack([table[labels == c].mean(axis=0) for c in range(k)])
        means -= means.mean(axis=0)
        assert after.shape == (table.shape[1], k - 1)
        assert held_share(means, before) < 0.96
        assert held_share(means, after) > 0.99


def test_independent_views_share_nothing(rng):
    tables = [rng.standard_normal((3000, d)).astype(np.float32) for d in (8, 8, 8)]
    assert shared_directions([table @ whitener(table) for table in tables], 5, rng) is None


@pytest.mark.parametrize("device", ["cpu", "torch"])
def test_clusters_under_noise_are_found_by_what_views_share(device):
    views, labels = hidden_clusters(3000, 5, (80, 60, 40), np.random.default_rng(0))
    model = GuidedCoTraining(5, random_state=0, n_landmarks=200, device=device, measure_stability=True).fit(views)
    assert ari(labels, model.labels_) > 0.9
    assert all("shared" in steps for steps in model.preparation_.values())
    chosen = [line for line in model.candidates_ if line["chosen"]]
    assert [line["preparation"] for line in chosen] == ["shared"]
    np.testing.assert_array_equal(np.asarray(model.predict(views)), np.asarray(model.labels_))


def test_clusters_that_do_not_replicate_are_warned_of(rng):
    noise = [rng.standard_normal((800, d)) for d in (200, 150)]
    with pytest.warns(UserWarning, match="do not replicate"):
        GuidedCoTraining(6, random_state=0).fit(noise)


def test_clusters_that_replicate_are_not_warned_of(rng):
    labels = rng.integers(3, size=500)
    centres = 8 * rng.standard_normal((3, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GuidedCoTraining(3, random_state=0).fit(centres[labels] + rng.standard_normal((500, 6)))


@pytest.mark.parametrize("unit", [1e-42, 1e-300, 1e60])
def test_columns_of_tiny_and_huge_units_are_standardised(rng, unit):
    """The deviation, its inverse or the values themselves may have no float32; standardised values have."""
    plain = rng.standard_normal((50, 3))
    rows, columns = standardised(plain * [1, unit, 1])
    np.testing.assert_allclose(rows, standardised(plain)[0], atol=1e-5)
    assert rows.dtype == np.float32
    assert np.isfinite(columns.scale).all()
