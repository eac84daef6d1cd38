"""Rows of a view of images as small PNG pictures, without an image library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

COLOUR_TYPES = {1: 0, 3: 2, 4: 6}  # channels -> PNG's number for grey, RGB and RGBA


def encode_png(pixels: np.ndarray) -> bytes:
    """Return an image as a PNG file.

    Parameters
    ----------
    pixels : ndarray of uint8, of shape (h, w) or (h, w, c)
        Grey, or 1, 3 or 4 channels.

    Examples
    --------
    >>> import numpy as np
    >>> encode_png(np.zeros((2, 3), dtype=np.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels  # (h, w, c)
    height, width, channels = pixels.shape
    lines = np.zeros((height, 1 + width * channels), dtype=np.uint8)  # a line's first byte is its filter: 0, none
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts)


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return one chunk of a PNG file."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def data_uri(pixels: np.ndarray) -> str:
    """Return an image as a data URI."""
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode("ascii")


def shrink(images: np.ndarray, longest: int) -> np.ndarray:
    """Return images shrunk to a longer side of at most ``longest`` pixels by averaging blocks of pixels.

    Examples
    --------
    >>> import numpy as np
    >>> shrink(np.arange(16.0).reshape(1, 4, 4, 1), 2)[0, :, :, 0]
    array([[ 2.5,  4.5],
           [10.5, 12.5]])
    """
    _, height, width, _ = images.shape
    if max(height, width) <= longest:
        return images
    ratio = longest / max(height, width)
    for axis, size in ((1, height), (2, width)):
        edges = np.linspace(0, size, max(1, round(size * ratio)) + 1).astype(int)
        counts = np.diff(edges).reshape([-1 if a == axis else 1 for a in range(4)])
        images = np.add.reduceat(images.astype(np.float64), edges[:-1], axis=axis) / counts
    return images  # (n, h, w, c)


def sheet(images: np.ndarray, across: int) -> np.ndarray:
    """Return images tiled on one large image, ``across`` of them in a line."""
    n, height, width, channels = images.shape
    down = -(-n // across)
    padded = np.zeros((down * across, height, width, channels), dtype=images.dtype)
    padded[:n] = images
    grid = padded.reshape(down, across, height, width, channels).swapaxes(1, 2)
    return grid.reshape(down * height, across * width, channels)
