"""Files that somebody made in order to do harm: nothing in them is run, followed or believed."""

import gzip
import json
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import zarr
from mutate_models import join, sealed, split

from coterie.datasets import load_views, save_views
from coterie.formats import FormatError, open_column, open_table, open_target, open_views
from coterie.formats.hdf5_text import HEAP_MARK
from coterie.saving import ModelFileError, describe_file, load

MODEL = Path(__file__).parents[1] / "data" / "model_v1.coterie"


class Bomb:
    """A pickle that would leave a trace if anyone opened it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def refused(path, words, read=None):
    """Assert that a file is refused in one line that names it."""
    with pytest.raises(ValueError, match=words) as caught:
        (read or read_all)(path)
    assert isinstance(caught.value, FormatError | ModelFileError) or read is load_views
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def read_all(path):
    for table in open_views([path]).values():
        table[:]


# -- models ---------------------------------------------------------------------------------------------------------


def changed(tmp_path, change):
    """A model file with the right checksum after a change to its table of arrays, its entries or its arrays' bytes."""
    table, entries, payload = split(MODEL.read_bytes())
    path = tmp_path / "hostile.coterie"
    path.write_bytes(join(table, entries, change(table, entries, payload) or payload))
    return path


def test_pickles_in_a_model_are_bytes(tmp_path):
    """In the place of an array a pickle is so many numbers; as an array of its own it is refused."""
    bomb = pickle.dumps(Bomb(tmp_path / "trace"))

    def instead(table, entries, payload):
        begin, end = table["landmark_indices_"]["data_offsets"]
        return payload[:begin] + (bomb * 100)[: end - begin] + payload[end:]

    def beside(table, entries, payload):
        end = len(payload)
        table["model.pkl"] = {"dtype": "U8", "shape": [len(bomb)], "data_offsets": [end, end + len(bomb)]}
        return payload + bomb

    def in_the_header(table, entries, payload):
        entries["content"]["parameters"]["views"] = {"pickle": bomb.hex()}

    refused(changed(tmp_path, instead), "landmark_indices_", load)
    refused(changed(tmp_path, beside), r"nothing uses, 'model\.pkl'", load)
    refused(changed(tmp_path, in_the_header), "unknown kind", load)
    assert not (tmp_path / "trace").exists()


def places_of(table):
    """Two arrays of which one comes right after the other."""
    order = sorted(table, key=lambda name: table[name]["data_offsets"])
    return table[order[3]], table[order[4]]


LIES = {
    "overlap": lambda first, second: second["data_offsets"].__setitem__(0, first["data_offsets"][0]),
    "the same place": lambda first, second: second.update(first),
    "a gap": lambda first, second: first["data_offsets"].__setitem__(1, first["data_offsets"][1] - 4),
    "backwards": lambda first, second: first["data_offsets"].reverse(),
    "beyond the end": lambda first, second: second.update(data_offsets=[1 << 40, (1 << 40) + 8], shape=[1]),
    "negative": lambda first, second: first.update(data_offsets=[-8, 0]),
    "a huge shape": lambda first, second: first.update(shape=[1 << 61, 2]),
    "a shape that overflows": lambda first, second: first.update(shape=[1 << 32, 1 << 32]),
    "a negative shape": lambda first, second: first.update(shape=[-1, -4]),
    "a shape of text": lambda first, second: first.update(shape="12"),
    "a fraction": lambda first, second: first.update(shape=[2.5]),
}


@pytest.mark.parametrize("lie", LIES)
def test_arrays_that_lie_about_their_place(tmp_path, lie):
    path = changed(tmp_path, lambda table, entries, payload: LIES[lie](*places_of(table)))
    refused(path, "array '|its arrays", load)
    refused(path, "array '|its arrays", describe_file)


@pytest.mark.parametrize("name", ["../../../tmp/x", "/etc/passwd", "C:\\x", "a\x00b", "__class__", "__metadata__x"])
def test_paths_for_names(tmp_path, name):
    def rename(table, entries, payload):
        table[name] = table.pop("landmark_indices_")

    refused(changed(tmp_path, rename), "lacks array|nothing uses|array '", load)
    assert [entry.name for entry in tmp_path.iterdir()] == ["hostile.coterie"]


def test_names_that_come_twice(tmp_path):
    path = tmp_path / "twice.coterie"
    good = MODEL.read_bytes()
    length = int.from_bytes(good[:8], "little")
    header = good[8 : 8 + length].rstrip()
    path.write_bytes(sealed(header[:-1] + b',"__metadata__":{"coterie":"{}"}}', good[8 + length :]))
    refused(path, "twice", load)


