"""Host memory that a card cannot fetch by itself, brought to it at the speed of the bus.

A card fetches pinned memory only. Several threads copy rows there, a piece at a time, and let the card fetch each piece
while they fill the next: pieces are small enough to stay in the processor's cache in between. Python is not asked
meanwhile. It would be asked thousands of times a second, by threads that wait for each other and for whoever works with
what has arrived.
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

PIECE_BYTES = 2**22
COURIERS = 8
DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


def send(rows: Any, into: Any) -> bool:
    """Copy a tensor in host memory to one on a card; False where there is no CUDA driver to do so."""
    carry = carrier()
    if carry is None:
        return False
    rows = rows.contiguous()
    share = -(-rows.nbytes // COURIERS // PIECE_BYTES) * PIECE_BYTES  # whole pieces

    def run(start: int) -> None:
        with borrowed(_idle, into.device, lambda: Courier(into.device)) as courier:
            courier.bring(rows.data_ptr() + start, into.data_ptr() + start, min(share, rows.nbytes - start), carry)

    for _ in threads().map(run, range(0, rows.nbytes, max(share, 1))):
        pass
    return True


class Courier:
    """Two pieces of pinned memory, each with a stream to the card: one is filled while the other is fetched."""

    def __init__(self, device: Any) -> None:
        import torch

        self.streams = [torch.cuda.Stream(device) for _ in range(2)]
        self.pieces = [torch.empty(PIECE_BYTES, dtype=torch.uint8, pin_memory=True) for _ in self.streams]

    def bring(self, source: int, target: int, n_bytes: int, carry: Callable[..., int]) -> None:
        """Copy bytes from one address to another, on the card."""
        first, second = self.streams
        first.synchronize()  # which also tells the driver which card this thread is about
        ways = (piece.data_ptr() for piece in self.pieces), (first.cuda_stream, second.cuda_stream)
        error = carry(source, target, n_bytes, PIECE_BYTES, *(address for way in ways for address in way))
        if error:
            raise RuntimeError(f"Rows could not be copied to the GPU: its driver says error {error}.")


@cache
def carrier() -> Callable[..., int] | None:
    """Return the copying itself, compiled; None where there is no CUDA driver."""
    import numba

    try:
        driver = ctypes.CDLL(DRIVER)
    except OSError:
        return None
    whole = ctypes.c_uint64  # addresses are numbers here
    copy = ctypes.CFUNCTYPE(whole, whole, whole, whole)(ctypes.cast(ctypes.memmove, ctypes.c_void_p).value or 0)
    fetch, wait = driver.cuMemcpyHtoDAsync_v2, driver.cuStreamSynchronize
    fetch.argtypes, fetch.restype = [whole] * 4, ctypes.c_int32
    wait.argtypes, wait.restype = [whole], ctypes.c_int32

    @numba.njit("int32(uint64, uint64, uint64, uint64, uint64, uint64, uint64, uint64)", nogil=True)
    def carry(source, target, n_bytes, piece_bytes, piece, next_piece, stream, next_stream):
        error = numba.int32(0)
        done = numba.uint64(0)
        while done < n_bytes:
            size = min(piece_bytes, n_bytes - done)
            error |= wait(stream)  # for what the piece held before
            copy(piece, source + done, size)
            error |= fetch(target + done, piece, size, stream)
            done += size
            piece, next_piece = next_piece, piece
            stream, next_stream = next_stream, stream
        error |= wait(stream)
        error |= wait(next_stream)
        return error

    return carry


@cache
def threads() -> ThreadPoolExecutor:
    """Return the threads that couriers run on."""
    return ThreadPoolExecutor(COURIERS, thread_name_prefix="coterie")


_idle: dict[Any, SimpleQueue[Courier]] = {}


@contextmanager
def borrowed(idle: dict[Any, SimpleQueue[Any]], device: Any, make: Callable[[], Any]) -> Iterator[Any]:
    """Lend something that was used on a device before, or something new.

    Pinned memory takes long to get, and torch keeps memory apart for every stream there ever was.
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
