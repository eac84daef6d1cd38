"""Batches through a model's file: in this process, in Ray Data and in Spark."""

import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import coterie
from coterie import GuidedCoTraining, serving
from coterie.datasets import make_views
from coterie.serving import BatchPredictor, Predictor

N = 600


@pytest.fixture(scope="module")
def rows():
    data = make_views(N, 3, n_columns=(5, 4), separation=4, random_state=0)
    text, image = data.views.values()
    flat = pd.DataFrame(text.astype(np.float64)).add_prefix("t").assign(id=[f"row{i}" for i in range(N)])
    return flat.assign(embedding=list(image.astype(np.float64)))


@pytest.fixture(scope="module")
def model(rows):
    groups = {"text": "t*", "image": "embedding"}
    return GuidedCoTraining(3, views=groups, n_landmarks=80, random_state=0).fit(rows[:400])


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    return coterie.save(model, tmp_path_factory.mktemp("model") / "m.coterie")


@pytest.fixture(scope="module")
def expected(model, rows):
    return model.predict_frame(rows).assign(id=rows["id"].to_numpy())


def as_dict(frame):
    return {name: frame[name].to_numpy() for name in frame}


KINDS = {"dict": as_dict, "pandas": pd.DataFrame, "polars": pl.from_pandas, "table": pa.Table.from_pandas}
KINDS["batch"] = lambda frame: pa.RecordBatch.from_pandas(frame)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_which_no_column_is_kept(path, rows, expected, kind):
    found = BatchPredictor(path)(KINDS[kind](rows))
    np.testing.assert_array_equal(np.asarray(found["label"]), expected["label"])
    assert len(np.asarray(found["confidence"])) == N


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_every_kind(path, rows, expected, kind):
    predictor = BatchPredictor(path, keep=["id"], results=["label", "confidence", "novelty"])
    for start, stop in ((0, 250), (250, 600), (0, 0)):
        batch = KINDS[kind](rows[start:stop])
        found = predictor(batch)
        assert type(found) is type(batch)
        values = {name: np.asarray(found[name]) for name in ("id", "label", "confidence", "novelty")}
        assert values["id"].tolist() == rows["id"][start:stop].tolist()
        assert (values["label"].dtype, values["novelty"].dtype) == (np.int32, np.float32)
        np.testing.assert_array_equal(values["label"], expected["label"][start:stop])
        np.testing.assert_allclose(values["confidence"], expected["confidence"][start:stop], atol=1e-5)
        np.testing.assert_allclose(values["novelty"], expected["novelty"][start:stop], atol=1e-5)


def test_columns_are_found_by_name_and_pattern(path, rows, expected, tmp_path):
    backwards = as_dict(rows[rows.columns[::-1]])
    for predictor in (BatchPredictor(path), BatchPredictor(path, views={"image": "emb*", "text": "t?"})):
        np.testing.assert_array_equal(predictor(backwards)["label"], expected["label"])
    lacking = BatchPredictor(path)(rows.drop(columns="embedding"))  # a batch may lack a view
    assert set(np.unique(lacking["label"])) == {0, 1, 2}
    gone = rows.assign(embedding=[None if i == 5 else e for i, e in enumerate(rows["embedding"])])
    gone.loc[5, [f"t{j}" for j in range(5)]] = np.nan
    for kind in ("dict", "pandas", "table"):
        assert np.flatnonzero(np.asarray(BatchPredictor(path)(KINDS[kind](gone))["label"]) < 0).tolist() == [5]
    arrays = {"text": rows.filter(like="t").iloc[:, :5].to_numpy(), "image": np.stack(rows["embedding"])}
    nameless = coterie.save(GuidedCoTraining(3, n_landmarks=80, random_state=0).fit(arrays), tmp_path / "n.coterie")
    with pytest.raises(ValueError, match=r"fitted on arrays without column names. Pass views="):
        BatchPredictor(nameless)(rows)
    found = BatchPredictor(nameless, views={"text": "t?", "image": "embedding"})(rows)
    assert len(found) == N


def test_columns_of_a_dict_are_matched_by_name_like_those_of_a_frame(path, rows, expected):
    views = {"image": "embedding", "text": "t*"}
    backwards = as_dict(rows.rename(columns={"t3": "t9"})[rows.rename(columns={"t3": "t9"}).columns[::-1]])
    for batch in (backwards, pd.DataFrame(backwards)):  # by position, labels would be those of other columns
        with pytest.raises(ValueError, match="View 'text' lacks 1 of the fit's 5 columns: 't3'"):
            BatchPredictor(path, views=views)(batch)
    with pytest.raises(ValueError, match="View 'text' lacks 1 of the fit's 5 columns: 't3'"):
        BatchPredictor(path)(backwards)
    longer = {**as_dict(rows.drop(columns="t4")), "t5": list(rows[["t4", "t4"]].to_numpy())}
    with pytest.raises(ValueError, match="View 'text' lacks 1 of the fit's 5 columns: 't4'"):
        BatchPredictor(path, views=views)(longer)


