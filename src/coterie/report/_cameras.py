"""Pictures of rows, from a view that holds images or from one image file per row."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from coterie.report._pictures import data_uri, sheet, shrink
from coterie.report._portraits import Typical
from coterie.report._sample import Sample
from coterie.report._text import shown
from coterie.threads import count_threads, in_order
from coterie.views import Table, View

THUMBNAIL_BYTES = 600_000  # of all thumbnails together, before compression
ATLAS_BYTES = 400_000  # of the pictures of all sampled rows
LONGEST_SIDE = 56  # pixels, like the sides below
SMALLEST_TILE = 8
ATLAS_LONGEST_SIDE = 20
ATLAS_ACROSS = 64
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


class Pictures(Protocol):
    """A source of pictures of the sampled rows."""

    @property
    def name(self) -> str:
        """The name to show with the pictures."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""

    def take(self, rows: np.ndarray, longest: int) -> np.ndarray:
        """Return pictures of some rows, given by their positions in the sample."""

    def mean(self, rows: np.ndarray, longest: int) -> np.ndarray | None:
        """Return the mean picture of some rows; None where a mean would show nothing."""


@dataclass(frozen=True)
class Camera:
    """Pictures from a view whose rows are images."""

    view: View
    shape: tuple[int, int, int]  # height, width, channels
    low: float  # drawn black
    high: float  # drawn white

    @property
    def name(self) -> str:
        """The view's name."""
        return self.view.name

    @classmethod
    def focus(cls, view: View, shape: tuple[int, int, int]) -> Camera:
        """Return a camera whose black and white are 0 and 255 for uint8, else the values' .1 % and 99.9 % quantiles."""
        data = dense(view.read(slice(None)).known())
        if data.dtype == np.uint8:
            return cls(view, shape, 0.0, 255.0)
        low, high = np.quantile(data.astype(np.float32), [0.001, 0.999])
        return cls(view, shape, float(low), max(float(high), float(low) + 1e-12))

    def take(self, rows: np.ndarray, longest: int) -> np.ndarray:
        """Return pictures of some rows, at most ``longest`` pixels a side; rows that lack the view are black."""
        return self.develop(dense(self.view.read(rows).data), longest)

    def mean(self, rows: np.ndarray, longest: int) -> np.ndarray | None:
        """Return the mean of the rows that have the view, as a picture."""
        known = dense(self.view.read(rows).known()) if len(rows) else np.empty((0, 0))
        return self.develop(known.mean(axis=0, dtype=np.float64)[None], longest)[0] if len(known) else None

    def develop(self, values: np.ndarray, longest: int) -> np.ndarray:
        """Return rows of values as pictures of uint8."""
        images = shrink(values.reshape(-1, *self.shape), longest).astype(np.float64)
        scaled = np.clip((images - self.low) / (self.high - self.low), 0, 1)
        return np.rint(255 * scaled).astype(np.uint8)  # (n, h, w, c)


@dataclass(frozen=True)
class Album:
    """Pictures from the image files of the sampled rows, read and shrunk by ``open``."""

    tiles: np.ndarray  # (s, LONGEST_SIDE, LONGEST_SIDE, 3); black where there is no picture
    unread: int  # rows without an image file that can be read
    name: str = "pictures"
    shape: tuple[int, int, int] = (LONGEST_SIDE, LONGEST_SIDE, 3)

    @classmethod
    def open(cls, paths: Sequence[Path | None], n_jobs: int | None) -> Album:
        """Read and shrink the files."""
        tiles = np.zeros((len(paths), LONGEST_SIDE, LONGEST_SIDE, 3), dtype=np.uint8)
        unread = 0
        for number, tile in enumerate(in_order(read_tile, paths, count_threads(n_jobs))):
            unread += tile is None
            tiles[number] = 0 if tile is None else tile
        return cls(tiles, unread)

    def take(self, rows: np.ndarray, longest: int) -> np.ndarray:
        """Return pictures of some rows."""
        return np.rint(shrink(self.tiles[rows], longest)).astype(np.uint8)

    def mean(self, rows: np.ndarray, longest: int) -> np.ndarray | None:
        """Return None: a mean of photographs is a grey blur."""
        return None


