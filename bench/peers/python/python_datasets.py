#!/usr/bin/env python3
"""A dataset in Python, read by each loader at its best. ./README.md has what is measured.

    python_datasets.py make <data>                                     writes what is read
    python_datasets.py <loader>                                        prints its variants and versions
    python_datasets.py <loader> <problem> <variant> <seconds> <data>   samples per second
    python_datasets.py <loader> training <variant> <steps> <data>      a step's time beside its readers
    python_datasets.py <loader> start <variant> <workers> <data>       the first batch of two loaders
    python_datasets.py <loader> memory <variant> <epochs> <data>       of all processes, after epoch 5 and the last

Problems: copies_<batch>, by one process; transform_<processes>. The loader `alone` is none: processes that compute,
and hand over nothing.
"""

import functools
import gc
import importlib
import importlib.metadata
import importlib.util
import itertools
import json
import logging
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy

SHAPE = (3, 224, 224)  # of a sample, in bytes: 0.15 MB
IMAGES = 512  # in the file; a dataset has them again and again
COPIES = {1: 1024, 27: 128, 256: 32}  # samples of a batch -> batches of an epoch
ROUNDS = 19_000  # of compute(): some 2 ms
BATCH, BATCHES = 8, 64  # of what computes: an epoch takes a process a second
TRAIN = ROUNDS // 2  # rounds of a step of training
EARLY = 5
HAS_TORCH = importlib.util.find_spec("torch") is not None
CPUS = len(os.sched_getaffinity(0))
PROCESSES = sorted({1, *(n for n in (2, 4, 8) if n < CPUS), CPUS})


def compute(rounds):
    """Keeps the GIL."""
    x = 1
    for _ in range(rounds):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
    return x


# --- the dataset ------------------------------------------------------------------------------


class Images:
    """`rounds` of computing, then a row of a mapped file. A row's first eight bytes are its number."""

    fields = {"x": ("uint8", SHAPE)}

    def __init__(self, folder, samples, rounds=0):
        self.path, self.samples, self.rounds = pathlib.Path(folder) / "images", samples, rounds
        self.map_file()

    def map_file(self):
        self.rows = numpy.asarray(numpy.memmap(self.path, numpy.uint8, "c")).reshape(IMAGES, *SHAPE)

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "rows"}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.map_file()

    def __len__(self):
        return self.samples

    def read(self, number):
        compute(self.rounds)
        return self.rows[number % IMAGES]

    def read_batch(self, numbers):
        """A batch, gathered by one call."""
        for _ in numbers if self.rounds else ():
            compute(self.rounds)
        return {"x": self.rows[numpy.asarray(numbers) % IMAGES]}


class Samples(Images):
    def __getitem__(self, number):
        return {"x": self.read(number)}


class WholeBatches(Samples):
    """What it gives needs no collate."""

    def __getitems__(self, numbers):
        import torch
        return {"x": torch.from_numpy(self.read_batch(numbers)["x"])}


class InPlace(Images):
    def read_into(self, number, out):
        out["x"][:] = self.read(number)


class Shard:
    """Of the numbers of an epoch, those of one worker; in another order each time."""

    def __init__(self, samples, worker=0, workers=1):
        self.samples, self.worker, self.workers, self.epoch = samples, worker, workers, 0

    def __iter__(self):
        self.epoch += 1
        return iter(numpy.random.default_rng(self.epoch).permutation(self.samples)[self.worker::self.workers].tolist())


class Batches:
    def __init__(self, data, batch, shard):
        self.data, self.batch, self.shard = data, batch, shard

    def __iter__(self):
        numbers = iter(self.shard)
        while some := list(itertools.islice(numbers, self.batch)):
            yield self.data.read_batch(some)


def same(batch):
    return batch


def stack(samples):
    return {"x": numpy.stack([sample["x"] for sample in samples])}


def computed(rounds, sample):
    compute(rounds)
    return sample


# --- the loaders ------------------------------------------------------------------------------
# A function of a way, the data's folder, samples, rounds, a batch's samples, processes. It gives what makes an iterator
# of an epoch's batches, and what closes it, or None.


