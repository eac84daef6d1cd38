"""Packages whose names are looked up when they are first used, so that importing them costs next to nothing."""

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
        Modules of the package that are names of it themselves.

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
