import pytest

from coterie.threads import one_thread_per_block


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """As in a peer's own fit: on a busy machine, threads of small products wait for each other most of the time."""
    with one_thread_per_block():
        yield
