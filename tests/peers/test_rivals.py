"""What the large one-view methods and today's rivals share: one interface, one kind of input, one kind of error."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from coterie import peers
from coterie.datasets import make_views
from coterie.metrics import ari
from coterie.peers import (
    AIMC,
    FPMVSCAG,
    KASP,
    LMVSC,
    LSC,
    PIC,
    SFMC,
    SMVSC,
    USENC,
    USPEC,
    CommuteTime,
    ConcatLSC,
    FastMICE,
    Nystroem,
    Sequential,
    ShinnouSasaki,
    SparseAutoencoder,
)

ONE_VIEW = {
    "LSC": lambda **more: LSC(4, n_landmarks=60, n_neighbors=20, **more),
    "USPEC": lambda **more: USPEC(4, n_landmarks=60, **more),
    "USENC": lambda **more: USENC(4, n_landmarks=60, n_members=8, **more),
    "Nystroem": lambda **more: Nystroem(4, n_landmarks=60, **more),
    "KASP": lambda **more: KASP(4, n_landmarks=60, **more),
    "ShinnouSasaki": lambda **more: ShinnouSasaki(4, n_landmarks=40, n_remaining=60, **more),
    "Sequential": lambda **more: Sequential(4, n_landmarks=60, block_size=128, **more),
    "CommuteTime": lambda **more: CommuteTime(4, **more),
    "SparseAutoencoder": lambda **more: SparseAutoencoder(4, hidden=(64, 16), **more),
}
SEVERAL = {
    "ConcatLSC": lambda **more: ConcatLSC(4, n_landmarks=60, n_neighbors=20, **more),
    "FastMICE": lambda **more: FastMICE(4, n_landmarks=100, **more),
    "AIMC": lambda **more: AIMC(4, n_init=5, **more),
    "LMVSC": lambda **more: LMVSC(4, n_landmarks=20, n_init=3, **more),
    "SMVSC": lambda **more: SMVSC(4, **more),
    "FPMVSCAG": lambda **more: FPMVSCAG(4, **more),
    "SFMC": lambda **more: SFMC(4, n_landmarks=80, **more),
}
EASY = ONE_VIEW | SEVERAL  # PIC, whose single vector holds no four clusters of such data, has tests of its own
PREDICTING = ("LSC", "USPEC", "USENC", "Nystroem", "KASP", "Sequential", "ConcatLSC", "FastMICE", "AIMC")

everyone = pytest.mark.parametrize("name", EASY)


@pytest.fixture(scope="module")
def easy():
    return make_views(400, 4, n_columns=(12, 8), separation=5, random_state=3)


@everyone
def test_easy_clusters_are_found_and_a_seed_repeats(name, easy):
    for seed in (0, 1):
        model = EASY[name](random_state=seed)
        labels = model.fit_predict(easy.views)
        assert ari(easy.target, labels) > 0.9
        assert np.array_equal(labels, clone(model).fit(easy.views).labels_)


@everyone
def test_input_may_be_of_any_kind_and_is_left_as_it_is(name, easy):
    kept = {view: table.copy() for view, table in easy.views.items()}
    as_dict = EASY[name](random_state=0).fit_predict(easy.views)
    as_list = EASY[name](random_state=0).fit_predict(list(easy.views.values()))
    assert np.array_equal(as_dict, as_list)
    assert all(np.array_equal(kept[view], table) for view, table in easy.views.items())
    as_csr = {view: sparse.csr_array(table) for view, table in easy.views.items()}
    assert ari(easy.target, EASY[name](random_state=0).fit_predict(as_csr)) > 0.85


@everyone
def test_rows_that_lack_a_view_are_clustered_too(name):
    data = make_views(400, 4, n_columns=(12, 8, 8), separation=8, missing=0.1, random_state=3)
    labels = EASY[name](random_state=0).fit_predict(data.views)
    whole = ~np.any([np.isnan(table[:, 0]) for table in data.views.values()], axis=0)
    assert ari(data.target[whole], labels[whole]) > 0.6


@everyone
def test_errors_name_the_parameter_and_the_view(name, easy):
    with pytest.raises(ValueError, match=f"The 'n_clusters' parameter of {name} must be an int"):
        EASY[name]().set_params(n_clusters=0).fit(easy.views)
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=4"):
        EASY[name]().fit({view: table[:3] for view, table in easy.views.items()})
    broken = {view: table.copy() for view, table in easy.views.items()}
    broken["view0"][5, 1] = np.inf
    with pytest.raises(ValueError, match=r"NaN, infinity.*: view 'view0', row 5"):
        EASY[name](random_state=0).fit(broken)


@pytest.mark.parametrize("name", [*ONE_VIEW, "PIC"])
def test_one_view_methods_take_one_view_or_all_side_by_side(name, easy):
    make = ONE_VIEW.get(name, lambda **more: PIC(4, **more))
    alone = make(view="view1", random_state=0).fit(easy.views).labels_
    assert np.array_equal(alone, make(view=1, random_state=0).fit(easy.views).labels_)
    assert np.array_equal(alone, make(random_state=0).fit(easy.views["view1"]).labels_)
    together = make(random_state=0).fit(easy.views).labels_
    assert ari(together, make(random_state=0).fit(np.hstack(list(easy.views.values()))).labels_) > 0.99
    with pytest.raises(ValueError, match=f"The 'view' parameter of {name} must be None or the name or number of one"):
        make(view="nothing").fit(easy.views)


@pytest.mark.parametrize("name", PREDICTING)
def test_predict_places_the_rows_of_the_fit_where_they_were_and_new_ones_with_their_like(name, easy):
    half = {view: table[:200] for view, table in easy.views.items()}
    rest = {view: table[200:] for view, table in easy.views.items()}
    model = EASY[name](random_state=0).fit(half)
    assert np.array_equal(model.predict(half), model.labels_)
    assert ari(easy.target[200:], model.predict(rest)) > 0.85
    with pytest.raises(ValueError, match="View 'view0' has 3 columns, but it had 12 in the fit"):
        model.predict({"view0": rest["view0"][:, :3], "view1": rest["view1"]})
    assert model.predict({"view0": rest["view0"]}).shape == (200,)  # rows that lack the other view


@pytest.mark.parametrize("name", sorted(set(EASY) - set(PREDICTING)))
def test_methods_without_an_honest_predict_have_none(name):
    assert not hasattr(EASY[name](), "predict")


@pytest.mark.parametrize("name", ["USPEC", "FastMICE", "AIMC", "LMVSC", "Nystroem", "Sequential", "SFMC"])
def test_labels_do_not_depend_on_threads(name, easy):
    one, two = (EASY[name](n_jobs=jobs, random_state=0).fit(easy.views).labels_ for jobs in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (USENC(4, member_clusters=(5, 2)), "The 'member_clusters' parameter of USENC must be two whole numbers"),
        (FastMICE(4, scaling="log"), "The 'scaling' parameter of FastMICE must be one of"),
        (AIMC(4, tol=-1), "The 'tol' parameter of AIMC must be a finite number of at least 0"),
        (LMVSC(4, alpha=-1), "The 'alpha' parameter of LMVSC"),
        (SMVSC(4, start="last"), "The 'start' parameter of SMVSC must be one of 'first', 'random'"),
        (FPMVSCAG(4, n_landmarks=0), "The 'n_landmarks' parameter of FPMVSCAG must be an int of at least 1"),
        (KASP(4, n_landmarks=3), "The 'n_landmarks' parameter of KASP must be an int of at least 4"),
        (PIC(4, affinity="gaussian"), "The 'affinity' parameter of PIC must be one of"),
        (Sequential(4, block_size=0), "The 'block_size' parameter of Sequential"),
        (CommuteTime(4, n_projections=0), "The 'n_projections' parameter of CommuteTime"),
        (SparseAutoencoder(4, hidden=()), "The 'hidden' parameter of SparseAutoencoder must be a list of whole"),
        (SparseAutoencoder(4, sparsity=1.0), "The 'sparsity' parameter of SparseAutoencoder must be a number between"),
    ],
)
def test_wrong_settings_are_refused(model, message, easy):
    with pytest.raises(ValueError, match=message):
        model.fit(easy.views)


def test_importing_one_method_imports_no_other():
    code = (
        "import sys\nfrom coterie.peers import KASP\n"
        "print([m for m in sys.modules if m in ('torch', 'pyamg', 'coterie.peers.fastmice')])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
    assert set(peers.__all__) <= set(dir(peers))
    assert all(getattr(peers, name).__name__ == name for name in peers.__all__)
