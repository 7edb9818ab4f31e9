#!/usr/bin/env python3
"""Leat's Python package, as one more loader of ../feed: the datasets, options and files of
bench/feeder/feed_bench.cpp, in a loop of Python."""

import functools
import operator
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "feed"))
import leat  # noqa: E402

import peer  # noqa: E402

FRAMEWORKS = ("torch", "numpy")
WORKERS = (1, 2)
AHEAD = 4  # batches on the device; as in C++, also further ahead where batches are small
FURTHER = 16


def tokens(problem):
    return leat.TokenShards(str(problem.data / "tokens"), sequence_length=peer.LENGTH,
                            dtype=problem.dtype.__name__), ("x", "y")


def cifar(problem):
    return leat.Cifar10(str(problem.data / "cifar10")), ("image", "label")


def jpeg(problem):
    """Resized with all source pixels, as jpeg there."""
    parts = [leat.jpeg_image("image", height=peer.SIZE, width=peer.SIZE, antialias=True),
             leat.class_label("label")]
    return leat.WebDataset(str(problem.folder), parts=parts), ("image", "label")


class Loader:
    """Ends in the host device's memory, as in C++: each batch is copied there from a pinned slot."""

    def __init__(self, problem, framework, workers, make, ahead=AHEAD):
        data, names = make(problem)
        self.feed = leat.Prefetcher(data, "cpu", batch_size=problem.batch, prefetch_depth=ahead,
                                    workers=workers, seed=peer.SEED, framework=framework)
        self.tensors = operator.itemgetter(*names)

    def epoch(self, number):
        return map(self.tensors, self.feed.epoch(number))

    def close(self):
        if self.feed.copies:
            raise SystemExit(f"wrong: {self.feed.copies} batches were copied, which is not what is timed")


def variants():
    made = {problem: {} for problem in peer.PROBLEMS}
    kinds = ((peer.Tokens, tokens), (peer.Cifar, cifar), (peer.Jpeg, jpeg))
    for problem, kind in peer.PROBLEMS.items():
        if problem == "jpeg_scaled":
            continue
        make = next(make for base, make in kinds if issubclass(kind, base))
        for framework in FRAMEWORKS:
            for workers in WORKERS:
                loader = functools.partial(Loader, framework=framework, workers=workers, make=make)
                made[problem][f"{framework}/workers_{workers}"] = loader
                if problem == "tokens":
                    made[problem][f"{framework}/workers_{workers}/ahead_{FURTHER}"] = functools.partial(
                        loader, ahead=FURTHER)
    return made


if __name__ == "__main__":
    peer.main(variants(), ("leat", "torch", "numpy"))
