"""Fits at the same time give what they give alone, and nothing of the process is left changed."""

import multiprocessing
import os
import random
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numba
import numpy as np
import pytest
from test_determinism import digest, fit
from threadpoolctl import threadpool_info

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.threads import _lock, in_order, one_thread_per_block

NAMES = ("defaults", "as published", "k chosen", "twins")


@pytest.fixture(scope="module")
def alone():
    return {name: digest(fit(name)) for name in NAMES}


def fit_and_digest(name):
    return digest(fit(name))


def test_fits_in_threads_give_what_they_give_alone(alone):
    jobs = [*NAMES, *NAMES[::-1]]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(fit_and_digest, jobs))
    assert found == [alone[name] for name in jobs]


def test_fits_in_processes_give_what_they_give_alone(alone):
    jobs = NAMES[:3]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(fit_and_digest, jobs))
    assert found == [alone[name] for name in jobs]


def test_one_model_predicts_in_many_threads():
    views = make_views(900, 4, random_state=0).views
    model = GuidedCoTraining(4, random_state=0).fit(views)
    parts = [{name: view[start : start + 300] for name, view in views.items()} for start in range(0, 600, 50)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(model.predict, parts))
    for number, labels in enumerate(found):
        np.testing.assert_array_equal(labels, model.labels_[50 * number : 50 * number + 300])


# -- nothing is left changed -------------------------------------------------------------------------------------


def state():
    """Everything of the process that a careless library changes."""
    import torch

    numpy_state = np.random.get_state()  # noqa: NPY002 - that it is left alone is the point
    return {
        "numpy's random state": (numpy_state[1].tobytes(), numpy_state[2:]),
        "Python's random state": random.getstate(),
        "torch's random state": torch.random.get_rng_state().numpy().tobytes(),
        "threads of libraries": counts(),
        "threads of numba": numba.get_num_threads(),
        "threads of torch": torch.get_num_threads(),
        "warnings filters": list(warnings.filters),
        "environment": dict(os.environ),
        "floating-point errors": np.geterr(),
        "printing": np.get_printoptions(),
        "folder": os.getcwd(),
        "threads": threading.active_count(),
    }


def odd_jobs():
    """Fits that succeed in several places, and two that fail half-way."""
    views = make_views(300, 3, random_state=0).views
    model = GuidedCoTraining(3, random_state=0).fit(views)
    model.predict(views)
    GuidedCoTraining("auto", random_state=0).fit(make_views(300, 3, separation=8, random_state=0).views)
    GuidedCoTraining(3, device="torch", random_state=0).fit(views)
    GuidedCoTraining(3, random_state=0, memory_limit=2**30).fit(views)
    with pytest.raises(ValueError, match="n_clusters"):
        GuidedCoTraining(301, random_state=0).fit(views)
    bad = views["view0"].copy()
    bad[7, 1] = np.inf
    with pytest.raises(ValueError, match="NaN"):
        GuidedCoTraining(3, random_state=0).fit({**views, "view0": bad})


def test_no_state_of_the_process_is_left_changed():
    odd_jobs(), state()  # libraries are loaded once
    before = state()
    odd_jobs()
    after = state()
    assert {name for name in before if before[name] != after[name]} == set()


def counts(api=None):
    """How many threads each library would use if this thread called it."""
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if api in (None, pool["user_api"])}


@pytest.mark.parametrize("blas", ["numpy", "faiss"])  # that of FAISS is built with OpenMP: each thread has its number
def test_fits_that_overlap_leave_every_thread_as_it_was(blas):
    """OpenMP counts threads for each thread apart, BLAS for all: whoever ends last puts the latter back."""
    pytest.importorskip(blas)
    before = counts()
    entered, left, found = threading.Event(), threading.Event(), []

    def other():
        mine = counts("openmp")
        with one_thread_per_block():
            entered.set()
            left.wait()
        found.append(counts("openmp") == mine)

    thread = threading.Thread(target=other)
    with one_thread_per_block():
        thread.start()
        entered.wait()
    shared = {pool["num_threads"] for pool in threadpool_info() if pool.get("threading_layer") == "pthreads"}
    left.set()
    thread.join()
    assert shared == {1}
    assert found == [True]
    assert counts() == before


def test_fits_in_any_thread_and_their_helpers_use_one_thread():
    """Also where another thread was the first to limit BLAS."""
    with one_thread_per_block():
        pass

    def seen_inside(_):
        with one_thread_per_block():
            helpers = in_order(lambda number: set(counts().values()), range(3), 2)
            return [set(counts().values()), *helpers]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(seen_inside, range(4))) == [[{1}] * 4] * 4


def test_states_differ_where_something_is_changed(monkeypatch):
    """The test above would see it."""
    state()  # libraries are loaded once
    before = state()
    monkeypatch.setenv("COTERIE_TEST", "1")
    with warnings.catch_warnings(), np.errstate(over="raise"):
        warnings.simplefilter("ignore")
        after = state()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"environment", "warnings filters", "floating-point errors"}


def test_a_generator_may_be_forgotten_at_any_time():
    """Python closes it when it collects what is not needed, perhaps just while the same thread begins another fit."""

    def predict_slowly():
        with one_thread_per_block():
            yield

    before = counts()
    forgotten = predict_slowly()
    next(forgotten)
    with _lock:
        forgotten.close()
    assert counts() == before
