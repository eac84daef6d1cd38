"""Rows on a Dask cluster: the same answer as in memory, however many workers there are, and whoever is lost."""

import itertools
import os
import signal
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import coterie
from benchmarks.cluster_table import received_in
from coterie import GuidedCoTraining, suggest_k
from coterie.datasets import make_views
from coterie.metrics import ari
from coterie.placement import partitioned_rows
from coterie.rows.dask import DaskRows, serialised
from coterie.rows.exact import ExactSum
from coterie.rows.workers import workers_of
from coterie.views import as_views

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
distributed = pytest.importorskip("distributed")

PER_ROW = ("labels_", "confidence_", "embedding_")
SMALL = {f"coterie-{name}" for name in ("send", "sum-grams", "sum-outer", "first-sums", "count-zero-rows")}
SEVERAL_ROUNDS = {"max_iter": 3, "tol": 0}  # though views agree no better after the first
SHARED = ("cluster_centers_", "medoid_indices_", "landmark_indices_")


def model(n_clusters=4, **settings):
    light = {"n_landmarks": 200, "n_neighbors": 10, "measure_stability": False, "n_init": 3}
    return GuidedCoTraining(n_clusters, **{**light, "store_embedding": True, "random_state": 3, **settings})


@pytest.fixture(scope="module")
def tables():
    return list(make_views(1500, n_clusters=4, separation=4, random_state=0).views.values())


@pytest.fixture(scope="module")
def in_memory(tables):
    return model().fit(tables)


@pytest.fixture
def here():
    """Dask without a cluster."""
    with dask.config.set(scheduler="synchronous"):
        yield


def split(tables, rows=400):
    return [da.from_array(table, chunks=(rows, -1)) for table in tables]


def fitted(model):
    return [np.asarray(getattr(model, name)) for name in (*PER_ROW, *SHARED)]


# -- sums -----------------------------------------------------------------------------------------------------------


def test_sums_are_exact(rng):
    parts = rng.standard_normal((50, 4)) * 10.0 ** rng.integers(-12, 9, (50, 4))
    truth = [float(sum(Fraction(float(value)) for value in column)) for column in parts.T]
    found = ExactSum.of(list(parts)).value()
    np.testing.assert_allclose(found, truth, rtol=1e-15, atol=1e-21)
    for _ in range(3):  # in any order, and in any groups
        first, second = np.split(rng.permutation(parts), [rng.integers(1, 49)])
        again = ExactSum.of([ExactSum.of(list(first)), ExactSum.of(list(second))]).value()
        np.testing.assert_array_equal(again, found)


# -- what goes in ---------------------------------------------------------------------------------------------------


def frame(values):
    return pd.DataFrame(values, columns=[f"c{number}" for number in range(values.shape[1])])


def assert_views_hold(views, tables, rng):
    assert views.n_rows == len(tables[0])
    rows = rng.permutation(len(tables[0]))[:100]
    for block, table in zip(views.take(rows).read(slice(None)), tables, strict=True):
        data = block.data.toarray() if sparse.issparse(block.data) else block.data
        np.testing.assert_array_equal(data, np.asarray(table)[rows])


@pytest.mark.usefixtures("here")
def test_arrays_and_frames_are_views(tables, rng):
    first, second, third = tables
    columns_apart = da.from_array(second, chunks=(400, 3))
    other_rows = da.from_array(third, chunks=(333, -1))
    lengths_unknown = dd.from_pandas(frame(first), npartitions=4)
    views = as_views({"a": lengths_unknown, "b": columns_apart, "c": other_rows})
    assert views.names == ("a", "b", "c")
    assert views[0].columns[:2] == ("c0", "c1")
    assert len({view.data.array.chunks[0] for view in views}) == 1
    assert {view.data.array.numblocks[1] for view in views} == {1}
    assert_views_hold(views, tables, rng)


@pytest.mark.usefixtures("here")
def test_rows_that_are_filtered_leave_empty_partitions(tables, in_memory):
    frames = [dd.from_pandas(frame(table), npartitions=5, sort=False) for table in tables]
    some = [
        each.map_partitions(lambda part: part[part.index >= 500]) for each in frames
    ]  # the first partition is empty
    labels = in_memory.predict(some)
    assert labels.chunks[0][0] == 0
    np.testing.assert_array_equal(labels, in_memory.labels_[500:])


@pytest.mark.usefixtures("here")
def test_missing_values_of_frames_are_nan():
    values = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2.0, 3.0]})
    (view,) = as_views(dd.from_pandas(values, npartitions=1))
    np.testing.assert_array_equal(view.data[:], [[1, 1], [np.nan, 2], [3, 3]])


