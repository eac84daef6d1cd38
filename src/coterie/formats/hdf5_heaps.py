"""A look at the heaps in which an HDF5 file keeps text, before the library reads it.

HDF5's own library never comes back from a heap whose objects do not add up: it steps over them by the sizes that they
state. A heap ("global heap collection") is its mark, its size, and objects: a number, a count, a size, and that
many bytes, up to the next multiple of eight; number 0 is what is left. Only the beginning of a large file is looked
at, since the whole would have to be read for it.

Why this is not left to a child process that tries the file first: see `coterie.formats.isolated`.
"""

from __future__ import annotations

import mmap
import struct
from functools import lru_cache
from pathlib import Path

from coterie.formats.unpacking import map_file

HEAP_MARK = b"GCOL\x01\0\0\0"
HEAD = len(HEAP_MARK) + 8
OBJECT = struct.Struct("<HHIQ")  # number, count, nothing, size
LOOK = 64 << 20  # bytes of a file


def check_heaps(path: Path) -> None:
    """Raise a ValueError for a file with a heap that its library would not come back from."""
    about = path.stat()
    check_heaps_of(path, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=64)
def check_heaps_of(path: Path, size: int, changed: int) -> None:
    """Check a file once for each of its states."""
    if not size:
        return
    with map_file(path) as content:
        at = content.find(HEAP_MARK, 0, LOOK)
        while at >= 0:
            heap_sizes(content, at)
            at = content.find(HEAP_MARK, at + len(HEAP_MARK), LOOK)


def heap_sizes(content: mmap.mmap, at: int) -> dict[int, int]:
    """Return the sizes of a heap's objects by their numbers; step over them as the library does."""
    if content[at : at + len(HEAP_MARK)] != HEAP_MARK:
        raise ValueError(f"there is no heap of text at byte {at:,}")
    end = at + int.from_bytes(content[at + len(HEAP_MARK) : at + HEAD], "little")
    offset = at + HEAD
    if end > len(content):
        raise ValueError(f"the heap of text at byte {at:,} ends after the file")
    sizes = {}
    while end - offset >= OBJECT.size:
        number, _, _, length = OBJECT.unpack_from(content, offset)
        # What is left counts its own head in its size.
        step = length if number == 0 else OBJECT.size + length + -length % 8
        if step < OBJECT.size or step > end - offset:
            raise ValueError(f"the heap of text at byte {at:,} does not add up at byte {offset:,}")
        sizes[number] = length
        offset += step
    sizes.pop(0, None)
    return sizes
