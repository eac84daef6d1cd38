"""Checks of the chunks of a zarr array, before its libraries unpack them.

Blosc believes the sizes at the beginning of what it unpacks, and reads on past the end of a chunk that was cut off.
Text of any length is packed as a count, and then as many texts, each behind its length in four bytes; room for the
count is made before it is seen that the texts are not there.

Why this is not left to a child process that tries the file first: see `coterie.formats.isolated`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.formats.errors import package
from coterie.formats.unpacking import is_bomb

BLOSC, CHECKSUM, VLEN = "blosc", "crc32c", "vlen-"  # names of codecs; those for values of any length begin so
BLOSC_HEAD = struct.Struct("<4B3I")  # versions, flags, width of a value; bytes unpacked, of a block, and packed
METADATA_FILES = (".zarray", ".zattrs", "zarr.json")  # of files that are no chunks
WORD = 4  # bytes


def check_chunks(array: Any, path: Path) -> None:
    """Raise a ValueError where a chunk of an array, in a folder, is not what it says."""
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
    """Yield the names of what unpacks a chunk, in that order, up to what makes values of any length."""
    codecs = metadata.get("codecs")
    if codecs is None:  # version 2
        codecs = [*(metadata["filters"] or ()), *([metadata["compressor"]] if metadata["compressor"] else ())]
    for codec in reversed(codecs):
        name = str(codec.get("name", codec.get("id")))
        yield name
        if name.startswith(VLEN):
            return


def check_blosc(file: Path, steps: list[str]) -> None:
    """Raise a ValueError where what Blosc packed is of another size than it says."""
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
    """Undo one step; what is packed says itself how."""
    if name == CHECKSUM:
        return content[:-WORD]
    return bytes(package("numcodecs", "Reading zarr").get_codec({"id": name}).decode(content))
