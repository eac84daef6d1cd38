"""Forms of input that are easily got wrong."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from coterie import GuidedCoTraining
from coterie.datasets import make_views
from coterie.views import as_views, prepare


@pytest.fixture(scope="module")
def data():
    return make_views(120, 3, n_columns=(5, 4), separation=5, random_state=0)


def fit(views, k=3, **settings):
    return GuidedCoTraining(k, random_state=0, **settings).fit(views)


def test_small_columns_beside_large_ones_count():
    """Whatever the units: four telling columns beside one of noise, ten orders of magnitude larger."""
    rng = np.random.default_rng(0)
    target = np.repeat([0, 1, 2], 100)
    telling = target[:, None] * 0.02 + 0.002 * rng.standard_normal((300, 4))
    for table in (np.column_stack([telling, 1e6 * rng.standard_normal(300)]), 1.7e9 + 1e6 * telling):
        assert adjusted_rand_score(fit(table).labels_, target) > 0.9


def test_columns_that_vary_by_rounding_alone_drop_out():
    table = np.full((50, 2), 0.1, dtype=np.float32)
    table[:, 0] += np.arange(50)
    table[::2, 1] = np.nextafter(np.float32(0.1), np.float32(1))
    prepared = prepare(table, scaling="standard")(table)
    assert not prepared[:, 1].any()


@pytest.mark.parametrize("scaling", ["auto", "none", "block", "half", "standard"])
def test_whole_numbers_are_exact_however_large(data, scaling):
    offset = (10 * data.views["view0"]).astype(np.int64) + 10**15
    assert adjusted_rand_score(fit(offset, scaling=scaling).labels_, data.target) > 0.9


def test_columns_are_said_to_be_left_out_only_where_they_are(data):
    coarse = (data.views["view0"] + 3e7).astype(np.float32)
    with pytest.warns(UserWarning, match="View 'X': 5 columns .* are left out"):
        prepare(coarse, scaling="standard")
    assert prepare(coarse, scaling="none")(coarse).any()


def topics(rng, n_words):
    """Documents of three topics, as counts."""
    target = rng.integers(3, size=300)
    rates = 0.02 + 0.4 * (np.arange(n_words) % 3 == np.arange(3)[:, None]) * (rng.random((3, n_words)) < 0.2)
    return target, sparse.csr_array(rng.poisson(rates[target]))


def test_as_many_words_as_documents_are_still_words(rng):
    _, words = topics(rng, 300)
    assert prepare(words).kind == "words"


def test_links_are_seen(rng):
    group = np.arange(200) % 4
    odds = np.where(group[:, None] == group, 0.15, 0.005)
    directed = rng.random((200, 200)) < odds
    for links in (directed, directed | directed.T):
        links = sparse.csr_array(links.astype(float))
        assert prepare(links).kind == "graph"
        model = fit(links, 4)
        np.testing.assert_array_equal(model.predict(links), model.labels_)
        assert adjusted_rand_score(model.labels_, fit(links * 1e-3, 4).labels_) > 0.97
        assert adjusted_rand_score(model.labels_, group) > 0.9


def test_rows_matched_by_index_keep_the_order_of_the_fit(data):
    ids = [f"row{i}" for i in range(120)]
    a = pd.DataFrame(data.views["view0"], index=ids)
    b = pd.DataFrame(data.views["view1"], index=ids).iloc[::-1]
    model = fit({"a": a, "b": b})
    assert model.row_ids_.tolist() == ids
    np.testing.assert_array_equal(model.predict({"b": b, "a": a}), model.labels_)
    np.testing.assert_array_equal(model.labels_, fit([a.to_numpy(), data.views["view1"]]).labels_)
    shuffled = b.reset_index(drop=True).sample(frac=1, random_state=0)
    plain = pd.DataFrame(data.views["view1"][::-1])
    np.testing.assert_array_equal(
        fit({"a": a.reset_index(drop=True), "b": shuffled}).labels_,
        fit({"a": a.reset_index(drop=True), "b": plain}).labels_,
    )
    with pytest.raises(ValueError, match=r"different indexes, and view 'c' has none"):
        fit({"a": a, "b": b, "c": data.views["view0"]})


def test_masks_as_column_groups():
    X = np.arange(40.0).reshape(8, 5)
    mask = np.array([True, True, False, False, False])
    views = as_views(X, groups={"x": mask, "y": ~mask})
    assert [view.n_columns for view in views] == [2, 3]
    for group in ([0.5, 1.7], None, 1.5):
        with pytest.raises(ValueError, match=r"views\['x'\] must be"):
            as_views(X, groups={"x": group})


def test_documents_without_words(rng):
    target, words = topics(rng, 120)
    words = words.toarray()
    words[:20] = 0
    with pytest.warns(UserWarning, match=r"2\d rows are zero in the embedding"):
        model = fit(sparse.csr_array(words))
    np.testing.assert_array_equal(model.confidence_[:20], 0)
    assert (model.view_labels(sparse.csr_array(words))[:20] == -1).all()
    assert adjusted_rand_score(target[20:], model.labels_[20:]) > 0.6


def test_infinity_is_not_clipped():
    X = np.random.default_rng(0).standard_t(1.5, size=(300, 6))
    model = fit(X)
    assert "Clip" in model.preparation_["X"]
    X[7, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.predict(X)


@pytest.mark.parametrize("unit", [1e-30, 1e-19, 1e19, 1e30])
def test_cosine_of_extreme_values(data, unit):
    views = {name: (view * unit).astype(np.float32) for name, view in data.views.items()}
    plain = fit(data.views, metric="cosine", scaling="block")
    assert adjusted_rand_score(fit(views, metric="cosine", scaling="block").labels_, plain.labels_) > 0.97


@pytest.mark.parametrize("unit", [1e-30, 1e25])
def test_published_settings_with_extreme_values(data, unit):
    views = {name: view.astype(float) * unit for name, view in data.views.items()}
    plain = GuidedCoTraining.as_published(3, random_state=0).fit(data.views)
    extreme = GuidedCoTraining.as_published(3, random_state=0).fit(views)
    assert adjusted_rand_score(plain.labels_, extreme.labels_) > 0.97


def test_one_view_in_a_list_and_fits_of_other_shapes(data):
    a, b = data.views.values()
    np.testing.assert_array_equal(fit([a]).predict([a]), fit(a).labels_)
    model = fit(a)
    model.fit([a, b])
    np.testing.assert_array_equal(model.predict([a, b]), model.labels_)
    assert not hasattr(model, "n_features_in_")


def test_sparse_views_with_other_columns(data):
    views = {name: sparse.csr_array(view) for name, view in data.views.items()}
    model = fit(views)
    with pytest.raises(ValueError, match=r"'view1' has 3 columns, but it had 4"):
        model.predict({**views, "view1": views["view1"][:, :3]})


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("damage", ["counted from 1", "negative", "beyond the end", "descending"])
def test_sparse_views_with_indices_that_are_not_theirs_are_refused(data, form, damage):
    """SciPy takes them, and its compiled loops, like ours, would read and write outside of the arrays."""
    table = getattr(sparse, f"{form}_array")(data.views["view0"])
    match damage:
        case "counted from 1":
            table.indices += 1
        case "negative":
            table.indices[3] = -2
        case "beyond the end":
            table.indptr[-1] += 10**6
        case "descending":
            table.indptr[2] = table.indptr[-1]
    model = fit(list(data.views.values()))
    for use in (fit, model.predict):
        with pytest.raises(ValueError, match=r"view0' is a sparse matrix of shape .* indices that are not its own"):
            use([table, data.views["view1"]])


def test_sparse_forms(data):
    view = sparse.csr_array(np.maximum(data.views["view0"], 0))
    doubled = sparse.coo_array(
        (np.r_[view.data / 2, view.data / 2], (np.tile(view.tocoo().row, 2), np.tile(view.tocoo().col, 2))), view.shape
    )
    for other in (doubled, view.astype(np.float64), sparse.csr_matrix(view)):
        np.testing.assert_array_equal(fit(view).labels_, fit(other).labels_)


def test_nullable_masked_and_dated_tables(data):
    a, b = (view.astype(float).copy() for view in data.views.values())
    b[:10] = np.nan
    expected = fit([a, b]).labels_
    nullable = pd.DataFrame(b).convert_dtypes()
    np.testing.assert_array_equal(fit([a, nullable.to_numpy(dtype=float, na_value=np.nan)]).labels_, expected)
    masked = np.ma.masked_invalid(b)
    np.testing.assert_array_equal(fit([a, masked]).labels_, expected)
    dates = np.full((120, 2), np.datetime64("2020-01-01"))
    for wrong in (dates, np.ma.array(dates)):
        with pytest.raises(ValueError, match="dates or times"):
            fit([a, wrong])
    with pytest.raises(ValueError, match="same name"):
        fit({0: a, "0": a})
    with pytest.raises(ValueError, match="Two of views= have the same name: 0, '0'"):
        GuidedCoTraining(3, views={0: slice(0, 2), "0": slice(2, 4)}).fit(a)


def test_one_row_at_a_time(rng):
    X = rng.integers(3, size=(300, 12)).astype(float)  # many ties
    model = fit(X, 4)
    alone = np.concatenate([model.predict(X[i : i + 1]) for i in range(100)])
    np.testing.assert_array_equal(alone, model.labels_[:100])


def test_a_fit_that_failed_leaves_no_model(data):
    from sklearn.exceptions import NotFittedError

    model = GuidedCoTraining(3, view_weights=[1, -1])
    with pytest.raises(ValueError, match="view_weights"):
        model.fit(data.views)
    for method in (model.predict, model.view_labels):
        with pytest.raises(NotFittedError):
            method(data.views)


def test_pickle_is_the_same_model(data):
    model = fit(data.views)
    model.predict(data.views)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(data.views), model.labels_)


def test_views_option_of_the_fit_is_kept(data):
    X = data.views["view0"]
    model = GuidedCoTraining(3, views=[slice(0, 2), slice(2, 5)], random_state=0).fit(X)
    model.set_params(views=[slice(0, 3), slice(3, 5)])
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.filterwarnings("ignore:No number of clusters has clear evidence")
def test_choosing_k_on_little_data():
    few = np.repeat(np.random.default_rng(0).standard_normal((7, 4)) * 10, 20, axis=0)
    assert 2 <= fit(few, "auto").n_clusters_ <= 6
    data = make_views(300, 4, separation=8, random_state=0)
    assert fit(data.views, "auto", n_landmarks=30, n_neighbors=5).n_clusters_ == 4
    with pytest.raises(ValueError, match=r"k_max|too few"):
        fit(few[:2], "auto")


def test_many_views_can_be_split():
    from coterie.method.selection import split_views

    ways = split_views([[v] for v in range(40)], np.random.default_rng(0))
    assert len(ways) == 3
    for first, second in ways:
        assert sorted(first + second) == list(range(40))


def test_tables_in_files_are_matched_by_id(data, tmp_path):
    """In another order and with gaps, sparse or dense: as frames with the same indexes are."""
    from coterie import formats

    ids = np.array([f"row{i}" for i in range(120)])
    first, second = data.views.values()
    order = np.random.default_rng(0).permutation(120)[:100]
    for name, table, rows in (("a", first, np.arange(120)), ("b", second, order)):
        columns = [f"{name}{c}" for c in range(table.shape[1])]
        pd.DataFrame(table[rows], index=ids[rows], columns=columns).to_parquet(tmp_path / f"{name}.parquet")
    frames = {name: pd.read_parquet(tmp_path / f"{name}.parquet") for name in "ab"}
    tables = formats.open_views([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    model, expected = fit(tables), fit(frames)
    assert model.row_ids_.tolist() == ids.tolist()
    np.testing.assert_array_equal(model.labels_, expected.labels_)
    np.testing.assert_array_equal(model.predict(tables), expected.predict(frames))


def test_tables_of_pyarrow_are_views_alone_in_a_list_and_in_a_dict(rng):
    import pyarrow as pa

    tables = [pa.table({"a": rng.standard_normal(9), "b": rng.standard_normal(9)}) for _ in range(2)]
    for given, names in (
        (tables[0], ("X",)),
        (tables, ("view0", "view1")),
        (dict(zip("uv", tables, strict=True)), ("u", "v")),
    ):
        views = as_views(given)
        assert views.names == names
        for view, table in zip(views, tables, strict=False):
            assert view.columns == ("a", "b")
            np.testing.assert_array_equal(view.data, np.column_stack([table["a"], table["b"]]))
    for groups in ({"u": ["b"], "v": ["a"]}, {"u": [1], "v": slice(0, 1)}):
        split = as_views(tables[0], groups)
        assert [view.columns for view in split] == [("b",), ("a",)]
        np.testing.assert_array_equal(np.hstack([view.data for view in split])[:, ::-1], as_views(tables[0])[0].data)


def test_default_indexes_of_other_lengths_are_refused(data):
    a, b = (pd.DataFrame(view) for view in data.views.values())
    np.testing.assert_array_equal(fit([a, b]).labels_, fit([a.to_numpy(), b.to_numpy()]).labels_)
    with pytest.raises(ValueError, match=r"'b' has 90 rows.*'a' has 120.*default row numbers.*set_index"):
        fit({"a": a, "b": b.iloc[30:].reset_index(drop=True)})
    kept = fit({"a": a, "b": b.iloc[30:]})  # a frame that was cut down knows which rows it has
    named = fit({"a": a.rename_axis("row"), "b": b.iloc[:90].rename_axis("row")})
    assert len(kept.labels_) == len(named.labels_) == 120
    assert (kept.view_labels({"a": a, "b": b.iloc[30:]})[:30, 1] == -1).all()
    model = fit({"a": a, "b": b})
    with pytest.raises(ValueError, match="default row numbers"):
        model.predict({"a": a.iloc[:10].reset_index(drop=True), "b": b.iloc[:7].reset_index(drop=True)})


def test_indexes_that_differ_in_their_writing_alone_are_said(data):
    a, b = (pd.DataFrame(view) for view in data.views.values())
    a.index = [f"{i:03}" for i in range(120)]  # 100 to 119 are the same
    b.index = [str(i) for i in range(120)]
    with pytest.warns(UserWarning, match=r"'a' and View 'b' have 100 row ids that differ .* such as '000' and '0'"):
        fit({"a": a, "b": b})
    b.index = np.arange(120)[::-1]
    a.index = [str(i) for i in b.index]
    with (
        pytest.warns(UserWarning, match=r"120 row ids .* such as '119' and 119"),
        pytest.raises(ValueError, match="nothing in"),
    ):
        fit({"a": a, "b": b})


def test_ids_that_have_nothing_in_common_are_shown(data):
    a, b = (pd.DataFrame(view) for view in data.views.values())
    a.index = [f"row{i}" for i in range(120)]
    b.index = [f"ROW-{i}" for i in range(120)]
    with pytest.raises(ValueError, match=r"nothing in common \('row\d+' in 'a' and 'ROW-\d+' in 'b'\)"):
        fit({"a": a, "b": b})
    a.index = np.arange(120) + 7
    with pytest.raises(ValueError, match=r"nothing in common \(7 in 'a' and 'ROW-\d+' in 'b'\)"):
        fit({"a": a, "b": b})
    with pytest.raises(ValueError, match=r"View 'a' has repeated row ids \(7 among them\)"):
        fit({"a": a.set_axis(a.index.where(a.index != 8, 7)), "b": b})


def test_lists_in_columns_are_columns(data):
    import polars as pl
    import pyarrow as pa

    a, b = (view.astype(np.float64) for view in data.views.values())
    expected = fit([a, np.column_stack([b, a[:, 0]])])
    frame = pd.DataFrame({"embedding": list(b), "size": a[:, 0]})
    arrow = pa.table({"embedding": b.tolist(), "size": a[:, 0]})
    for form in (frame, pl.DataFrame({"embedding": b.tolist(), "size": a[:, 0]}), arrow):
        np.testing.assert_array_equal(fit([a, form]).labels_, expected.labels_)
    assert as_views(frame)[0].columns == ("embedding[0]", "embedding[1]", "embedding[2]", "embedding[3]", "size")
    frame.at[3, "embedding"] = None
    assert as_views([a, frame[["embedding"]]])[1].positions[2:5].tolist() == [2, -1, 4]
    frame.at[5, "embedding"] = [1.0]
    with pytest.raises(ValueError, match="lists of 4 and of 1 numbers in column 'embedding'"):
        fit([a, frame])


def test_masks_are_not_forgotten_where_columns_are_split_and_in_chunks(data):
    a, b = (view.astype(float).copy() for view in data.views.values())
    both = np.hstack([a, b])
    model = GuidedCoTraining(3, views=[slice(0, 5), slice(5, 9)], random_state=0)
    mask = np.zeros(both.shape, bool)
    mask[:10, :5] = True
    both[mask] = 1e3  # what must not be read
    expected = model.fit(np.where(mask, np.nan, both)).confidence_
    masked = np.ma.array(both, mask=mask)
    np.testing.assert_array_equal(model.fit(masked).confidence_, expected)
    dask = pytest.importorskip("dask.array")
    found = model.fit(dask.from_array(masked, chunks=(50, -1))).confidence_.compute()
    np.testing.assert_allclose(found, expected, atol=1e-4)
    integers = np.ma.array(np.round(both).astype(int), mask=mask)
    expected = model.confidence(np.where(mask, np.nan, np.round(both)))
    found = model.confidence(dask.from_array(integers, chunks=(50, -1))).compute()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_masks_of_rows_and_of_complex_numbers_are_not_forgotten(data):
    a, b = (view.astype(float).copy() for view in data.views.values())
    mask = np.zeros(b.shape, bool)
    mask[:10] = True
    rows = [np.ma.array(row, mask=masked) for row, masked in zip(b, mask, strict=True)]
    np.testing.assert_array_equal(fit([a, rows]).labels_, fit([a, np.ma.array(b, mask=mask)]).labels_)
    with pytest.raises(ValueError, match="Complex data not supported"):
        fit([a, np.ma.array(b + 1j, mask=mask)])


def test_frames_of_other_kinds(data):
    import polars as pl
    import pyarrow as pa

    a, b = (view.astype(np.float64) for view in data.views.values())
    expected = fit([a, b]).labels_
    arrows = [pa.table({f"c{j}": column for j, column in enumerate(table.T)}) for table in (a, b)]
    np.testing.assert_array_equal(fit(arrows).labels_, expected)
    text = pd.DataFrame(b).assign(name="x", kind=pd.Categorical(["u", "v"] * 60))
    for bad, said in (
        (text, r"View 'b'.*not numbers: column 'name' and 1 more"),
        (text.drop(columns="name"), r"View 'b'.*column 'kind' \(category\)"),
        (pl.DataFrame({"name": ["x"] * 120}), r"View 'b'.*column 'name'"),
        (pl.DataFrame(b).lazy(), r"View 'b' is a LazyFrame.*collect"),
        (pd.DataFrame({"day": pd.date_range("2020-01-01", periods=120)}), r"View 'b' holds dates.*'day'"),
        (pd.DataFrame(b + 1j), r"Complex data not supported: View 'b' holds complex128 in column '0'"),
    ):
        with pytest.raises(ValueError, match=said):
            fit({"a": a, "b": bad})


def test_tensors_of_other_kinds(data):
    torch = pytest.importorskip("torch")
    a, b = (torch.as_tensor(view) for view in data.views.values())
    np.testing.assert_array_equal(fit([a, b.bfloat16()]).labels_, fit([a, b.bfloat16().float()]).labels_)
    with pytest.raises(ValueError, match=r"View 'b' is a sparse tensor.*csr_array"):
        fit({"a": a, "b": b.to_sparse()})
    with pytest.raises(ValueError, match=r"View 'b' is no table that NumPy can read.*plain type such as float32"):
        fit({"a": a, "b": b.to(torch.float8_e4m3fn)})


class Endless:
    """Something that NumPy would iterate for ever."""

    def __len__(self):
        return 10**9

    def __getitem__(self, number):
        return Endless()


def test_what_is_no_table_is_refused_by_name(data):
    a, b = data.views.values()
    for bad, said in (
        ([[1.0, 2.0], [3.0]], r"View 'b' is no table that NumPy can read.*same number of columns"),
        ([a, b], r"View 'b' is no table that NumPy can read.*its own entry"),
        (np.zeros(120, [("x", float), ("y", float)]), r"View 'b' holds records \(x, y\)"),
        (pd.DataFrame(b).groupby(0), r"View 'b' is a DataFrameGroupBy, which is no table"),
    ):
        with pytest.raises(ValueError, match=said):
            fit({"a": a, "b": bad})


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "wrap",
    [lambda x: x, lambda x: [x, x], lambda x: {"a": x}, lambda x: [[x]]],
    ids=["alone", "list", "dict", "rows"],
)
def test_what_is_no_table_is_refused_before_it_is_iterated(wrap):
    with pytest.raises(ValueError, match=r"must be a table.*Got a Endless"):
        fit(wrap(Endless()))
    with pytest.raises(ValueError, match=r"must be a table.*Got a generator"):
        fit(wrap(i for i in range(3)))


def test_one_row_and_no_rows(data):
    model = fit(data.views)
    single = fit(data.views["view0"])
    with pytest.raises(ValueError, match=r"reshape\(1, -1\) for a single row"):
        single.predict(data.views["view0"][0])
    none = {name: view[:0] for name, view in data.views.items()}
    assert model.predict(none).shape == (0,)
    assert model.predict(none).dtype == model.labels_.dtype
    assert model.confidence(none).shape == (0,)
    assert model.transform(none).shape == (0, 3)
    assert model.view_labels(none).shape == (0, 2)
    assert list(model.stream(none)) == []
    assert single.predict(data.views["view0"][:0]).shape == (0,)
