"""Results -> tables of the pages on the method and its graphs: bases, numbers of rounds, and landmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data import DATA
from benchmarks.tables import Table
from coterie.method.candidates import Candidate, choose, should_continue
from coterie.settings import CHECKED_ROUNDS

Line = Mapping[str, Any]
Rule = Callable[[Line], float]

# The sets of the comparison that are neither thinned to unequal sizes, nor noise, nor synthetic shapes.
EQUAL = (
    *("bbcsport", "scene15", "wine", "iris", "cancer", "usps", "citeseer", "reuters_600", "nus6", "mnist4"),
    *("hw2sources", "mnist20", "digits", "reuters_1200", "uci", "100leaves", "reuters_600_lsa", "reuters_1200_lsa"),
)
KINDS = ("equal", "unequal", "shapes", "noise")

# The rule of an earlier version: a row's own label was used in predicting it, and views were averaged.
EARLIER_LEAD = 0.005
EARLIER_SHARE = 0.7


@dataclass(frozen=True)
class Measured(Candidate):
    """A candidate restored from recorded figures, without its embedding."""

    ari: float = 0.0
    known_entropy: float = 0.0

    @property
    def entropy(self) -> float:
        return self.known_entropy


def kind_of(data: str) -> str:
    """Return the column of the comparison to which a set belongs."""
    if data in EQUAL:
        return "equal"
    if data.startswith(("zipf_", "citeseq")):
        return "unequal"
    return "noise" if data.startswith(("white", "corr")) else "shapes"


def bases_table(lines: Sequence[Line]) -> Table:
    """Return the mean ARI of rules for choosing a basis and its number of rounds, by kind of data."""
    rules: dict[str, Rule] = {
        'always "diffusion", two rounds': after("diffusion", 2),
        'always "commute", five': after("commute", 5),
        'always "islands", five; "diffusion" where all is text': after("islands", 5),
        "the first two alone, two and five rounds, by agreement": first_two,
        "the mean over views, each row's own label included": earlier_rule,
        "**the rule above**": todays_rule,
        "the best of the three at any round, by labels": best_by_labels,
    }
    groups = {kind: [line for line in lines if kind_of(line["data"]) == kind] for kind in KINDS}
    rows = tuple(
        (name, *(f"{mean_over_sets(groups[kind], rule):.3f}" for kind in KINDS)) for name, rule in rules.items()
    )
    header = ("chosen by", *(f"{kind} ({len({line['data'] for line in own})})" for kind, own in groups.items()))
    shapes = groups["shapes"]
    worst = [min(rule(line) for line in shapes) for rule in (first_two, todays_rule)]
    seeds = {line["seed"] for line in lines}
    note = (
        f"Mean ARI; in brackets how many sets, {'one' if len(seeds) == 1 else f'1 to {len(seeds)}'} seeds each. "
        f"The worst of the shapes has {worst[0]:.2f} with the first two bases alone, and {worst[1]:.2f} by the rule."
    )
    return Table("Mean ARI by basis", header, rows, (note,))


def bases_of(line: Line) -> list[str]:
    """Return the candidate bases; only "diffusion" for data that are all text, where "islands" was not measured."""
    return list(CHECKED_ROUNDS) if "islands" in line else ["diffusion"]


def after(basis: str, rounds: int) -> Rule:
    """Return the rule that always takes one basis after a number of rounds."""
    return lambda line: figures(line, basis if basis in line else "diffusion", rounds)["ari"]


def figures(line: Line, basis: str, rounds: int) -> Mapping[str, Any]:
    """Return the figures after ``rounds`` rounds, or after the last one if the fit converged earlier."""
    return line[basis][str(max(int(number) for number in line[basis] if int(number) <= rounds))]


def first_two(line: Line) -> float:
    """Return the ARI of "diffusion" after two rounds or "commute" after five, chosen by the current rule."""
    return chosen([measured(line, "diffusion", 2), measured(line, "commute", 5)])


def todays_rule(line: Line) -> float:
    """Return the ARI of the basis that the package's current rule chooses by these figures."""
    return chosen([after_its_rounds(line, basis) for basis in bases_of(line)])


def earlier_rule(line: Line) -> float:
    """Return the ARI of the basis that an earlier version's rule chooses."""
    best = after_its_rounds(line, "diffusion", "own_labels_too")
    for basis in bases_of(line)[1:]:
        other = after_its_rounds(line, basis, "own_labels_too")
        lead = EARLIER_LEAD if basis == "commute" else (1 - EARLIER_SHARE) * (1 - best.agreement)
        best = other if other.agreement > best.agreement + (0.2 if other.is_splintered(best) else lead) else best
    return best.ari


def after_its_rounds(line: Line, basis: str, figure: str = "agreements") -> Measured:
    """Return the candidate with the highest agreement among the numbers of rounds that the package would try."""
    found: list[Measured] = []
    for rounds in CHECKED_ROUNDS[basis]:
        found.append(measured(line, basis, rounds, figure))
        if not should_continue(basis, [candidate.agreement for candidate in found]):
            break
    return max(found, key=lambda candidate: candidate.agreement)


def best_by_labels(line: Line) -> float:
    """Return the highest ARI of all candidates, which cannot be chosen without known labels."""
    return max(found["ari"] for basis in CHECKED_ROUNDS if basis in line for found in line[basis].values())


def measured(line: Line, basis: str, rounds: int, figure: str = "agreements") -> Measured:
    """Return a basis after some rounds as a candidate."""
    found = figures(line, basis, rounds)
    none: Any = None
    return Measured(
        basis,
        rounds,
        np.array(found[figure]),
        np.empty(0, int),
        none,
        ari=found["ari"],
        known_entropy=found["entropy"],
    )


