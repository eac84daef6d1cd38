"""Commands as the tests of the command line run them, on files that the fixtures in conftest.py write."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from coterie import GuidedCoTraining
from coterie.cli import app
from coterie.formats import open_target

N, K = 240, 10
COTERIE = [sys.executable, "-m", "coterie"]
QUICK = ["--landmarks", "50", "--neighbors", "5", "--set", "n_init=2"]
SAME = dict(n_landmarks=50, n_neighbors=5, n_init=2, random_state=0)


def manual():
    """Return the pages of the manual that show commands; the first of them writes the model that others read."""
    docs = Path(__file__).parents[2] / "docs"
    names = ("reference/command_line.md", "start/first_fit.md", "start/first_report.md", "guides/report.md")
    return "\n".join((docs / name).read_text() for name in names)


def run(*args, code=0):
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


# Runs commands one after the other, as a shell would, each as if the process were its own.
SEVERAL = """
import json, sys
from coterie.cli import main

for arguments in json.loads(sys.argv[1]):
    sys.argv = ["coterie", *map(str, arguments)]
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    print("exit", code, file=sys.stderr)
"""


def run_several(commands, cwd=None):
    """Run commands in one process that is not this one; most of the time would be that of their starts."""
    code = [sys.executable, "-c", SEVERAL, json.dumps(commands)]
    return subprocess.run(code, capture_output=True, text=True, check=True, cwd=cwd)


def run_shown(*args):
    """Run a command as a process of its own, and return what it showed."""
    done = subprocess.run([*COTERIE, *map(str, args), "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run_json(*args):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(run(*args, "--json").stdout, parse_constant=refuse)


def refused(*args):
    """Return the one line that a command says of bad input."""
    result = run(*args, code=2)
    assert not result.stdout
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line


def frame_of(values):
    return pd.DataFrame(values, columns=[f"c{i}" for i in range(values.shape[1])])


def labels_of(path):
    return open_target(f"{path}::label" if Path(path).suffix != ".npy" else path).labels


def expected(views, k=K, **settings):
    return GuidedCoTraining(k, **{**SAME, **settings}).fit(views)
