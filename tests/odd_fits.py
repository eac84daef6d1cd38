"""Fits that nobody would ask for on purpose, and what must come of them; used by the tests and by the long campaign.

    python tests/odd_fits.py 4711

describes case number 4711 and says what comes of it.
"""

import random
import sys
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

import coterie
from coterie import GuidedCoTraining
from coterie.method.landmarks import LANDMARKS
from coterie.views import METRICS, SCALINGS

SOURCE = str(Path(coterie.__file__).parent)

# What a fit may say about odd rows, and no more: a warning of NumPy's is a failure.
WARNINGS = (
    ".* are so large relative to their standard deviation that",
    ".* vary more than .* times as much as nearly all others",
    ".* rows are zero in the embedding",
    "Only .* of .* clusters hold rows",
    "Only .* rows are distinct",
    "No number of clusters has clear evidence",
    "These clusters do not replicate",
)
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 25, 30, 40, 50, 60, 75, 90, 130)
# Enough rows for what small fits never reach: sampled landmarks, several blocks, eigenvectors found by iteration.
MANY_ROWS, MANY_EVERY = (300, 700, 1500, 3000, 5000), 10
MOST_LINKED = 1500  # rows of a graph that is made as a dense table
MOST_COUNTED = 200  # rows from which on "as many as there are rows" means this
COLUMNS = (1, 1, 2, 3, 5, 8, 25)
WORDS = 60  # columns from which a sparse view can be taken for words


@dataclass(frozen=True)
class OddFit:
    """What is passed to the constructor and to fit."""

    X: Any
    settings: dict[str, Any]
    story: tuple[str, ...]  # how X came about

    def __repr__(self):
        return f"GuidedCoTraining(**{self.settings}).fit({type(self.X).__name__}: {'; '.join(self.story)})"


def numbered_fit(number: int) -> OddFit:
    """Return one of many odd fits, always the same for a number; one in ten has hundreds or thousands of rows."""
    return odd_fit(random.Random(number), MANY_ROWS if number % MANY_EVERY == MANY_EVERY - 1 else ROWS)


def odd_fit(draw: random.Random, sizes: tuple[int, ...] = ROWS) -> OddFit:
    """Return an odd fit; everything about it is drawn from ``draw``."""
    n = draw.choice(sizes)
    rng = np.random.default_rng(draw.getrandbits(32))
    groups = rng.integers(draw.choice((1, 2, 3, n)), size=n)  # (n,) rows of a group resemble each other
    n_views = draw.choice((1, 1, 2, 2, 2, 3, 4))
    same_rows = repeat_rows(draw, rng, n)  # the same in all views: whole rows are twins then
    tables, story = [], []
    for _ in range(n_views):
        table, words = odd_view(draw, rng, n, groups)
        if same_rows is not None:
            table = table[same_rows]
            words.append("twins")
        tables.append(table)
        story.append(words)
    if n_views > 1 and draw.random() < 0.25:
        lose_views(draw, rng, tables, story)
    tables = [stored(draw, rng, table, words) for table, words in zip(tables, story, strict=True)]
    settings = odd_settings(draw, n, n_views)
    X, note = together(draw, tables, settings)
    lines = tuple(
        f"{getattr(table, 'shape', '')} {', '.join(words)}" for table, words in zip(tables, story, strict=True)
    )
    return OddFit(X, settings, (*lines, note))


# -- values -----------------------------------------------------------------------------------------------------


def odd_view(draw, rng, n, groups):
    """Return the values of one view (n x d), and how they came about."""
    kinds = (clouds, noise, constant, few_values, counts, words, links, heavy_tails, one_hot, ramp, zeros)
    kind = draw.choice(kinds if n <= MOST_LINKED else tuple(kind for kind in kinds if kind is not links))
    table = kind(rng, n, draw.choice(COLUMNS), groups).astype(np.float64)
    story = [kind.__name__]
    for trouble, odds in TROUBLES:
        if draw.random() < odds:
            with np.errstate(all="ignore"):
                table = trouble(draw, rng, table.copy())
            story.append(trouble.__name__)
    return table, story


def clouds(rng, n, d, groups):
    return 4 * rng.standard_normal((groups.max() + 1, d))[groups] + rng.standard_normal((n, d))


def noise(rng, n, d, groups):
    return rng.standard_normal((n, d))


def constant(rng, n, d, groups):
    return np.full((n, d), rng.choice([0.0, 1.0, -7.5, 0.1, 1e-300, 3e38]))


def few_values(rng, n, d, groups):
    return rng.integers(2, size=(n, d))


def counts(rng, n, d, groups):
    return rng.poisson(rng.gamma(1, 5, (groups.max() + 1, d))[groups])


def words(rng, n, d, groups):
    return rng.poisson(rng.gamma(0.1, 0.5, (groups.max() + 1, WORDS))[groups])