@pytest.mark.usefixtures("here")
def test_sparse_chunks_stay_sparse(rng):
    table = sparse.random_array((300, 40), density=0.2, rng=rng, format="csr")
    chunks = da.from_array(table.toarray(), chunks=(100, -1)).map_blocks(sparse.csr_array)
    views = as_views({"words": chunks})
    assert sparse.issparse(views.take(np.arange(5))[0].data)
    assert_views_hold(views, [table.toarray()], rng)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("as_frame", [False, True])
def test_one_table_is_split_by_columns(tables, in_memory, as_frame):
    whole = np.column_stack(tables)
    ends = np.cumsum([table.shape[1] for table in tables])
    groups = [slice(end - table.shape[1], end) for end, table in zip(ends, tables, strict=True)]
    X = dd.from_pandas(frame(whole), npartitions=3) if as_frame else da.from_array(whole, chunks=(600, 7))
    found = model(views=groups).fit(X)
    assert found.n_features_in_ == whole.shape[1]
    assert ari(found.labels_.compute(), in_memory.labels_) >= 0.999


# -- the same answer ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_a_fit_is_that_of_memory(tables, in_memory):
    X = split(tables)
    found = model().fit(X)
    for name in PER_ROW:
        assert isinstance(getattr(found, name), da.Array)
        assert getattr(found, name).chunks[0] == X[0].chunks[0]
    assert ari(found.labels_.compute(), in_memory.labels_) >= 0.999
    np.testing.assert_array_equal(found.landmark_indices_, in_memory.landmark_indices_)
    np.testing.assert_allclose(found.confidence_, in_memory.confidence_, atol=1e-3)
    np.testing.assert_array_equal(found.predict(X), found.labels_)
    np.testing.assert_array_equal(found.predict(tables), found.labels_)
    np.testing.assert_array_equal(found.transform(X), found.embedding_)
    np.testing.assert_array_equal(found.confidence(X), found.confidence_)
    np.testing.assert_array_equal(found.view_labels(X), found.view_labels(tables))
    streamed = list(found.stream(X))
    assert [part.first_row for part in streamed][:2] == [0, 256]
    np.testing.assert_array_equal(np.concatenate([part.labels for part in streamed]), found.labels_)
    np.testing.assert_array_equal(found.predict({"view1": X[1]}), found.predict({"view1": tables[1]}))


@pytest.mark.usefixtures("here")
def test_rows_that_lack_views(tables):
    holes = [table.copy() for table in tables]
    holes[0][100:150] = np.nan
    holes[2][700:720] = np.nan
    found, expected = model().fit(split(holes)), model().fit(holes)
    assert ari(found.labels_.compute(), expected.labels_) >= 0.99
    assert (found.view_labels(split(holes))[100:150, 0] == -1).all()


@pytest.mark.usefixtures("here")
def test_the_number_of_clusters_is_found(tables):
    X = split(tables)
    assert suggest_k(X, k_max=6, random_state=0).best == 4
    assert model("auto").fit(X).n_clusters_ == 4


@pytest.mark.usefixtures("here")
def test_workers_may_have_devices(tables, in_memory):
    pytest.importorskip("torch")
    X = split(tables)
    found = model(device="torch").fit(X)
    assert isinstance(found.labels_.compute(), np.ndarray)
    assert ari(found.labels_.compute(), in_memory.labels_) >= 0.999
    assert isinstance(found.cluster_centers_, np.ndarray)
    np.testing.assert_array_equal(found.predict(X), found.labels_)


@pytest.mark.usefixtures("here")
def test_a_model_is_saved_and_reported_with_its_rows(tables, tmp_path):
    found = model().fit(split(tables))
    loaded = coterie.load(coterie.save(found, tmp_path / "model.coterie", rows=True))
    np.testing.assert_array_equal(loaded.labels_, found.labels_)
    assert found.report(tmp_path / "report.html", split(tables)).exists()


# -- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_frames_of_other_rows_are_refused_as_far_as_dask_knows(tables):
    """Rows are matched by position: at the same place of these frames there are different ones."""
    ids = [f"row{i:04d}" for i in range(len(tables[0]))]
    first, second = (frame(table).set_axis(ids) for table in tables[:2])
    views = {"a": dd.from_pandas(first[:-40], npartitions=2), "b": dd.from_pandas(second[40:], npartitions=3)}
    with pytest.raises(ValueError, match=r"'b' has an index from 'row0040' to .*'a' goes from 'row0000' to .*position"):
        as_views(views)
    same = as_views({"a": views["a"], "b": dd.from_pandas(second[:-40], npartitions=3)})
    assert same.n_rows == len(ids) - 40
    assert as_views({name: table.reset_index(drop=True) for name, table in views.items()}).n_rows == len(ids) - 40


