"""NumPy's own files: ``.npy``, and ``.npz`` with one array, several, a SciPy sparse matrix or one of our bundles."""

from __future__ import annotations

import mmap
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from scipy import sparse

from coterie.formats.checks import address, check_dtype, check_shape, listed
from coterie.formats.errors import FormatError
from coterie.formats.labels import Target, find_labels, tables_among
from coterie.formats.registry import Request
from coterie.formats.stores import ArrayStore, CSRStore, Lazy, RawStore, Store, csr_parts_of, file_version, sparse_store
from coterie.formats.unpacking import SPARSE_ROW_BYTES, check_ratio, unpack

SPARSE_KEYS = {"format", "shape", "data"}
CSR_KEYS = ("data", "indices", "indptr", "shape")


@dataclass(frozen=True)
class NpyHeader:
    """What the first bytes of an ``.npy`` file say."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    offset: int  # where the values begin

    @property
    def size(self) -> int:
        """Bytes of header and values."""
        count = 1
        for side in self.shape:
            count *= int(side)
        return self.offset + count * self.dtype.itemsize


def read_npy_header(file: BinaryIO, size: int, where: str) -> NpyHeader:
    """Return the header of an array of ``size`` bytes; refuse one that asks for more or fewer values than there are."""
    version = np.lib.format.read_magic(file)
    check_header_length(file, version, size, where)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    header = NpyHeader(shape, fortran, dtype, file.tell())
    if dtype.hasobject:
        check_dtype(np.dtype(object), where)
    if min(shape, default=0) < 0 or header.size != size:
        raise FormatError(
            f"{where} is truncated or damaged: its header asks for {header.size:,} bytes ({dtype} of shape {shape}), "
            f"but there are {size:,}. Write it again."
        )
    return header


def check_header_length(file: BinaryIO, version: tuple[int, int], size: int, where: str) -> None:
    """Refuse a header that claims to be longer than the file, for which NumPy would allocate memory first."""
    at, width = file.tell(), 2 if version == (1, 0) else 4
    length = int.from_bytes(file.read(width), "little")
    file.seek(at)
    if length > size:
        raise FormatError(
            f"{where} is truncated or damaged: its header claims to have {length:,} bytes, but there are {size:,}. "
            "Write it again."
        )


@dataclass(frozen=True)
class StoredArray:
    """An array in a file of its own or in an archive."""

    path: Path
    header: NpyHeader
    begin: int | None  # the byte at which its ``.npy`` file begins; None where it is compressed
    info: zipfile.ZipInfo | None = None  # its entry in the archive

    def map(self) -> np.ndarray:
        """Return the array: mapped where it is stored as it is, else unpacked and mapped."""
        header = self.header
        if not header.size - header.offset:
            return np.empty(header.shape, header.dtype)
        buffer = self._unpack() if self.begin is None else np.memmap(self.path, np.uint8, "r")
        first = (self.begin or 0) + header.offset
        return np.ndarray(header.shape, header.dtype, buffer, first, order="F" if header.fortran else "C")

    def _unpack(self) -> mmap.mmap:
        assert self.info is not None  # only what is in an archive is compressed
        with zipfile.ZipFile(self.path) as archive, archive.open(self.info) as file:
            return unpack(file, self.info.compress_size, address(self.path, key_of(self.info)))  # type: ignore[arg-type]


def lone_array(path: Path) -> StoredArray:
    """Return the array of an ``.npy`` file, after a check of its header."""
    with open(path, "rb") as file:
        return StoredArray(path, read_npy_header(file, path.stat().st_size, str(path)), 0)


# -- archives ---------------------------------------------------------------------------------------------------


def key_of(info: zipfile.ZipInfo) -> str:
    """Return the key of an array of an archive."""
    return info.filename.removesuffix(".npy")


def members(path: Path) -> dict[str, zipfile.ZipInfo]:
    """Return the arrays of an archive by key."""
    with zipfile.ZipFile(path) as archive:
        return {key_of(info): info for info in archive.infolist() if not info.is_dir()}


def member(path: Path, key: str) -> StoredArray:
    """Return an array of an archive, after a check of its header."""
    found = members(path)
    if key not in found:
        raise FormatError(f"{path} has no array {key!r} (there: {listed(found)}).")
    info = found[key]
    check_ratio(info.file_size, info.compress_size, address(path, key))
    with zipfile.ZipFile(path) as archive, archive.open(info) as file:
        header = read_npy_header(file, info.file_size, address(path, key))  # type: ignore[arg-type]
    if info.compress_type != zipfile.ZIP_STORED:
        return StoredArray(path, header, None, info)
    with open(path, "rb") as file:
        # The entry's own header comes first: 30 bytes, and a name and extras whose lengths are in it.
        file.seek(info.header_offset + 26)
        begin = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
    return StoredArray(path, header, begin, info)


def map_member(path: Path, key: str) -> np.ndarray:
    """Return one array of an archive, mapped."""
    return member(path, key).map()


def read_member(path: Path, key: str) -> np.ndarray:
    """Return one array of an archive, in memory."""
    return np.array(map_member(path, key))


def map_members(path: Path, *keys: str) -> tuple[np.ndarray, ...]:
    """Return several arrays of an archive."""
    return tuple(map_member(path, key) for key in keys)


def view_numbers(path: Path) -> dict[str, int]:
    """Return the number of each view of a bundle, by name."""
    names = read_names({"view_names": read_member(path, "view_names")}, path)
    return {name: number for number, name in enumerate(names, start=1)}


def read_names(arrays: Mapping[str, np.ndarray], path: Path) -> list[str]:
    """Return the names of the views."""
    names = required(arrays, "view_names", path)
    if names.ndim != 1 or names.dtype.kind not in "US" or not names.size:
        raise ValueError(
            f"{path}: 'view_names' must be a list of at least one string. "
            f"Got {names.dtype} of shape {names.shape} instead."
        )
    try:
        listed = [str(name) for name in names.astype(np.str_)]
    except (SystemError, UnicodeError) as error:  # invalid characters
        raise ValueError(f"{path}: 'view_names' must be text. Got something else instead.") from error
    if len(set(listed)) < len(listed):
        raise ValueError(f"{path}: 'view_names' must differ from each other. Got {listed} instead.")
    return listed


def required(arrays: Mapping[str, np.ndarray], key: str, path: Path) -> np.ndarray:
    """Return the array of a key that must be there."""
    if key not in arrays:
        there = ", ".join(arrays) or "nothing"
        raise ValueError(f"{path} is not a bundle: it has no {key!r} (there: {there}).")
    return arrays[key]


# -- the reader -------------------------------------------------------------------------------------------------


def list_tables(path: Path) -> tuple[str, ...]:
    """Return the keys that open as views of their own; none where the file is one table."""
    found = members(path)
    if not found:
        raise FormatError(f"{path} holds no arrays. Write it again.")
    if "view_names" in found:
        return tuple(view_numbers(path))
    if len(found) == 1 or set(found) >= SPARSE_KEYS:
        return ()
    return tables_among(found, lambda key: len(member(path, key).header.shape))


def open_store(path: Path, request: Request) -> Store:
    """Return a table of a file."""
    key = request.key
    if path.suffix.lower() == ".npy":
        return array_store(str(path), lone_array(path))
    found = members(path)
    where = address(path, key)
    if key is None and set(found) >= SPARSE_KEYS:
        return scipy_store(path)
    if key is None:
        key = next(iter(found))
    if "view_names" in found and key not in found:
        views = view_numbers(path)
        if key not in views:
            raise FormatError(f"{path} has no view {key!r} (there: {listed(views)}).")
        key = f"view_{views[key]}"
        if f"{key}_data" in found:
            return csr_store(path, where, [f"{key}_{part}" for part in CSR_KEYS])
    return array_store(where, member(path, key))


def array_store(where: str, array: StoredArray) -> Store:
    """Return a store of an array: contiguous rows are read from the file, other arrays are mapped."""
    header = array.header
    shape, dtype = check_shape(header.shape, where), check_dtype(header.dtype, where)
    if array.begin is None or (header.fortran and min(shape) > 1):
        return ArrayStore(where=where, shape=shape, dtype=dtype, array=Lazy(array.map))
    return RawStore(
        where=where,
        shape=shape,
        dtype=dtype,
        path=array.path,
        stored=header.dtype,
        offset=array.begin + header.offset,
        version=file_version(array.path.stat()),
    )


def csr_store(path: Path, where: str, keys: list[str]) -> Store:
    """Return a store of a sparse matrix in four arrays: data, indices, indptr, shape."""
    headers = [member(path, key).header for key in keys[:3]]
    shape = check_shape(read_member(path, keys[3]).ravel().tolist(), where)
    return sparse_store(where, shape, headers, Lazy(map_members, path, *keys[:3]))


def scipy_store(path: Path) -> Store:
    """Return a store of what ``scipy.sparse.save_npz`` wrote."""
    if str(read_member(path, "format").astype(np.str_)) == "csr":
        return csr_store(path, str(path), list(CSR_KEYS))
    headers = {key: member(path, key).header for key in members(path)}  # checks all sizes
    shape = check_shape(read_member(path, "shape").ravel().tolist(), str(path))
    check_ratio(SPARSE_ROW_BYTES * shape[0], path.stat().st_size, path)
    return CSRStore(
        where=str(path),
        shape=shape,
        dtype=check_dtype(headers["data"].dtype, str(path)),
        parts=Lazy(read_npz_parts, path),
    )


def read_npz_parts(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the CSR arrays of a sparse matrix in another sparse format, which must be read whole."""
    return csr_parts_of(sparse.load_npz(path))


def read_labels(path: Path, request: Request) -> Target:
    """Return known labels."""
    if path.suffix.lower() == ".npy":
        return Target(np.array(lone_array(path).map()))
    found = members(path)
    return Target(read_member(path, find_labels(path, tuple(found), request.key)))
