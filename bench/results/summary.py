#!/usr/bin/env python3
"""The table of README's section "Results", from the summaries beside this file.

    python3 bench/results/summary.py            prints it
    python3 bench/results/summary.py --write    puts it into README.md, between its two markers
    python3 bench/results/summary.py --check    exit status 1 where README.md has another, or where a
                                                file has more in it than reduce.py keeps
"""

import argparse
import json
import pathlib
import re
import statistics
import sys

sys.dont_write_bytecode = True  # a test leaves nothing in the tree
import reduce  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
MARKERS = ("<!-- results: bench/results/summary.py -->\n", "<!-- /results -->\n")


def read(name):
    return json.loads((HERE / name).read_text())


def link(*names):
    return ", ".join(f"[{name}](bench/results/{name})" for name in names)


def time(seconds):
    for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def at_most(seconds):
    return "0" if seconds == 0 else "at most " + time(seconds)


def overlap_rows():
    name = "overlap_sweep_host.json"
    cells = [(cell, cell["result"]) for cell in read(name)["sweep"] if "result" in cell]
    overlapping = [one for one in cells if one[0]["depth"] >= 2]
    for least, most, what in ((5e-3, 1, "20 and 300 ms"), (9e-4, 5e-3, "1 and 3.5 ms"), (0, 9e-4, "0.5 ms")):
        group = [result for cell, result in overlapping if least <= cell["step"] < most]
        found = [result["overlap_efficiency"] for result in group]
        bubbles = [result["bubble"]["p50"] for result in group]
        yield (f"OE from depth 2 on, steps of {what}, Tx/Tc from 0.1 to 2",
               f"at least {min(found):.3f} (median {statistics.median(found):.3f}); "
               f"bubble p50 {at_most(max(bubbles))}", link(name))
    hardest = {cell["depth"]: result for cell, result in cells if (cell["ratio"], cell["step"]) == (1, 0.02)}
    yield ("Tx = Tc = 20 ms: depth 2 against depth 1, and against the serial loop",
           f"{hardest[1]['t_step'] / hardest[2]['t_step']:.2f} and "
           f"{hardest[2]['t_serial'] / hardest[2]['t_step']:.2f} times as fast", link(name))
    name = "overlap_mlperf_host.json"
    runs = read(name)["runs"]
    yield ("AU, loops of MLPerf Storage's " + ", ".join(run["name"] for run in runs) +
           "; copies in memory, compute modelled, nothing read",
           ", ".join(f"{100 * run['accelerator_utilization']:.1f} %" for run in runs), link(name))


def gpu_rows():
    name = "overlap_mlperf_cuda.json"
    runs = read(name)["runs"]
    gpu = read("gpu.json")
    reached = {target["what"]: target["reached"] for target in gpu["targets"]}
    yield (f"AU of the same loops on one {gpu['machine']['description']}; bubble p50",
           ", ".join(f"{100 * run['accelerator_utilization']:.1f} %" for run in runs) + "; " +
           at_most(max(run["bubble"]["p50"] for run in runs)), link(name))
    yield ("H2D there, slots of 4 MiB and more, against the run's best pinned figure; the same beside cuBLAS",
           "; ".join(f"at least {reached[what]:.3f}" for what in ("H2D from the arena, slots >= 4 MiB / best pinned alone",
                                                                  "the same under compute")), link("gpu.txt"))


def benchmark(name):
    """Of Google Benchmark's table: its medians, by case, as (seconds, counters)."""
    found = {}
    for line in (HERE / name).read_text().splitlines():
        fields = re.match(r"(\S+)_median +([0-9.]+) ns +[0-9.]+ ns +\d+ *(.*)", line)
        if fields:
            counters = dict(pair.split("=") for pair in fields[3].split())
            found[fields[1]] = (float(fields[2]) * 1e-9, counters)
    return found


SCALES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}


