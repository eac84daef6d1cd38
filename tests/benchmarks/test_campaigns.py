"""Campaigns: cases in processes that are watched from outside, and results that go on where they were stopped."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CAMPAIGN = """
import argparse, os, signal, sys, time
from benchmarks.campaigns import Case, Limits, add_options, run_campaign

def look(target, number):
    if number == 5:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 11:
        while True: pass
    if number == 17:
        raise ValueError("seventeen")
    time.sleep(float(sys.argv[1]))
    return Case("good", done=f"by {len(os.sched_getaffinity(0))} thread", seconds=number)

parser = argparse.ArgumentParser()
parser.add_argument("pause")
add_options(parser, cases=30, batch=10)
args = parser.parse_args()
print(run_campaign("made_up.jsonl", ["a", "b"], lambda: look, args, Limits(cpu=1, campaign=args.stop_after)))
"""


def run_python(code, *arguments):
    """Return what a new process prints, and what it complains of."""
    where = {"cwd": ROOT, "env": {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, **where, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def lines_of(folder):
    return [json.loads(line) for line in (folder / "made_up.jsonl").read_text().splitlines()]


def test_cases_that_crash_or_hang_are_findings_and_the_others_are_done(tmp_path):
    """Every case of both targets has a result; each finding has the number that repeats it."""
    said = run_python(CAMPAIGN, 0, "--jobs", 3, "--results", tmp_path)
    assert said.splitlines()[-1] == "6"
    lines = lines_of(tmp_path)
    for target in "ab":
        own = sorted((line for line in lines if line["target"] == target), key=lambda line: line["first"])
        assert [(line["first"], line["cases"]) for line in own] == [(0, 10), (10, 10), (20, 10)]
        assert own[0]["findings"] == [[5, "crash", "exit code -11"]]
        assert sorted(own[1]["findings"]) == [[11, "hang", "exit code -9"], [17, "crash", "exit code 1"]]
        assert own[1]["outcomes"] == {"good": 8, "hang": 1, "crash": 1}
        assert own[2]["damage"] == {"by 1 thread": 10}
        assert (own[2]["slowest_case"], own[2]["slowest_s"], own[2]["seed"]) == (29, 29, 0)


def test_a_campaign_that_was_stopped_goes_on(tmp_path):
    """No case is begun after the time, what was begun is done, and the same command does what is left."""
    options = ("--jobs", 2, "--results", tmp_path, "--first", 20)
    run_python(CAMPAIGN, 0.5, *options, "--stop-after", 2)
    stopped = lines_of(tmp_path)
    assert 0 < sum(line["cases"] for line in stopped) < 60
    run_python(CAMPAIGN, 0, *options)
    numbers = [(line["target"], line["first"] + i) for line in lines_of(tmp_path) for i in range(line["cases"])]
    assert sorted(numbers) == [(target, number) for target in "ab" for number in range(20, 50)]


CHECKED = """
import sys, tempfile
from pathlib import Path
import pandas as pd
from benchmarks.scripts.fuzz import leave_out_checks
from coterie.formats import arrow_files, open_views
called = []
arrow_files.check_pages = lambda *given: called.append("pages")
footer = arrow_files.read_footer
arrow_files.read_footer = lambda path: called.append("footer") or footer(path)
if sys.argv[1] == "none":
    leave_out_checks()
with tempfile.TemporaryDirectory() as name:
    path = Path(name) / "a.parquet"
    pd.DataFrame({"x": [1, 2, 3], "y": [1.0, 2.0, 3.0]}).to_parquet(path)
    for table in open_views([path]).values():
        assert table[:].tolist() == [[1, 1], [2, 2], [3, 3]]
print(sorted(set(called)))
"""


@pytest.mark.parametrize(("checks", "called"), [("ours", ["footer", "pages"]), ("none", [])])
def test_parquet_is_read_without_our_checks_where_these_are_left_out(checks, called):
    assert run_python(CHECKED, checks).strip() == str(called)