def test_columns_of_partitions_are_matched_by_name(tables):
    """Dask takes a function's word for the columns of the partitions that it returns."""
    whole = dd.from_pandas(frame(tables[0]), npartitions=3)
    names = list(whole.columns)
    turned = whole.map_partitions(
        lambda part: part[names[::-1]] if part.index[0] else part, meta=whole._meta, enforce_metadata=False
    )
    found = as_views([turned])
    assert (found.take(np.arange(len(tables[0]))).views[0].data == tables[0]).all()
    for change in (lambda part: part.rename(columns={names[0]: "other"}), lambda part: part.assign(more=1.0)):
        lying = whole.map_partitions(change, meta=whole._meta, enforce_metadata=False)
        with pytest.raises(ValueError, match=r"A partition of a Dask dataframe has the columns .* claims .*the same"):
            as_views([lying]).take(np.arange(5))


def test_errors_say_where(tables):
    X = split(tables)
    with pytest.raises(ValueError, match="View 'view0' is a Dask collection, but view 'view1' is not"):
        model().fit([X[0], tables[1]])
    for name, value in (("memory_limit", "2GB"), ("work_dir", "somewhere")):
        with pytest.raises(ValueError, match=f"'{name}' .* a cluster has limits of its own"):
            model(**{name: value}).fit(X)
    broken = tables[1].copy()
    broken[1234, 2] = np.nan
    with pytest.raises(ValueError, match="view 'view1', row 1234"):
        model().fit([X[0], split([broken])[0], X[2]])
    lying = X[0].map_blocks(lambda chunk: chunk[:, :-1] if len(chunk) < 400 else chunk, dtype=X[0].dtype)
    with pytest.raises(ValueError, match=r"View 'view0': the partition of rows 1200 to 1499 has shape \(300, 19\)"):
        model().fit(X).predict([lying, *X[1:]])
    short = X[0].map_blocks(lambda chunk: chunk[:5], dtype=X[0].dtype)
    with pytest.raises(
        ValueError, match=r"The partition of rows 1200 to 1499 has shape \(5, 20\) instead of \(300, 20\)"
    ):
        model().fit([short, *X[1:]])
    words = dd.from_pandas(pd.DataFrame({"a": ["x", "y"]}), npartitions=1)
    with pytest.raises(ValueError, match="real numbers"):
        model().fit(words)


@pytest.mark.parametrize("dtype", ["complex128", "U32", "datetime64[s]", "O"])
def test_chunks_that_are_not_the_numbers_that_are_claimed_are_refused(tables, dtype):
    X = split(tables)
    lying = X[1].map_blocks(lambda chunk: chunk.astype(dtype), meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"partition of rows \d+ to \d+ holds .*, though .* claims real numbers"):
        model().fit([X[0], lying])
    with pytest.raises(ValueError, match=r"View 'view1': the partition of rows \d+ to \d+ holds .* claims real"):
        model(max_iter=1).fit(X[:2]).predict([X[0], lying])


@pytest.mark.parametrize("kind", ["float", "int", "sparse"])
def test_collections_that_give_other_values_each_time_are_refused(tables, here, kind):
    def changing(chunk):
        values = np.random.default_rng().normal(size=chunk.shape)  # without a seed, which is what is refused
        return sparse.csr_array(values) if kind == "sparse" else (10 * values).astype(kind)

    X = split(tables)
    meta = sparse.csr_array((0, 0)) if kind == "sparse" else np.empty((0, 0), kind)
    with pytest.raises(ValueError, match=r"View 'view1': row \d+ has other values than .*persist\(\)"):
        model().fit([X[0], X[1].map_blocks(changing, meta=meta)])
    model(max_iter=1).fit([X[0], X[1].map_blocks(changing, meta=meta).persist()])


def test_sums_that_threads_round_otherwise_are_the_same_values(tables, here):
    """Products of collections may differ in their last digits from one computation to the next."""
    X = split(tables)
    rounded = X[0].map_blocks(lambda chunk: chunk * (1 + 1e-14 * np.random.default_rng().uniform()), dtype=float)
    model(max_iter=1).fit([rounded, X[1]])


def test_sample_weight_is_named(tables):
    with pytest.raises(ValueError, match=r"'sample_weight' parameter of GuidedCoTraining.fit must be None with Dask"):
        model().fit(split(tables), sample_weight=da.ones(1500, dtype=int))


# -- on a cluster ---------------------------------------------------------------------------------------------------


