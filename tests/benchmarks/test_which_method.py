"""The page "Which method when": every peer has a line, and tables are made from records."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie import peers
from coterie.peers.registry import METHODS

page = pytest.importorskip("benchmarks.which_method", reason="needs the sources of the benchmarks")
runner = pytest.importorskip("benchmarks.runner", reason="needs the sources of the benchmarks")
all_peers = pytest.importorskip("benchmarks.scripts.all_peers", reason="needs the sources of the benchmarks")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "background" / "which_method.md"


def record(method, acc, note="", **more):
    return {
        "method": method,
        "data": "uci",
        "seed": 0,
        "acc": acc,
        "nmi": acc / 2,
        "seconds": 3.0,
        "note": note,
        **more,
    }


def suite_line(acc, order="shuffled", seed=0, **settings):
    found = {"ACC": acc, "NMI": acc / 2, "seconds": 9.0, "cpu_seconds": 4.0, "data": "uci", "method": "x", "seed": seed}
    return {**found, "settings": {"estimator": "KASP", "rows": None, "order": order, **settings}}


def test_every_peer_has_a_line():
    assert set(peers.__all__) <= set(page.FACTS)


def test_means_are_those_of_the_methods_own_runs():
    records = [
        record("RMSC", 0.9),
        record("RMSC", 0.8),  # of the same seed: the last counts
        record("RMSC", 0.6, page.RECUT, cpu_seconds=1.0, seed=1),
        record("RMSC", 0.1, page.SINGLE_START),
        record("RMSC", 0.2, params={"weight": 1}),
        record("CoRegularised, centroid", 0.5),
    ]
    assert page.means(page.own_runs("RMSC", records)["RMSC"]) == ("0.700", "0.350", "2.0")
    assert list(page.own_runs("CoRegularised", records)) == ["centroid"]
    rows = {row[0]: row[1:] for row in page.overview(records, []).rows}
    assert rows["{class}`~coterie.peers.RMSC`"][:3] == ("n³", "no", "mean")
    assert "{class}`~coterie.peers.CoRegularised`, centroid" in rows


def test_the_suites_figures_are_those_of_all_views_in_shuffled_order():
    suites = [suite_line(0.8), suite_line(0.6, seed=1), suite_line(0.1, view=0), suite_line(0.1, order=None)]
    suites += [suite_line(0.1, rows=500), {**suite_line(0.1), "failed": "too long"}]
    assert page.means(page.suite_runs("KASP", suites)["KASP"]) == ("0.700", "0.350", "4.0")
    again = [*suites, suite_line(0.9)]  # the last run of a seed counts
    assert page.means(page.suite_runs("KASP", again)["KASP"])[0] == "0.750"
    kinds = [suite_line(0.5, estimator="ConcatKMeans", scaling=scaling) for scaling in ("none", "block")]
    assert list(page.suite_runs("ConcatKMeans", kinds)) == ["none", "block"]
    assert page.means(page.runs_of("KASP", [record("KASP", 0.3)], suites)["KASP"])[0] == "0.700"  # more seeds
    more = [record("KASP", 0.3, seed=seed) for seed in range(3)]
    assert page.means(page.runs_of("KASP", more, suites)["KASP"])[0] == "0.300"


def test_published_figures_stand_beside_runs_that_were_measured_in_the_same_way():
    records = [
        record(method, published.acc + 0.02, note=published.notes[0]) for method, published in page.PUBLISHED.items()
    ]
    records += [record("AIMC", 0.5), record("AIMC", 0.7, seed=1)]
    rows = {row[0]: row[1:] for row in page.reported(records, []).rows}
    assert rows["AIMC"][1:3] == ("rows in file order", "0.955 / 0.477")
    assert rows["AIMC"][4] == "0.600 / 0.300"  # defaults, shuffled
    assert rows["CoTraining"][0] == "0.779 / 0.745"
    apart = max(0.02, abs((0.9345 + 0.02) / 2 - 0.8823))
    assert rows["AIMC"][3] == f"{apart:.3f}"


def test_fastmice_stands_beside_its_prototype_with_the_range_of_seeds():
    seeds = enumerate((0.4, 0.8))
    records = [record("FastMICE", acc, data=data, seed=seed) for seed, acc in seeds for data in page.PROTOTYPE]
    records = [*[record("FastMICE", 0.1, data=data) for data in page.PROTOTYPE], *records]  # measured before
    assert page.fastmice_table(records).rows[0] == ("Scene-15", "0.458 / 0.448", "0.600 / 0.300", "2", "0.400 to 0.800")


def test_the_best_peer_of_a_set_is_not_coterie_nor_a_view_that_labels_chose():
    lines = [
        {"method": name, "data": "usps", "seed": 0, "settings": {}, "NMI": value}
        for name, value in {"Coterie": 0.9, "SC(2)": 0.8, "MVSC-B": 0.7, "KASP": 0.6}.items()
    ]
    assert page.best_peers(lines).rows == (("USPS", "MVSC-B", "0.700", "2"),)


def test_the_page_has_the_markers():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- table:{name} -->" in text for name in page.method_tables([*DEFAULTS], []))


DEFAULTS = [
    *(record(method, 0.5, note=published.notes[0]) for method, published in page.PUBLISHED.items()),
    *(record("FastMICE", 0.5, data=data) for data in page.PROTOTYPE),
]


def test_the_run_of_all_peers_has_every_class_and_the_slow_ones_first():
    runs = all_peers.peer_runs(rows=None)
    assert {run.method.estimator for run in runs} == set(peers.__all__)
    assert {run.method.name for run in runs[:2]} == {"LT-MSC", "RMSC"}


def test_a_run_of_all_peers_is_one_line_and_some_are_not_all(tmp_path):
    runs = [runner.Run(METHODS[name], "weak", 0, rows=100) for name in ("KASP", "AASC")]
    line = all_peers.fit_all(runs, tmp_path / "fits.jsonl", progress=False)
    assert line["methods"] == 2
    assert 0 <= line["cpu_seconds"] < line["seconds"] * line["cores"]
    assert set(line["slowest"]) == {"KASP", "AASC"}
    with pytest.raises(SystemExit, match=r"1 of 2 methods were measured\. took too long"):
        all_peers.check_whole(runner.Summary(measured=1, refused=["took too long"]), 2)


def test_minutes_on_cores_that_others_used_say_so():
    line = {"methods": 36, "cores": 2, "seconds": 600.0, "cpu_seconds": 540.0}
    said = "on 2 cores that others used too, took 10.0 minutes (9.0 minutes of the processor)."
    assert page.all_peers_sentence([{}, line]).endswith(said)
