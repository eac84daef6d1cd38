"""Tables of the page "Which method when": facts and measurements of every method, and published figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.data import DATA
from benchmarks.records import last_of
from benchmarks.suites import SUITES
from benchmarks.tables import SINGLE_VIEW, SYNTHETIC, Table, summarise
from coterie.peers.registry import COTERIE

Line = Mapping[str, Any]

SINGLE_START = "one start of k-means from random rows a seed"
LOCAL_START = f"local scales, unit rows, {SINGLE_START}"
RECUT = "embedding made once, k-means seeded"
BUSY = "busy machine"
USUAL = ("", RECUT, BUSY)  # notes of figures with defaults on shuffled rows
SORTED = ("file order", f"file order; {BUSY}")
AT_THE_MEAN = "mean"


@dataclass(frozen=True)
class Facts:
    """Facts about a method that are not measured."""

    cost: str  # in n
    good_at: str
    missing: str = AT_THE_MEAN


LINEAR, CUBIC = "n", "n³"
FACTS = {
    "GuidedCoTraining": Facts(LINEAR, "several views, any number of rows, new rows", "yes"),
    # Several views.
    "MVSCB": Facts(LINEAR, "several views of one quality, fast"),
    "MultiNMF": Facts(LINEAR, "counts and other non-negative tables; factors that can be read"),
    "AIMC": Facts(LINEAR, "round clusters, nothing to set; new rows"),
    "FastMICE": Facts(LINEAR, "many views, nothing to set"),
    "LMVSC": Facts(LINEAR, "clusters that are subspaces, in many rows"),
    "SMVSC": Facts(LINEAR, "clusters that are subspaces, in many rows"),
    "FPMVSCAG": Facts(LINEAR, "as SMVSC, with nothing to set"),
    "SFMC": Facts(LINEAR, "labels without k-means"),
    "CoTraining": Facts(CUBIC, "two or more good views that err independently"),
    "CoRegularised": Facts(CUBIC, "views that should agree, with an objective to watch"),
    "MSCMO": Facts(CUBIC, "no view may be left behind"),
    "AASC": Facts(CUBIC, "weights of views; views that may be useless"),
    "MultipleKernelLaplacian": Facts(CUBIC, "a plain sum of graphs; weights hardly differ"),
    "RMSC": Facts(CUBIC, "graphs with wrong edges: errors are sparse and explicit"),
    "MMSC": Facts(CUBIC, "soft memberships without negative entries"),
    "LTMSC": Facts(CUBIC, "clusters that are subspaces, rows that are outliers"),
    "DiMSC": Facts(CUBIC, "views that complement each other"),
    "ExactGuidedCoTraining": Facts(CUBIC, "what GuidedCoTraining scales up, as a reference"),
    # One view, or the concatenation of all.
    "ConcatKMeans": Facts(LINEAR, "round clusters; the first thing to try"),
    "ConcatLSC": Facts(LINEAR, "one table, clusters of any shape"),
    "LSC": Facts(LINEAR, "one table, clusters of any shape"),
    "USPEC": Facts(LINEAR, "one table, clusters of any shape"),
    "USENC": Facts(LINEAR, "as USPEC, steadier and slower"),
    "Nystroem": Facts(LINEAR, "one table; new rows"),
    "KASP": Facts(LINEAR, "one table; new rows"),
    "Sequential": Facts(LINEAR, "one table that does not fit in memory; new rows"),
    "PIC": Facts(LINEAR, "one table with few clusters; tiny memory"),
    "ShinnouSasaki": Facts("n + m³", "dense clusters with rows between them"),
    "CommuteTime": Facts("n²", "one table, clusters of any shape"),
    "SparseAutoencoder": Facts("n²", "a comparison with networks"),
    "SC": Facts(CUBIC, "one small table, as a reference"),
}

# Classes with a line for each kind or scaling -> their default.
SEVERAL_KINDS = {"CoRegularised": "pairwise", "ConcatKMeans": "none"}


@dataclass(frozen=True)
class Published:
    """The published figures for UCI's digits, and the notes of our runs that were measured in the same way."""

    acc: float
    nmi: float
    how: str  # description in the table
    notes: tuple[str, ...]  # of the matching runs