def test_masked_columns_of_a_dict_are_missing_values(path, rows):
    gone = as_dict(rows)
    gone |= {f"t{j}": np.ma.array(gone[f"t{j}"], mask=np.arange(N) == 5) for j in range(5)}
    without_text = as_dict(rows.assign(**{f"t{j}": rows[f"t{j}"].where(rows.index != 5) for j in range(5)}))
    for name in ("label", "confidence"):
        found = BatchPredictor(path)(gone)[name]
        np.testing.assert_array_equal(found, BatchPredictor(path)(without_text)[name])


def test_what_cannot_be_labelled_is_named(path, rows):
    with pytest.raises(ValueError, match="'results' parameter of BatchPredictor must be some of"):
        BatchPredictor(path, results=["labels"])
    with pytest.raises(ValueError, match="keep names column 'label', and a result is called so"):
        BatchPredictor(path, keep=["label"])
    assert {name: len(found) for name, found in BatchPredictor(path)({}).items()} == {"label": 0, "confidence": 0}
    with pytest.raises(ValueError, match="keep names column 'age'"):
        BatchPredictor(path, keep=["age"])(rows)
    with pytest.raises(ValueError, match="views names 'sound', but the model's views are text, image"):
        BatchPredictor(path, views={"sound": "s*"})(rows)
    with pytest.raises(ValueError, match="none of the model's columns"):
        BatchPredictor(path)(rows[["id"]])
    with pytest.raises(TypeError, match="Got a list instead"):
        BatchPredictor(path)([1, 2])


def test_it_is_small_and_loads_a_model_once(path, rows, model, tmp_path):
    own = tmp_path / "m.coterie"
    shutil.copy(path, own)
    predictor = BatchPredictor(own)
    predictor(rows[:10])
    sent = pickle.dumps(predictor)
    assert len(sent) < 1000
    first = serving.shared_model(str(own))
    assert pickle.loads(sent)(rows[:10]).equals(predictor(rows[:10]))
    assert serving.shared_model(str(own)) is first
    coterie.save(model, own)  # a file that was written again is loaded again
    os.utime(own, ns=(1, 1))
    assert serving.shared_model(str(own)) is not first


def test_another_model_of_the_same_name_and_time_is_loaded(path, rows, model, tmp_path, monkeypatch):
    """Copies keep times, and archives round them; relative paths mean another file in another folder."""
    other = GuidedCoTraining(2, views=model.views, n_landmarks=80, random_state=0).fit(rows[:400])
    own = tmp_path / "m.coterie"
    for fitted in (model, other):
        coterie.save(fitted, own)
        os.utime(own, ns=(1, 1))
        np.testing.assert_array_equal(BatchPredictor(own)(rows)["label"], fitted.predict(rows))
    (tmp_path / "b").mkdir()
    shutil.copy2(path, tmp_path / "b" / "m.coterie")
    os.utime(tmp_path / "b" / "m.coterie", ns=(1, 1))
    for folder, fitted in ((tmp_path, other), (tmp_path / "b", model)):
        monkeypatch.chdir(folder)
        np.testing.assert_array_equal(BatchPredictor("m.coterie")(rows)["label"], fitted.predict(rows))


def test_threads_share_a_model(path, rows, expected):
    predictor = BatchPredictor(path)
    parts = [rows[start : start + 40] for start in range(0, N, 40)] * 4
    with ThreadPoolExecutor(8) as pool:
        found = pd.concat(pool.map(predictor, parts))
    np.testing.assert_array_equal(found["label"], np.tile(expected["label"], 4))


