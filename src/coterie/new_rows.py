"""Results of a fitted estimator besides labels: frames with row ids, memberships and a score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config

from coterie.arrays import to_host
from coterie.lazy import import_extra
from coterie.metrics import ari
from coterie.model import Fitted

if TYPE_CHECKING:
    from coterie.placement import BlockPlan
    from coterie.views import Views

NO_ROWS = {"label": np.int32, "confidence": np.float32, "novelty": np.float32}  # types of columns without any


class NewRowsMixin:
    """Results as frames with row ids, soft assignment, and a score."""

    if TYPE_CHECKING:

        def _read(self, X: Any) -> tuple[Fitted, Views, BlockPlan]: ...

        def _apply(self, function: Any, X: Any) -> Any: ...

    def predict_frame(self, X: Any) -> Any:
        """Return labels, confidence and novelty of rows as a pandas frame with the rows' ids as its index.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        pandas.DataFrame
            With the columns ``label``, ``confidence`` and ``novelty``. Where views were matched by index, rows are in
            the order of the fit's first view, as in ``predict``; without ids they are numbered from 0.

        Examples
        --------
        >>> import pandas as pd
        >>> from coterie import GuidedCoTraining
        >>> from coterie.datasets import make_views
        >>> X = make_views(100, n_clusters=2, random_state=0).views["view0"]
        >>> frame = pd.DataFrame(X, index=[f"row{i}" for i in range(100)])
        >>> found = GuidedCoTraining(2, random_state=0).fit(frame).predict_frame(frame)
        >>> found.index[7], list(found.columns)
        ('row7', ['label', 'confidence', 'novelty'])
        """
        pandas = import_extra("pandas", "files", "predict_frame")
        fitted, views, plan = self._read(X)
        parts = [to_host(part.arrays()) for part in fitted.stream(views, plan)]
        columns = {"label": "labels", "confidence": "confidence", "novelty": "novelty"}
        found = {
            column: np.concatenate([part[name] for part in parts] or [np.empty(0, dtype=NO_ROWS[column])])
            for column, name in columns.items()
            if not parts or name in parts[0]
        }
        return pandas.DataFrame(found, index=views.ids)

    def memberships(self, X: Any) -> np.ndarray:
        """Return soft assignments: each row's shares of all clusters, which sum to one.

        With d the distance to a centroid in the embedding, shares are proportional to 1/d², as in fuzzy c-means: the
        largest is that of the row's own cluster. They are not calibrated probabilities, and the more clusters there
        are, the more even they become.

        Parameters
        ----------
        X : like in ``predict``

        Returns
        -------
        ndarray of shape (n, n_clusters)
            NaN for rows that lack every view.

        Examples
        --------
        >>> from coterie import GuidedCoTraining
        >>> from coterie.datasets import make_views
        >>> data = make_views(300, n_clusters=3, random_state=0)
        >>> model = GuidedCoTraining(3, random_state=0).fit(data.views)
        >>> shares = model.memberships(data.views)
        >>> bool((shares.argmax(axis=1) == model.labels_).all()), shares.shape
        (True, (300, 3))
        """
        return self._apply(Fitted.memberships, X)

    def score(self, X: Any, y: Any = None) -> float:
        """Return how well the views agree with the clusters: the mean adjusted Rand index over the views.

        The labels of each view alone, before any guiding (`view_labels`), are compared with `predict`. 1 means that
        every view finds the clusters by itself, 0 that none agrees more than by chance. Use it to compare settings
        with the same number of clusters, on rows that were not in the fit; with one view it means little.

        Parameters
        ----------
        X : like in ``predict``
        y : ignored

        Returns
        -------
        float

        Examples
        --------
        >>> from coterie import GuidedCoTraining
        >>> from coterie.datasets import make_views
        >>> views = make_views(600, n_clusters=3, separation=6, random_state=0).views
        >>> model = GuidedCoTraining(3, random_state=0).fit({name: view[:400] for name, view in views.items()})
        >>> model.score({name: view[400:] for name, view in views.items()}) > 0.8
        True
        """
        fitted, views, plan = self._read(X)
        labels = to_host(fitted.predict(views, plan))  # (n,)
        by_view = to_host(fitted.view_labels(views, plan))  # (n, V)
        scores = [ari(labels[own >= 0], own[own >= 0]) for own in by_view.T if (own >= 0).any()]
        return float(np.mean(scores)) if scores else float("nan")

    # -- containers -----------------------------------------------------------------------------------------------

    @property
    def _container(self) -> str:
        """The container that ``set_output`` selects: "default", "pandas" or "polars"."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        return chosen or get_config()["transform_output"]

    def _in_container(self, labels: Any, ids: np.ndarray | None) -> Any:
        """Return labels in the container that ``set_output`` selects, with the rows' ids."""
        if self._container == "pandas":
            return import_extra("pandas", "files", "set_output").Series(to_host(labels), index=ids, name="cluster")
        if self._container == "polars":
            polars = import_extra("polars", "files", "set_output")
            found = polars.Series("cluster", to_host(labels))
            return found if ids is None else polars.DataFrame({"id": ids, "cluster": found})
        return labels

    def _with_index(self, embedding: Any, ids: np.ndarray | None) -> Any:
        """Return the embedding as a frame indexed by the ids if ``set_output`` selects pandas and there are ids."""
        if self._container != "pandas" or ids is None:
            return embedding  # scikit-learn makes the frame, if any
        return import_extra("pandas", "files", "set_output").DataFrame(to_host(embedding), index=ids)