SINGLE = ("single starts, mean of 20", (SINGLE_START,))
IN_FILE_ORDER = ("rows in file order", SORTED)
# The first five as Lee and Liu (ICIP 2016) report them, the others as their authors do.
PUBLISHED = {
    "CoTraining": Published(0.779, 0.745, *SINGLE),
    "CoRegularised, pairwise": Published(0.769, 0.728, *SINGLE),
    "CoRegularised, centroid": Published(0.770, 0.713, *SINGLE),
    "AASC": Published(0.683, 0.649, "local scales, unit rows, single starts, mean of 20", (LOCAL_START,)),
    "MSCMO": Published(0.800, 0.755, *SINGLE),
    "SMVSC": Published(0.8205, 0.7886, *IN_FILE_ORDER),
    "FPMVSCAG": Published(0.823, 0.792, *IN_FILE_ORDER),
    "AIMC": Published(0.9345, 0.8823, *IN_FILE_ORDER),
    "LMVSC": Published(0.9165, 0.8443, *IN_FILE_ORDER),
    "SFMC": Published(0.853, 0.871, *IN_FILE_ORDER),
}

# ACC and NMI of a prototype of FastMICE, written before the class from the same description.
PROTOTYPE = {
    "scene15": (0.458, 0.448),
    "citeseer": (0.655, 0.392),
    "bbcsport": (0.950, 0.860),
    "uci": (0.864, 0.903),
    "100leaves": (0.831, 0.953),
    "reuters_1200": (0.427, 0.275),
}


def method_tables(records: Sequence[Line], suites: Sequence[Line]) -> dict[str, Table | str]:
    """Return the tables of the page, from the peers' own results and from those of the suites."""
    return {
        "which_method": overview(records, suites),
        "as_reported": reported(records, suites),
        "fastmice": fastmice_table(records),
        "best_peers": best_peers(suites),
    }


def overview(records: Sequence[Line], suites: Sequence[Line]) -> Table:
    """Return one line per method: its complexity, abilities and measured figures."""
    from coterie import GuidedCoTraining, peers

    rows = []
    for name, facts in FACTS.items():
        room, cls = ("", GuidedCoTraining) if name == "GuidedCoTraining" else (".peers", getattr(peers, name))
        known = "yes" if hasattr(cls, "predict") else "no"
        runs = runs_of(name, records, suites)
        for label, found in (runs or {name: []}).items():
            title = f"{{class}}`~coterie{room}.{name}`" + ("" if label == name else f", {label}")
            rows.append((title, facts.cost, known, facts.missing, facts.good_at, *(means(found) or ("", "", ""))))
    header = ("method", "time in n", "`predict`", "missing views", "good at", "ACC", "NMI", "s")
    return Table("Which method when", header, tuple(rows))


def all_peers_sentence(lines: Sequence[Line]) -> str:
    """Return a sentence on the time that all methods took on UCI's digits in the last run.

    Examples
    --------
    >>> all_peers_sentence([{"methods": 36, "cores": 2, "seconds": 330.0, "cpu_seconds": 540.0}])
    'All 36 methods, fitted once in one run on 2 cores, took 5.5 minutes (9.0 minutes of the processor).'
    """
    last = lines[-1]
    wall, busy = (f"{last[name] / 60:.1f} minutes" for name in ("seconds", "cpu_seconds"))
    shared = " that others used too" if last["seconds"] * last["cores"] > 2 * last["cpu_seconds"] else ""
    run = f"All {last['methods']} methods, fitted once in one run on {last['cores']} cores{shared}"
    return f"{run}, took {wall} ({busy} of the processor)."


def best_peers(suites: Sequence[Line]) -> Table:
    """Return the peer with the highest NMI on each set of the leaderboard."""
    own = [dict(r) for r in suites if r["method"] != COTERIE.name and not SINGLE_VIEW.fullmatch(r["method"])]
    cells = summarise(own, "NMI")
    rows = []
    for data in (data for data in SUITES["leaderboard"].data if data not in SYNTHETIC):
        found = {method: cell.mean for (method, name), cell in cells.items() if name == data}
        if found:
            best = max(found, key=found.__getitem__)
            rows.append((DATA[data].title, best, f"{found[best]:.3f}", str(len(found))))
    return Table("The best peer of each set", ("data", "peer with the highest NMI", "NMI", "of how many"), tuple(rows))


