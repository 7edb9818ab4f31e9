"""Programs in turns, each as often as the others."""

import itertools
import sys

from programs import Failed
from rows import INLINE, QUICK


def measure(rows, programs, rounds, seconds, limit, quick, smoke):
    """problem -> program -> variant -> values, and what failed. All variants run once (smoke: all of
    the first row, and one of each other row); then each program's best ones, until they have run
    `rounds` times. Programs take turns, another one first each time, so what slows the machine for a
    while slows all of them."""
    values = {row.problem: {program.name: {} for program in programs} for row in rows}
    failures = {}

    def run(program, problem, variant):
        if sys.stderr.isatty():
            print(f"\r{problem}, {program.name} {variant}\033[K", end="", file=sys.stderr)
        try:
            figure = program.run(problem, variant, seconds, limit)
        except Failed as failure:
            failures[f"{program.name} {problem} {variant}"] = str(failure)
            values[problem][program.name].pop(variant, None)
            return
        values[problem][program.name].setdefault(variant, []).append(figure)

    for number, row in enumerate(rows):
        for program in programs:
            variants = program.variants.get(row.problem, [])
            if smoke and number > 0:
                variants = variants[number % len(variants):][:1]
            for variant in variants:
                if program.is_leat or not (quick or row.few) or QUICK.match(variant):
                    run(program, row.problem, variant)
    for turn in range(1, rounds):
        first = turn % len(programs)
        for row in rows:
            runs = []  # of each program; the same variant of two builds of Leat come one after the other
            for program in programs[first:] + programs[:first]:
                of = values[row.problem][program.name]
                best = sorted(of, key=lambda variant: -of[variant][0])
                ahead = [variant for variant in best if not INLINE.fullmatch(variant)]
                like = [variant for variant in best if row.like.fullmatch(variant)]
                going_on = best[:program.finalists] + ahead[:1] + like[:1]
                if row.alone and not program.is_leat:
                    going_on = best[:1]
                runs.append([(program, variant) for variant in sorted(set(going_on))])
            for program, variant in filter(None, itertools.chain(*itertools.zip_longest(*runs))):
                run(program, row.problem, variant)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return values, failures