def links(rng, n, d, groups):
    linked = rng.random((n, n)) < np.where(groups[:, None] == groups, 0.15, 0.01)
    return linked | linked.T


def heavy_tails(rng, n, d, groups):
    return groups[:, None] + rng.standard_cauchy((n, d))


def one_hot(rng, n, d, groups):
    return np.eye(max(d, groups.max() + 1))[groups]


def ramp(rng, n, d, groups):
    return np.outer(np.arange(n), np.arange(1, d + 1))


def zeros(rng, n, d, groups):
    return np.zeros((n, d))


def power(draw):
    """Return a power of ten from end to end of what float32 can hold, and now and then far beyond."""
    return 10.0 ** draw.choice((draw.randint(-30, 30), draw.randint(-30, 30), draw.randint(-300, 300)))


def other_unit(draw, rng, table):
    return table * power(draw)


def unlike_columns(draw, rng, table):
    return table * 10.0 ** rng.uniform(-30, 30, table.shape[1])


def unlike_rows(draw, rng, table):
    return table * 10.0 ** rng.uniform(-30, 30, len(table))[:, None]


def offset(draw, rng, table):
    return table + power(draw)


def some_constant_columns(draw, rng, table):
    table[:, rng.random(table.shape[1]) < 0.5] = power(draw)
    return table


def outlier(draw, rng, table):
    table[rng.integers(len(table)), rng.integers(table.shape[1])] = power(draw) * draw.choice((-1, 1))
    return table


def outlying_row(draw, rng, table):
    table[rng.integers(len(table))] *= power(draw)
    return table


def zero_rows(draw, rng, table):
    table[rng.random(len(table)) < draw.choice((0.1, 0.5, 0.9))] = 0
    return table


def twin_columns(draw, rng, table):
    return table[:, rng.integers(table.shape[1], size=table.shape[1])]


