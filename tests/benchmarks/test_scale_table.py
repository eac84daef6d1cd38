"""The model of cost: what it is made from, what it says, and how far it is from what was measured."""

from pathlib import Path

import pytest

from benchmarks.gpu_table import card_table, read_lines
from benchmarks.scale_table import KEPT, WorkerCosts, scaling_check_table, scaling_table

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
KNOWN = WorkerCosts(client=3.0, partition=0.01, worker=0.5, row=2e-6, columns=112)


def fit_line(rows, workers, costs=KNOWN):
    partitions = rows // 125_000
    return {
        "part": "scaling",
        "rows": rows,
        "columns": [64, 32, 16],
        "workers": workers,
        "partitions": partitions,
        "client_processor_seconds": costs.client + costs.partition * partitions,
        "worker_processor_seconds": costs.worker * workers + costs.row * rows,
    }


@pytest.fixture
def records():
    return [fit_line(rows, workers) for workers in (1, 2, 4) for rows in (250_000, 1_000_000)]


def test_costs_come_from_one_worker_alone(records):
    records[-1]["worker_processor_seconds"] = 1e9  # of four
    found = WorkerCosts.of(records)
    assert vars(found) == pytest.approx(vars(KNOWN))


def test_the_check_is_exact_where_the_model_is(records):
    table = scaling_check_table(records)
    assert [row[-1] for row in table.rows] == ["+0%"] * 6
    assert len(table.header) == len(table.rows[0])


def test_what_breaks_first(records):
    table = scaling_table(records, [])
    by_size = {(row[0], row[1].split()[0]): row for row in table.rows}
    assert by_size["10,000,000,000", "10"][-1].startswith("memory")
    assert by_size["10,000,000,000", "100"][4] == f"{KEPT * 1e8 / 1e9:.1f} GB"
    assert not by_size["1,000,000,000", "100"][-1].startswith("memory")


def test_a_gpu_waits_for_its_rows(records):
    cards = [
        {"shape": "hundred", "method": "Coterie, default", "seconds": 2.0, "rows": 10**8, "columns": [64, 32]},
    ]
    lines = [row for row in scaling_table(records, cards).rows if "H200" in row[1]]
    assert len(lines) == 4
    assert all("reading" in row[3] for row in lines)


def test_parts_shrink_with_workers():
    few, many = (KNOWN.parts(10**9, workers, KNOWN.row) for workers in (10, 100))
    assert many["rows"] < few["rows"]
    assert many["storage"] == pytest.approx(few["storage"] / 10)
    assert many["client"] == few["client"]


def test_the_model_is_within_a_quarter_of_what_was_measured():
    lines = [line for line in read_lines(RESULTS / "cluster.jsonl") if line["part"] == "scaling"]
    assert {line["workers"] for line in lines} == {1, 2, 4}
    off = [float(row[-1].rstrip("%")) for row in scaling_check_table(lines).rows]
    assert max(map(abs, off)) <= 25


def test_fits_on_a_card_stand_beside_kmeans():
    table = card_table(read_lines(RESULTS / "card.jsonl"))
    methods = [row[1] for row in table.rows]
    assert "flash-kmeans, 25 passes" in methods
    assert "Coterie, default" in methods
    assert all(len(row) == len(table.header) for row in table.rows)
