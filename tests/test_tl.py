"""AnnData and MuData in, the same objects with clusters out."""

from importlib.metadata import version
from pathlib import Path

import anndata
import mudata
import numpy as np
import pandas as pd
import pytest
from pandas_text import plain_text
from scipy import sparse

from coterie import GuidedCoTraining, load, save
from coterie.datasets import make_views
from coterie.metrics import ari
from coterie.pl import view_weights
from coterie.tl import cluster, predict, rank_views, views_of
from coterie.views import as_views

N, K = 210, 3
PINS = Path(__file__).parents[1] / "constraints.txt"


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


def test_slashes_in_names_of_views_can_be_stored(cells, tmp_path):
    """A file would hold groups in their place, and the weights would come back as dicts of dicts."""
    cluster(cells, K, views=["X", "obsm/X_pca"], n_landmarks=50)
    with plain_text():
        cells.write(tmp_path / "x.h5ad")
        again = anndata.read_h5ad(tmp_path / "x.h5ad")
    assert "coterie_weight_obsm:X_pca" in again.obs
    for name in ("view_weights", "agreement", "preparation"):
        assert again.uns["coterie"][name] == cells.uns["coterie"][name]
    assert [label.get_text() for label in view_weights(again).get_xticklabels()] == ["X", "obsm/X_pca"]


@pytest.mark.parametrize("write", [cluster, predict])
def test_nothing_is_written_unless_all_is(cells, monkeypatch, tmp_path, write):
    cluster(cells, K, n_landmarks=50, save=tmp_path / "m.coterie")
    before = cells.copy()

    def fail(self, X):
        raise KeyboardInterrupt

    monkeypatch.setattr(GuidedCoTraining, "view_support", fail)
    with pytest.raises(KeyboardInterrupt):
        write(cells, 2 if write is cluster else tmp_path / "m.coterie")
    assert cells.obs.equals(before.obs)
    assert (cells.obsm["X_coterie"] == before.obsm["X_coterie"]).all()


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


def small_fit(X, **settings):
    return GuidedCoTraining(K, n_landmarks=50, random_state=0, **settings).fit(X)


def test_fit_takes_anndata_and_mudata(cells, modalities, data):
    rna = data.views["view0"]
    model = small_fit(cells)
    np.testing.assert_array_equal(model.labels_, small_fit(rna).labels_)
    assert model.row_ids_.tolist() == cells.obs_names.tolist()
    np.testing.assert_array_equal(model.predict(cells), model.labels_)
    both = small_fit(modalities)
    assert both.view_names_ == ("rna", "prot")
    assert both.row_ids_.tolist() == modalities.obs_names.tolist()
    np.testing.assert_array_equal(both.predict(modalities), both.labels_)
    np.testing.assert_array_equal(both.predict({"rna": modalities["rna"]}), both.predict({"rna": rna}))
    separate = {"rna": modalities["rna"], "prot": modalities["prot"]}  # matched by the cells' names
    np.testing.assert_array_equal(small_fit(separate).labels_, both.labels_)
    with plain_text():
        reordered = modalities["rna"][:, ::-1].copy()
    np.testing.assert_array_equal(both.predict({"rna": reordered}), both.predict({"rna": rna}))


def test_counts_are_not_copied(modalities):
    views = {view.name: view for view in as_views(modalities)}
    assert np.shares_memory(views["rna"].data.data, modalities["rna"].X.data)
    assert np.shares_memory(views["prot"].data, modalities["prot"].X)
    assert (views["prot"].positions >= 0).sum() == 2 * N // 3
    assert cells_share(modalities, "rna")


def cells_share(modalities, name):
    return np.shares_memory(views_of(modalities, [name])[name].data, modalities[name].X.data)


def test_a_full_citizen(modalities):
    cluster(modalities, K, n_landmarks=50)
    model = small_fit(modalities, store_embedding=True)
    np.testing.assert_array_equal(modalities.obsm["X_coterie"], model.embedding_)
    weights = modalities.obs[["coterie_weight_rna", "coterie_weight_prot"]].to_numpy()
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    lacking = ~np.isin(modalities.obs_names, modalities["prot"].obs_names)
    np.testing.assert_array_equal(weights[lacking], np.tile([1.0, 0.0], (lacking.sum(), 1)))
    assert modalities.uns["coterie"]["stability"] == model.stability_
    np.testing.assert_array_equal(modalities.uns["coterie"]["cluster_stability"], model.cluster_stability_)
    with plain_text():
        stacked = mudata.MuData({"a": modalities["rna"].copy()}, axis=1)
    with pytest.raises(ValueError, match="share variables instead of cells"):
        cluster(stacked, K)


