"""./run bench <folder>/<name> --base FOLDER: one benchmark, of this tree's build and of another, in turns."""

import re

from engine.programs import Failed, google_benchmark, listed
from engine.suite import Refused, Run, Suite as Base
from engine.tables import matrix


class Suite(Base):
    about = "A benchmark's rows in two builds of Leat."
    rounds = {"": 15}
    seconds = {"": 0.1}

    def __init__(self, name):
        super().__init__(name)
        self.base = "bench_" + name.replace("/", "_")
        self.builds = (self.base,)

    def add_options(self, add):
        add("--only", metavar="REGEX", help="the rows whose name matches; --benchmark_list_tests has them all")

    def check(self, options):
        if not options.base and not options.read:
            raise Refused("--base FOLDER is needed; without it, the arguments are those of Google Benchmark")

    def sections(self, bench):
        options, builds = bench.options, {"leat": bench.options.programs, "base": bench.options.base}
        rows = [row for row in listed(options.programs / self.base) if not options.only or re.search(options.only, row)]
        both = [row for row in rows if row in listed(options.base / self.base)]
        if not both:
            raise Failed(f"no row of both builds matches; there are: {' '.join(rows)}")
        bench.facts |= {"rows of one build alone": " ".join(row for row in rows if row not in both) or "none"}

        def run(name, row):
            def figures():
                one = next(iter(google_benchmark(builds[name] / self.base, [re.escape(row)], options.seconds,
                                                 options.limit).values()))
                medians = {key: one[key] for key in one if re.fullmatch("(.*_)?(p50|median)_[nu]s", key)}
                return {row: one["ns"], **{f"{row}, {key[:-3]}": value * (1e3 if key.endswith("us") else 1)
                                           for key, value in medians.items()}}
            return Run(name, row, figures)

        for row in both:
            group = [run(name, row) for name in builds]
            yield lambda turn, group=group: [group]

    def tables(self, values, facts, out):
        matrix(out, [self.base], [([row], row, "ns") for row in values], values, reference="leat")
