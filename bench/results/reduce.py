#!/usr/bin/env python3
"""Reduces what a comparison has saved as JSON to the figures that are kept in this folder.

    python3 bench/results/reduce.py build/csp.json bench/results/csp.json

The commands of README.md save every round of every contestant, and every quantity of every run. What
stays is the provenance (command, commit, machine, compiler, date) and, of each row, the figures that
the reports beside it and summary.py name. No figure is rounded or computed anew, except a median of
rounds where the comparison has saved none. A file that is reduced already stays as it is.
"""

import json
import pathlib
import statistics
import sys


def of_csp(raw):
    """Of ./run bench csp: each row's median, by contestant."""
    return {"facts": raw["facts"], "results": [
        {"problem": row["problem"], "workers": row["workers"], "metric": row["metric"],
         "median": row.get("median") or {
             name: statistics.median(values) for name, values in row["values"].items() if values}}
        for row in raw["results"]]}


def of_feed(raw):
    """Of ./run bench feed: the quantiles of latencies, and each target with what was reached."""
    return {name: raw[name] for name in ("facts", "latencies", "targets")}


def of_comm(raw):
    """Of ./run bench comm: each row's median, by contestant, and each target with what was reached."""
    return {name: raw[name] for name in ("facts", "rows", "targets")}


def of_gpu(raw):
    """Of ./run bench gpu: the machine, and each target with what was reached; gpu.txt has the figures."""
    names = ("date", "description", "cuda", "num_cpus", "arena", "copy_engines", "numa_node")
    return {"commit": raw["commit"],
            "machine": raw.get("machine") or {name: raw["link"]["context"][name] for name in names},
            "targets": raw["targets"]}


OVERLAP_FIGURES = ("t_step", "t_serial", "t_replay", "overlap_efficiency", "accelerator_utilization")


def of_overlap_run(run):
    """Of one run of leat-overlap. The bubble is the worst rank's, as in a report."""
    return {**{name: run[name] for name in OVERLAP_FIGURES},
            "bubble": run["bubble"] if "bubble" in run else {
                quantile: max(rank["bubble"][quantile] for rank in run["ranks"])
                for quantile in ("p50", "p99")}}


def of_overlap(raw):
    """Of leat-overlap --json: each run's, or each cell's, mean step, OE, AU and bubble."""
    facts = {name: raw[name] for name in ("leat-overlap", "command", "machine", "date")}
    facts["runs"] = [{"name": run["name"] if "name" in run else run["shape"]["name"], **of_overlap_run(run)}
                     for run in raw.get("runs", [])]
    facts["sweep"] = [
        {**{name: cell[name] for name in cell if name != "result"},
         **({"result": of_overlap_run(cell["result"])} if "result" in cell else {})}
        for cell in raw.get("sweep", [])]
    return facts


def reduced(raw):
    if "leat-overlap" in raw:
        return of_overlap(raw)
    if "commit" in raw:
        return of_gpu(raw)
    if "rows" in raw:
        return of_comm(raw)
    return of_feed(raw) if "latencies" in raw else of_csp(raw)


def text(value, depth=0):
    """JSON with one line for each entry of a list, so that a change is seen by the row."""
    if isinstance(value, dict) and depth == 0:
        parts = [f' {json.dumps(name)}: {text(one, 1)}' for name, one in value.items()]
        return "{\n" + ",\n".join(parts) + "\n}\n"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(f"  {json.dumps(one)}" for one in value) + "\n ]"
    return json.dumps(value)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    raw = json.loads(pathlib.Path(sys.argv[1]).read_text())
    pathlib.Path(sys.argv[2]).write_text(text(reduced(raw)))


if __name__ == "__main__":
    main()