def test_deep_and_wide_headers_take_little_memory(tmp_path):
    headers = (b"[" * 1_000_000, b'{"a":' * 300_000, b"[[],[]" + b",[]" * 3_000_000)
    paths = [tmp_path / f"{i}.coterie" for i in range(len(headers))]
    for path, header in zip(paths, headers, strict=True):
        path.write_bytes(len(header).to_bytes(8, "little") + b"{" + header[1:])
    code = """
import resource, sys
from coterie.saving import ModelFileError, load
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (200 << 20)
resource.setrlimit(resource.RLIMIT_AS, (size, size))
for path in sys.argv[1:]:
    try:
        load(path)
    except ModelFileError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    for path, line in zip(paths, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{path}: its text")


# -- tables ---------------------------------------------------------------------------------------------------------


def test_pickled_arrays_are_not_opened(tmp_path):
    trace = tmp_path / "trace"
    objects = np.array([[Bomb(trace)]], dtype=object)
    np.save(tmp_path / "a.npy", objects)
    np.savez(tmp_path / "b.npz", objects)
    np.savez(tmp_path / "c.npz", view_names=["x"], view_1=objects)
    for name in ("a.npy", "b.npz", "c.npz"):
        trace.unlink(missing_ok=True)
        refused(tmp_path / name, "never unpickles")
        with pytest.raises(FormatError):
            open_target(tmp_path / name)
    refused(tmp_path / "c.npz", "no pickles", load_views)
    assert not trace.exists()


def zarr_2(folder, **changes):
    """A zarr array of version 2 whose one chunk is a pickle."""
    folder.mkdir()
    meta = {"zarr_format": 2, "shape": [3, 2], "chunks": [3, 2], "dtype": "<f8", "fill_value": 0, "order": "C"}
    (folder / ".zarray").write_text(json.dumps({**meta, "compressor": None, "filters": None, **changes}))
    (folder / "0.0").write_bytes(pickle.dumps(Bomb(folder / "trace")))
    return folder


def zarr_3(folder, codec):
    folder.mkdir()
    grid = {"name": "regular", "configuration": {"chunk_shape": [3, 2]}}
    keys = {"name": "default", "configuration": {"separator": "/"}}
    codecs = [{"name": codec, "configuration": {}}, {"name": "bytes", "configuration": {"endian": "little"}}]
    meta = {"zarr_format": 3, "node_type": "array", "shape": [3, 2], "data_type": "float64", "chunk_grid": grid}
    meta |= {"chunk_key_encoding": keys, "fill_value": 0, "codecs": codecs, "attributes": {}}
    (folder / "zarr.json").write_text(json.dumps(meta))
    (folder / "c" / "0").mkdir(parents=True)
    (folder / "c" / "0" / "0").write_bytes(pickle.dumps(Bomb(folder / "trace")))
    return folder


@pytest.mark.filterwarnings("ignore")
def test_pickles_in_zarr_are_not_opened(tmp_path):
    bad = {"id": "pickle", "protocol": 5}
    paths = [
        zarr_2(tmp_path / "a.zarr", filters=[bad]),
        zarr_2(tmp_path / "b.zarr", compressor=bad),
        zarr_2(tmp_path / "c.zarr", dtype="|O", filters=[bad]),
        zarr_2(tmp_path / "d.zarr", dtype="|O", filters=[{"id": "vlen-utf8"}, bad]),
        zarr_2(tmp_path / "e.zarr", dtype="|O", filters=[{"id": "vlen-utf8"}], compressor=bad),
        zarr_3(tmp_path / "f.zarr", "numcodecs.pickle"),
    ]
    for path in paths:
        refused(path, "pickle|numbers")
        with pytest.raises(FormatError):
            open_target(path)
        assert not (path / "trace").exists()


def test_hdf5_does_not_lead_elsewhere(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.eye(3)
    path = tmp_path / "links.h5"
    with h5py.File(path, "w") as file:
        file["y"] = np.eye(3)
        file["direct"] = h5py.ExternalLink("secret.h5", "/x")
        file["by_detour"] = h5py.SoftLink("/direct")
    refused(path, "refers to another file")
    for key in ("direct", "by_detour"):
        refused(path, "refers to another file", lambda path, key=key: read_all(f"{path}::{key}"))
    path = tmp_path / "external.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (3, 3), "f8", external=[(str(tmp_path / "secret.h5"), 0, 72)])
    refused(path, "refers to other files")
    path = tmp_path / "virtual.h5"
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((3, 3), "f8")
        layout[:] = h5py.VirtualSource(tmp_path / "secret.h5", "x", (3, 3))
        file.create_virtual_dataset("x", layout)
    refused(path, "refers to other files")


def test_hdf5_groups_that_hold_themselves(tmp_path):
    path = tmp_path / "loop.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.eye(3)
        file["me"] = file["again"] = file["/"]
        group = file
        for _ in range(40):  # paths double at every step
            inner = group.create_group("a")
            group["b"] = inner
            group = inner
        group["deep"] = np.eye(3)
    assert len(open_views([path])) == 2


def test_hdf5_heaps_that_do_not_add_up(tmp_path):
    """HDF5's library would go on for ever; heaps that were changed and grown in between are as good as new ones."""
    path = tmp_path / "text.h5"
    words = ["word" * (i % 50) for i in range(3000)]
    with h5py.File(path, "w") as file:
        file["x"] = np.eye(3)
        file["x"].attrs["said"] = "something"
        file["words"] = np.array(words, dtype=object)
        file.create_dataset("lists", (9,), dtype=h5py.vlen_dtype(np.float64))[3] = np.arange(900.0)
    with h5py.File(path, "a") as file:
        del file["words"]
        file["lists"][3] = np.arange(1900.0)
        file["long"] = np.array(["x" * 10_000, "", "y"], dtype=object)
    np.testing.assert_array_equal(open_table(path, key="x")[:], np.eye(3))
    data = path.read_bytes()
    assert data.count(HEAP_MARK) > 3
    for at, size in ((16 + 8, 0), (16 + 8, (1 << 64) - 16), (16 + 8, 1 << 40), (8, 1 << 40)):
        broken = bytearray(data)
        place = data.index(HEAP_MARK) + at
        broken[place : place + 8] = size.to_bytes(8, "little")
        if at > 8:
            broken[place - 8 : place - 6] = bytes(2)  # what is left of the heap, and takes no room
        other = tmp_path / f"{at}-{size}.h5"
        other.write_bytes(broken)
        refused(other, "heap of text", lambda path: read_all(f"{path}::x"))


