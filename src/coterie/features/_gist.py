"""GIST: the energy of every scale and direction in each part of an image.

The steps and constants are those of Oliva and Torralba (2001) and of the code they published with
it. The implementation is our own: it works in batches, and evaluates scales without high
frequencies at fewer pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from coterie.features._images import as_images, resize
from coterie.progress import Bar
from coterie.threads import count_threads, in_order, one_thread_per_block

VERSION = 1  # part of the names of cached files: raise it when the numbers change

SIDE = 32  # pixels of the resized image
GRID = 4  # blocks along each side
N_SCALES = 4
N_ORIENTATIONS = 8
N_FEATURES = N_SCALES * N_ORIENTATIONS * GRID**2

TOP_FREQUENCY = 0.3  # cycles per pixel at the finest scale
SCALE_STEP = 1.85  # ratio of the frequencies of neighbouring scales
RADIAL_FALL = 3.5  # of the Gaussian in (frequency / centre - 1): 10 x 0.35
ANGULAR_FALL = 2 * np.pi * 16 * N_ORIENTATIONS**2 / 32**2  # of the Gaussian in the angle

ROUNDING = 1e-5  # of the grey value: resizing rounds, and a blank image must stay blank
SMALLEST_SPAN = 1e-30  # of grey values; 255 divided by less would overflow

PREFILTER_CUTOFF = 4.0  # cycles per image: slower changes count as lighting
PREFILTER_PAD = 5  # pixels mirrored around the image before prefiltering
PREFILTER_FLOOR = 0.2  # added to the local contrast, so that flat areas are not amplified

# Pixels mirrored around the image before filtering. The original's 32 moves the features by 0.3 %
# and costs twice the time.
PAD = 16
FIELD = SIDE + 2 * PAD  # side of the padded image

# Samples along the padded side at which each scale is evaluated, from fine to coarse. The spectrum
# is cut more than four standard deviations above the centre of a coarse scale, where its Gaussian
# is below 0.0001; a multiple of 8 keeps blocks whole.
SAMPLES = (64, 64, 32, 16)

BATCH = 128  # images; one filter's responses (4 MB at the finest scale) then stay in the cache


def gist(images: Any, *, n_jobs: int | None = None, progress: bool = True) -> NDArray[np.float32]:
    """Describe images by the energy of 4 scales x 8 directions on a 4 x 4 grid.

    Every image is resized to 32 x 32 and stretched to the full range of grey; slow changes of
    lighting are removed, and local contrast is normalised. Then it is filtered, and the magnitude of
    each response is averaged over each block.

    Parameters
    ----------
    images : array-like of shape (n, height, width) or (n, side * side)
        Grey images of any real type.
    n_jobs : int or None, default=None
        Number of threads; None and -1 use all cores.
    progress : bool, default=True
        Whether to show a progress bar, on a terminal, if it takes more than a second.

    Returns
    -------
    features : ndarray of shape (n, 512), float32
        Column ``((scale * 8 + orientation) * 4 + block row) * 4 + block column``; the finest scale
        comes first, and orientation j responds to waves that run at an angle of j * 22.5 degrees to
        the x axis.

    References
    ----------
    A. Oliva, A. Torralba: Modeling the shape of the scene: a holistic representation of the spatial
    envelope. International Journal of Computer Vision 42 (2001).

    Examples
    --------
    >>> import numpy as np
    >>> stripes = np.tile([0.0, 0.0, 1.0, 1.0], (1, 32, 8))
    >>> energy = gist(stripes).reshape(4, 8, 4, 4).mean(axis=(2, 3))
    >>> int(energy[0].argmax())  # the stripes change along x
    0
    """
    images = as_images(images, "gist")
    features = np.empty((len(images), N_FEATURES), dtype=np.float32)  # (n, 512)
    starts = range(0, len(images), BATCH)

    def one_batch(start: int) -> tuple[int, NDArray[np.float32]]:
        return start, describe(images[start : start + BATCH])

    with one_thread_per_block(), Bar("GIST", len(images), progress) as bar:
        for start, rows in in_order(one_batch, starts, count_threads(n_jobs)):
            features[start : start + len(rows)] = rows
            bar.advance(len(rows))
    return features


def describe(images: NDArray[Any]) -> NDArray[np.float32]:
    """Return the features of one batch."""
    square = resize(images.astype(np.float32), SIDE)  # (b, 32, 32)
    flat = prefilter(stretch(square))  # (b, 32, 32)
    spectrum = scipy.fft.fft2(mirror(flat, PAD))  # (b, 64, 64)
    blocks = [energy for bank in filter_banks() for energy in energies(spectrum, bank)]
    return np.stack(blocks, axis=1).reshape(len(images), N_FEATURES)  # (b, 512)


def stretch(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Bring every image to the range 0 to 255; a blank one becomes 0."""
    low = images.min(axis=(1, 2), keepdims=True)  # (b, 1, 1)
    span = images.max(axis=(1, 2), keepdims=True) - low  # (b, 1, 1)
    seen = span > ROUNDING * np.abs(low) + SMALLEST_SPAN  # (b, 1, 1)
    scale = np.divide(255, span, out=np.zeros_like(span), where=seen)  # (b, 1, 1)
    return (images - low) * scale


