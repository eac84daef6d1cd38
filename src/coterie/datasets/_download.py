"""Download raw files: with checksums, resumable, and with instructions where there is no network."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.files import write_text
from coterie.lazy import import_extra
from coterie.progress import Bar

CHUNK = 1 << 16  # bytes; what is lost at most when a download is interrupted
TIMEOUT = (10, 60)  # seconds to connect, and to wait for the next bytes
PARTIAL = 206  # HTTP: a part of the file follows, as asked
OUT_OF_RANGE = 416  # HTTP: the file has no such part


class DownloadError(OSError):
    """A file could not be downloaded; the message says where to get it and where to put it."""


@dataclass(frozen=True)
class RawFile:
    """One file as its publisher offers it.

    Attributes
    ----------
    name : str
        Its name on disk.
    url : str
        The publisher's address.
    sha256 : str or None
        Its checksum. None if the publisher gives none: then that of the first download is recorded
        beside the file, and the file is checked against it from then on.
    """

    name: str
    url: str
    sha256: str | None = None

    def address(self, base_url: str | None) -> str:
        """Return the URL of the file: the publisher's, or the same name at another base."""
        return f"{base_url.rstrip('/')}/{self.name}" if base_url else self.url


def download(raw: RawFile, folder: Path, *, base_url: str | None = None, progress: bool = True) -> Path:
    """Return the path of a raw file, after downloading it if it is not in the folder.

    Parameters
    ----------
    raw : RawFile
    folder : Path
        The folder that holds it, or that it is downloaded to.
    base_url : str or None
        Another address to download from, such as a mirror.
    progress : bool
        Whether to show a progress bar.

    Raises
    ------
    DownloadError
        If it cannot be downloaded, or does not match its checksum.
    """
    pooch = import_extra("pooch", "datasets", "Downloading data sets")
    path = folder / raw.name
    url = raw.address(base_url)
    known = raw.sha256 or recorded_hash(path)
    fresh = not path.exists()
    try:
        with _quiet(pooch.get_logger()):
            pooch.retrieve(
                url,
                known_hash=known,
                fname=raw.name,
                path=folder,
                downloader=Resumable(path.with_name(f"{raw.name}.part"), progress),
            )
    except (OSError, ValueError) as error:  # requests' errors are OSErrors, pooch's ValueErrors
        raise DownloadError(
            f"{url} could not be downloaded: {error}. "
            f"Get it by other means and put it at {path}, or call again: an interrupted download "
            "goes on where it stopped."
        ) from error
    if fresh and raw.sha256 is None:
        record_hash(path)
    return path


class Resumable:
    """A downloader for pooch that keeps partial files, and resumes from them.

    Parameters
    ----------
    part : Path
        The file that collects the bytes; beside it, ``<part>.from`` holds the server's ETag or date
        of the version that they belong to.
    progress : bool
        Whether to show a progress bar.
    """

    def __init__(self, part: Path, progress: bool = True) -> None:
        self.part = part
        self.version = part.with_name(f"{part.name}.from")
        self.progress = progress

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool = False) -> None:
        """Download a file, as pooch asks for it."""
        requests = import_extra("requests", "datasets", "Downloading data sets")
        have = self.part.stat().st_size if self.part.exists() else 0
        with self._request(requests, url, have) as answer:
            if have and answer.status_code == OUT_OF_RANGE:
                return self._start_again(url, output_file, pooch)
            answer.raise_for_status()
            have = have if answer.status_code == PARTIAL else 0
            self._collect(answer, have, requests)
        os.replace(self.part, output_file)
        self.version.unlink(missing_ok=True)
        return None

    def _request(self, requests: Any, url: str, have: int) -> Any:
        # With compression in transfer, byte ranges would not be those of the file.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self.version.exists():  # a part is useless if the file has changed since
                headers["If-Range"] = self.version.read_text()
        return requests.get(url, headers=headers, stream=True, timeout=TIMEOUT)

    def _start_again(self, url: str, output_file: Any, pooch: Any) -> None:
        self.part.unlink()
        self.version.unlink(missing_ok=True)
        self(url, output_file, pooch)

    def _collect(self, answer: Any, have: int, requests: Any) -> None:
        self._remember_version(answer)
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        title = f"Downloading {self.part.stem}"
        with (
            open(self.part, "ab" if have else "wb") as file,
            Bar(title, total, self.progress) as bar,
        ):
            bar.advance(have)
            for chunk in answer.iter_content(CHUNK):
                file.write(chunk)
                file.flush()
                bar.advance(len(chunk))
        if total is not None and bar.done != total:
            raise requests.ConnectionError(f"only {bar.done} of {total} bytes arrived")

    def _remember_version(self, answer: Any) -> None:
        tag = answer.headers.get("ETag", "")
        tag = tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified", "")
        if tag:
            self.version.write_text(tag)


def recorded_hash(path: Path) -> str | None:
    """Return the checksum that was recorded when a file was first downloaded, if it was."""
    record = path.with_name(f"{path.name}.sha256")
    return record.read_text().split()[0] if record.exists() else None


def record_hash(path: Path) -> None:
    """Write a file's checksum beside it, in the form that ``sha256sum -c`` reads."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    write_text(path.with_name(f"{path.name}.sha256"), f"{digest}  {path.name}\n")


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Keep pooch from writing lines to the terminal between our progress bars."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
