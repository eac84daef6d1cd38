"""Features of images and of text: HOG, GIST, and latent semantic analysis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy import names_of

__all__ = ["LSA", "gist", "hog", "image_views", "lsa"]

if TYPE_CHECKING:
    from coterie.features._gist import gist
    from coterie.features._hog import hog
    from coterie.features._lsa import LSA, lsa
    from coterie.features._views import image_views

__getattr__ = names_of(
    __name__,
    {
        "LSA": "_lsa",
        "gist": "_gist",
        "hog": "_hog",
        "image_views": "_views",
        "lsa": "_lsa",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
