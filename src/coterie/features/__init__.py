"""Features of images and of text: HOG, GIST, and latent semantic analysis."""

from __future__ import annotations

from coterie.features._gist import gist
from coterie.features._hog import hog
from coterie.features._lsa import LSA, lsa
from coterie.features._views import image_views

__all__ = ["LSA", "gist", "hog", "image_views", "lsa"]
