"""Running blocks of rows on several threads, with the same answer for any number of them."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

_lock = threading.RLock()  # garbage collection may close a generator, and end its fit, while its thread holds the lock
_running: Counter[int] = Counter()  # fits and predictions, by the thread that began them
_limits: Any = None
# Idle pools, kept for the next pass of a running fit, by process and number of threads: starting a pool can take as
# long as a pass over few rows. A forked process has none of its parent's threads.
_idle: defaultdict[tuple[int, int], list[ThreadPoolExecutor]] = defaultdict(list)
_controller: ThreadpoolController | None = None  # finding BLAS and OpenMP takes milliseconds,
_modules_then = 0  # and is repeated only after an import, which may have loaded another one


MANY_THREADS = 4

# Every thread has its own number of OpenMP and MKL threads, which only that thread can set; FAISS brings a BLAS that is
# built with OpenMP.
SET_BY_THREAD = {"user_api": "openmp", "internal_api": "mkl", "threading_layer": "openmp"}


class ThreadState(threading.local):
    """The state of one thread.

    Fits that one thread has started may overlap: a generator of predictions pauses while others run.
    """

    fits_running = 0
    limits: Any = None
    beside = 1  # threads that process items of the same pass, this one included


_own = ThreadState()


@contextmanager
def one_thread_per_block() -> Iterator[None]:
    """Let every BLAS and OpenMP call use one thread, for as long as any fit is running.

    Blocks are the unit of parallel work. A product that used several threads by itself would compete with the other
    blocks for the cores, and its rounding would depend on the number of its threads. BLAS has one setting for the
    process, so fits that overlap in time share it: the first one sets it, the last one restores it.
    """
    global _limits, _controller, _modules_then
    caller = threading.get_ident()
    with _lock:
        if _controller is None or len(sys.modules) != _modules_then:
            _controller, _modules_then = ThreadpoolController(), len(sys.modules)
        if _own.fits_running and caller not in _running:  # the fits of this thread have ended in others
            _own.limits.restore_original_limits()
            _own.fits_running = 0
        _running[caller] += 1
        if _running.total() == 1:
            take_control(_controller)
            _limits = _controller.select(filepath=set_by_process(_controller)).limit(limits=1)
        _own.fits_running += 1
        if _own.fits_running == 1:
            _own.limits = _controller.select(**SET_BY_THREAD).limit(limits=1)
    try:
        yield
    finally:
        with _lock:
            if _own.fits_running and threading.get_ident() == caller:  # another thread may close a generator
                if _own.fits_running == 1:
                    _own.limits.restore_original_limits()
                _own.fits_running -= 1
            _running[caller] -= 1
            if not _running[caller]:
                del _running[caller]
            if not _running and _limits is not None:
                take_control(_controller)
                _limits.restore_original_limits()
                take_control(_controller)
                _limits = None
            done = [] if _running else idle_pools()
        for pool in done:
            pool.shutdown()


def set_by_process(controller: ThreadpoolController) -> list[str]:
    """Return the files of the BLAS libraries that have one number of threads for the whole process."""
    libraries = [own for own in controller.lib_controllers if own.user_api == "blas"]
    return [own.filepath for own in libraries if getattr(own, "threading_layer", None) != "openmp"]


def take_control(controller: ThreadpoolController) -> None:
    """Allow any thread to set BLAS's number of threads.

    threadpoolctl 3.8 accepts a change from the thread that set it first only. But a fit may start in one thread and
    the last one that overlaps with it end in another; the count of running fits decides who restores the limits.
    """
    for library in controller.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


def join_pool() -> None:
    """Let OpenMP and MKL use one thread when they are called from this one, for as long as it lives."""
    if _controller is not None:
        _controller.select(**SET_BY_THREAD).limit(limits=1)


def has_many_threads() -> bool:
    """Return whether MANY_THREADS or more run side by side with this one, so that calls should be few and large.

    Threads wait for the GIL between calls, and with many threads that takes longer than reading from a slower cache.
    """
    return _own.beside >= MANY_THREADS


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` means: -1 and None are all cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if n_jobs is None or n_jobs == -1:
        return cores or 1
    return n_jobs if n_jobs > 0 else max(1, (cores or 1) + 1 + n_jobs)


def in_order(function: Callable[[Item], Result], items: Iterable[Item], n_threads: int) -> Iterator[Result]:
    """Yield ``function(item)`` in the order of the items, a few of them computed ahead by a pool of threads.

    Only a few, because waiting results take memory. A pass inside an item of another pass gets that item's share of
    the threads.
    """
    # Concurrent callers share the threads: more threads than cores would only take turns with the GIL.
    n_threads = max(1, n_threads // max(1, len(_running)) // _own.beside)
    n_beside = min(n_threads, len(items)) if isinstance(items, Sized) else n_threads
    if n_beside < 2:  # a pool would cost more than the item
        yield from map(function, items)
        return

    def work(item: Item) -> Result:
        _own.beside = outside * n_beside
        return function(item)

    items, outside = iter(items), _own.beside
    waiting: deque[Future[Result]] = deque()
    with pool_of(n_threads) as pool:
        try:
            waiting.extend(pool.submit(work, item) for item in islice(items, 2 * n_threads))
            while waiting:
                result = waiting[0].result()
                waiting.popleft()
                waiting.extend(pool.submit(work, item) for item in islice(items, 1))
                yield result
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)


@contextmanager
def pool_of(n_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Lend a pool of threads for exclusive use; while any fit runs, it is kept for the next pass."""
    with _lock:
        idle = _idle[os.getpid(), n_threads]
        pool = idle.pop() if idle else None
    pool = pool or ThreadPoolExecutor(n_threads, "coterie", initializer=join_pool)
    try:
        yield pool
    finally:
        with _lock:
            kept = bool(_running)
            if kept:
                _idle[os.getpid(), n_threads].append(pool)
        if not kept:
            pool.shutdown()


def idle_pools() -> list[ThreadPoolExecutor]:
    """Return this process's idle pools, and forget them, so that they can be shut down."""
    own = [pool for (process, _), pools in _idle.items() if process == os.getpid() for pool in pools]
    _idle.clear()
    return own
