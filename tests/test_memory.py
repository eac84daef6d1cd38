"""Memory grows with the rows, and only with what is kept of them."""

import subprocess
import sys

CODE = """
import resource
import numpy as np
from coterie import GuidedCoTraining
from coterie.datasets import make_views

def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

GuidedCoTraining(3, random_state=0).fit(make_views(500, 3, n_columns=(64, 64, 64)).views)  # compiled and imported
rng = np.random.default_rng(0)
n = 200_000
views = []
for v in range(3):  # column by column: making the input must not peak above the input
    view = np.empty((n, 64), dtype=np.float32)
    for start in range(0, n, 10_000):
        view[start : start + 10_000] = rng.standard_normal((10_000, 64), dtype=np.float32)
    views.append(view)
before = peak()
GuidedCoTraining(10, random_state=0).fit(views)
print((peak() - before - 300e6) / n)
"""


def test_a_fit_keeps_600_bytes_a_row_at_most():
    """Beyond the input and 300 MB."""
    out = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    assert float(out) < 600
