"""The CPU's kernels for statistics of a view's columns, and for the sums of its rows, in numba.

As in :mod:`coterie.kernels._numba`, every function runs in one thread. Each column is added up row by row, so that its
statistics do not depend on the columns beside it.
"""

from __future__ import annotations

import math

import numpy as np

from coterie.kernels._compiling import FASTMATH, compiled


@compiled()
def column_ends(data, low, high, nonzeros, negatives):
    """Write every column's least and largest value, and the numbers of its nonzeros and of its negative values."""
    low[:], high[:], nonzeros[:], negatives[:] = np.inf, -np.inf, 0, 0
    for i in range(data.shape[0]):
        for j in range(data.shape[1]):
            value = np.float64(data[i, j])
            low[j] = value if value < low[j] else low[j]
            high[j] = value if value > high[j] else high[j]
            nonzeros[j] += value != 0
            negatives[j] += value < 0


@compiled()
def column_mean_and_std(data, mean, std):
    """Write every column's mean and standard deviation.

    Differences from the first row are added up: the sum of 20,000 equal values is rounded so often that their mean
    would differ from them, and the column would seem to vary.
    """
    n, d = data.shape
    mean[:], std[:] = 0, 0
    for i in range(n):
        for j in range(d):
            mean[j] += np.float64(data[i, j]) - np.float64(data[0, j])
    for j in range(d):
        mean[j] = np.float64(data[0, j]) + mean[j] / n
    for i in range(n):
        for j in range(d):
            gap = np.float64(data[i, j]) - mean[j]
            std[j] += gap * gap
    for j in range(d):
        std[j] = math.sqrt(std[j] / n)


@compiled()
def column_tails(data, mean, scale, skewness, kurtosis):
    """Write the means of ((x - mean) * scale)^3 and of its fourth power, column by column."""
    n, d = data.shape
    skewness[:], kurtosis[:] = 0, 0
    for i in range(n):
        for j in range(d):
            gap = (np.float64(data[i, j]) - mean[j]) * scale[j]
            square = gap * gap
            skewness[j] += square * gap
            kurtosis[j] += square * square
    for j in range(d):
        skewness[j] /= n
        kurtosis[j] /= n


@compiled(fastmath=FASTMATH)
def row_sums(data, sums):
    """Write every row's sum."""
    for i in range(data.shape[0]):
        total = 0.0
        for j in range(data.shape[1]):
            total += np.float64(data[i, j])
        sums[i] = total
