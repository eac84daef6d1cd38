"""A job's files: what is damaged is noticed, named and computed again, whatever else was given up meanwhile."""

import errno
import json
import os
import re
import shutil
import subprocess
from zlib import crc32

import numpy as np
import pytest

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.progress import listening
from coterie.rows.block_files import MAGIC, PREFIX, DamagedFileError, read_value, write_value
from coterie.rows.disk import DiskRows
from coterie.rows.work_folder import FOLDER, FORMAT, WorkFolder, open_work_folder


def zeroed(data):
    return bytes(len(data))


def emptied(data):
    return b""


def cut(data):
    return data[: len(data) // 2]


def prolonged(data):
    return data + b"\0"


def flipped(at):
    def flip(data):
        data = bytearray(data)
        data[int(at * (len(data) - 1))] ^= 4
        return bytes(data)

    return flip


DAMAGE = {
    "zeros": zeroed,
    "empty": emptied,
    "cut": cut,
    "prolonged": prolonged,
    **{f"bit at {at}": flipped(at) for at in (0, 0.02, 0.1, 0.5, 1)},
}


@pytest.fixture(params=DAMAGE)
def damage(request):
    """A function that damages a file in one way."""

    def harm(path):
        path.write_bytes(DAMAGE[request.param](path.read_bytes()))

    return harm


# -- files ----------------------------------------------------------------------------------------------------------


def written(path, value, label=""):
    with open(path, "wb") as file:
        write_value(file, value, label)
    return path


def reread(path, label=""):
    with open(path, "rb") as file:
        return read_value(file, label)


def test_every_byte_is_covered(tmp_path):
    path = written(tmp_path / "value", [np.arange(5, dtype=np.int16), (2.5, None), "name"])
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(DamagedFileError):
            reread(path)
        path.write_bytes(whole[:at])
        with pytest.raises(DamagedFileError):
            reread(path)


@pytest.mark.parametrize(
    "shape", [{"dtype": "<f8", "shape": [-1]}, {"dtype": "nonsense", "shape": [2]}, {"dtype": "<f8", "shape": [2**70]}]
)
def test_a_description_that_nobody_wrote_is_damage_too(tmp_path, shape):
    """Its checksum is right, so whoever made the file meant it."""
    header = {"label": "", "value": {"kind": "array"}, "arrays": [{**shape, "fortran": False}]}
    rest = json.dumps(header).encode() + b"\n" + bytes(16)
    (tmp_path / "value").write_bytes(PREFIX.pack(MAGIC, len(rest), crc32(rest)) + rest)
    with pytest.raises(DamagedFileError, match="written by something else"):
        reread(tmp_path / "value")


def test_arrays_keep_their_layout(tmp_path, rng):
    plain = rng.standard_normal((4, 3))
    for array in (plain, plain.T, plain[::2], plain[:0], np.array(2.5), plain.astype(">f4"), np.array(["a", "bc"])):
        found = reread(written(tmp_path / "value", array))
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype
        assert found.flags.f_contiguous == array.flags.f_contiguous or not array.flags.forc
        assert found.flags.writeable


def test_a_file_is_of_one_step(tmp_path):
    path = written(tmp_path / "value", 3, "step 1")
    assert reread(path, "step 1") == 3
    with pytest.raises(DamagedFileError, match="it holds 'step 1' and not 'step 2'"):
        reread(path, "step 2")


def test_objects_are_not_written(tmp_path):
    with pytest.raises(TypeError, match="array of object"):
        written(tmp_path / "value", np.array([{}]))


# -- rows -----------------------------------------------------------------------------------------------------------


def add(block, total):
    total[0][...] += block.sum(axis=0)


def work(folder, blocks):
    """Three steps over blocks, of which the first is consumed, and two over their sums."""
    rows = DiskRows(blocks, n_rows=sum(map(len, blocks)), n_threads=2, folder=folder)
    mapped = rows.map(np.square)
    first = mapped.sum(add, lambda: (np.zeros(2),))
    replaced = mapped.replace(np.sqrt).map(np.cbrt)
    return first[0], replaced.collect(np.exp), replaced.take(np.array([0, 7, 39]))


@pytest.fixture
def blocks(rng):
    return list(rng.standard_normal((4, 10, 2)))


# Step 1 is a map, 2 a sum over it, 3 replaced it, 4 is a map of that, which 5 and 6 collect and take rows of.
HARMED = {
    "a sum of blocks that are gone": ["step_0002"],
    "a block": ["step_0004/000001"],
    "a block and what it was made of": ["step_0003/000002", "step_0004/000002"],
    "all rows": ["step_0005"],
    "everything": ["step_0002", "step_0005", "step_0006", *(f"step_000{i}/00000{j}" for i in (3, 4) for j in range(4))],
}


@pytest.mark.parametrize("harmed", HARMED.values(), ids=HARMED)
def test_damaged_results_are_computed_again(tmp_path, blocks, damage, harmed):
    expected = work(WorkFolder(tmp_path), blocks)
    for name in {"step_0005", "step_0006"} - set(harmed):
        (tmp_path / name).unlink()  # so that blocks are read once more
    for name in harmed:
        damage(tmp_path / name)
    with pytest.warns(UserWarning, match=r"was damaged: .*computed again") as caught:
        found = work(WorkFolder(tmp_path), blocks)
    named = {re.search(r"step_\S+", str(warning.message))[0] for warning in caught}
    assert named <= set(harmed)
    assert harmed[-1] in named or len(named) == 10
    for resumed in (found, work(WorkFolder(tmp_path), blocks)):  # the second time without a warning
        for one, other in zip(resumed, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_missing_blocks_are_computed_again(tmp_path, blocks):
    expected = work(WorkFolder(tmp_path), blocks)
    for name in ("step_0004/000001", "step_0005"):
        (tmp_path / name).unlink()
    with pytest.warns(UserWarning, match=r"step_0004/000001 was damaged: it is missing"):
        found = work(WorkFolder(tmp_path), blocks)
    np.testing.assert_array_equal(found[1], expected[1])


def test_blocks_that_changed_places_are_noticed(tmp_path, blocks):
    expected = work(WorkFolder(tmp_path), blocks)
    (tmp_path / "step_0005").unlink()
    shutil.copy(tmp_path / "step_0004/000001", tmp_path / "step_0004/000002")
    with pytest.warns(UserWarning, match=r"000002 was damaged: it holds '/step_0004/000001'"):
        found = work(WorkFolder(tmp_path), blocks)
    np.testing.assert_array_equal(found[1], expected[1])


def test_a_replaced_block_is_kept_until_the_new_one_is_whole(tmp_path, blocks, damage):
    """Of a step that was killed, the blocks that it had finished are looked at before the old ones are given up."""
    expected = work(WorkFolder(tmp_path), blocks)
    for name in ("step_0003/whole", "step_0004/whole", "step_0005", "step_0006"):
        (tmp_path / name).unlink()
    damage(tmp_path / "step_0003/000000")
    shutil.rmtree(tmp_path / "step_0004")
    with pytest.warns(UserWarning, match=r"step_0003/000000 was damaged"):
        found = work(WorkFolder(tmp_path), blocks)
    np.testing.assert_array_equal(found[1], expected[1])


def test_long_histories_are_no_deeper_than_short_ones(tmp_path):
    """A block whose sources were given up two thousand times over is computed from the first."""
    rows = DiskRows([np.zeros((1, 1))], n_rows=1, n_threads=1, folder=WorkFolder(tmp_path))
    rows = rows.map(np.copy)
    for _ in range(2000):
        rows = rows.replace(lambda block: block + 1)
    rows.step.path_of(0).write_bytes(b"")
    with pytest.warns(UserWarning, match="it is empty"):
        assert rows.collect(np.copy) == 2000


# -- jobs -----------------------------------------------------------------------------------------------------------


def leave_unfinished(path, drawn):
    """Begin a job, and stop it after its first step."""
    with open_work_folder(path, {"k": 3}, drawn) as (folder, _):
        folder.remember(lambda: "before")
        raise KeyboardInterrupt


def resume(path, drawn):
    """Return a job's seed and the result of its first step."""
    with open_work_folder(path, {"k": 3}, drawn) as (folder, found):
        return found, folder.remember(lambda: "now")


def is_foreign(path):
    try:
        return json.loads(path.read_bytes()).get("format") != FORMAT
    except ValueError:
        return False


def test_a_damaged_description_begins_the_job_again(tmp_path, damage):
    with pytest.raises(KeyboardInterrupt):
        leave_unfinished(tmp_path, 7)
    known = tmp_path / FOLDER / "job.json"
    damage(known)
    if is_foreign(known):
        with pytest.raises(ValueError, match="was not written by this version of Coterie"):
            resume(tmp_path, 8)
        return
    with pytest.warns(UserWarning, match=r"job.json was damaged. The job is begun again"):
        assert resume(tmp_path, 8) == (8, "now")
    assert list(tmp_path.iterdir()) == []


def test_an_undamaged_job_goes_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        leave_unfinished(tmp_path, 7)
    assert resume(tmp_path, 8) == (7, "before")
    assert resume(tmp_path, 8) == (8, "now")


def test_jobs_do_not_share_results(tmp_path):
    """A file of another job, put where this one has its own."""
    for name in ("a", "b"):
        with pytest.raises(KeyboardInterrupt):
            leave_unfinished(tmp_path / name, 0)
    shutil.copy(tmp_path / "a" / FOLDER / "step_0001", tmp_path / "b" / FOLDER / "step_0001")
    with pytest.warns(UserWarning, match="step_0001 was damaged: it holds"):
        assert resume(tmp_path / "b", 0) == (0, "now")


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("may not mount")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_explained_and_the_job_resumed(small_disk):
    blocks = list(np.ones((8, 500, 4)))  # of 16,020 bytes each in a file, and three of them fit
    said = r"No space left on device: [\d,]+ bytes are free, and this step needs 80,100 bytes more. Make room"
    with pytest.raises(OSError, match=said) as caught, open_work_folder(small_disk, {}, 0) as (folder, _):
        DiskRows(blocks, n_rows=4000, n_threads=1, folder=folder).map(np.square)
    step = small_disk / FOLDER / "step_0001"
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(step / "000003")
    assert sorted(path.name for path in step.iterdir()) == ["000000", "000001", "000002"]
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    with open_work_folder(small_disk, {}, 0) as (folder, _):
        rows = DiskRows(blocks, n_rows=4000, n_threads=1, folder=folder).map(np.square)
        assert rows.collect(lambda block: block.sum(axis=1)).sum() == 16_000


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EFBIG, r"File too large: this step needs [\d,]+ bytes more. Allow larger files \(ulimit -f\) and"),
        (errno.EDQUOT, r"Disk quota exceeded: this step needs [\d,]+ bytes more. Make room and call fit"),
    ],
)
def test_a_limit_is_not_mistaken_for_a_full_disk(tmp_path, monkeypatch, number, said):
    """There may be gigabytes free, and no use in making room."""

    def fail(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("coterie.rows.work_folder.write_value", fail)
    with pytest.raises(OSError, match=said), open_work_folder(tmp_path, {}, 0) as (folder, _):
        DiskRows([np.ones((5, 2))], n_rows=5, n_threads=1, folder=folder).map(np.square)


# -- fits -----------------------------------------------------------------------------------------------------------


def stop_at(stage):
    def stop(now):
        if now == stage:
            raise KeyboardInterrupt

    return listening(stop)


@pytest.mark.parametrize("stage", ["assignment", "explanation"])
def test_a_fit_whose_every_file_is_damaged(tmp_path, stage):
    """Neighbours and rounds were given up; all are made again, to the last bit."""
    views = list(make_views(600, n_clusters=3, separation=4, random_state=0).views.values())
    model = GuidedCoTraining(3, block_size=100, n_landmarks=60, max_iter=3, tol=0, random_state=0)
    expected = model.fit(views).confidence_
    model.set_params(work_dir=tmp_path)
    with pytest.raises(KeyboardInterrupt), stop_at(stage):
        model.fit(views)
    for number, path in enumerate(sorted(tmp_path.rglob("*"))):
        if path.is_file() and path.stat().st_size and path.name != "job.json":
            path.write_bytes(list(DAMAGE.values())[number % len(DAMAGE)](path.read_bytes()))
    with pytest.warns(UserWarning, match="was damaged"):
        found = model.fit(views).confidence_
    np.testing.assert_array_equal(found, expected)
