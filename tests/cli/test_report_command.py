"""``coterie report`` and ``coterie demo`` on real files, in real processes where a terminal or a browser matters."""

import json
import os
import pty
import re
import subprocess
import sys
import tomllib
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from coterie.cli import app
from coterie.datasets import make_views

ROOT = Path(__file__).resolve().parents[2]
N, K = 300, 5
QUICK = ["--landmarks", "60", "--neighbors", "5", "--set", "n_init=2"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Two views in different order, what belongs to their rows, and two models."""
    folder = tmp_path_factory.mktemp("report")
    data = make_views(N, K, separation=8, n_columns=(5, 4), random_state=0)
    ids = np.array([f"r{i:03d}" for i in range(N)])
    left, right = (pd.DataFrame(view, index=ids).add_prefix("t") for view in data.views.values())
    order = np.random.default_rng(0).permutation(N)
    left.to_parquet(folder / "left.parquet")
    right.iloc[order].to_parquet(folder / "right.parquet")
    notes = pd.DataFrame({"id": ids, "age": np.arange(N) / 4, "said": [f"text {i}" for i in range(N)]})
    notes.loc[3, "age"] = np.nan
    notes.iloc[::-1].to_csv(folder / "notes.csv", index=False)
    (folder / "names.json").write_text(json.dumps({"1": "the second"}))
    with chdir(folder):
        for model, k in (("five.coterie", K), ("six.coterie", K + 1)):
            run("fit", "left.parquet", "right.parquet", "-k", k, *QUICK, "--model", model, "-q")
    return folder


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


VIEWS = ("left.parquet", "right.parquet")
NOTES = ("--id-column", "id", "--colour-by", "notes.csv[age]", "--text", "notes.csv[said]")


@pytest.fixture
def folder(library):
    with chdir(library):
        yield library


def test_everything_that_can_be_passed(folder):
    more = ("--names", "names.json", "--against", "six.coterie", "--levels", "2,3", "--title", "A <title>")
    # The views' ids are the index of their frames, and those of the notes a column: they are matched all the same.
    notes = pd.read_csv("notes.csv", index_col="id")
    notes.to_parquet("notes.parquet")
    extra = (
        "--colour-by",
        "notes.parquet[age]",
        "--colour-by",
        "years=notes.parquet[age]",
        "--text",
        "notes.parquet[said]",
    )
    run("report", "five.coterie", *VIEWS, "-o", "all.json", *extra, *more)
    found = json.loads((folder / "all.json").read_text())
    rows = found["embedding"]
    age, years = rows["columns"]
    assert (age["name"], years["name"]) == ("age", "years")
    assert rows["ids"] == [f"r{i:03d}" for i in range(N)]
    assert age["values"] == years["values"] == [None if i == 3 else pytest.approx(i / 4, abs=0.01) for i in range(N)]
    assert rows["texts"] == [f"text {i}" for i in range(N)]
    assert found["clusters"][1]["name"] == "the second"
    assert (found["against"]["title"], found["against"]["clusters"]) == ("six.coterie", K + 1)
    assert [line["groups"] for line in found["tree"]["levels"]] == [2, 3]
    assert found["title"] == "A <title>"
    said = json.loads(run("report", "five.coterie", *VIEWS, "-o", "all.html", *extra, *more, "--json").stdout)
    assert (said["rows"], said["clusters"], said["files"]) == (N, K, {"report": "all.html"})
    page = (folder / "all.html").read_text()
    assert "A &lt;title&gt;" in page


def test_a_fit_colours_its_report_too(folder):
    pd.read_csv("notes.csv", index_col="id").to_parquet("notes.parquet")
    told = ("--colour-by", "notes.parquet[age]", "--text", "notes.parquet[said]")
    run("fit", *VIEWS, "-k", K, *QUICK, "--report", "fit.json", *told, "-q")
    rows = json.loads((folder / "fit.json").read_text())["embedding"]
    assert [column["name"] for column in rows["columns"]] == ["age"]
    assert rows["texts"][5] == "text 5"


def test_the_models_column_of_ids_is_that_of_labels_and_columns_too(tmp_path):
    """What lies beside the views has the ids under the same name; a file that lacks it is read by position."""
    data = make_views(N, K, separation=8, n_columns=(5, 4), random_state=0)
    ids = np.array([f"r{i:03d}" for i in range(N)])
    order = np.random.default_rng(0).permutation(N)
    notes = pd.DataFrame({"id": ids, "kind": data.target, "age": np.arange(N)})
    notes.iloc[::-1].to_csv(tmp_path / "notes.csv", index=False)
    notes.drop(columns="id").to_csv(tmp_path / "unnamed.csv", index=False)
    for name, values, rows in zip(("left", "right"), data.views.values(), (np.arange(N), order), strict=True):
        pd.DataFrame(values).add_prefix("t").assign(id=ids).iloc[rows].to_csv(tmp_path / f"{name}.csv", index=False)
    with chdir(tmp_path):
        run("fit", "left.csv", "right.csv", "--id-column", "id", "-k", K, *QUICK, "--model", "m.coterie", "-q")
        beside = ("--target", "notes.csv[kind]", "--colour-by", "notes.csv[age]")
        run("report", "m.coterie", "left.csv", "right.csv", "-o", "r.json", *beside)
        found = json.loads((tmp_path / "r.json").read_text())
        (ages,) = (own["values"] for own in found["embedding"]["columns"] if own["name"] == "age")
        np.testing.assert_allclose(ages, [int(name[1:]) for name in found["embedding"]["ids"]], atol=0.1)
        assert found["truth"]["ari"] > 0.9
        labelled = run("predict", "m.coterie", "left.csv", "right.csv", "--target", "notes.csv[kind]", "--json").stdout
        assert json.loads(labelled)["scores"]["ARI"] > 0.9
        by_position = run("predict", "m.coterie", "left.csv", "--target", "unnamed.csv[kind]", "--json").stdout
        assert json.loads(by_position)["scores"]["ARI"] > 0.8


def test_it_says_how_to_open_the_page(folder, monkeypatch):
    said = run("report", "five.coterie", *VIEWS, "-o", "r.html").stdout
    assert f"{N} rows in {K} clusters" in said
    assert (folder / "r.html").resolve().as_uri() in said
    monkeypatch.setenv("HOME", str(folder))
    said = run("report", "five.coterie", *VIEWS, "--out=~/s.html").stdout
    assert (folder / "s.html").resolve().as_uri() in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--colour-by", "notes.csv[nothing]"], "has no 'nothing'"),
        (["--colour-by", "notes.csv[age]"], "has no row ids, but the views' rows are matched by id"),
        (["--colour-by", "notes.csv[age,said]"], "Name them one by one"),
        (["--levels", "two"], "--levels takes numbers of groups"),
        (["--levels", "9"], "numbers of groups, 1 to 5"),
        (["--names", "left.parquet"], "is not a JSON file of names"),
        (["--against", "nowhere.coterie"], "nowhere.coterie"),
        (["--pictures", "nowhere"], "nowhere"),
        (["-o", "left.parquet"], "left.parquet cannot be written: a report is a page, .html, or its data, .json"),
    ],
)
def test_what_is_wrong_is_one_line(folder, options, message):
    result = run("report", "five.coterie", *VIEWS, *options, code=2)
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


def on_terminal(*args, cwd, **environment):
    """Run a command at a terminal; return what it wrote there."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120", **environment}
    with subprocess.Popen(
        [sys.executable, "-m", "coterie", *map(str, args)], cwd=cwd, env=env, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        written = b""
        try:
            while part := os.read(leader, 65536):
                written += part
        except OSError:
            pass  # the terminal closes with the process
    os.close(leader)
    assert process.returncode == 0, written.decode()
    return written.decode(errors="replace")


def test_a_terminal_sees_the_stages(folder):
    written = on_terminal("report", "five.coterie", *VIEWS, "-o", "terminal.html", cwd=folder)
    stages = ("opening files", "labels", "sample", "map", "page")
    assert sum(stage in written for stage in stages) >= 2  # the bar is drawn ten times a second
    written = on_terminal("report", "five.coterie", *VIEWS, "-o", "terminal.html", "--verbose", cwd=folder)
    for stage in ("labels", "sample", "clusters", "map", "page"):
        assert stage in written


# The module, where only what `make demo` installs can be imported.
BARE = """
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

missing = sys.argv.pop(1).split(",")
sys.meta_path.insert(0, Missing())
runpy.run_module("coterie", run_name="__main__", alter_sys=True)
"""
IMPORTED_AS = {"scikit-image": "skimage"}


def not_installed_by(target):
    """The modules of the extras that a target of the Makefile does not install."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = (ROOT / "Makefile").read_text()
    given = re.search(rf"^\.venv/{target}:.*\n.*--editable \"?\.(?:\[(.*)\])?", text, re.MULTILINE)[1] or ""
    names = {extra: [re.match(r"[\w-]+", line)[0] for line in lines] for extra, lines in extras.items()}
    installed = {name for extra in given.split(",") if extra for name in names[extra]}
    return {IMPORTED_AS.get(name, name) for found in names.values() for name in found} - installed - {"coterie"}


def test_the_demo_writes_a_report_and_opens_it(tmp_path):
    missing = not_installed_by("demo")
    assert {"pandas", "torch", "matplotlib", "pyarrow"} < missing
    browser = tmp_path / "browser.sh"
    browser.write_text(f"#!/bin/sh\necho \"$1\" > '{tmp_path}/opened'\n")
    browser.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", BARE, ",".join(missing), "demo", "--open"],
        cwd=tmp_path,
        env={**os.environ, "BROWSER": str(browser)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = tmp_path / "coterie-demo.html"
    assert "Handwritten digits" in page.read_text()
    assert page.resolve().as_uri() in "".join(done.stdout.split())
    assert "coterie demo --open" in done.stdout
    assert (tmp_path / "opened").read_text().strip() == page.resolve().as_uri()
