"""This machine's memory, its cache folder, and its measured speed."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coterie.files import write_text

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")

KEPT_SECONDS = 24 * 3600  # a measured rate holds for a day: the machine may have been busy
TIMINGS = 5  # of which the fastest is used


@dataclass(frozen=True)
class Rates:
    """The measured speed of one thread of a machine, or of its GPU."""

    products: float  # multiplications and additions per second in products of float32 matrices
    passes: float  # numbers per second that are squared, added to and summed up


def available_bytes(meminfo: Path = MEMINFO) -> int | None:
    """Return the available memory in bytes; None where the system does not report it."""
    return memory_entry("MemAvailable", meminfo)


def whole_memory(meminfo: Path = MEMINFO, cgroup: Path = CGROUP) -> int | None:
    """Return the total memory in bytes of the machine, or of this process's container; None if neither is known."""
    limits = [memory_entry("MemTotal", meminfo)]
    with suppress(OSError, ValueError):  # "max" where there is no limit
        limits.append(int((cgroup / "memory.max").read_text(encoding="ascii")))
    return min((limit for limit in limits if limit is not None), default=None)


def memory_entry(name: str, meminfo: Path) -> int | None:
    """Return an entry of the system's memory statistics in bytes; None where there is none."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except OSError:  # not Linux
        return None
    kilobytes = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return 1024 * int(kilobytes[0]) if kilobytes else None


def cache_folder(environment: Mapping[str, str] = os.environ, system: str = sys.platform) -> Path:
    """Return Coterie's folder in the user's cache.

    Examples
    --------
    >>> cache_folder({"XDG_CACHE_HOME": "somewhere"}, "linux").parts
    ('somewhere', 'coterie')
    """
    if system == "win32":
        home = environment.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(home) / "coterie" / "Cache"
    if system == "darwin":
        return Path.home() / "Library" / "Caches" / "coterie"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie"


def known_rates(what: str, measure: Callable[[], Rates], folder: Path | None = None) -> Rates:
    """Return the rates of this machine as measured within the last day, or measure them.

    ``what`` names what was measured, because one machine has rates of a thread and of its GPU.
    """
    file = (folder or cache_folder()) / "rates.json"
    key = f"{platform.node()}, {what}"
    kept = read_rates(file)
    line = kept.get(key, {})
    if 0 <= time.time() - line.get("time", 0) < KEPT_SECONDS:
        return Rates(line["products"], line["passes"])
    found = measure()
    with suppress(OSError):  # no folder that can be written: they are measured again next time
        write_text(file, json.dumps({**kept, key: {**asdict(found), "time": time.time()}}))
    return found


def read_rates(file: Path) -> dict[str, Any]:
    """Return the rates measured before; an empty dict if the file is missing or damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    names = {"products", "passes", "time"}
    whole = isinstance(found, dict) and all(isinstance(line, dict) and names <= line.keys() for line in found.values())
    return found if whole else {}


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the seconds of the fastest of several runs of some work, after one run that is not timed."""
    work()
    found = []
    for _ in range(TIMINGS):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)
