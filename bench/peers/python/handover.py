#!/usr/bin/env python3
"""Usage: handover.py <way> <batches> <data>

Host time that a loop in Python spends on a batch that is ready: the call of next() and taking both
tensors (32 windows of tokens as x and y of int32), and, apart from it, of letting the batch go. Before
each batch the loop computes for so long that the loader has made the next ones; of PyTorch's loader,
only batches count that its queue has by then. Prints JSON: microseconds of each, by quantile, how many
were timed, and how many were not ready.

Ways: leat_torch, leat_numpy, leat_none (leat.Tensor); torch_1, torch_2: PyTorch's DataLoader with so
many worker processes, whose dataset gathers whole batches.
"""

import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "feed"), str(HERE)]

import numpy  # noqa: E402

import peer  # noqa: E402

PAUSE = 4e-3  # seconds between two batches
WARM = 20  # batches before the first that counts


class Leat:
    names = ("x", "y")

    def __init__(self, problem, framework):
        import leat_loader
        self.loader = leat_loader.Loader(problem, None if framework == "none" else framework, 1,
                                         leat_loader.tokens)
        self.feed = self.loader.feed

    def epoch(self, number):
        self.batches = iter(self.feed.epoch(number))
        return self.batches

    def is_ready(self):
        return True  # the pause is a hundred times as long as a batch takes, and four are read ahead


class Torch:
    names = (0, 1)

    def __init__(self, problem, workers):
        import torch_loader
        self.loader = torch_loader.slices(problem, int(workers), torch_loader.batches.TokenBatches)

    def epoch(self, number):
        self.batches = self.loader.epoch(number)
        return self.batches

    def is_ready(self):
        return not self.batches._data_queue.empty()


def pause():
    until = time.perf_counter() + PAUSE
    while time.perf_counter() < until:
        pass


def quantiles(nanoseconds, name):
    found = numpy.quantile(numpy.asarray(nanoseconds) * 1e-3, (0.5, 0.99))
    return {f"{name}p50_us": float(found[0]), f"{name}p99_us": float(found[1])}


def check(problem, x, y):
    """That it is a batch of the file, of right shapes and types; keeps nothing of it."""
    x, y = peer.arrays(problem, (x, y))
    if not (numpy.array_equal(x[:, 1:], y[:, :-1]) and x.any()):
        raise SystemExit("wrong data: y is not x, one token later")


def measure(problem, way, count):
    first, second = way.names
    now = time.perf_counter_ns
    taken, released, late, epoch, number = [], [], 0, 0, 0
    while len(taken) < count:
        batches = way.epoch(epoch)
        epoch += 1
        while len(taken) < count:
            pause()
            ready = way.is_ready()
            begin = now()
            batch = next(batches, None)
            if batch is None:
                break
            x, y = batch[first], batch[second]
            end = now()
            check(problem, x, y)
            begin_release = now()
            del batch, x, y
            end_release = now()
            number += 1
            if number <= WARM:
                continue
            if not ready:
                late += 1
                if late > count:
                    raise SystemExit("wrong: most batches were not ready")
                continue
            taken.append(end - begin)
            released.append(end_release - begin_release)
    return {**quantiles(taken, ""), **quantiles(released, "release_"), "n": len(taken), "late": late}


def main():
    kind, _, of = sys.argv[1].partition("_")
    problem = peer.Tokens(sys.argv[3])
    way = {"leat": Leat, "torch": Torch}[kind](problem, of)
    print(json.dumps(measure(problem, way, int(sys.argv[2]))))


if __name__ == "__main__":
    main()
