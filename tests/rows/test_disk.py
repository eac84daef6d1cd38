"""Rows in files: the same answer as in memory, under a limit, and after the process was killed."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from coterie import GuidedCoTraining, suggest_k
from coterie.datasets import make_views
from coterie.method.graphs import Block
from coterie.rows.block_files import read_value, write_value
from coterie.rows.disk import DiskRows
from coterie.rows.memory import MemoryRows
from coterie.rows.work_folder import FOLDER, WorkFolder, open_work_folder
from coterie.views import as_views

FITTED = ("labels_", "confidence_", "embedding_", "cluster_centers_", "medoid_indices_", "landmark_indices_")


@pytest.fixture(scope="module")
def views():
    return list(make_views(1500, n_clusters=4, separation=4, random_state=0).views.values())


def model(**settings):
    given = {"n_landmarks": 200, "store_embedding": True, "random_state": 3, **settings}
    return GuidedCoTraining(4, block_size=200, **given)


@pytest.fixture(scope="module")
def in_memory(views):
    return model().fit(views)


def assert_same_fit(found, expected):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    assert found.stability_ == expected.stability_


# -- values in files ------------------------------------------------------------------------------------------------


def test_values_come_back_as_they_were(tmp_path, rng):
    block = Block(rng.integers(0, 9, (5, 3)).astype(np.uint16), rng.random((5, 3), dtype=np.float32))
    value = [block, (np.float64(2.5), 3), np.zeros((0, 2)), "name", None]
    with open(tmp_path / "value", "wb") as file:
        write_value(file, value)
    with open(tmp_path / "value", "rb") as file:
        found = read_value(file)
    assert isinstance(found[0], Block)
    assert found[0].indices.dtype == np.uint16
    np.testing.assert_array_equal(found[0].weights, block.weights)
    assert found[1:2] + found[3:] == [(2.5, 3), "name", None]
    assert found[2].shape == (0, 2)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_verbs_are_those_of_memory(tmp_path, rng, n_threads):
    data = rng.standard_normal((100_003, 3)).astype(np.float32)
    blocks = np.array_split(data, 23)
    memory = MemoryRows(blocks, n_rows=len(data), n_threads=n_threads)
    disk = DiskRows(blocks, n_rows=len(data), n_threads=n_threads, folder=WorkFolder(tmp_path))

    def add(block, total):
        total[0][...] += block.T @ block

    for one, two in ((memory, disk), (memory.map(np.square), disk.map(np.square))):
        numbers = np.array([0, 5, 50_000, 100_002])
        np.testing.assert_array_equal(one.take(numbers), two.take(numbers))
        np.testing.assert_array_equal(one.collect(np.exp), two.collect(np.exp))
        np.testing.assert_array_equal(*(rows.sum(add, lambda: (np.zeros((3, 3), np.float32),)) for rows in (one, two)))
        assert one.each(len) == two.each(len)
        assert [len(part) for part in one.stream(np.exp)] == [len(part) for part in two.stream(np.exp)]


def test_replaced_blocks_are_given_up(tmp_path, rng):
    folder = WorkFolder(tmp_path)
    rows = DiskRows(list(rng.standard_normal((4, 10, 2))), n_rows=40, n_threads=2, folder=folder).map(np.square)
    assert len(list((tmp_path / "step_0001").iterdir())) == 5
    rows.replace(np.sqrt)
    assert sorted(path.name for path in (tmp_path / "step_0001").iterdir()) == ["consumed", "whole"]
    assert len(list((tmp_path / "step_0002").iterdir())) == 5


# -- fits -----------------------------------------------------------------------------------------------------------


def test_a_fit_in_files_is_the_fit_in_memory(tmp_path, views, in_memory):
    found = model(work_dir=tmp_path / "work").fit(views)
    assert_same_fit(found, in_memory)
    assert list((tmp_path / "work").iterdir()) == []


def test_a_limit_sends_rows_to_files(tmp_path, views, in_memory, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    limited = model(memory_limit="1GB")  # which is what a fit takes without any rows
    found = limited.fit(views)
    assert_same_fit(found, in_memory)
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(found.predict(views), in_memory.labels_)


def test_the_number_of_clusters_is_found_in_files_too(tmp_path, views):
    plain = GuidedCoTraining("auto", n_landmarks=200, random_state=0).fit(views)
    found = GuidedCoTraining("auto", n_landmarks=200, random_state=0, work_dir=tmp_path).fit(views)
    assert found.n_clusters_ == plain.n_clusters_ == 4
    np.testing.assert_array_equal(found.labels_, plain.labels_)


@pytest.mark.parametrize("stop_after", [1, 3, 7, 12, 20, 40])
def test_a_job_that_failed_is_resumed(tmp_path, views, in_memory, monkeypatch, stop_after):
    """Whatever has been written when a job ends, the next call goes on from there."""
    writes = 0
    write = WorkFolder.write

    def write_or_stop(self, *arguments):
        nonlocal writes
        writes += 1
        if writes > stop_after:
            raise KeyboardInterrupt
        write(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(WorkFolder, "write", write_or_stop)
        with pytest.raises(KeyboardInterrupt):
            model(work_dir=tmp_path).fit(views)
    assert (tmp_path / FOLDER / "job.json").exists()
    assert_same_fit(model(work_dir=tmp_path, n_jobs=1).fit(views), in_memory)


JOB = """
import sys
import numpy as np
from coterie import GuidedCoTraining, suggest_k
views = [np.load(path, mmap_mode="r") for path in sys.argv[2:4]]
model = GuidedCoTraining(4, block_size=50, n_landmarks=100, max_iter=6, tol=0, random_state=5, work_dir=sys.argv[1])
np.save(sys.argv[4], model.fit(views).labels_)
"""


def count_files(folder):
    return sum(len(files) for _, _, files in os.walk(folder))


def test_a_killed_process_is_resumed(tmp_path, views):
    """Killed at no particular moments, a job ends as it would have."""
    for name, view in zip("ab", views, strict=False):
        np.save(tmp_path / f"{name}.npy", view)
    paths = [tmp_path / name for name in ("work", "a.npy", "b.npy", "labels.npy")]
    command = [sys.executable, "-c", JOB, *map(str, paths)]
    for more in np.random.default_rng().integers(4, 60, size=3):
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        enough = count_files(tmp_path / "work") + more
        while process.poll() is None and count_files(tmp_path / "work") < enough:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "work").iterdir()) == []
    plain = GuidedCoTraining(4, block_size=50, n_landmarks=100, max_iter=6, tol=0, random_state=5).fit(views[:2])
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), plain.labels_)


def test_what_was_drawn_is_not_drawn_again(tmp_path, views):
    leave_unfinished(tmp_path, views, random_state=np.random.RandomState(7))
    found = model(work_dir=tmp_path, random_state=None).fit(views)
    assert_same_fit(found, model(random_state=np.random.RandomState(7)).fit(views))


# -- folders that cannot be used ------------------------------------------------------------------------------------


def leave_unfinished(folder, views, **settings):
    class Stop(Exception):
        pass

    def stop(stage):
        if stage == "rounds":
            raise Stop

    from coterie.progress import listening

    with pytest.raises(Stop), listening(stop):
        model(work_dir=folder, **settings).fit(views)


@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({"n_clusters": 3}, "n_clusters is 4, here it is 3"),
        ({"random_state": 4}, "random_state is 3, here it is 4"),
        ({"scaling": "block"}, "scaling is 'auto', here it is 'block'"),
    ],
)
def test_another_job_is_not_mixed_in(tmp_path, views, change, culprit):
    leave_unfinished(tmp_path, views)
    with pytest.raises(ValueError, match=culprit):
        model(work_dir=tmp_path).set_params(**change).fit(views)
    with pytest.raises(ValueError, match=r"view 'view0' is .* fingerprint"):
        model(work_dir=tmp_path).fit([views[0] + 1, *views[1:]])
    model(work_dir=tmp_path, verbose=0, n_jobs=1).fit(views)


def test_views_in_another_order_are_another_job(tmp_path, views):
    one, two = views[:2]
    leave_unfinished(tmp_path, {"one": one, "two": two})
    with pytest.raises(ValueError, match="another job, unfinished: there order of views is"):
        model(work_dir=tmp_path).fit({"two": two, "one": one})


def test_a_home_folder_is_found_and_a_file_is_no_folder(tmp_path, views, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    leave_unfinished("~/work", views)
    assert (tmp_path / "work" / FOLDER / "job.json").exists()
    model(work_dir=tmp_path / "work").fit(views)
    (tmp_path / "work" / FOLDER).write_text("mine")
    for path in (tmp_path / "work", tmp_path / "work" / FOLDER):
        with pytest.raises(ValueError, match="there is a file where"):
            model(work_dir=path).fit(views)
    assert (tmp_path / "work" / FOLDER).read_text() == "mine"


def test_a_suggestion_does_not_resume_a_fit(tmp_path, views):
    """Both begin with the same graphs, and then take other rows."""
    leave_unfinished(tmp_path, views, store_embedding=False)
    with pytest.raises(ValueError, match="there task is None, here it is 'suggest_k'"):
        suggest_k(views, k_max=4, n_landmarks=200, work_dir=tmp_path, block_size=200, random_state=3)


def everything_in(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_users_own_files_survive(tmp_path, views, in_memory):
    """Whatever their names are, beside the job's folder and inside of it."""
    own = ("thesis.tex", "step_0001", "step_0002/000000", "lock", "job.json.unfinished", "coterie-job.txt")
    for name in own:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("years of work")
    before = everything_in(tmp_path)
    leave_unfinished(tmp_path, views)
    for name in ("notes", "step_notes", "step_0001/notes"):
        (tmp_path / FOLDER / name).write_text("years of work")
        before[Path(FOLDER) / name] = b"years of work"
    assert_same_fit(model(work_dir=tmp_path).fit(views), in_memory)
    found = everything_in(tmp_path)
    assert before.items() <= found.items()
    assert {path.name for path in found if path not in before} == {"made-by-coterie", "lock"}  # it is still ours
    assert_same_fit(model(work_dir=tmp_path).fit(views), in_memory)
    assert before.items() <= everything_in(tmp_path).items()


