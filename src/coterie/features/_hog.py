"""HOG, histograms of oriented gradients, by scikit-image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.features._images import as_images
from coterie.lazy import import_extra
from coterie.progress import Bar
from coterie.validation import check_choice

VERSION = 1  # part of the names of cached files: raise it when the numbers change

CELLS = 3  # along each side of the smallest image that fills one block
DEFAULT_CELL = 8  # pixels, scikit-image's own default
BLOCK_NORMS = ("L2-Hys", "L1", "L1-sqrt", "L2")  # scikit-image's; the first is its default


def cell_size(side: int) -> int:
    """Return the side of a cell, in pixels, for images of a given shorter side.

    It is scikit-image's default where a block of 3 x 3 cells fits, and otherwise the largest that
    lets one fit.

    Examples
    --------
    >>> cell_size(28), cell_size(16)
    (8, 5)
    """
    return min(DEFAULT_CELL, side // CELLS)


def hog(
    images: Any, *, pixels_per_cell: int | None = None, block_norm: str = "L2-Hys", progress: bool = True
) -> NDArray[np.float32]:
    """Describe images by histograms of 9 gradient directions, in blocks of 3 x 3 cells.

    Parameters
    ----------
    images : array-like of shape (n, height, width) or (n, side * side)
        Grey images of any real type.
    pixels_per_cell : int or None, default=None
        Side of a cell. None takes 8, scikit-image's default, or less so that 3 cells fit: 5 for
        images of 16 x 16.
    block_norm : {"L2-Hys", "L1", "L1-sqrt", "L2"}, default="L2-Hys"
        How a block is normalised. "L2-Hys" is scikit-image's default since 0.15; before, when the
        paper was written, it was "L1".
    progress : bool, default=True
        Whether to show a progress bar, on a terminal, if it takes more than a second.

    Returns
    -------
    features : ndarray of shape (n, 81), float32
        81 where one block fits, as in images of 28 x 28 and 16 x 16; 81 more for every further
        block.

    References
    ----------
    N. Dalal, B. Triggs: Histograms of oriented gradients for human detection. CVPR (2005).

    Examples
    --------
    >>> import numpy as np
    >>> ramp = np.tile(np.arange(28.0), (1, 28, 1))
    >>> features = hog(ramp)
    >>> features.shape
    (1, 81)
    >>> features.reshape(9, 9).argmax(axis=1)  # one direction in every cell
    array([0, 0, 0, 0, 0, 0, 0, 0, 0])
    """
    images = as_images(images, "hog")
    check_choice("hog", "block_norm", block_norm, BLOCK_NORMS)
    side = min(images.shape[1:])
    cell = cell_size(side) if pixels_per_cell is None else pixels_per_cell
    if not 1 <= cell <= side // CELLS:
        raise ValueError(
            f"The 'pixels_per_cell' parameter of hog must be between 1 and {side // CELLS}, so "
            f"that {CELLS} cells fit into {side} pixels. Got {cell!r} instead."
        )
    one = import_extra("skimage.feature", "features", "HOG").hog
    with Bar("HOG", len(images), progress) as bar:
        rows = [_one(one, image, cell, block_norm, bar) for image in images]
    if not rows:
        rows = [np.empty((0, CELLS**2 * 9), np.float32)]
    return np.vstack(rows)  # (n, 81 per block)


def _one(function: Any, image: NDArray[Any], cell: int, block_norm: str, bar: Bar) -> NDArray[np.float32]:
    features = function(image, pixels_per_cell=(cell, cell), block_norm=block_norm)
    bar.advance()
    return features.astype(np.float32)