def number(text):
    """Of a counter: "5k" is 5000."""
    return float(text[:-1]) * SCALES[text[-1]] if text[-1] in SCALES else float(text)


def bench_rows():
    name = "overlap_bench.txt"
    cases = benchmark(name)
    group = [counters for case, (_, counters) in cases.items()
             if "depth:2/" in case and ("Tc_us:5000" in case or "Tx_us:5000" in case)]
    yield ("benchmark of the loop, depth 2, steps of 5 ms, kernels that are modelled and that compute on one of the two CPUs",
           f"Tstep at most {max(number(one['ratio']) for one in group):.3f} times the ideal; OE at least "
           f"{min(number(one['OE']) for one in group):.3f}; bubble p50 "
           f"{at_most(max(number(one['bubble_p50_us']) for one in group) * 1e-6)}", link(name))
    name = "overlap_trace.txt"
    cases = benchmark(name)
    without, traced = (next(t for case, (t, _) in cases.items() if f"trace:{on}/" in case) for on in (0, 1))
    yield ("host time of an empty step: without a trace, with one", f"{time(without)}, {time(traced)}", link(name))


def feed_rows():
    name = "feed.json"
    feed = read(name)
    hand = feed["latencies"]
    yield ("handing a batch over, p50: to a fiber, to a thread; leaving in the middle of an epoch, p99",
           ", ".join(time(hand[to]["p50_us"] * 1e-6) for to in ("handover_to_fiber", "handover_to_thread")) + "; " +
           at_most(max(one["p99_us"] for what, one in hand.items() if what.startswith("leave")) * 1e-6),
           link(name))
    best = [target for target in feed["targets"]
            if "to the best peer" in target["what"] and target["verdict"] != "not judged"]
    yield ("samples a second against the best of PyTorch, WebDataset, SPDL, Grain",
           ", ".join(f"{target['what'].split(',')[0]} {target['reached']:.2f}x" for target in best),
           link("feed.txt"))


def python_rows():
    name = "python.json"
    python = read(name)
    reached = {target["what"]: target["reached"] for target in python["targets"]}
    to_cpp = {what.split(",")[0]: ratio for what, ratio in reached.items() if "on a thread, as Python's" in what}
    peer = next(ratio for what, ratio in reached.items() if what.startswith("tokens, to the best peer"))
    yield ("samples a second of a loop in Python, against the C++ loop on a thread; tokens against the best of "
           "PyTorch, SPDL, Grain, WebDataset, LitData",
           ", ".join(f"{row} {ratio:.2f}x" for row, ratio in to_cpp.items()) + f"; {peer:.2f}x", link("python.txt"))
    hand = {row["row"]: row["median"]["p50_us"] for row in python["rows"] if row["row"].startswith("handover/leat")}
    growth = max(ratio for what, ratio in reached.items() if what.startswith("memory"))
    yield ("host time of a ready batch of two tensors in torch, in NumPy; memory after epoch 50 over that after 5",
           ", ".join(time(hand[f"handover/leat_{one}"] * 1e-6) for one in ("torch", "numpy")) +
           f"; at most {growth:.3f}", link("python.txt"))


def csp_rows():
    name = "csp_go127.json"
    ratios = {}
    for row in read(name)["results"]:
        of = row["median"]
        if row["metric"] == "ns" and "go" in of:
            ratios[f"{row['problem']}, {row['workers']} worker" + "s" * (row["workers"] > 1)] = of["go"] / of["leat"]
    least, most = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    yield (f"channels, select, fibers against Go, {len(ratios)} problems",
           f"median {statistics.median(ratios.values()):.1f} times as fast, from {ratios[least]:.2f} ({least}) "
           f"to {ratios[most]:.1f} ({most})", link("csp_go127.txt"))


