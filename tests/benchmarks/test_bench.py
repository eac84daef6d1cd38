"""The harness: resuming after a kill, records, tables worked out by hand, markers, the figure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

from benchmarks import data as bench_data
from benchmarks.campaign_table import campaign_table, long_run_table, same_labels_table
from benchmarks.campaigns import batches_left, write_line
from benchmarks.choosing import choosing_table
from benchmarks.commands import app
from benchmarks.figure import landmark_curves, landmarks_figure
from benchmarks.libraries import LIBRARIES, is_library
from benchmarks.measure import NotForThisDataError, measure, prepare
from benchmarks.ordering import by_urgency
from benchmarks.records import append_record, read_records, record_key
from benchmarks.runner import run_all, run_many
from benchmarks.steadiness import steadiness_table
from benchmarks.suites import FILE_ORDER, SUITES, Run, plan
from benchmarks.tables import (
    Table,
    latex,
    leaderboard_table,
    markdown,
    paper_table,
    paper_targets,
    replace_tables,
    rewrite_tables,
    robustness_table,
    summarise,
)
from coterie import peers
from coterie.datasets import MultiViewData
from coterie.metrics import ari
from coterie.peers.registry import METHODS, Method, make_estimator

ROOT = Path(__file__).resolve().parents[2]
EMPTY = "An empty cell: not measured yet, or a set without that view."
SECRETS = (os.getcwd(), os.path.expanduser("~"), sys.prefix)


def record(method="Coterie", data="uci", seed=0, acc=0.5, **more):
    found = {"method": method, "data": data, "seed": seed, "ACC": acc, "NMI": acc, "seconds": 1.0}
    return {**found, "settings": {"n_landmarks": 600, "order": "shuffled"}, **more}


# -- records ---------------------------------------------------------------------------------------------------------


def test_a_line_that_was_cut_off_is_forgotten_and_the_next_one_is_whole(tmp_path):
    path = tmp_path / "deep" / "results.jsonl"
    append_record(path, record(seed=0))
    append_record(path, record(seed=1))
    with open(path, "ab") as file:
        file.write(b'{"method": "Coter')
    assert [r["seed"] for r in read_records(path)] == [0, 1]
    append_record(path, record(seed=2))
    assert [r["seed"] for r in read_records(path)] == [0, 1, 2]
    assert path.read_bytes().endswith(b"\n")


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(record()) + "\nnonsense\n")
    with pytest.raises(ValueError, match="line 2 is not a record"):
        read_records(path)


def test_runs_and_their_records_have_the_same_key(tmp_path):
    (run,) = plan("leaderboard", [3], only_data=["weak"], only_method=["k-means, half"], rows=100)
    path = tmp_path / "results.jsonl"
    append_record(path, {**record("k-means, half", "weak", 3), "settings": run.settings()})
    assert record_key(read_records(path)[0]) == run.key()


def test_other_settings_are_another_run():
    runs = [Run(Method("a", "LSC", {"view": v}), "uci", 0) for v in (0, 1)]
    assert runs[0].key() != runs[1].key()
    assert runs[0].key() != Run(runs[0].method, "uci", 0, rows=10).key()


# -- suites ----------------------------------------------------------------------------------------------------------


def test_every_method_of_every_suite_can_be_made():
    for suite in SUITES:
        for run in plan(suite, [0]):
            json.dumps(run.settings())
            if not is_library(run.method):
                assert make_estimator(run.method, 5, run.seed).n_clusters == 5


@pytest.mark.parametrize("suite", ["paper", "leaderboard"])
def test_every_peer_and_every_library_has_a_row(suite):
    methods = [run.method for run in plan(suite, [0], only_data=["uci"])]
    assert {method.estimator for method in methods} >= {*peers.__all__} - {"ConcatKMeans"}
    assert {method.name for method in methods} >= {library.name for library in LIBRARIES}
    assert len({method.name for method in methods}) == len(methods)


def test_the_paper_suite_has_every_row_of_the_paper():
    targets = {(method, column) for _, method, column in paper_targets()}
    ours = {(run.method.name, bench_data.DATA[run.data].paper) for run in plan("paper", [0])}
    assert {t for t in targets if t[1] in ("UCI", "USPS", "MNIST")} <= ours


@pytest.mark.parametrize(("kind", "asked"), [("data set", {"only_data": ["x"]}), ("method", {"only_method": ["x"]})])
def test_an_unknown_name_is_refused_with_those_that_there_are(kind, asked):
    with pytest.raises(ValueError, match=f"has no {kind} 'x'. It has: "):
        plan("paper", [0], **asked)


@pytest.mark.parametrize("name", ["digits", "weak", "scaled", "duplicated", "missing", "noise"])
def test_data_that_needs_no_files_has_the_views_it_claims(name):
    data = bench_data.load_data(name, rows=50)
    assert len(data.views) == bench_data.DATA[name].n_views
    assert {len(view) for view in data.views.values()} == {50}


def test_data_on_disk_has_the_views_it_claims(data_folder):
    for name in ("uci", "reuters_1200", "scene15", "100leaves", "bbcsport", "citeseer"):
        data = bench_data.load_data(name, data_folder, rows=20)
        assert len(data.views) == bench_data.DATA[name].n_views, name


# -- the order of rows -----------------------------------------------------------------------------------------------


def test_a_seed_shuffles_rows_and_classes_together():
    stored = bench_data.load_data("digits", rows=300)
    run = Run(METHODS["k-means, none"], "digits", 1, rows=300)
    data, target = prepare(run, None)
    assert not np.array_equal(target, stored.target)
    order = np.random.default_rng(1).permutation(300)
    np.testing.assert_array_equal(target, stored.target[order])
    for name, table in stored.views.items():
        np.testing.assert_array_equal(data.views[name], table[order])
    again, _ = prepare(replace(run, seed=2), None)
    assert not np.array_equal(again.views[name], data.views[name])
    same, _ = prepare(replace(run, order=FILE_ORDER), None)
    np.testing.assert_array_equal(same.views[name], table)


def test_a_graph_keeps_its_edges_when_rows_are_shuffled():
    rng = np.random.default_rng(0)
    graph = sparse.random_array((40, 40), density=0.2, rng=rng, format="csr")
    data = bench_data.shuffled(MultiViewData({"words": rng.random((40, 3)), "links": graph}, np.arange(40), ""), 5)
    order = data.target  # where every row was
    np.testing.assert_array_equal(data.views["links"].toarray(), graph.toarray()[np.ix_(order, order)])


def test_figures_in_file_order_are_another_run_and_are_told_from_others():
    run = Run(METHODS["k-means, none"], "digits", 0)
    stored = replace(run, order=FILE_ORDER)
    assert run.key() != stored.key()
    assert "order" not in stored.settings()  # as in the records from before rows were shuffled
    old = {"settings": stored.settings()}
    records = [record("a", "uci", **old), record("a", "usps", **old), record("a", "uci"), record("b", "uci", **old)]
    assert leaderboard_table(records, "NMI").notes == ("Rows in file order, not shuffled: a (USPS); b.", EMPTY)
    assert leaderboard_table(records[2:3], "NMI").notes == ()


def test_what_is_measured_is_the_partition_of_the_shuffled_rows():
    run = Run(METHODS["k-means, none"], "weak", 3, rows=200)
    found = measure(run, None)
    data, target = prepare(run, None)
    labels = make_estimator(run.method, 6, 3).fit_predict(data.views)
    assert found["ARI"] == ari(target, labels)
    assert found["settings"]["order"] == "shuffled"


# -- running ---------------------------------------------------------------------------------------------------------


def test_missing_data_is_reported_and_the_rest_runs(tmp_path):
    runs = [
        Run(Method("k-means", "ConcatKMeans"), "scene15", 0),
        Run(Method("k-means", "ConcatKMeans"), "weak", 0, rows=100),
        Run(Method("broken", "LSC", {"view": 99}), "weak", 0, rows=100),
    ]
    summary = run_all(runs, tmp_path / "r.jsonl", data_home=tmp_path, progress=False)
    assert summary.measured == 1
    assert list(summary.missing) == ["scene15"]
    assert len(summary.failed) == 1
    assert "The 'view' parameter of LSC" in summary.failed[0]
    (found,) = read_records(tmp_path / "r.jsonl")
    assert found["seconds"] > 0
    assert 0 <= found["peak_mb"] < 1000
    assert found["machine"]["cores"] >= 1
    assert set(found["versions"]) == {"python", "numpy", "scipy", "scikit-learn", "numba"}
    assert not any(secret in json.dumps(found) for secret in (*SECRETS, os.uname().nodename))


def slow_measure(run, home):
    time.sleep(60)


def test_a_fit_that_takes_too_long_is_recorded_once_for_a_limit(tmp_path):
    file = tmp_path / "r.jsonl"
    runs = [Run(Method("k-means", "ConcatKMeans"), "weak", 0, rows=100)]
    options = {"progress": False, "measure": slow_measure}
    assert run_all(runs, file, limit=0.5, **options).refused == ["k-means on weak, seed 0: did not end within 0.5 s"]
    assert run_all(runs, file, limit=0.5, **options).known == 1
    assert len(run_all(runs, file, limit=1, **options).refused) == 1
    assert run_all(runs, file, limit=1, progress=False).known == 1
    assert run_all(runs, file, progress=False).measured == 1
    assert [(r.get("failed"), r.get("limit")) for r in read_records(file)[:2]] == [
        ("did not end within 0.5 s", 0.5),
        ("did not end within 1 s", 1),
    ]
    assert summarise(read_records(file), "NMI")["k-means", "weak"].n_seeds == 1


def test_when_the_time_is_up_nothing_is_recorded_and_the_rest_is_left(tmp_path):
    runs = [Run(Method("k-means", "ConcatKMeans"), "weak", seed, rows=100) for seed in range(3)]
    summary = run_all(runs, tmp_path / "r.jsonl", stop_after=4, measure=slow_measure, progress=False)
    assert (summary.left, summary.measured, summary.refused) == (3, 0, [])
    assert read_records(tmp_path / "r.jsonl") == []


def test_what_two_suites_ask_for_is_measured_once_and_what_one_holds_is_copied(tmp_path):
    first, second = tmp_path / "paper.jsonl", tmp_path / "leaderboard.jsonl"
    runs = [Run(Method("k-means", "ConcatKMeans"), "weak", seed, rows=100) for seed in range(2)]
    assert run_all(runs[:1], first, progress=False).measured == 1
    summary = run_many([(path, run) for path in (first, second) for run in runs], limit=60, progress=False)
    assert (summary.measured, summary.known) == (2, 2)
    assert read_records(second) == read_records(first)
    assert [r["seed"] for r in read_records(first)] == [0, 1]


def killed_measure(run, home):
    if run.seed == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if run.seed == 1:
        raise ValueError("It takes at most 50 rows. Use fewer.")
    return measure(run, home)


def test_a_killed_process_and_an_error_are_recorded_and_the_rest_is_measured(tmp_path):
    file = tmp_path / "r.jsonl"
    runs = [Run(Method("k-means", "ConcatKMeans"), "weak", seed, rows=100) for seed in range(3)]
    summary = run_all(runs, file, limit=60, measure=killed_measure, progress=False)
    assert (summary.measured, len(summary.failed)) == (1, 2)
    reasons = [r.get("failed") for r in read_records(file)]
    assert "the process was killed" in reasons[0]
    assert reasons[1:] == ["It takes at most 50 rows", None]
    assert run_all(runs, file, limit=60, progress=False).known == 2  # an error may be mended, and is tried again


def test_several_processes_share_the_cores_and_measure_everything_once(tmp_path):
    runs = [Run(Method("k-means", "ConcatKMeans"), "weak", seed, rows=100) for seed in range(5)]
    assert run_all(runs, tmp_path / "r.jsonl", jobs=2, progress=False).measured == 5
    records = read_records(tmp_path / "r.jsonl")
    assert sorted(r["seed"] for r in records) == list(range(5))
    cores = len(os.sched_getaffinity(0))
    assert {r["machine"]["cores"] for r in records} <= {max(cores // 2, 1), (cores + 1) // 2}


def test_what_is_not_for_such_data_has_a_reason_and_a_dash(tmp_path):
    big = Run(METHODS["RMSC"], "correlated_100_many", 0, rows=5001)
    with pytest.raises(NotForThisDataError, match=r"time grows with n³: not tried with more than 5,000 rows"):
        prepare(big, None)
    records = [record("RMSC", "digits"), {**record("RMSC", "uci"), "failed": "too long", "limit": 9}]
    table = leaderboard_table([*records, record("Coterie", "uci"), record("Coterie", "digits")], "NMI")
    assert table.rows == (("Coterie", "0.500", "0.500", "0.500"), ("RMSC", "-", "0.500", ""))
    assert table.notes[0] == "A dash, too long: UCI (RMSC)."
    only = leaderboard_table([records[1], record("Coterie", "uci")], "seconds")
    assert [row[:2] for row in only.rows] == [("Coterie", "1.00"), ("RMSC", "-")]
    assert "| RMSC | - | 0.500 |  |\n\nA dash, too long" in markdown(table)


COMMAND = [
    *(sys.executable, "-m", "benchmarks", "leaderboard"),
    *("--only-data", "weak", "--only-method", "k-means, half", "--seeds", "8", "--results"),
]


def test_a_killed_run_goes_on_where_it_was_and_repeats_nothing(tmp_path):
    file = tmp_path / "leaderboard.jsonl"
    command = [*COMMAND, str(tmp_path)]
    # Threads of k-means that wait for each other by turning in circles take long on a busy machine.
    where = {"cwd": ROOT, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **where)
    deadline = time.monotonic() + 200  # of a busy machine
    while len(read_records(file)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = read_records(file)
    assert 2 <= len(before) < 8
    again = subprocess.run(command, capture_output=True, text=True, check=True, **where)
    after = read_records(file)
    assert after[: len(before)] == before
    assert sorted(r["seed"] for r in after) == list(range(8))
    assert f"{8 - len(before)} measured, {len(before)} known before" in again.stdout
    bytes_then = file.read_bytes()
    third = CliRunner().invoke(app, command[3:])
    assert "0 measured, 8 known before" in third.output
    assert file.read_bytes() == bytes_then


# -- tables ----------------------------------------------------------------------------------------------------------


def test_cells_are_mean_and_sample_deviation():
    cells = summarise([record(seed=s, acc=a) for s, a in enumerate((0.9, 0.8, 1.0))], "ACC")
    cell = cells["Coterie", "uci"]
    assert (cell.mean, cell.sd, cell.n_seeds) == (pytest.approx(0.9), pytest.approx(0.1), 3)


def test_the_settings_measured_last_count():
    old = [record(seed=s, acc=0.1, settings={"n_landmarks": 1}) for s in (0, 1)]
    cells = summarise([*old, record(seed=0, acc=0.7), record(seed=1, acc=0.9)], "ACC")
    assert cells["Coterie", "uci"].mean == pytest.approx(0.8)


def test_the_paper_table_puts_ours_beside_the_papers():
    records = [
        record("Guided co-training", "uci", 0, 0.960),
        record("Guided co-training", "uci", 1, 0.964),
        record("Coterie", "reuters_1200", 0, 0.5),
    ]
    assert markdown(paper_table(records, "ACC")).splitlines() == [
        "| method | UCI | Reuters 1200 |",
        "| --- | --- | --- |",
        "| SC(1) | - (0.744) |  |",
        "| SC(2) | - (0.776) |  |",
        "| SC(3) | - (0.930) |  |",
        "| SC(4) | - (0.376) |  |",
        "| SC(5) | - (0.940) |  |",
        "| SC(6) | - (0.725) |  |",
        "| ConcatLSC | - (0.758) |  |",
        "| MVSC-B | - (0.945) |  |",
        "| Guided co-training | 0.962\u00a0±\u00a00.003 (0.967) |  |",
        "| Coterie |  | 0.500 |",
        "",
        "Seeds: 1 for Coterie; 2 for the others.",
        "",
        EMPTY,
    ]


def test_latex_escapes_what_it_must():
    table = Table("ACC & more", ("method", "UCI"), (("k_means", "0.962 ± 0.003 (0.967)"),))
    assert r"k\_means & 0.962 $\pm$ 0.003 (0.967) \\" in latex(table)
    assert r"\caption{ACC \& more}" in latex(table)
    assert r"\begin{tabular}{lr}" in latex(table)


def test_the_leaderboard_is_sorted_and_merges_single_views():
    scores = {"SC(1)": 0.2, "SC(2)": 0.6, "Coterie": 0.9, "MVSC-B": 0.5}
    table = leaderboard_table([record(m, "weak", 0, a) for m, a in scores.items()], "NMI")
    assert table.header == ("method", "Weak views", "mean")
    assert table.rows == (
        ("Coterie", "0.900", "0.900"),
        ("LSC, best view", "0.600", "0.600"),
        ("MVSC-B", "0.500", "0.500"),
        ("LSC, mean view", "0.400", "0.400"),
    )


def test_the_mean_is_over_real_sets_where_there_are_any():
    records = [record(data=data, acc=acc) for data, acc in (("uci", 0.6), ("digits", 0.8), ("weak", 1.0))]
    assert leaderboard_table(records, "NMI").rows == (("Coterie", "0.600", "0.800", "1.000", "0.700"),)


def test_methods_that_ran_on_small_sets_alone_have_a_mean_over_those():
    sizes = {"uci": 2000, "usps": 9298}
    records = [record("Coterie", data, acc=0.6, n_rows=n) for data, n in sizes.items()]
    table = leaderboard_table([*records, record("RMSC", "uci", acc=0.7, n_rows=2000)], "NMI")
    assert table.header == ("method", "UCI", "USPS", "mean, up to 5,000 rows", "mean")
    assert table.rows == (("RMSC", "0.700", "", "0.700", ""), ("Coterie", "0.600", "0.600", "0.600", "0.600"))


def test_seconds_are_those_of_the_processor_where_the_machine_was_busy():
    records = [record("a", seconds=60.0, cpu_seconds=8.0), record("b", seconds=9.0, cpu_seconds=8.0)]
    table = leaderboard_table(records, "seconds")
    assert [row[:2] for row in table.rows] == [("a", "8.00"), ("b", "9.00")]
    assert table.notes == ("Seconds of the processor, on a machine that others used: a.",)
    assert leaderboard_table(records, "NMI").notes == ()


def test_noise_and_gaps_stand_beside_the_data_as_it_is():
    records = [record(data="digits", acc=0.9), record(data="digits_noise2", acc=0.8)]
    records.append(record("MVSC-B", "digits", acc=0.7))
    table = robustness_table(records, "NMI")
    assert table.header[:3] == ("data and method", "as it is", "1 view of noise")
    assert table.rows == (
        ("Digits, Coterie", "0.900", "", "0.800", "", "", ""),
        ("Digits, MVSC-B", "0.700", "", "", "", "", ""),
    )


def test_what_is_added_is_noise_and_what_is_missing_is_whole_views():
    plain, noisy, gappy = (bench_data.load_data(f"digits{ending}") for ending in ("", "_noise2", "_missing30"))
    assert [view.shape[1] for view in noisy.views.values()][-2:] == [50, 100]
    gone = np.column_stack([np.isnan(view).all(axis=1) for view in gappy.views.values()])  # (n, V)
    assert gone.mean() == pytest.approx(0.3, abs=0.02)
    assert not gone.all(axis=1).any()
    for v, name in enumerate(plain.views):
        np.testing.assert_array_equal(noisy.views[name], plain.views[name])
        np.testing.assert_array_equal(gappy.views[name][~gone[:, v]], plain.views[name][~gone[:, v]].astype("float32"))


def test_choosing_k_is_measured_once_and_shown(tmp_path):
    command = ["choosing-k", "--only-data", "rings", "--seeds", "1", "--results", str(tmp_path)]
    assert "4 measured" in CliRunner().invoke(app, command).output
    assert "0 measured" in CliRunner().invoke(app, command).output
    records = read_records(tmp_path / "choosing_k.jsonl")
    assert [r["k"] for r in records] == [2, 3, 4, 6]
    ((title, clusters, runs, first, among, _),) = choosing_table(records).rows
    assert (title, clusters, runs) == ("Rings in three views", "2 to 6", "4")
    assert int(first) <= int(among) <= 4


def test_steadiness_is_measured_once_and_shown(tmp_path):
    command = ["steadiness", "--only-data", "digits", "--only-data", "missing", "--seeds", "2"]
    command += ["--results", str(tmp_path)]
    assert "2 data sets measured" in CliRunner().invoke(app, command).output
    assert "0 data sets measured" in CliRunner().invoke(app, command).output
    table = steadiness_table(read_records(tmp_path / "steadiness.jsonl"))
    assert [row[0] for row in table.rows] == ["Missing views", "Digits", "rank correlation"]
    assert table.rows[-1][2] in ("1.00", "-1.00")


def test_tables_go_between_their_markers_again_and_again(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- table:a -->\nold\n<!-- /table:a -->\n<!-- table:b -->\nkept\n<!-- /table:b -->\n")
    tables = {"a": Table("", ("method", "x"), (("one", r"\1"),))}
    assert rewrite_tables([page], tables) == [page]
    once = page.read_text()
    assert once == (
        "above\n<!-- table:a -->\n| method | x |\n| --- | --- |\n| one | \\1 |\n<!-- /table:a -->\n"
        "<!-- table:b -->\nkept\n<!-- /table:b -->\n"
    )
    assert rewrite_tables([page], tables) == []
    assert page.read_text() == once


def test_a_marker_that_is_not_closed_is_an_error():
    with pytest.raises(ValueError, match="the marker <!-- table:a --> is not closed"):
        replace_tables("<!-- table:a -->\n", {})


# -- figure and command line -----------------------------------------------------------------------------------------


def landmark_records():
    rng = np.random.default_rng(0)
    return [
        record("Coterie", "uci", seed, float(rng.uniform(0.8, 0.9)), settings={"n_landmarks": p})
        for p in (200, 100)
        for seed in (0, 1)
    ]


def test_curves_are_means_over_seeds_in_order_of_landmarks():
    records = landmark_records()
    curve = landmark_curves(records, "ACC")["uci", "Coterie"]
    assert curve.landmarks == (100, 200)
    assert curve.means[0] == pytest.approx((records[2]["ACC"] + records[3]["ACC"]) / 2)


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_figure_is_an_image(tmp_path, ending, start):
    path = landmarks_figure(landmark_records(), tmp_path / f"landmarks.{ending}")
    assert path.read_bytes().startswith(start)


def test_tables_command_rewrites_files_and_writes_latex(tmp_path):
    append_record(tmp_path / "paper.jsonl", record("Coterie", "uci", 0, 0.97))
    page = tmp_path / "README.md"
    page.write_text("<!-- table:paper_acc -->\n<!-- /table:paper_acc -->\n")
    arguments = ["tables", "--results", str(tmp_path), "--write", str(page), "--latex", str(tmp_path / "tex")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "| Coterie | 0.970 |" in page.read_text()
    assert r"Coterie & 0.970 \\" in (tmp_path / "tex" / "paper_acc.tex").read_text()


def test_commands_say_what_is_wrong(tmp_path):
    nothing = CliRunner().invoke(app, ["tables", "--results", str(tmp_path)])
    assert nothing.exit_code == 1
    for command in (
        ["leaderboard", "--only-data", "scene15"],
        ["steadiness", "--only-data", "scene15"],
        ["choosing-k", "--only-data", "scene15"],
    ):
        home = ["--results", str(tmp_path), "--data-home", str(tmp_path)]
        none = CliRunner().invoke(app, [*command, *home])
        assert none.exit_code == 1
        assert "nothing to measure" in none.output
    unknown = CliRunner().invoke(app, ["paper", "--only-data", "x", "--results", str(tmp_path)])
    assert unknown.exit_code == 2


def test_what_is_missing_is_measured_seed_by_seed_and_what_ends_soon_first():
    rows = {"uci": 2_000, "usps": 11_000, "mnist": 70_000}
    records = [record("AIMC", data, n_rows=n) for data, n in rows.items()] + [record("RMSC", "uci", n_rows=2_000)]
    records = [{**r, "seconds": r["n_rows"] / 2_000 * (90 if r["method"] == "RMSC" else 1)} for r in records]
    asked = [
        Run(METHODS[name], data, seed) for seed in (1, 0) for name in ("RMSC", "AIMC") for data in (*rows, "noise")
    ]
    order = [(run.seed, run.method.name, run.data) for run in sorted(asked, key=by_urgency(records))]
    quick = [("AIMC", "uci"), ("AIMC", "noise"), ("AIMC", "usps"), ("AIMC", "mnist")]
    slow = [("RMSC", "uci"), ("RMSC", "noise"), ("RMSC", "usps"), ("RMSC", "mnist")]
    assert order == [(seed, *names) for seed in (0, 1) for names in (*quick, *slow)]


def test_one_missing_cell_is_measured_and_an_unknown_suite_refused(tmp_path):
    unknown = CliRunner().invoke(app, ["missing", "--suite", "x", "--results", str(tmp_path)])
    assert unknown.exit_code == 2
    command = ["missing", "--suite", "leaderboard", "--only-data", "weak", "--only-method", "PIC"]
    assert "1 measured, 0 known" in CliRunner().invoke(app, [*command, "--results", str(tmp_path)]).output
    (found,) = read_records(tmp_path / "leaderboard.jsonl")
    assert (found["method"], found["settings"]["view"]) == ("PIC", None)


def test_help_teaches_with_examples():
    for command in ("paper", "leaderboard", "missing", "unequal", "landmarks", "tables"):
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0
        assert f"python -m benchmarks {command}" in result.output


def test_campaign_goes_on_where_it_stopped(tmp_path):
    """Numbers without a result of this code come in batches; those of other code, or another kind, do not count."""
    path = tmp_path / "results.jsonl"
    for first, cases, kind in ((0, 3, "a"), (7, 2, "a"), (12, 4, "b")):
        write_line(path, {"first": first, "cases": cases, "target": kind})
    append_record(path, {"first": 0, "cases": 20, "target": "a", "code": "another"})
    found = list(batches_left(path, 0, 20, 4, target="a"))
    assert found == [range(3, 7), range(9, 13), range(13, 17), range(17, 20)]
    assert list(batches_left(path, 12, 4, 4, target="b")) == []


def test_campaigns_are_added_up_over_the_last_code():
    """A line of the table is a campaign; what an earlier version of the code came to is not in it."""
    old, new = {"source": "old"}, {"source": "new"}
    files = [
        {"target": "npy", "cases": 9, "outcomes": {"read": 9}, "findings": [[1, "crash", ""]], "code": old},
        {"target": "npy", "cases": 2, "outcomes": {"read": 2}, "findings": [], "code": new},
        {"target": "npy", "cases": 3, "outcomes": {"refused": 3}, "findings": [], "code": new},
        {"target": "model", "cases": 4, "outcomes": {"refused": 4}, "findings": [], "code": old},
    ]
    table = campaign_table(files, (), ())
    assert table.rows == (
        ("damaged files of 1 kinds", "5", "3 refused; 2 read", "0"),
        ("damaged models", "4", "4 refused", "0"),
    )


def test_an_earlier_version_is_counted_by_data_set():
    """What is not the same, or could not be compared, is not counted as the same."""
    line = {"data": "digits", "place": "memory", "labels": True, "embedding": True, "old_model": True, "code": "new"}
    other = {**line, "place": "dask", "embedding": False, "old_model": "ModelFileError: it is damaged"}
    failed = {"data": "digits", "place": "torch", "error": {"ours": "it failed"}, "code": "new"}
    table = same_labels_table([{**line, "code": "old"}, line, other, failed])
    assert table.rows == (("digits", "dask, memory, torch", "2 of 3", "1 of 3", "1 of 3"),)


def test_a_long_run_says_what_was_left():
    line = {"minutes": 90.0, "fits": 400, "growth_mb_an_hour": {"resident_mb": 1.5, "in_use_mb": -0.002}}
    assert long_run_table([line]).rows[0][-1] == "not counted"
    left = {"threads": 0, "open_files": 2, "temporary_files": 0}
    assert long_run_table([line, {**line, "left": left}]).rows == (("90", "400", "+1.50", "-0.002", "2 open files"),)
