"""Whether a batch is like the fit: batches that are raise no alarm, and those that are not do."""

import numpy as np
import pytest

import coterie
from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.drift import measure_drift


@pytest.fixture(scope="module")
def parts():
    data = make_views(3000, 4, random_state=0)
    old, new = ({name: view[rows] for name, view in data.views.items()} for rows in (slice(1500), slice(1500, 3000)))
    return GuidedCoTraining(4, random_state=0).fit(old), new


def rows_of(views, rows):
    return {name: view[rows] for name, view in views.items()}


def test_batches_like_the_fit_raise_no_alarm(parts):
    model, new = parts
    rng = np.random.default_rng(0)
    for size in (20, 100, 500, 1500):
        for _ in range(5):
            assert measure_drift(model, rows_of(new, rng.choice(1500, size, replace=False))).alarms == ()


def test_shares_are_compared(parts):
    model, new = parts
    labels = model.predict(new)
    found = measure_drift(model, rows_of(new, labels != 2))
    assert len(found.alarms) == 1
    assert "cluster" in found.alarms[0]
    assert found.shares[2] == 0
    np.testing.assert_allclose(found.fitted_shares, np.bincount(model.labels_) / 1500)
    assert found.share_shift == pytest.approx(found.fitted_shares[2], abs=0.05)


def test_novel_rows_and_missing_views_are_seen(parts):
    model, new = parts
    mixed = rows_of(new, slice(300))
    for view in mixed.values():
        view[:60] = 30
    assert "unlike those of the fit" in measure_drift(model, mixed).alarms[0]
    gaps = {name: view.copy() for name, view in rows_of(new, slice(300, 600)).items()}
    gaps["view1"][:90] = np.nan
    found = measure_drift(model, gaps)
    assert found.alarms == ("30 % of the rows lack view 'view1' instead of 0 %",)
    assert found.lacking["view1"] == pytest.approx(0.3)
    assert measure_drift(model, gaps, tolerance=0.5).alarms == ()


def test_a_loaded_model_knows_the_same(parts, tmp_path):
    model, new = parts
    again = coterie.load(coterie.save(model, tmp_path / "m.coterie"))
    np.testing.assert_array_equal(again.cluster_sizes_, np.bincount(model.labels_))
    assert measure_drift(again, new).novel == measure_drift(model, new).novel
    with pytest.raises(ValueError, match="no rows"):
        measure_drift(model, rows_of(new, slice(0)))