def comm_rows():
    name = "comm.json"
    medians = {row["row"]: row["median"] for row in read(name)["rows"]}
    figures = []
    for ours in ("local", "mpi"):
        ratios = {}
        for row, of in medians.items():
            size = re.match(r"all_reduce/ranks:(\d+)/bytes:(\d+)", row)
            times = [of[peer] for peer in ("openmpi", "gloo") if peer in of]
            if size and int(size[2]) >= 1 << 20 and times and ours in of:
                ratios[row] = min(times) / of[ours]
        if ratios:
            figures.append(f"median {statistics.median(ratios.values()):.2g} times as fast, from "
                           f"{min(ratios.values()):.2g} to {max(ratios.values()):.2g}")
    yield ("all-reduce between fibers; processes, against the better of OpenMPI and Gloo, 1 to 256 MiB, 2 and 4 ranks",
           "; ".join(figures), link("comm.txt"))
    yield ("all-reduce of 4 B between 2, 4 fibers; 2, 4 processes",
           "; ".join(", ".join(time(medians[f"all_reduce/ranks:{ranks}/bytes:4"][ours] * 1e-9) for ranks in (2, 4)
                               if ours in medians[f"all_reduce/ranks:{ranks}/bytes:4"])
                     for ours in ("local", "mpi")), link("comm.txt"))
    yield ("exchanging a gradient's piece of 4 B, for a rank of 4: fifo, priority, buckets",
           ", ".join(time(medians[f"pieces/{policy}"]["local"] * 1e-9)
                     for policy in ("fifo", "priority", "bucketed")), link("comm.txt"))


def pipeline_rows():
    name = "pipeline.json"
    medians = {row["row"]: row["median"] for row in read(name)["rows"]}

    def figures(start):
        return [of["leat"] for row, of in medians.items() if row.startswith(start)]

    modelled, computing = figures("modelled/"), figures("computing/")
    yield (f"pipelines: simulated / measured step, {len(modelled)} kinds, modelled kernels; kernels that compute",
           f"at least {min(modelled):.3f}; at least {min(computing):.3f} (median {statistics.median(computing):.3f})",
           link("pipeline.txt"))
    of_torch = {ours: [of[ours] / of["torch"] for row, of in medians.items() if row.startswith("overhead/")]
                for ours in ("local", "mpi")}
    yield ("an action with its transfers, empty stages, in one process; overhead of a training step against "
           "torch.distributed.pipelining, 2 and 4 ranks in one process, over MPI",
           f"{at_most(max(figures('action/')) * 1e-9)}; " + ", ".join(
               f"{min(ratios):.2g} to {max(ratios):.2g} of it" for ratios in of_torch.values()), link("pipeline.txt"))


def table():
    parts = (overlap_rows, gpu_rows, bench_rows, feed_rows, python_rows, csp_rows, comm_rows, pipeline_rows)
    rows = [row for part in parts for row in part()]
    return "| what | figure | file |\n|---|---|---|\n" + "".join(
        f"| {what} | {figure} | {file} |\n" for what, figure, file in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--write", action="store_true", help="put it into README.md")
    how.add_argument("--check", action="store_true", help="exit status 1 where README.md has another")
    options = parser.parse_args()
    if not options.write and not options.check:
        sys.stdout.write(table())
        return
    readme = HERE.parent.parent / "README.md"
    text = readme.read_text()
    before, rest = text.split(MARKERS[0])
    _, after = rest.split(MARKERS[1])
    wanted = before + MARKERS[0] + "\n" + table() + "\n" + MARKERS[1] + after
    for path in sorted(HERE.glob("*.json")):
        kept = path.read_text()
        if reduce.text(reduce.reduced(json.loads(kept))) != kept:
            sys.exit(f"{path.name} is not a summary; python3 bench/results/reduce.py <raw file> {path.name}")
    if options.write:
        readme.write_text(wanted)
    elif wanted != text:
        sys.exit("README.md: the table of results is not that of bench/results; "
                 "python3 bench/results/summary.py --write")


if __name__ == "__main__":
    main()
