"""Docstrings of peers, completed with what all of them mean by a name."""

import inspect
import re
import subprocess
import sys

import pytest

from coterie import peers
from coterie.peers._docstrings import PARAMETERS, completed


def described(section):
    """The names that a section describes, in its order."""
    heads = re.findall(r"^(\S.*)\n {4}\S", section, re.MULTILINE)
    return [name for head in heads for name in head.partition(" : ")[0].split(", ")]


@pytest.mark.parametrize("name", peers.__all__)
def test_every_parameter_is_described_in_the_order_of_the_constructor(name):
    cls = getattr(peers, name)
    text = inspect.cleandoc(cls.__doc__).split("Parameters\n----------\n")[1].split("\n\n")[0]
    parameters = inspect.signature(cls).parameters
    assert described(text) == list(parameters)
    for head in re.findall(r"^(\w+) : .*default=(.*)$", text, re.MULTILINE):
        assert eval(head[1]) == parameters[head[0]].default


def test_a_peer_may_say_otherwise():
    text = "A.\n\nParameters\n----------\nn_init : int, default=3\n    Of all.\n\nAttributes\n----------\nlabels_\n"
    found = completed(text, {"n_clusters": 8, "n_init": 3})
    assert "    n_init : int, default=3\n        Of all.\n" in found
    assert PARAMETERS["n_clusters"][1] in found
    assert PARAMETERS["n_init"][1] not in found


def test_a_parameter_that_nobody_describes_is_an_error():
    text = "A.\n\nParameters\n----------\nn_clusters\n\nAttributes\n----------\nlabels_\n"
    with pytest.raises(KeyError, match="width"):
        completed(text, {"n_clusters": 8, "width": 3})


def test_peers_work_without_docstrings():
    code = "from coterie.peers import KASP; print(KASP.__doc__, KASP(3, n_init=2))"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None KASP(n_clusters=3, n_init=2)\n"
