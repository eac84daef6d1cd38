"""Importing what only some users need, with an error that says how to get it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, extra: str) -> Any:
    """Import a module that comes with one of Coterie's extras.

    Parameters
    ----------
    module : str
        The module's full name, such as ``"skimage.feature"``.
    extra : str
        The extra of Coterie that installs it.

    Returns
    -------
    module

    Raises
    ------
    ImportError
        If it is not installed; the message names the extra.

    Examples
    --------
    >>> optional("json", "datasets").loads("[1]")
    [1]
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"This needs {package!r}, which could not be imported ({error}). "
            f"Install it with: pip install coterie[{extra}]"
        ) from error
