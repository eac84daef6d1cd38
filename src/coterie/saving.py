"""Model files: ``save``, ``load`` and ``describe_file``."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from coterie.estimator import GuidedCoTraining
from coterie.model import fitted_of
from coterie.model_file import OUTPUT, SavedModel, outline_model, read_model, write_model
from coterie.settings import check_parameters
from coterie.storage.container import ModelFileError, naming_file, refuse_file, short
from coterie.storage.encoding import conforms

__all__ = ["ModelFileError", "describe_file", "load", "save"]


def save(
    model: GuidedCoTraining,
    path: str | os.PathLike[str],
    *,
    rows: bool = False,
    notes: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted model to one file.

    The file is a few megabytes for any number of rows. It holds no pickle, and gets its name only when it is complete:
    a failure leaves no partial file, and keeps an older file of that name.

    Parameters
    ----------
    model : GuidedCoTraining
        After ``fit``.
    path : path
        Usually ends in ``.coterie``.
    rows : bool, default=False
        Whether to keep the attributes with an entry for every row of the fit too: ``labels_``, ``confidence_``,
        ``embedding_`` and ``row_ids_``. Without them the loaded model lacks these attributes; ``predict`` gives the
        same labels.
    notes : dict, default=None
        Anything that JSON can represent; :func:`describe_file` returns it.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> from coterie.datasets import make_views
    >>> views = make_views(300, n_clusters=3, random_state=0).views
    >>> model = GuidedCoTraining(3, random_state=0).fit(views)
    >>> path = save(model, tempfile.mkdtemp() + "/three.coterie")
    >>> bool((load(path).predict(views) == model.labels_).all())
    True
    """
    if type(model) is not GuidedCoTraining:
        raise TypeError(f"Only a GuidedCoTraining can be saved. Got a {type(model).__name__} instead.")
    message = "This %(name)s is not fitted, so there is nothing to save. Call fit first."
    check_is_fitted(model, msg=message)
    fitted = fitted_of(model)
    if rows and not fitted.has_rows:
        raise ValueError("This model was loaded from a file without rows, so it has none to keep. Leave out rows=True.")
    saved = SavedModel(_parameters(model), fitted, vars(model).get(OUTPUT))
    write_model(path, saved, rows=rows, notes=_as_json(notes))
    return Path(path)


def load(path: str | os.PathLike[str]) -> GuidedCoTraining:
    """Read a model that :func:`save` wrote.

    Nothing in the file is executed, whatever it holds. Fitted attributes are restored unchanged, and new rows get the
    same labels; on the same machine, results are bitwise the same.

    Parameters
    ----------
    path : path

    Returns
    -------
    GuidedCoTraining

    Raises
    ------
    ModelFileError
        If the file is damaged, of a newer format, or not a model at all. It is a ``ValueError``.
    OSError
        If the file is not there or may not be read.
    """
    saved = read_model(path)
    with naming_file(path):
        model = _build(saved.parameters)
    if saved.output is not None:
        setattr(model, OUTPUT, saved.output)
    model._publish(saved.fitted)
    return model


def describe_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the description of a model file as plain values; only its header is read, and no checksum is verified.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict
        ``coterie`` and ``libraries`` (versions), ``saved`` (when), ``notes``, ``parameters``, ``views`` (a list of
        dicts: name, number of columns, their names if they had any, preparation), ``n_clusters``, ``stability``
        and ``candidates`` (None where the model has none), ``n_landmarks``, ``n_rows``, ``has_rows`` (whether labels
        and other entries per row are in the file), ``file_bytes`` and ``array_bytes``.

    Examples
    --------
    >>> import tempfile
    >>> from coterie.datasets import make_views
    >>> model = GuidedCoTraining(3, random_state=0).fit(make_views(300, n_clusters=3, random_state=0).views)
    >>> about_it = describe_file(save(model, tempfile.mkdtemp() + "/three.coterie", notes={"why": "an example"}))
    >>> about_it["n_clusters"], about_it["n_rows"], about_it["views"][0]["n_columns"], about_it["notes"]
    (3, 300, 20, {'why': 'an example'})
    """
    return outline_model(path)


# -- parameters and notes -----------------------------------------------------------------------------------------


def _parameters(model: GuidedCoTraining) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    if isinstance(parameters["random_state"], np.random.RandomState):
        warnings.warn(
            "random_state is a RandomState, whose state a model file cannot hold: the loaded model has "
            "random_state=None. Pass a whole number to be able to repeat the fit.",
            stacklevel=3,
        )
        parameters["random_state"] = None
    parameters["work_dir"] = None  # a folder of this machine, empty after the fit
    if type(parameters.get("device")).__module__ == "torch":
        parameters["device"] = str(parameters["device"])
    return parameters


def _as_json(notes: Mapping[str, Any] | None) -> dict[str, Any]:
    notes = dict(notes or {})
    try:
        same = json.loads(json.dumps(notes, allow_nan=False)) == notes
    except (TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise TypeError("notes must be a dict of what JSON can say: strings, finite numbers, lists, and dicts by name.")
    return notes


def _build(parameters: dict[str, Any]) -> GuidedCoTraining:
    unknown = sorted(set(parameters) - set(inspect.signature(GuidedCoTraining).parameters))
    if unknown:
        refuse_file(f"it has a parameter that GuidedCoTraining does not know, {short(unknown[0])}")
    model = GuidedCoTraining(**parameters)
    seed = model.random_state
    if seed is not None and not (conforms(seed, int) and 0 <= seed < 2**32):
        refuse_file("its random_state is not a whole number below 2**32")
    if not isinstance(model.device, str):
        refuse_file("its device has no name")
    try:
        check_parameters(type(model).__name__, model.get_params(deep=False))
    except (TypeError, ValueError) as error:
        refuse_file(f"its parameters are not possible ({short(str(error))})")
    return model
