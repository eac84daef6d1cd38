"""Read files in a child process, for libraries that a damaged file can crash: only the child ends then.

The child is ``python -m MODULE PATH MEMORY``. It writes what it read to its standard output, a temporary file without a
name, and ends with 0; or it writes one line to standard error that says what is wrong with the file, and ends with
`REFUSED`. Nothing is pickled on the way.

MATLAB's files before version 7.3 are read in this way, as they must be read whole in any case. For parquet, HDF5 and
zarr, a child that reads a file on trial was measured as an alternative to our own checks (``parquet_footer``,
``hdf5_text``, ``zarr_chunks``; benchmarks/scripts/fuzz.py, ``--checks probe`` and ``whole``). A child that reads names
and first rows is not enough: the rest is read later, and labels of damaged AnnData in zarr then asked for gigabytes. A
child that reads everything would double the reading of every file, by two processes that each import the library. Our
checks read footers, headers and references to text, but no rows.
"""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from coterie.formats import unpacking
from coterie.formats.errors import NO_SPACE, FormatError, no_space, one_line
from coterie.machine import whole_memory

REFUSED, NO_ROOM = 3, 4  # exit codes of a child that refuses a file, and of one without space for its content
INTERPRETER_BYTES = 2 << 30  # of address space: Python, NumPy and SciPy, and room to work
USUAL_MEMORY = 8 << 30  # assumed where the machine's is unknown
COPIES = 3  # of its content that a library may hold at a time
LEAST_SECONDS, BYTES_PER_SECOND = 60, 1 << 20  # enough on a slow disk and a busy machine
SAID_BYTES = 4096  # that are read of the end of the child's standard error


@dataclass(frozen=True)
class Limits:
    """Limits on a child's memory and time."""

    memory: int  # bytes of address space
    seconds: float

    @classmethod
    def for_file(cls, path: Path) -> Limits:
        """Return the limits for a file: memory for what it may unpack to, as far as the machine has that much."""
        size = path.stat().st_size
        content = max(unpacking.BOMB_BYTES, unpacking.BOMB_RATIO * size)
        memory = INTERPRETER_BYTES + min(COPIES * content, (whole_memory() or USUAL_MEMORY) * 3 // 4)
        return cls(memory, LEAST_SECONDS + size / BYTES_PER_SECOND)


def read_isolated(module: str, path: Path, limits: Limits | None = None) -> mmap.mmap:
    """Return the content that a module, run in a child process, reads from a file; mapped from a temporary file.

    Run as a script, the module calls `run_child`. A file that the child refuses, that crashes it, or that exceeds a
    limit (None: those of `Limits.for_file`) raises a FormatError.
    """
    limits = limits or Limits.for_file(path)
    with tempfile.TemporaryFile(prefix="coterie-") as content, tempfile.TemporaryFile() as said:
        code = run_module(module, path, limits, content, said)
        size = os.fstat(content.fileno()).st_size
        if code == NO_ROOM:
            raise FormatError(f"{path} cannot be unpacked: {no_space()}")
        if code or not size:
            raise FormatError(f"{path} cannot be read: {reason(code, last_line(said))}. {REMEDY}")
        unpacking.check_ratio(size, path.stat().st_size, path)
        return mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ)


def run_module(module: str, path: Path, limits: Limits, content: BinaryIO, said: BinaryIO) -> int:
    """Run a child process, with ``content`` and ``said`` as its standard output and error; return its exit code."""
    command = [sys.executable, "-P", "-m", module, str(path), str(limits.memory)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": content, "stderr": said}
    try:
        return subprocess.run(command, **pipes, env=child_environment(), timeout=limits.seconds).returncode  # type: ignore[call-overload]
    except subprocess.TimeoutExpired as error:
        raise FormatError(f"{path} cannot be read: it took more than {limits.seconds:.0f} s. {REMEDY}") from error


REMEDY = "Is it complete? Write it again."


def child_environment() -> dict[str, str]:
    """Return the environment of a child: the import path of this process, and one thread."""
    found = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": found, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def last_line(said: BinaryIO) -> str:
    """Return the last nonempty line of a child's standard error."""
    said.seek(max(0, os.fstat(said.fileno()).st_size - SAID_BYTES))
    lines = said.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")


def reason(code: int, said: str) -> str:
    """Return why a child gave no content.

    Examples
    --------
    >>> reason(REFUSED, "variable 'X' ends early"), reason(-11, "")
    ("variable 'X' ends early", 'it ended the process that read it (SIGSEGV)')
    """
    if code == REFUSED:
        return said
    if code < 0:
        return f"it ended the process that read it ({signal.Signals(-code).name})"
    return f"the process that read it ended with {code}: {said[:200].rstrip('.')}"


# -- in the child -----------------------------------------------------------------------------------------------


def run_child(write: Callable[[str, BinaryIO], None], arguments: list[str]) -> None:
    """Write the content of a file to standard output, within a limit of memory; end the process where that fails."""
    path, memory = arguments[0], int(arguments[1])
    limit_memory(memory)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps what libraries print out of the content
    try:
        write(path, out)
        out.close()
    except MemoryError:
        end_refusing(f"it needs more than {memory >> 20:,} MiB of memory, too much for a file of its size")
    except Exception as error:  # a library may raise anything when it meets a broken file
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            os._exit(NO_ROOM)  # there may be none for a message either
        end_refusing(one_line(error))


def limit_memory(size: int) -> None:
    """Limit the address space of this process, where the system can do so."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_refusing(why: str) -> None:
    """Write one line that says what is wrong with the file, and end the process."""
    sys.stderr.write(f"\n{why}\n")
    sys.stderr.flush()
    os._exit(REFUSED)
