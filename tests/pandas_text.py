"""Text as anndata can write it."""

import warnings
from contextlib import contextmanager

import pandas as pd


@contextmanager
def plain_text():
    """Let pandas make text of Python strings: anndata cannot write pandas 3's own text yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pd.option_context("future.infer_string", False):
            yield
