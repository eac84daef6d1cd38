"""Output whose reader may leave, as ``head`` does: the command then ends as other tools do, without a word.

Output may also be full, or closed from the start, as some schedulers of jobs start their commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

READER_LEFT = 141  # what a shell reports of a process that SIGPIPE ended
CANNOT_WRITE = 2


class Output:
    """A text stream that ends the command once nobody reads it or, for results, once it cannot be written.

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
            self._give_up()
            raise SystemExit(READER_LEFT) from None
        except OSError as error:
            self._give_up()
            if self is not sys.stderr:  # without room for messages, the work still goes on
                sys.stderr.write(f"error: standard output cannot be written: {error.strerror}.\n")
                raise SystemExit(CANNOT_WRITE) from None

    def _give_up(self) -> None:
        """Send what is still buffered, and written when Python ends, to nowhere."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)


@contextmanager
def watched_output() -> Iterator[None]:
    """Let the process end quietly when the reader of its output leaves."""
    before = sys.stdout, sys.stderr
    with ExitStack() as stack:
        # A closed stream's number would be that of the next file, in which messages of libraries would then stand.
        open_streams = [stream or stack.enter_context(open(os.devnull, "w", encoding="utf-8")) for stream in before]
        sys.stdout, sys.stderr = map(Output, open_streams)
        try:
            yield
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                sys.stdout, sys.stderr = before
