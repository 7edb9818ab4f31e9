"""./run bench gpu: a device's link, waiting for it, and the cost of events. bench/gpu/README.md says what is measured."""

import json
import pathlib
import tempfile

from engine.programs import Failed, execute
from engine.suite import Run, Suite as Base
from engine.tables import matrix
from engine.verdicts import Target, median, ratio

PROGRAMS = ("link", "await", "events")
REPEATED = {"await": 5, "events": 3}  # rows that are compared with each other take turns
PINNED = ("pinned", "write_combined", "arena", "memfd")
LINKS = [f"{direction} {kind}" for direction in ("h2d", "d2h") for kind in ("pageable", *PINNED)]
SLOT = 4 << 20  # bytes from which the arena's targets count
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}
CONTEXT = ("device", "description", "cuda", "numa_node", "copy_engines", "arena", "memfd", "num_cpus", "date")
# What none of them may do for an operation: counters.
HEAP, DEVICE = ("heap_per_op",), ("device_per_op", "pinned_per_op", "events_per_op")
COUNTERS = {"await": ("p50_us", "p99_us", "cpu"), "events": ("leat_ns", "raw_ns", "ratio")}


def size_of(name):
    return next((int(name[:-len(unit)]) * factor for unit, factor in UNITS.items() if name.endswith(unit)), 0)


class Suite(Base):
    about = "What bench/gpu measures of a device."
    rounds = {"": 1}
    quick = "whether it works, in seconds"
    builds = tuple(f"bench_gpu_{program}" for program in PROGRAMS)

    def add_options(self, add):
        add("--device", default="auto", help="auto, cuda:N or host:N")

    def sections(self, bench):
        group = [Run("leat", program, lambda program=program: self.run(bench, program)) for program in PROGRAMS]
        yield lambda turn: [group]

    def run(self, bench, program):
        with tempfile.TemporaryDirectory() as folder:
            out, options = pathlib.Path(folder, "out.json"), bench.options
            command = [options.programs / f"bench_gpu_{program}", f"--device={options.device}",
                       f"--benchmark_out={out}", "--benchmark_out_format=json"]
            if options.quick:
                command.append("--quick")
            if program in REPEATED:
                command += [f"--benchmark_repetitions={1 if options.quick else REPEATED[program]}",
                            "--benchmark_enable_random_interleaving=true"]
            failure = None
            try:
                execute(command, options.limit * 3)
            except Failed as failed:  # of a row: what the others have written counts
                failure = failed
            if not out.exists() or not out.read_text().strip():  # it has not begun: no such device, most likely
                raise failure or Failed("it has written nothing")
            self.take(bench, program, out.read_text())
            if failure:
                bench.failures[f"leat, {program}"] = str(failure)
        return {}

    def take(self, bench, program, text):
        """The rows of what Google Benchmark has written."""
        try:
            written = json.loads(text)
            context, rows = written["context"], written["benchmarks"]
        except (ValueError, KeyError):
            bench.failures[f"leat, {program}"] = "what it has written is not complete"
            return
        bench.facts |= {key: context[key] for key in CONTEXT if key in context}
        for one in rows:
            name = one["name"].split("/iterations:")[0]
            if one.get("run_type") == "aggregate":
                continue
            if one.get("error_occurred"):
                bench.failures[f"leat, {program} {name}"] = one["error_message"]
                continue
            if one.get("label"):
                bench.facts[name.split("/")[-1].replace("_", " ")] = one["label"]
            figures = {counter: one[counter] for counter in COUNTERS.get(program, ()) if counter in one}
            row = f"{program}: {name}"
            if program == "link" and "GB_per_s" in one:
                direction, kind, size, load = name.split("/")
                row, figures = f"link {load}: {size}", {f"{direction} {kind}": one["GB_per_s"]}
            for at, found in ((row, figures), ("allocations", {key: one[key] for key in HEAP + DEVICE if key in one})):
                for column, figure in found.items():
                    bench.values.setdefault(at, {}).setdefault(column, []).append(figure)

    def targets(self, values, facts):
        """On the host device nothing is judged but allocations: it is the same code above the seam."""
        gpu, found = facts.get("device", "").startswith("cuda"), []

        def add(what, bound, reached, at_least=False, unit="", judged=gpu):
            found.append(Target(what, bound, reached, at_least, unit, judged))

        def shares(load):
            """The worst of the arena's slots against the best figure that pinned memory gave, alone."""
            rates = {(row, kind): median(values, row, f"h2d {kind}") for row in values for kind in PINNED}
            best = max((rate for (row, _), rate in rates.items() if rate and row.startswith("link alone")), default=None)
            return min((ratio(rate, best) for (row, kind), rate in rates.items() if best and rate and kind == "arena"
                        and row.startswith(f"link {load}: ") and size_of(row.split(": ")[1]) >= SLOT), default=None)

        def to_pinned():
            """The worst slot of a memfd, to cudaHostAlloc's of that size."""
            found = [ratio(median(values, row, "h2d memfd"), median(values, row, "h2d pinned")) for row in values
                     if row.startswith("link alone: ") and size_of(row.split(": ")[1]) >= SLOT]
            return min(filter(None, found), default=None)

        def beyond(how, duration):
            one, sync = (median(values, f"await: {name}/{duration}", "p50_us") for name in (how, "sync"))
            return None if one is None or sync is None else one - sync

        def most(counters):
            return max((max(of) for name, of in values.get("allocations", {}).items() if name in counters), default=None)

        if any(row.startswith("link") for row in values):
            add("H2D from the arena, slots >= 4 MiB / best pinned alone", 0.98, shares("alone"), True)
            add("the same under compute", 0.95, shares("under_compute"), True)
            add("H2D from a memfd, slots >= 4 MiB / cudaHostAlloc's of that size", 0.98, to_pinned(), True)
        if any(row.startswith("await") for row in values):
            for how in ("await", "on_done"):
                for duration in ("50us", "500us"):
                    add(f"{how} beyond a spinning sync, p50, kernel of {duration}", 10, beyond(how, duration), unit="us")
                add(f"{how}: CPU while nothing completes for 1 s", 0.05, median(values, f"await: {how}/idle", "cpu"),
                    unit="cores")
        if any(row.startswith("events") for row in values):
            for name in ("record_wait", "record", "wait"):
                add(f"{name} through Leat / CUDA's calls", 1.03, median(values, f"events: {name}", "ratio"))
        add("heap allocations for each operation, most", 0, most(HEAP), judged=True)
        add("CUDA allocations and events for each operation, most", 0, most(DEVICE))
        return found

    def tables(self, values, facts, out):
        for start in ("link", "await", "events"):
            heads = dict.fromkeys(row.split(": ")[0] for row in values if row.startswith(start))
            for head in heads:
                title = head.replace("_", " ") + (", GB/s" if start == "link" else "")
                matrix(out, [title], [([row.split(": ")[1]], row, "") for row in values if row.startswith(f"{head}: ")], values,
                       LINKS if start == "link" else None)

    def saved(self, values, facts):
        return {"commit": facts.get("commit"), "machine": {name: facts[name] for name in CONTEXT if name in facts}}