def test_weights_follow_the_view_that_shows_the_cluster(data):
    rna, *_ = data.views.values()
    noise = np.random.default_rng(0).standard_normal((N, 6))
    cells = cells_of(rna, obsm={"noise": noise})
    cluster(cells, K, views=["X", "noise"])
    assert cells.obs["coterie_weight_X"].mean() > 0.8
    ranked = rank_views(cells)
    assert ranked.loc[ranked["rank"] == 1, "view"].tolist() == ["X"] * K
    assert ranked["cluster"].tolist() == ["0", "0", "1", "1", "2", "2"]
    with pytest.raises(ValueError, match=r"no uns\['other'\]"):
        rank_views(cells, key="other")


def test_a_backed_file_gives_the_same_labels(cells, tmp_path):
    with plain_text():
        cells.X = sparse.csr_matrix(cells.X)
        cells.write(tmp_path / "cells.h5ad")
        backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert as_views(backed)[0].data.is_sparse  # a table that stays in the file
    cluster(cells, K, n_landmarks=50)
    cluster(backed, K, n_landmarks=50)
    assert (backed.obs["coterie"] == cells.obs["coterie"]).all()
    backed.file.close()


def test_a_backed_mudata(modalities, tmp_path):
    with plain_text():
        modalities.write(tmp_path / "cells.h5mu")
        backed = mudata.read_h5mu(tmp_path / "cells.h5mu", backed="r")
    cluster(modalities, K, n_landmarks=50)
    cluster(backed, K, n_landmarks=50)
    assert (backed.obs["coterie"] == modalities.obs["coterie"]).all()


def test_new_cells_from_a_file(cells, modalities, tmp_path):
    views = {"pca": "obsm/X_pca", "half": "layers/half"}
    cluster(cells, K, views=views, n_landmarks=50, save=tmp_path / "cells.coterie")
    with plain_text():
        new = cells[::3].copy()
    del new.obs["coterie"]
    predict(new, tmp_path / "cells.coterie")
    assert (new.obs["coterie"] == cells.obs["coterie"].iloc[::3]).all()
    np.testing.assert_allclose(new.obs["coterie_confidence"], cells.obs["coterie_confidence"].iloc[::3], atol=1e-5)
    np.testing.assert_allclose(new.obs["coterie_weight_pca"], cells.obs["coterie_weight_pca"].iloc[::3], atol=1e-4)
    np.testing.assert_allclose(new.obsm["X_coterie"], cells.obsm["X_coterie"][::3], atol=1e-5)
    model = small_fit(modalities)
    with plain_text():
        lacking = mudata.MuData({"rna": modalities["rna"].copy()})
        found = predict(lacking, model, key_added="mine", copy=True)
    assert "mine" not in lacking.obs
    np.testing.assert_array_equal(found.obs["mine"].astype(int), model.predict({"rna": modalities["rna"]}))
    assert (found.obs["mine_weight_prot"] == 0).all()


