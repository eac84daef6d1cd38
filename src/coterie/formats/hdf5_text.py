"""Checks of an HDF5 file's references to variable-length text, before the library follows them.

Variable-length text is stored in heaps, and an array or attribute of text is a table of references: a length, the
offset of a heap, and the number of an object in it. A damaged file makes the library fail in two ways:

- It steps over the objects of a heap by the sizes that they state, and never returns from a heap whose sizes do not add
  up. A heap ("global heap collection") is its signature, its size, and objects: a number, a count, a size, and that
  many bytes, padded to a multiple of eight; number 0 is the free space. Only the beginning of a large file is searched
  for heaps, to avoid reading all of it.
- It allocates the memory that a length asks for before it looks into the heap, so that a damaged file of some kilobytes
  takes gigabytes. h5py does not expose the references: those of an array are found through its storage layout, and
  those of an attribute in the header of its object, which is a sequence of messages, each a kind, a size and a body.
  Attributes that are stored outside of the header, as is done where an object has many, are left to the library.

Why this is not left to a child process that tries the file first: see `coterie.formats.isolated`.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from coterie.formats.errors import package
from coterie.formats.stores import file_version
from coterie.formats.unpacking import is_bomb, map_file

REFERENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("number", "<u4")])
LAYOUT, ATTRIBUTE, CONTINUATION = 0x08, 0x0C, 0x10  # kinds of messages
MAX_BLOCKS = 1000  # of one header
HEAP_MARK = b"GCOL\x01\0\0\0"
HEAP_HEAD = len(HEAP_MARK) + 8
OBJECT = struct.Struct("<HHIQ")  # number, count, reserved, size
HEAP_BYTES = 64 << 20  # at the beginning of a file that are searched for heaps


def check_text(array: Any) -> None:
    """Raise a ValueError where an array's references to text are wrong."""
    if not is_text(array.dtype) or array.shape is None:
        return
    with map_file(Path(array.file.filename)) as content:
        check_references(references_of(array, content), content, start_of(array))


def check_attribute(node: Any, name: str) -> None:
    """Raise a ValueError where an attribute's references to text are wrong."""
    if name not in node.attrs:
        return
    attribute = node.attrs.get_id(name)
    if not is_text(attribute.dtype) or attribute.shape is None:
        return
    with map_file(Path(node.file.filename)) as content:
        for kind, body in messages(node, content):
            if kind == ATTRIBUTE and name_and_values(body)[0] == name.encode():
                values = name_and_values(body)[1]
                check_references(as_references(values, math.prod(attribute.shape)), content, start_of(node))


def is_text(dtype: np.dtype) -> bool:
    """Whether values are text of any length; other values of any length are refused."""
    h5py = package("h5py", "Reading HDF5")
    if not dtype.hasobject or h5py.check_ref_dtype(dtype) is not None:
        return False
    if h5py.check_string_dtype(dtype) is None:
        raise ValueError("lists of varying length are in it, which are neither numbers nor text")
    return True


def start_of(node: Any) -> int:
    """Return the byte that offsets in the file are counted from."""
    plan = node.file.id.get_create_plist()
    if plan.get_sizes() != (8, 8):
        raise ValueError(f"offsets in it are numbers of {plan.get_sizes()[0]} bytes, and 8 are usual")
    return plan.get_userblock()


def check_references(references: np.ndarray, content: mmap.mmap, start: int) -> None:
    """Raise a ValueError unless every reference is to an object of at least its length."""
    references = references[references["length"] > 0]  # empty text is in no heap
    check_total(int(references["length"].sum(dtype=np.int64)), len(content))
    heaps, owner = np.unique(references["heap"], return_inverse=True)
    order = np.argsort(owner, kind="stable")
    bounds = np.searchsorted(owner[order], np.arange(len(heaps) + 1))
    for heap, first, last in zip(heaps.tolist(), bounds[:-1], bounds[1:], strict=True):
        sizes = heap_sizes(content, start + heap)
        for length, _, number in references[order[first:last]].tolist():
            if sizes.get(number, -1) < length:
                raise ValueError(f"text of {length:,} bytes is said to be in the heap at byte {heap:,}, and is not")


def check_total(unpacked: int, packed: int) -> None:
    """Raise a ValueError where text is out of all proportion to the bytes that it comes from."""
    if is_bomb(unpacked, packed):
        raise ValueError(f"{unpacked:,} bytes of text are said to be in {packed:,} bytes of the file")


# -- heaps ------------------------------------------------------------------------------------------------------


def check_heaps(path: Path) -> None:
    """Raise a ValueError for a file with a heap in which the library would loop forever."""
    check_heaps_of(path, file_version(path.stat()))


@lru_cache(maxsize=64)
def check_heaps_of(path: Path, version: tuple[int, ...]) -> None:
    """Check the heaps of a file, once for each version of it."""
    if not path.stat().st_size:
        return
    with map_file(path) as content:
        at = content.find(HEAP_MARK, 0, HEAP_BYTES)
        while at >= 0:
            heap_sizes(content, at)
            at = content.find(HEAP_MARK, at + len(HEAP_MARK), HEAP_BYTES)


