"""Read files from folders and archives, and from archives inside archives."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

ARCHIVE = re.compile(r"\.(zip|tar|tar\.gz|tgz|tar\.bz2|tar\.xz)$", re.IGNORECASE)


def read_members(source: Path, wanted: re.Pattern[str]) -> dict[str, bytes]:
    """Return the files whose path matches, from a folder or an archive and from archives in it.

    Nothing is unpacked to disk, so that no path inside an archive can lead to another folder.

    Parameters
    ----------
    source : Path
        A folder, or a zip or tar archive.
    wanted : re.Pattern
        Searched in the path of each file, with forward slashes.

    Returns
    -------
    dict of str to bytes

    Raises
    ------
    ValueError
        If a file has the extension of an archive and is none.
    """
    if source.is_dir():
        files = sorted(path for path in source.rglob("*") if path.is_file())
        entries = ((path.relative_to(source).as_posix(), path) for path in files)
        found: dict[str, bytes] = {}
        for name, path in entries:
            if wanted.search(name):
                found[name] = path.read_bytes()
            elif ARCHIVE.search(name):
                found.update(read_members(path, wanted))
        return found
    try:
        with open(source, "rb") as file:
            return dict(_walk(source.name, file, wanted))
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError) as error:
        if not source.exists():
            raise
        raise ValueError(f"{source} could not be read as an archive: {error}. Delete it and fetch it again.") from error


def _walk(name: str, file: BinaryIO, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the wanted files of one open archive."""
    members = _zip_members if name.lower().endswith(".zip") else _tar_members
    for inner, content in members(file, wanted):
        if wanted.search(inner):
            yield inner, content
        else:
            yield from _walk(inner, io.BytesIO(content), wanted)


def _worth_reading(name: str, wanted: re.Pattern[str]) -> bool:
    return bool(wanted.search(name) or ARCHIVE.search(name))


def _zip_members(file: BinaryIO, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if not name.endswith("/") and _worth_reading(name, wanted):
                yield name, archive.read(name)


def _tar_members(file: BinaryIO, wanted: re.Pattern[str]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=file, mode="r:*") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None and _worth_reading(member.name, wanted):
                yield member.name, content.read()
