"""Features of images, computed once and kept beside the data."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.datasets._home import find_home, writable_home
from coterie.features import _gist, _hog
from coterie.features._images import as_images
from coterie.files import written_whole


def cached_features(
    name: str,
    images: Any,
    *,
    data_home: str | os.PathLike[str] | None = None,
    block_norm: str = "L2-Hys",
    n_jobs: int | None = None,
    progress: bool = True,
) -> dict[str, NDArray[Any]]:
    """Return pixels, GIST and HOG of images, reading from disk what was computed before.

    Parameters
    ----------
    name : str
        Name of the images; names of files contain it, the version of the feature and a checksum of
        the images, so that features of other images are never used.
    images : array-like of shape (n, height, width) or (n, side * side)
        Grey images.
    data_home : str, path or None, default=None
        The data folder; the files go to ``features`` in it, or in the user's cache folder if the
        data folder is read-only.
    block_norm : str, default="L2-Hys"
        How HOG normalises a block, see :func:`coterie.features.hog`.
    n_jobs : int or None, default=None
        Number of threads; None and -1 use all cores.
    progress : bool, default=True
        Whether to show progress bars.

    Returns
    -------
    dict
        ``pixels``, ``gist`` and ``hog``, as :func:`coterie.features.image_views` gives them.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> images = np.random.default_rng(0).integers(0, 256, (3, 16, 16), dtype=np.uint8)
    >>> views = cached_features("noise", images, data_home=tempfile.mkdtemp())
    >>> {view: values.shape for view, values in views.items()}
    {'pixels': (3, 256), 'gist': (3, 512), 'hog': (3, 81)}
    """
    images = as_images(images, "cached_features")
    home = find_home(data_home)
    checksum = f"{zlib.crc32(np.ascontiguousarray(images).data):08x}"

    def kept(feature: str, version: int, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        file = f"{name}-{feature}-v{version}-{checksum}.npy"
        return read_or_compute(home, file, len(images), compute)

    return {
        "pixels": images.reshape(len(images), -1),  # (n, height * width)
        "gist": kept("gist", _gist.VERSION, lambda: _gist.gist(images, n_jobs=n_jobs, progress=progress)),
        "hog": kept(
            f"hog-{block_norm.lower()}",
            _hog.VERSION,
            lambda: _hog.hog(images, block_norm=block_norm, progress=progress),
        ),
    }


def read_or_compute(home: Path, file: str, n_rows: int, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
    """Return an array from a data folder's features or the user's cache, else compute and save it."""
    beside = home / "features" / file
    if is_whole(beside, n_rows):
        return np.load(beside, allow_pickle=False)
    path = writable_home(home) / "features" / file
    if path != beside and is_whole(path, n_rows):
        return np.load(path, allow_pickle=False)
    values = compute()
    with written_whole(path) as opened:
        np.save(opened, values, allow_pickle=False)
    return values


def is_whole(path: Path, n_rows: int) -> bool:
    """Whether a file exists and holds an array with the expected number of rows."""
    if not path.is_file():
        return False
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False).shape[0] == n_rows
    except (ValueError, EOFError):  # not written by us, or damaged: it is computed again
        return False
