"""Faster start of the commands: on small files, their imports can take longer than the work."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any

# Modules that SciPy and scikit-learn import at module level and use in few places.
SELDOM = ("numpy.f2py", "numpy.testing", "scipy.stats")

_lock = threading.RLock()


@contextmanager
def quick_imports() -> Iterator[None]:
    """Make the imports inside faster; only for a process of our own, whose garbage collector is changed."""
    # Modules stay in memory, and collecting garbage among them takes a sixth of the time of their imports.
    gc.disable()
    try:
        for name in SELDOM:
            import_later(name)
        yield
    finally:
        gc.enable()
        gc.freeze()


def import_estimator() -> None:
    """Import the estimator, without pandas, which scikit-learn imports if it can but does not need."""
    with hidden("pandas"):
        import_module("sklearn.base")
    import_module("coterie.estimator")


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Make imports of a module fail inside, as if it were not installed, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def import_later(name: str) -> None:
    """Register a module without executing it: it is executed at the first access to one of its attributes.

    Does nothing if the module is imported already.
    """
    spec = find_spec(name) if name not in sys.modules else None
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    module.__class__ = Later
    sys.modules[name] = module
    package, _, last = name.rpartition(".")
    if package:
        setattr(sys.modules[package], last, module)


class Later(ModuleType):
    """A module that is executed when an attribute is first missing."""

    def __getattr__(self, name: str) -> Any:
        with _lock:  # other threads wait until the module is complete
            if type(self) is Later and "_runs" not in self.__dict__:
                self._run()
        return ModuleType.__getattribute__(self, name)  # AttributeError if the module's code asks for a later name

    def _run(self) -> None:
        self._runs = True
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(self)
        self.__class__ = ModuleType  # type: ignore[assignment]
