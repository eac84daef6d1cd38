"""Whatever is passed becomes the same views."""

import numpy as np
import pytest
from scipy import sparse

from coterie.views import as_views, match_views


def test_forms_of_input(rng):
    import pandas as pd
    import polars as pl

    a, b = rng.random((6, 3)), rng.random((6, 2))
    frame = pd.DataFrame(np.hstack([a, b]), columns=list("abcde"))
    forms = [
        as_views([a, b]),
        as_views((a, sparse.csc_array(b))),
        as_views([a.tolist(), b.tolist()]),
        as_views({"x": a, "y": pd.DataFrame(b)}),
        as_views([pl.DataFrame(a), pl.DataFrame(b)]),
        as_views(np.hstack([a, b]), groups=[slice(0, 3), [3, 4]]),
        as_views(frame, groups={"x": ["a", "b", "c"], "y": ["d", "e"]}),
        as_views(sparse.csr_array(np.hstack([a, b])), groups=[slice(0, 3), slice(3, 5)]),
        as_views(pl.from_pandas(frame), groups={"x": ["a", "b", "c"], "y": slice(3, 5)}),
    ]
    for views in forms:
        assert (len(views), views.n_rows) == (2, 6)
        for block, expected in zip(views.read(slice(1, 5)), (a, b), strict=True):
            data = block.data.toarray() if sparse.issparse(block.data) else block.data
            np.testing.assert_allclose(data, expected[1:5])
    assert len(as_views(a.tolist())) == 1


def test_rows_that_lack_a_view():
    a = np.arange(8.0).reshape(4, 2)
    b = a.copy()
    b[2] = np.nan
    views = as_views({"a": a, "b": b})
    np.testing.assert_array_equal(views.presence()[:, 1], [True, True, False, True])
    block = views[1].read(np.array([1, 2]))
    np.testing.assert_array_equal(block.present, [True, False])
    np.testing.assert_array_equal(block.data, [[2, 3], [0, 0]])
    with pytest.raises(ValueError, match=r"row 2.*nothing to cluster them by"):
        as_views({"a": b, "b": b})


def test_frames_are_matched_by_index():
    import pandas as pd

    a = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=["u", "v", "w"])
    b = pd.DataFrame({"y": [30.0, 40.0, 10.0]}, index=["w", "z", "u"])
    views = as_views({"a": a, "b": b})
    assert views.ids.tolist() == ["u", "v", "w", "z"]
    np.testing.assert_array_equal(views.presence(), [[1, 1], [1, 0], [1, 1], [0, 1]])
    np.testing.assert_array_equal(views[1].read(slice(None)).data[:, 0], [10, 0, 30, 40])
    same_order = as_views({"a": a, "b": a})
    assert same_order.ids.tolist() == ["u", "v", "w"]
    twins = pd.DataFrame({"y": [1.0, 2.0]}, index=["u", "u"])
    with pytest.raises(ValueError, match=r"'b' has repeated row ids \('u'"):
        as_views({"a": a, "b": twins})


def test_sparse_rows_that_lack_a_view():
    import dataclasses

    view = as_views(sparse.csr_array(np.arange(1.0, 7).reshape(3, 2)))[0]
    view = dataclasses.replace(view, positions=np.array([2, -1, 0]))
    block = view.read(slice(0, 3))
    np.testing.assert_array_equal(block.data.toarray(), [[5, 6], [0, 0], [1, 2]])


def test_new_rows_may_leave_views_out():
    views = match_views({"b": np.ones((5, 2))}, None, ("a", "b"))
    assert views.names == ("a", "b")
    np.testing.assert_array_equal(views.presence(), [[False, True]] * 5)
    views = match_views([None, np.ones((5, 2))], None, ("a", "b"))
    np.testing.assert_array_equal(views.presence(), [[False, True]] * 5)
