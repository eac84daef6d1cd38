"""Model files as an enemy or a failing disk would make them; used by the tests and by the long campaign."""

import copy
import json
import re
import warnings
from contextlib import suppress

import numpy as np

from coterie.saving import ModelFileError, describe_file, load
from coterie.storage import container

# What a value in a header is replaced by.
ODD = (
    None,
    True,
    0,
    -1,
    3,
    1 << 40,
    1 << 63,
    10**30,
    0.5,
    1e300,
    -1.0,
    "",
    "auto",
    "../../etc/passwd",
    "float32",
    "__import__('os').system('true')",
    [],
    [1 << 40, 1 << 40],
    {},
    {"float": "nan"},
    {"float": "inf"},
    {"scalar": ["float64", 1.5]},
    {"scalar": ["int8", 300]},
    {"tuple": []},
    {"dict": [["a", 1], ["a", 2]]},
    {"dict": []},
    {"slice": [0, 1 << 60, None]},
    {"array": ["labels_"]},
    {"unicode": ["labels_"]},
    {"objects": ["row_ids_", [1 << 40]]},
    {"csr": [{"array": ["labels_"]}, {"array": ["labels_"]}, {"array": ["labels_"]}, [1, 1 << 47]]},
    {"object": ["os.system", {"command": "true"}]},
    {"object": ["Graph", {"view": 0, "n_neighbors": 1 << 40, "bandwidth": 0.0, "shared": False}]},
    {"object": ["Densify", {}]},
    {"dtype": "object"},
    {"pickle": "gASVAAAA"},
)
DTYPES = (*container.STORED_DTYPES, "C64", "O", "")


def split(data):
    """Return a file's table of arrays, its entries, and its arrays' bytes."""
    length = int.from_bytes(data[:8], "little")
    table = json.loads(data[8 : 8 + length])
    entries = json.loads(table.pop("__metadata__")[container.METADATA_KEY])
    return table, entries, data[8 + length :]


def join(table, entries, payload):
    """Return a file with a checksum that is right, whatever it holds."""
    text = json.dumps(entries, separators=(",", ":"))
    return sealed(json.dumps({"__metadata__": {container.METADATA_KEY: text}, **table}).encode(), payload)


def sealed(header, payload):
    data = bytearray(len(header).to_bytes(8, "little") + header + payload)
    if container.SIGNATURE in header:
        container.sign(data)
    return bytes(data)


def mutant(good, rng):
    """Return a kind of damage, and a file that has it."""
    kind = KINDS[rng.integers(len(KINDS))]
    return kind.__name__, kind(good, rng)


def flipped_bits(good, rng):
    data = bytearray(good)
    for at in rng.integers(len(data), size=rng.integers(1, 9)):
        data[at] ^= 1 << int(rng.integers(8))
    return bytes(data)


def cut_short(good, rng):
    return good[: rng.integers(len(good))]


def grown(good, rng):
    return good + rng.bytes(int(rng.integers(1, 200)))


def spliced(good, rng):
    start, stop, at = np.sort(rng.integers(len(good), size=3)).tolist()
    return good[:at] + good[start:stop] + good[at:]


def other_numbers(good, rng):
    """Other bytes in one array, with the right checksum."""
    table, entries, payload = split(good)
    name = str(rng.choice(sorted(table)))
    begin, end = table[name]["data_offsets"]
    dtype = container.STORED_DTYPES[table[name]["dtype"]]
    values = np.frombuffer(payload[begin:end], dtype=dtype).copy()
    if len(values):
        at = rng.integers(len(values), size=rng.integers(1, 4))
        if dtype.kind == "f":
            values[at] = rng.choice([np.nan, np.inf, -np.inf, 0, -1, 1e4, float(np.finfo(dtype).max)])
        else:
            values.view(np.uint8)[at] = rng.integers(256, size=len(at))
    return join(table, entries, payload[:begin] + values.tobytes() + payload[end:])


def other_text(good, rng):
    """Some letters of the header changed, with the right checksum."""
    length = int.from_bytes(good[:8], "little")
    text = bytearray(good[8 : 8 + length])
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(text)))
        new = rng.choice(list(b'0123456789-eE.,:"[]{}\\ntf \x00\xff'))
        match rng.integers(3):
            case 0:
                text[at] = new
            case 1:
                text.insert(at, new)
            case 2:
                del text[at]
    return sealed(bytes(text), good[8 + length :])


def other_tree(good, rng):
    """Values of the header replaced, removed, doubled or swapped, with the right checksum."""
    table, entries, payload = split(good)
    for _ in range(rng.integers(1, 4)):
        homes = list(places(entries["content"]))
        home, key = homes[rng.integers(len(homes))]
        other_home, other_key = homes[rng.integers(len(homes))]
        match rng.integers(5):
            case 0 | 1:
                home[key] = copy.deepcopy(ODD[rng.integers(len(ODD))])
            case 2:
                del home[key]
            case 3:
                home[key] = copy.deepcopy(other_home[other_key])
            case 4 if isinstance(home, list):
                home.append(copy.deepcopy(home[key]))
            case 4:
                home[f"{key}_"] = home.pop(key)
        if not entries["content"]:
            break
    return join(table, entries, payload)


def other_table(good, rng):
    """Types, shapes, places and names of arrays changed, with the right checksum."""
    table, entries, payload = split(good)
    name = str(rng.choice(sorted(table)))
    entry = table[name]
    match rng.integers(5):
        case 0:
            entry["dtype"] = str(rng.choice(DTYPES))
        case 1:
            entry["shape"] = entry["shape"][::-1] if rng.integers(2) else [*entry["shape"], 1]
        case 2:
            part = entry[str(rng.choice(["shape", "data_offsets"]))]
            if part:
                part[rng.integers(len(part))] = copy.deepcopy(ODD[rng.integers(len(ODD))])
        case 3:
            table[name + "/../x"] = table.pop(name)
        case 4:
            other = str(rng.choice(sorted(table)))
            table[name], table[other] = table[other], table[name]
    return join(table, entries, payload)


KINDS = (
    flipped_bits,
    cut_short,
    grown,
    spliced,
    other_numbers,
    other_numbers,
    other_text,
    other_tree,
    other_tree,
    other_tree,
    other_table,
)


def places(node):
    """Yield every place in a tree of lists and dicts where a value stands."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        yield node, key
        if isinstance(value, dict | list):
            yield from places(value)


def outcome(path, views):
    """Return what became of a file: refused, or loaded to a model that is of use or says what is wrong.

    Any other error, and labels that cannot be, are left to whoever called.
    """
    with suppress(ModelFileError):
        describe_file(path)
    try:
        model = load(path)
    except ModelFileError as error:
        return (
            "refused" if re.fullmatch(re.escape(str(path)) + r": [^\n]{20,400}\.", str(error)) else f"unclear: {error}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            labels = model.predict(views)
        except ValueError:
            return "loaded, for other rows"
    assert ((labels >= 0) & (labels < model.n_clusters_)).all()
    return "loaded"
