"""One contract for the four kinds of rows: in memory, in files, as tensors, on the workers of a Dask cluster."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from coterie.arrays import to_host
from coterie.method.graphs import Block
from coterie.rows.disk import DiskRows
from coterie.rows.memory import MOST_RUNS, ROWS_PER_RUN, MemoryRows
from coterie.rows.tasks import Part
from coterie.rows.torch import TorchRows
from coterie.rows.work_folder import WorkFolder

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("distributed")

KINDS = ("memory", "disk", "torch", "dask")

# Sizes of blocks: unequal, a lone one, single rows, one after the other.
LAYOUTS = {"unequal": (30, 1, 50, 22), "one block": (17,), "single rows": (1, 1, 1)}


@pytest.fixture
def rng():
    """One seed: nothing here depends on luck."""
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def cluster():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with distributed.LocalCluster(host="127.0.0.1", **settings) as found, distributed.Client(found) as client:
        yield client


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def make_rows(kind, request, tmp_path):
    """A function that makes rows of one kind from blocks of NumPy arrays."""
    if kind == "dask":
        request.getfixturevalue("cluster")

    def make(blocks, n_threads=2):
        n_rows = sum(len(block) for block in blocks)
        if kind == "memory":
            return MemoryRows(blocks, n_rows=n_rows, n_threads=n_threads)
        if kind == "disk":
            rows = DiskRows(blocks, n_rows=n_rows, n_threads=n_threads, folder=WorkFolder(tmp_path))
            return rows.map(lambda block: block)  # now they are in files
        if kind == "torch":
            return TorchRows([torch.as_tensor(block) for block in blocks], n_rows=n_rows)
        from coterie.rows.dask import DaskRows

        halves = [half for half in (blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]) if half]
        sizes = np.array([sum(len(block) for block in half) for half in halves])
        return DaskRows([Part((half,)) for half in halves], sizes).map(lambda block: block)  # now workers have them

    return make


def blocks_of(rng, sizes=LAYOUTS["unequal"], width=3):
    data = rng.standard_normal((sum(sizes), width))
    return data, np.split(data, np.cumsum(sizes)[:-1])


def values(found):
    """An array of any library as NumPy's."""
    return np.asarray(to_host(found))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_map_and_collect_keep_the_order_of_the_rows(make_rows, rng, layout):
    data, blocks = blocks_of(rng, LAYOUTS[layout])
    rows = make_rows(blocks)
    assert rows.n_rows == len(data)
    doubled = rows.map(lambda block: 2 * block)
    assert doubled.n_rows == len(data)
    np.testing.assert_array_equal(values(doubled.collect(lambda block: block)), 2 * data)
    np.testing.assert_array_equal(values(rows.collect(lambda block: block)), data)  # rows are what they were
    np.testing.assert_array_equal(
        values(doubled.collect(lambda block: block[:, 0])), 2 * data[:, 0]
    )  # one number a row


