"""What goes wrong around a run: full disks, closed folders, signals, memory. All with processes of their own."""

import errno
import gzip
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io
from scipy import sparse

from coterie import load, save
from coterie.formats import write_table

MODEL = str(Path(__file__).parent / "data" / "model_v1.coterie")
COTERIE = [sys.executable, "-m", "coterie"]
QUICK = ["-k", "4", "--landmarks", "30", "--neighbors", "5", "--max-iter", "2", "--set", "n_init=1"]
N = 40_000

# Runs the command line once for each list of arguments, under limits that are set after everything was imported.
LIMITED = """
import json, os, resource, sys
import numpy, pandas, pyarrow.csv, scipy.linalg, sklearn.cluster
import coterie, coterie.report, coterie.saving
from coterie.cli import app
from coterie.kernels import cpu

limits, runs = json.loads(sys.argv[1])
if "memory" in limits:
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + limits["memory"]
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
for arguments in runs:
    code = 0
    try:
        app(arguments)
    except SystemExit as end:
        code = end.code
    print(json.dumps(code), flush=True)
    print("--", file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A file of rows in which there are four groups."""
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    centres = np.random.default_rng(0).standard_normal((4, 6)) * 20
    noise = np.random.default_rng(1).standard_normal((N, 6))
    np.save(path, (centres[np.arange(N) % 4] + noise).astype(np.float32))
    return path


def run_limited(runs, **limits):
    """Run the command line several times in one process; return exit codes and what was said each time."""
    runs = [[str(word) for word in run] for run in runs]
    done = subprocess.run([sys.executable, "-c", LIMITED, json.dumps([limits, runs])], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    codes = [json.loads(line) for line in done.stdout.splitlines()]
    said = [part.strip() for part in done.stderr.split("--\n")[: len(runs)]]
    assert "Traceback" not in done.stderr
    return list(zip(codes, said, strict=True))


@pytest.fixture
def small_disk(tmp_path):
    """A function that makes a folder on a disk of its own, of so many bytes."""
    mounted = []

    def mount(name, options):
        folder = tmp_path / name
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip("there is no mount")
        if done.returncode:
            pytest.skip(f"may not mount: {done.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", str(folder)], check=True)


def files_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_full_disks(rows, small_disk):
    """Labels, a model, a report and an array that do not fit: one line, and what was there before stays."""
    folder = small_disk("full", "size=16k")
    outputs = {"--labels": "out.csv", "--model": "m.coterie", "--report": "r.html", "--embedding": "e.npy"}
    runs = []
    for option, name in outputs.items():
        (folder / name).write_text("from before")
        runs.append(["fit", rows, *QUICK, "--quiet", "--overwrite", option, folder / name])
    for (code, said), name in zip(run_limited(runs), outputs.values(), strict=True):
        assert code == 2
        assert said == f"error: {folder / name}: Could not write the file: No space left on device"
        assert (folder / name).read_text() == "from before"
    assert files_in(folder) == sorted(outputs.values())


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_hdf5_on_a_full_disk(rows, small_disk, kind, tmp_path):
    """HDF5 crashes where a write fails, and again when the process ends."""
    folder, source = small_disk("full", "size=200k"), rows
    if kind == "sparse":
        source = tmp_path / "thin.npz"
        sparse.save_npz(source, sparse.random_array((N, 50), density=0.2, format="csr", rng=np.random.default_rng(0)))
    (folder / "rows.h5").write_text("from before")
    ((code, said),) = run_limited([["convert", source, folder / "rows.h5", "--quiet", "--overwrite"]])
    assert code == 2
    assert said == f"error: {folder / 'rows.h5'}: Could not write the file: No space left on device"
    assert files_in(folder) == ["rows.h5"]
    assert (folder / "rows.h5").read_text() == "from before"


def test_no_room_for_what_is_unpacked(rows, small_disk, tmp_path, monkeypatch):
    """The remedy is not to write the file again."""
    folder, table = small_disk("full", "size=100k"), np.load(rows)
    np.savez_compressed(tmp_path / "rows.npz", x=table)
    with gzip.open(tmp_path / "rows.csv.gz", "wt") as file:
        np.savetxt(file, table[:5000], delimiter=",")
    scipy.io.savemat(tmp_path / "rows.mat", {"x": table})
    monkeypatch.setenv("TMPDIR", str(folder))
    names = ("rows.npz", "rows.csv.gz", "rows.mat")
    runs = [["convert", tmp_path / name, tmp_path / "out.npy", "--quiet"] for name in names]
    for (code, said), name in zip(run_limited(runs), names, strict=True):
        assert code == 2
        assert f"{tmp_path / name}" in said
        assert f"cannot be unpacked: {folder} has " in said
        assert "Make room, or let TMPDIR name a folder on a larger disk." in " ".join(said.split())


