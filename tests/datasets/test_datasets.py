"""Data sets: bundles byte for byte, raw formats, and downloads over loopback HTTP."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import socket
import stat
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.io import savemat

import coterie.datasets as datasets
from coterie.datasets import (
    DownloadError,
    MultiViewData,
    _download,
    _features,
    _fetch,
    _home,
    cached_features,
    convert_mfeat,
    convert_mnist,
    convert_nus,
    convert_reuters,
    convert_usps,
    fetch_mfeat,
    fetch_mnist,
    fetch_nus,
    fetch_reuters,
    fetch_usps,
    load_views,
    save_views,
)
from coterie.datasets._download import RawFile, Resumable, download

REAL = Path(os.environ.get("COTERIE_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def need_real(name: str) -> Path:
    path = REAL / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"needs {name}.npz in the folder that COTERIE_DATA names")
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test may see the user's settings or touch the user's cache."""
    monkeypatch.delenv("COTERIE_DATA", raising=False)
    monkeypatch.delenv("COTERIE_DATA_URL", raising=False)
    folder = tmp_path / "user-cache"
    monkeypatch.setattr(_home, "platform_cache", lambda: folder)
    return folder


@pytest.fixture(params=[0, 1])
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(request.param)


def close(folder: Path) -> None:
    """Let nobody write to a folder."""
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)


def test_all_is_true() -> None:
    assert all(hasattr(datasets, name) for name in datasets.__all__)
    assert sorted(datasets.__all__) == list(datasets.__all__)


class TestBundle:
    def test_round_trip_byte_for_byte(self, tmp_path: Path, rng: np.random.Generator) -> None:
        views = {
            "small": rng.integers(0, 256, (30, 5), dtype=np.uint8),
            "half": rng.random((30, 4)).astype(np.float16),
            "double": rng.standard_normal((30, 3)),
            "words": sparse.random_array((30, 50), density=0.1, format="csr", rng=rng),
        }
        target = rng.integers(0, 3, 30).astype(np.int32)
        data = load_views(save_views(tmp_path / "mixed.npz", views, target))
        assert data.name == "mixed"
        assert list(data.views) == list(views)
        assert data.target.dtype == np.int32
        assert data.target.tobytes() == target.tobytes()
        for name, view in views.items():
            assert data.views[name].dtype == view.dtype
            assert data.views[name].shape == view.shape
            if name == "words":
                assert isinstance(data.views[name], sparse.csr_array)
                for part in ("data", "indices", "indptr"):
                    kept, given = getattr(data.views[name], part), getattr(view, part)
                    assert kept.tobytes() == given.astype(kept.dtype).tobytes()
            else:
                assert data.views[name].tobytes() == view.tobytes()

    def test_the_same_data_gives_the_same_file(self, tmp_path: Path) -> None:
        paths = [save_views(tmp_path / name, {"a": np.eye(3)}, [0, 1, 2]) for name in ("x", "y")]
        assert paths[0].read_bytes() == paths[1].read_bytes()

    def test_labels_may_be_left_out(self, tmp_path: Path) -> None:
        assert load_views(save_views(tmp_path / "a", {"a": np.eye(3)})).target is None

    @pytest.mark.parametrize("kind", ["coo_array", "csc_array", "csr_matrix"])
    def test_other_sparse_forms_are_written_as_csr(self, tmp_path: Path, kind: str) -> None:
        view = getattr(sparse, kind)(np.diag([1.0, 2.0, 0.0]))
        saved = load_views(save_views(tmp_path / "a", {"a": view})).views["a"]
        np.testing.assert_array_equal(saved.toarray(), np.diag([1.0, 2.0, 0.0]))

    def test_by_name_in_the_data_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        save_views(tmp_path / "toy", {"a": np.eye(3)})
        assert load_views("toy", data_home=tmp_path).name == "toy"
        monkeypatch.setenv("COTERIE_DATA", str(tmp_path))
        assert load_views("toy").name == "toy"

    def test_by_name_in_the_users_cache(self, cache: Path) -> None:
        save_views(cache / "toy", {"a": np.eye(3)})
        assert load_views("toy").name == "toy"

    def test_unknown_name_lists_what_there_is(self, tmp_path: Path) -> None:
        save_views(tmp_path / "toy", {"a": np.eye(3)})
        with pytest.raises(FileNotFoundError, match=r"no bundle 'joy' in .*there: toy.*COTERIE_DATA"):
            load_views("joy", data_home=tmp_path)

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match=r"There is no file .*none\.npz"):
            load_views(tmp_path / "none.npz")

    def test_nothing_is_left_of_a_write_that_failed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = save_views(tmp_path / "a", {"a": np.eye(3)})
        before = path.read_bytes()

        def fail(file: io.BufferedIOBase, **arrays: np.ndarray) -> None:
            file.write(b"half")
            raise OSError("disk full")

        monkeypatch.setattr(np, "savez_compressed", fail)
        with pytest.raises(OSError, match="disk full"):
            save_views(path, {"a": np.ones((3, 3))})
        assert path.read_bytes() == before
        assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]

    def test_repr_is_one_line(self) -> None:
        data = MultiViewData({"a": sparse.csr_array(np.eye(3))}, None, "toy")
        assert repr(data) == "MultiViewData('toy', 3 rows, a: 3 float64 sparse)"

    def test_is_frozen(self) -> None:
        with pytest.raises(AttributeError):
            MultiViewData({}, None, "toy").name = "joy"