def prefilter(images: NDArray[np.float32]) -> NDArray[Any]:
    """Remove slow changes of lighting, then divide by the local contrast."""
    padded = mirror(np.log1p(images), PREFILTER_PAD)  # (b, 42, 42)
    fast = padded - blur(padded)
    contrast = np.sqrt(np.maximum(blur(fast * fast), 0))
    inside = slice(PREFILTER_PAD, -PREFILTER_PAD)
    return (fast / (PREFILTER_FLOOR + contrast))[:, inside, inside]  # (b, 32, 32)


def blur(images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Apply a Gaussian low-pass filter, which has fallen to one half at the prefilter's cut-off."""
    side = images.shape[1]
    spectrum = scipy.fft.rfft2(images)  # (b, side, side // 2 + 1)
    return scipy.fft.irfft2(spectrum * low_pass(side), s=(side, side))


@lru_cache(maxsize=4)
def low_pass(side: int) -> NDArray[np.float32]:
    """Return the transfer function of ``blur``, for half of the spectrum."""
    down = scipy.fft.fftfreq(side, 1 / side)[:, None]  # (side, 1), cycles per image
    across = scipy.fft.rfftfreq(side, 1 / side)  # (side // 2 + 1,)
    return np.exp2(-(down**2 + across**2) / PREFILTER_CUTOFF**2).astype(np.float32)


def mirror(images: NDArray[np.float32], pad: int) -> NDArray[np.float32]:
    """Pad images with their reflection."""
    return np.pad(images, ((0, 0), (pad, pad), (pad, pad)), mode="symmetric")


@dataclass(frozen=True)
class FilterBank:
    """The filters of one scale, on the frequencies that the scale needs.

    Attributes
    ----------
    kept : ndarray of int, shape (samples,)
        Which rows, and columns, of the padded image's spectrum they act on.
    transfer : ndarray of complex, shape (orientations, samples, samples)
    """

    kept: NDArray[np.intp]
    transfer: NDArray[np.complex64]


@lru_cache(maxsize=1)
def filter_banks() -> tuple[FilterBank, ...]:
    """Return the filters of all scales, from fine to coarse."""
    return tuple(filter_bank(TOP_FREQUENCY / SCALE_STEP**scale, samples) for scale, samples in enumerate(SAMPLES))


def filter_bank(centre: float, samples: int) -> FilterBank:
    """Return the filters around one frequency, in cycles per pixel."""
    cycles = scipy.fft.fftfreq(samples, 1 / samples)  # (samples,), cycles per padded image
    down, across = np.meshgrid(cycles / FIELD, cycles / FIELD, indexing="ij")
    radius = np.hypot(down, across)  # (samples, samples)
    radial = RADIAL_FALL * (radius / centre - 1) ** 2
    turns = np.pi / N_ORIENTATIONS * np.arange(N_ORIENTATIONS)[:, None, None]  # (8, 1, 1)
    angle = np.arctan2(down, across) - turns
    angle = (angle + np.pi) % (2 * np.pi) - np.pi  # (8, samples, samples), each within half a turn
    # A coarse sample represents FIELD / samples pixels: it is taken at their middle, not at the
    # first one.
    middle = (FIELD / samples - 1) / 2
    shift = np.exp(2j * np.pi * middle * (down + across))
    gain = (samples / FIELD) ** 2  # the inverse transform divides by its own number of samples
    transfer = gain * shift * np.exp(-radial - ANGULAR_FALL * angle**2)
    return FilterBank(cycles.astype(np.intp), transfer.astype(np.complex64))


def energies(spectrum: NDArray[np.complex64], bank: FilterBank) -> Iterator[NDArray[np.float32]]:
    """Yield, for each direction, the mean magnitude of the response on the grid, b x 16."""
    samples = len(bank.kept)
    part = spectrum[:, bank.kept[:, None], bank.kept] if samples < FIELD else spectrum
    edge = samples * PAD // FIELD
    inside = slice(edge, samples - edge)
    averages = block_averages(samples - 2 * edge)  # (inside^2, 16)
    for transfer in bank.transfer:
        response = scipy.fft.ifft2(part * transfer, overwrite_x=True)[:, inside, inside]
        yield np.abs(response).reshape(len(part), -1) @ averages  # (b, 16)


@lru_cache(maxsize=8)
def block_averages(side: int) -> NDArray[np.float32]:
    """Return the matrix that averages a flattened side x side image over each block of the grid.

    As a product, the means of a batch cost next to nothing; as means over short axes they would
    cost more than the transform.
    """
    size = side // GRID
    one_axis = np.repeat(np.eye(GRID, dtype=np.float32), size, axis=0) / size  # (side, 4)
    return np.kron(one_axis, one_axis)  # (side^2, 16)