# -- Spark and Ray ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql", reason="needs pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    source = str(Path(coterie.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    builder = sql.SparkSession.builder.master("local[2]").appName("coterie")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.filterwarnings("ignore")  # of Spark itself
@pytest.mark.parametrize("way", ["mapInPandas", "mapInArrow"])
def test_spark_gives_the_labels_of_predict(spark, path, rows, expected, way):
    predictor = BatchPredictor(path, keep=["id"], results=["label", "confidence", "novelty"])
    frame = spark.createDataFrame(rows.assign(embedding=[list(map(float, e)) for e in rows["embedding"]]))
    labelled = getattr(frame.repartition(3), way)(predictor.each, predictor.schema(frame))
    found = pd.DataFrame([row.asDict() for row in labelled.collect()]).set_index("id").loc[rows["id"]]
    np.testing.assert_array_equal(found["label"], expected["label"])
    np.testing.assert_allclose(found["novelty"], expected["novelty"], atol=1e-5)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="needs pip install 'ray[data]'")
    pytest.importorskip("ray.data", reason="needs pip install 'ray[data]'")
    source = str(Path(coterie.__file__).parents[1])
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))}
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": variables}, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # of Ray itself
@pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow"])
def test_ray_gives_the_labels_of_predict(ray, path, rows, expected, batch_format):
    data = ray.data.from_pandas(rows)
    labelled = data.map_batches(
        BatchPredictor,
        fn_constructor_args=[str(path)],
        fn_constructor_kwargs={"keep": ["id"]},
        batch_size=150,
        batch_format=batch_format,
        concurrency=1,
    )
    found = labelled.to_pandas().set_index("id").loc[rows["id"]]
    np.testing.assert_array_equal(found["label"], expected["label"])


# -- processes that start fast ------------------------------------------------------------------------------------

A_FEW = """
import sys
import numpy as np
from coterie.serving import Predictor

for folder in sys.argv[1:]:
    rows = dict(np.load(folder + "/rows.npz"))
    predictor = Predictor(folder + "/model.coterie")
    names = ("predict", "confidence", "novelty", "transform")
    parts = [{name: view[start : start + 64] for name, view in rows.items()} for start in (0, 1, 64, 128, 192)]
    parts.append({name: view[:1] for name, view in rows.items()})
    found = {name: np.concatenate([getattr(predictor, name)(part) for part in parts]) for name in names}
    np.savez(folder + "/found.npz", **found)
print([name for name in ("sklearn", "numba", "pandas", "torch", "scipy.stats") if name in sys.modules])
"""

MODELS = {
    "blobs": (dict(separation=2), {}),
    "missing views": (dict(separation=3, missing=0.3), {"n_neighbors": (3, 12)}),
    "float64, one view's neighbours": (dict(separation=2), {"dtype": "float64", "neighbors": "shared"}),
    "as published": (dict(separation=3), {"basis": "subspace", "bandwidth": "median", "guide": "inner", "max_iter": 5}),
    "many clusters": (dict(separation=2), {"n_clusters": 130, "n_landmarks": 300}),
}


def test_a_few_rows_need_neither_scikit_learn_nor_numba(tmp_path):
    """In a process of its own: what compiled loops give, for random rows of models that take every path."""
    expected = {}
    for number, (data, settings) in enumerate(MODELS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        views = {name: np.asarray(view) for name, view in make_views(900, 5, random_state=number, **data).views.items()}
        given = {"n_clusters": 5, "n_landmarks": 150, "n_init": 2, "measure_stability": False, **settings}
        model = GuidedCoTraining(**given, random_state=0).fit({name: view[:600] for name, view in views.items()})
        coterie.save(model, folder / "model.coterie")
        np.savez(folder / "rows.npz", **{name: view[500:756] for name, view in views.items()})
        rows = np.concatenate([np.arange(64), np.arange(1, 65), np.arange(64, 256), [0]])
        new = {name: view[500:756][rows] for name, view in views.items()}
        names = ("predict", "confidence", "novelty", "transform")
        expected[folder] = {name: getattr(model, name)(new) for name in names}
    done = subprocess.run(
        [sys.executable, "-c", A_FEW, *map(str, expected)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
    for folder, wanted in expected.items():
        found = np.load(folder / "found.npz")
        np.testing.assert_array_equal(found["predict"], wanted["predict"])
        # Some processors' BLAS rounds a row by its position among the others, and rounds of guiding amplify that.
        np.testing.assert_allclose(found["novelty"], wanted["novelty"], atol=1e-5)
        np.testing.assert_allclose(found["confidence"], wanted["confidence"], atol=1e-5)
        np.testing.assert_allclose(found["transform"], wanted["transform"], atol=1e-5)


def test_a_predictor_is_the_loaded_model(path, rows, model):
    predictor = Predictor(path)
    assert predictor.fitted.has("view_names_")
    for name in ("predict", "confidence", "novelty", "transform"):
        np.testing.assert_array_equal(getattr(predictor, name)(rows), getattr(model, name)(rows))
    with pytest.raises(coterie.ModelFileError, match="model"):
        Predictor(__file__)
