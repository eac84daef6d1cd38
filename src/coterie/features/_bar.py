"""A progress bar that stays out of the way of short work, of pipes and of log files."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

PATIENCE = 1.0  # seconds; what ends sooner needs no bar


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
        """Say that so much more is done."""
        self.done += amount
        if not self.enabled:
            return
        if self._rich is None and time.perf_counter() - self._started > PATIENCE:
            self._show()
        if self._rich is not None:
            self._rich.update(self._task, completed=self.done)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress

        self._rich = Progress(console=Console(stderr=True), transient=True)
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
