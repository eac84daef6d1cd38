"""A child process: what it returns, what it raises, and that it is ended in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

from coterie.children import Child


def add(state, number):
    return state + number


def process_id(state):
    return os.getpid()


def sleep(state, seconds):
    time.sleep(seconds)


def kill_itself(state, number):
    os.kill(os.getpid(), number)


def leave(state):
    os._exit(7)


def refuse(state):
    raise ValueError(f"{state} is too much")


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raise_odd(state):
    raise OddError(1, 2)


def warn(state):
    warnings.warn("no end in sight", UserWarning, stacklevel=2)
    return "done"


@pytest.fixture(scope="module")
def child():
    with Child(40) as made:
        yield made


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_calls_share_a_process_and_its_state(child):
    assert child.call(add, 2) == 42
    assert child.call(process_id) == child.call(process_id) != os.getpid()


def test_errors_and_warnings_arrive(child):
    with pytest.raises(ValueError, match="40 is too much"):
        child.call(refuse)
    with pytest.raises(RuntimeError, match="OddError: 1 and 2"):
        child.call(raise_odd)
    with pytest.warns(UserWarning, match="no end in sight"):
        assert child.call(warn) == "done"


def test_what_takes_too_long_is_ended_and_the_next_call_has_a_new_process(child):
    before = child.call(process_id)
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"did not end within 0\.5 s"):
        child.call(sleep, 60, limit=0.5)
    assert time.monotonic() - started < 30
    assert not is_alive(before)
    assert child.call(add, 1) == 41


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (kill_itself, (signal.SIGKILL,), "was killed; most likely it needed more memory"),
        (kill_itself, (signal.SIGSEGV,), "ended by SIGSEGV"),
        (leave, (), "ended with exit code 7"),
    ],
)
def test_a_process_that_ends_itself_is_told(child, function, arguments, message):
    with pytest.raises(ChildProcessError, match=message):
        child.call(function, *arguments)
    assert child.call(add, 1) == 41


PARENT = """
import os, time
from coterie.children import Child
from tests.test_children import process_id, sleep
if __name__ == "__main__":
    child = Child()
    print(child.call(process_id), flush=True)
    child.call(sleep, 600)
"""


def test_a_child_ends_with_its_parent(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT, encoding="utf-8")
    path = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(pid)


def test_a_process_that_cannot_be_started_says_why():
    """A state that cannot be sent stands for what an operating system refuses."""
    with pytest.raises(Exception, match="lambda"), Child(lambda: None) as never:
        never.call(add, 1)