def chosen(candidates: Sequence[Measured]) -> float:
    """Return the ARI of the candidate that the package chooses."""
    best = choose(candidates)
    assert isinstance(best, Measured)
    return best.ari


def mean_over_sets(lines: Sequence[Line], figure: Rule) -> float:
    """Return the mean over sets of the mean over seeds."""
    sets: dict[str, list[float]] = {}
    for line in lines:
        sets.setdefault(line["data"], []).append(figure(line))
    return float(np.mean([np.mean(values) for values in sets.values()]))


def means_table(lines: Sequence[Line], shown: int = 4) -> Table:
    """Return the ARI with medoids and with means as landmarks: the mean over sets, and the sets that change most."""
    bases = ("diffusion", "commute")

    def pair(figure: Callable[[str], float]) -> tuple[str, ...]:
        return tuple(f"{figure(f'{basis}, {kind}'):.3f}" for basis in bases for kind in ("medoids", "means"))

    sets = list(dict.fromkeys(line["data"] for line in lines))
    rows = [(f"mean over {len(sets)} sets", *pair(lambda name: mean_over_sets(lines, five(name))))]
    own = {data: [line for line in lines if line["data"] == data] for data in sets}
    gains = {
        data: sum(
            mean_over_sets(own[data], five(f"{b}, means")) - mean_over_sets(own[data], five(f"{b}, medoids"))
            for b in bases
        )
        for data in sets
    }
    ranked = sorted(gains, key=gains.__getitem__)
    for data in (*ranked[: -shown - 1 : -1], *reversed(ranked[:2])):
        rows.append((SETS.get(data, data), *pair(lambda name, data=data: mean_over_sets(own[data], five(name)))))  # type: ignore[misc]
    header = ("data", *(f'"{basis}", {kind}' for basis in bases for kind in ("medoids", "means")))
    note = f"ARI after five rounds; the {shown} sets that gain most and the two that lose most or gain least."
    return Table("Medoids and means as landmarks", header, tuple(rows), (note,))


def five(name: str) -> Rule:
    """Return the rule that takes the figures recorded under a name, after five rounds."""
    return lambda line: line[name]["5"]["ari"]


# Titles of the sets in the comparison of landmarks.
SETS = {
    "mnist20": "MNIST, 20,000 rows",
    "mnist4": "MNIST, 4 classes",
    "zipf_mnist20": "MNIST, 20,000 rows, 1/rank",
    "usps": "USPS",
    "zipf_usps": "USPS, 1/rank",
    "citeseer": "Citeseer",
    "citeseq5": "cells, 5 types",
    "citeseq10": "cells, 10 types",
    "scene15": "Scene-15",
    "nus6": "NUS-like, 6,000 rows",
    "white_100": "white noise, 64 + 36 columns",
    "corr_100": "correlated noise, 64 + 36 columns",
    "white_300": "white noise, 200 + 100 columns",
    "corr_300": "correlated noise, 200 + 100 columns",
}


def few_landmarks_table(lines: Sequence[Line]) -> Table:
    """Return the mean ARI with up to 1,000 landmarks and with a third of the rows, for sets where that is fewer."""
    few = [line for line in lines if "landmarks_third" in line]
    rows = []
    for basis, rounds in (("diffusion", "2"), ("commute", "5")):
        for kind in KINDS[:3]:
            own = [line for line in few if kind_of(line["data"]) == kind]
            figures = (
                mean_over_sets(own, lambda line, name=name, rounds=rounds: line[name][rounds]["ari"])  # type: ignore[misc]
                for name in (basis, f"{basis}, a third of the landmarks")
            )
            sets = len({line["data"] for line in own})
            rows.append((f'"{basis}", {rounds} rounds, {kind} ({sets})', *(f"{figure:.3f}" for figure in figures)))
    return Table(
        "A third of the rows as landmarks", ("mean ARI", "up to 1,000 landmarks", "a third of the rows"), tuple(rows)
    )


def shapes_sentence(lines: Sequence[Line]) -> str:
    """Return a sentence on the results on held-out shapes, whose seed was not used for any choice."""
    mean = {
        name: np.mean([line[name] for line in lines])
        for name in ("Coterie", "k-means, best of two scalings", "as published")
    }
    better = mean["k-means, best of two scalings"]
    return (
        f"On {len({line['data'] for line in lines})} shapes of another kind, with a seed that nothing was chosen by "
        "(anisotropic, heavy-tailed, curved, nested, binary, counts, embeddings, junk; mostly of unequal size), the "
        f"mean ARI is {mean['Coterie']:.3f}, that of the better of two k-means {better:.3f}, "
        f"and as published {mean['as published']:.3f}."
    )


def many_clusters_table(lines: Sequence[Line]) -> Table:
    """Return mean NMI, ARI and core seconds before and after the changes for many clusters."""
    rows = []
    for data in dict.fromkeys(line["data"] for line in lines):
        own = [line for line in lines if line["data"] == data]
        pairs = [[line for line in own if line["code"] == when] for when in ("before", "after")]
        if not all(pairs):
            continue
        shown = (
            f"{np.mean([line[name] for line in found]):{form}}"
            for name, form in (("NMI", ".3f"), ("ARI", ".3f"), ("cpu_seconds", ".1f"))
            for found in pairs
        )
        rows.append((DATA[data].title if data in DATA else data, str(own[0]["clusters"]), *shown))
    header = (
        "data",
        "clusters",
        *(f"{name}, {when}" for name in ("NMI", "ARI", "seconds") for when in ("before", "after")),
    )
    return Table("Fewer scales, vectors and runs where clusters are many", header, tuple(rows))
