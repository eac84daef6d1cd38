"""Children that read files: what becomes of one that crashes, hangs, takes too much memory or says what is wrong."""

import sys
import time

import pytest

from coterie.formats import FormatError
from coterie.formats.isolated import Limits, last_line, read_isolated

CHILD = """
import ctypes, sys, time
from coterie.formats.isolated import run_child

def write(path, out):
    what = open(path).read()
    if what == "crash":
        ctypes.string_at(0)
    if what == "hang":
        time.sleep(60)
    if what == "memory":
        bytearray(8 << 30)
    if what == "refuse":
        raise ValueError("its third byte\\nis not 7.")
    if what == "print":
        print("not content")
    if what == "exit":
        sys.exit(5)
    if what != "nothing":
        out.write(b"content")

if __name__ == "__main__":
    run_child(write, sys.argv[1:])
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Return a function that reads a file of one word in a child."""
    (tmp_path / "module_of_a_child.py").write_text(CHILD)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def read_word(word, seconds=30.0):
        path = tmp_path / "x.bin"
        path.write_text(word)
        return path, lambda: read_isolated("module_of_a_child", path, Limits(4 << 30, seconds))

    return read_word


def test_content_comes_back(read):
    _, run = read("print")
    assert run()[:] == b"content"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("crash", "it ended the process that read it (SIGSEGV)"),
        ("memory", "it needs more than 4,096 MiB of memory, too much for a file of its size"),
        ("refuse", "its third byte is not 7"),
        ("exit", "the process that read it ended with 5: it says nothing"),
        ("nothing", "the process that read it ended with 0: it says nothing"),
    ],
)
def test_a_child_that_fails_is_a_refusal_in_words(read, word, reason):
    path, run = read(word)
    with pytest.raises(FormatError) as caught:
        run()
    assert str(caught.value) == f"{path} cannot be read: {reason}. Is it complete? Write it again."


def test_a_child_that_hangs_is_ended(read):
    _, run = read("hang", seconds=3.0)
    started = time.monotonic()
    with pytest.raises(FormatError, match="it took more than 3 s"):
        run()
    assert time.monotonic() - started < 30


def test_limits_follow_the_file(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(bytes(100))
    small = Limits.for_file(path)
    path.write_bytes(bytes(1 << 22))
    large = Limits.for_file(path)
    assert small.memory < large.memory
    assert small.seconds < large.seconds
    with open(path, "rb") as said:
        assert last_line(said) == "\0" * 4096
