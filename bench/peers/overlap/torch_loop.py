#!/usr/bin/env python3
"""A training loop of PyTorch's that computes nothing but time: one variant of feeding it, measured as
leat-overlap measures its own. Prints one line of JSON; bench/suites/overlap.py runs it.

Variants, from what a first attempt does to what apex and timm do:
  to            DataLoader, then batch.to(device): from pageable memory, on the loop's stream
  pinned        DataLoader(pin_memory=True), then .to(device, non_blocking=True), on the loop's stream
  side_stream   the same, copied one batch ahead on a stream of its own (apex's data_prefetcher,
                timm's PrefetchLoader)
  resident      side_stream without DataLoader: the batches lie in pinned memory from the beginning.
                No loader is as fast: it reads nothing
"""

import argparse
import ctypes
import glob
import itertools
import json
import sys

import numpy
import torch

VARIANTS = ("to", "pinned", "side_stream", "resident")

# The steps that the host may be ahead of the device, as in a loop that reads an earlier step's loss.
# Without a bound each of them had a batch of its own on the device, until no memory is left and
# PyTorch's allocator waits for all of it.
AHEAD = 4


class Kernels:
    """The kernels of leat-overlap, out of its shared library."""

    def __init__(self, path, device, stream):
        self.library = ctypes.CDLL(path)
        self.stream = ctypes.c_void_p(stream.cuda_stream)
        for name in ("leat_overlap_use_device", "leat_overlap_launch_busy", "leat_overlap_gemm"):
            getattr(self.library, name).restype = ctypes.c_char_p
        self.library.leat_overlap_gemm_open.restype = ctypes.c_void_p
        self.library.leat_overlap_gemm_library.restype = ctypes.c_char_p
        self.check(self.library.leat_overlap_use_device(ctypes.c_int(device)))
        self.blas = None

    @staticmethod
    def check(error):
        if error is not None:
            raise RuntimeError(error.decode())

    def busy(self, nanoseconds):
        self.check(self.library.leat_overlap_launch_busy(ctypes.c_uint64(nanoseconds), 1, self.stream))

    def open_gemm(self, device, width=2048):
        error = ctypes.c_char_p()
        self.blas = self.library.leat_overlap_gemm_open(self.stream, ctypes.byref(error))
        self.check(error.value)
        self.width = width
        self.matrices = [torch.full((width, width), value, device=device) for value in (0.5, 1.0, 0.0)]

    def gemm(self):
        a, b, c = (ctypes.c_void_p(matrix.data_ptr()) for matrix in self.matrices)
        self.check(self.library.leat_overlap_gemm(ctypes.c_void_p(self.blas), self.width, a, b, c))

    def gemm_library(self):
        return self.library.leat_overlap_gemm_library(ctypes.c_void_p(self.blas)).decode()


class Batches(torch.utils.data.Dataset):
    """Batches by their number, for ever: in order, from the beginning again behind the last whole one.
    A batch is a view of its mapped file, so that nothing is copied but by PyTorch."""

    def __init__(self, files, sample_bytes, batch_size):
        # Copy-on-write, for torch.from_numpy warns of what cannot be written.
        self.shards = [numpy.memmap(name, dtype=numpy.uint8, mode="c").reshape(-1, sample_bytes)
                       for name in files]
        self.batch_size = batch_size
        self.count = sum(len(shard) for shard in self.shards) // batch_size
        if self.count == 0:
            sys.exit("torch_loop.py: --files has less than one batch")

    def __getitem__(self, number):
        begin = number % self.count * self.batch_size
        end = begin + self.batch_size
        parts = []
        for shard in self.shards:
            part = shard[max(begin, 0):max(end, 0)]
            if len(part) > 0:
                parts.append(part)
            begin -= len(shard)
            end -= len(shard)
        return torch.from_numpy(parts[0] if len(parts) == 1 else numpy.concatenate(parts))


class OneAhead:
    """apex's data_prefetcher: the next batch is copied while the loop works on this one."""

    def __init__(self, batches, stream, device):
        self.batches = batches
        self.stream = stream
        self.device = device
        self.side = torch.cuda.Stream(device)
        self.following = self.preload()

    def preload(self):
        # The host's memory may go at once: PyTorch's allocator of pinned memory waits for the copy.
        host = next(self.batches)
        with torch.cuda.stream(self.side):
            return host.to(self.device, non_blocking=True)

    def __iter__(self):
        return self

    def __next__(self):
        self.stream.wait_stream(self.side)
        batch = self.following
        batch.record_stream(self.stream)
        self.following = self.preload()
        return batch  # which nothing else holds, so that the loop's del gives its memory back


