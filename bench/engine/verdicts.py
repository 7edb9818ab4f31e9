"""What is asked of figures. All of them are values: row -> contestant -> one of each round."""

import collections
import dataclasses
import re
import statistics

NOT_SLOWER_THAN = 1.03  # times another build of Leat


def median(values, row, name):
    """None where there is no figure."""
    of = values.get(row, {}).get(name)
    return statistics.median(of) if of else None


def ratio(one, other):
    """None where a figure is missing, or there is nothing to divide by."""
    return None if one is None or other is None or other <= 0 else one / other


def number(value):
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


@dataclasses.dataclass
class Target:
    """`reached`: None where it was not measured. `at_least`: on which side `bound` lies. What nobody is there to be
    compared with is not judged."""

    what: str
    bound: float
    reached: float
    at_least: bool = False
    unit: str = ""
    judged: bool = True
    note: str = ""

    @property
    def verdict(self):
        if not self.judged:
            return "not judged"
        if self.reached is None:
            return "NOT MEASURED"
        return "met" if (self.reached >= self.bound if self.at_least else self.reached <= self.bound) else "MISSED"

    def show(self, value):
        if value is None:
            return "-"
        return number(value) + (self.unit if self.unit in ("", "x") else " " + self.unit)

    @property
    def line(self):
        return [self.what, (">= " if self.at_least else "<= ") + self.show(self.bound), self.show(self.reached),
                self.verdict + (f" ({self.note})" if self.note else "")]

    @property
    def json(self):
        return {**dataclasses.asdict(self), "verdict": self.verdict}


def compared(what, bound, reached, at_least=False, unit="", note=""):
    """A target of figures that may be somebody else's: not judged where one is missing."""
    return Target(what, bound, reached, at_least, unit, reached is not None, note)


@dataclasses.dataclass
class Requirement:
    """What is asked of the rows that match: of a contestant's figure, or of its ratio to another's: "openmpi|gloo / mpi" is
    the least of two to a third."""

    rows: str
    of: str
    bound: float
    at_least: bool = False
    scale: float = 1
    unit: str = ""

    def judge(self, values):
        """Nothing where nobody has run that it is about."""
        parts = [part.split("|") for part in self.of.split(" / ")]
        if not any(set(of) & set(parts[0]) for of in values.values()):
            return
        for row in values:
            if re.fullmatch(self.rows, row):
                figures = [{name: figure for name in names for figure in [median(values, row, name)] if figure}
                           for names in parts]
                least = [min(found.values(), default=None) for found in figures]
                who = min(figures[0], key=figures[0].get, default="") if len(parts[0]) > 1 else ""
                yield compared(f"{row}: {'the best of the others' if who else parts[0][0]}"
                               + "".join(f" / {part[0]}" for part in parts[1:]), self.bound,
                               ratio(least[0], least[1] if least[1:] else self.scale), self.at_least,
                               self.unit or ("x" if least[1:] else ""), who)


def base_of(name):
    """The name of that contestant in another build of Leat."""
    return "base" + name[len("leat"):] if name.split(" ")[0] == "leat" else f"base {name}"


def against_base(values, is_rate):
    """Leat's figures to those of another build in the same rounds, where both have them. Slower is what both the medians
    and the best of the rounds call slower: one alone is what a disturbed round makes of it."""
    for row, of in values.items():
        best = max if is_rate(row) else min
        for name, ours in of.items():
            base = of.get(base_of(name))
            if not (ours and base):
                continue
            medians, bests = ratio(statistics.median(ours), statistics.median(base)), ratio(best(ours), best(base))
            if medians is not None and bests is not None:
                yield Target(" ".join([row, *name.split(" ")[name.startswith("leat"):]]) + ", to base",
                             1 / NOT_SLOWER_THAN if is_rate(row) else NOT_SLOWER_THAN, best(medians, bests),
                             is_rate(row), "x", note=f"medians {medians:.3f}x, best of the rounds {bests:.3f}x")


def counted(targets):
    counts = collections.Counter(target.verdict for target in targets)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("met", "MISSED", "not judged", "NOT MEASURED")
                     if counts[verdict] or verdict in ("met", "MISSED"))