def test_what_is_loaded_is_what_the_function_gets(make_rows, rng):
    data, blocks = blocks_of(rng)
    rows = make_rows(blocks)
    mapped = rows.map(lambda block: 2 * block, load=lambda block: block + 1)
    np.testing.assert_array_equal(values(mapped.collect(lambda block: block)), 2 * (data + 1))
    np.testing.assert_array_equal(
        values(rows.collect(lambda block: 2 * block, load=lambda block: block + 1)), 2 * (data + 1)
    )
    streamed = [values(part) for part in rows.stream(lambda block: 2 * block, load=lambda block: block + 1)]
    np.testing.assert_array_equal(np.concatenate(streamed), 2 * (data + 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_stream_yields_blocks_in_the_order_of_the_rows(make_rows, rng, layout):
    data, blocks = blocks_of(rng, LAYOUTS[layout])
    streamed = [values(part) for part in make_rows(blocks).stream(lambda block: block)]
    assert [len(part) for part in streamed] == [len(block) for block in blocks]
    np.testing.assert_array_equal(np.concatenate(streamed), data)


def test_each_covers_all_rows_in_their_order(make_rows, rng):
    data, blocks = blocks_of(rng)
    found = make_rows(blocks).each(lambda block: (len(block), block[0], block.sum()))
    edges = np.cumsum([0, *(size for size, _, _ in found)])
    assert edges[-1] == len(data)
    for (start, stop), (_, first, total) in zip(pairwise(edges), found, strict=True):
        np.testing.assert_array_equal(values(first), data[start])
        np.testing.assert_allclose(float(total), data[start:stop].sum())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sums_are_those_of_all_rows(make_rows, rng, layout):
    """Floats as exact as float64 allows, integers exactly."""
    _, blocks = blocks_of(rng, LAYOUTS[layout])
    blocks = [block * 10.0 ** rng.integers(-6, 7, block.shape) for block in blocks]
    data = np.concatenate(blocks)

    def add(block, total):
        if not total:
            total += [0 * block[0], 0 * (block[0] > 0)]
        total[0] += block.sum(0)
        total[1] += (block > 0).sum(0)

    sums, counts = make_rows(blocks).sum(add, list)
    truth = [float(sum(Fraction(float(value)) for value in column)) for column in data.T]
    np.testing.assert_allclose(values(sums), truth, atol=1e-14 * np.abs(data).sum())
    np.testing.assert_array_equal(values(counts), (data > 0).sum(axis=0))


def test_sums_are_the_same_bytes_again(make_rows, rng):
    _, blocks = blocks_of(rng, (40,) * 12)

    def add(block, total):
        if not total:
            total.append(0 * block[0])
        total[0] += block.sum(0)

    rows = make_rows(blocks)
    first, again = (values(rows.sum(add, list)[0]) for _ in range(2))
    assert first.tobytes() == again.tobytes()


def test_replace_consumes_the_rows(make_rows, kind, rng, tmp_path):
    data, blocks = blocks_of(rng)
    rows = make_rows(blocks)
    before = sorted(path for path in tmp_path.glob("*/*") if path.name != "whole")
    replaced = rows.replace(lambda block: block - 1)
    np.testing.assert_array_equal(values(replaced.collect(lambda block: block)), data - 1)
    if kind == "disk":
        assert len(before) == len(blocks)
        assert not any(path.exists() for path in before)
    else:
        assert not len(rows.parts if kind == "dask" else rows.blocks)


@pytest.mark.parametrize(
    "numbers", [[0], [102], [0, 1, 29, 30, 31, 80, 81, 102], [30, 31], list(range(103)), []], ids=str
)
def test_take_returns_rows_by_number(make_rows, rng, numbers):
    data, blocks = blocks_of(rng)
    found = values(make_rows(blocks).take(np.array(numbers, dtype=int)))
    np.testing.assert_array_equal(found, data[numbers])


def test_blocks_may_be_dataclasses_of_arrays(make_rows, kind, rng):
    data, blocks = blocks_of(rng)
    pairs = make_rows(blocks).map(lambda block: Block(block[:, :1], block[:, 1:]))
    taken = pairs.take(np.array([5, 30, 99]))
    assert isinstance(taken, Block)
    np.testing.assert_array_equal(values(taken.indices), data[[5, 30, 99], :1])
    np.testing.assert_array_equal(values(taken.weights), data[[5, 30, 99], 1:])
    np.testing.assert_array_equal(values(pairs.collect(lambda block: block.weights)), data[:, 1:])


@pytest.mark.parametrize("verb", ["map", "replace", "collect", "each", "stream", "sum"])
def test_an_error_of_a_function_is_passed_on(make_rows, rng, verb):
    _, blocks = blocks_of(rng)

    def fail(block, total=None):
        if len(block) != 30:
            raise ValueError("not thirty rows")
        return block

    rows, more = make_rows(blocks), (list,) if verb == "sum" else ()
    with pytest.raises(ValueError, match="not thirty rows"):
        consume(getattr(rows, verb)(fail, *more))


def consume(found):
    """Let a generator do its work."""
    if isinstance(found, Iterator):
        list(found)


# -- threads --------------------------------------------------------------------------------------------------------


def sum_in_runs(data, n_threads, make=MemoryRows, **more):
    """The sum in float32, whose every rounding shows, and the number of runs that it was made of."""
    runs = []

    def zeros():
        runs.append(np.zeros(data.shape[1], np.float32))
        return (runs[-1],)

    def add(block, total):
        total[0][...] += block.sum(axis=0)

    rows = make(np.array_split(data, 40), n_rows=len(data), n_threads=n_threads, **more)
    return rows.sum(add, zeros)[0], len(runs) - 1  # the first is made to see how large it is


def test_several_sums_are_those_one_by_one(rng, tmp_path):
    data = rng.standard_normal((3 * ROWS_PER_RUN, 4)).astype(np.float32)

    def add(block, total, column):
        total[0][...] += block[:, column].sum()

    functions = [partial(add, column=column) for column in range(4)]
    blocks, zeros = np.array_split(data, 10), lambda: (np.zeros(1, np.float32),)
    for make, more in ((MemoryRows, {}), (DiskRows, {"folder": WorkFolder(tmp_path)})):
        rows = make(blocks, n_rows=len(data), n_threads=3, **more)
        together = [total for (total,) in rows.sums(functions, zeros)]
        assert together == [rows.sum(function, zeros)[0] for function in functions]


def test_sums_do_not_depend_on_threads(rng, tmp_path):
    data = (rng.standard_normal((6 * ROWS_PER_RUN + 7, 2)) * 1000).astype(np.float32)
    found = [sum_in_runs(data, n_threads) for n_threads in (1, 2, 3, 8)]
    found.append(sum_in_runs(data, 2, DiskRows, folder=WorkFolder(tmp_path)))
    for total, n_runs in found:
        assert n_runs == 6 <= MOST_RUNS  # with a single run there would be nothing to depend on
        assert total.tobytes() == found[0][0].tobytes()


def test_large_sums_are_made_of_fewer_runs(rng, monkeypatch):
    """Sixteen partial sums of 500 clusters' singular vectors in twelve graphs would take 5 GB."""
    data = rng.standard_normal((6 * ROWS_PER_RUN, 2)).astype(np.float32)
    for room, expected in ((100, 6), (32, 4), (9, 1), (1, 1)):
        monkeypatch.setattr("coterie.rows.memory.MOST_RUN_BYTES", room)
        total, n_runs = sum_in_runs(data, 3)  # each has 8 bytes
        assert n_runs == expected
        np.testing.assert_allclose(total, data.sum(axis=0, dtype=np.float64), rtol=1e-2, atol=1)
