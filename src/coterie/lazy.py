"""Lazy imports: names that are looked up when first used, and packages that only some users have installed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def names_of(package: str, homes: Mapping[str, str], rooms: Collection[str] = ()) -> Callable[[str], Any]:
    """Return a package's ``__getattr__`` (PEP 562).

    Parameters
    ----------
    package : str
        Its name.
    homes : mapping of str to str
        The module of the package in which each name is defined.
    rooms : collection of str
        Modules of the package that are themselves available as its attributes.

    Examples
    --------
    >>> find = names_of("importlib", {"EntryPoint": "metadata"}, rooms=["resources"])
    >>> find("EntryPoint").__name__, find("resources").__name__
    ('EntryPoint', 'importlib.resources')
    >>> find("nonsense")
    Traceback (most recent call last):
    ...
    AttributeError: module 'importlib' has no attribute 'nonsense'
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name in rooms:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


def lazy_names(package: str, modules: Mapping[str, Collection[str]]) -> tuple[Callable[[str], Any], Callable[[], list]]:
    """Return the ``__getattr__`` and the ``__dir__`` of a package whose names are defined in its modules.

    Examples
    --------
    >>> find, names = lazy_names("importlib", {"metadata": ("EntryPoint", "Distribution")})
    >>> names(), find("EntryPoint").__name__
    (['Distribution', 'EntryPoint'], 'EntryPoint')
    """
    homes = {name: module for module, names in modules.items() for name in names}
    return names_of(package, homes), lambda: sorted(homes)


def import_extra(module: str, extra: str, purpose: str) -> Any:
    """Import a module of a package that comes with one of Coterie's extras.

    Parameters
    ----------
    module : str
        The module's full name, such as ``"skimage.feature"``.
    extra : str
        The extra of Coterie that installs it.
    purpose : str
        What needs it, as the subject of the error's sentence.

    Raises
    ------
    ImportError
        If it cannot be imported; the message names the package and the extra.

    Examples
    --------
    >>> import_extra("json", "files", "Reading JSON").loads("[1]")
    [1]
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package} ({error}). Install it with: pip install coterie[{extra}]"
        ) from error
