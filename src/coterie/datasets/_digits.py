"""scikit-learn's bundled digits, seen through several views: real data that needs no download."""

from __future__ import annotations

import numpy as np

from coterie.datasets._bundle import MultiViewData


def load_digit_views() -> MultiViewData:
    """Return 1,797 handwritten digits (8 x 8 pixels) as four views.

    ``pixels`` are the images; ``gradients`` are histograms of edge directions on a 3 x 3 grid; ``fourier`` holds the
    magnitudes of Fourier coefficients, which do not depend on the position of the digit; ``profiles`` are the sums
    over rows, columns and diagonals.

    Examples
    --------
    >>> data = load_digit_views()
    >>> {name: view.shape for name, view in data.views.items()}
    {'pixels': (1797, 64), 'gradients': (1797, 72), 'fourier': (1797, 39), 'profiles': (1797, 46)}
    """
    from sklearn.datasets import load_digits

    pixels, target = load_digits(return_X_y=True)  # (n, 64)
    images = pixels.reshape(-1, 8, 8)
    views = {
        "pixels": pixels,
        "gradients": _edge_histograms(images),
        "fourier": _low_frequencies(images),
        "profiles": _profiles(images),
    }
    return MultiViewData(
        views={name: view.astype(np.float32) for name, view in views.items()},
        target=target.astype(np.int32),
        name="digits",
    )


def _edge_histograms(images: np.ndarray, n_directions: int = 8) -> np.ndarray:
    """Return, for every cell of a 3 x 3 grid of overlapping 4 x 4 cells, the edges' strength by direction."""
    down, right = np.gradient(images, axis=(1, 2))  # (n, 8, 8) each
    strength = np.hypot(down, right)
    direction = np.arctan2(down, right) / (2 * np.pi) * n_directions  # in units of one bin
    views: list[np.ndarray] = []
    for bin_number in range(n_directions):
        gap = np.abs((direction - bin_number + n_directions / 2) % n_directions - n_directions / 2)
        energy = strength * np.maximum(0, 1 - gap)  # shared between the two nearest bins
        views.extend(energy[:, r : r + 4, c : c + 4].sum(axis=(1, 2)) for r in (0, 2, 4) for c in (0, 2, 4))
    return np.column_stack(views)  # (n, 72)


def _low_frequencies(images: np.ndarray) -> np.ndarray:
    """Return the magnitudes of the Fourier coefficients of half of the plane, without the mean."""
    magnitudes = np.abs(np.fft.rfft2(images))  # (n, 8, 5)
    return magnitudes.reshape(len(images), -1)[:, 1:]  # (n, 39)


def _profiles(images: np.ndarray) -> np.ndarray:
    """Return sums over rows, columns and both kinds of diagonals."""
    flipped = images[:, :, ::-1]
    diagonals = [side.trace(offset, axis1=1, axis2=2) for side in (images, flipped) for offset in range(-7, 8)]
    return np.column_stack([images.sum(axis=2), images.sum(axis=1), *diagonals])  # (n, 8 + 8 + 30)