def leat(way, folder, samples, rounds, batch, processes):
    import leat
    if way == "prefetcher":
        feed, epochs = leat.Prefetcher(InPlace(folder, samples, rounds), "cpu", batch_size=batch, workers=processes,
                                       prefetch_depth=4, framework="torch" if HAS_TORCH else "numpy"), itertools.count()
        return lambda: iter(feed.epoch(next(epochs))), feed.close
    loader = leat.DataLoader(DATA[way](folder, samples, rounds), batch, shuffle=True, num_workers=processes,
                             collate_fn=COLLATE[way], persistent_workers=True)
    return loader.__iter__, loader.close


def torch(way, folder, samples, rounds, batch, processes, module="torch.utils.data", name="DataLoader"):
    """`way`: as what it reads, or how its processes start."""
    context = way if way in CONTEXTS else None
    way = "samples" if context else way
    multiprocessing.set_forkserver_preload(["torch"])
    loader = getattr(importlib.import_module(module), name)(
        DATA[way](folder, samples, rounds), batch, shuffle=True, num_workers=processes, collate_fn=COLLATE[way],
        multiprocessing_context=context, persistent_workers=True)
    return loader.__iter__, None


def spdl(context, folder, samples, rounds, batch, processes):
    """As many of its subprocesses, over memory that is shared and used again."""
    from spdl.pipeline import SharedMemorySegmentPool, iterate_in_subprocess
    from spdl.source.utils import MergeIterator
    multiprocessing.set_start_method(context, force=True)  # its arena has locks of that
    multiprocessing.set_forkserver_preload(["spdl.pipeline", "numpy"])
    room = batch * int(numpy.prod(SHAPE)) + (1 << 16)
    parts = [iterate_in_subprocess(
        functools.partial(Batches, Images(folder, samples, rounds), batch, Shard(samples, process, processes)),
        mp_context=context, arena=SharedMemorySegmentPool(room, 6)) for process in range(processes)]
    return lambda: iter(MergeIterator(parts) if processes > 1 else parts[0]), None


def grain(way, folder, samples, rounds, batch, processes):
    logging.disable(logging.WARNING)  # it misses JAX, which it does not need
    import grain
    if way == "samples":
        made = grain.MapDataset.source(Samples(folder, samples, rounds)).seed(1).shuffle().batch(batch)
    else:
        made = grain.MapDataset.range(samples).seed(1).shuffle().batch(batch).map(
            Images(folder, samples, rounds).read_batch)
    # One iterator for all epochs: its processes end with it.
    batches = iter(made.repeat().to_iter_dataset().mp_prefetch(
        grain.MultiprocessingOptions(num_workers=processes, per_worker_buffer_size=4)))
    return lambda: itertools.islice(batches, len(made)), batches.close


def webdataset(way, folder, samples, rounds, batch, processes):
    """Its pipeline of functions, over numbers in place of tar files."""
    import webdataset as wds
    data = Samples(folder, samples, rounds)
    made = wds.DataPipeline(Shard(samples).__iter__, wds.split_by_worker, wds.map(data.__getitem__),
                            wds.batched(batch, collation_fn=stack))
    loader = wds.WebLoader(made, batch_size=None, num_workers=processes, persistent_workers=True)
    return loader.__iter__, None


def litdata(way, folder, samples, rounds, batch, processes):
    """Its own format."""
    from litdata import StreamingDataLoader, StreamingDataset
    data = StreamingDataset(str(pathlib.Path(folder) / "images_litdata"), shuffle=True, seed=1, drop_last=False,
                            transform=functools.partial(computed, rounds))
    loader = StreamingDataLoader(data, batch_size=batch, num_workers=processes, persistent_workers=True)
    return loader.__iter__, None


