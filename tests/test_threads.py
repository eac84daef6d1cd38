"""Threads: order, errors, and limits that are put back."""

import pytest

from coterie.threads import in_order, one_thread_per_block


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
