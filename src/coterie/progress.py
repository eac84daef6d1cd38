"""Telling how a fit goes: a line per stage and round, and the time each took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """Times the stages of a fit, and says so as they end if ``verbose``."""

    def __init__(self, verbose: bool | int, stream: TextIO | None = None) -> None:
        self.verbose = bool(verbose)
        self.stream = stream
        self.timings: dict[str, float] = {}
        self._started = time.perf_counter()

    @contextmanager
    def stage(self, name: str, note: str = "") -> Iterator[None]:
        """Time what happens inside."""
        started = time.perf_counter()
        yield
        seconds = time.perf_counter() - started
        self.timings[name] = self.timings.get(name, 0.0) + seconds
        self.say(f"{name:<12}{seconds:8.2f} s  {note}")

    def say(self, line: str) -> None:
        """Write one line, with the time since the start."""
        if self.verbose:
            stream = self.stream or sys.stderr
            stream.write(f"[coterie {time.perf_counter() - self._started:7.2f} s] {line.rstrip()}\n")
            stream.flush()

    def finish(self) -> dict[str, float]:
        """Return the seconds per stage, and in all."""
        return {**self.timings, "total": time.perf_counter() - self._started}
