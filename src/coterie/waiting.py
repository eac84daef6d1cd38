"""Waiting for the workers of a Dask cluster, but not forever.

A task may take hours, so a single task has no deadline. But some worker has to be busy: while a fit waits, it asks the
scheduler every few seconds, and if nothing happens it raises an error that names the tasks that it waited for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

SECONDS_BETWEEN_CHECKS = 5.0
ANSWER_SECONDS = 60.0  # within which a scheduler answers, and a worker begins to send a result
IDLE_SECONDS = 300.0  # without a busy worker before a wait ends; a lost worker is replaced sooner

# The longest time without a finished task while workers are busy: a worker may hang in its task.
LONGEST = "coterie.longest-task"  # in Dask's configuration
LONGEST_DEFAULT = "24 hours"


def current_client() -> Any:
    """Return the client of the cluster that runs tasks; None where there is none."""
    if "distributed" not in sys.modules:
        return None
    from dask.base import get_scheduler
    from distributed import Client

    client = getattr(get_scheduler(), "__self__", None)
    return client if isinstance(client, Client) else None


class Watch:
    """Keeps the times since a task was finished, and since a worker was busy."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._pending = -1
        self._finished = self._busy = time.monotonic()

    def look(self, futures: Sequence[Any]) -> None:
        """Raise a TimeoutError that names the pending tasks if no work is being done on them any more."""
        now, pending = time.monotonic(), sum(not future.done() for future in futures)
        if pending != self._pending:
            self._pending, self._finished, self._busy = pending, now, now
            return
        processing = ask(self.client.processing)
        if any(processing.values()):
            self._busy = now
        if now - self._busy > IDLE_SECONDS:
            self._give_up(futures, now - self._busy, f"none of its {len(processing)} workers is at work")
        if now - self._finished > longest_seconds():
            self._give_up(futures, now - self._finished, f"none was finished (the limit is Dask's setting {LONGEST!r})")

    def _give_up(self, futures: Sequence[Any], seconds: float, why: str) -> None:
        names = named([future for future in futures if not future.done()] or futures)
        where = self.client.scheduler.address
        raise TimeoutError(
            f"Waited for {names} on the Dask cluster {where}, and for {seconds:.0f} seconds {why}. "
            "Look at its dashboard and its workers' logs, start workers if there are none, and fit again."
        )


def longest_seconds() -> float:
    """Return the longest allowed time without a finished task, in seconds."""
    import dask
    from dask.utils import parse_timedelta

    return float(parse_timedelta(dask.config.get(LONGEST, LONGEST_DEFAULT)))


def named(futures: Sequence[Any]) -> str:
    """Return the three most frequent names of tasks, with their counts, as text."""
    from dask.utils import key_split

    counts = Counter(str(key_split(future.key)) for future in futures)
    return ", ".join(f"{count} of {name!r}" for name, count in counts.most_common(3))


def ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """Return a scheduler's answer; raise a TimeoutError if there is none."""
    answers: list[Any] = []

    def listen() -> None:
        try:
            answers.append((call(*arguments), None))
        except Exception as error:
            answers.append((None, error))

    thread = threading.Thread(target=listen, name="coterie-ask", daemon=True)  # a thread that hangs is left behind
    thread.start()
    thread.join(ANSWER_SECONDS)
    if not answers:
        raise TimeoutError(
            f"The scheduler of the Dask cluster did not answer {call.__name__!r} within {ANSWER_SECONDS:.0f} seconds. "
            "See whether it is still running."
        )
    answer, error = answers[0]
    if error is not None:
        raise error
    return answer


def wait_for(client: Any, futures: Sequence[Any], *, first: bool = False) -> list[Any]:
    """Return the futures that are done, once all are, or with ``first`` as soon as one is."""
    from distributed import CancelledError, wait

    watch, when = Watch(client), "FIRST_COMPLETED" if first else "ALL_COMPLETED"
    while True:
        try:
            return list(wait(futures, timeout=SECONDS_BETWEEN_CHECKS, return_when=when).done)
        except TimeoutError:
            raise_first_error(futures)  # the others may need long, or workers that have died
            watch.look(futures)
        except CancelledError as error:
            raise cancelled(futures) from error


def gathered(client: Any, futures: Sequence[Any]) -> list[Any]:
    """Return the results of futures, in this process; results lost on the way are computed again."""

    def gather() -> Any:
        return client.gather(list(futures), asynchronous=True)

    watch, seconds = Watch(client), ANSWER_SECONDS
    while True:
        wait_for(client, futures)
        raise_first_error(futures)
        try:
            return client.sync(gather, callback_timeout=seconds)
        except TimeoutError:
            watch.look(futures)
            seconds *= 2  # the results may be large


def raise_first_error(futures: Sequence[Any]) -> None:
    """Raise the error of the first task that failed."""
    for future in futures:
        if future.status == "cancelled":
            raise cancelled(futures)
        if future.status == "error":
            future.result()


def cancelled(futures: Sequence[Any]) -> ConnectionError:
    """Return the error for tasks that their cluster has dropped."""
    return ConnectionError(
        f"Waited for {named(futures)} on a Dask cluster, and they were cancelled: its scheduler has ended, or the "
        "client was closed. Start a cluster, connect a client to it, and fit or predict again."
    )


def computed_collection(collection: Any) -> Any:
    """Return what a Dask collection holds, in this process."""
    client = current_client()
    return collection.compute() if client is None else gathered(client, [client.compute(collection)])[0]
