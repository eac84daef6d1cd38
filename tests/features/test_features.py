"""Features: known answers, invariances, and the messages of what is refused."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import coterie.features as features
from coterie.features import LSA, _gist, gist, hog, image_views, lsa
from coterie.features._images import resampling, resize
from coterie.lazy import import_extra
from coterie.progress import Bar


def grating(cycles_per_pixel: float, degrees: float, side: int = 32) -> np.ndarray:
    """A wave that runs at an angle to the x axis, one image of it."""
    rows, columns = np.mgrid[:side, :side]
    angle = np.deg2rad(degrees)
    along = columns * np.cos(angle) + rows * np.sin(angle)
    return (128 + 100 * np.cos(2 * np.pi * cycles_per_pixel * along))[None]


def energies(images: np.ndarray) -> np.ndarray:
    """GIST with axes for images, scales, orientations and the grid."""
    return gist(images).reshape(len(images), 4, 8, 4, 4)


@pytest.fixture
def digits(rng: np.random.Generator) -> np.ndarray:
    """Blurred blobs, 16 x 16, that have edges in all directions."""
    noise = rng.random((20, 4, 4)).astype(np.float32)
    return (200 * resize(noise, 16)).astype(np.uint8)


@pytest.fixture(params=[0, 1, 2])
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    return np.random.default_rng(request.param)


def test_all_is_true() -> None:
    assert all(hasattr(features, name) for name in features.__all__)


def test_import_loads_no_optional_library() -> None:
    code = (
        "import sys, coterie.features, coterie.datasets; "
        "print([m for m in ('skimage', 'pooch', 'requests') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skimage", None)
    monkeypatch.delitem(sys.modules, "skimage.feature", raising=False)
    with pytest.raises(ImportError, match=r"'skimage'.*pip install coterie\[features\]"):
        hog(np.zeros((1, 16, 16)))
    with pytest.raises(ImportError, match=r"^Reading needs no_such_library .*pip install coterie\[datasets\]$"):
        import_extra("no_such_library", "datasets", "Reading")


class TestImages:
    def test_rows_of_pixels_are_square_images(self, digits: np.ndarray) -> None:
        assert (gist(digits) == gist(digits.reshape(len(digits), -1))).all()

    @pytest.mark.parametrize("function", [gist, hog, image_views])
    @pytest.mark.parametrize("shape", [(5,), (2, 7), (2, 3, 3), (1, 16, 16, 3)])
    def test_wrong_shape(self, function: types.FunctionType, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=rf"'images' parameter of {function.__name__} must be"):
            function(np.zeros(shape))

    def test_not_finite_names_the_image(self, digits: np.ndarray) -> None:
        bad = digits.astype(float)
        bad[7, 3, 3] = np.nan
        with pytest.raises(ValueError, match="infinity in image 7"):
            gist(bad)

    def test_not_numbers(self) -> None:
        with pytest.raises(ValueError, match="must hold real numbers"):
            gist(np.full((1, 16, 16), "a"))

    @pytest.mark.parametrize(("source", "target"), [(16, 32), (28, 32), (64, 32), (32, 32), (45, 32)])
    def test_resampling_keeps_constants_and_symmetry(self, source: int, target: int) -> None:
        matrix = resampling(source, target)
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_allclose(matrix, matrix[::-1, ::-1], atol=1e-6)

    def test_resampling_keeps_a_ramp_inside(self) -> None:
        resized = resampling(16, 32) @ np.arange(16.0)
        np.testing.assert_allclose(np.diff(resized[1:-1]), 0.5, rtol=1e-5)

    def test_resampling_to_the_same_size_changes_nothing(self) -> None:
        np.testing.assert_array_equal(resampling(32, 32), np.eye(32))


class TestGist:
    def test_shape_and_type(self, digits: np.ndarray) -> None:
        described = gist(digits)
        assert described.shape == (20, 512)
        assert described.dtype == np.float32
        assert np.isfinite(described).all()
        assert (described >= 0).all()

    @pytest.mark.parametrize("orientation", range(8))
    @pytest.mark.parametrize("scale", range(3))
    def test_a_grating_excites_its_filter(self, scale: int, orientation: int) -> None:
        frequency = _gist.TOP_FREQUENCY / _gist.SCALE_STEP**scale
        energy = energies(grating(frequency, 22.5 * orientation)).mean(axis=(3, 4))[0]
        assert np.unravel_index(energy.argmax(), energy.shape) == (scale, orientation)

    def test_the_coarsest_scale_answers_to_coarse_waves_most(self) -> None:
        # Waves this slow are mostly taken for lighting, and what is left of them has harmonics: so
        # filters are compared on two gratings, not on one.
        slow, fast = (energies(grating(f, 0)).mean(axis=(3, 4))[0] for f in (0.0474, 0.3))
        assert slow[3, 0] > 2 * fast[3, 0]
        assert fast[0, 0] > 2 * slow[0, 0]

    def test_turning_an_image_turns_its_features(self, digits: np.ndarray) -> None:
        turned = energies(np.rot90(digits, axes=(1, 2)))
        # A quarter of a turn moves orientation j to j + 4, and turns the grid with the image.
        expected = np.rot90(np.roll(energies(digits), 4, axis=2), axes=(3, 4))
        # The coarse scales are sampled, hence not to the last bit.
        np.testing.assert_allclose(turned, expected, atol=0.02 * expected.max())

    def test_energy_stays_where_the_grating_is(self) -> None:
        image = np.full((1, 32, 32), 128.0)
        image[:, :, :16] = grating(0.3, 0)[:, :, :16]
        energy = energies(image)[0, 0, 0]  # (4, 4)
        assert energy[:, 0].min() > 5 * energy[:, 3].max()

    def test_brightness_and_contrast_do_not_matter(self, digits: np.ndarray) -> None:
        described = gist(digits)
        np.testing.assert_allclose(gist(digits + np.uint8(40)), described, atol=1e-4)
        np.testing.assert_allclose(gist(digits / 7.0), described, atol=1e-4)

    def test_blank_images_have_no_energy(self) -> None:
        for value in (0, 0.1, 255):
            assert not gist(np.full((2, 28, 28), value)).any()

    def test_no_images(self) -> None:
        assert gist(np.zeros((0, 16, 16))).shape == (0, 512)

    def test_neither_batches_nor_threads_matter(self, digits: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = gist(digits, n_jobs=1)
        monkeypatch.setattr(_gist, "BATCH", 7)
        np.testing.assert_allclose(gist(digits, n_jobs=2), whole, atol=1e-5)

    def test_sampling_coarse_scales_changes_little(self, digits: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
        sampled = gist(digits)
        _gist.filter_banks.cache_clear()
        monkeypatch.setattr(_gist, "SAMPLES", (64, 64, 64, 64))
        full = gist(digits)
        _gist.filter_banks.cache_clear()
        assert np.linalg.norm(sampled - full) < 0.01 * np.linalg.norm(full)

    def test_images_are_not_changed(self, digits: np.ndarray) -> None:
        floats = digits.astype(np.float32)
        before = floats.copy()
        gist(floats)
        np.testing.assert_array_equal(floats, before)


class TestHog:
    @pytest.mark.parametrize("side", [16, 28])
    def test_has_81_columns(self, side: int, rng: np.random.Generator) -> None:
        described = hog(rng.random((3, side, side)))
        assert described.shape == (3, 81)
        assert described.dtype == np.float32

    @pytest.mark.parametrize(("axis", "direction"), [(1, 0), (0, 4)])
    def test_a_ramp_has_one_direction(self, axis: int, direction: int) -> None:
        # Along x the gradient's angle is 0 degrees, the first of nine bins of 20; along y it is 90,
        # the fifth. All 9 cells are equal, so L2 normalisation gives each of them 1 / 3; the clip
        # at 0.2 makes them equal again.
        ramp = np.broadcast_to(np.expand_dims(np.arange(28.0), 1 - axis), (1, 28, 28))
        cells = hog(ramp).reshape(9, 9)
        # Cells at the ends of the ramp lack the gradient of the image's first and last line.
        np.testing.assert_allclose(cells[:, direction], 1 / 3, atol=0.03)
        assert not np.delete(cells, direction, axis=1).any()

    def test_is_scikit_images(self, rng: np.random.Generator) -> None:
        from skimage.feature import hog as one

        images = rng.integers(0, 256, (4, 28, 28), dtype=np.uint8)
        np.testing.assert_allclose(hog(images), [one(image) for image in images], rtol=1e-6)

    def test_unknown_norm(self) -> None:
        with pytest.raises(ValueError, match="'block_norm' parameter of hog must be one of 'L2-Hys'"):
            hog(np.zeros((1, 16, 16)), block_norm="L3")

    def test_cells_that_do_not_fit(self) -> None:
        with pytest.raises(ValueError, match="'pixels_per_cell' parameter of hog must be between 1 and 5"):
            hog(np.zeros((1, 16, 16)), pixels_per_cell=6)

    def test_no_images(self) -> None:
        assert hog(np.zeros((0, 28, 28))).shape == (0, 81)


class TestLSA:
    def test_inner_products_of_a_matrix_of_low_rank(self, rng: np.random.Generator) -> None:
        X = rng.random((60, 4)) @ rng.random((4, 90))
        reduced = lsa(sparse.csr_array(X), 4, weighting=None)
        np.testing.assert_allclose(reduced @ reduced.T, X @ X.T, rtol=1e-8)

    def test_tf_idf_by_hand(self) -> None:
        counts = np.array([[3, 0, 1], [0, 2, 0], [1, 0, 0]])
        idf = np.log(4 / (1 + (counts > 0).sum(axis=0))) + 1
        weights = counts * idf
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        model = LSA(3).fit(counts)
        np.testing.assert_allclose(model.idf_, idf)
        reduced = model.transform(counts)
        np.testing.assert_allclose(reduced @ reduced.T, weights @ weights.T, atol=1e-8)

    def test_new_documents_go_through_the_same_map(self, rng: np.random.Generator) -> None:
        counts = sparse.csr_array(rng.poisson(0.3, (50, 40)))
        model = LSA(5)
        fitted = model.fit_transform(counts)
        np.testing.assert_allclose(model.transform(counts), fitted, rtol=1e-10)
        np.testing.assert_allclose(model.transform(counts[7:9]), fitted[7:9], rtol=1e-10)
        np.testing.assert_array_equal(clone(model).fit_transform(counts), fitted)

    def test_sparse_and_dense_agree(self, rng: np.random.Generator) -> None:
        counts = rng.poisson(0.3, (50, 40))
        np.testing.assert_allclose(lsa(sparse.csr_array(counts), 5), lsa(counts, 5), atol=1e-8)

    def test_components_are_orthonormal_and_ordered(self, rng: np.random.Generator) -> None:
        model = LSA(6).fit(rng.poisson(0.5, (80, 30)))
        np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(6), atol=1e-8)
        assert (np.diff(model.singular_values_) <= 0).all()

    def test_too_many_components(self) -> None:
        with pytest.raises(ValueError, match="'n_components' parameter of LSA must be at most 3 for"):
            lsa(np.ones((3, 8)), 4)

    def test_negative_values(self) -> None:
        with pytest.raises(ValueError, match=r"smallest value is -1\. Use weighting=None"):
            lsa(np.array([[1.0, -1.0], [0.0, 2.0]]), 1)

    @parametrize_with_checks([LSA(1), LSA(1, weighting=None)])
    def test_is_a_scikit_learn_transformer(self, estimator: LSA, check: Callable[..., None]) -> None:
        check(estimator)

    @pytest.mark.parametrize("wrong", [{"n_components": 0}, {"weighting": "bm25"}])
    def test_wrong_parameters(self, wrong: dict[str, object]) -> None:
        (name,) = wrong
        with pytest.raises(ValueError, match=f"'{name}' parameter of LSA must be"):
            LSA(**wrong).fit(np.ones((3, 3)))


def test_image_views(digits: np.ndarray) -> None:
    views = image_views(digits)
    assert list(views) == ["pixels", "gist", "hog"]
    np.testing.assert_array_equal(views["pixels"], digits.reshape(20, 256))
    np.testing.assert_array_equal(views["gist"], gist(digits))
    np.testing.assert_array_equal(views["hog"], hog(digits))


class TestBar:
    def test_silent_off_a_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        with Bar("work", 2) as bar:
            bar._started -= 10
            bar.advance(2)
        assert capsys.readouterr() == ("", "")

    @pytest.mark.parametrize(("seconds", "shown"), [(0, False), (10, True)])
    def test_shown_on_a_terminal_after_a_second(
        self, seconds: int, shown: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        with Bar("work", 2) as bar:
            bar._started -= seconds
            bar.advance()
            assert (bar._rich is not None) == shown
        assert bar.done == 1
