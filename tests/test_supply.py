"""What Coterie stands on: each package has a licence on the list, and the lowest versions are the tested ones."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(name):
    lines = (line for line in (ROOT / name).read_text().splitlines() if line and line[0] != "#")
    return {normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def requirements(*extras):
    """Names and what follows them, of the package and some of its extras, and of the extras in those."""
    found, asked, seen = list(PROJECT["dependencies"]), list(extras), set()
    while asked:
        extra = asked.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for line in PROJECT["optional-dependencies"][extra]:
            inner = re.fullmatch(r"coterie\[(.*)\]", line)
            asked += inner[1].split(",") if inner else []
            found += [] if inner else [line]
    parts = [re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*(.*?)\s*(?:;.*)?$", line) for line in found]
    return {normal(part[1]): part[2] for part in parts}


def test_every_package_has_a_licence():
    listed = dict(re.findall(r"^\| (\S+) \| (.+) \|$", (ROOT / "LICENSES.md").read_text(), re.MULTILINE))
    needed = {*requirements(*PROJECT["optional-dependencies"]), *pins("constraints.txt")}
    assert not needed - set(listed)
    assert "unknown" not in listed.values()


def test_the_oldest_versions_are_the_lower_bounds():
    oldest = pins("constraints-oldest.txt")
    for name, bound in requirements("test").items():
        version = bound.lstrip(">=")
        assert bound[:2] in (">=", "=="), name
        assert name in oldest, name
        padded = f"{version}.0.0".split(".")[:3] if version.count(".") < 2 else version.split(".")
        assert oldest[name].split(".") == padded, name


def test_every_tested_package_is_pinned():
    assert not set(requirements("test")) - set(pins("constraints.txt"))


def test_the_citation_is_of_this_version_and_names_the_paper():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {PROJECT['version']}\n" in text
    assert f"\nlicense: {PROJECT['license']}\n" in text
    assert "title: Guided Co-training for Large-Scale Multi-View Spectral Clustering\n" in text


def test_hooks_and_workflow_run_what_make_runs():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for tool in ("ruff check", "ruff format", "mypy"):
        assert f"entry: .venv/bin/{tool}" in hooks
        assert f"$(BIN)/{tool}" in (ROOT / "Makefile").read_text()
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert re.search(rf'python: \["{re.escape(oldest)}", "3\.\d+"\]', workflow)
    for step in (".ci/run", ".ci/smoke", "make docs"):
        assert f"- run: {step}" in workflow


def test_the_package_is_typed_and_holds_no_benchmarks():
    assert (ROOT / "src" / "coterie" / "py.typed").exists()
    assert not list((ROOT / "src").rglob("bench*"))
    for path in (ROOT / "src").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) benchmarks\b", path.read_text(), re.MULTILINE), path
