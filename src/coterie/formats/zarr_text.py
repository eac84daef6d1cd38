"""A look at how many texts the chunks of a zarr array claim to hold, before its library makes room for them.

Text of any length is packed as a count, and then as many texts, each behind its length in four bytes. The library
makes room for the count before it sees that the texts are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.formats.errors import package

VLEN = "vlen-"  # how the names of codecs for values of any length begin
NAMES = (".zarray", ".zattrs", "zarr.json")  # of files that are no chunks
WORD = 4  # bytes


def check_text(array: Any, path: Path) -> None:
    """Raise a ValueError where a chunk of an array, in a folder, claims more texts than there is room for."""
    steps = list(steps_to_text(array.metadata.to_dict()))
    if not steps or not steps[-1].startswith(VLEN):
        return
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name not in NAMES:
            content = file.read_bytes()
            for step in steps[:-1]:
                content = unpacked(content, step)
            count = int.from_bytes(content[:WORD], "little")
            if WORD * (count + 1) > len(content):
                raise ValueError(f"its chunk {file.name} says that it holds {count:,} texts, in {len(content):,} bytes")


def steps_to_text(metadata: dict[str, Any]) -> Iterator[str]:
    """Yield the names of what unpacks a chunk, in that order, up to what makes values of any length."""
    codecs = metadata.get("codecs")
    if codecs is None:  # version 2
        codecs = [*(metadata["filters"] or ()), *([metadata["compressor"]] if metadata["compressor"] else ())]
    for codec in reversed(codecs):
        name = str(codec.get("name", codec.get("id")))
        yield name
        if name.startswith(VLEN):
            return


def unpacked(content: bytes, name: str) -> bytes:
    """Undo one step; what is packed says itself how."""
    if name == "crc32c":
        return content[:-WORD]
    return bytes(package("numcodecs", "Reading zarr").get_codec({"id": name}).decode(content))