GOOD = {"view_names": np.array(["a"]), "view_1": np.eye(3), "y": np.arange(3, dtype=np.int32)}
CSR = {
    "view_names": np.array(["a"]),
    "view_1_data": np.ones(2),
    "view_1_indices": np.array([0, 3]),
    "view_1_indptr": np.array([0, 1, 2, 2]),
    "view_1_shape": np.array([3, 4]),
}


class TestBadBundles:
    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({**GOOD, "view_names": None}, "has no 'view_names'"),
            ({**GOOD, "view_1": None}, "has no 'view_1'"),
            ({**GOOD, "view_names": np.array(["a", "b"])}, "has no 'view_2'"),
            ({**GOOD, "view_names": np.array([1])}, "'view_names' must be a list of"),
            (
                {**GOOD, "view_names": np.array(["a", "a"]), "view_2": np.eye(3)},
                "'view_names' must differ",
            ),
            ({**GOOD, "view_1": np.ones(3)}, "'view_1' must be a two-dimensional array"),
            ({**GOOD, "view_1": np.full((3, 1), "x")}, "'view_1' must be a two-dimensional array"),
            ({**GOOD, "y": np.arange(4)}, "view 'a' has 3, 'y' has 4"),
            ({**GOOD, "y": np.array([0, 1, -1])}, "'y' must be whole numbers from 0"),
            ({**GOOD, "y": np.ones(3)}, "'y' must be whole numbers from 0"),
            ({**CSR, "view_1_indptr": None}, "has no 'view_1_indptr'"),
            ({**CSR, "view_1_indptr": np.array([0, 1, 2])}, "'_indptr' must be 4 numbers"),
            ({**CSR, "view_1_indptr": np.array([0, 2, 1, 2])}, "'_indptr' must be 4 numbers"),
            ({**CSR, "view_1_indptr": np.array([0, 1, 2, 3])}, "must end at the number of entries"),
            ({**CSR, "view_1_indices": np.array([0, 4])}, "'_indices' must lie between 0 and 3"),
            ({**CSR, "view_1_indices": np.array([-1, 0])}, "'_indices' must lie between 0 and 3"),
            ({**CSR, "view_1_indices": np.array([0.0, 1.0])}, "'_indices' must be one-dimensional"),
            ({**CSR, "view_1_shape": np.array([3])}, "'_shape' must be two whole numbers"),
        ],
    )
    def test_message_names_file_and_key(
        self, tmp_path: Path, arrays: dict[str, np.ndarray | None], message: str
    ) -> None:
        path = tmp_path / "bad.npz"
        np.savez(path, **{key: array for key, array in arrays.items() if array is not None})
        with pytest.raises(ValueError, match=message) as caught:
            load_views(path)
        assert str(path) in str(caught.value)

    @pytest.mark.parametrize("cut", [0, 10, -200])
    def test_not_an_archive(self, tmp_path: Path, cut: int) -> None:
        whole = save_views(tmp_path / "whole", {"a": np.random.default_rng(0).random((40, 40))})
        path = tmp_path / "cut.npz"
        path.write_bytes(whole.read_bytes()[:cut])
        with pytest.raises(ValueError, match=r"cut\.npz is not a complete \.npz archive"):
            load_views(path)

    def test_a_lone_array(self, tmp_path: Path) -> None:
        path = tmp_path / "lone.npz"
        with open(path, "wb") as file:
            np.save(file, np.eye(3))
        with pytest.raises(ValueError, match="it holds a single array"):
            load_views(path)

    def test_pickles_are_never_opened(self, tmp_path: Path) -> None:
        path = tmp_path / "pickled.npz"
        np.savez(path, view_names=np.array(["a"], dtype=object))
        with pytest.raises(ValueError, match="Coterie reads no pickles"):
            load_views(path)

    @pytest.mark.parametrize(
        ("views", "target", "message"),
        [
            ({}, None, "at least one view"),
            ({"a": np.eye(3), "b": np.eye(2)}, None, "view 'a' has 3, view 'b' has 2"),
            ({"a": np.eye(3)}, [0, 1], "view 'a' has 3, 'y' has 2"),
            ({"a": np.eye(3)}, ["x", "y", "z"], "must be whole numbers from 0"),
            ({"a": np.ones(3)}, None, "view 'a' for .* must be a two-dimensional array"),
        ],
    )
    def test_what_is_not_saved(
        self, tmp_path: Path, views: dict[str, np.ndarray], target: list[int], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            save_views(tmp_path / "a", views, target)
        assert not list(tmp_path.iterdir())


class TestHome:
    def test_order(self, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert _home.find_home() == cache
        monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "variable"))
        assert _home.find_home() == tmp_path / "variable"
        assert _home.find_home(tmp_path / "argument") == tmp_path / "argument"

    def test_a_closed_folder_is_left_alone(self, cache: Path, tmp_path: Path) -> None:
        folder = tmp_path / "closed"
        folder.mkdir()
        assert _home.writable_home(folder) == folder
        assert _home.writable_home(folder / "to" / "be" / "made") == folder / "to" / "be" / "made"
        close(folder)
        assert _home.writable_home(folder) == cache
        assert _home.writable_home(folder / "below") == cache


