#!/usr/bin/env python3
"""Usage: memory.py <problem> <variant> <epochs> <data>

Resident memory of a process that loops over a feed of Leat's, after epoch 5 and after the last one.
Every batch reaches the framework, and is looked at. Prints JSON, in bytes: rss, all of it, and anon, what
is no file's. The files are small, so that pages of theirs do not hide what grows.
"""

import gc
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE)]

import leat_loader  # noqa: E402
import peer  # noqa: E402

EARLY = 5


def resident():
    said = pathlib.Path("/proc/self/status").read_text()
    return {name: int(re.search(rf"^{key}:\s*(\d+) kB", said, re.M)[1]) * 1024
            for name, key in (("rss", "VmRSS"), ("anon", "RssAnon"))}


def main():
    problem = peer.PROBLEMS[sys.argv[1]](sys.argv[4])
    loader = leat_loader.variants()[problem.name][sys.argv[2]](problem)
    last, found, batches = int(sys.argv[3]), {}, 0
    for number in range(1, last + 1):
        samples = 0
        for batch in loader.epoch(number):
            first, second = peer.arrays(problem, batch)
            samples += len(first)
            problem.keys(first, second)
            batches += 1
        del batch, first, second
        if samples != problem.samples:
            raise SystemExit(f"wrong data: {samples} samples of {problem.samples} in epoch {number}")
        if number in (EARLY, last):
            gc.collect()
            found["early" if number == EARLY else "late"] = resident()
    loader.close()
    print(json.dumps({"batches": batches, "epochs": last,
                      **{f"{when}_{name}": size for when, of in found.items() for name, size in of.items()}}))


if __name__ == "__main__":
    main()
