"""Checks of the chunks of a zarr array, before its libraries unpack them.

Blosc trusts the sizes in the header of a chunk, and reads past the end of a truncated one. Variable-length text is
stored as a count and that many texts, each after its length in four bytes; memory for all of them is allocated before
the library finds that some are missing.

Why this is not left to a child process that tries the file first: see `coterie.formats.isolated`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.formats.errors import package
from coterie.formats.unpacking import is_bomb

BLOSC, CHECKSUM, VLEN = "blosc", "crc32c", "vlen-"  # names of codecs; those of variable-length values begin with VLEN
BLOSC_HEAD = struct.Struct("<4B3I")  # versions, flags, width of a value; bytes unpacked, of a block, and packed
METADATA_FILES = (".zarray", ".zattrs", "zarr.json")  # of files that are no chunks
WORD = 4  # bytes


def check_chunks(array: Any, path: Path) -> None:
    """Raise a ValueError where a chunk of an array, in a folder, does not have the size that it states."""
    steps = list(steps_of(array.metadata.to_dict()))
    is_text = bool(steps) and steps[-1].startswith(VLEN)
    if not is_text and BLOSC not in steps:
        return
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name not in METADATA_FILES:
            check_blosc(file, steps)
            if is_text:
                check_text_count(file, steps)


def steps_of(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the codecs that decode a chunk, in order, up to the one of variable-length values."""
    codecs = metadata.get("codecs")
    if codecs is None:  # version 2
        codecs = [*(metadata["filters"] or ()), *([metadata["compressor"]] if metadata["compressor"] else ())]
    for codec in reversed(codecs):
        name = str(codec.get("name", codec.get("id")))
        yield name
        if name.startswith(VLEN):
            return


def check_blosc(file: Path, steps: list[str]) -> None:
    """Raise a ValueError where a chunk that Blosc packed does not have the size in its header, or claims too much."""
    size = file.stat().st_size
    if steps[0] == CHECKSUM:  # at the end
        size, steps = size - WORD, steps[1:]
    if steps[0] != BLOSC:
        return
    with open(file, "rb") as chunk:
        head = chunk.read(BLOSC_HEAD.size)
    if len(head) < BLOSC_HEAD.size:
        raise ValueError(f"its chunk {file.name} ends early")
    *_, unpacked, _, packed = BLOSC_HEAD.unpack(head)
    if packed != size or is_bomb(unpacked, packed):
        raise ValueError(f"its chunk {file.name} is {size:,} bytes, and says {packed:,}, and {unpacked:,} unpacked")


def check_text_count(file: Path, steps: list[str]) -> None:
    """Raise a ValueError where a chunk claims more texts than there is room for."""
    content = file.read_bytes()
    for step in steps[:-1]:
        content = undo_step(content, step)
    count = int.from_bytes(content[:WORD], "little")
    if WORD * (count + 1) > len(content):
        raise ValueError(f"its chunk {file.name} says that it holds {count:,} texts, in {len(content):,} bytes")


def undo_step(content: bytes, name: str) -> bytes:
    """Return content decoded by one codec, whose parameters are in the content."""
    if name == CHECKSUM:
        return content[:-WORD]
    return bytes(package("numcodecs", "Reading zarr").get_codec({"id": name}).decode(content))
