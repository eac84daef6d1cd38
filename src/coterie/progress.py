"""Progress: lines and timings of a fit's stages, and bars on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TextIO, TypeVar

Result = TypeVar("Result")

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BEFORE_BAR = 1.0  # work that ends sooner gets no bar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)
_counter: ContextVar[Callable[[int, int], None] | None] = ContextVar("counter", default=None)


@contextmanager
def listening(listener: Callable[[str], None], counter: Callable[[int, int], None] | None = None) -> Iterator[None]:
    """Call ``listener`` with the name of every stage that begins inside, in whichever fit.

    ``counter`` is called during every pass over the rows, with the number of rows done and the number of all rows.

    Examples
    --------
    >>> with listening(print), Progress(verbose=False).stage("graphs"):
    ...     pass
    graphs
    """
    tokens = _listener.set(listener), _counter.set(counter)
    try:
        yield
    finally:
        _listener.reset(tokens[0])
        _counter.reset(tokens[1])


def tell_stage(name: str) -> None:
    """Tell the current listener that a stage begins.

    Examples
    --------
    >>> with listening(print):
    ...     tell_stage("opening files")
    opening files
    """
    if (listener := _listener.get()) is not None:
        listener(name)


def counted(results: Iterable[Result], n_blocks: int, n_rows: int) -> Iterator[Result]:
    """Yield the results of blocks of about equal size, and tell the current counter how many rows are done.

    Examples
    --------
    >>> with listening(print, lambda done, n_rows: print(done, "of", n_rows)):
    ...     _ = list(counted("abc", n_blocks=3, n_rows=9))
    3 of 9
    6 of 9
    9 of 9
    """
    counter = _counter.get()
    if counter is None:
        yield from results
        return
    for number, result in enumerate(results, start=1):
        counter(number * n_rows // n_blocks, n_rows)
        yield result


class Stopwatch:
    """Adds up seconds by name, also from several threads.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> with watch("product"):
    ...     pass
    >>> list(watch.seconds())
    ['product']
    """

    def __init__(self) -> None:
        self._measured: list[tuple[str, float]] = []  # appending is safe between threads

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        started = time.perf_counter()
        yield
        self._measured.append((name, time.perf_counter() - started))

    def seconds(self) -> dict[str, float]:
        """Return the seconds by name."""
        total: dict[str, float] = {}
        for name, seconds in self._measured:
            total[name] = total.get(name, 0.0) + seconds
        return total


class PassClock:
    """Turns the number of rows done into a line of text, every few seconds of a pass."""

    def __init__(self) -> None:
        self._done = 0
        self._started = self._last_line = time.perf_counter()

    def count(self, done: int, n_rows: int) -> str | None:
        """Return the rows done, the rate and the time left as a line; None if the last line is too recent."""
        now = time.perf_counter()
        if done <= self._done:  # a new pass
            self._started = self._last_line = now
        self._done = done
        if now - self._last_line < SECONDS_BETWEEN_LINES or done == n_rows:
            return None
        self._last_line = now
        rate = done / (now - self._started)
        return f"{done:,} of {n_rows:,} rows, {rate:,.0f} a second, {(n_rows - done) / rate:.0f} s left"


class Progress:
    """Times the stages of a fit, and writes a line as each ends if ``verbose``."""

    def __init__(self, verbose: bool | int, stream: TextIO | None = None) -> None:
        self.verbose = bool(verbose)
        self.stream = stream
        self.timings: dict[str, float] = {}
        self._started = time.perf_counter()

    @contextmanager
    def stage(self, name: str, note: str = "") -> Iterator[None]:
        """Time what happens inside."""
        tell_stage(name)
        started = time.perf_counter()
        with self._telling(name):
            yield
        seconds = time.perf_counter() - started
        self.timings[name] = self.timings.get(name, 0.0) + seconds
        self.say(f"{name:<12}{seconds:8.2f} s  {note}")

    @contextmanager
    def _telling(self, stage: str) -> Iterator[None]:
        """Write a line every few seconds during a long pass over the rows."""
        if not self.verbose:
            yield
            return
        outer, clock = _counter.get(), PassClock()

        def count(done: int, n_rows: int) -> None:
            if (words := clock.count(done, n_rows)) is not None:
                self.say(f"{stage}: {words}")
            if outer is not None:
                outer(done, n_rows)

        token = _counter.set(count)
        try:
            yield
        finally:
            _counter.reset(token)

    def say(self, line: str) -> None:
        """Write one line, with the time since the start."""
        if self.verbose:
            stream = self.stream or sys.stderr
            stream.write(f"[coterie {time.perf_counter() - self._started:7.2f} s] {line.rstrip()}\n")
            stream.flush()

    def add(self, stage: str, watch: Stopwatch, n_threads: int) -> None:
        """Add the parts of a stage as wall-clock time: the seconds of all threads over the number of threads."""
        for name, seconds in watch.seconds().items():
            self.timings[f"{stage}: {name}"] = seconds / n_threads

    def finish(self) -> dict[str, float]:
        """Return the seconds per stage, and in total."""
        return {**self.timings, "total": time.perf_counter() - self._started}


# -- bars on a terminal -------------------------------------------------------------------------------------------


class Bar:
    """A progress bar on stderr, shown only on a terminal and only after a second.

    Parameters
    ----------
    title : str
        What is being done.
    total : int or None
        How much there is to do; None where that is not known.
    enabled : bool
        False never shows anything.

    Examples
    --------
    >>> with Bar("HOG", total=3) as bar:
    ...     for _ in range(3):
    ...         bar.advance()
    """

    def __init__(self, title: str, total: int | None = None, enabled: bool = True) -> None:
        self.title = title
        self.total = total
        self.enabled = enabled and sys.stderr is not None and sys.stderr.isatty()
        self.done = 0
        self._started = time.perf_counter()
        self._rich: Any = None
        self._task: Any = None

    def __enter__(self) -> Bar:
        return self

    def advance(self, amount: int = 1) -> None:
        """Add to the amount that is done."""
        self.done += amount
        if not self.enabled:
            return
        if self._rich is None and time.perf_counter() - self._started > SECONDS_BEFORE_BAR:
            self._show()
        if self._rich is not None:
            self._rich.update(self._task, completed=self.done)

    def _show(self) -> None:
        self._rich = rich_bars()
        self._task = self._rich.add_task(self.title, total=self.total)
        self._rich.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._rich is not None:
            self._rich.stop()


def rich_bars(*columns: Any) -> Any:
    """Return rich's progress display on stderr, which disappears when it ends; by default with rich's own columns."""
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