def cluster_of(n_workers):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    )


@pytest.fixture(scope="module")
def client():
    with cluster_of(2) as cluster, distributed.Client(cluster) as client:
        yield client


def scaled(client, n_workers):
    client.cluster.scale(n_workers)
    client.wait_for_workers(n_workers, timeout=120)


def test_labels_do_not_depend_on_the_number_of_workers(client, tables, in_memory):
    X = split(tables, rows=150)
    by_two = fitted(model().fit(X))
    scaled(client, 4)
    by_four = fitted(model().fit(X))
    for two, four in zip(by_two, by_four, strict=True):
        np.testing.assert_array_equal(two, four)
    assert ari(by_two[0], in_memory.labels_) >= 0.999


def test_a_lost_worker_changes_nothing(client, tables, monkeypatch):
    """A worker is killed while its partitions are guided: others have to make them again, from the raw rows on."""
    X = split(tables, rows=150)
    expected = fitted(model(**SEVERAL_ROUNDS).fit(X))
    with cluster_of(3) as cluster, distributed.Client(cluster, set_as_default=False) as other, other.as_current():
        found = fit_and_kill(other, X, monkeypatch)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def fit_and_kill(client, X, monkeypatch):
    """Return a fit in the middle of which a worker was killed."""
    victims = list(client.run(os.getpid).values())[:1]
    persisted, handed_out = coterie.rows.workers.persisted, []

    def persist_and_kill(tasks):
        going = persisted(tasks)
        handed_out.extend(task.key for task in going if "guide" in task.key)
        if victims and len(handed_out) > len(client.nthreads()):  # somebody is done with the first
            os.kill(victims.pop(), signal.SIGKILL)
        return going

    monkeypatch.setattr(coterie.rows.workers, "persisted", persist_and_kill)
    found = fitted(model(**SEVERAL_ROUNDS).fit(X))
    assert not victims
    return found


def views_of(tables):
    """Return slices of the columns of all tables side by side."""
    ends = np.cumsum([table.shape[1] for table in tables]).tolist()
    return [slice(start, end) for start, end in itertools.pairwise([0, *ends])]


@pytest.mark.parametrize("where", ["nowhere", "on workers"])
def test_rows_stay_where_they_are(client, tables, where):
    """Workers send each other sums, and what all need to know: as much with 15 partitions as with 5."""
    triangle, rounds, n_workers = 16 * 200 * 201 // 2, 3, len(client.cluster.worker_spec)
    for times in (1, 3):
        X = da.from_array(np.tile(np.column_stack(tables), (times, 1)), chunks=(300, -1))
        if where == "on workers":
            X = X.persist()
            distributed.wait(X)
            n_workers = len(set(itertools.chain(*client.who_has(X).values())))
        settings = {"landmarks": np.arange(200), "views": views_of(tables), "max_iter": rounds, "tol": 0}
        crossed, found = received_in(client, lambda X=X, settings=settings: model(**settings).fit(X))
        assert {kind for kind in crossed if kind not in SMALL} == set()
        sums = rounds * len(found.singular_values_) * (n_workers - 1) * triangle
        assert crossed["coterie-sum-grams"] == pytest.approx(sums, rel=0.01)


def test_new_rows_are_spread_evenly(client, tables):
    rows = partitioned_rows(as_views(split(tables, rows=100)), 256).map(lambda block: block.first_row)
    counts = Counter(workers_of(rows.parts, rows.sizes))
    assert len(counts) == len(client.nthreads())
    assert max(counts.values()) - min(counts.values()) <= 1


def test_tasks_have_names_that_say_what_they_do(client, tables):
    model(basis="subspace", max_iter=2).fit(split(tables))
    names = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    for name in (
        "sample",
        "build-graphs",
        "sum-grams",
        "sum-outer",
        "guide",
        "unit-embedding",
        "assign-with-confidence",
    ):
        assert f"coterie-{name}" in names


@pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")  # beside other tests' cluster
def test_nothing_large_is_sent_along(tables):
    """Functions that are sent to workers must not take an estimator with them, which may hold rows."""
    sent = {}
    send = DaskRows._send

    def weigh(self, thing):
        sent[len(sent)] = len(serialised(thing))
        return send(self, thing)

    with pytest.MonkeyPatch.context() as patch, dask.config.set(scheduler="synchronous"):
        patch.setattr(DaskRows, "_send", weigh)
        found = model()
        found.fit(tables)
        found.labels_ = np.zeros(10**6)
        found.fit(split(tables))
        found.labels_ = np.zeros(10**6)
        found.predict(split(tables))
    assert max(sent.values()) < 1_000_000
