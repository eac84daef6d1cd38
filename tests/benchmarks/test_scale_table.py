"""The model of cost: what it is made from, what it says, and how far it is from what was measured."""

from pathlib import Path

import pytest

from benchmarks.gpu_table import card_table
from benchmarks.records import read_lines
from benchmarks.scale_table import KEPT, PARTITION_TASKS, WORKER_TASKS, WorkerCosts, scaling_check_table, scaling_table

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
KNOWN = WorkerCosts(client=3.0, task=0.002, worker=0.5, row=2e-6, waiting=0.02, columns=112)


def fit_line(rows, workers, seconds):
    partitions = rows // 125_000
    tasks = PARTITION_TASKS * partitions + WORKER_TASKS * workers
    return {
        "part": "scaling",
        "rows": rows,
        "columns": [64, 32, 16],
        "workers": workers,
        "partitions": partitions,
        "seconds": seconds,
        "client_processor_seconds": KNOWN.client + KNOWN.task * tasks + KNOWN.waiting * seconds,
        "worker_processor_seconds": KNOWN.worker * workers + KNOWN.row * rows + KNOWN.waiting * workers * seconds,
    }


@pytest.fixture
def records():
    clock = {(250_000, 1): 20, (1_000_000, 1): 61, (250_000, 2): 30, (1_000_000, 2): 50, (1_000_000, 4): 80}
    tasks = {"part": "tasks", "seconds_a_task": KNOWN.task}
    return [tasks, *(fit_line(*size, seconds) for size, seconds in clock.items())]


def test_costs_come_from_one_worker_alone(records):
    records[-1]["worker_processor_seconds"] = 1e9  # of four
    found = WorkerCosts.of(records[1:], KNOWN.task)
    assert vars(found) == pytest.approx(vars(KNOWN))


def test_the_check_is_exact_where_the_model_is(records):
    table = scaling_check_table(records)
    assert [abs(int(row[-1].rstrip("%"))) for row in table.rows] == [0] * 5
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
    table = scaling_check_table(read_lines(RESULTS / "cluster.jsonl"))
    assert {row[1] for row in table.rows} == {"1", "2", "4"}
    assert max(abs(int(row[-1].rstrip("%"))) for row in table.rows) <= 25


def test_fits_on_a_card_stand_beside_kmeans():
    table = card_table(read_lines(RESULTS / "card.jsonl"))
    methods = [row[1] for row in table.rows]
    assert "flash-kmeans, 25 passes" in methods
    assert "Coterie, default" in methods
    assert all(len(row) == len(table.header) for row in table.rows)