def batches_of(options, data, stream, device):
    if options.variant == "resident":
        pinned = [data[number].pin_memory() for number in range(data.count)]
        return OneAhead(itertools.cycle(pinned), stream, device)
    # One loader and one iteration for the whole run: a loader that begins anew has read nothing ahead.
    loader = iter(torch.utils.data.DataLoader(
        data, sampler=itertools.count(), batch_size=None, num_workers=options.workers,
        pin_memory=options.variant != "to"))
    if options.variant == "side_stream":
        return OneAhead(loader, stream, device)
    non_blocking = options.variant == "pinned"
    return (batch.to(device, non_blocking=non_blocking) for batch in loader)


def sum_of(batch):
    # In pieces, since PyTorch converts all of what it sums before it does.
    return sum(int(piece.sum(dtype=torch.int64)) for piece in batch.flatten().split(1 << 24))


def check_contents(data, number, batch):
    """Nobody skips bytes: a batch's sum on the device is that of the file."""
    expected, found = sum_of(data[number]), sum_of(batch)
    if found != expected:
        sys.exit(f"torch_loop.py: batch {number}'s sum is {found} on the device, not {expected}")


def allocations(device):
    """What PyTorch's allocator has asked CUDA for so far, and how often it had to give back first."""
    stats = torch.cuda.memory_stats(device)
    return stats.get("segment.all.allocated", 0) + stats.get("num_alloc_retries", 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--files", required=True, help="of records, as a glob")
    parser.add_argument("--sample-bytes", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, required=True)
    # Until all buffers are allocated: 4 workers have 8 batches under way, and the device AHEAD more.
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--kernels", required=True, help="libleat_overlap_kernels.so")
    parser.add_argument("--busy-ns", type=int, default=0, help="a kernel of that length in each step")
    parser.add_argument("--products", type=int, default=0, help="or so many matrix products")
    parser.add_argument("--device", type=int, default=0)
    options = parser.parse_args()
    if options.steps < 1 or options.warm_up < 1:
        parser.error("at least one step, and one to warm up")
    if min(options.sample_bytes, options.batch_size) < 1:
        parser.error("--sample-bytes and --batch-size are at least 1")

    if not torch.cuda.is_available():
        sys.exit("torch_loop.py: PyTorch sees no GPU")
    torch.cuda.set_device(options.device)
    device = torch.device("cuda", options.device)
    stream = torch.cuda.Stream(device)
    kernels = Kernels(options.kernels, options.device, stream)
    if options.products:
        kernels.open_gemm(device)
        torch.cuda.synchronize(device)

    def compute():
        if options.products:
            for _ in range(options.products):
                kernels.gemm()
        elif options.busy_ns:
            kernels.busy(options.busy_ns)

    data = Batches(sorted(glob.glob(options.files)), options.sample_bytes, options.batch_size)
    releases = []  # an event behind each step
    with torch.cuda.stream(stream):
        batches = batches_of(options, data, stream, device)
        check_contents(data, 0, next(batches))
        for step in range(options.warm_up + options.steps):
            if step == options.warm_up - 1:  # asking takes the host a while: not while it is measured
                allocated = allocations(device)
            batch = next(batches)
            compute()
            del batch  # to the allocator, which knows its streams
            released = torch.cuda.Event(enable_timing=True)
            released.record(stream)
            releases.append(released)
            if step >= AHEAD:
                releases[step - AHEAD].synchronize()
        releases[-1].synchronize()
        allocated = allocations(device) - allocated
        check_contents(data, len(releases) + 1, next(batches))
    start = releases[options.warm_up - 1]
    marks = [start.elapsed_time(released) * 1e-3 for released in releases[options.warm_up - 1:]]
    steps = sorted(b - a for a, b in zip(marks, marks[1:]))
    print(json.dumps({
        "variant": options.variant, "workers": options.workers,
        "t_step": marks[-1] / options.steps,
        # The ceil(p n)-th smallest, as leat-overlap has them.
        "p50": steps[(len(steps) + 1) // 2 - 1], "p99": steps[(99 * len(steps) + 99) // 100 - 1],
        "compute": (f"{options.products} x SGEMM {kernels.width}^3 by {kernels.gemm_library()}"
                    if options.products else f"busy for {options.busy_ns} ns"),
        "allocations": allocated, "device_bytes": torch.cuda.max_memory_reserved(device),
        "torch": torch.__version__, "gpu": torch.cuda.get_device_name(device)}))


if __name__ == "__main__":
    main()
