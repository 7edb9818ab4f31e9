"""What the figures of compare.py say: the targets, and all of it as tables."""

import collections
import statistics

from asked import BATCHES, CPP, GROWTH, HANDOVERS, LARGE, LARGE_FROM, LEAT, OF_TORCH, ROWS, SMALL
from judging import Target, best_of, columns, notes_on, rate


def best_peer(programs):
    """(rate, "name variant") of the fastest; (None, None) where there is none."""
    found = {f"{name} {how}": median for name, variants in programs.items() if name not in (CPP, LEAT)
             for median, how in [best_of(variants)] if median}
    who = max(found, key=found.get, default=None)
    return found.get(who), who


def on_threads(variants):
    return {name: of for name, of in variants.items() if "/thread" in name}


def targets_of_row(row, programs):
    ours, how = best_of(programs.get(LEAT, {}))
    for what, of in (("the C++ loop on a thread, as Python's is", on_threads(programs.get(CPP, {}))),
                     ("the C++ loop on a thread or a fiber", programs.get(CPP, {}))):
        cpp, by = best_of(of)
        batch = BATCHES[row.problem] / cpp if cpp else None
        is_large = row not in LARGE or batch is None or batch >= LARGE_FROM
        note = (f"{how} against {by}, {batch * 1e6:.0f} us a batch" if ours and cpp
                else f"no figure of {CPP if ours else LEAT}")
        if not is_large:
            note += f": a batch is to take {LARGE_FROM * 1e3:g} ms at least"
        yield Target(f"{row.problem}, to {what}", row.ratio, ours / cpp if ours and cpp else None, True, "x",
                     judged=is_large, note=note)
    peer, who = best_peer(programs)
    yield Target(f"{row.problem}, to the best peer", 1, ours / peer if ours and peer else None, True, "x",
                 judged=row is SMALL and (peer is not None or ours is None),
                 note=f"against {who}" if who else "no peer")


def targets_of(values, handover, memory):
    targets = []
    for row in ROWS:
        if row.problem in values:
            targets += targets_of_row(row, values[row.problem])
    for way, most in HANDOVERS.items():
        if handover is not None and most is not None:
            of = handover.get(way)
            ours = statistics.median(of["p50_us"]) if of else None
            torch = min((statistics.median(handover[one]["p50_us"]) for one in ("torch_1", "torch_2")
                         if one in handover), default=None)
            targets.append(Target(f"a ready batch, {way}, p50", most, ours, False, " us"))
            targets.append(Target(f"a ready batch, {way}, p50, to PyTorch's loader", OF_TORCH,
                                  ours / torch if ours and torch else None, False, "x", judged=torch is not None))
    for what, of in (memory or {}).items():
        growth = [late / early for early, late in zip(of["early_rss"], of["late_rss"])]
        targets.append(Target(f"memory, {what}, last epoch over the fifth", GROWTH,
                              statistics.median(growth) if growth else None, False, "x"))
    return targets


def medians(values, handover, memory):
    """Of each row, for the summary: row -> contestant -> its best variant's median."""
    rows = [{"row": problem, "median": {name: median for name, variants in programs.items()
                                        for median, _ in [best_of(variants)] if median}}
            for problem, programs in values.items()]
    rows += [{"row": f"handover/{way}", "median": {key: statistics.median(of[key]) for key in of if of[key]}}
             for way, of in (handover or {}).items()]
    return rows + [{"row": f"memory/{what}",
                    "median": {key: statistics.median(of[key]) for key in of if of[key]}}
                   for what, of in (memory or {}).items()]


def span(of, show):
    return f"{show(min(of))}..{show(max(of))}"


def print_values(values, out):
    notes = {}
    for problem, programs in values.items():
        best, _ = best_of(programs.get(LEAT, {}))
        lines = [[f"{problem}, samples/s", "median", "min..max", "runs", "a batch", "leat's best is", ""]]
        for program, variants in programs.items():
            for variant, of in sorted(variants.items(), key=lambda item: (-len(item[1]),
                                                                          -statistics.median(item[1]))):
                median = statistics.median(of)
                mark = " ".join(f"*{notes.setdefault(note, len(notes) + 1)}"
                                for note in notes_on(program, problem, variant))
                lines.append([f"{program} {variant}", rate(median), span(of, rate), str(len(of)),
                              f"{BATCHES[problem] / median * 1e6:.4g} us",
                              f"{best / median:.2f}x" if best else "-", mark])
        columns(lines, out)
    for note, number in notes.items():
        print(f"*{number} {note}", file=out)
    if notes:
        print(file=out)


def print_counters(what, found, unit, out):
    """A line for each entry; medians over the rounds, and the first counter's span."""
    if not found:
        return
    names = list(next(iter(found.values())))
    lines = [[what, *names, f"{names[0]}, min..max", "runs", ""]]
    for name, of in found.items():
        lines.append([name, *(f"{statistics.median(of[key]) / unit:.4g}" for key in names),
                      span(of[names[0]], lambda value: f"{value / unit:.4g}"), str(len(of[names[0]])), ""])
    columns(lines, out)


def print_report(facts, values, handover, memory, failures, out):
    for key, value in facts.items():
        print(f"{key}: {value}", file=out)
    print(file=out)
    print_values(values, out)
    print_counters("a ready batch, host time", handover, 1, out)
    print_counters("memory, MB", {what: {key: of[key] for key in of if key.endswith(("rss", "anon"))}
                                  for what, of in (memory or {}).items()}, 1e6, out)
    targets = targets_of(values, handover, memory)
    columns([["target", "asked", "reached", ""]] + [target.line for target in targets], out)
    for what, why in failures.items():
        print(f"failed: {what}: {why}", file=out)
    counts = collections.Counter(target.verdict for target in targets)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), file=out)
    return targets
