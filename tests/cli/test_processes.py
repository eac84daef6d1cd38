"""Commands as processes of their own: exit codes as a shell sees them, Ctrl-C, pipes, terminals and completion."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from command_runs import COTERIE, QUICK, K, N, expected, run

from coterie.cli.options import complete_files


def loaded_by(*args):
    """Return which slow packages a command imports, as a process of its own."""
    code = """
import atexit, sys
from coterie.cli import main

def tell():
    ran = [name for name, module in sys.modules.items() if type(module).__name__ == "module"]
    slow = ("numpy", "scipy.stats", "sklearn", "numba", "pandas", "pyarrow", "torch")
    print("loaded", *(name for name in slow if name in ran), file=sys.stderr)

atexit.register(tell)
main()
"""
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=True, text=True)
    return done.stderr.splitlines()[-1].split()[1:]


def test_commands_import_what_they_need(folder):
    for asked in (["--help"], ["--version"], ["fit", "--help"]):
        assert loaded_by(*asked) == []
    assert loaded_by("fit", "none.npy", "-k", 3) == ["numpy"]
    run("fit", "pixels.npy", "hog.parquet", "-k", K, *QUICK, "--model", "m.coterie", "-q")
    predict = ["predict", "m.coterie", "pixels.npy", "hog.parquet", "--labels", "new.parquet"]
    assert loaded_by(*predict) == ["numpy", "sklearn", "numba", "pyarrow"]


def test_a_module_that_runs_when_it_is_used(tmp_path):
    (tmp_path / "heavy").mkdir()
    (tmp_path / "heavy" / "__init__.py").write_text("print('runs')\nfrom heavy import part\nvalue = part.value + 1\n")
    (tmp_path / "heavy" / "part.py").write_text("import heavy\nvalue = 1 if not hasattr(heavy, 'value') else 0\n")
    code = """
import sys
from concurrent.futures import ThreadPoolExecutor
from coterie.cli.start import hidden, import_later

with hidden("heavy"):
    try:
        import heavy
    except ImportError:
        print("hidden")
import_later("heavy")
import heavy
print("imported")
with ThreadPoolExecutor(4) as pool:
    print(set(pool.map(lambda _: heavy.value, range(8))))
import_later("heavy")
print(heavy.part.value, type(sys.modules["heavy"]).__name__)
import_later("nonsense")
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    assert done.stdout.split() == ["hidden", "imported", "runs", "{2}", "1", "module"]


def test_a_real_process_in_a_pipe(folder, arrays):
    """Fit, predict and convert as a shell runs them: results on standard output, no colours, exit codes."""
    views = ["pixels.npy", "hog.parquet", "text.npz"]
    fit = [*COTERIE, "fit", *views, "-k", str(K), *QUICK, "--labels", "out.parquet", "--model", "m.coterie"]
    done = subprocess.run(fit, capture_output=True, text=True, check=True)
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert f"{N} rows, {K} clusters" in done.stdout
    assert (pd.read_parquet("out.parquet")["label"] == expected(arrays).labels_).all()
    new = f"{shlex.join(COTERIE)} predict m.coterie new_*.npy --labels new.csv --json | cat"
    piped = subprocess.run(new, shell=True, capture_output=True, text=True, check=True)
    assert json.loads(piped.stdout)["rows"] == N // 3
    bad = subprocess.run([*COTERIE, "convert", "none.npy", "out.npy"], capture_output=True, text=True)
    assert (bad.returncode, bad.stdout) == (2, "")
    assert re.fullmatch(r"error: There is no file none\.npy.*\n", bad.stderr)


def run_in_terminal(command):
    """Run a process whose standard error is a terminal; return what it wrote there, and to standard output."""
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(main, 4096):
            shown += chunk
    except OSError:  # how a terminal says that all is said
        pass
    os.close(main)
    out, _ = process.communicate()
    assert process.returncode == 0
    return shown, out