def heap_sizes(content: mmap.mmap, at: int) -> dict[int, int]:
    """Return the sizes of a heap's objects by their numbers; step over them as the library does."""
    if content[at : at + len(HEAP_MARK)] != HEAP_MARK:
        raise ValueError(f"there is no heap of text at byte {at:,}")
    end = at + int.from_bytes(content[at + len(HEAP_MARK) : at + HEAP_HEAD], "little")
    offset = at + HEAP_HEAD
    if end > len(content):
        raise ValueError(f"the heap of text at byte {at:,} ends after the file")
    sizes = {}
    while end - offset >= OBJECT.size:
        number, _, _, length = OBJECT.unpack_from(content, offset)
        # The size of the free space includes its own header.
        step = length if number == 0 else OBJECT.size + length + -length % 8
        if step < OBJECT.size or step > end - offset:
            raise ValueError(f"the heap of text at byte {at:,} does not add up at byte {offset:,}")
        sizes[number] = length
        offset += step
    sizes.pop(0, None)
    return sizes


# -- arrays -----------------------------------------------------------------------------------------------------


def references_of(array: Any, content: mmap.mmap) -> np.ndarray:
    """Return the references of an array of text."""
    h5d = package("h5py", "Reading HDF5").h5d
    layout = array.id.get_create_plist().get_layout()
    if layout == h5d.CHUNKED:
        return references_in_chunks(array, content)
    if layout == h5d.COMPACT:
        body = next(body for kind, body in messages(array, content) if kind == LAYOUT)
        return as_references(body[4:], array.size)  # after version, class and size
    if not array.id.get_storage_size():  # nothing was written to it
        return np.empty(0, dtype=REFERENCE)
    offset = array.id.get_offset()
    return as_references(content[offset : offset + array.size * REFERENCE.itemsize], array.size)


def as_references(values: bytes, count: int) -> np.ndarray:
    """Return bytes as references."""
    if len(values) < count * REFERENCE.itemsize:
        raise ValueError(f"{count:,} texts are said to be in it, and there is no room for them")
    return np.frombuffer(values, dtype=REFERENCE, count=count)


def references_in_chunks(array: Any, content: mmap.mmap) -> np.ndarray:
    """Return the references of an array that is stored in chunks."""
    plan = array.id.get_create_plist()
    filters = [plan.get_filter(i) for i in range(plan.get_nfilters())]
    chunks: list[Any] = []
    array.id.chunk_iter(chunks.append)
    found = [np.empty(0, dtype=REFERENCE)]
    for chunk in chunks:
        packed = content[chunk.byte_offset : chunk.byte_offset + chunk.size]
        check_total(math.prod(array.chunks) * REFERENCE.itemsize, len(packed))
        used = [one for i, one in enumerate(filters) if not chunk.filter_mask >> i & 1]
        inside = zip(array.chunks, array.shape, chunk.chunk_offset, strict=True)
        part = tuple(slice(min(side, whole - first)) for side, whole, first in inside)
        found.append(unpack_references(packed, array.chunks, used)[part].ravel())
    return np.concatenate(found)


def unpack_references(packed: bytes, shape: tuple[int, ...], filters: list[Any]) -> np.ndarray:
    """Return the references of one chunk: HDF5 unpacks it, in memory, as an array of plain bytes."""
    h5py = package("h5py", "Reading HDF5")
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk(shape)
    for code, flags, options, _ in filters:
        plan.set_filter(code, flags, options)
    with h5py.File("text", "w", driver="core", backing_store=False) as memory:
        kind = h5py.h5t.py_create(np.dtype(f"V{REFERENCE.itemsize}"))
        plain = h5py.h5d.create(memory.id, b"text", kind, h5py.h5s.create_simple(shape), dcpl=plan)
        plain.write_direct_chunk((0,) * len(shape), packed)
        return memory["text"][()].view(REFERENCE)


# -- headers ----------------------------------------------------------------------------------------------------


def messages(node: Any, content: mmap.mmap) -> Iterator[tuple[int, bytes]]:
    """Yield the messages in the header of an object: their kinds and bodies."""
    start = start_of(node)
    at = start + package("h5py", "Reading HDF5").h5o.get_info(node.id).addr
    is_new = content[at : at + 4] == b"OHDR"
    if is_new:
        flags = content[at + 5]
        at += 6 + 16 * bool(flags & 0x20) + 4 * bool(flags & 0x10)  # times, and attributes' limits
        width = 1 << (flags & 3)
        blocks = [(at + width, int.from_bytes(content[at : at + width], "little"))]
        head = struct.Struct("<BHBH" if flags & 0x04 else "<BHB")  # kind, size, flags, and an order
    else:
        (size,) = struct.unpack_from("<I", content, at + 8)
        blocks = [(at + 16, size)]
        head = struct.Struct("<HHBBH")  # kind, size, flags
    for begin, size in blocks:  # a list that grows in the loop
        if begin + size > len(content) or len(blocks) > MAX_BLOCKS:
            raise ValueError(f"a header at byte {begin:,} ends after the file")
        offset, end = begin, begin + size
        while end - offset >= head.size:
            kind, length, *_ = head.unpack_from(content, offset)
            body = content[offset + head.size : offset + head.size + length]
            offset += head.size + length
            if kind == CONTINUATION:
                begin, size = struct.unpack_from("<QQ", body)
                # New blocks are between a mark and a checksum of four bytes each.
                blocks.append((start + begin + 4, size - 8) if is_new else (start + begin, size))
            yield kind, body


def name_and_values(body: bytes) -> tuple[bytes, bytes]:
    """Return the name of an attribute, and its values as they are stored."""
    version, _, *sizes = struct.unpack_from("<BBHHH", body)  # of the name, the type and the shape
    at = 9 if version == 3 else 8
    padded = [size + -size % 8 if version == 1 else size for size in sizes]
    return body[at : at + sizes[0]].rstrip(b"\0"), body[at + sum(padded) :]
