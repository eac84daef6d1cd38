"""Output whose reader may leave, as ``head`` does: the command then ends as other tools do, without a word."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

READER_LEFT = 141  # what a shell reports of a process that SIGPIPE ended


class Output:
    """A text stream that ends the command once nobody reads it.

    Libraries turn the error of a closed pipe into exit codes of their own, so none of them gets to see it.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream

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
            # What is still buffered is written when Python ends, to nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            raise SystemExit(READER_LEFT) from None


@contextmanager
def watched_output() -> Iterator[None]:
    """Let the process end quietly when the reader of its output leaves."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (None if stream is None else Output(stream) for stream in before)
    try:
        try:
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
    finally:
        sys.stdout, sys.stderr = before
