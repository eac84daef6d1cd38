"""Features of images and of text: HOG, GIST, and latent semantic analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import lazy_names

__all__ = ["LSA", "gist", "hog", "image_views", "lsa"]

if TYPE_CHECKING:
    from coterie.features._gist import gist
    from coterie.features._hog import hog
    from coterie.features._lsa import LSA, lsa
    from coterie.features._views import image_views

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "_gist": ("gist",),
        "_hog": ("hog",),
        "_lsa": ("LSA", "lsa"),
        "_views": ("image_views",),
    },
)