@pytest.mark.parametrize("content", ['{"name": "backup"}', "[1, 2]", "not JSON", ""])
@pytest.mark.parametrize("where", ["", FOLDER])
def test_a_foreign_job_is_refused_in_words(tmp_path, views, where, content):
    (tmp_path / where).mkdir(exist_ok=True)
    (tmp_path / where / "job.json").write_text(content)
    before = everything_in(tmp_path)
    with pytest.raises(ValueError, match=r"job\.json.* Name another"):
        model(work_dir=tmp_path).fit(views)
    assert everything_in(tmp_path) == before


def test_two_processes_do_not_share_a_folder(tmp_path, views):
    with open_work_folder(tmp_path, {}, 0), pytest.raises(ValueError, match="in use by another process"):
        model(work_dir=tmp_path).fit(views)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_a_file_system_without_locks_is_said_and_used(tmp_path, views, in_memory, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr("coterie.files.fcntl.flock", refuse)
    with pytest.warns(UserWarning, match="is on a file system without locks.*Give every fit a folder of its own"):
        found = model(work_dir=tmp_path).fit(views)
    np.testing.assert_array_equal(found.labels_, in_memory.labels_)


@pytest.mark.parametrize("limit", ["500MB", "lots", -1, 2.5, True, "1.2.3GB"])
def test_a_limit_must_be_a_size(views, limit):
    with pytest.raises(ValueError, match="'memory_limit' parameter of GuidedCoTraining must be a number of bytes"):
        model(memory_limit=limit).fit(views)


@pytest.mark.parametrize("name", ["memory_limit", "work_dir"])
def test_files_are_not_for_a_gpu(tmp_path, views, name):
    pytest.importorskip("torch")
    value = {"memory_limit": "4GB", "work_dir": str(tmp_path)}[name]
    with pytest.raises(ValueError, match=f"'{name}' parameter .* must be None with device='torch'"):
        model(device="torch", **{name: value}).fit(views)


# -- what is read ---------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, views):
    paths = []
    for number, view in enumerate(views):
        paths.append(tmp_path / f"view{number}.npy")
        np.save(paths[-1], view)
    return paths


def test_paths_and_maps_are_views(files, views, in_memory):
    maps = [np.load(path, mmap_mode="r") for path in files]
    named = {path.stem: str(path) for path in files}
    for X in (files, list(map(str, files)), named, maps, [maps[0], *views[1:]]):
        found = model().fit(X)
        np.testing.assert_array_equal(found.labels_, in_memory.labels_)
        np.testing.assert_array_equal(found.predict(X), in_memory.labels_)
    assert model().fit(named).view_names_ == tuple(named)


def test_a_map_shows_what_it_shows(files, views):
    """Part of a map, another byte order, and a map with changes of its own."""
    whole = np.load(files[0], mmap_mode="r")
    found = model().fit([whole[300:1100], views[1][300:1100]])
    expected = model().fit([views[0][300:1100], views[1][300:1100]])
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.save(files[0], views[0].astype(">f8"))
    swapped = model().fit([np.load(files[0], mmap_mode="r"), views[1]])
    np.testing.assert_array_equal(swapped.labels_, model().fit([views[0].astype("f8"), views[1]]).labels_)
    changed = np.load(files[0], mmap_mode="c")
    changed[:] = np.random.default_rng(0).permutation(changed)
    found = model().fit([changed, views[1]])
    np.testing.assert_array_equal(found.labels_, model().fit([np.array(changed), views[1]]).labels_)


def read_as_map(path):
    """A map, and the table that a fit would read from it."""
    mapped = np.load(path, mmap_mode="r")
    return mapped, as_views([mapped])[0].data


def test_an_open_map_is_read_whatever_became_of_its_path(files, views):
    """Its file is removed, replaced by another of the same size, and replaced before the map becomes a view."""
    mapped, table = read_as_map(files[0])
    other = views[0][::-1].copy()
    np.save(files[0].with_name("other.npy"), other)
    files[0].unlink()
    np.testing.assert_array_equal(table[100:300], views[0][100:300])
    files[0].with_name("other.npy").rename(files[0])
    np.testing.assert_array_equal(table[1000:], views[0][1000:])
    late = as_views([mapped])[0].data
    np.testing.assert_array_equal(late[np.array([3, 900, 1499])], views[0][[3, 900, 1499]])
    np.testing.assert_array_equal(as_views([mapped[200:700]])[0].data[:], views[0][200:700])


def test_a_map_does_not_fill_the_memory(tmp_path):
    """Pages that were read are given back, as the kernel counts them."""
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("the kernel does not tell")
    np.save(tmp_path / "large.npy", np.ones((40_000, 250)))  # 80 MB
    mapped, table = read_as_map(tmp_path / "large.npy")

    def mapped_kb():
        found, inside = 0, False
        for line in Path("/proc/self/smaps").read_text().splitlines():
            inside = line.endswith("large.npy") or (inside and not line[:1].isdigit())
            found += int(line.split()[1]) if inside and line.startswith("Rss:") else 0
        return found

    assert sum(table[start : start + 2000].sum() for start in range(0, 40_000, 2000)) == mapped.size
    assert mapped_kb() < 2000
    assert mapped.sum() == mapped.size
    assert mapped_kb() > 70_000  # as it would have been


def test_a_map_whose_file_was_cut_is_refused(files):
    """Reading it would end the process: also where the map becomes a view later, and its file has another name."""
    mapped, table = read_as_map(files[0])
    moved = files[0].rename(files[0].with_name("moved.npy"))
    os.truncate(moved, 5000)
    for cut in (table, as_views([mapped])[0].data):
        with pytest.raises(ValueError, match=r"view0.npy was cut to 5000 bytes while it was mapped"):
            cut[1000:]


def test_a_file_that_was_replaced_is_refused(files, views):
    """Half of the rows would be those of another file."""
    table = as_views([files[0]])[0].data
    table[:10]
    np.save(files[0].with_name("other.npy"), views[0][::-1])
    files[0].with_name("other.npy").rename(files[0])
    with pytest.raises(ValueError, match=r"view0.npy was changed or replaced while it was read. Open it again."):
        table[10:]


def test_rows_of_nan_in_files_lack_the_view(tmp_path, views, rng):
    views = [np.array(view, dtype=np.float32) for view in views[:2]]
    for view in views:
        view[rng.choice(1500, 200, replace=False)] = np.nan
    lost = np.isnan(views[0][:, 0]) & np.isnan(views[1][:, 0])
    views = [view[~lost] for view in views]
    paths = [tmp_path / "a.npy", tmp_path / "b.npy"]
    for path, view in zip(paths, views, strict=True):
        np.save(path, view)
    plain = model().fit(views)
    assert (plain.view_labels(views) < 0).any()
    for X in (paths, [np.load(path, mmap_mode="r") for path in paths]):
        found = model().fit(X)
        np.testing.assert_array_equal(found.labels_, plain.labels_)
        np.testing.assert_array_equal(found.predict(X), plain.labels_)
        np.testing.assert_array_equal(found.view_labels(X), plain.view_labels(views))


def test_a_single_nan_in_a_file_is_still_refused(tmp_path, views):
    broken = np.array(views[0])
    broken[700, 1] = np.nan
    np.save(tmp_path / "a.npy", broken)
    with pytest.raises(ValueError, match="row 700"):
        model().fit([tmp_path / "a.npy", views[1]])


def test_predictions_come_block_by_block(files, views, in_memory):
    parts = list(in_memory.stream(files))
    assert [part.first_row for part in parts] == list(range(0, 1500, 200))
    np.testing.assert_array_equal(np.concatenate([part.labels for part in parts]), in_memory.labels_)
    np.testing.assert_array_equal(np.concatenate([part.confidence for part in parts]), in_memory.confidence(views))
    np.testing.assert_array_equal(np.concatenate([part.embedding for part in parts]), in_memory.transform(views))
