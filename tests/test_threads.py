"""Threads: order, errors, and limits that are put back."""

import os
import threading
import time
import warnings

import pytest

from coterie.threads import in_order, one_thread_per_block


def threads_of_a_pass():
    """How many threads work on the items of one pass."""

    def who(_):
        time.sleep(0.01)
        return threading.get_ident()

    return len(set(in_order(who, range(12), 4)))


def test_callers_side_by_side_share_the_threads():
    with one_thread_per_block():
        assert threads_of_a_pass() == 4
        entered, go_on = threading.Event(), threading.Event()

        def other():
            with one_thread_per_block(), one_thread_per_block():
                entered.set()
                go_on.wait()

        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
        assert threads_of_a_pass() == 2
        go_on.set()
        thread.join()
        assert threads_of_a_pass() == 4


def test_a_generator_that_another_thread_closes_leaves_no_caller_behind():
    def predict_slowly():
        with one_thread_per_block():
            yield

    forgotten = predict_slowly()
    next(forgotten)
    thread = threading.Thread(target=forgotten.close)
    thread.start()
    thread.join()
    with one_thread_per_block():
        assert threads_of_a_pass() == 4


def test_a_fit_that_another_thread_ends_leaves_no_limit_behind():
    """OpenMP's limit is one of each thread: that of the thread which ends another's fit stays, too."""
    import sklearn.cluster  # noqa: F401  loads OpenMP
    from threadpoolctl import threadpool_info, threadpool_limits

    def limits():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"}

    found = []

    def end(fit):
        with one_thread_per_block():
            fit.__exit__(None, None, None)
            found.append(limits())

    with threadpool_limits(2, user_api="openmp"):
        fit = one_thread_per_block()
        fit.__enter__()
        thread = threading.Thread(target=end, args=(fit,))
        thread.start()
        thread.join()
        with one_thread_per_block():
            found.append(limits())
        assert (found, limits()) == ([{1}, {1}], {2})


def test_in_order_passes_errors_on():
    def fail_at_seven(item):
        if item == 7:
            raise ValueError("seven")
        return item

    with pytest.raises(ValueError, match="seven"):
        list(in_order(fail_at_seven, range(100), 2))


def test_thread_limits_are_put_back_even_when_fits_overlap():
    from threadpoolctl import threadpool_info

    def limits():
        return sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())

    before = limits()
    first, second = one_thread_per_block(), one_thread_per_block()
    first.__enter__()
    second.__enter__()
    assert all(number == 1 for _, number in limits())
    first.__exit__(None, None, None)
    assert all(number == 1 for _, number in limits())
    second.__exit__(None, None, None)
    assert limits() == before


def test_threads_are_kept_from_pass_to_pass_and_end_with_the_fit():
    before = threading.active_count()
    with one_thread_per_block():
        passes = [set(in_order(lambda _: threading.get_ident(), range(8), 2)) for _ in range(5)]
        assert len(set.union(*passes)) <= 2
        assert threading.active_count() <= before + 2
    assert threading.active_count() == before


def test_passes_within_a_pass_have_threads_of_their_own():
    def nested(item):
        return sum(in_order(lambda more: item + more, range(3), 2))

    with one_thread_per_block():
        assert list(in_order(nested, range(6), 2)) == [3 * item + 3 for item in range(6)]


def test_nothing_runs_on_after_a_pass_that_failed():
    running = []

    def fail_first(item):
        if item == 0:
            raise ValueError("first")
        running.append(item)
        time.sleep(0.02)
        running.remove(item)

    with one_thread_per_block():
        with pytest.raises(ValueError, match="first"):
            list(in_order(fail_first, range(20), 3))
        assert not running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_threads_of_its_own():
    def double(items):
        return list(in_order(lambda item: 2 * item, items, 2))

    with one_thread_per_block():
        double(range(4))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 advises against it
            child = os.fork()
        if not child:
            os._exit(0 if double(range(3)) == [0, 2, 4] else 1)
        assert os.waitpid(child, 0)[1] == 0
