"""Arrays of three libraries behind one set of functions, and nobody else who knows which library it is."""

import ast
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import coterie
from coterie import arrays

torch = pytest.importorskip("torch")

SOURCE = Path(coterie.__file__).parent
KNOWS = ("kernels/", "rows/", "arrays.py")


@cache
def modules():
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def names_in(tree):
    """Every name that a module reads, imports or asks an object for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name


def test_who_knows_tensors():
    """Functions that tell tensors from arrays are used by kernels, rows and arrays alone."""
    knowing = {name for name, tree in modules().items() if "is_tensor" in set(names_in(tree))}
    assert knowing  # the search finds what there is
    assert {name for name in knowing if not name.startswith(KNOWS)} == set()


BY_NATURE = ("peers/autoencoder.py",)  # a network of torch's


@pytest.mark.parametrize("room", ["method/", "views/", "peers/"])
def test_rooms_that_know_no_library(room):
    """The method neither imports torch nor asks whether something is NumPy's."""
    for name, tree in modules().items():
        if name.startswith(room) and name not in BY_NATURE:
            assert "torch" not in set(names_in(tree)), name
            checks = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_isinstance(node)]
            assert not [node for node in checks if "ndarray" in set(names_in(node.args[1]))], name


def is_isinstance(call):
    return isinstance(call.func, ast.Name) and call.func.id == "isinstance"


@pytest.fixture(params=["numpy", "sparse", "torch"])
def table(request):
    data = np.array([[1.0, 0.0], [3.0, 4.0], [0.0, 0.0]], dtype=np.float32)
    return {"numpy": np.asarray, "sparse": sparse.csr_array, "torch": torch.as_tensor}[request.param](data)


def dense(found):
    return found.toarray() if sparse.issparse(found) else np.asarray(arrays.to_host(found))


def test_rows_by_number_or_zero(table):
    rows, present = arrays.take_or_zero(table, np.array([2, -1, 1, 1]))
    np.testing.assert_array_equal(dense(rows), [[0, 0], [0, 0], [3, 4], [3, 4]])
    np.testing.assert_array_equal(np.asarray(present), [True, False, True, True])


def test_norms_products_and_sums(table):
    kernels = arrays.kernels_of(table)
    np.testing.assert_array_equal(dense(arrays.squared_norms(table)), [1, 25, 0])
    np.testing.assert_array_equal(dense(kernels.row_sums(table)), [1, 7, 0])
    np.testing.assert_allclose(dense(arrays.scaled(table, 0.5)), dense(table) / 2)
    mean, std = kernels.column_mean_and_std(table)
    np.testing.assert_allclose(mean, dense(table).mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(std, dense(table).std(axis=0), rtol=1e-6)
    columns = kernels.as_columns(table)
    out = arrays.like(np.empty((3, 3)), table) if not sparse.issparse(table) else np.empty((3, 3), np.float32)
    np.testing.assert_array_equal(dense(kernels.products(table, columns)), dense(table) @ dense(table).T)
    np.testing.assert_array_equal(dense(kernels.products(table, columns, out)), dense(table) @ dense(table).T)
    np.testing.assert_array_equal(dense(out), dense(table) @ dense(table).T)


def test_tensors_of_one_type_are_copied_together():
    table, number, empty = torch.arange(6.0).reshape(2, 3), torch.tensor(7.0), torch.zeros((0, 2))
    found = arrays.copied_together([table.T, number, torch.arange(4), empty])
    assert len(found) == 3  # a single tensor of a type is copied on its own
    for tensor in (number, empty):
        np.testing.assert_array_equal(found[id(tensor)], tensor.numpy())
    np.testing.assert_array_equal(next(iter(found.values())), table.T.numpy())


def test_row_numbers_follow_the_table(table):
    numbers = np.array([2, 0])
    np.testing.assert_array_equal(dense(table[arrays.numbers_for(table, numbers)]), dense(table)[numbers])
    assert arrays.numbers_for(table, slice(2)) == slice(2)


def test_what_an_array_is(table):
    assert arrays.precision_of(table) == "float32"
    assert arrays.is_float(table)
    assert not arrays.is_complex(table)
    assert (arrays.device_of(table) == "cpu") == (type(table).__module__ == "torch")
    assert not arrays.lies_on_gpu(table)


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor])
def test_medians_and_eigenpairs(rng, library):
    values = rng.standard_normal(101)
    root = rng.standard_normal((6, 6))
    matrix = root @ root.T
    kernels = arrays.kernels_of(library(values))
    assert kernels.median(library(values)) == np.median(values)
    found, vectors = (np.asarray(part) for part in kernels.largest_eigenpairs(library(matrix), 3))
    np.testing.assert_allclose(found, np.linalg.eigvalsh(matrix)[::-1][:3])
    np.testing.assert_allclose(matrix @ vectors, vectors * found)