STORAGE = [{}, {"chunks": (70,)}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("storage", STORAGE)
def test_hdf5_text_that_is_not_where_it_should_be(tmp_path, storage, libver):
    """HDF5's library takes the memory that a length asks for before it looks for the text."""
    path = tmp_path / "x.h5ad"
    names = [f"row{i}" * (i % 3) + str(i) for i in range(200)]
    with h5py.File(path, "w", libver=libver) as file:
        file["X"] = np.arange(400.0).reshape(200, 2)
        file.create_dataset("obs/named", data=names, dtype=h5py.string_dtype(), **storage)
        file.create_dataset("obs/none", (200,), dtype=h5py.string_dtype())
        file["var/_index"] = ["one", "two"]
        file["obs"].attrs["_index"] = "named"
    table = open_table(path)
    assert list(table.ids) == names
    assert table.columns == ("one", "two")
    assert open_column(path, "none").labels.tolist() == [""] * 200
    data = path.read_bytes()
    for text, words, read in (
        (b"named", "row ids", lambda path: open_table(path).ids),
        (b"one", "cannot be read", open_table),
        (b"row4040", "row ids", lambda path: open_table(path).ids),
    ):
        for length in (len(text) + 9, (1 << 32) - 1):
            broken = tmp_path / f"{text.decode()}-{length}.h5ad"
            broken.write_bytes(longer(data, text, length))
            if broken.read_bytes() != data:
                refused(broken, words + ".*(text|checksum)", read)


def longer(data, text, length):
    """Change the length of a text where the file refers to it; nothing, where that is packed."""
    at = data.index(len(text).to_bytes(8, "little") + text) - 8  # the object: its number, six bytes more, its size
    heap, number = data.rindex(HEAP_MARK, 0, at), int.from_bytes(data[at : at + 2], "little")
    place = heap.to_bytes(8, "little") + number.to_bytes(4, "little")
    return data.replace(len(text).to_bytes(4, "little") + place, length.to_bytes(4, "little") + place)


def test_hdf5_lists_are_not_text(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("label", (9,), dtype=h5py.vlen_dtype(np.float64))[3] = np.arange(900.0)
    refused(path, "lists of varying length", lambda path: open_target(path, "label"))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("length", [0, 7, 30])
def test_zarr_chunks_that_were_cut_off(tmp_path, version, length):
    """Blosc reads on past the end."""
    path = tmp_path / "x.zarr"
    blosc = numcodecs.Blosc() if version == 2 else zarr.codecs.BloscCodec()
    root = zarr.create_group(path, zarr_format=version)
    root.create_array("x", data=np.arange(12.0).reshape(6, 2), chunks=(3, 2), compressors=blosc)
    np.testing.assert_array_equal(open_table(path)[:], np.arange(12.0).reshape(6, 2))
    chunk = path / "x" / ("0.0" if version == 2 else "c/0/0")
    chunk.write_bytes(chunk.read_bytes()[:length])
    refused(path, "its chunk 0")


@pytest.mark.parametrize("version", [2, 3])
def test_zarr_chunks_that_were_cut_in_half_end_no_process(tmp_path, version):
    """Behind the first rows, where Blosc reads on until it is stopped by the system."""
    path = tmp_path / "x.zarr"
    blosc = numcodecs.Blosc() if version == 2 else zarr.codecs.BloscCodec()
    values = np.random.default_rng(0).integers(0, 9, (60_000, 8)).astype(float)
    root = zarr.create_group(path, zarr_format=version)
    root.create_array("x", data=values, chunks=(30_000, 8), compressors=blosc)
    chunk = path / "x" / ("1.0" if version == 2 else "c/1/0")
    chunk.write_bytes(chunk.read_bytes()[: chunk.stat().st_size // 2])
    refused(path, "its chunk")


def test_parquet_groups_of_fewer_rows_than_none(tmp_path):
    path = tmp_path / "x.parquet"
    pa.parquet.write_table(pa.table({"x": np.arange(60.0)}), path, compression="none")
    data = bytearray(path.read_bytes())
    # Of the row group, field 3 is its number of rows: 60, whose sign becomes the other.
    place = data.rindex(b"\x16" + varint(60))
    data[place + 1] |= 1
    path.write_bytes(data)
    refused(path, "rows")


@pytest.mark.filterwarnings("ignore:The codec")  # of earlier versions of zarr: texts were not in its standard
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_zarr_chunks_that_claim_many_texts(tmp_path, version, packed):
    path = tmp_path / "x.zarr"
    names = np.array(["one", "two", "three"], dtype=object)
    gzipped = numcodecs.GZip() if version == 2 else zarr.codecs.GzipCodec()
    root = zarr.create_group(path, zarr_format=version)
    root.create_array("label", shape=3, chunks=2, dtype=str, compressors=gzipped if packed else None)[:] = names
    assert open_target(path, "label").labels.tolist() == names.tolist()
    chunk = path / "label" / ("0" if version == 2 else "c/0")
    content = gzip.decompress(chunk.read_bytes()) if packed else chunk.read_bytes()
    assert content[:4] == (2).to_bytes(4, "little")
    content = (1 << 31).to_bytes(4, "little") + content[4:]
    chunk.write_bytes(gzip.compress(content) if packed else content)
    refused(path, "2,147,483,648 texts", lambda path: open_target(path, "label"))


@pytest.mark.parametrize("fall", [[0, 2, 0, 0], [0, (1 << 63) - 1, -5, 2]])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_sparse_pointers_that_fall(tmp_path, form, fall):
    """SciPy follows them out of its arrays: it looks at their differences, if at all, and these overflow."""
    path = tmp_path / "x.npz"
    parts = {"data": np.ones(2), "indices": np.arange(2), "indptr": np.array(fall)}
    np.savez(path, **parts, format=np.array(form.encode()), shape=np.array([3, 3]))
    refused(path, "indptr|index pointer")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "h5"])
def test_one_long_text_among_many(tmp_path, suffix):
    """In NumPy's arrays each text takes the room of the longest: 4 GB here, from 2 MB."""
    path = tmp_path / f"x.{suffix}"
    texts = [*map(str, range(999)), "x" * 1_000_000]
    table = pa.table({"label": texts})
    if suffix == "csv":
        path.write_text("\n".join(["label", *texts, ""]))
    elif suffix == "parquet":
        pa.parquet.write_table(table, path)
    elif suffix == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        with h5py.File(path, "w") as file:
            file["label"] = texts
    refused(path, "1,000,000 letters", lambda path: open_target(path, "label"))


def test_names_with_line_breaks(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, **{"a\nb": np.array([None])})
    refused(path, r"a\\nb")


@pytest.mark.parametrize("stream", [False, True])
def test_arrow_text_that_points_outside(tmp_path, stream):
    """Offsets of text are not looked at when a batch is read, and were followed wherever they led."""
    path = tmp_path / "x.arrow"
    table = pa.table({"x": [1.0, 2.0, 3.0], "name": ["one", "two", "three"]})
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, table.schema) as writer:
        writer.write_table(table)
    offsets = np.array([0, 3, 6, 11], dtype=np.int32).tobytes()
    data = path.read_bytes()
    assert data.count(offsets) == 1
    path.write_bytes(data.replace(offsets, np.array([0, 3, 1 << 30, 11], dtype=np.int32).tobytes()))
    refused(path, "cannot be read", lambda path: open_target(path, "name"))
    refused(path, "cannot be read", lambda path: open_table(path, id_column="name").ids)
    assert open_table(path, columns="x")[:].tolist() == [[1.0], [2.0], [3.0]]


def varint(value):
    """A whole number as the headers of parquet's pages have it."""
    value *= 2  # the last bit is the sign
    return bytes([value >> at & 0x7F | (0x80 if value >> at + 7 else 0) for at in range(0, 35, 7) if value >> at])


@pytest.mark.parametrize("name", ["x", "x.y"])
@pytest.mark.parametrize("claim", ["packed", "unpacked"])
@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_parquet_pages_that_claim_too_much(tmp_path, compression, claim, name):
    """Arrow makes room for what a page says that it is."""
    path = tmp_path / "x.parquet"
    lists = pa.array([[1.0, 2.0]] * 1000, pa.list_(pa.float64(), 2))
    pa.parquet.write_table(pa.table({name: lists}), path, compression=compression, use_dictionary=False)
    np.testing.assert_array_equal(open_table(path)[[0, 999]], [[1, 2]] * 2)
    # A page's header begins with its kind, 0, and its sizes unpacked and packed: fields 1 to 3.
    number = rb"([\x80-\xff]*[\x00-\x7f])"
    data = path.read_bytes()
    head = re.compile(rb"\x15\x00\x15" + number + rb"\x15" + number).match(data, 4)
    huge = varint((1 << 31) - 99)
    unpacked, packed = (head[1], huge) if claim == "packed" else (huge, head[2])
    path.write_bytes(data[:4] + b"\x15\x00\x15" + unpacked + b"\x15" + packed + data[head.end() :])
    refused(path, "says that it is")
    refused(path, "says that it is", lambda path: open_target(path, name))


def test_shapes_without_values(tmp_path):
    """Formats that need not store what they claim: so much is refused, not made."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", (1 << 40, 10), "f8", chunks=(1024, 10))
    refused(tmp_path / "a.h5", "more than 250 times")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        group = file.create_group("x")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", [1 << 40, 5]
        group["data"], group["indices"], group["indptr"] = np.ones(2), np.zeros(2, int), np.zeros(3, int)
    refused(tmp_path / "b.h5", "more than 250 times|is not a sparse matrix")
    meta = {"zarr_format": 2, "shape": [1 << 40, 5], "chunks": [1024, 5], "dtype": "<f8", "fill_value": 0, "order": "C"}
    (tmp_path / "c.zarr").mkdir()
    (tmp_path / "c.zarr" / ".zarray").write_text(json.dumps({**meta, "compressor": None, "filters": None}))
    refused(tmp_path / "c.zarr", "more than 250 times")


def test_text_of_letters_that_there_are_not(tmp_path):
    broken = np.array([0x110000, 65], dtype=np.uint32).view("<U1")
    np.savez(tmp_path / "a.npz", view_names=broken, view_1=np.eye(3), view_2=np.eye(3))
    np.save(tmp_path / "b.npy", broken)
    refused(tmp_path / "a.npz", "must be text", load_views)
    refused(tmp_path / "a.npz", "must be text")
    refused(tmp_path / "b.npy", "characters that do not exist", open_target)


def bomb_of(path, member, size):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(member, "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (size // 80, 10)})
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return path


def test_zip_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr("coterie.formats.unpacking.BOMB_BYTES", 1 << 20)
    path = bomb_of(tmp_path / "a.npz", "x.npy", 10 << 20)
    refused(path, "more than 250 times")
    refused(path, "more than 250 times", load_views)


def test_names_of_views_are_only_names(tmp_path):
    names = ["../../x", "/etc/passwd"]
    path = save_views(tmp_path / "bundle.npz", {name: np.eye(4) for name in names})
    assert [table.shape for table in open_views([path]).values()] == [(4, 4)] * 2
    assert list(load_views(path).views) == names
    assert [entry.name for entry in tmp_path.iterdir()] == ["bundle.npz"]
