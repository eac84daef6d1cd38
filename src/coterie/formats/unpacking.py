"""Unpack compressed content once, to a file without a name, after a check of the size that it claims.

Nothing can be read from the middle of a compressed stream. Its content goes to the system's folder for temporary files
(``TMPDIR``) and is mapped from there; the system takes the space back when the table is no longer used.
"""

from __future__ import annotations

import gzip
import mmap
import tempfile
from pathlib import Path
from typing import BinaryIO

from coterie.formats.errors import FormatError

# Content above BOMB_BYTES that is also BOMB_RATIO times larger than its file is refused: real tables compress less, and
# a file that claims more would fill the disk.
BOMB_BYTES = 1 << 27
BOMB_RATIO = 250
COPIED_AT_ONCE = 1 << 20
SPARSE_ROW_BYTES = 24  # that even an empty row of a sparse matrix takes while CSC becomes CSR


def is_bomb(unpacked: int, packed: int) -> bool:
    """Whether content is out of all proportion to the bytes that it comes from."""
    return unpacked > BOMB_BYTES and unpacked > BOMB_RATIO * max(packed, 1)


def check_ratio(unpacked: int, packed: int, where: object) -> None:
    """Refuse content that is out of all proportion to the bytes that it comes from."""
    if is_bomb(unpacked, packed):
        raise FormatError(
            f"{where} claims {unpacked:,} bytes from {packed:,} in the file, more than {BOMB_RATIO} times as many. "
            "If it is what you want, store it without compression."
        )


def map_file(path: Path) -> mmap.mmap:
    """Return the bytes of a file, mapped."""
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def unpack(stream: BinaryIO, packed: int, where: object) -> mmap.mmap:
    """Return the whole content of a stream, mapped from a temporary file."""
    with tempfile.TemporaryFile(prefix="coterie-") as file:
        size = 0
        while chunk := stream.read(COPIED_AT_ONCE):
            size += len(chunk)
            check_ratio(size, packed, where)
            file.write(chunk)
        file.flush()
        if not size:
            raise FormatError(f"{where} is empty. Write it again.")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class Content:
    """The bytes of a file, unpacked where its name ends in .gz; any part of them can be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unpacked = None
        self.size = path.stat().st_size
        if path.suffix.lower() == ".gz":
            with gzip.open(path) as stream:
                self._unpacked = unpack(stream, self.size, path)  # type: ignore[arg-type]
            self.size = len(self._unpacked)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes from start to stop."""
        if self._unpacked is not None:
            return self._unpacked[start:stop]
        with open(self._path, "rb") as file:  # not mapped, so that memory stays free
            file.seek(start)
            return file.read(max(stop - start, 0))