DATA = {"samples": Samples, "batches": WholeBatches}
COLLATE = {"samples": None, "batches": same}
CONTEXTS = ("fork", "forkserver")
# loader -> its function, the ways in which it reads, and the package whose version counts
LOADERS = {
    "leat": (leat, ("samples", "batches", "prefetcher"), "leat"),
    "torch": (torch, ("samples", "batches"), "torch"),
    "torchdata": (functools.partial(torch, module="torchdata.stateful_dataloader", name="StatefulDataLoader"),
                  ("samples", "batches"), "torchdata"),
    "spdl": (spdl, ("fork",), "spdl"),
    "grain": (grain, ("samples", "batches"), "grain"),
    "webdataset": (webdataset, ("samples",), "webdataset"),
    "litdata": (litdata, ("samples",), "litdata"),
    "alone": (None, ("processes",), "numpy"),
}


class Loader:
    def __init__(self, name, way, folder, batch, processes, samples, rounds=0):
        self.samples = IMAGES if name == "litdata" else samples
        self.epoch, self.end = LOADERS[name][0](way, folder, samples, rounds, batch, processes)

    def close(self):
        if self.end:
            self.end()


# --- what is measured -------------------------------------------------------------------------


def look(batch):
    """Numbers of a batch's images, and its last elements."""
    x = batch["x"]
    x = x.numpy() if hasattr(x, "numpy") else x
    if x.dtype != numpy.uint8 or x.shape[1:] != SHAPE:
        raise SystemExit(f"wrong data: {x.dtype} {x.shape}")
    return x, x.reshape(len(x), -1)[:, :8].copy().view(numpy.uint64)[:, 0], x[:, -1, -1, -1].copy()


def check(seen, loader, rows):
    """That an epoch had each image as often as it should."""
    numbers, lasts = (numpy.concatenate(parts) for parts in zip(*seen))
    counts = numpy.bincount(numbers.astype(int), minlength=IMAGES)
    if (counts != numpy.bincount(numpy.arange(loader.samples) % IMAGES, minlength=IMAGES)).any() or (
            lasts != rows[numbers, -1, -1, -1]).any():
        raise SystemExit("wrong data: not each sample once")


def read_all(loader, rows):
    """An epoch, of which each element is compared."""
    seen = []
    for batch in loader.epoch():
        x, *keys = look(batch)
        if (x != rows[keys[0]]).any():
            raise SystemExit("wrong data: an image is not that of its number")
        seen.append(keys)
    check(seen, loader, rows)


def rate(name, problem, way, seconds, folder):
    kind, size = problem.split("_")
    if name == "alone":
        return {"samples_per_second": alone(folder, int(size), float(seconds))}
    batch, processes = (int(size), 1) if kind == "copies" else (BATCH, int(size))
    samples = batch * (COPIES[batch] if kind == "copies" else BATCHES)
    loader = Loader(name, way, folder, batch, processes, samples, 0 if kind == "copies" else ROUNDS)
    rows = Images(folder, 0).rows
    read_all(loader, rows)
    epochs, elapsed, start = [], 0, time.perf_counter()
    while elapsed < float(seconds):
        epochs.append([look(batch)[1:] for batch in loader.epoch()])
        elapsed = time.perf_counter() - start
    for seen in epochs:
        check(seen, loader, rows)
    loader.close()
    return {"samples_per_second": len(epochs) * loader.samples / elapsed, "epochs": len(epochs), "seconds": elapsed}


class Workers:
    """Unrelated processes that read samples of the transform, and do nothing else."""

    def __init__(self, folder, count, seconds):
        self.all = [subprocess.Popen([sys.executable, __file__, "work", str(seconds), folder], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True) for _ in range(count)]
        for one in self.all:
            one.stdout.readline()
        for one in self.all:
            one.stdin.write("begin\n")
            one.stdin.flush()

    def rates(self):
        return sum(float(one.communicate()[0]) for one in self.all)

    def end(self):
        for one in self.all:
            one.kill()
            one.communicate()


def work(seconds, folder):
    """One of them."""
    data, out, count = Images(folder, IMAGES, ROUNDS), numpy.empty(SHAPE, numpy.uint8), 0
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < float(seconds):
        out[:] = data.read(count)
        count += 1
    print(count / elapsed)


def alone(folder, processes, seconds):
    return Workers(folder, processes, max(seconds, 1)).rates()


