"""The three views of an image that the paper uses."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from coterie.features._gist import gist
from coterie.features._hog import hog
from coterie.features._images import as_images


def image_views(
    images: Any, *, block_norm: str = "L2-Hys", n_jobs: int | None = None, progress: bool = True
) -> dict[str, NDArray[Any]]:
    """Return images as three views: their pixels, GIST and HOG.

    Parameters
    ----------
    images : array-like of shape (n, height, width) or (n, side * side)
        Grey images of any real type.
    block_norm : str, default="L2-Hys"
        How HOG normalises a block, see :func:`hog`.
    n_jobs : int or None, default=None
        Number of threads; None and -1 use all cores.
    progress : bool, default=True
        Whether to show progress bars, on a terminal, for what takes more than a second.

    Returns
    -------
    dict
        ``pixels`` (n x height * width, as given), ``gist`` (n x 512) and ``hog`` (n x 81).

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).integers(0, 256, (3, 16, 16))
    >>> {name: view.shape for name, view in image_views(images).items()}
    {'pixels': (3, 256), 'gist': (3, 512), 'hog': (3, 81)}
    """
    images = as_images(images, "image_views")
    return {
        "pixels": images.reshape(len(images), -1),  # (n, height * width)
        "gist": gist(images, n_jobs=n_jobs, progress=progress),  # (n, 512)
        "hog": hog(images, block_norm=block_norm, progress=progress),  # (n, 81)
    }