def own_twins(draw, rng, table):
    return table[rng.integers(max(1, len(table) // 3), size=len(table))]


def one_hole(draw, rng, table):
    table[rng.integers(len(table)), rng.integers(table.shape[1])] = draw.choice((np.nan, np.inf, -np.inf))
    return table


TROUBLES = (
    (own_twins, 0.08),
    (twin_columns, 0.05),
    (unlike_columns, 0.08),
    (unlike_rows, 0.06),
    (offset, 0.08),
    (other_unit, 0.25),
    (some_constant_columns, 0.08),
    (zero_rows, 0.08),
    (outlier, 0.1),
    (outlying_row, 0.05),
    (one_hole, 0.03),
)


def repeat_rows(draw, rng, n):
    """Return row numbers of which many are the same, or None."""
    if draw.random() > 0.15:
        return None
    return rng.integers(max(1, n // draw.choice((1, 2, 5, n))), size=n)


def lose_views(draw, rng, tables, story):
    """Make rows of some views NaN throughout, in place."""
    for number in draw.sample(range(len(tables)), draw.randint(1, len(tables))):
        lost = rng.random(len(tables[number])) < draw.choice((0.05, 0.3, 0.7, 1.0))
        if number and draw.random() < 0.8:  # most rows keep one view: those without any are refused
            lost &= ~np.isnan(tables[0]).all(axis=1)
        tables[number] = tables[number].copy()
        tables[number][lost] = np.nan
        story[number].append(f"{lost.sum()} rows lost")


# -- how values are stored --------------------------------------------------------------------------------------

DTYPES = ("float64", "float64", "float32", "float16", "int64", "int8", "uint8", "uint16", "uint64", "bool", ">f4")


def stored(draw, rng, table, story):
    """Return the values in some type and container."""
    whole = not np.isnan(table).any()
    dtype = draw.choice(DTYPES) if whole else draw.choice(("float64", "float32", "float16"))
    container = draw.choice(CONTAINERS if whole or draw.random() < 0.1 else DENSE)
    story += [dtype, container.__name__]
    return container(rng, as_dtype(table, np.dtype(dtype)))


def as_dtype(table, dtype):
    """Return the values in a type, the nearest ones that it has."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        bounded = np.clip(np.nan_to_num(table), float(limits.min) / 2, float(limits.max) / 2)
        return np.rint(bounded).astype(dtype)
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        table = np.where(np.isfinite(table), np.clip(table, -most, most), table)
    return table.astype(dtype)


def plain(rng, table):
    return table


def by_columns(rng, table):
    return np.asfortranarray(table)


def every_other(rng, table):
    return np.repeat(np.repeat(table, 2, axis=0), 3, axis=1)[::2, ::3]


def backwards(rng, table):
    return np.ascontiguousarray(table[::-1, ::-1])[::-1, ::-1]


def read_only(rng, table):
    table = table.copy()
    table.flags.writeable = False
    return table


def csr(rng, table):
    return sparse.csr_array(for_scipy(table))


def csc(rng, table):
    return sparse.csc_matrix(for_scipy(table))


def coo_with_repeats(rng, table):
    once = sparse.coo_array(for_scipy(table))
    coordinates = tuple(np.concatenate([c, c[:1]]) for c in once.coords)
    data = np.concatenate([once.data, np.zeros(1, once.dtype)[: once.nnz]])
    return sparse.coo_array((data, coordinates), shape=once.shape)


def stored_zeros(rng, table):
    table = for_scipy(table)
    rows, columns = np.indices(table.shape).reshape(2, -1)
    return sparse.csr_array((table.ravel(), (rows, columns)), shape=table.shape)


def for_scipy(table):
    """Return the values in a type that SciPy's sparse arrays know."""
    table = table.astype(table.dtype.newbyteorder("="))
    return table.astype(np.float32) if table.dtype == np.float16 else table


def frame(rng, table):
    return pd.DataFrame(table, columns=[f"c{number}" for number in range(table.shape[1])])


def polars_frame(rng, table):
    import polars as pl

    table = for_scipy(table)
    return pl.DataFrame({f"c{number}": table[:, number] for number in range(table.shape[1])})


def nested_lists(rng, table):
    return table.tolist()


def memory_map(rng, table):
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, dtype=table.dtype, shape=table.shape)
        mapped[:] = table
    return mapped


def masked(rng, table):
    return np.ma.masked_array(table, mask=np.isnan(table) if table.dtype.kind == "f" else False)


def tensor(rng, table):
    import torch

    return torch.from_numpy(for_scipy(table).copy())


DENSE = (plain, plain, by_columns, every_other, backwards, read_only, frame, polars_frame, nested_lists, memory_map)
DENSE = (*DENSE, masked, tensor)
CONTAINERS = (*DENSE, csr, csr, csc, coo_with_repeats, stored_zeros)


def together(draw, tables, settings):
    """Return the tables as X, and in which form."""
    if len(tables) == 1 and draw.random() < 0.8:
        return tables[0], "alone"
    if draw.random() < 0.1 and all(isinstance(table, np.ndarray) for table in tables):
        widths = np.cumsum([0, *(table.shape[1] for table in tables)]).tolist()
        settings["views"] = {f"v{v}": slice(*widths[v : v + 2]) for v in range(len(tables))}
        with np.errstate(all="ignore"):
            return np.hstack(tables), "side by side"
    form = draw.choice((list, tuple, dict))
    if form is dict:
        return {f"view {number}": table for number, table in enumerate(tables)}, "by name"
    return form(tables), "in a row"


# -- parameters -------------------------------------------------------------------------------------------------


def odd_settings(draw, n, n_views):
    """Return arguments of the constructor: mostly its defaults, now and then anything that it documents, and more."""

    most = min(n, MOST_COUNTED)

    def number(low, *more):
        return draw.choice((low, low + 1, 2, 3, 5, max(most - 1, low), most, *more))

    def for_views(value):
        if draw.random() < 0.6:
            return value()
        return [value() for _ in range(n_views)]

    odd = {
        "n_landmarks": lambda: number(1, n // 2, n + 1),
        "n_neighbors": lambda: draw.choice((number(1), number(1, 10), [1, 3], [2, 5, 1], [number(1), 4])),
        "landmarks": lambda: draw.choice((*LANDMARKS, sorted(draw.sample(range(n), min(n, draw.randint(1, 20)))))),
        "neighbors": lambda: draw.choice(("view", "shared")),
        "concatenation": lambda: draw.random() < 0.5,
        "bandwidth": lambda: for_views(lambda: draw.choice(("local", "median", 1.0, 1e-30, 1e30, 1e-300, 0.0))),
        "scaling": lambda: for_views(lambda: draw.choice(SCALINGS)),
        "metric": lambda: for_views(lambda: draw.choice(METRICS)),
        "view_weights": lambda: for_views(lambda: draw.choice((1.0, 0.0, 1e-30, 1e30, 3, 1e300))),
        "basis": lambda: draw.choice(("diffusion", "commute", "subspace")),
        "guide": lambda: draw.choice(("cosine", "inner")),
        "max_iter": lambda: draw.choice((1, 2, 3, 10)),
        "tol": lambda: draw.choice((0.0, 1e-300, 1.0, 1e300)),
        "n_components": lambda: number(1, 10),
        "drop_first": lambda: draw.random() < 0.5,
        "assign_labels": lambda: draw.choice(("kmeans", "cluster_qr")),
        "n_init": lambda: draw.choice((1, 3)),
        "store_embedding": lambda: True,
        "measure_stability": lambda: draw.random() < 0.5,
        "dtype": lambda: draw.choice(("float32", "float64", "tf32")),
        "device": lambda: draw.choice(("cpu", "torch")),
        "block_size": lambda: draw.choice((1, 2, 7, n, 10_000)),
        "n_jobs": lambda: draw.choice((1, 2, -1, None, -100)),
        "memory_limit": lambda: draw.choice(("1 GB", 2**30, 10)),
    }
    eager = draw.choice((0.0, 0.1, 0.1, 0.3, 0.6))
    chosen = {name: value() for name, value in odd.items() if draw.random() < eager}
    extreme = ("auto", max(1, most - 1), most, most + 1)
    n_clusters = draw.choice(extreme if draw.random() < 0.25 else (1, 2, 2, 3, 3, 4, min(n, 6)))
    return {"n_clusters": n_clusters, "n_init": 2, **chosen, "random_state": draw.randint(0, 3)}


# -- what must come of it ---------------------------------------------------------------------------------------


def outcome(case: OddFit) -> str:
    """Return "fitted" or how the fit was refused; raise where it is neither.

    A fit that succeeds must leave complete, finite results, which prediction and a saved model repeat to the bit. A fit
    that does not must raise an error of ours which names a parameter or a view.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for message in WARNINGS:
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        try:
            model = GuidedCoTraining(**case.settings).fit(case.X)
        except (ValueError, TypeError) as error:
            return check_refusal(error)
        check_fit(model, case)
        check_saved(model, case)
    return "fitted"


def check_refusal(error: Exception) -> str:
    """Return the message of an error of ours, without its numbers; raise any other."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    names = ("view", "View", "X ", "X:", "n_samples", "parameter of GuidedCoTraining", "n_clusters")
    if not place.filename.startswith(SOURCE) or not any(name in str(error) for name in names):
        raise error
    return f"refused in {place.name}"


def check_fit(model: GuidedCoTraining, case: OddFit) -> None:
    """Raise where a fitted model is not complete and finite, or does not predict what it found."""
    labels, k = np.asarray(model.labels_), model.n_clusters_
    n = len(labels)
    assert labels.shape == np.asarray(model.confidence_).shape, "labels and confidence differ in shape"
    assert case.settings["n_clusters"] in ("auto", k), "not as many clusters as were asked for"
    assert labels.dtype.kind == "i", "labels that are no whole numbers"
    assert labels.min() >= 0, "labels below 0"
    assert labels.max() < k, "labels beyond the number of clusters"
    rows = model.transform(case.X)
    assert np.asarray(rows).shape == (n, model.cluster_centers_.shape[1]), "an embedding of another shape"
    finite = {
        "embedding": rows,
        "confidence_": model.confidence_,
        "cluster_centers_": model.cluster_centers_,
        "view_weights_": list(model.view_weights_.values()),
        "agreement_": list(model.agreement_.values()),
        "graph_agreement_": model.graph_agreement_,
        "cluster_agreement_": model.cluster_agreement_,
        "consensus_singular_values_": model.consensus_singular_values_,
        "stability_": getattr(model, "stability_", 0.0),
        "cluster_stability_": getattr(model, "cluster_stability_", 0.0),
        "guide": [guide.anchors for guide in model._fitted.row_map.guides],
        **model.singular_values_,
    }
    for name, values in finite.items():
        assert np.isfinite(np.asarray(values)).all(), f"{name} is not finite"
    medoids = np.asarray(model.medoid_indices_)
    here = medoids >= 0
    assert (labels[medoids[here]] == np.flatnonzero(here)).all(), "a medoid in another cluster"
    assert (np.isin(np.arange(k), labels) == here).all(), "a cluster with rows and no medoid"
    assert (np.asarray(model.predict(case.X)) == labels).all(), "predict differs from labels_"
    assert (np.asarray(model.confidence(case.X)) == np.asarray(model.confidence_)).all(), "confidence differs"
    said = np.asarray(model.view_labels(case.X))
    assert said.min() >= -1, "view_labels below -1"
    assert said.max() < k, "view_labels beyond the number of clusters"


def check_saved(model: GuidedCoTraining, case: OddFit) -> None:
    """Raise where a model that was saved and loaded is not the same."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = coterie.load(coterie.save(model, Path(folder) / "model", rows=True))
    assert (np.asarray(loaded.labels_) == np.asarray(model.labels_)).all(), "saved labels differ"
    rows, again = np.asarray(model.transform(case.X)), np.asarray(loaded.transform(case.X))
    assert rows.tobytes() == again.tobytes(), "a loaded model's embedding differs"
    assert (np.asarray(loaded.predict(case.X)) == np.asarray(model.labels_)).all(), "a loaded model predicts otherwise"


if __name__ == "__main__":
    odd = numbered_fit(int(sys.argv[1]))
    sys.stdout.write(f"{odd!r}\n")
    sys.stdout.write(f"{outcome(odd)}\n")
