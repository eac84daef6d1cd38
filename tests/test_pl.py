"""Plots of cells: what is drawn is what the object holds."""

import warnings

import anndata
import matplotlib
import mudata
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from coterie import pl, tl
from coterie.datasets import make_views

matplotlib.use("Agg")
N, K = 210, 3


@pytest.fixture(autouse=True)
def close():
    yield
    pyplot.close("all")


def cells_of(X, rows):
    return anndata.AnnData(X, obs=pd.DataFrame(index=[f"cell{i}" for i in rows]))


@pytest.fixture(scope="module")
def cells():
    """RNA of all cells and protein of some, in another order, clustered."""
    rna, _, protein = make_views(N, K, separation=6, random_state=0).views.values()
    rows = np.arange(N)[::-1][: 2 * N // 3]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of anndata and mudata
        parts = {"rna": cells_of(rna, range(N)), "prot": cells_of(np.maximum(protein[rows], 0), rows)}
        parts["prot"].var_names = [f"p{i}" for i in range(5)]
        found = mudata.MuData(parts)
        tl.cluster(found, K, n_landmarks=50)
    return found


def test_a_map_shows_every_cell(cells):
    ax = pl.embedding(cells)
    sizes = cells.obs["coterie"].value_counts(sort=False).tolist()
    assert [len(dots.get_offsets()) for dots in ax.collections] == sizes
    ax = pl.embedding(cells, color="coterie_confidence")
    np.testing.assert_allclose(ax.collections[0].get_array(), cells.obs["coterie_confidence"])
    cells.obs["named"] = pd.Categorical([f"type{label}" for label in cells.obs["coterie"]])
    assert [text.get_text() for text in pl.embedding(cells, color="named").get_legend().get_texts()] == [
        "type0",
        "type1",
        "type2",
    ]
    flat = pl.embedding(cells, basis="X_coterie").collections[0].get_offsets()
    np.testing.assert_allclose(flat, cells.obsm["X_coterie"][cells.obs["coterie"] == "0", :2], rtol=1e-6)


def test_cells_without_a_value_are_not_a_class_of_their_own(cells):
    """Missing names were classes called "nan", "None" and "NaT"."""
    names = pd.Series(["a", None, "b"] * (N // 3), index=cells.obs_names)
    for values in (names, names.astype("category"), pd.to_datetime(names.map({"a": "2026-01-02", "b": "2026-01-03"}))):
        cells.obs["partly"] = values
        *classes, others = [text.get_text() for text in pl.embedding(cells, color="partly").get_legend().get_texts()]
        assert classes in (["a", "b"], ["2026-01-02", "2026-01-03"])
        assert others == "others"
    del cells.obs["partly"]


def test_markers_are_shares_and_means(cells):
    ax = pl.markers(cells, {"some": ["p0", "p1"], "others": "rna:3"})
    assert [text.get_text() for text in ax.get_xticklabels()] == ["p0", "p1", "rna:3"]
    sizes, shades = ax.collections[0].get_sizes().reshape(3, K), ax.collections[0].get_array().reshape(3, K)
    protein = pd.Series(cells["prot"].X[:, 0], index=cells["prot"].obs_names)
    groups = cells.obs["coterie"].loc[protein.index]
    shares = (protein > 0).groupby(groups, observed=False).mean().to_numpy()
    np.testing.assert_allclose(sizes[0] / pl.LARGEST_DOT, shares)
    means = protein.groupby(groups, observed=False).mean().to_numpy()
    np.testing.assert_allclose(shades[0], (means - means.min()) / np.ptp(means), rtol=1e-5)
    with pytest.raises(ValueError, match="no variable 'CD4'"):
        pl.markers(cells, ["CD4"])


def test_weights_by_cluster(cells):
    image = pl.view_weights(cells).images[0].get_array()
    assert image.shape == (K, 2)
    np.testing.assert_allclose(image.sum(axis=1), 1)
    expected = cells.obs.groupby("coterie", observed=False)["coterie_weight_prot"].mean()
    np.testing.assert_allclose(image[:, 1], expected)


def test_what_is_not_there_is_named(cells):
    with pytest.raises(ValueError, match=r"no obs\['other'\]. Call coterie.tl.cluster first"):
        pl.view_weights(cells, key="other")
    with pytest.raises(ValueError, match=r"no obs\['size'\]"):
        pl.embedding(cells, color="size")
    with pytest.raises(ValueError, match=r"no obsm\['X_umap'\]"):
        pl.embedding(cells, basis="X_umap")


def test_anndata_and_layers():
    rng = np.random.default_rng(0)
    X = rng.poisson(3, size=(60, 4)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cells = anndata.AnnData(X, obs=pd.DataFrame({"kind": ["a", "b"] * 30}, index=[f"c{i}" for i in range(60)]))
        cells.layers["twice"] = 2 * X - 4
    shares = pl.markers(cells, ["1"], groupby="kind", layer="twice").collections[0].get_sizes() / pl.LARGEST_DOT
    np.testing.assert_allclose(shares, [(X[::2, 1] > 2).mean(), (X[1::2, 1] > 2).mean()])
