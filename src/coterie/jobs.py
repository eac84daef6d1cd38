"""The identity of a job: its parameters, data and code. A job is resumed only if all of them are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from numbers import Integral
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse

from coterie import __version__
from coterie.arrays import to_host
from coterie.threads import count_threads, in_order
from coterie.views import View, Views

# Parameters that may differ when a fit is resumed: the labels do not depend on them.
FREE_TO_CHANGE = ("n_jobs", "verbose", "memory_limit", "work_dir")

# The code that determines a job's steps and their results: these subpackages, the modules beside them,
ROOMS = ("formats", "kernels", "method", "peers", "rows", "views")
# and libraries, whose draws and sums may differ between versions.
LIBRARIES = ("numba", "numpy", "scikit-learn", "scipy")

CHECKED_BYTES = 2**26  # read at a time
LONGEST = 200  # characters of a parameter's value


def identify_job(parameters: Mapping[str, Any], views: Views) -> dict[str, Any]:
    """Return what must be the same for a job to be resumed, as plain data."""
    same = {name: value for name, value in parameters.items() if name not in FREE_TO_CHANGE}
    if not isinstance(parameters["random_state"], Integral):
        del same["random_state"]  # the work folder holds the seed that was drawn
    job: dict[str, Any] = {"coterie": __version__, "source code": source_digest(), **library_versions()}
    job |= {name: as_text(value) for name, value in same.items()}
    job["number of rows"] = views.n_rows
    job["order of views"] = as_text(views.names)  # blocks have the views side by side
    n_threads = count_threads(parameters.get("n_jobs"))
    for view in views:
        job[f"view {view.name!r}"] = (
            f"{view.n_columns} columns of {view.data.dtype}, fingerprint {fingerprint(view, n_threads):08x}"
        )
    return job


@cache
def source_digest() -> str:
    """Return a digest, of twelve characters, of the code that runs a job."""
    package = files("coterie")
    folders = [package, *(package / room for room in ROOMS)]
    found = [file for folder in folders for file in folder.iterdir() if file.name.endswith(".py")]
    digest = hashlib.sha256()
    for file in sorted(found, key=str):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries that a job's numbers come from."""
    return {name: version(name) for name in LIBRARIES}


def as_text(value: Any) -> str:
    """Return a parameter's value as text, different for different values; a long one is cut and gets a checksum.

    Examples
    --------
    >>> as_text(0.5), as_text({"pixels": np.array([1, 2])})
    ('0.5', "{'pixels': array int64 (2,) 00f6ddb9}")
    """
    words = full_text(value)
    return words if len(words) < LONGEST else f"{words[:40]}... ({crc32(words.encode()):08x})"


def full_text(value: Any) -> str:
    """Return a value as text, with a checksum for an array, because NumPy rounds and shortens its repr."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"array {value.dtype} {value.shape} {crc32(as_buffer(value)):08x}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {full_text(item)}" for name, item in value.items()) + "}"
    if type(value) in (list, tuple):
        return f"{type(value).__name__}[" + ", ".join(map(full_text, value)) + "]"
    return repr(value.item() if isinstance(value, np.generic) else value)  # a NumPy 3 equals the 3 of a command line


# -- rows ---------------------------------------------------------------------------------------------------------


def fingerprint(view: View, n_threads: int = 1) -> int:
    """Return a checksum of all rows of a view: of its files' bytes if it lies in files, else of its values."""
    own = getattr(view.data, "files", ())
    found = files_checksum(view.data, n_threads) if own else rows_checksum(view.data, n_threads)
    return found if view.positions is None else crc32(as_buffer(view.positions), found)


def rows_checksum(data: Any, n_threads: int) -> int:
    """Return a checksum of a table's values, read block by block."""
    size = max(CHECKED_BYTES // max(data.shape[1] * data.dtype.itemsize, 1), 1)
    starts = range(0, data.shape[0], size)
    return combined(in_order(lambda start: block_checksum(data[start : start + size]), starts, n_threads))


def block_checksum(block: Any) -> int:
    """Return a checksum of some rows."""
    parts = [block.data, block.indices, block.indptr] if sparse.issparse(block) else [to_host(block)]
    return combined(crc32(as_buffer(part)) for part in parts)


def files_checksum(table: Any, n_threads: int) -> int:
    """Return a checksum of a table's files and of its selection from them; the files' names do not matter."""
    paths = [file for path in table.files for file in files_below(path)]
    parts = [(path, start) for path in paths for start in range(0, max(path.stat().st_size, 1), CHECKED_BYTES)]
    found = combined(in_order(lambda part: file_checksum(*part), parts, n_threads))
    # Columns without names are identified by the request for them.
    asked = None if table.request is None or table.columns is not None else vars(table.request)
    chosen = [table.chosen, getattr(table.store, "rows", None), table.columns, asked]
    words = (
        table.where.partition("::")[2],
        table.shape,
        [None if part is None else full_text(part) for part in chosen],
    )
    return crc32(repr(words).encode(), found)


def files_below(path: Path) -> Sequence[Path]:
    """Return a file, or all files of a folder."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]


def file_checksum(path: Path, start: int) -> int:
    """Return a checksum of a part of a file."""
    found = 0
    with open(path, "rb") as file:
        file.seek(start)
        left = CHECKED_BYTES
        for chunk in iter(partial(file.read, 2**20), b""):
            found = crc32(chunk[:left], found)
            left -= len(chunk)
            if left <= 0:
                break
    return found


def combined(checksums: Iterator[int] | Any) -> int:
    """Return one checksum for several, in their order."""
    return crc32(np.fromiter(checksums, np.int64).tobytes())


def as_buffer(array: np.ndarray) -> Any:
    """Return the bytes of an array, copied only if they are not contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
