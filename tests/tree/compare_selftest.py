#!/usr/bin/env python3
"""Usage: compare_selftest.py <bench>

What bench/compare.py promises: who runs when, what counts, the verdicts of every suite on both sides of its targets, what
it refuses, and that what was measured is kept when the rest fails or is stopped."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

BENCH = pathlib.Path(sys.argv[1]).resolve()
sys.dont_write_bytecode = True
sys.path[:0] = [str(BENCH), str(BENCH / "results")]
from engine.programs import Failed  # noqa: E402
from engine.suite import Run, Suite, measure  # noqa: E402
from engine.verdicts import Requirement  # noqa: E402
from suites import cold, comm, csp, feed, gpu, overlap, pipeline, python, python_datasets, wire  # noqa: E402
import reduce  # noqa: E402

failed = 0


def expect(what, found, wanted=True):
    global failed
    failed += found != wanted
    print(f"{what}: as expected" if found == wanted else f"FAIL: {what}: {found}, expected {wanted}")


def compare(*words, folder=".", **environment):
    return subprocess.run([sys.executable, BENCH / "compare.py", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, cwd=folder, env={**os.environ, **environment})


class Example(Suite):
    """Contestants that do as they are told: b fails in the second round."""

    asked = [Requirement("a", "leat", 2, scale=1e3, unit="us"), Requirement("a", "go / leat", 1.5, True),
             Requirement(".", "go|tbb / leat", 1.4, True), Requirement(".", "nobody / leat", 1)]

    def sections(self, bench):
        def figures(name):
            bench.turns.append(name)
            if bench.turns.count("b") == 2 and name == "b":
                raise Failed("as told")
            return {"row": float(len(bench.turns))}
        yield lambda turn: [[Run(name, "row", lambda name=name: figures(name)) for name in "abc"]]
        bench.turns.append("removed")


told = types.SimpleNamespace(turns=[], values={}, failures={}, save=lambda: None)
measure(Example("told"), told, 3)
expect("contestants take turns, the first of a round too, and one that failed has none", "".join(told.turns[:8]), "abcbcaca")
expect("what fails keeps no figure", (told.values, told.failures), (
    {"row": {"a": [1.0, 6.0, 8.0], "c": [3.0, 5.0, 7.0]}}, {"b, row": "as told"}))

def verdicts(suite, values, facts=None, name="x"):
    return {target.what: target.verdict for target in suite(name).judged(values, facts or {})}


def both_sides(what, suite, figures, asked, facts=None):
    """figures(good): values with which all that is asked is met, with little to spare, or missed."""
    for good, verdict in ((True, "met"), (False, "MISSED")):
        found = verdicts(suite, figures(good), facts)
        judged = {of for of in found.values() if of != "not judged"}
        expect(f"{what}: all is {verdict}", (judged, len([of for of in found.values() if of == verdict])), ({verdict}, asked))


def times(**of):
    """The median of three rounds counts."""
    return {name: [value * 0.01, value, value * 50] for name, value in of.items()}


def of_feed(good):
    def rounds(value):
        return [value / 2, value, value * 2]
    ours = {row.problem: (80 if row.likeness else 100) * row.ratio for row in feed.ROWS if row.ratio and not row.own}
    values = {row: {"leat a": [1e9], "leat b": rounds(bound + (0.1 if good else -0.1)), "torch lucky/0": [1e9],
                    "torch slices/0": rounds(100), "grain pillow/0": rounds(80)} for row, bound in ours.items()}
    for row, against, least in (feed.FOLDER, *((row.problem, row.against, row.ratio) for row in feed.ROWS if row.own)):
        values[row] = {"leat b": rounds(least * values[against]["leat b"][1] + (0.1 if good else -0.1))}
    late = {"p50_us": [1.9 if good else 2.1], "p99_us": [49e3 if good else 51e3]}
    return {**values, **{f"host time, {name}": late for names in feed.LATENCIES.values() for name in names}}


def of_gpu(good):
    rows = {"link under_compute: 4MiB": {"h2d arena": 95.1 if good else 94.9}, "link alone: 4MiB": {
        "h2d arena": 98.1 if good else 97.9, "h2d pinned": 100.0, "h2d pageable": 500.0, "h2d memfd": 98.1 if good else 97.9}}  # not pinned: no yardstick
    for how in ("sync", "await", "on_done"):
        rows |= {f"await: {how}/{after}": {"p50_us": 60 + (how != "sync") * (9.9 if good else 10.1),
                                           "cpu": 0.04 if good else 0.06} for after in ("50us", "500us", "idle")}
    rows |= {f"events: {name}": {"ratio": 1.02 if good else 1.04} for name in ("record_wait", "record", "wait")}
    return {**{row: times(**of) for row, of in rows.items()}, "allocations": {
        name: [0.0 if good else 0.5] for name in ("heap_per_op", "events_per_op")}}


def of_python(good):
    values = {row.problem: {"c++ x/thread": [1e3] * 3, "leat a": [1.0, 1e3 * row.ratio + (1 if good else -1), 1e6],
                            "grain b": [750.0] * 3} for row in python.ROWS}
    hand = {"leat_torch": 24.9 if good else 25.1, "leat_numpy": 24.9 if good else 25.1, "torch_2": 715.0}
    for row in python_datasets.RATES:  # other peers are faster than is judged against, or slower
        of = {"torch a": 100.0, "spdl a": 1e9} if row in python_datasets.COPIES else {"alone a": 1e2, "spdl a": 95.0, "torch a": 1.0}
        values[row.problem] = {**times(**of), "leat a": [row.ratio * 100 + (0.1 if good else -0.1)] * 3}
    values |= {f"training/{way}": times(p99_us=1.09 if good else 1.11) for way in python_datasets.OURS}
    values |= {f"start/{way}": times(first_ms=value, second_ms=value) for way in python_datasets.START
               for value in [100.0 if way not in python_datasets.OURS else 99.0 if good else 101.0]}
    values |= {"columns/leat prefetcher": times(samples_per_s=301 if good else 299, open_ms=4.9 if good else 5.1,
                                                open_mb=0.9 if good else 1.1),
               "columns/torch processes_1": times(samples_per_s=100)}
    return {**values, **{f"handover/{way}": times(p50_us=value) for way, value in hand.items()},
            "training/alone processes": times(p99_us=1.0),
            "memory/leat x": {"early_rss": [100.0], "late_rss": [101.9 if good else 102.1]},
            "memory/leat prefetcher": {"early_pss": [100.0], "late_pss": [101.9 if good else 102.1]}}


for suite, rows in ((csp.Suite, csp.BY_KEY), (comm.Suite, comm.Suite.rows), (pipeline.Suite, pipeline.Suite.rows)):
    expect(f"each target of {suite.__module__} is a row's", [
        one for one in suite.asked if not any(re.fullmatch(one.rows, row) for row in rows)], [])
both_sides("what is asked of a figure, of a ratio, of a ratio to the best", Example, lambda good: {
    "a": times(leat=1990 if good else 2010, go=3000, tbb=3000 if good else 100, best=1), "b": times(leat=1e9)}, 3)
both_sides("feed", feed.Suite, of_feed, 9 + 1 + 3 + 5)
both_sides("gpu", gpu.Suite, of_gpu, 3 + 6 + 3 + 2, {"device": "cuda:0"})
both_sides("python", python.Suite, of_python, 8 + 1 + 4 + 2 + 3 + 2 * len(python_datasets.TRANSFORM) + 2 + 4 + 3)
both_sides("wire", wire.Suite, lambda good: {f"4 hosts, {policy}": {"step": [1, ms, 1e9], "link model": [100]} for policy, ms in (
    ("no overlap", 109 if good else 80), ("bucketed", 105 if good else 111), ("priority", 91 if good else 112))}, 3 + 2)
both_sides("overlap", overlap.Suite, lambda good: {"gemm_5ms, Tstep": times(
    leat=1.0, **{"torch to 0": 9.0, "torch resident 0": 1.01 if good else 0.99})}, 1)

expect("cold files: the median of the rounds' ratios to fio", list(verdicts(cold.Suite, {"cold_8k": {
    "fio": [100, 200, 50], "leat workers_1": [76, 150.2, 20], "leat workers_4": [89, 179, 45]}}).values()),
       ["met", "MISSED", "not judged", "not judged"])
none = verdicts(feed.Suite, {"tokens": {"leat a": [1]}, "cifar": {"torch b": [1]}})
expect("without peers nothing is judged; what Leat has not done is not measured",
       (none["tokens, to the best peer's tokens"], none["cifar, to the best peer's cifar"]), ("not judged", "NOT MEASURED"))
expect("on the host device only allocations are judged", sorted(set(verdicts(gpu.Suite, of_gpu(False), {"device": "host"}).values())),
       ["MISSED", "not judged"])
expect("slower than the base is what both the medians and the best rounds call slower; of rates, faster is more",
       [verdicts(suite, {row: {"leat x": ours, "base x": base, "leat y": [1]}}, {"base": ""})
        for suite, row, ours, base in ((pipeline.Suite, pipeline.ACTIONS[0], [100, 106, 107], [100, 100, 101]),
                                       (pipeline.Suite, pipeline.ACTIONS[0], [104, 104, 105], [100, 100, 101]),
                                       (feed.Suite, "tokens", [50, 97, 100], [98, 100, 100]),
                                       (feed.Suite, "tokens", [96, 96, 95], [100, 100, 100]))],
       [{f"{pipeline.ACTIONS[0]} x, to base": "met"}, {f"{pipeline.ACTIONS[0]} x, to base": "MISSED"},
        {"tokens x, to base": "met"}, {"tokens x, to base": "MISSED"}])
expect("4 even stages take (B + R - 1) (f + b), on 2 CPUs what they compute; overhead is for each of 32 actions", (
    [pipeline.makespan(kind, [1, 2] * 4) for kind in pipeline.TORCH_NAMES], pipeline.least_of("x/gpipe/x", [1, 2] * 4, 2),
    pipeline.overhead_of("x/one_f_one_b/x", 59.0, [1, 2] * 2, 2)), ([11 * 3] * 2, 48, 1.0))
expect("each row of csp is explained", [row.name for row in csp.ROWS if f"`{row.problem.split('/')[0]}" not in (
    BENCH / "peers/csp/README.md").read_text()], [])

for words, said in ((["csp", "--only", "nosuch"], "no row matches"), (["comm", "--only", "("], "unterminated"),
                    (["pipeline", "--peers", "jax"], "there is no peer jax"), (["feed", "--rounds", "0"], "not more than 0"),
                    (["gpu", "--save", "no/such/x"], "there is no folder"), (["python", "--read", "x"], "there is no file"),
                    (["csp", "--base", "nowhere"], "nowhere/bench has no bench_csp_*"),
                    (["feeder/trace"], "--base FOLDER is needed"), (["comm", "--hosts", "17"], "no number from 2 to 16"),
                    (["overlap", "--device", "host"], "need --device cuda:N"), (["feed", "--cold", "--files", "x"], "no folder")):
    done = compare(*words, "--check")
    expect(f"{' '.join(words)} is refused", (done.returncode, said in done.stderr), (2, True))
for words in ("csp", "gpu", "feed", "feed --cold", "python", "comm", "comm --ddp", "comm --hosts 4", "pipeline", "overlap"):
    expect(f"{words} --help tells its options", "--save FILE" in compare(*words.split(), "--help").stdout)

# In place of a benchmark: its times in turn. With $STOP it stops what runs it, in the second round.
STUB = """#!/usr/bin/env python3
import json, os, pathlib, signal, sys, time
if "--benchmark_list_tests=true" in sys.argv:
    sys.exit(print("ChanSync/workers:1/real_time"))
