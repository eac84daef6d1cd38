"""Data sets: reading and writing bundles, the paper's five sets, and synthetic ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_bundle": ("MultiViewData", "load_views", "save_views"),
        "_convert": ("convert_mfeat", "convert_mnist", "convert_nus", "convert_reuters", "convert_usps"),
        "_digits": ("load_digit_views",),
        "_download": ("DownloadError",),
        "_features": ("cached_features",),
        "_fetch": ("fetch_mfeat", "fetch_mnist", "fetch_nus", "fetch_reuters", "fetch_usps"),
        "_synthetic": ("iterate_views", "make_views"),
    },
)
