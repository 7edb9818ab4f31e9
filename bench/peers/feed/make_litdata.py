#!/usr/bin/env python3
"""Usage: make_litdata.py <folder>

Completes a folder that has tokens/: the same windows in LitData's optimized format, as its TokensLoader
reads them. Each window brings the token that follows it."""

import functools
import pathlib
import sys

import numpy
from litdata import TokensLoader, optimize

import peer

CHUNKS = 8  # 16 MiB of tokens each


def windows(numbers, path):
    """The windows of [first, last), one after the other."""
    tokens = numpy.memmap(path, dtype=numpy.uint16, mode="r")
    for number in range(*numbers):
        yield numpy.array(tokens[number * peer.LENGTH:(number + 1) * peer.LENGTH + 1])


def main():
    folder = pathlib.Path(sys.argv[1])
    problem = peer.Tokens(folder)
    of_chunk = -(-problem.samples // CHUNKS)
    optimize(functools.partial(windows, path=problem.path),
             [(first, min(first + of_chunk, problem.samples))
              for first in range(0, problem.samples, of_chunk)],
             output_dir=str(folder / "tokens_litdata"), chunk_size=of_chunk * (peer.LENGTH + 1),
             item_loader=TokensLoader(block_size=peer.LENGTH + 1), num_workers=1,
             reorder_files=False, verbose=False, start_method="fork")


if __name__ == "__main__":
    main()