count = pathlib.Path(__file__ + ".turns")
turn = len(count.read_text()) if count.exists() else 0
count.write_text("x" * (turn + 1))
if "STOP" in os.environ and turn == 1:
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)
one = {"name": "ChanSync/workers:1/real_time", "real_time": %s[turn], "time_unit": "ns"}
if one["real_time"] == 0:
    one |= {"error_occurred": True, "error_message": "wrong data"}
print(json.dumps({"benchmarks": [one]}))
"""


def with_stubs(ours, base, *words, **environment):
    with tempfile.TemporaryDirectory() as folder:
        for name, series in (("ours", ours), ("base", base)):
            stub = pathlib.Path(folder, name, "bench", "bench_csp_channel")
            stub.parent.mkdir(parents=True)
            stub.write_text(STUB % series)
            stub.chmod(0o755)
        done = compare(*words, "--base", "base", "--programs", "ours/bench", "--rounds", "3", "--save", "saved",
                       folder=folder, **environment)
        expect("what is saved is what is printed", pathlib.Path(folder, "saved.txt").read_text(), done.stdout)
        expect("it can be read again", compare(words[0], "--read", "saved.json", folder=folder).stdout, done.stdout)
        return done, json.loads(pathlib.Path(folder, "saved.json").read_text())


CHAN_SYNC = ("csp", "--only", "^ChanSync$", "--workers", "1")
done, saved = with_stubs([100, 106, 106], [100, 100, 101], *CHAN_SYNC)
expect("csp beside its base", (done.returncode, re.findall("ChanSync, 1, to base.*", done.stdout)), (0, [
    "ChanSync, 1, to base  <= 1.03x       1x  met (medians 1.060x, best of the rounds 1.000x)"]))
expect("reduced, medians stay", reduce.reduced(saved)["results"], [
    {"problem": "ChanSync", "workers": 1, "metric": "ns", "median": {"leat": 106, "base": 100}}])
done, saved = with_stubs([100, 0, 100], [100, 100, 100], *CHAN_SYNC)
expect("a benchmark of Leat's that fails is a failure, and keeps no figure", (
    done.returncode, "wrong data" in done.stdout, saved["values"]), (1, True, {"ChanSync, 1": {"base": [100.0] * 3}}))
done, saved = with_stubs([100, 100], [100, 100], *CHAN_SYNC, STOP="1")
expect("what was measured before a signal is kept", (done.returncode, "STOPPED" in done.stdout, saved["values"]),
       (1, True, {"ChanSync, 1": {"leat": [100.0], "base": [100.0]}}))
done, saved = with_stubs([9, 9, 9], [10, 10, 10], "csp/channel")
expect("any benchmark beside its base", (done.returncode, [target["reached"] for target in saved["targets"]]), (0, [0.9]))

sys.exit(failed != 0)
