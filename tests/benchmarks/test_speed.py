"""The speed benchmark: interleaving, stop rules, records, resuming and tables, on a few hundred rows."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.commands import app
from benchmarks.libraries import make_clustering, side_by_side, why_not
from benchmarks.records import append_record, read_records, record_key
from benchmarks.speed import (
    FULL,
    KMEANS,
    LIBRARIES,
    PARTS,
    QUICK,
    STARTS,
    SpeedRun,
    expected_seconds,
    is_too_slow,
    run_speed,
)
from benchmarks.speed_tables import growth_exponent, rows_table, speed_tables
from benchmarks.tables import markdown
from benchmarks.timing import BareProduct, Seconds, Timed, interleaved, measure_speed, median_of, synthetic_rows
from coterie.datasets import make_views
from coterie.metrics import clustering_accuracy
from coterie.peers.registry import Method

HERE = ("mnist", "rows", "predict")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The file of a rehearsal of all parts but the slow ones."""
    file = tmp_path_factory.mktemp("speed") / "speed.jsonl"
    summary = run_speed(HERE, file, sizes=QUICK, progress=False)
    assert summary.failed == []
    assert summary.missing == {}
    assert summary.measured == len(read_records(file))
    return file


def record(part="rows", method="Coterie", n_rows=1000, seconds=1.0, **more):
    found = {"part": part, "method": method, "data": "digits", "seed": 0, "n_rows": n_rows, "seconds": seconds}
    return {**found, "ratio": seconds, "peak_mb": 10.0, "settings": {"rows": n_rows}, **more}


# -- the plan --------------------------------------------------------------------------------------------------------


def test_every_run_has_a_key_of_its_own_and_settings_that_can_be_written():
    runs = [run for part in PARTS.values() for group in part(FULL) for run in group]
    assert len({run.key() for run in runs}) == len(runs)
    for run in runs:
        assert json.loads(json.dumps(run.settings()))["part"] == run.part


def test_the_promises_are_measured_at_the_size_they_were_made_for():
    (images,) = PARTS["mnist"](FULL)
    settings = images[0].settings()
    assert (settings["n_landmarks"], settings["n_neighbors"], settings["max_iter"], settings["tol"]) == (600, 8, 10, 0)
    assert images[-1].method.params == {"n_init": 10}
    assert [group[0].rows for group in PARTS["rows"](FULL)] == [50_000 * 2**step for step in range(7)]
    assert [group[0].columns for group in PARTS["million"](FULL)] == [(256, 128, 64)] * 2


def test_a_part_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    with pytest.raises(ValueError, match=r"no part 'x' of the speed benchmark\. There are: mnist, rows"):
        run_speed(["x"], tmp_path / "r.jsonl")
    assert CliRunner().invoke(app, ["speed", "--part", "x", "--results", str(tmp_path)]).exit_code == 2


def test_a_method_that_was_slow_is_not_asked_for_more_rows():
    run = SpeedRun(KMEANS, "digits", 0, 4000, part="peers")
    earlier = record("peers", KMEANS.name, 1000, 1.0)
    assert not is_too_slow(run, [])
    assert not is_too_slow(run, [earlier])
    assert is_too_slow(run, [earlier, record("peers", KMEANS.name, 2000, 61.0)])
    assert is_too_slow(run, [earlier, record("peers", KMEANS.name, 2000, 20.0)])  # 400 s are to be expected
    assert not is_too_slow(run, [earlier, record("peers", "other", 2000, 61.0)])
    assert not is_too_slow(run, [record("peers", KMEANS.name, 4000, 61.0)])


def test_growth_is_that_of_the_last_two_sizes():
    assert expected_seconds({10: 9.0, 100: 1.0, 1000: 10.0}, 2000) == pytest.approx(20)
    assert growth_exponent([10, 100, 1000], [5.0, 50.0, 500.0]) == pytest.approx(1)


# -- timing ----------------------------------------------------------------------------------------------------------


def test_work_is_between_two_products_and_the_median_ratio_counts():
    calls, products, works = [], iter([9.0, 1.0, 3.0, 1.0, 1.0]), iter([8.0, 2.0, 30.0])

    def product():
        calls.append("product")
        return Seconds(next(products), 1.0)

    def work():
        calls.append("work")
        return Seconds(next(works), 5.0), None

    timed = interleaved(work, product, repeats=3, patience=np.inf)
    assert calls == ["product", "product", *["work", "product"] * 3]
    assert [t.ratio for t in timed] == [4.0, 1.0, 30.0]
    assert median_of(timed) == Timed(Seconds(8.0, 5.0), Seconds(2.0, 1.0), None)
    assert [t.cpu_ratio for t in timed] == [5.0] * 3


def test_the_product_is_that_of_all_views_and_scales_with_rows(rng):
    views = {"a": rng.integers(0, 9, (50, 7), dtype=np.uint8), "b": rng.standard_normal((50, 3))}
    product = BareProduct.of(views, 80)
    started = time.perf_counter()
    assert 0 < product.seconds().wall < time.perf_counter() - started
    np.testing.assert_allclose(product.out[:, :50], side_by_side(views) @ side_by_side(views).T, rtol=1e-4, atol=1e-3)
    assert product.describe() == {"rows": 50, "columns": 10, "landmarks": 80}


def test_rows_made_block_by_block_are_those_made_at_once():
    made = make_views(70_000, 20, n_columns=(2, 1), random_state=7)
    filled = synthetic_rows(70_000, (2, 1))
    assert np.array_equal(made.target, filled.target)
    for name, view in made.views.items():
        assert np.array_equal(view, filled.views[name])