# Small files in the publishers' formats.


def text_table(values: np.ndarray) -> bytes:
    return "".join(" " + "  ".join(f"{v:.10g}" for v in row) + " \n" for row in values).encode()


def idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim])
    return header + np.array(values.shape, dtype=">u4").tobytes() + values.astype(np.uint8).tobytes()


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def unpack(files: dict[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


MFEAT_WIDTHS = {"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47}


def mfeat_views(rng: np.random.Generator) -> dict[str, np.ndarray]:
    views = {name: rng.random((30, width)).round(6) for name, width in MFEAT_WIDTHS.items()}
    views["fac"] = rng.integers(0, 1400, (30, 216)).astype(np.uint16)
    views["fac"][0, 0] = 1353
    views["pix"] = rng.integers(0, 7, (30, 240)).astype(np.uint8)
    return views


def mfeat_files(views: dict[str, np.ndarray]) -> dict[str, bytes]:
    files = {f"mfeat-{name}": text_table(view) for name, view in views.items()}
    return {**files, "mfeat.info": b"about"}


def mnist_arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "train-images-idx3-ubyte": rng.integers(0, 256, (12, 28, 28)),
        "train-labels-idx1-ubyte": rng.integers(0, 10, 12),
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (5, 28, 28)),
        "t10k-labels-idx1-ubyte": rng.integers(0, 10, 5),
    }


NUS_WIDTHS = {"CH": 64, "CM55": 225, "CORR": 144, "EDH": 73, "WT": 128}
# Rows are images, columns bear, bird, boat; the first four are for training.
NUS_MEMBER = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0]])


def nus_files(
    rng: np.random.Generator, extra: int = 0, label: str = "{}_{}.txt"
) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    files, views = {}, {}
    for name, width in NUS_WIDTHS.items():
        views[name] = rng.random((7, width)).round(5).astype(np.float32)
        table = np.column_stack([views[name], np.zeros((7, extra))])
        files[f"NUS-WIDE-OBJECT/low level features/Train_{name}.txt"] = text_table(table[:4])
        files[f"NUS-WIDE-OBJECT/low level features/Test_{name}.txt"] = text_table(table[4:])
    for column, concept in enumerate(("bear", "bird", "boat")):
        for split, rows in (("Train", slice(4)), ("Test", slice(4, 7))):
            name = f"NUS-WIDE-OBJECT/ground truth/{label.format(concept, split)}"
            files[name] = text_table(NUS_MEMBER[rows, column : column + 1])
    return files, views


REUTERS_CLASSES = ["CCAT", "GCAT", "C15", "CCAT"]


def reuters_files() -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    """Four documents of English source, with words 1, 2 and a later one; and one of French."""
    files, views = {}, {}
    widths = {"EN": 21531, "FR": 24893, "GR": 34279, "IT": 15506, "SP": 11547}
    for i, (name, width) in enumerate(widths.items()):
        dense = np.zeros((4, width), dtype=np.float32)
        dense[:, 0] = [0.5, 0, 0.25, -1.5]
        dense[:, 1] = [0, 2, 0, 0]
        dense[1, 100 + i] = 3.5
        lines = [
            " ".join([label, *(f"{j + 1}:{row[j]:g}" for j in np.flatnonzero(row))])
            for label, row in zip(REUTERS_CLASSES, dense, strict=True)
        ]
        files[f"rcv1rcv2aminigoutte/EN/Index_EN-{name}"] = "\n".join([*lines, ""]).encode()
        files[f"rcv1rcv2aminigoutte/FR/Index_FR-{name}"] = b"ECAT 1:1 \n"
        views[name] = dense
    return files, views


