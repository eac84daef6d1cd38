"""Checks of parameters, with one form of message: the owner, the parameter, what is allowed, and what was passed."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from numbers import Integral, Real
from typing import Any, NoReturn

import numpy as np

# The most characters of a value in an error message.
MOST_SHOWN = 200


def refuse(owner: str, name: str, allowed: str, value: Any) -> NoReturn:
    """Raise the error for a parameter with a value that is not allowed."""
    raise ValueError(f"The {name!r} parameter of {owner} must be {allowed}. Got {shortened(value)} instead.")


def shortened(value: Any) -> str:
    """Return the repr of a value; of a long one, its beginning and end.

    Examples
    --------
    >>> shortened([1, 2]), len(shortened(list(range(10_000))))
    ('[1, 2]', 200)
    """
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 25]} ... {text[-20:]}"


def in_python(value: Any) -> Any:
    """Return a parameter with NumPy's numbers replaced by Python's: NumPy's of few bits overflow in products.

    Examples
    --------
    >>> in_python([np.int8(3), {"a": np.float32(0.5)}])
    [3, {'a': 0.5}]
    """
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: in_python(entry) for name, entry in value.items()}
    return [in_python(entry) for entry in value] if isinstance(value, list | tuple) else value


def check_int(owner: str, name: str, value: Any, *, low: int, otherwise: str = "") -> None:
    """Refuse a value that is not an int of at least ``low``; ``otherwise`` is what else the message allows."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < low:
        refuse(owner, name, f"an int of at least {low}{otherwise}", value)


def check_real(owner: str, name: str, value: Any, *, low: float, above: bool = False) -> None:
    """Refuse a value that is not a finite number of at least (or above) ``low``."""
    fits = isinstance(value, Real) and not isinstance(value, bool)
    fits = fits and (value > low if above else value >= low) and value < float("inf")
    if not fits:
        refuse(owner, name, f"a finite number {'above' if above else 'of at least'} {low:g}", value)


def check_choice(owner: str, name: str, value: Any, choices: Sequence[Any]) -> None:
    """Refuse a value that is not one of the choices."""
    value = in_python(value)
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        refuse(owner, name, f"one of {', '.join(map(repr, choices))}", value)


def drawn_seed(owner: str, random_state: Any) -> int:
    """Return a seed drawn from any ``random_state`` that scikit-learn accepts."""
    from sklearn.utils import check_random_state

    try:
        return int(check_random_state(random_state).randint(2**31))
    except ValueError:
        refuse(owner, "random_state", "an int from 0 to 2**32 - 1, a numpy.random.RandomState or None", random_state)


BYTE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
BYTE_UNITS |= {unit.replace("B", "iB"): 2 ** (10 * n) for n, unit in enumerate(("KB", "MB", "GB", "TB"), start=1)}


def check_bytes(owner: str, name: str, value: Any, *, low: int) -> int:
    """Return a number of bytes, which may be written as "2GB" or "1.5 GiB".

    Examples
    --------
    >>> check_bytes("GuidedCoTraining", "memory_limit", "2 GB", low=1)
    2000000000
    """
    found = value
    if isinstance(value, str) and (parts := re.fullmatch(r"\s*([\d.]+)\s*(\w*)\s*", value)):
        units = {unit.lower(): size for unit, size in BYTE_UNITS.items()}
        with suppress(KeyError, ValueError):
            found = int(float(parts[1]) * units[parts[2].lower()])
    if not isinstance(found, Integral) or isinstance(found, bool) or found < low:
        refuse(owner, name, f'a number of bytes like "4GB", at least {low / 1e9:g} GB', value)
    return int(found)


def per_view(owner: str, name: str, value: Any, views: Sequence[str], default: Any) -> list[Any]:
    """Return a parameter's value for every view.

    One value holds for all views, a list has one for each, and a dict names views; those that it leaves out get
    ``default``.
    """
    if isinstance(value, Mapping):
        unknown = [view for view in value if view not in views]
        if unknown:
            refuse(owner, name, f"a dict whose keys are views ({', '.join(views)})", value)
        return [value.get(view, default) for view in views]
    if isinstance(value, list | tuple):
        if len(value) != len(views):
            refuse(owner, name, f"one value or a list of {len(views)}, one per view", value)
        return list(value)
    return [value] * len(views)


def must_be_finite(stage: str, *arrays: Any) -> None:
    """Raise an error that names the stage if any number in its results is not finite.

    Only the small matrices between stages and sums over rows are checked: a non-finite row makes these non-finite, and
    checking every row again would cost time. Arrays are checked by their sum, which is finite only if all entries are.

    Examples
    --------
    >>> import numpy as np
    >>> must_be_finite("spectra", np.eye(3))
    >>> must_be_finite("spectra", np.array([1.0, np.inf, -np.inf]))
    Traceback (most recent call last):
        ...
    ValueError: Numbers of the fit's stage 'spectra' are not finite...
    """
    with np.errstate(all="ignore"):
        bad = not all(np.isfinite(float(array.sum())) for array in arrays)
    if bad:
        raise ValueError(
            f"Numbers of the fit's stage {stage!r} are not finite, so no clusters can be made from them. Rows of X may "
            "differ by orders of magnitude: try scaling='standard', metric='cosine' or dtype='float64', or leave out "
            "the rows farthest from the others."
        )


def warn_caller(message: str) -> None:
    """Warn at the line outside of this package that called it, however deep the warning arises."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == __name__.split(".")[0]:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