def test_a_terminal_gets_colours_and_a_bar(folder):
    """Standard error is a terminal, standard output is not: the bar is on one, plain JSON on the other."""
    shown, out = run_in_terminal([*COTERIE, "fit", "pixels.npy", "-k", str(K), "--set", "n_init=100", "--json"])
    assert json.loads(out)["clusters"] == K
    assert b"fitting 240 rows" in shown
    assert b"\x1b[" in shown


SLOW_PASS = """
import time
from coterie.cli.session import Voice
from coterie.progress import Progress, counted
with Voice(quiet=False, json=False, verbose=False, warnings=[]).bar("fitting"), Progress(False).stage("graphs"):
    for _ in counted(range(100), 100, 1000):
        time.sleep(0.02)
"""


def test_the_bar_tells_rows_a_second_and_the_time_left():
    shown, _ = run_in_terminal([sys.executable, "-c", SLOW_PASS])
    assert b"fitting: graphs" in shown
    assert b" rows/s" in shown
    assert re.search(rb"0:0\d", shown)


def test_ctrl_c_leaves_nothing_behind(tmp_path):
    np.save(tmp_path / "big.npy", np.random.default_rng(0).standard_normal((60_000, 6)).astype(np.float32))
    (tmp_path / "out.csv").write_text("from before\n")
    options = ["-k", "8", "--landmarks", "200", "--neighbors", "5", "--max-iter", "2000", "--set", "tol=0", "--verbose"]
    command = [*COTERIE, "fit", "big.npy", *options, "--labels", "out.csv", "--overwrite", "--model", "m.coterie"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "round" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert rest.splitlines()[-1] == "error: stopped; no file was left half-written"
    assert "Traceback" not in rest
    assert sorted(os.listdir(tmp_path)) == ["big.npy", "out.csv"]
    assert (tmp_path / "out.csv").read_text() == "from before\n"


def test_a_stopped_job_goes_on(tmp_path):
    """Ctrl-C in the middle, then the same command again: the labels are those of a run that nobody stopped."""
    rng = np.random.default_rng(0)
    np.save(
        tmp_path / "big.npy", (rng.standard_normal((20_000, 6)) + 4 * rng.integers(3, size=(20_000, 1))).astype("f4")
    )
    options = ["-k", "3", "--landmarks", "200", "--neighbors", "5", "--max-iter", "40", "--set", "tol=0", "--verbose"]
    command = [*COTERIE, "fit", "big.npy", *options]
    job = [*command, "--work-dir", "job", "--labels", "out.npy"]
    process = subprocess.Popen(job, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stderr:
        if "round 5" in line:
            break
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    assert not (tmp_path / "out.npy").exists()
    steps = len(list((tmp_path / "job").glob("*/step_*")))
    assert steps > 10
    again = subprocess.run([*job, "--jobs", "1"], cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert os.listdir(tmp_path / "job") == []
    subprocess.run([*command, "--labels", "quiet.npy"], cwd=tmp_path, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), np.load(tmp_path / "quiet.npy"))


def test_results_that_memory_has_no_room_for(folder, arrays):
    views = ["pixels.npy", "hog.parquet", "text.npz"]
    limited = run("fit", *views, "-k", K, *QUICK, "--memory-limit", "1GB", "--embedding", "places.npy", "--json")
    assert "memory_limit" not in json.loads(limited.stdout)["config"]
    np.testing.assert_allclose(np.load("places.npy"), expected(arrays).transform(arrays), atol=1e-6)
    result = run("fit", *views, "-k", K, "--memory-limit", "1MB", code=2)
    assert "'memory_limit' parameter" in result.stderr
    assert "at least 1 GB" in result.stderr


def test_completion(folder):
    environment = {**os.environ, "_COTERIE_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    code = [sys.executable, "-c", "from coterie.cli import app; app(prog_name='coterie')"]
    environment["COMP_WORDS"] = "coterie fit hog"
    done = subprocess.run(code, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["hog.parquet"]
    Path("sub").mkdir()
    Path("sub/a.npy").touch()
    assert complete_files(None, [], "x=sub/") == ["x=sub/a.npy"]
    assert complete_files(None, [], "su") == ["sub/"]
    assert complete_files(None, [], "nowhere/") == []