def test_folders_that_cannot_be_written(rows, small_disk, tmp_path):
    closed = small_disk("closed", "size=16k,ro")
    (tmp_path / "file").write_text("")
    paths = [closed / "out.csv", tmp_path / "file" / "out.csv", Path("/dev/null/out.csv")]
    runs = [["fit", rows, *QUICK, "--quiet", "--labels", path] for path in paths]
    for (code, said), path in zip(run_limited(runs), paths, strict=True):
        assert code == 2
        reason = os.strerror(errno.EROFS if path.parent == closed else errno.ENOTDIR)
        assert said == f"error: {path} cannot be written: {reason}."
    assert files_in(closed) == []


def test_pipes_and_devices_are_not_replaced_by_files(rows, tmp_path):
    """As /dev/null would be, for whoever may write to its folder: in containers, everybody."""
    for name in ("out.csv", "m.coterie", "r.html", "e.npy"):
        os.mkfifo(tmp_path / name)
    options = {"--labels": "out.csv", "--model": "m.coterie", "--report": "r.html", "--embedding": "e.npy"}
    runs = [["fit", rows, *QUICK, "--overwrite", option, tmp_path / name] for option, name in options.items()]
    for (code, said), (*_, name) in zip(run_limited(runs), runs, strict=True):
        assert (code, said) == (
            2,
            f"error: {name} is a device or a pipe, in whose place a file would be put. Name a file.",
        )
    with pytest.raises(ValueError, match="is a device or a pipe"):
        save(load(MODEL), tmp_path / "m.coterie")
    assert all(path.is_fifo() for path in tmp_path.iterdir())


def test_a_killed_process_leaves_no_half_file(rows, tmp_path):
    """Whatever moment it is killed at, the old file stays or the new one is whole; what it left goes with the next."""
    out = tmp_path / "out.csv"
    write_table(out, {"label": [7]})
    before = out.read_bytes()
    command = [*COTERIE, "fit", rows, *QUICK, "--quiet", "--labels", out]
    with subprocess.Popen(command) as process:
        while process.poll() is None and len(files_in(tmp_path)) == 1:
            time.sleep(0.001)  # until it begins a file
        process.kill()
    assert out.read_bytes() == before or len(pd.read_csv(out)) == N
    write_table(out, {"label": [8]})
    assert files_in(tmp_path) == ["out.csv"]


