"""Uploading host memory to a GPU through pinned staging buffers, at the speed of the bus.

A GPU copies asynchronously from pinned memory only. Several threads copy rows into pinned buffers, a piece at a time,
and the GPU fetches one buffer while the next is filled; buffers are small enough to stay in the processor's cache in
between. The loop is compiled and releases the GIL: in Python, threads would take the GIL thousands of times a second,
and wait for each other.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any

STAGING_BYTES = 2**22
COPY_THREADS = 8
DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def staged_upload(rows: Any, target: Any) -> bool:
    """Copy a tensor in host memory to one on a GPU; False where there is no CUDA driver to do so."""
    copy_loop = compiled_copy_loop()
    if copy_loop is None:
        return False
    rows = rows.contiguous()
    share = -(-rows.nbytes // COPY_THREADS // STAGING_BYTES) * STAGING_BYTES  # a multiple of the buffer

    def run(start: int) -> None:
        with borrow(_idle_buffers, target.device, lambda: StagingBuffers(target.device)) as buffers:
            size = min(share, rows.nbytes - start)
            buffers.copy(rows.data_ptr() + start, target.data_ptr() + start, size, copy_loop)

    for _ in copy_threads().map(run, range(0, rows.nbytes, max(share, 1))):
        pass
    return True


class StagingBuffers:
    """Two pinned buffers, each with a stream to the GPU: one is filled while the other is fetched."""

    def __init__(self, device: Any) -> None:
        import torch

        self.streams = [torch.cuda.Stream(device) for _ in range(2)]
        self.buffers = [torch.empty(STAGING_BYTES, dtype=torch.uint8, pin_memory=True) for _ in self.streams]

    def copy(self, source: int, target: int, n_bytes: int, copy_loop: Callable[..., int]) -> None:
        """Copy bytes from an address in host memory to one on the GPU."""
        first, second = self.streams
        first.synchronize()  # which also makes its device the current one of this thread
        buffers = [buffer.data_ptr() for buffer in self.buffers]
        error = copy_loop(source, target, n_bytes, STAGING_BYTES, *buffers, first.cuda_stream, second.cuda_stream)
        if error:
            raise RuntimeError(f"Rows could not be copied to the GPU: its driver says error {error}.")


@cache
def compiled_copy_loop() -> Callable[..., int] | None:
    """Return the loop over staging buffers, compiled; None where there is no CUDA driver."""
    import numba

    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return None
    address = ctypes.c_uint64
    memmove = ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0
    copy = ctypes.CFUNCTYPE(address, address, address, address)(memmove)
    fetch, wait = driver.cuMemcpyHtoDAsync_v2, driver.cuStreamSynchronize
    fetch.argtypes, fetch.restype = [address] * 4, ctypes.c_int32
    wait.argtypes, wait.restype = [address], ctypes.c_int32

    @numba.njit("int32(uint64, uint64, uint64, uint64, uint64, uint64, uint64, uint64)", nogil=True)
    def copy_loop(source, target, n_bytes, buffer_bytes, buffer, next_buffer, stream, next_stream):
        error = numba.int32(0)
        done = numba.uint64(0)
        while done < n_bytes:
            size = min(buffer_bytes, n_bytes - done)
            error |= wait(stream)  # until the buffer has been fetched
            copy(buffer, source + done, size)
            error |= fetch(target + done, buffer, size, stream)
            done += size
            buffer, next_buffer = next_buffer, buffer
            stream, next_stream = next_stream, stream
        error |= wait(stream)
        error |= wait(next_stream)
        return error

    return copy_loop


@cache
def copy_threads() -> ThreadPoolExecutor:
    """Return the threads that fill staging buffers."""
    return ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="coterie")


_idle_buffers: dict[Any, SimpleQueue[StagingBuffers]] = {}


@contextmanager
def borrow(idle: dict[Any, SimpleQueue[Any]], device: Any, make: Callable[[], Any]) -> Iterator[Any]:
    """Lend an object that was used on a device before, or a new one.

    Pinning memory is slow, and torch keeps a pool of memory for every stream that ever existed.
    """
    known = idle.setdefault(device, SimpleQueue())
    try:
        thing = known.get_nowait()
    except Empty:
        thing = make()
    try:
        yield thing
    finally:
        known.put(thing)