def test_the_pinned_environment_writes_cells(cells, tmp_path):
    """Without any option of pandas: what a user's own session does."""
    pins = dict(line.split("==") for line in PINS.read_text().splitlines() if "==" in line)
    for name in ("anndata", "pandas"):
        if version(name) != pins[name]:
            pytest.skip(f"{name} is {version(name)} here and {pins[name]} in constraints.txt")
    cluster(cells, K, views=["X", "protein"], n_landmarks=50)
    cells.write(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert (again.obs["coterie"] == cells.obs["coterie"]).all()
    np.testing.assert_array_equal(again.obsm["X_coterie"], cells.obsm["X_coterie"])


def test_layers_and_representations_are_chosen(cells, modalities, data, tmp_path):
    rna, pca, _ = data.views.values()
    chosen = small_fit(cells, views={"pca": "obsm/X_pca", "half": "layers/half"})
    assert chosen.view_names_ == ("pca", "half")
    np.testing.assert_array_equal(chosen.labels_, small_fit({"pca": pca, "half": rna / 2}).labels_)
    np.testing.assert_array_equal(chosen.predict(cells), chosen.labels_)
    np.testing.assert_array_equal(chosen.predict({"pca": pca, "half": rna / 2}), chosen.labels_)
    again = load(save(chosen, tmp_path / "cells.coterie"))
    np.testing.assert_array_equal(again.predict(cells), chosen.labels_)
    assert small_fit(cells, views="X_pca").view_names_ == ("X_pca",)
    cluster(cells, K, layer="half", use_rep=["X_pca"], n_landmarks=50)
    assert cells.uns["coterie"]["params"]["views"] == ["half", "X_pca"]
    modalities["rna"].layers["half"] = modalities["rna"].X / 2
    cluster(modalities, K, layer={"rna": "half"}, n_landmarks=50)
    taken = small_fit(modalities, views={"rna": "layers/half", "prot": "X"})
    np.testing.assert_array_equal(modalities.obs["coterie"].astype(int), taken.labels_)
    with plain_text():
        lacking = mudata.MuData({"rna": modalities["rna"].copy()})
    np.testing.assert_array_equal(taken.predict(lacking), taken.predict({"rna": modalities["rna"].layers["half"]}))
    with pytest.raises(ValueError, match="each say what the views are"):
        cluster(cells, K, views=["X"], layer="half")
    with pytest.raises(ValueError, match="Modality 'prot' has no 'layers/half'"):
        cluster(modalities, K, layer="half")


@pytest.mark.parametrize("theirs", [None, {"views": None}, {"views": 3}, {"views": [1, 2]}], ids=str)
def test_a_key_that_held_something_else_is_overwritten(cells, theirs):
    cells.uns["coterie"] = {"params": theirs}
    cluster(cells, K, views=["X", "protein"], n_landmarks=50)
    assert cells.uns["coterie"]["params"]["views"] == ["X", "protein"]


def test_results_of_an_earlier_call_do_not_stay_among_new_ones(cells, tmp_path):
    cluster(cells, K, views=["X", "obsm/X_pca"], n_landmarks=50, save=tmp_path / "m.coterie")
    cells.obs["coterie_weight_kg"] = 1.0  # the user's own
    predict(cells, tmp_path / "m.coterie")
    cluster(cells, K, views=["X", "protein"], n_landmarks=50)
    assert sorted(name for name in cells.obs if name.startswith("coterie_")) == [
        "coterie_confidence",
        "coterie_weight_X",
        "coterie_weight_kg",
        "coterie_weight_protein",
    ]


def test_predicted_cells_are_drawn_and_ranked_like_those_of_the_fit(cells, tmp_path):
    new = cells[:100].copy()
    cluster(cells, K, views=["X", "protein"], n_landmarks=50, save=tmp_path / "m.coterie")
    predict(new, tmp_path / "m.coterie")
    assert [label.get_text() for label in view_weights(new).get_xticklabels()] == ["X", "protein"]
    assert rank_views(new).equals(rank_views(cells))


def test_a_modality_alone_is_told_how_to_be_a_view(modalities, tmp_path):
    cluster(modalities, K, n_landmarks=50, save=tmp_path / "m.coterie")
    rna = modalities["rna"].copy()
    with pytest.raises(ValueError, match=r"no 'rna'. There are: X. Say what each view is: views={'rna': 'X'}"):
        predict(rna, tmp_path / "m.coterie")
    predict(rna, tmp_path / "m.coterie", views={"rna": "X"})
    assert ari(rna.obs["coterie"], modalities.obs["coterie"]) > 0.9


def test_an_object_that_cannot_take_the_results_is_refused_before_the_fit(cells, modalities, tmp_path, monkeypatch):
    with plain_text():
        cells.write(tmp_path / "x.h5ad")
        modalities.write(tmp_path / "x.h5mu")
    monkeypatch.setattr(GuidedCoTraining, "fit", lambda *_: pytest.fail("the fit would have been lost"))
    with mudata.set_options(pull_on_update=False):
        opened = anndata.read_h5ad(tmp_path / "x.h5ad", backed="r"), mudata.read_h5mu(tmp_path / "x.h5mu", "r")
    for backed in opened:
        with pytest.raises(ValueError, match="A part of an object that is backed by a file cannot take results"):
            cluster(backed[:100], K)
        with pytest.raises(ValueError, match=r"A copy of an object that is backed by a file .* Read it into memory"):
            cluster(backed, K, copy=True)
    for name in ("", "_index", 3):
        with pytest.raises(ValueError, match=f"key_added must be a name for a column of obs. Got {name!r}"):
            cluster(cells, K, key_added=name)
    with pytest.raises(ValueError, match=r"views 'a/b' and 'a:b' would both be written to .*'coterie_weight_a:b'"):
        cluster(cells, K, views={"a/b": "X", "a:b": "X_pca"})


def test_no_cells_have_no_clusters(cells, tmp_path):
    cluster(cells, K, n_landmarks=50, save=tmp_path / "m.coterie")
    none = cells[:0].copy()
    predict(none, tmp_path / "m.coterie")
    assert none.obs["coterie"].cat.categories.tolist() == ["0", "1", "2"]
    assert {"coterie_confidence", "coterie_novelty", "coterie_weight_X"} < set(none.obs)
    assert none.obsm["X_coterie"].shape == (0, cells.obsm["X_coterie"].shape[1])


def test_a_list_of_no_views_does_not_mean_all(cells, modalities):
    for held in (cells, modalities):
        with pytest.raises(ValueError, match="No views"):
            cluster(held, K, views=[])


def test_a_view_that_is_listed_twice_is_refused(cells, modalities):
    for held, name in ((cells, "X"), (modalities, "prot")):
        with pytest.raises(ValueError, match=f"The list of views has '{name}' twice"):
            cluster(held, K, views=[name, name])
        with pytest.raises(ValueError, match=f"The list of views has '{name}' twice"):
            small_fit(held, views=[name, name])


def test_cells_that_were_renamed_in_a_modality_are_not_left_out(modalities):
    modalities.mod["prot"].obs_names = "new_" + modalities.mod["prot"].obs_names
    with pytest.raises(ValueError, match=r"'prot' has 140 cells that the MuData does not list .*'new_cell209'.*update"):
        cluster(modalities, K)
