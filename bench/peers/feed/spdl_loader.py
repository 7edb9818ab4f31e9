#!/usr/bin/env python3
"""SPDL: pipelines of threads. Its own decoder is FFmpeg's, which is not libjpeg-turbo."""

import functools

import numpy
import spdl.io
from spdl.pipeline import PipelineBuilder

import batches
import peer

THREADS = (1, 2)
AHEAD = 4  # batches in the last queue


class Loader:
    """One pipeline for all epochs, so that it reads ahead across their ends."""

    def __init__(self, problem, threads, read):
        self.problem, self.numbers = problem, self.forever()
        self.pipeline = (
            PipelineBuilder()
            .add_source(self.numbers)
            .pipe(read, concurrency=threads, output_order="input")
            .add_sink(AHEAD)
            .build(num_threads=threads, max_failures=0))
        self.pipeline.start()
        self.batches = iter(self.pipeline.get_iterator())

    def forever(self):
        epoch, batch, samples = 0, self.problem.batch, self.problem.samples
        while True:
            order = peer.mix_order(samples, epoch)
            for first in range(0, samples, batch):
                yield order[first:first + batch]
            epoch += 1

    def epoch(self, number):
        for _ in range(self.problem.batches):
            yield next(self.batches)

    def close(self):
        self.pipeline.stop()


def whole_batches(problem, threads, make):
    return Loader(problem, threads, make(problem).read)


def images(problem, threads, decode):
    """A thread decodes a batch, straight into where it goes."""
    data = batches.JpegBytes(problem)
    batches.one_thread_each()

    def read(numbers):
        out = numpy.empty((len(numbers), peer.SIZE, peer.SIZE, 3), dtype=numpy.uint8)
        labels = numpy.empty(len(numbers), dtype=numpy.int64)
        for row, number in enumerate(numbers):
            coded, labels[row] = data.read(number)
            out[row] = decode(coded)
        return out, labels

    return Loader(problem, threads, read)


def ffmpeg(problem, threads):
    """SPDL's own: FFmpeg decodes and scales (bicubic, its default), a batch by one call."""
    data = batches.JpegBytes(problem)
    described = spdl.io.get_video_filter_desc(scale_width=peer.SIZE, scale_height=peer.SIZE,
                                              scale_mode=None, pix_fmt="rgb24")

    def read(numbers):
        coded, labels = zip(*(data.read(number) for number in numbers))
        frames = [spdl.io.decode_packets(spdl.io.demux_image(one), filter_desc=described)
                  for one in coded]
        image = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        return image, numpy.array(labels, dtype=numpy.int64)

    return Loader(problem, threads, read)


def variants():
    made = {problem: {} for problem in peer.PROBLEMS}
    for threads in THREADS:
        for problem, make in peer.of_arrays(batches.TokenBatches, batches.CifarBatches):
            made[problem][f"batches/{threads}"] = functools.partial(whole_batches, threads=threads,
                                                                    make=make)
        for problem, decoders in batches.DECODERS.items():
            for name, decode in decoders.items():
                made[problem][f"{name}/{threads}"] = functools.partial(images, threads=threads,
                                                                       decode=decode)
        for problem in ("jpeg", "jpeg_large", "png", "webp"):
            made[problem][f"ffmpeg/{threads}"] = functools.partial(ffmpeg, threads=threads)
    return made


if __name__ == "__main__":
    peer.main(variants(), ("spdl", "spdl_core", "spdl_io", "numpy", "pillow", "simplejpeg",
                           "opencv-python-headless"))
