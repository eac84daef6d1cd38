"""AnnData and MuData in, the same objects with clusters out."""

import warnings
from contextlib import contextmanager

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.metrics import ari
from coterie.tl import cluster, views_of

N, K = 210, 3


@contextmanager
def plain_text():
    """Let pandas make text of Python strings: anndata cannot write pandas 3's own text yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pd.option_context("future.infer_string", False):
            yield


@pytest.fixture(scope="module")
def data():
    return make_views(N, K, separation=6, random_state=0)


def cells_of(X, rows=None, **parts):
    with plain_text():
        names = [f"cell{i}" for i in (range(X.shape[0]) if rows is None else rows)]
        return anndata.AnnData(X, obs=pd.DataFrame(index=names), **parts)


@pytest.fixture
def cells(data):
    rna, pca, protein = data.views.values()
    frame = pd.DataFrame(protein, columns=list("abcde"), index=pd.Index([f"cell{i}" for i in range(N)], dtype=object))
    return cells_of(rna, obsm={"X_pca": pca, "protein": frame}, layers={"half": rna / 2})


@pytest.fixture
def modalities(data):
    """Protein is known for two thirds of the cells, in another order."""
    rna, _, protein = data.views.values()
    rows = np.arange(N)[::-1][: 2 * N // 3]
    with plain_text():
        parts = {"rna": cells_of(sparse.csr_matrix(rna)), "prot": cells_of(protein[rows], rows)}
        parts["prot"].var_names = [f"p{i}" for i in range(5)]
        return mudata.MuData(parts)


def test_anndata(cells, data):
    rna, pca, protein = data.views.values()
    assert cluster(cells, K, views=["X", "X_pca", "protein"], n_landmarks=50) is None
    model = GuidedCoTraining(K, n_landmarks=50, random_state=0).fit({"X": rna, "X_pca": pca, "protein": protein})
    assert cells.obs["coterie"].cat.categories.tolist() == ["0", "1", "2"]
    assert (cells.obs["coterie"].astype(int) == model.labels_).all()
    assert (cells.obs["coterie_confidence"] == model.confidence_).all()
    assert cells.uns["coterie"]["params"]["n_landmarks"] == 50
    assert cells.uns["coterie"]["params"]["views"] == ["X", "X_pca", "protein"]
    assert cells.uns["coterie"]["view_weights"] == model.view_weights_


def test_what_is_written_can_be_stored(cells, tmp_path):
    cluster(cells, K, views={"pca": "obsm/X_pca", "half": "layers/half"}, key_added="mine", n_landmarks=50)
    with plain_text():
        cells.write(tmp_path / "x.h5ad")
        again = anndata.read_h5ad(tmp_path / "x.h5ad")
    assert (again.obs["mine"] == cells.obs["mine"]).all()
    assert again.uns["mine"]["params"]["n_clusters"] == K
    assert again.uns["mine"]["agreement"] == pytest.approx(cells.uns["mine"]["agreement"])
    with plain_text():
        backed = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r")
        found = cluster(backed.to_memory(), K, views="X_pca", copy=True)
    assert "coterie" in found.obs


def test_a_copy_leaves_the_object_alone(cells):
    found = cluster(cells, copy=True, n_landmarks=50)
    assert "coterie" in found.obs
    assert "coterie" not in cells.obs
    assert "coterie" not in cells.uns


def test_mudata_whose_modalities_have_other_cells(modalities, data, tmp_path):
    cluster(modalities, K, n_landmarks=50)
    rna, _, protein = data.views.values()
    known = np.full_like(protein, np.nan)
    rows = np.arange(N)[::-1][: 2 * N // 3]
    known[rows] = protein[rows]
    model = GuidedCoTraining(K, n_landmarks=50, random_state=0).fit({"rna": sparse.csr_array(rna), "prot": known})
    order = [f"cell{i}" for i in range(N)]
    assert modalities.obs_names.tolist() == order
    assert (modalities.obs["coterie"].astype(int) == model.labels_).all()
    assert ari(data.target, model.labels_) > 0.9
    with plain_text():
        modalities.write(tmp_path / "x.h5mu")
        again = mudata.read_h5mu(tmp_path / "x.h5mu")
    assert (again.obs["coterie"] == modalities.obs["coterie"]).all()
    tables = views_of(modalities, ["rna"])
    assert list(tables) == ["rna"]
    assert sparse.issparse(tables["rna"])


def test_what_is_not_there_is_named(cells, modalities):
    for data, views, said in (
        (cells, ["X_umap"], "no 'X_umap'. There are: X, X_pca, protein, layers/half"),
        (modalities, ["atac"], "no modality 'atac'. There are: rna, prot"),
        (modalities, {"rna": "X_pca"}, "Modality 'rna' has no 'X_pca'. There are: X"),
    ):
        with pytest.raises(ValueError, match=said):
            cluster(data, K, views=views)
    with pytest.raises(TypeError, match="AnnData or MuData object"):
        cluster(np.eye(3), K)
