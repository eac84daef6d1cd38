"""Latent semantic analysis: documents as points in the space of the strongest topics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.utils.validation import check_is_fitted, validate_data

from coterie.validation import check_choice, check_int

# Power iterations of the randomised SVD. Spectra of text fall slowly; with fewer than about 5 the
# last components are inaccurate.
POWER_ITERATIONS = 7


class LSA(TransformerMixin, BaseEstimator):
    """Reduce sparse counts of words to a few dense columns: tf-idf, then a truncated SVD.

    New documents are mapped like those of the fit, with the same word weights and topics.

    Parameters
    ----------
    n_components : int, default=100
        Number of columns to make; at most the number of documents and of words.
    weighting : {"tfidf", None}, default="tfidf"
        How counts are weighted. None takes the values as they are, for data that already is
        weighted.
    random_state : int, RandomState or None, default=0
        Seed of the randomised SVD.

    Attributes
    ----------
    idf_ : ndarray of shape (n_words,) or None
        Weight of each word.
    components_ : ndarray of shape (n_components, n_words)
        The topics, strongest first.
    singular_values_ : ndarray of shape (n_components,)
    explained_variance_ratio_ : ndarray of shape (n_components,)

    References
    ----------
    S. Deerwester and others: Indexing by latent semantic analysis. Journal of the American Society
    for Information Science 41 (1990).

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> counts = csr_array([[2, 1, 0, 0], [1, 3, 0, 0], [0, 0, 1, 1], [0, 0, 2, 1]])
    >>> topics = LSA(n_components=2).fit_transform(counts)
    >>> abs(topics).round(1).tolist()
    [[0.0, 0.9], [0.0, 0.9], [1.0, 0.0], [1.0, 0.0]]
    """

    def __init__(
        self,
        n_components: int = 100,
        *,
        weighting: str | None = "tfidf",
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.n_components = n_components
        self.weighting = weighting
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> LSA:
        """Learn the weights of the words and the topics.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_documents, n_words)
        y : ignored

        Returns
        -------
        self
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> NDArray[Any]:
        """Learn the map, and return the mapped documents.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_documents, n_words)
        y : ignored

        Returns
        -------
        ndarray of shape (n_documents, n_components)
        """
        X = self._check(X, reset=True)
        check_choice("LSA", "weighting", self.weighting, ("tfidf", None))
        check_int("LSA", "n_components", self.n_components, low=1)
        if self.n_components > min(X.shape):
            raise ValueError(
                f"The 'n_components' parameter of LSA must be at most {min(X.shape)} for "
                f"{X.shape[0]} documents of {X.shape[1]} words. Got {self.n_components} instead."
            )
        self._tfidf = TfidfTransformer().fit(X) if self.weighting == "tfidf" else None
        self._svd = TruncatedSVD(self.n_components, n_iter=POWER_ITERATIONS, random_state=self.random_state)
        weights = self._weigh(X)  # (n, words)
        self._svd.fit(weights)
        self.idf_ = None if self._tfidf is None else self._tfidf.idf_
        self.components_ = self._svd.components_
        self.singular_values_ = self._svd.singular_values_
        self.explained_variance_ratio_ = self._svd.explained_variance_ratio_
        # Not the left singular vectors: a fitted document must be mapped exactly as by `transform`.
        return self._svd.transform(weights)  # (n, components)

    def transform(self, X: Any) -> NDArray[Any]:
        """Map documents to the topics.

        Parameters
        ----------
        X : array-like or sparse array of shape (n_documents, n_words)

        Returns
        -------
        ndarray of shape (n_documents, n_components)
        """
        check_is_fitted(self)
        return self._svd.transform(self._weigh(self._check(X, reset=False)))

    def _check(self, X: Any, *, reset: bool) -> Any:
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        values = X if isinstance(X, np.ndarray) else X.data
        if self.weighting == "tfidf" and values.size and values.min() < 0:
            raise ValueError(
                "Negative values in data passed to LSA with weighting='tfidf', which needs counts; "
                f"the smallest value is {values.min():g}. "
                "Use weighting=None for data that already is weighted."
            )
        return X

    def _weigh(self, X: Any) -> Any:
        return X if self._tfidf is None else self._tfidf.transform(X)

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = self.weighting == "tfidf"
        return tags


def lsa(
    X: Any,
    n_components: int = 100,
    *,
    weighting: str | None = "tfidf",
    random_state: int | np.random.RandomState | None = 0,
) -> NDArray[Any]:
    """Reduce sparse counts of words to a few dense columns.

    Use :class:`LSA` where new documents must go through the same map later.

    Parameters
    ----------
    X : array-like or sparse array of shape (n_documents, n_words)
    n_components : int, default=100
        Number of columns to make.
    weighting : {"tfidf", None}, default="tfidf"
        How counts are weighted; None for data that already is weighted.
    random_state : int, RandomState or None, default=0
        Seed of the randomised SVD.

    Returns
    -------
    ndarray of shape (n_documents, n_components)

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> lsa(csr_array([[2, 1, 0], [1, 2, 0], [0, 0, 1]]), n_components=2).shape
    (3, 2)
    """
    return LSA(n_components, weighting=weighting, random_state=random_state).fit_transform(X)
