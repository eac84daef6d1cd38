"""What CI does with a test that fails: once more, by itself, and the last lines name it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPEAT = Path(__file__).resolve().parents[1] / ".ci" / "repeat"
PYTEST = f"{sys.executable} -m pytest"
ALL = f"{PYTEST} test_some.py"
FAILED = f"{PYTEST} --last-failed --last-failed-no-failures none"
# A test that passes only once a file is there, which it writes.
FLAKY = """
from pathlib import Path

def test_good():
    pass

def test_flaky():
    seen = Path("seen").exists()
    Path("seen").touch()
    assert seen
"""
BAD = "\ndef test_bad():\n    assert False\n"
ENDLESS = "import time\n\ndef test_endless():\n    time.sleep(60)\n"


@pytest.fixture
def repeat(tmp_path):
    def run(code, seconds=120, first=ALL):
        (tmp_path / "test_some.py").write_text(code)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, str(REPEAT), str(seconds), first, FAILED]
        plain = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # quicker
        done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=100)
        return done.returncode, done.stdout.splitlines()

    return run


def test_a_test_that_passes_the_second_time_is_named_last(repeat):
    code, lines = repeat(FLAKY)
    assert code == 0
    assert lines[-2:] == ["In all: 2 passed, 0 failed", "Needed a second run: test_some.py::test_flaky"]


def test_a_test_that_fails_twice_fails_the_run(repeat):
    code, lines = repeat(FLAKY + BAD)
    assert code == 1
    assert lines[-3:] == [
        "In all: 2 passed, 1 failed",
        "Failed twice: test_some.py::test_bad",
        "Needed a second run: test_some.py::test_flaky",
    ]


def test_without_failures_there_is_one_run(repeat, tmp_path):
    (tmp_path / "seen").touch()
    code, lines = repeat(FLAKY)
    assert code == 0
    assert "2 passed" in lines[-1]
    assert not [line for line in lines if "Once more" in line]


def test_what_is_no_tests_failure_is_not_repeated(repeat):
    code, lines = repeat("", first=f"{PYTEST} --no-such-option")
    assert code == 4
    assert not [line for line in lines if "Once more" in line]


def test_the_run_ends_in_time(repeat):
    code, lines = repeat(ENDLESS, seconds=8)
    assert code != 0
    assert lines[-1] == "The tests did not end in time."
