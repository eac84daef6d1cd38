"""Threads: order, errors, and limits that are put back."""

import threading
import time

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
