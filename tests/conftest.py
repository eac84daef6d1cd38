import os
import signal
from pathlib import Path

import hypothesis
import numpy as np
import pytest

from coterie.datasets import load_views

# A shell that starts the suite in the background has it ignore Ctrl-C, and every process that it starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same cases everywhere and every time, however slow the machine. Loaded by name: under CI, Hypothesis would
# otherwise follow a profile of its own.
hypothesis.settings.register_profile(
    "coterie",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.load_profile("coterie")


@pytest.fixture(params=[0, 1, 2])
def seed(request):
    """Three seeds, so that no test leans on a lucky one."""
    return request.param


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real data sets; tests that need it are skipped without it."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("COTERIE_DATA") or beside)
    if not (folder / "mfeat.npz").exists():
        pytest.skip("needs the real data sets: set COTERIE_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def mfeat(data_folder):
    return load_views(data_folder / "mfeat.npz")
