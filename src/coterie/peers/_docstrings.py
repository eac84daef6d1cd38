"""Descriptions of parameters and attributes that all peers share; a peer's own docstring describes the others."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from inspect import cleandoc
from textwrap import indent
from typing import Any, TypeVar, dataclass_transform

PARAMETERS = {
    "n_clusters": ("int", "Number of clusters, k."),
    "view": (
        "str or int",
        "Which view to cluster, by name or number. None: all of them side by side, their values as they are.",
    ),
    "max_iter": ("int", "Rounds at most."),
    "tol": ("float", "The rounds end when the objective changes by less than this, relatively."),
    "n_init": ("int", "Restarts of k-means."),
    "n_jobs": ("int", "Threads; -1 uses all cores. The labels do not depend on it."),
    "random_state": ("int, RandomState or None", "Seed of everything that is drawn."),
}
ATTRIBUTES = {
    "labels_": ("ndarray of shape (n,)", "Cluster of every row."),
    "embedding_": ("ndarray of shape (n, n_clusters)", "The rows that k-means cut, each of length one."),
    "n_iter_": ("int", "Number of rounds."),
}

Class = TypeVar("Class", bound=type)


@dataclass_transform(eq_default=False, kw_only_default=True)
def peer(cls: Class) -> Class:
    """Turn a class into a dataclass with keyword parameters, and complete its docstring."""
    text = cls.__doc__  # None under python -OO, where dataclass would generate one
    dataclass(eq=False, repr=False, kw_only=True)(cls)
    cls.__doc__ = text and completed(text, {field.name: field.default for field in fields(cls)})
    return cls


def completed(text: str, defaults: dict[str, Any]) -> str:
    """Return a docstring with all parameters, in the order of the constructor, and all attributes, labels first.

    Examples
    --------
    >>> text = '''A method.
    ...
    ... Parameters
    ... ----------
    ... width : int, default=3
    ...     Of its kernel.
    ...
    ... Attributes
    ... ----------
    ... n_iter_
    ... '''
    >>> print(completed(text, {"n_clusters": 8, "width": 3}))
    A method.
    <BLANKLINE>
        Parameters
        ----------
        n_clusters : int, default=8
            Number of clusters, k.
        width : int, default=3
            Of its kernel.
    <BLANKLINE>
        Attributes
        ----------
        labels_ : ndarray of shape (n,)
            Cluster of every row.
        n_iter_ : int
            Number of rounds.
    <BLANKLINE>
    """
    summary, *rest = re.split(r"(?m)^(\w+)\n-+\n", cleandoc(text))
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    for title, shared in (("Parameters", PARAMETERS), ("Attributes", ATTRIBUTES)):
        own = entries(sections[title])
        names = defaults if title == "Parameters" else dict.fromkeys(["labels_", *own])
        found = [own.get(name) or described(name, *shared[name], defaults) for name in names]
        sections[title] = "\n".join(dict.fromkeys(found)) + "\n\n"  # several names may share an entry
    body = "".join(f"{title}\n{'-' * len(title)}\n{section}" for title, section in sections.items())
    return indent(summary + body, "    ").strip() + "\n"


def entries(section: str) -> dict[str, str]:
    """Return the entries of a section by their names; an empty one for a name without a description."""
    found = {}
    for entry in re.split(r"\n(?=\S)", section.strip()):
        head, _, words = entry.partition("\n")
        for name in head.partition(" : ")[0].split(", "):
            found[name] = entry if words else ""
    return found


def described(name: str, kind: str, words: str, defaults: dict[str, Any]) -> str:
    """Return the entry of a name that all peers share."""
    default = f", default={defaults[name]!r}" if name in defaults else ""
    return f"{name} : {kind}{default}\n    {words}"
