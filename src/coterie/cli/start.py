"""Starting quickly: what a command imports may take longer than all that it does with a small file."""

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

# What SciPy and scikit-learn import at their tops and use in few places.
SELDOM = ("numpy.f2py", "numpy.testing", "scipy.stats")

_lock = threading.RLock()


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import what is imported inside in less time: for a process that is the command's own."""
    # Modules are made to stay: to look for rubbish among them takes a sixth of the time of their imports.
    gc.disable()
    try:
        for name in SELDOM:
            import_later(name)
        yield
    finally:
        gc.enable()
        gc.freeze()


def import_estimator() -> None:
    """Import what fits and predicts; scikit-learn imports pandas, too, and does nothing with it."""
    with hidden("pandas"):
        import_module("sklearn.base")
    import_module("coterie.estimator")


@contextmanager
def hidden(name: str) -> Iterator[None]:
    """Let a module seem not to be installed, unless it is imported already."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def import_later(name: str) -> None:
    """Let a module be imported without running it: it runs when something of it is first used.

    Nothing changes where it is imported already.
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
    """A module that has not run yet; Python asks it for what it does not have."""

    def __getattr__(self, name: str) -> Any:
        with _lock:  # other threads wait until all of it is there
            if type(self) is Later and "_runs" not in self.__dict__:
                self._run()
        return ModuleType.__getattribute__(self, name)  # while it runs, its own parts may ask too early

    def _run(self) -> None:
        self._runs = True
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(self)
        self.__class__ = ModuleType  # type: ignore[assignment]
