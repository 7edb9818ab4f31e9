#!/usr/bin/env python3
"""Grain: MapDataset, read by threads or by processes."""

import functools
import logging

import numpy

import batches
import peer

logging.disable(logging.WARNING)  # it misses JAX, which it does not need
import grain  # noqa: E402

THREADS, PROCESSES = (0, 1, 2), (1, 2)
AHEAD = 8


class Loader:
    def __init__(self, dataset, threads=0, processes=0):
        """`dataset(epoch)`: of batches."""
        self.dataset, self.threads, self.processes = dataset, threads, processes

    def epoch(self, number):
        options = grain.ReadOptions(num_threads=self.threads,
                                    prefetch_buffer_size=AHEAD if self.threads else 0)
        read = self.dataset(number).to_iter_dataset(options)
        if self.processes:
            read = read.mp_prefetch(grain.MultiprocessingOptions(num_workers=self.processes,
                                                                 per_worker_buffer_size=AHEAD))
        return iter(read)


class Source:
    """As Grain's sources are: samples by number."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, number):
        return self.samples.read(number)


def samples(problem, make, **options):
    source = grain.MapDataset.source(Source(make(problem)))
    collate = functools.partial(batches.stack, dtype=problem.dtypes[1])
    return Loader(lambda epoch: source.seed(peer.SEED + epoch).shuffle()
                  .batch(problem.batch, batch_fn=collate), **options)


class Read:
    def __init__(self, source):
        self.source = source

    def __call__(self, numbers):
        return self.source.read(numpy.asarray(numbers))


def whole_batches(problem, make, **options):
    """The numbers are shuffled and batched; what they stand for is read a batch at a time."""
    read = Read(make(problem))
    return Loader(lambda epoch: grain.MapDataset.range(problem.samples).seed(peer.SEED + epoch)
                  .shuffle().batch(problem.batch).map(read), **options)


class Slice:
    def __init__(self, problem, epoch, source):
        self.order, self.batch, self.source = (peer.mix_order(problem.samples, epoch),
                                               problem.batch, source)

    def __call__(self, number):
        return self.source.read(self.order[number * self.batch:(number + 1) * self.batch])


def slices(problem, make, **options):
    """An order of one's own: an element is a batch from the start."""
    source = make(problem)
    return Loader(lambda epoch: grain.MapDataset.range(problem.batches)
                  .map(Slice(problem, epoch, source)), **options)


def images(problem, decode, **options):
    batches.one_thread_each()
    return samples(problem, functools.partial(batches.JpegSamples, decode=decode), **options)


def variants():
    made = {problem: {} for problem in peer.PROBLEMS}
    ways = [(f"threads_{n}", {"threads": n}) for n in THREADS]
    ways += [(f"processes_{n}", {"processes": n}) for n in PROCESSES]
    for way, options in ways:
        for name, how, sources in (
                ("samples", samples, (batches.TokenSamples, batches.CifarSamples)),
                ("batches", whole_batches, (batches.TokenBatches, batches.CifarBatches)),
                ("slices", slices, (batches.TokenBatches, batches.CifarBatches))):
            for problem, make in peer.of_arrays(*sources):
                made[problem][f"{name}/{way}"] = functools.partial(how, make=make, **options)
        for problem, decoders in batches.DECODERS.items():
            for name, decode in decoders.items():
                made[problem][f"{name}/{way}"] = functools.partial(images, decode=decode, **options)
    return made


if __name__ == "__main__":
    peer.main(variants(), ("grain", "numpy", "pillow", "simplejpeg", "opencv-python-headless"))