def training(name, way, steps, folder):
    """Steps of computing in this thread; beside them, as many processes as there are CPUs left read the transform."""
    processes, times, now = max(min(CPUS - 1, 3), 1), [], time.perf_counter_ns
    batch_time = BATCH * 2e-3 / processes
    if name == "alone":
        workers = Workers(folder, processes, 600)
        batches = iter(lambda: time.sleep(batch_time / 4), 0)
    else:
        loader = Loader(name, way, folder, BATCH, processes, BATCH * BATCHES, ROUNDS)
        batches = itertools.chain.from_iterable(iter(loader.epoch, None))
    for number, batch in enumerate(batches):
        if name != "alone":
            look(batch)
        for _ in range(12 // processes):  # three quarters of the time that a batch takes: the loop waits for it
            begin = now()
            compute(TRAIN)
            times.append(now() - begin)
        if number == 10:  # all has begun
            times.clear()
        if len(times) >= int(steps):
            break
    workers.end() if name == "alone" else loader.close()
    p50, p99 = numpy.quantile(numpy.asarray(times) * 1e-3, (0.5, 0.99))
    return {"p50_us": p50, "p99_us": p99, "n": len(times)}


def start(name, way, processes, folder):
    """From nothing but imported packages to the first batch; and the same once that loader has ended."""
    for module in (["torch"] if HAS_TORCH else []) + [LOADERS[name][2]]:
        importlib.import_module(module)
    rows, found = Images(folder, 0).rows, {}
    for which in ("first_ms", "second_ms"):
        begin = time.perf_counter()
        loader = Loader(name, way, folder, BATCH, int(processes), BATCH * BATCHES)
        batches = loader.epoch()
        x, numbers, _ = look(next(batches))
        found[which] = (time.perf_counter() - begin) * 1e3
        if (x != rows[numbers]).any():
            raise SystemExit("wrong data")
        loader.close()
        del loader, batches, x
        gc.collect()
    return found


def family():
    """This process, and all that it and they have started."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass  # it has ended
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def memory(name, way, epochs, folder):
    """Of all processes: what they share counts once."""
    loader, found = Loader(name, way, folder, BATCH, 2, BATCH * BATCHES), {}
    rows = Images(folder, 0).rows
    for number in range(1, int(epochs) + 1):
        check([look(batch)[1:] for batch in loader.epoch()], loader, rows)
        if number in (EARLY, int(epochs)):
            gc.collect()
            found["early_pss" if number == EARLY else "late_pss"] = 1024 * sum(
                int(re.search(r"^Pss:\s*(\d+) kB", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
                for pid in family())
            found["processes"] = len(family())
    loader.close()
    return found


# --- the data ---------------------------------------------------------------------------------


def image(number, folder):
    return {"x": Images(folder, 0).rows[number]}


def make(folder):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    images = numpy.random.default_rng(1).integers(0, 256, (IMAGES, int(numpy.prod(SHAPE))), numpy.uint8)
    images[:, :8] = numpy.arange(IMAGES, dtype=numpy.uint64)[:, None].view(numpy.uint8)
    images.tofile(pathlib.Path(folder) / "images")
    try:
        from litdata import optimize
    except ImportError:
        return
    optimize(functools.partial(image, folder=folder), list(range(IMAGES)), str(pathlib.Path(folder) / "images_litdata"),
             chunk_bytes="16MB", num_workers=1, reorder_files=False, verbose=False, start_method="fork")


def main():
    name, *words = sys.argv[1:]
    if name in ("make", "work"):
        globals()[name](*words)
    elif not words:
        for problem in (*(f"copies_{batch}" for batch in COPIES if name != "alone"),
                        *(f"transform_{processes}" for processes in PROCESSES)):
            for way in LOADERS[name][1]:
                print("variant", problem, way)
        print("version", LOADERS[name][2], importlib.metadata.version(LOADERS[name][2]))
    else:
        measured = {"training": training, "start": start, "memory": memory}.get(words[0])
        print(json.dumps(measured(name, *words[1:]) if measured else rate(name, *words)))


if __name__ == "__main__":
    main()
