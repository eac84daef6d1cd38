"""The suite "unequal": what its generators promise, in closed form; resuming; and its table, worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from benchmarks.commands import app
from benchmarks.data import DATA, UNEQUAL, load_data
from benchmarks.measure import source_hash
from benchmarks.records import append_record, read_records
from benchmarks.runner import run_all
from benchmarks.shapes import DECAY, make_blobs, make_noisy, mixing_matrix, nearest_distance, noise_spectrum, zipf
from benchmarks.suites import plan
from benchmarks.tables import unequal_table
from benchmarks.unequal import ALONE, BLOBS, SMALL_ALONE, is_small
from coterie.peers.registry import METHODS


def labelled(counts):
    y = np.random.default_rng(5).permutation(np.repeat(np.arange(len(counts)), counts))
    return {"a": np.arange(len(y))[:, None], "b": sparse.csr_array(np.eye(len(y)))}, y


# -- zipf ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("s", [0.5, 1.0, 2.0])
def test_classes_have_the_sizes_of_their_ranks(seed, s):
    views, y = labelled([120] * 6)
    _, thinned = zipf(views, y, seed, s=s, least=7)
    expected = sorted(max(7, round(120 / rank**s)) for rank in range(1, 7))
    assert sorted(np.bincount(thinned).tolist()) == expected


def test_no_class_is_thinned_below_the_least_nor_made_larger(seed):
    views, y = labelled([200, 10, 90, 30])
    _, thinned = zipf(views, y, seed)
    counts = np.bincount(thinned)
    assert counts[1] == 10  # it had fewer than the least
    assert counts.min() >= 10
    assert (counts <= [200, 10, 90, 30]).all()
    assert (np.delete(counts, 1) >= 15).all()


def test_thinned_rows_are_rows_of_the_set_in_their_order(seed):
    views, y = labelled([60] * 4)
    found, thinned = zipf(views, y, seed)
    rows = found["a"].ravel()
    assert (np.diff(rows) > 0).all()
    assert (y[rows] == thinned).all()
    assert (found["b"].toarray().argmax(axis=1) == rows).all()


def test_a_seed_draws_the_same_rows_and_another_one_another_order_of_classes():
    views, y = labelled([60] * 10)
    largest = {seed: np.bincount(zipf(views, y, seed)[1]).argmax() for seed in range(8)}
    assert len(set(largest.values())) > 1
    first, second = (zipf(views, y, 3) for _ in range(2))
    assert (first[1] == second[1]).all()
    assert (first[0]["a"] == second[0]["a"]).all()


# -- blobs -----------------------------------------------------------------------------------------------------------


def centers_of(data, name):
    return np.array([data.views[name][data.target == c].mean(axis=0) for c in np.unique(data.target)])


@pytest.mark.parametrize("percent", [1, 2, 5, 10])
def test_the_small_cluster_has_its_share(percent):
    data = load_data(f"blobs_{percent}pct_0")
    counts = np.bincount(data.target)
    assert counts[2] / counts.sum() == pytest.approx(percent / 100, abs=1e-3)
    assert counts[0] == counts[1]


def test_the_nearest_centres_are_the_gap_apart(seed):
    data = make_blobs((4000,) * 5, (6, 4), seed, gap=8.0)
    for name, view in data.views.items():
        assert nearest_distance(centers_of(data, name)) == pytest.approx(8.0, abs=0.2)
        noise = view - centers_of(data, name)[data.target]
        assert np.cov(noise.T) == pytest.approx(np.eye(noise.shape[1]), abs=0.05)


def test_a_cluster_that_a_view_does_not_show_lies_on_the_first_one(seed):
    for name, shown in (("alone_all", ALONE), ("alone_small", SMALL_ALONE)):
        _, sizes, columns, given = BLOBS[name]
        assert given is shown
        data = make_blobs([10 * size for size in sizes], columns, seed, shown=shown)
        for v, view in enumerate(data.views):
            gaps = np.linalg.norm(centers_of(data, view) - centers_of(data, view)[0], axis=1)  # (k,)
            assert ((gaps > 7) == shown[v])[1:].all()
    assert (ALONE[:, 1:].sum(axis=0) == 1).all()
    assert (SMALL_ALONE[:, 4:].sum(axis=0) == 1).all()


def test_sizes_and_numbers_of_clusters_and_views_are_those_of_the_suite():
    assert {len(sizes) for _, sizes, _, _ in BLOBS.values()} >= {3, 8, 10, 30}
    assert {len(columns) for _, _, columns, _ in BLOBS.values()} == {2, 3, 4}
    assert BLOBS["blobs_ten"][1][0] == 4000
    assert BLOBS["blobs_ten"][1][-1] == 40
    sizes = BLOBS["blobs_geometric"][1]
    assert all(a == 2 * b for a, b in pairwise(sizes))


# -- noise -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [36, 128, 512])
def test_the_spectrum_falls_and_has_mean_one(width):
    spectrum = noise_spectrum(width)
    assert spectrum.mean() == pytest.approx(1)
    assert (np.diff(spectrum) < 0).all()
    # Its logarithm falls with the root of the place, at the same rate for any number of columns.
    roots = np.sqrt((np.arange(width) + 0.5) / width)
    assert np.diff(np.log(spectrum)) / np.diff(roots) == pytest.approx(-DECAY)


def test_correlated_noise_has_that_spectrum_and_columns_of_nearly_one_scale(rng):
    mixing = mixing_matrix(300, rng)
    covariance = mixing.T @ mixing  # (d, d)
    assert np.linalg.eigvalsh(covariance)[::-1] == pytest.approx(noise_spectrum(300), rel=1e-3)
    assert np.diag(covariance).std() < 0.2


@pytest.mark.parametrize("correlated", [False, True])
def test_noisy_rows_lie_about_centres_of_the_given_length(seed, correlated):
    data = make_noisy(20_000, 4, (30, 20), seed, correlated=correlated, length=3.0)
    for name, view in data.views.items():
        centers = centers_of(data, name)
        assert np.linalg.norm(centers, axis=1) == pytest.approx(3.0, abs=0.2)
        assert np.var(view - centers[data.target]) == pytest.approx(1.0, abs=0.02)


def test_makers_are_deterministic():
    for make in (lambda: make_noisy(100, 3, (5,), 2, correlated=True), lambda: make_blobs((50, 20), (5,), 2)):
        first, second = make(), make()
        assert (first.target == second.target).all()
        assert (first.views["view0"] == second.views["view0"]).all()


# -- the suite -------------------------------------------------------------------------------------------------------


def test_every_small_set_without_files_has_the_views_it_claims():
    made = [name for name in UNEQUAL if is_small(name) and name.partition("_")[0] not in ("zipf", "citeseq")]
    assert len(made) > 30
    for name in (name for name in made if not name.endswith(("_1", "_2"))):
        data = load_data(name)
        assert len(data.views) == DATA[name].n_views
        assert len({len(view) for view in data.views.values()}) == 1


def test_every_registered_method_that_bears_any_number_of_rows_is_measured():
    measured = {run.method.name for run in plan("unequal", [0], only_data=["blobs_5pct_0"])}
    assert measured == {m.name for m in METHODS.values() if m.cost == "linear" and not m.one_view}


def test_cells_have_five_or_ten_types(data_folder):
    for count in (5, 10):
        data = load_data(f"citeseq_{count}", data_folder)
        assert len(np.unique(data.target)) == count
        assert {view.shape[0] for view in data.views.values()} == {len(data.target)}


def test_thinned_sets_are_read_from_the_data_folder(data_folder):
    data = load_data("zipf_uci_1", data_folder)
    assert sorted(np.bincount(data.target).tolist()) == sorted(max(15, round(200 / rank)) for rank in range(1, 11))
    assert len(data.views) == 6


def test_the_quick_mode_runs_one_seed_and_goes_on(tmp_path):
    asked = ["unequal", "--quick", "--only-method", "k-means, block", "--results", str(tmp_path)]
    asked += ["--only-data", "blobs_10pct_0", "--only-data", "blobs_10pct_1"]
    first = CliRunner().invoke(app, asked)
    assert first.exit_code == 0, first.output
    records = read_records(tmp_path / "unequal-quick.jsonl")
    assert [(record["data"], record["seed"]) for record in records] == [("blobs_10pct_0", 0), ("blobs_10pct_1", 0)]
    assert all(record["ARI"] == pytest.approx(1) and record["NMI"] == pytest.approx(1) for record in records)
    again = CliRunner().invoke(app, asked)
    assert "0 measured, 2 known before" in again.output


def test_what_was_measured_with_other_code_is_measured_anew_when_asked(tmp_path):
    (run,) = plan("unequal", [0], only_data=["blobs_10pct_0"], only_method=["k-means, block"])
    file = tmp_path / "unequal.jsonl"
    old = {"method": run.method.name, "data": run.data, "seed": 0, "settings": run.settings(), "ARI": 0.5}
    append_record(file, {**old, "code": {"source": "another"}})
    assert run_all([run], file, progress=False).known == 1
    assert run_all([run], file, changed=True, progress=False).measured == 1
    assert [record["code"]["source"] for record in read_records(file)] == ["another", source_hash()]
    assert run_all([run], file, changed=True, progress=False).known == 1


def test_the_table_has_a_line_for_a_kind_of_data_and_means_below():
    def record(method, data, seed, ari):
        return {"method": method, "data": data, "seed": seed, "settings": {}, "ARI": ari}

    records = [
        *(record("Coterie", f"blobs_5pct_{draw}", 0, value) for draw, value in enumerate((0.5, 0.7, 0.9))),
        *(record("MVSC-B", f"blobs_5pct_{draw}", 0, 0.6) for draw in range(3)),
        record("Coterie", "citeseq_5", 0, 0.2),
        record("Coterie", "citeseq_5", 1, 0.4),
        record("MVSC-B", "citeseq_5", 0, 1.0),
        record("Coterie", "citeseq_10", 0, 0.1),  # the other has no figure, so that it is not in the mean
    ]
    table = unequal_table(records, "ARI")
    assert table.header == ("data", "Coterie", "MVSC-B")
    assert table.rows == (
        ("3 blobs, one of 5 %", "0.700", "0.600"),
        ("CITE-seq, 5 types", "0.300", "1.000"),
        ("CITE-seq, 10 types", "0.100", ""),
        ("mean", "0.500", "0.800"),
    )
