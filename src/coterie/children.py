"""A child process that calls one function after another, and is killed if one takes too long."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

START_SECONDS = 300.0  # for a child to start, also on a busy machine


@dataclass(frozen=True)
class Answer:
    """The outcome of a call."""

    result: Any
    error: Exception | None
    warnings: tuple[tuple[str, type[Warning]], ...]


class Child:
    """A child process for calls ``function(state, *arguments)``; if it was ended, the next call starts another.

    Parameters
    ----------
    state : object
        The first argument of every call. A copy is sent to every new process, once.

    Examples
    --------
    >>> with Child(2) as child:
    ...     child.call(pow, 10, limit=60)
    1024
    """

    def __init__(self, state: Any = None) -> None:
        self._state = state
        self._process: Any = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def call(self, function: Callable[..., Any], *arguments: Any, limit: float | None = None) -> Any:
        """Return what the function returns; its errors and warnings are raised here.

        Raises
        ------
        TimeoutError
            If it takes more than ``limit`` seconds, the start of the process not counted; the process is ended.
        ChildProcessError
            If the process ends before it has answered.
        """
        pipe = self._pipe or self._start()
        try:
            pipe.send((function, arguments))
            if not pipe.poll(limit):
                self.end()
                raise TimeoutError(f"did not end within {limit:g} s")
            answer = pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise ChildProcessError(self._how_it_ended()) from None
        except KeyboardInterrupt:
            self.end()
            raise
        for message, category in answer.warnings:
            warnings.warn(message, category, stacklevel=2)
        if answer.error is not None:
            raise answer.error
        return answer.result

    def end(self) -> None:
        """Kill the process, whatever it is doing."""
        process = self._process
        self._process = self._pipe = None  # the pipe stays open: a thread may wait at it, and is told of the end
        if process is not None:
            process.kill()
            process.join()

    def _start(self) -> Connection:
        # A fork would copy locks that other threads hold.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=answer_calls, args=(theirs, self._state), daemon=True)
        try:
            self._process.start()
        except BaseException:
            self._process = self._pipe = None  # there is nothing to end
            raise
        finally:
            theirs.close()
        try:
            ready = self._pipe.poll(START_SECONDS) and self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise ChildProcessError(self._how_it_ended()) from None
        if not ready:
            self.end()
            raise ChildProcessError(f"a new process was not ready within {START_SECONDS:g} s")
        return self._pipe

    def _how_it_ended(self) -> str:
        process = self._process
        if process is None:
            return "the process was ended"
        process.join(5)
        code = process.exitcode
        self.end()
        if code == -signal.SIGKILL:
            return "the process was killed; most likely it needed more memory than there is"
        how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else f"with exit code {code}"
        return f"the process ended {how}"


# -- in the child -----------------------------------------------------------------------------------------------


def answer_calls(pipe: Connection, state: Any) -> None:
    """Answer calls until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the parent, which ends this process
    end_with_parent()
    pipe.send(True)
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(answer(function, state, arguments))


def answer(function: Callable[..., Any], state: Any, arguments: tuple[Any, ...]) -> Answer:
    """Call a function, and return its result or error, and its warnings."""
    result, error = None, None
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        try:
            result = function(state, *arguments)
        except Exception as raised:  # it is raised again in the parent
            error = portable(raised)
    return Answer(result, error, tuple((str(one.message), one.category) for one in found))


def portable(error: Exception) -> Exception:
    """Return an error if it can be pickled, else a RuntimeError with its message."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # some errors cannot be made again from their message alone
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def end_with_parent() -> None:
    """End this process when its parent has ended, for whatever reason."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
