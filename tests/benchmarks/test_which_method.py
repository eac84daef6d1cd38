"""The page "Which method when": every peer has a line, and tables are made from records."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coterie import peers

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def page():
    if not BENCHMARKS.is_dir():
        pytest.skip("needs the sources of the benchmarks")
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import which_method
    finally:
        sys.path.remove(str(BENCHMARKS))
    return which_method


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


def test_every_peer_has_a_line(page):
    assert set(peers.__all__) <= set(page.FACTS)


def test_means_are_those_of_the_methods_own_runs(page):
    records = [
        record("RMSC", 0.8),
        record("RMSC", 0.6, page.RECUT, cpu_seconds=1.0),
        record("RMSC", 0.1, page.SINGLE_START),
        record("RMSC", 0.2, params={"weight": 1}),
        record("CoRegularised, centroid", 0.5),
    ]
    assert page.means(page.own_runs("RMSC", records)["RMSC"]) == ("0.700", "0.350", "2.0")
    assert list(page.own_runs("CoRegularised", records)) == ["centroid"]
    lines = page.overview(records, []).splitlines()
    assert "| `RMSC` | n³, memory n² | no | at the mean |" in next(line for line in lines if "RMSC" in line)
    assert any(line.startswith("| `CoRegularised`, centroid |") for line in lines)


def test_the_suites_figures_are_those_of_all_views_in_shuffled_order(page):
    def line(acc, order="shuffled", **settings):
        found = {"ACC": acc, "NMI": acc / 2, "seconds": 9.0, "cpu_seconds": 4.0, "data": "uci", "method": "x"}
        return {**found, "settings": {"estimator": "KASP", "rows": None, "order": order, **settings}}

    suites = [line(0.8), line(0.6), line(0.1, view=0), line(0.1, order=None), line(0.1, rows=500)]
    suites.append({**line(0.1), "failed": "too long"})
    assert page.means(page.suite_runs("KASP", suites)["KASP"]) == ("0.700", "0.350", "4.0")
    kinds = [line(0.5, estimator="ConcatKMeans", scaling=scaling) for scaling in ("none", "block")]
    assert list(page.suite_runs("ConcatKMeans", kinds)) == ["none", "block"]
    assert "0.700" in page.overview([record("KASP", 0.3)], suites)  # the runs with more seeds
    assert "0.300" in page.overview([record("KASP", 0.3)] * 3, suites)


def test_tables_go_between_their_markers(page):
    text = "a\n<!-- table:x -->\nold\n<!-- /table:x -->\nb\n"
    assert page.fill(text, {"x": "| new |"}) == "a\n<!-- table:x -->\n| new |\n<!-- /table:x -->\nb\n"


def test_the_page_has_the_markers(page):
    text = page.PAGE.read_text(encoding="utf-8")
    assert all(f"<!-- table:{name} -->" in text for name in ("which_method", "as_reported"))