class TestConverters:
    @pytest.mark.parametrize("packed", ["folder", "zip", "tar in zip"])
    def test_mfeat(self, tmp_path: Path, rng: np.random.Generator, packed: str) -> None:
        views = mfeat_views(rng)
        files = mfeat_files(views)
        source = tmp_path / "mfeat.zip"
        if packed == "folder":
            source = unpack(files, tmp_path / "mfeat")
        else:
            source.write_bytes(zipped(files) if packed == "zip" else zipped({"mfeat.tar": tarred(files)}))
        data = convert_mfeat(source)
        assert list(data.views) == list(MFEAT_WIDTHS)
        for name, view in views.items():
            assert data.views[name].dtype == view.dtype
            np.testing.assert_array_equal(data.views[name], view)
        np.testing.assert_array_equal(data.target, np.repeat(np.arange(10), 3))

    def test_real_mfeat_through_its_text_files(self, tmp_path: Path) -> None:
        real = load_views(need_real("mfeat"))
        files = {
            f"mfeat-{name}": "".join(" ".join(map(repr, row)) + "\n" for row in view.tolist())
            for name, view in real.views.items()
        }
        folder = unpack({name: text.encode() for name, text in files.items()}, tmp_path)
        data = convert_mfeat(folder)
        for name, view in real.views.items():
            assert data.views[name].dtype == view.dtype
            assert data.views[name].tobytes() == view.tobytes()
        np.testing.assert_array_equal(data.target, real.target)

    def test_mfeat_that_lacks_a_file(self, tmp_path: Path, rng: np.random.Generator) -> None:
        files = mfeat_files(mfeat_views(rng))
        del files["mfeat-kar"], files["mfeat-zer"]
        with pytest.raises(ValueError, match="lacks mfeat-kar, mfeat-zer"):
            convert_mfeat(unpack(files, tmp_path))

    def test_mfeat_of_unequal_length(self, tmp_path: Path, rng: np.random.Generator) -> None:
        views = mfeat_views(rng)
        views["zer"] = views["zer"][:20]
        with pytest.raises(ValueError, match=r"same number of rows\. Got mfeat-fac 30,.*zer 20"):
            convert_mfeat(unpack(mfeat_files(views), tmp_path))

    def test_text_that_is_no_table(self, tmp_path: Path, rng: np.random.Generator) -> None:
        files = {**mfeat_files(mfeat_views(rng)), "mfeat-fou": b"1 2\n3\n"}
        with pytest.raises(ValueError, match="mfeat-fou must be lines of equally many numbers"):
            convert_mfeat(unpack(files, tmp_path))

    def test_usps(self, tmp_path: Path, rng: np.random.Generator) -> None:
        data = rng.integers(0, 256, (256, 4, 10), dtype=np.uint8)
        savemat(tmp_path / "usps_all.mat", {"data": data})
        for source in (tmp_path, tmp_path / "usps_all.mat"):
            converted = convert_usps(source)
            pixels = converted.views["pixels"]
            assert pixels.dtype == np.uint8
            assert pixels.shape == (40, 256)
            np.testing.assert_array_equal(pixels[0], data[:, 0, 0])
            np.testing.assert_array_equal(pixels[4 * 9 + 2], data[:, 2, 9])
            np.testing.assert_array_equal(converted.target[::4], [1, 2, 3, 4, 5, 6, 7, 8, 9, 0])

    def test_real_usps_through_a_mat_file(self, tmp_path: Path) -> None:
        real = load_views(need_real("usps"))
        (pixels,) = real.views.values()
        savemat(tmp_path / "usps_all.mat", {"data": pixels.reshape(10, 1100, 256).transpose(2, 1, 0)})
        data = convert_usps(tmp_path)
        assert data.views["pixels"].tobytes() == pixels.tobytes()
        np.testing.assert_array_equal(data.target, real.target)

    def test_wrong_usps(self, tmp_path: Path) -> None:
        path = tmp_path / "usps_all.mat"
        savemat(path, {"data": np.zeros((256, 10))})
        with pytest.raises(ValueError, match=r"'data' must be pixels x images x 10\. Got \(256, 10\)"):
            convert_usps(path)
        path.write_bytes(b"not a MATLAB file, but long enough to have a header " * 5)
        with pytest.raises(ValueError, match=r"usps_all\.mat cannot be read: it is not a MATLAB file"):
            convert_usps(path)

    @pytest.mark.parametrize("suffix", ["", ".gz"])
    def test_mnist(self, tmp_path: Path, rng: np.random.Generator, suffix: str) -> None:
        arrays = mnist_arrays(rng)
        pack: Callable[[bytes], bytes] = gzip.compress if suffix else bytes
        data = convert_mnist(unpack({f"{name}{suffix}": pack(idx(a)) for name, a in arrays.items()}, tmp_path))
        assert data.views["pixels"].dtype == np.uint8
        np.testing.assert_array_equal(
            data.views["pixels"].reshape(17, 28, 28),
            np.concatenate([arrays["train-images-idx3-ubyte"], arrays["t10k-images-idx3-ubyte"]]),
        )
        np.testing.assert_array_equal(
            data.target,
            np.concatenate([arrays["train-labels-idx1-ubyte"], arrays["t10k-labels-idx1-ubyte"]]),
        )

    def test_wrong_mnist(self, tmp_path: Path, rng: np.random.Generator) -> None:
        files = {name: idx(array) for name, array in mnist_arrays(rng).items()}
        folder = unpack(files, tmp_path)
        cut = folder / "t10k-images-idx3-ubyte"
        cut.write_bytes(files[cut.name][:-1])
        with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte is cut short.*\(5, 28, 28\)"):
            convert_mnist(folder)
        cut.write_bytes(b"<html>")
        with pytest.raises(ValueError, match="t10k-images-idx3-ubyte is not an idx file"):
            convert_mnist(folder)
        cut.unlink()
        with pytest.raises(ValueError, match="lacks t10k-images-idx"):
            convert_mnist(folder)

    @pytest.mark.parametrize("extra", [0, 1])
    @pytest.mark.parametrize("label", ["{}_{}.txt", "{}{}Object.txt", "Labels_{}_{}.txt"])
    def test_nus(self, tmp_path: Path, rng: np.random.Generator, extra: int, label: str) -> None:
        files, views = nus_files(rng, extra, label)
        data = convert_nus(unpack(files, tmp_path))
        kept = [0, 1, 2, 4, 5, 6]  # image 3 shows none of the concepts
        for name, view in views.items():
            assert data.views[name].dtype == np.float32
            np.testing.assert_array_equal(data.views[name], view[kept])
        np.testing.assert_array_equal(data.target, [0, 1, 1, 2, 0, 1])

    def test_nus_without_images_of_several_concepts(self, tmp_path: Path, rng: np.random.Generator) -> None:
        files, views = nus_files(rng)
        data = convert_nus(unpack(files, tmp_path), several="drop")
        np.testing.assert_array_equal(data.views["WT"], views["WT"][[0, 1, 4, 6]])
        np.testing.assert_array_equal(data.target, [0, 1, 2, 1])

    def test_wrong_nus(self, tmp_path: Path, rng: np.random.Generator) -> None:
        files, _ = nus_files(rng)
        folder = unpack(files, tmp_path) / "NUS-WIDE-OBJECT"
        (folder / "ground truth" / "bird_Test.txt").rename(folder / "kept")
        with pytest.raises(ValueError, match=r"Without its counterpart: \['bird'\]"):
            convert_nus(tmp_path)
        (folder / "kept").rename(folder / "ground truth" / "bird_Test.txt")
        (folder / "low level features" / "Test_WT.txt").write_bytes(b"1 2 3\n")
        with pytest.raises(ValueError, match=r"Test_WT\.txt must have 128 columns, or one more"):
            convert_nus(tmp_path)
        with pytest.raises(ValueError, match="'several' parameter of convert_nus must be one of"):
            convert_nus(tmp_path, several="all")

    @pytest.mark.parametrize("packed", ["folder", "tar.bz2 in zip"])
    def test_reuters(self, tmp_path: Path, packed: str) -> None:
        files, views = reuters_files()
        source = tmp_path / "reuters.zip"
        if packed == "folder":
            source = unpack(files, tmp_path / "reuters")
        else:
            source.write_bytes(zipped({"rcv1rcv2aminigoutte.tar.bz2": tarred(files, "w:bz2")}))
        data = convert_reuters(source)
        assert list(data.views) == list(views)
        for name, view in views.items():
            assert isinstance(data.views[name], sparse.csr_array)
            assert data.views[name].dtype == np.float32
            np.testing.assert_array_equal(data.views[name].toarray(), view)
        np.testing.assert_array_equal(data.target, [1, 2, 0, 1])  # C15, CCAT, GCAT

    def test_reuters_of_another_language(self, tmp_path: Path) -> None:
        files, _ = reuters_files()
        assert convert_reuters(unpack(files, tmp_path), language="FR").target.tolist() == [0]

    def test_wrong_reuters(self, tmp_path: Path) -> None:
        files, _ = reuters_files()
        folder = unpack(files, tmp_path)
        path = folder / "rcv1rcv2aminigoutte" / "EN" / "Index_EN-SP"
        good = path.read_bytes()
        path.write_bytes(good.replace(b"GCAT", b"ECAT"))
        with pytest.raises(ValueError, match="classes in Index_EN-SP differ"):
            convert_reuters(folder)
        path.write_bytes(good + b"CCAT 1:2:3\n")
        with pytest.raises(ValueError, match="Index_EN-SP, line 5, must be a class and"):
            convert_reuters(folder)
        path.write_bytes(good.replace(b" 1:", b" 0:"))
        with pytest.raises(ValueError, match="Index_EN-SP: words must be counted from 1"):
            convert_reuters(folder)

    def test_broken_archive(self, tmp_path: Path) -> None:
        path = tmp_path / "mfeat.zip"
        path.write_bytes(b"<html>not found</html>")
        with pytest.raises(ValueError, match=r"mfeat\.zip could not be read as an archive"):
            convert_mfeat(path)


