"""Data sets: reading and writing bundles, the paper's five sets, and synthetic ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import names_of

__all__ = [
    "DownloadError",
    "MultiViewData",
    "cached_features",
    "convert_mfeat",
    "convert_mnist",
    "convert_nus",
    "convert_reuters",
    "convert_usps",
    "fetch_mfeat",
    "fetch_mnist",
    "fetch_nus",
    "fetch_reuters",
    "fetch_usps",
    "iterate_views",
    "load_digit_views",
    "load_views",
    "make_views",
    "save_views",
]

if TYPE_CHECKING:
    from coterie.datasets._bundle import MultiViewData, load_views, save_views
    from coterie.datasets._convert import (
        convert_mfeat,
        convert_mnist,
        convert_nus,
        convert_reuters,
        convert_usps,
    )
    from coterie.datasets._digits import load_digit_views
    from coterie.datasets._download import DownloadError
    from coterie.datasets._features import cached_features
    from coterie.datasets._fetch import (
        fetch_mfeat,
        fetch_mnist,
        fetch_nus,
        fetch_reuters,
        fetch_usps,
    )
    from coterie.datasets._synthetic import iterate_views, make_views

__getattr__ = names_of(
    __name__,
    {
        "DownloadError": "_download",
        "MultiViewData": "_bundle",
        "cached_features": "_features",
        "convert_mfeat": "_convert",
        "convert_mnist": "_convert",
        "convert_nus": "_convert",
        "convert_reuters": "_convert",
        "convert_usps": "_convert",
        "fetch_mfeat": "_fetch",
        "fetch_mnist": "_fetch",
        "fetch_nus": "_fetch",
        "fetch_reuters": "_fetch",
        "fetch_usps": "_fetch",
        "iterate_views": "_synthetic",
        "load_digit_views": "_digits",
        "load_views": "_bundle",
        "make_views": "_synthetic",
        "save_views": "_bundle",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