def start(folder, *arguments):
    command = [*COTERIE, "fit", *map(str, arguments), "--labels", "out.csv", "--model", "m.coterie"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_stopped(process, folder, there):
    """Assert that Ctrl-C ends a process with one line and leaves nothing."""
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate()
    assert process.returncode == 130
    assert out == ""
    assert rest.splitlines()[-1] == "error: stopped; no file was left half-written"
    assert "Traceback" not in rest
    assert files_in(folder) == there


def test_ctrl_c_while_a_file_is_opened(tmp_path):
    """A pipe that nobody writes to holds the process where it reads its settings; rows in pipes are refused."""
    os.mkfifo(tmp_path / "pipe.toml")
    process = start(tmp_path, "rows.npy", "--config", "pipe.toml", *QUICK)
    writer = None
    while writer is None and process.poll() is None:
        try:
            writer = os.open(tmp_path / "pipe.toml", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # until somebody opens it to read
            time.sleep(0.01)
    check_stopped(process, tmp_path, ["pipe.toml"])
    os.close(writer)


@pytest.mark.parametrize("stage", ["preparation", "graphs", "round"])
def test_ctrl_c_between_stages(rows, tmp_path, stage):
    """The line that a stage ends with is the sign; the rounds after it would go on for long."""
    long = ["-k", "4", "--landmarks", "300", "--neighbors", "5", "--max-iter", "100000", "--set", "tol=0", "--verbose"]
    process = start(tmp_path, rows, *long)
    for line in process.stderr:
        if stage in line:
            break
    check_stopped(process, tmp_path, [])


def test_out_of_memory(rows, tmp_path):
    """A fit that needs more than there is says so in one line."""
    out = tmp_path / "out.csv"
    huge = ["-k", "4", "--landmarks", "7500", "--neighbors", "5", "--max-iter", "2"]
    runs = [["fit", rows, *huge, "--quiet", "--jobs", "1", "--labels", out]]
    ((code, said),) = run_limited(runs, memory=200 << 20)
    assert code == 2
    assert "allocate" in said or "memory" in said
    assert len(said.splitlines()) == 1
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["--version"], ["describe", MODEL, "--json"]])
def test_a_reader_that_leaves_ends_the_command_quietly(arguments):
    """As SIGPIPE ends other tools, by the same exit code and without a word."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as out:
        done = subprocess.run([*COTERIE, *arguments], stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 141
    assert done.stderr == ""


def test_nobody_reads_the_errors(tmp_path):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as err:
        done = subprocess.run([*COTERIE, "fit", str(tmp_path / "none.npy")], stdout=subprocess.PIPE, stderr=err)
    assert (done.returncode, done.stdout) == (141, b"")


@pytest.mark.parametrize("arguments", [["--help"], ["describe", MODEL], ["describe", MODEL, "--json"]])
def test_output_that_is_full_is_named(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COTERIE, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    said = f"error: standard output cannot be written: {os.strerror(errno.ENOSPC)}.\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("lost", ["2>&-", ">&-", ">&- 2>&-", "2>/dev/full"])
def test_a_command_runs_without_room_for_words(rows, tmp_path, lost):
    """Closed streams leave their numbers to the next files, and messages would stand in those."""
    out = tmp_path / "out.csv"
    command = shlex.join([*COTERIE, "fit", str(rows), *QUICK, "--labels", str(out)])
    assert subprocess.run(f"{command} {lost}", shell=True, stdout=subprocess.PIPE).returncode == 0
    assert len(pd.read_csv(out)) == N


def test_a_result_that_would_go_nowhere_is_an_error(rows, tmp_path):
    model = tmp_path / "m.coterie"
    subprocess.run([*COTERIE, "fit", rows, *QUICK, "--model", model, "-q"], check=True)
    for command in (
        ["describe", model],
        ["describe", model, "--toml"],
        ["drift", model, rows, "--json"],
        ["predict", model, rows, "--labels", "-"],
    ):
        line = f"{shlex.join(map(str, [*COTERIE, *command]))} >&-"
        done = subprocess.run(line, shell=True, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2, command
        assert done.stderr.splitlines()[-1].startswith("error: Standard output is closed, and the result goes nowhere")


def test_files_are_whole_though_nobody_reads_the_result(rows, tmp_path):
    out = tmp_path / "out.csv"
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as closed:
        done = subprocess.run([*COTERIE, "fit", rows, *QUICK, "--json", "--labels", out], stdout=closed)
    assert done.returncode == 141
    assert len(pd.read_csv(out)) == N
    assert files_in(tmp_path) == ["out.csv"]


# A fit whose rows are spilled, and which goes on for long.
SPILLED = """
import signal, sys
import numpy as np
from coterie import GuidedCoTraining
how = sys.argv[1]
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and this process inherits that
if how == "own handler":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
settings = dict(n_landmarks=30, n_neighbors=5, max_iter=100_000, tol=0, random_state=0)
if how == "finished":
    before = signal.getsignal(signal.SIGTERM)
    settings["max_iter"] = 2
model = GuidedCoTraining(4, memory_limit="1GB", **settings)
rows = np.random.default_rng(0).standard_normal((5_000, 6))
model.fit(rows)
assert signal.getsignal(signal.SIGTERM) is before
"""


@pytest.mark.parametrize(("how", "code"), [("plain", -signal.SIGTERM), ("hangup", -signal.SIGHUP), ("own handler", 7)])
def test_a_signal_that_ends_a_fit_leaves_no_spilled_rows(tmp_path, how, code):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", SPILLED, how]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list(tmp_path.glob("coterie-*/step_0003*")):
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP if how == "hangup" else signal.SIGTERM)
        try:
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()  # a fit that goes on would be waited for at the end of this block
    assert process.returncode == code, said
    assert files_in(tmp_path) == []


def test_handlers_of_signals_are_put_back(tmp_path):
    command = [sys.executable, "-c", SPILLED, "finished"]
    done = subprocess.run(command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert files_in(tmp_path) == []