# Downloads, from a server on this machine.


@dataclass
class Site:
    """Files on a loopback HTTP server, and what was asked of it."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    cut_after: int | None = None  # hang up after so many bytes of a body
    ranges: bool = True  # whether parts of files are served
    tag: str = '"1"'


def make_handler(site: Site) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            wanted = self.headers.get("Range")
            site.asked.append((name, wanted))
            if name not in site.files:
                return self.send_error(404)
            content = site.files[name]
            same = self.headers.get("If-Range") in (None, site.tag)
            start = int(wanted[6:-1]) if wanted and site.ranges and same else 0
            if start and start >= len(content):
                return self.send_error(416)
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(content) - start))
            self.send_header("ETag", site.tag)
            self.end_headers()
            end = len(content) if site.cut_after is None else start + site.cut_after
            self.wfile.write(content[start:end])
            return None

        def log_message(self, *args: object) -> None:
            pass

    return Handler


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    site = Site("")
    server = ThreadingHTTPServer(("127.0.0.1", 0), make_handler(site))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


def nobody_listens() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


CONTENT = np.random.default_rng(0).bytes(300_000)


class TestDownload:
    def test_whole_file_once(self, site: Site, tmp_path: Path) -> None:
        site.files["a.bin"] = CONTENT
        raw = RawFile("a.bin", f"{site.url}/a.bin", hashlib.sha256(CONTENT).hexdigest())
        for _ in range(2):
            assert download(raw, tmp_path).read_bytes() == CONTENT
        assert site.asked == [("a.bin", None)]
        assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]

    def test_resumes_with_a_range(self, site: Site, tmp_path: Path) -> None:
        site.files["a.bin"] = CONTENT
        raw = RawFile("a.bin", f"{site.url}/a.bin", hashlib.sha256(CONTENT).hexdigest())
        site.cut_after = 150_000
        with pytest.raises(DownloadError, match="an interrupted download goes on where it stopped"):
            download(raw, tmp_path)
        part = tmp_path / "a.bin.part"
        have = part.stat().st_size
        assert 0 < have <= 150_000
        assert part.read_bytes() == CONTENT[:have]
        site.cut_after = None
        assert download(raw, tmp_path).read_bytes() == CONTENT
        assert site.asked == [("a.bin", None), ("a.bin", f"bytes={have}-")]
        assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]

    def test_a_server_that_sends_all_again(self, site: Site, tmp_path: Path) -> None:
        site.files["a.bin"] = CONTENT
        site.ranges = False
        (tmp_path / "a.bin.part").write_bytes(b"something else")
        assert download(RawFile("a.bin", f"{site.url}/a.bin"), tmp_path).read_bytes() == CONTENT

    def test_a_file_that_changed_is_fetched_anew(self, site: Site, tmp_path: Path) -> None:
        site.files["a.bin"] = CONTENT
        site.cut_after = 150_000
        raw = RawFile("a.bin", f"{site.url}/a.bin")
        with pytest.raises(DownloadError):
            download(raw, tmp_path)
        site.cut_after, site.tag, site.files["a.bin"] = None, '"2"', CONTENT[::-1]
        assert download(raw, tmp_path).read_bytes() == CONTENT[::-1]

    def test_a_part_longer_than_the_file(self, site: Site, tmp_path: Path) -> None:
        site.files["a.bin"] = CONTENT
        (tmp_path / "a.bin.part").write_bytes(CONTENT + b"more")
        assert download(RawFile("a.bin", f"{site.url}/a.bin"), tmp_path).read_bytes() == CONTENT

    def test_wrong_checksum(self, site: Site, tmp_path: Path) -> None:
        site.files["a.bin"] = CONTENT
        with pytest.raises(DownloadError, match=r"a\.bin could not be downloaded.*hash"):
            download(RawFile("a.bin", f"{site.url}/a.bin", "0" * 64), tmp_path)
        assert not list(tmp_path.glob("a.bin*"))

    def test_unknown_checksum_is_recorded(self, site: Site, tmp_path: Path) -> None:
        site.files["a.bin"] = CONTENT
        raw = RawFile("a.bin", f"{site.url}/a.bin")
        download(raw, tmp_path)
        digest = hashlib.sha256(CONTENT).hexdigest()
        assert (tmp_path / "a.bin.sha256").read_text() == f"{digest}  a.bin\n"
        (tmp_path / "a.bin").write_bytes(b"damaged")
        assert download(raw, tmp_path).read_bytes() == CONTENT

    def test_a_file_put_there_by_hand_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "a.bin").write_bytes(b"by hand")
        raw = RawFile("a.bin", f"{nobody_listens()}/a.bin")
        assert download(raw, tmp_path).read_bytes() == b"by hand"

    @pytest.mark.parametrize("listening", [True, False])
    def test_message_names_address_and_place(self, site: Site, tmp_path: Path, listening: bool) -> None:
        url = f"{site.url if listening else nobody_listens()}/a.bin"
        place = re.escape(f"put it at {tmp_path / 'a.bin'}")
        with pytest.raises(DownloadError, match=f"{re.escape(url)} could not.*{place}"):
            download(RawFile("a.bin", url), tmp_path)

    def test_nothing_is_written_to_the_terminal(
        self, site: Site, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        site.files["a.bin"] = CONTENT
        download(RawFile("a.bin", f"{site.url}/a.bin"), tmp_path)
        assert capfd.readouterr() == ("", "")

    def test_progress_counts_what_was_there(self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        bars: list[_download.Bar] = []

        def spy(*args: object) -> _download.Bar:
            bars.append(bar := real(*args))
            return bar

        real = _download.Bar
        monkeypatch.setattr(_download, "Bar", spy)
        site.files["a.bin"] = CONTENT
        (tmp_path / "a.part").write_bytes(CONTENT[:1000])
        Resumable(tmp_path / "a.part")(f"{site.url}/a.bin", tmp_path / "out", None)
        assert (tmp_path / "out").read_bytes() == CONTENT
        assert bars[0].done == bars[0].total == len(CONTENT)


class TestFetch:
    def test_mfeat(self, site: Site, tmp_path: Path, rng: np.random.Generator) -> None:
        views = mfeat_views(rng)
        site.files["mfeat.zip"] = zipped(mfeat_files(views))
        for _ in range(2):
            data = fetch_mfeat(data_home=tmp_path, base_url=site.url)
            np.testing.assert_array_equal(data.views["fou"], views["fou"])
        assert site.asked == [("mfeat.zip", None)]
        assert load_views("mfeat", data_home=tmp_path).target.tolist() == data.target.tolist()

    def test_usps(self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        buffer = io.BytesIO()
        savemat(buffer, {"data": np.zeros((256, 2, 10), np.uint8)})
        site.files["usps_all.mat"] = buffer.getvalue()
        monkeypatch.setenv("COTERIE_DATA_URL", f"{site.url}/")
        data = fetch_usps(data_home=tmp_path)
        assert repr(data) == "MultiViewData('usps', 20 rows, pixels: 256 uint8)"

    def test_mnist(
        self,
        site: Site,
        tmp_path: Path,
        rng: np.random.Generator,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        arrays = mnist_arrays(rng)
        site.files = {f"{name}.gz": gzip.compress(idx(a)) for name, a in arrays.items()}
        with pytest.raises(DownloadError, match="hash"):  # these are not the digits of the world
            fetch_mnist(data_home=tmp_path, base_url=site.url)
        source = _fetch.SOURCES["mnist"]
        ours = tuple(replace(raw, sha256=hashlib.sha256(site.files[raw.name]).hexdigest()) for raw in source.files)
        monkeypatch.setitem(_fetch.SOURCES, "mnist", replace(source, files=ours))
        data = fetch_mnist(data_home=tmp_path, base_url=site.url, features=True)
        assert {name: view.shape for name, view in data.views.items()} == {
            "pixels": (17, 784),
            "gist": (17, 512),
            "hog": (17, 81),
        }
        assert len(list((tmp_path / "features").glob("mnist-*.npy"))) == 2

    def test_nus(self, site: Site, tmp_path: Path, rng: np.random.Generator) -> None:
        files, _ = nus_files(rng, extra=1)
        site.files["NUS-WIDE-OBJECT.zip"] = zipped(files)
        data = fetch_nus(data_home=tmp_path, base_url=site.url)
        assert [view.shape for view in data.views.values()] == [(6, w) for w in NUS_WIDTHS.values()]

    def test_nus_by_hand(self, tmp_path: Path, rng: np.random.Generator) -> None:
        place = tmp_path / "raw" / "nus" / "NUS-WIDE-OBJECT.zip"
        with pytest.raises(DownloadError, match=f"(?s)lms.comp.nus.*Put them at {re.escape(str(place))}"):
            fetch_nus(data_home=tmp_path)
        files, _ = nus_files(rng)
        unpack(files, place.parent)
        assert len(fetch_nus(data_home=tmp_path).target) == 6

    def test_reuters(self, site: Site, tmp_path: Path) -> None:
        files, views = reuters_files()
        site.files["reuters.zip"] = zipped({"rcv1rcv2aminigoutte.tar.bz2": tarred(files, "w:bz2")})
        data = fetch_reuters(data_home=tmp_path, base_url=site.url)
        np.testing.assert_array_equal(data.views["GR"].toarray(), views["GR"])

    @pytest.mark.parametrize("name", ["mfeat", "usps", "mnist", "nus", "reuters"])
    def test_a_bundle_in_the_folder_is_all_it_needs(self, tmp_path: Path, name: str) -> None:
        save_views(tmp_path / name, {"pixels": np.eye(4)}, [0, 0, 1, 1])
        data = getattr(datasets, f"fetch_{name}")(data_home=tmp_path, base_url=nobody_listens())
        np.testing.assert_array_equal(data.views["pixels"], np.eye(4))

    @pytest.mark.parametrize("name", ["mfeat", "usps", "mnist", "nus", "reuters"])
    def test_no_network(self, tmp_path: Path, name: str) -> None:
        url = nobody_listens()
        raw = _fetch.SOURCES[name].files[0].name
        place = tmp_path / "raw" / name / raw
        with pytest.raises(DownloadError) as caught:
            getattr(datasets, f"fetch_{name}")(data_home=tmp_path, base_url=url)
        assert f"{url}/{raw}" in str(caught.value)
        assert str(place) in str(caught.value)

    def test_a_read_only_folder(self, site: Site, cache: Path, tmp_path: Path, rng: np.random.Generator) -> None:
        site.files["mfeat.zip"] = zipped(mfeat_files(mfeat_views(rng)))
        closed = tmp_path / "closed"
        closed.mkdir()
        close(closed)
        for _ in range(2):
            fetch_mfeat(data_home=closed, base_url=site.url)
        assert not list(closed.iterdir())
        assert (cache / "mfeat.npz").is_file()
        assert len(site.asked) == 1

    def test_real_bundles(self) -> None:
        need_real("mfeat")
        need_real("usps")
        assert len(fetch_mfeat(data_home=REAL).views) == 6
        assert fetch_usps(data_home=REAL).views["pixels"].shape == (11000, 256)


class TestCachedFeatures:
    @pytest.fixture
    def images(self, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(0, 256, (6, 16, 16), dtype=np.uint8)

    def test_computed_once(self, tmp_path: Path, images: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
        first = cached_features("noise", images, data_home=tmp_path)
        files = sorted(path.name for path in (tmp_path / "features").iterdir())
        assert [name.rpartition("-")[0] for name in files] == ["noise-gist-v1", "noise-hog-l2-hys-v1"]
        monkeypatch.setattr(_features._gist, "gist", None)
        monkeypatch.setattr(_features._hog, "hog", None)
        second = cached_features("noise", images, data_home=tmp_path)
        for name in ("pixels", "gist", "hog"):
            assert second[name].tobytes() == first[name].tobytes()

    def test_norms_are_not_mixed_up(self, tmp_path: Path, images: np.ndarray) -> None:
        default = cached_features("noise", images, data_home=tmp_path)["hog"]
        as_published = cached_features("noise", images, data_home=tmp_path, block_norm="L1")["hog"]
        np.testing.assert_allclose(as_published.sum(axis=1), 1, rtol=1e-3)
        assert not np.allclose(default, as_published)

    def test_other_images_are_not_mixed_up(self, tmp_path: Path, images: np.ndarray) -> None:
        first = cached_features("noise", images, data_home=tmp_path)
        other = cached_features("noise", images[::-1], data_home=tmp_path)
        np.testing.assert_allclose(other["gist"], first["gist"][::-1], atol=1e-5)

    def test_a_damaged_file_is_made_again(self, tmp_path: Path, images: np.ndarray) -> None:
        first = cached_features("noise", images, data_home=tmp_path)
        for path in (tmp_path / "features").iterdir():
            path.write_bytes(path.read_bytes()[:100])
        again = cached_features("noise", images, data_home=tmp_path)
        assert again["gist"].tobytes() == first["gist"].tobytes()

    def test_a_read_only_folder(self, cache: Path, tmp_path: Path, images: np.ndarray) -> None:
        closed = tmp_path / "closed"
        closed.mkdir()
        close(closed)
        cached_features("noise", images, data_home=closed)
        assert not list(closed.iterdir())
        assert len(list((cache / "features").iterdir())) == 2

    def test_features_in_a_read_only_folder_are_used(self, cache: Path, tmp_path: Path, images: np.ndarray) -> None:
        closed = tmp_path / "closed"
        cached_features("noise", images, data_home=closed)
        close(closed)
        cached_features("noise", images, data_home=closed)
        assert not cache.exists()

    def test_real_data_is_left_as_it_is(self, cache: Path) -> None:
        folder = need_real("usps").parent
        if _home.may_write(folder):
            pytest.skip("the data folder may be written to")
        before = sorted(path.name for path in folder.iterdir())
        images = load_views(folder / "usps.npz").views["pixels_16x16"][::200]
        cached_features("usps-part", images, data_home=folder)
        assert sorted(path.name for path in folder.iterdir()) == before
        assert len(list((cache / "features").iterdir())) == 2