# -- other libraries -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", LIBRARIES, ids=lambda method: method.name)
def test_libraries_cluster_what_is_easy(method):
    reason = why_not(method)
    if reason is not None:
        pytest.skip(reason)
    data = make_views(150, 3, separation=8, random_state=0)
    labels = make_clustering(method, 3, 0).fit_predict(data.views)
    assert clustering_accuracy(data.target, labels) > 0.95


def test_a_package_that_is_not_there_is_left_out_with_its_reason(tmp_path, monkeypatch):
    other = Method("other", "no_such_package.Clustering")
    run = SpeedRun(other, "digits", 0, 100, part="peers")
    monkeypatch.setitem(PARTS, "peers", lambda sizes: [[run]])
    summary = run_speed(["peers"], tmp_path / "r.jsonl", progress=False)
    assert (summary.measured, summary.failed) == (0, [])
    assert summary.missing["other"].endswith("pip install coterie[bench-peers]")


# -- records and tables ----------------------------------------------------------------------------------------------


def test_records_are_whole_and_ratios_positive(measured):
    records = read_records(measured)
    assert [r["part"] for r in records] == ["mnist"] * 3 + ["rows"] * 2 + ["predict"] * 2
    for found in records:
        assert found["seconds"] > 0
        assert found["ratio"] > 0
        assert found["cpu_ratio"] > 0
        assert found["machine"]["cores"] >= 1
        assert {"numpy", "scikit-learn", "numba"} <= set(found["versions"])
    fits = [r for r in records if r["part"] != "predict"]
    assert all(0 <= r["ACC"] <= 1 and r["peak_mb"] >= 0 for r in fits)
    first = records[0]
    assert first["stages"]["total"] == pytest.approx(first["ratio"], rel=0.2)
    assert {"landmarks", "graphs", "graphs: product", "rounds"} <= set(first["stages"])


def test_what_is_known_is_not_measured_again_unless_asked_for(measured):
    before = measured.read_bytes()
    known = run_speed(HERE, measured, sizes=QUICK, progress=False)
    assert (known.measured, known.known) == (0, 7)
    assert measured.read_bytes() == before
    again = run_speed(["predict"], measured, sizes=QUICK, again=True, progress=False)
    assert again.measured == 2
    records = read_records(measured)
    assert [record_key(r) for r in records[-2:]] == [record_key(r) for r in records[5:7]]
    assert speed_tables(records)["speed_predict"].rows == speed_tables(records[-2:])["speed_predict"].rows


def test_all_tables_are_made(measured):
    records = read_records(measured)
    million = {**records[3], "part": "million"}
    peers = [record("peers", "a", n, n / 100, ACC=0.5) for n in (10, 20)]
    tables = speed_tables([*records, million, *peers, record("start", "import coterie", None, 0.5)])
    assert sorted(tables) == [
        *("speed_million", "speed_mnist", "speed_peers_images", "speed_predict"),
        *("speed_rows", "speed_stages", "speed_start"),
    ]
    assert all(len(row) == len(table.header) for table in tables.values() for row in table.rows)
    assert tables["speed_peers_images"].rows == (("a", "0.1 (0.500)", "0.2 (0.500)"),)


def test_a_report_is_timed_and_weighed():
    pytest.importorskip("jinja2")
    (few,) = PARTS["report"](QUICK)[0]
    found = measure_speed(few, None)
    assert found["n_rows"] == 300
    assert found["seconds"] > 0
    table = speed_tables([found])["speed_report"]
    assert table.rows == (("300", f"{found['seconds']:.2f}", f"{found['bytes'] / 1000:.0f}"),)


def test_growth_per_row_is_in_the_table():
    table = rows_table([record(n_rows=2000, seconds=2.2), record(n_rows=1000, seconds=1.0)])
    assert markdown(table).splitlines()[2:] == [
        "| 1,000 | 1.00 | 1000.00 | 1.00 | +0% | 10 | 300 |",
        "| 2,000 | 2.20 | 1100.00 | 2.20 | +120% | 10 | 301 |",
        "| growth: rows to the power of | 1.138 |  | 2.138 |  |  |  |",
    ]


def test_stages_stand_beside_what_they_were_before():
    stages = {"graphs": 1.5, "total": 3.0}
    old = record("mnist", stages={"graphs": 1.65, "total": 5.7}, when="before")
    table = speed_tables([record("mnist", stages=stages, ACC=1.0, NMI=1.0, settings={"estimator": "x"}), old])
    assert table["speed_stages"].header == ("stage", "Coterie, before", "Coterie")
    assert table["speed_stages"].rows == (("graphs", "1.65", "1.50"), ("total", "5.70", "3.00"))
    assert len(table["speed_mnist"].rows) == 1


def test_the_command_measures_shows_and_fills_the_docs(tmp_path, monkeypatch):
    for name in STARTS.keys() - {"import coterie"}:
        monkeypatch.delitem(STARTS, name)
    result = CliRunner().invoke(app, ["speed", "--quick", "--part", "start", "--results", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "1 measured, 0 known before" in result.output
    (start,) = read_records(tmp_path / "speed-quick.jsonl")
    assert 0 < start["seconds"] < 60
    append_record(tmp_path / "speed.jsonl", start)
    page = tmp_path / "page.md"
    page.write_text("<!-- table:speed_start -->\n<!-- /table:speed_start -->\n")
    arguments = ["tables", "--results", str(tmp_path), "--write", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert "| import coterie |" in page.read_text()


def test_help_teaches_with_examples():
    assert "python -m benchmarks speed" in CliRunner().invoke(app, ["speed", "--help"]).output
