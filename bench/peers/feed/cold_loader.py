#!/usr/bin/env python3
"""Records of a cold file, as numpy or PyTorch's DataLoader reads them: a contestant of bench/suites/cold.py.

    cold_loader.py WAY FILE RECORD BATCH WORKERS SAMPLES SEED

WAY: memmap, numpy.memmap as it comes; memmap_random, told that reads are random; torch, the DataLoader over that,
a sample at a time; torch_getitems, likewise, a batch at a time. The protocol is that of bench/feeder/cold_main.cpp.
"""

import mmap
import sys

import numpy

BLOCK = 8192


class Samples:
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        import torch
        return torch.tensor(self.rows[number])


class WholeBatches(Samples):
    def __getitems__(self, numbers):
        import torch
        return torch.from_numpy(self.rows[numbers])


def same(batch):
    return batch


def loader(data, batch, workers, order):
    """PyTorch's loader, whose workers run. The sampler is a list that is filled once they do."""
    from torch.utils.data import DataLoader
    sampler = order[:workers]
    batches = DataLoader(data, batch_size=batch, sampler=sampler, num_workers=workers, persistent_workers=True,
                         collate_fn=same if isinstance(data, WholeBatches) else None)
    list(batches)
    sampler[:] = order
    return batches


def main():
    way, path = sys.argv[1:3]
    record, batch, workers, samples, seed = map(int, sys.argv[3:])
    mapped = numpy.memmap(path, dtype=numpy.uint8, mode="r")
    if way != "memmap":
        mapped._mmap.madvise(mmap.MADV_RANDOM)
    rows = mapped.reshape(-1, record)
    order = numpy.random.default_rng(seed).permutation(len(rows))[:samples]
    if way.startswith("torch"):
        data = WholeBatches(rows) if way == "torch_getitems" else Samples(rows)
        batches = loader(data, batch, workers, order.tolist())
    else:
        batches = (rows[order[at:at + batch]] for at in range(0, samples, batch))
    print("ready", flush=True)
    sys.stdin.readline()
    numbers = order.astype(numpy.uint64) * numpy.uint64(record // BLOCK)
    at = 0
    for one in batches:
        words = numpy.asarray(one).view(numpy.uint64)
        right = numbers[at:at + len(words)]
        if not ((words[:, 0] == right).all() and (words[:, -1] == right + numpy.uint64(record // BLOCK - 1)).all()):
            sys.exit("wrong data")
        at += len(words)
    if at != samples:
        sys.exit(f"wrong data: {at} samples of {samples}")
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
