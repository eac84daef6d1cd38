"""Output to a pipe whose reader may close it, as ``head`` does: the command then ends silently, as other tools do.

The device may also be full, or the output closed from the start, as some job schedulers leave it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

READER_LEFT = 141  # 128 + SIGPIPE, the exit code that a shell reports for a process that SIGPIPE ended
CANNOT_WRITE = 2


class Output:
    """A text stream that ends the command when its pipe is closed or, on standard output, when a write fails.

    The errors are handled here because libraries turn them into exit codes of their own.
    """

    def __init__(self, stream: Any, was_closed: bool = False) -> None:
        self._stream = stream
        self.was_closed = was_closed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text."""
        with self._watched():
            return self._stream.write(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with self._watched():
            self._stream.flush()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._give_up()
            raise SystemExit(READER_LEFT) from None
        except OSError as error:
            self._give_up()
            if self is not sys.stderr:  # a full standard error only loses messages: the work goes on
                sys.stderr.write(f"error: standard output cannot be written: {error.strerror}.\n")
                raise SystemExit(CANNOT_WRITE) from None

    def _give_up(self) -> None:
        """Redirect the stream to the null device, so that Python's flush of its buffer at exit does not fail."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


def check_open() -> None:
    """Raise OSError if standard output was closed from the start: what is written there alone would be lost."""
    if getattr(sys.stdout, "was_closed", False):
        raise OSError("Standard output is closed, and the result goes nowhere else. Redirect it to a file.")


@contextmanager
def watched_output() -> Iterator[None]:
    """End the process silently when the reader of its output closes the pipe."""
    before = sys.stdout, sys.stderr
    with ExitStack() as stack:
        # The next file that is opened gets a closed stream's descriptor, and libraries would write messages into it.
        open_streams = [stream or stack.enter_context(open(os.devnull, "w", encoding="utf-8")) for stream in before]
        sys.stdout, sys.stderr = (
            Output(stream, given is None) for stream, given in zip(open_streams, before, strict=True)
        )
        try:
            yield
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                sys.stdout, sys.stderr = before
