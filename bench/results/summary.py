#!/usr/bin/env python3
"""The table of README's section "Results", from the summaries beside this file: one row for each of the most
telling figures, in a newcomer's words.

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


def link(name):
    return f"[{name}](bench/results/{name})"


def span(ratios):
    return f"median {statistics.median(ratios):.1f} times as fast, from {min(ratios):.2g} to {max(ratios):.2g}"


def overlap_row():
    name = "overlap_sweep_host.json"
    step = {cell["depth"]: cell["result"]["t_step"] for cell in read(name)["sweep"]
            if (cell["ratio"], cell["step"]) == (1, 0.02)}
    return ("a loop that copies for 20 ms and computes for 20 ms a step (both modelled), against the same in turns",
            f"{step[1] / step[2]:.2f} times as fast; 2 is the most there can be", link(name))


def gpu_row():
    name = "overlap_mlperf_cuda.json"
    runs = read(name)["runs"]
    shares = [run["accelerator_utilization"] for run in runs]
    return ("share of the time in which one NVIDIA H200 computes, in loops as in MLPerf Storage ("
            + ", ".join(run["name"] for run in runs) + "), with batches from memory; each step computes for the time that MLPerf gives",
            f"{100 * min(shares):.1f} to {100 * max(shares):.1f} %; 100 % is the most there can be", link(name))


def feed_row():
    ratios = {}
    for target in read("feed.json")["targets"]:
        if "to the best peer" in target["what"] and target["verdict"] != "not judged":
            ratios.setdefault(target["what"].split(",")[0].split("_")[0], []).append(target["reached"])
    return ("samples a second from files in memory, against the best of PyTorch, WebDataset, SPDL, Grain "
            "that does the same work",
            ", ".join(f"{data} {' to '.join(f'{one:.2f}' for one in sorted({min(of), max(of)}))}"
                      for data, of in ratios.items()) + " times as many", link("feed.txt"))


def python_row():
    reached = {target["what"]: target["reached"] for target in read("python_datasets.json")["targets"]}
    copies, transform = ([reached[what] for what in reached if what.startswith(kind) and what.endswith(peer)]
                         for kind, peer in (("copies", "to PyTorch's loader"), ("transform", "to the best peer")))
    return ("samples a second from a dataset in Python, read by worker processes: one that only copies, against PyTorch's "
            "loader; one that computes, against the best of six others",
            f"{min(copies):.1f} to {max(copies):.1f}; {min(transform):.2f} to {max(transform):.2f} times as many",
            link("python_datasets.txt"))


def csp_row():
    rows = [row for row in read("csp_go127.json")["results"] if row["metric"] == "ns" and "go" in row["median"]]
    problems = {row["problem"] for row in rows}
    return (f"channels, `select` and fibers against Go, {len(problems)} problems, most with 1 and with 2 workers",
            span([row["median"]["go"] / row["median"]["leat"] for row in rows]), link("csp_go127.txt"))


def comm_row():
    ratios = []
    for row in read("comm.json")["rows"]:
        size = re.match(r"all_reduce/ranks:\d+/bytes:(\d+)", row["row"])
        peers = [row["median"][peer] for peer in ("openmpi", "gloo") if peer in row["median"]]
        if size and int(size[1]) >= 1 << 20 and peers and "mpi" in row["median"]:
            ratios.append(min(peers) / row["median"]["mpi"])
    return ("summing up gradients of 1 to 256 MiB over 2 and 4 processes, against the better of OpenMPI and Gloo",
            span(ratios), link("comm.txt"))


def table():
    rows = (overlap_row(), gpu_row(), feed_row(), python_row(), csp_row(), comm_row())
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
