"""Waiting for a cluster: whatever became of its workers, a fit ends, with an error that names what it waited for."""

import threading
import time

import pytest

import coterie.waiting
from coterie import GuidedCoTraining
from coterie.waiting import ask, computed_collection, gathered, wait_for

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler")  # beside other tests' cluster


@pytest.fixture
def impatient(monkeypatch):
    """Seconds instead of minutes."""
    for name, seconds in (("SECONDS_BETWEEN_CHECKS", 0.2), ("ANSWER_SECONDS", 5.0), ("IDLE_SECONDS", 1.0)):
        monkeypatch.setattr(coterie.waiting, name, seconds)


@pytest.fixture
def cluster():
    """A function that starts a cluster with some workers, which are not started again when they are lost."""
    started = []

    def start(n_workers):
        settings = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        cluster = distributed.LocalCluster(processes=False, **settings)
        started.append(cluster)
        started.append(distributed.Client(cluster))
        return started[-1]

    yield start
    for one in reversed(started):
        one.close()


@pytest.mark.usefixtures("impatient")
def test_a_cluster_without_workers_is_not_waited_for(cluster, rng):
    cluster(0)
    X = da.from_array(rng.standard_normal((200, 4)), chunks=(50, -1))
    said = r"Waited for 4 of 'coterie-sample' .* none of its 0 workers is at work"
    with pytest.raises(TimeoutError, match=said):
        GuidedCoTraining(2, n_landmarks=20).fit(X)
    with pytest.raises(TimeoutError, match="none of its 0 workers"):
        computed_collection(X)


@pytest.mark.parametrize("whole", [False, True])
def test_a_cluster_that_is_closed_is_not_waited_for(cluster, whole):
    client = cluster(1)
    future = client.submit(time.sleep, 3, key="coterie-guide-1")
    closing = threading.Timer(0.3, (client.cluster if whole else client).close)
    closing.start()
    try:
        with pytest.raises(ConnectionError, match=r"Waited for 1 of 'coterie-guide' .* cancelled: .*Start a cluster"):
            wait_for(client, [future])
    finally:
        closing.join()


@pytest.mark.usefixtures("impatient")
def test_a_task_that_failed_ends_the_wait_for_the_others(cluster):
    client = cluster(2)
    futures = [client.submit(time.sleep, 8), client.submit(divmod, 1, 0)]
    begin = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        gathered(client, futures)
    assert time.monotonic() - begin < 5
    client.cancel(futures)


@pytest.mark.usefixtures("impatient")
def test_workers_that_leave_are_not_waited_for(cluster):
    """They had begun; nobody takes over."""
    client = cluster(1)
    future = client.submit(time.sleep, 3, key="coterie-guide-1")
    while not any(client.processing().values()):
        time.sleep(0.05)
    client.cluster.scale(0)
    with pytest.raises(TimeoutError, match="Waited for 1 of 'coterie-guide' on the Dask cluster"):
        gathered(client, [future])


@pytest.mark.usefixtures("impatient")
def test_a_long_task_is_waited_for(cluster):
    """Longer than any of the deadlines, while its worker is at work; but not for ever."""
    client = cluster(1)
    future = client.submit(time.sleep, 3)
    assert wait_for(client, [future]) == [future]
    with dask.config.set({"coterie.longest-task": "1s"}):
        stuck = client.submit(time.sleep, 4, key="coterie-guide-2")
        with pytest.raises(TimeoutError, match=r"1 of 'coterie-guide' .* none was finished .*coterie.longest-task"):
            wait_for(client, [stuck])


@pytest.mark.usefixtures("impatient")
def test_a_scheduler_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(coterie.waiting, "ANSWER_SECONDS", 0.1)
    with pytest.raises(TimeoutError, match="did not answer 'sleep' within 0 seconds"):
        ask(time.sleep, 1)
    with pytest.raises(ZeroDivisionError):
        ask(divmod, 1, 0)
