"""Files appear whole under their names or not at all, whatever happens to whoever writes them."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from coterie.files import write_text, written_whole


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(errno.ENOSPC, "No space left on device")])
def test_what_is_raised_while_writing_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "a.txt"
    write_text(path, "from before")

    def stopped():
        with written_whole(path) as file:
            file.write(b"half")
            raise error

    kind = error if isinstance(error, type) else OSError
    with pytest.raises(kind) as caught:
        stopped()
    assert kind is not OSError or str(path) in str(caught.value)
    assert path.read_text() == "from before"
    assert names(tmp_path) == ["a.txt"]


def test_errors_of_other_files_keep_their_names(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"other\.npy"), written_whole(tmp_path / "a.txt"):
        open(tmp_path / "other.npy").close()
    assert names(tmp_path) == []


def test_what_a_killed_process_left_is_replaced(tmp_path):
    code = """
import os, signal, sys
from coterie.files import written_whole
with written_whole(sys.argv[1]) as file:
    file.write(b"a long beginning")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "out.csv"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code, path])
        assert done.returncode == -signal.SIGKILL
        assert names(tmp_path) == [".out.csv.unfinished"]
    write_text(path, "short")
    assert names(tmp_path) == ["out.csv"]
    assert path.read_text() == "short"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_a_process_leaves_nothing_half_written(tmp_path, number):
    code = """
import os, signal, sys
from coterie.files import write_text, written_whole
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and this process inherits that
with written_whole(sys.argv[1]) as file, written_whole(sys.argv[1]) as second:
    write_text(sys.argv[1], "from before")  # whose end changes nothing for the others
    file.write(b"half")
    os.kill(os.getpid(), int(sys.argv[2]))
"""
    path = tmp_path / "out.csv"
    done = subprocess.run([sys.executable, "-c", code, path, str(int(number))])
    assert done.returncode == -number
    assert names(tmp_path) == ["out.csv"]
    assert path.read_text() == "from before"


def test_several_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "a.txt"
    with written_whole(path) as first:
        with written_whole(path) as second:
            assert first.name != second.name
            first.write(b"first")
            second.write(b"second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_that_is_replaced_keeps_who_may_read_it(tmp_path):
    path = tmp_path / "private.csv"
    path.touch()
    for mode in (0o600, 0o640):
        path.chmod(mode)
        with written_whole(path) as file:
            file.write(b"id,label\n")
            assert os.stat(file.name).st_mode & 0o777 == mode  # nobody else reads it meanwhile, either
        assert path.stat().st_mode & 0o777 == mode


def test_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError, match="It is a folder"), written_whole("."):
        pass
    with pytest.raises(ValueError, match="is a device or a pipe"), written_whole(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_in_the_way_is_not_followed(tmp_path):
    """Names that can be foretold must not lead anybody to write elsewhere."""
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".a.txt.unfinished").symlink_to(tmp_path / "precious")
    write_text(tmp_path / "a.txt", "new")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "a.txt").read_text() == "new"


@pytest.mark.parametrize("name", ["a" * 255, "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 85, "\N{GRINNING FACE}" * 63])
def test_the_longest_names(tmp_path, name):
    for _ in range(2):
        write_text(tmp_path / "new" / "folder" / name, "text")
    with written_whole(tmp_path / name), written_whole(tmp_path / name):
        pass
    assert os.listdir(tmp_path / "new" / "folder") == [name]
