#!/usr/bin/env python3
"""WebDataset over tar shards with a member for each sample. Its order is that of its shuffle buffer."""

import functools

import numpy
import webdataset

import batches
import peer

WORKERS = (0, 1, 2)
BUFFER = 1000  # samples that are shuffled among each other, as its examples have it


def of_tokens(sample, dtype):
    window = numpy.frombuffer(sample["bin"], dtype=numpy.uint16).astype(dtype)
    return window[:-1], window[1:]


def of_cifar(sample):
    return numpy.frombuffer(sample["bin"], numpy.uint8).reshape(3, 32, 32), int(sample["cls"])


def of_jpeg(sample, decode):
    return decode(next(sample[form] for form in batches.FORMATS if form in sample)), int(sample["cls"])


class Loader:
    def __init__(self, problem, workers, sample):
        self.dataset = (
            webdataset.WebDataset(problem.shards(), shardshuffle=len(problem.shards()),
                                  detshuffle=True, seed=peer.SEED)
            .shuffle(BUFFER)
            .map(sample)
            .batched(problem.batch, collation_fn=functools.partial(batches.stack,
                                                                   dtype=problem.dtypes[1])))
        self.loader = self.dataset
        if workers:
            self.loader = webdataset.WebLoader(self.dataset, batch_size=None, num_workers=workers,
                                               persistent_workers=True, worker_init_fn=quiet)

    def epoch(self, number):
        return iter(self.loader)


def quiet(_):
    batches.one_thread_each()


def tokens(problem, workers):
    return Loader(problem, workers, functools.partial(of_tokens, dtype=problem.dtype))


def cifar(problem, workers):
    return Loader(problem, workers, of_cifar)


def jpeg(problem, workers, decode):
    batches.one_thread_each()
    return Loader(problem, workers, functools.partial(of_jpeg, decode=decode))


def variants():
    made = {problem: {} for problem in peer.PROBLEMS}
    for workers in WORKERS:
        for problem, make in peer.of_arrays(tokens, cifar):
            made[problem][f"samples/{workers}"] = functools.partial(make, workers=workers)
        for problem, decoders in batches.DECODERS.items():
            for name, decode in decoders.items():
                made[problem][f"{name}/{workers}"] = functools.partial(jpeg, workers=workers,
                                                                       decode=decode)
    return made


if __name__ == "__main__":
    peer.main(variants(), ("webdataset", "torch", "numpy", "pillow", "simplejpeg",
                           "opencv-python-headless"))
