"""Validation and resizing of images."""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST_SIDE = 4  # pixels; below that there is no 4 x 4 grid, and no gradient worth a histogram


def as_images(images: Any, owner: str) -> NDArray[Any]:
    """Return grey images as one array, n x height x width, without copying them.

    Rows of pixels are taken for square images, which is how data sets of digits store them.

    Examples
    --------
    >>> import numpy as np
    >>> as_images(np.zeros((5, 784)), "gist").shape
    (5, 28, 28)
    """
    images = np.asarray(images)
    if images.dtype.kind not in "buif":
        raise ValueError(f"The 'images' parameter of {owner} must hold real numbers. Got dtype {images.dtype} instead.")
    if images.ndim == 2 and isqrt(images.shape[1]) ** 2 == images.shape[1]:
        side = isqrt(images.shape[1])
        images = images.reshape(len(images), side, side)  # (n, side, side)
    if images.ndim != 3 or min(images.shape[1:]) < SMALLEST_SIDE:
        raise ValueError(
            f"The 'images' parameter of {owner} must be grey images, n x height x width with sides "
            f"of at least {SMALLEST_SIDE} pixels, or n rows that each are a square image. "
            f"Got an array of shape {images.shape} instead. "
            "Average the channels of colour images first: images.mean(axis=-1)."
        )
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise ValueError(
            f"The 'images' parameter of {owner} must be finite. Got NaN or infinity in image "
            f"{_first_bad(images)}. Drop or repair such images first."
        )
    return images


def _first_bad(images: NDArray[Any]) -> int:
    return int(np.argmin(np.isfinite(images).all(axis=(1, 2))))


@lru_cache(maxsize=16)
def resampling(source: int, target: int) -> NDArray[np.float32]:
    """Return the matrix, target x source, that resizes one axis linearly.

    Pixels are areas, so their centres lie at half-integers. When an axis shrinks the triangle is
    widened by the same factor, so that no source pixel is skipped. Beyond the edge the last pixel
    is repeated.

    Examples
    --------
    >>> resampling(4, 2)
    array([[0.5  , 0.375, 0.125, 0.   ],
           [0.   , 0.125, 0.375, 0.5  ]], dtype=float32)
    """
    reach = max(1.0, source / target)
    centres = (np.arange(target) + 0.5) * source / target - 0.5  # (target,)
    margin = int(np.ceil(reach))
    taps = np.arange(-margin, source + margin)  # (source + 2 margin,)
    weights = np.clip(1 - np.abs(centres[:, None] - taps) / reach, 0, None)  # (target, taps)
    pixel = np.clip(taps, 0, source - 1)[:, None] == np.arange(source)  # (taps, source)
    matrix = weights @ pixel  # (target, source)
    return (matrix / matrix.sum(axis=1, keepdims=True)).astype(np.float32)


def resize(images: NDArray[np.float32], side: int) -> NDArray[Any]:
    """Resize a batch of images to side x side, linearly along each axis."""
    _, height, width = images.shape
    down = resampling(height, side)  # (side, height)
    across = resampling(width, side)  # (side, width)
    return down @ images @ across.T  # (n, side, side)