def read_tile(path: Path | None) -> np.ndarray | None:
    """Return a file's picture, shrunk and centred on a black square; None for a missing or unreadable file."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise ImportError("Pictures of rows are read by Pillow: pip install pillow") from error
    if path is None:
        return None
    tile = np.zeros((LONGEST_SIDE, LONGEST_SIDE, 3), dtype=np.uint8)
    try:
        with Image.open(path) as image:
            image.draft("RGB", (LONGEST_SIDE, LONGEST_SIDE))  # a JPEG can be decoded at an eighth of its size
            small = image.convert("RGB")
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError):
        return None  # the caller counts these, and the report shows the number
    small.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    pixels = np.asarray(small)  # (h, w, 3)
    top, left = (LONGEST_SIDE - pixels.shape[0]) // 2, (LONGEST_SIDE - pixels.shape[1]) // 2
    tile[top : top + pixels.shape[0], left : left + pixels.shape[1]] = pixels
    return tile


def picture_paths(pictures: Any, names: Sequence[str], rows: np.ndarray) -> list[Path | None]:
    """Return one image file per row: the file in the folder that is named after the row, or the path in the list."""
    if isinstance(pictures, str | os.PathLike):
        folder = Path(pictures)
        if not folder.is_dir():
            raise ValueError(f"The 'pictures' parameter must be a folder or one path per row. Got {str(folder)!r}.")
        there = {path.stem: path for path in sorted(folder.iterdir()) if path.suffix.lower() in ENDINGS}
        there |= {path.name: path for path in list(there.values())}
        return [there.get(name) for name in names]
    return [Path(str(path)) if isinstance(path := pictures[row], str | os.PathLike) else None for row in rows]


def side(shape: tuple[int, int, int], count: int, budget: int, most: int) -> int:
    """Return the longer side in pixels, at most ``most``, with which ``count`` pictures take ``budget`` bytes."""
    height, width, channels = shape
    flatness = min(height, width) / max(height, width)
    return int(min(most, np.sqrt(budget / (max(count, 1) * channels * flatness))))


def dense(rows: Table) -> np.ndarray:
    """Return rows as a dense array."""
    return rows.toarray() if sparse.issparse(rows) else np.asarray(rows)


def thumbnails(camera: Pictures, typical: dict[int, Typical], sample: Sample, n_cameras: int) -> dict[int, dict]:
    """Return every cluster's mean picture and the pictures of its typical rows, as data URIs."""
    count = sum(1 + len(rows.central) + len(rows.border) for rows in typical.values())
    longest = side(camera.shape, count, THUMBNAIL_BYTES // n_cameras, LONGEST_SIDE)
    found = {}
    for cluster, rows in typical.items():
        mean = camera.mean(np.flatnonzero((sample.labels == cluster) & sample.drawn), longest)
        parts = {"central": sample.at(rows.central), "border": sample.at(rows.border)}
        found[cluster] = {
            "mean": None if mean is None else data_uri(mean),
            **{part: [data_uri(picture) for picture in camera.take(at, longest)] for part, at in parts.items()},
        }
    return found


def atlas(camera: Pictures, n_rows: int) -> dict[str, Any] | None:
    """Return one image with the pictures of all sampled rows; None if they would be too small to recognise."""
    longest = side(camera.shape, n_rows, ATLAS_BYTES, ATLAS_LONGEST_SIDE)
    if longest < min(SMALLEST_TILE, max(camera.shape[:2])):
        return None
    pictures = camera.take(np.arange(n_rows), longest)  # (s, h, w, c)
    return {
        "picture": data_uri(sheet(pictures, ATLAS_ACROSS)),
        "height": pictures.shape[1],
        "width": pictures.shape[2],
        "across": ATLAS_ACROSS,
        "view": shown(camera.name),
    }
