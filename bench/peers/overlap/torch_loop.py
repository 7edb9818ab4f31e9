#!/usr/bin/env python3
"""A training loop of PyTorch's that computes nothing but time: one variant of feeding it, measured as
leat-overlap measures its own. Prints one line of JSON; compare.py runs it.

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
import json
import sys

import numpy
import torch

VARIANTS = ("to", "pinned", "side_stream", "resident")


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


class Records(torch.utils.data.Dataset):
    """Whole batches of records, gathered by numpy, which is how PyTorch reads them fastest."""

    def __init__(self, files, sample_bytes):
        self.shards = [numpy.memmap(name, dtype=numpy.uint8, mode="r").reshape(-1, sample_bytes)
                       for name in files]
        self.begins = numpy.cumsum([0] + [len(shard) for shard in self.shards])

    def __len__(self):
        return int(self.begins[-1])

    def __getitem__(self, indices):
        indices = numpy.asarray(indices)
        shard = numpy.searchsorted(self.begins, indices[0], side="right") - 1
        if indices[-1] < self.begins[shard + 1]:  # all in one, and in order: one copy
            first = int(indices[0] - self.begins[shard])
            return torch.from_numpy(self.shards[shard][first:first + len(indices)].copy())
        rows = [self.shards[numpy.searchsorted(self.begins, i, side="right") - 1][
            i - self.begins[numpy.searchsorted(self.begins, i, side="right") - 1]] for i in indices]
        return torch.from_numpy(numpy.stack(rows))


def loader_of(data, options, pinned):
    sampler = torch.utils.data.BatchSampler(torch.utils.data.SequentialSampler(data),
                                            options.batch_size, drop_last=True)
    return torch.utils.data.DataLoader(
        data, sampler=sampler, batch_size=None, num_workers=options.workers, pin_memory=pinned,
        persistent_workers=options.workers > 0)


def endless(loader):
    while True:
        yield from loader


def one_ahead(batches, stream, device):
    """apex's data_prefetcher: the next batch is copied while the loop works on this one."""
    side = torch.cuda.Stream(device)

    def preload():
        host = next(batches)
        with torch.cuda.stream(side):
            return host.to(device, non_blocking=True), host

    following = preload()
    while True:
        stream.wait_stream(side)
        batch, _ = following
        batch.record_stream(stream)
        following = preload()
        yield batch


def batches_of(options, data, stream, device):
    if options.variant == "resident":
        count = max(2, min(8, len(data) // options.batch_size))
        pinned = [data[range(i * options.batch_size, (i + 1) * options.batch_size)].pin_memory()
                  for i in range(count)]
        return one_ahead(endless(pinned), stream, device)
    loader = endless(loader_of(data, options, options.variant != "to"))
    if options.variant == "side_stream":
        return one_ahead(loader, stream, device)
    non_blocking = options.variant == "pinned"
    return (batch.to(device, non_blocking=non_blocking) for batch in loader)


def check_contents(options, data, batches):
    """Nobody skips bytes: the first batch's sum on the device is that of the file."""
    batch = next(batches)
    expected = int(data[range(options.batch_size)].to(torch.int64).sum())
    found = int(batch.to(torch.int64).sum())
    if found != expected:
        sys.exit(f"torch_loop.py: the first batch's sum is {found} on the device, not {expected}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--files", required=True, help="of records, as a glob")
    parser.add_argument("--sample-bytes", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--kernels", required=True, help="libleat_overlap_kernels.so")
    parser.add_argument("--busy-ns", type=int, default=0, help="a kernel of that length in each step")
    parser.add_argument("--products", type=int, default=0, help="or so many matrix products")
    parser.add_argument("--device", type=int, default=0)
    options = parser.parse_args()

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

    data = Records(sorted(glob.glob(options.files)), options.sample_bytes)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    releases = []  # an event behind each step, to know p50 and p99
    with torch.cuda.stream(stream):
        batches = batches_of(options, data, stream, device)
        check_contents(options, data, batches)
        for step in range(options.warm_up + options.steps):
            batch = next(batches)
            compute()
            del batch  # to the allocator, which knows its streams
            if step + 1 == options.warm_up:
                start.record(stream)
            elif step >= options.warm_up:
                released = torch.cuda.Event(enable_timing=True)
                released.record(stream)
                releases.append(released)
        end.record(stream)
        end.synchronize()
    marks = [0.0] + [start.elapsed_time(released) * 1e-3 for released in releases]
    steps = sorted(b - a for a, b in zip(marks, marks[1:]))
    print(json.dumps({
        "variant": options.variant, "workers": options.workers,
        "t_step": start.elapsed_time(end) * 1e-3 / options.steps,
        "p50": steps[len(steps) // 2], "p99": steps[min(len(steps) - 1, len(steps) * 99 // 100)],
        "compute": (f"{options.products} x SGEMM {kernels.width}^3 by {kernels.gemm_library()}"
                    if options.products else f"busy for {options.busy_ns} ns"),
        "torch": torch.__version__, "gpu": torch.cuda.get_device_name(device)}))


if __name__ == "__main__":
    main()
