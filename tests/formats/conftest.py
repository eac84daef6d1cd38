import numpy as np
import pytest
from written_files import CASES

from coterie.formats import segments, text_files


@pytest.fixture(params=CASES, ids=lambda write: write.__name__)
def case(request, tmp_path, monkeypatch):
    """A file of every format; blocks are small, so that one of five hundred rows has many."""
    monkeypatch.setattr(segments, "DECODED_BYTES", 1)
    monkeypatch.setattr(segments, "KEEP_BYTES", 4000)
    monkeypatch.setattr(text_files, "SEGMENT_BYTES", 5000)
    return request.param(tmp_path, np.random.default_rng(0))