def runs_of(name: str, records: Sequence[Line], suites: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the runs of a method by kind, from the results that have more of them."""
    own, more = own_runs(name, records), suite_runs(name, suites)
    return {label: max(own.get(label, []), more.get(label, []), key=len) for label in {**own, **more}}


def own_runs(name: str, records: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the runs of a method by kind, whose records are named "Class, kind"; the last run of each seed."""
    kept = [r for r in records if r["data"] == "uci" and r["note"] in USUAL and not r.get("params")]
    kept = last_of(kept, "method", "seed")
    found = {}
    for method in dict.fromkeys(r["method"] for r in kept):
        owner, _, kind = method.partition(", ")
        if owner == name:
            found[kind or SEVERAL_KINDS.get(name, name)] = [r for r in kept if r["method"] == method]
    return found


def suite_runs(name: str, suites: Sequence[Line]) -> dict[str, list[Line]]:
    """Return the runs of a method by kind from the suites' records: all views, all rows, in shuffled order.

    Only the last run of each seed is returned.
    """
    kept: dict[str, dict[int, Line]] = {}
    for record in suites:
        settings = record["settings"]
        whole = settings.get("rows") is None and settings.get("view") is None and "failed" not in record
        if record["data"] == "uci" and whole and settings["estimator"] == name and settings.get("order") == "shuffled":
            default = SEVERAL_KINDS.get(name, name)
            label = settings.get("kind") or settings.get("scaling", default) if name in SEVERAL_KINDS else name
            run = {"acc": record["ACC"], "nmi": record["NMI"], **record}
            kept.setdefault(label, {})[record["seed"]] = run
    return {label: list(runs.values()) for label, runs in kept.items()}


def means(records: Sequence[Line]) -> tuple[str, str, str] | None:
    """Return the mean ACC, NMI and seconds over runs as text; None if there are no runs."""
    if not records:
        return None
    acc, nmi, taken = (fmean(map(figure, records)) for figure in (accuracy, information, seconds))
    return f"{acc:.3f}", f"{nmi:.3f}", f"{taken:.1f}"


def accuracy(record: Line) -> float:
    return float(record["acc"])


def information(record: Line) -> float:
    return float(record["nmi"])


def seconds(record: Line) -> float:
    """Return the processor seconds if they were recorded, else the wall-clock seconds."""
    return float(record.get("cpu_seconds", record["seconds"]))


def reported(records: Sequence[Line], suites: Sequence[Line]) -> Table:
    """Return published figures beside runs measured in the same way, and beside defaults on shuffled rows."""
    rows = []
    for method, known in PUBLISHED.items():
        name, _, kind = method.partition(", ")
        same = [r for r in records if (r["method"], r["data"]) == (method, "uci") and r["note"] in known.notes]
        usual = runs_of(name, records, suites).get(kind or name, [])
        apart = max(abs(fmean(map(accuracy, same)) - known.acc), abs(fmean(map(information, same)) - known.nmi))
        ours = (show_pair(same), f"{apart:.3f}", show_pair(usual))
        rows.append((method, f"{as_published(known.acc)} / {as_published(known.nmi)}", known.how, *ours))
    header = ("method", "published ACC / NMI", "measured as", "here", "apart by", "here, defaults, shuffled")
    return Table("What others report for UCI's digits", header, tuple(rows))


def as_published(figure: float) -> str:
    """Return a figure with the three or four decimals of its publication.

    Examples
    --------
    >>> as_published(0.8), as_published(0.9345)
    ('0.800', '0.9345')
    """
    return f"{figure:.4f}".removesuffix("0")


def show_pair(records: Sequence[Line]) -> str:
    """Return "ACC / NMI", means over seeds."""
    found = means(records)
    return "" if found is None else f"{found[0]} / {found[1]}"


def fastmice_table(records: Iterable[Line]) -> Table:
    """Return FastMICE on several sets beside a prototype of it, with the range of single seeds."""
    own = [r for r in records if r["method"] == "FastMICE" and r["note"] in USUAL and not r.get("params")]
    own = last_of(own, "data", "seed")
    rows = []
    for data, (acc, nmi) in PROTOTYPE.items():
        found = [r for r in own if r["data"] == data]
        scores = sorted(map(accuracy, found))
        span = f"{scores[0]:.3f} to {scores[-1]:.3f}"
        rows.append((DATA[data].title, f"{acc:.3f} / {nmi:.3f}", show_pair(found), str(len(found)), span))
    header = ("data", "prototype ACC / NMI", "here", "seeds", "ACC of single seeds")
    return Table("FastMICE beside a prototype", header, tuple(rows))
