"""The work on a block of rows: the same few functions for NumPy arrays and for torch tensors."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

# Table columns that compiled loops add at once; half as many for a remainder that FEW_LANES columns hold.
LANES = 32
FEW_LANES = LANES // 2

# Rows of a product that fit the cache. BLAS multiplies several rows at once, 12 with AVX2 and 16 with AVX-512, and this
# is a multiple of both.
PRODUCT_ROWS = 11 * 48

# A row is alone at a landmark if all other rows together have at most this share of the landmark's weight.
ALONE = 1e-9


def is_tensor(array: Any) -> bool:
    """Return whether an array is a torch tensor, without importing torch."""
    return type(array).__module__.split(".")[0] == "torch"


def to_tensor(array: Any, device: Any, dtype: Any = None) -> Any:
    """Return an array or a number as a tensor on a device, without waiting for the device.

    NumPy's memory is not pinned, so the driver has read it before the call returns, even if the copy is asynchronous.
    """
    import torch

    return torch.as_tensor(array).to(device=device, dtype=dtype, non_blocking=not is_tensor(array))


def kernels_of(array: Any) -> ModuleType:
    """Return the kernels for blocks of this kind of array: ``cpu`` for NumPy, ``torch`` for torch.

    Examples
    --------
    >>> import numpy as np
    >>> kernels_of(np.zeros(3)).__name__
    'coterie.kernels.cpu'
    """
    if is_tensor(array):
        from coterie.kernels import torch

        return torch
    from coterie.kernels import cpu

    return cpu


def triangle_side(size: int) -> int:
    """Return the number of rows of a lower triangle, given its number of entries.

    Examples
    --------
    >>> triangle_side(6)
    3
    """
    return (math.isqrt(8 * size + 1) - 1) // 2
