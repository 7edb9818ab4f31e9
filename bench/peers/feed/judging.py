"""What the figures say: the targets, and all of it as a table."""

import collections
import re
import statistics

from ratios import NOT_SLOWER_THAN, Ratios
from rows import INLINE, LATENCIES, NOTES, ROWS


def best_of(variants):
    """(median, name) of the fastest variant; (None, None) without one. Of those that ran in the
    first round alone, one that was lucky there does not count."""
    most = max((len(of) for of in variants.values()), default=0)
    medians = {name: statistics.median(of) for name, of in variants.items() if len(of) == most}
    name = max(medians, key=medians.get, default=None)
    return medians.get(name), name


class Target:
    """`reached` is None where it was not measured; `at_least` says on which side `bound` lies.
    What nobody is there to be compared with is not judged."""

    def __init__(self, what, bound, reached, at_least, unit, judged=True, note=""):
        self.what, self.bound, self.reached = what, bound, reached
        self.at_least, self.unit, self.judged, self.note = at_least, unit, judged, note

    @property
    def verdict(self):
        if not self.judged:
            return "not judged"
        if self.reached is None:
            return "NOT MEASURED"
        met = self.reached >= self.bound if self.at_least else self.reached <= self.bound
        return "met" if met else "MISSED"

    def show(self, value):
        if value is None:
            return "-"
        if self.unit == " us" and self.bound >= 1e3:
            return f"{value / 1e3:.3g} ms"
        return f"{value:.3g}{self.unit}"

    @property
    def line(self):
        return [self.what, (">= " if self.at_least else "<= ") + self.show(self.bound),
                self.show(self.reached), self.verdict + (f" ({self.note})" if self.note else "")]

    @property
    def json(self):
        return {"what": self.what, "bound": self.bound, "at_least": self.at_least,
                "reached": self.reached, "unit": self.unit, "verdict": self.verdict,
                "note": self.note}


def ratio_of(row, values, what, counts, judged):
    """To the best of the peers' variants that count."""
    ours, how = best_of(values[row.problem].get("leat", {}))
    others = {}
    for name, variants in values.get(row.against, {}).items():
        fastest, variant = best_of({one: of for one, of in variants.items() if counts(one)})
        if name not in ("leat", "base") and fastest:
            others[name] = fastest, variant
    who = max(others, key=lambda name: others[name][0], default=None)
    reached = ours / others[who][0] if ours and who else None
    note = f"{how} against {who} {others[who][1]}" if reached else "no peer"
    if ours is None:
        note = "leat has no such benchmark, or it failed"
    return Target(f"{row.problem}, to {what}", row.ratio, reached, True, "x",
                  judged=judged and (who is not None or ours is None), note=note)


def against_base(values):
    """Of each variant that the other build has as well: times of both, hence rates of that to this."""
    targets = []
    for problem, programs in values.items():
        for variant, of in programs.get("leat", {}).items():
            base = programs.get("base", {}).get(variant)
            if base:
                ratios = Ratios([1 / rate for rate in of], [1 / rate for rate in base])
                medians, least = 1 / ratios.medians, 1 / ratios.least
                targets.append(Target(f"{problem} {variant}, to base", 1 / NOT_SLOWER_THAN,
                                      max(medians, least), True, "x",
                                      note=f"medians {medians:.3f}x, least times {least:.3f}x"))
    return targets


def targets_of(values, latencies):
    targets = against_base(values)
    for row in ROWS:
        if row.problem not in values or row.ratio is None or set(values[row.problem]) == {"leat", "base"}:
            continue
        best = f"the best peer's {row.against}"
        targets.append(ratio_of(row, values, best + (f", {row.likeness}" if row.likeness else ""),
                                row.like.fullmatch, True))
        targets.append(ratio_of(row, values, "the best that reads ahead, as leat does",
                                lambda one, row=row: row.like.fullmatch(one)
                                and not INLINE.fullmatch(one), False))
        if row.likeness:
            targets.append(ratio_of(row, values, f"{best}, {row.likeness} or not",
                                    lambda one: True, False))
    for _, name, counter, most in LATENCIES:
        if latencies is not None:
            reached = latencies.get(name, {}).get(counter)
            targets.append(Target(f"{name}, {counter.removesuffix('_us')}", most, reached, False,
                                  " us"))
    return targets


def columns(lines, out):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:])]
        print("  " + "  ".join(cells + [line[-1]]).rstrip(), file=out)
    print(file=out)


def rate(value):
    return f"{value / 1e3:.0f} k" if value >= 1e4 else f"{value:.0f}"


def notes_on(program, problem, variant):
    return [note for programs, problems, variants, note in NOTES
            if re.fullmatch(programs, program) and re.match(problems, problem)
            and re.fullmatch(variants, variant)]


def print_facts(facts, out):
    for key, value in facts.items():
        print(f"{key}: {value}", file=out)
    if facts:
        print(file=out)


def print_end(targets, failures, out):
    columns([["target", "asked", "reached", ""]] + [target.line for target in targets], out)
    for what, why in failures.items():
        print(f"failed: {what}: {why}", file=out)
    counts = collections.Counter(target.verdict for target in targets)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), file=out)


def print_report(facts, values, latencies, failures, out):
    print_facts(facts, out)
    notes = {}
    for problem, programs in values.items():
        ours, _ = best_of(programs.get("leat", {}))
        lines = [[f"{problem}, samples/s", "median", "min..max", "runs", "leat's best is", ""]]
        for program, variants in programs.items():
            for variant, of in sorted(variants.items(),
                                      key=lambda item: (-len(item[1]),
                                                        -statistics.median(item[1]))):
                median = statistics.median(of)
                mark = " ".join(f"*{notes.setdefault(note, len(notes) + 1)}"
                                for note in notes_on(program, problem, variant))
                lines.append([f"{program} {variant}", rate(median),
                              f"{rate(min(of))}..{rate(max(of))}", str(len(of)),
                              f"{ours / median:.2f}x" if ours else "-", mark])
        columns(lines, out)
    for note, number in notes.items():
        print(f"*{number} {note}", file=out)
    if notes:
        print(file=out)
    if latencies:
        names = sorted({key for of in latencies.values() for key in of})
        columns([["host time"] + names + [""]]
                + [[name] + [f"{of[key]:.4g}" if key in of else "-" for key in names] + [""]
                   for name, of in latencies.items()], out)
    targets = targets_of(values, latencies)
    print_end(targets, failures, out)
    return targets
