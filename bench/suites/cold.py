"""./run bench feed --cold: samples of files that are not in memory, through Leat, fio and loaders in Python; and of files
in memory, through a ring of slots that is as large as the L3 cache. bench/peers/feed/README.md says how."""

import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import random
import signal
import statistics
import struct
import subprocess
import tempfile
import threading
import time

from engine.programs import (CPUS, ONE_THREAD, ROOT, Failed, capture, execute, first_line, stop,
                             torch_environment)
from engine.suite import Refused, Run, Suite as Base, builds_with
from engine.tables import listing
from engine.verdicts import Target
from suites import feed

LIBC = ctypes.CDLL(None)
LIBC.mmap.restype = ctypes.c_void_p
BLOCK = 8192  # of the records' files: as cold_main.cpp has it
WAYS = ("memmap_random/0", "torch/1", "torch/4", "torch_getitems/4")  # of cold_loader.py


class Row:
    """`fio`, `base`: what is asked for with so many workers, as a ratio to fio, and to the base with one."""

    def __init__(self, name, kind, record, batch, workers, fio=None, base=None, ways=()):
        self.name, self.kind, self.record, self.batch, self.workers = name, kind, record, batch, workers
        self.asked, self.ways = {"fio": fio or {}, "base workers_1": base or {}}, ways


ROWS = [
    Row("cold_8k", "records", BLOCK, 128, (1, 2, 4), {1: 0.75, 4: 0.9}, {1: 4, 4: 4}, ("memmap/0", *WAYS)),
    Row("cold_128k", "records", 16 * BLOCK, 32, (1, 2, 4), None, {1: 1.7}, WAYS),
    Row("cold_web", "bytes", None, 32, sorted({1, CPUS}), {1: 0.9, CPUS: 0.9}),
    Row("cold_web_decoded", "images", None, 32, sorted({1, CPUS})),
    Row("ring_8k", "hot", BLOCK, 0, (1,), None, {1: 1.1}),
    Row("ring_144k", "hot", 18 * BLOCK, 0, (1,), None, {1: 1.25}),
]


def make_records(path, size):
    """Blocks that begin and end with their number, and are noise in between."""
    noise = bytearray(os.urandom(18 * BLOCK))
    with open(path, "wb") as file:
        for block in range(size // BLOCK):
            at = block * BLOCK % len(noise)
            struct.pack_into("<Q", noise, at, block)
            struct.pack_into("<Q", noise, at + BLOCK - 8, block)
            file.write(memoryview(noise)[at:at + BLOCK])
        os.fsync(file.fileno())


class Data:
    """The files, and how large a sample is, where the row does not say. Made where they are missing."""

    def __init__(self, programs, folder, size):
        self.images = size // 8 // 100_000
        self.path = {"records": folder / f"cold_{size}.bin", "hot": folder / "hot.bin",
                     "bytes": folder / f"web_{size}", "images": folder / f"web_{size}"}
        for kind, wanted in (("records", size // 16 // BLOCK * 16 * BLOCK), ("hot", 7000 * 18 * BLOCK)):
            if not self.path[kind].exists() or self.path[kind].stat().st_size != wanted:
                make_records(self.path[kind], wanted)
        web = self.path["bytes"]
        if not (web / "made").exists():
            capture([programs / "make_data", "webdataset", web, self.images, 560, 420])
            os.sync()
            (web / "made").touch()
        self.shards = sorted(web.glob("*.tar"))
        self.mean = sum(path.stat().st_size for path in self.shards) // self.images // 512 * 512

    def files(self, row):
        return self.shards if self.path[row.kind].is_dir() else [self.path[row.kind]]


def evict(paths):
    """Takes the files out of the page cache. Raises Failed where 1 % of a file stays there."""
    for path in paths:
        size = path.stat().st_size
        is_there = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            pages = ctypes.c_void_p(LIBC.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED,
                                              file.fileno(), ctypes.c_long(0)))
        LIBC.mincore(pages, ctypes.c_size_t(size), is_there)
        LIBC.munmap(pages, ctypes.c_size_t(size))
        stay = bytes(is_there).count(1) / len(is_there)
        if stay > 0.01:
            raise Failed(f"{stay:.0%} of {path} stays in memory: it is not cold")


def cpu_seconds(group):
    """Of the processes of a group, and of those of theirs that have ended."""
    ticks = 0
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def timed(command, cold, limit):
    """Seconds and CPU seconds of a program from "ready", when the files `cold` are made so, to its "done"."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, preexec_fn=os.setpgrp, env=ONE_THREAD)
    timer = threading.Timer(limit, os.killpg, [process.pid, signal.SIGKILL])
    timer.start()
    try:
        if process.stdout.readline() == "ready\n":
            evict(cold)
            cpu, start = cpu_seconds(process.pid), time.perf_counter()
            process.stdin.write("go\n")
            process.stdin.flush()
            if process.stdout.readline() == "done\n":
                seconds = time.perf_counter() - start
                return seconds, cpu_seconds(process.pid) - cpu
        process.stdin.close()
        raise Failed((process.stderr.read().strip().splitlines() or [f"no answer in {limit:g} s"])[-1])
    finally:
        timer.cancel()
        stop(process)


def run_fio(files, record, total, seed, limit):
    """Likewise. It counts its own."""
    evict(files)
    said = execute(["fio", "--name=cold", "--filename=" + ":".join(map(str, files)), "--readonly", "--rw=randread",
                    "--ioengine=io_uring", "--iodepth=32", "--iodepth_batch_submit=8", "--iodepth_batch_complete_max=32",
                    "--direct=0", "--fadvise_hint=random", f"--bs={record}",
                    f"--blockalign={record if len(files) == 1 else 512}", f"--io_size={total}",
                    f"--randseed={seed}", "--gtod_reduce=1", "--output-format=json"], limit)
    job = json.loads(said[said.index("{"):])["jobs"][0]
    if job["error"] or job["read"]["io_bytes"] < total - record:
        raise Failed(f"fio: error {job['error']}, {job['read']['io_bytes']} of {total} bytes")
    return job["read"]["runtime"] / 1e3, (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3


def of_rounds(values, row, name, other):
    """The median of the rounds' ratios."""
    one, two = (values[row].get(who) for who in (name, other))
    return statistics.median(a / b for a, b in zip(one, two)) if one and two else None


class Suite(Base):
    about = "Samples of files that are not in memory, beside fio; and of files in memory, through a ring as large as the L3 cache."
    rows = tuple(row.name for row in ROWS)
    peers = ("torch",)
    rounds = {"": 5, "quick": 2}
    quick = "1 GiB in place of 8, 2 rounds"
    base = "bench_feeder_cold"
    venv = feed.Suite.venv
    needs = ("python3-venv", "fio")
    builds = ("bench_feeder_cold", "make_data")

    def add_options(self, add):
        add("--cold", action="store_true", required=True, help="this comparison")
        add("--files", metavar="FOLDER", type=pathlib.Path,
            help="keep the files there (else they are made in build/ and removed)")

    def wanted_peers(self, options):
        return super().wanted_peers(options) if options.peers is not None else list(self.peers)

    def check(self, options):
        options.files = options.files and pathlib.Path(options.directory, options.files).absolute()
        if options.files and not options.files.is_dir():
            raise Refused(f"there is no folder {options.files}")

    def sections(self, bench):
        options, python, size = bench.options, None, (1 if bench.options.quick else 8) << 30
        if bench.peers:
            try:
                python = torch_environment(options.venv)
                bench.facts["python"] = first_line(python, "-c", "import numpy, torch; print('numpy', numpy.__version__, "
                                                   "'torch', torch.__version__)")
            except Failed as failure:
                bench.without("numpy and torch", str(failure))
        builds = builds_with(options, "bench_feeder_cold")
        bench.facts |= {"fio": first_line("fio", "--version"),
                        "files": f"{size >> 30} GiB, {size >> 24} MB of them a run"}
        with contextlib.ExitStack() as stack:
            data = Data(options.programs, options.files or pathlib.Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="leat_cold_", dir=ROOT / "build"))), size)
            for row in ROWS:
                if row.name in bench.rows:
                    runs = list(self.contestants(row, data, builds, python, size >> 24, options.limit))
                    # What lies below this machine's memory may keep what is read: each reads samples of its own choice,
                    # in an order of chance.
                    yield lambda turn, runs=runs: [[run] for run in random.sample(runs, len(runs))]

    def contestants(self, row, data, builds, python, megabytes, limit):
        """Runs that give MB/s of samples, and CPU seconds for a GB of them."""
        record, files = row.record or data.mean, data.files(row)
        is_hot = row.kind == "hot"
        samples = int(megabytes * 1e6 / record * {"hot": 8, "images": 0.25}.get(row.kind, 1))
        if row.record is None:
            samples = min(samples, data.images // 2)
        total, cold = samples * record, [] if is_hot else files

        def run(name, timed_with):
            def figures():
                seconds, cpu = timed_with(time.time_ns() % 1_000_000_000)
                return {row.name: total / seconds / 1e6, f"{row.name}, CPU s/GB": cpu / total * 1e9}
            return Run(name, row.name, figures)

        def program(workers, *command):
            said = [*command, data.path[row.kind], record, row.batch, workers, samples]
            return lambda seed: timed([*said, seed], cold, limit)

        for workers in row.workers:
            for name, folder in builds.items():
                yield run(f"{name} workers_{workers}", program(workers, folder / "bench_feeder_cold", row.kind))
        if cold:
            yield run("fio", lambda seed: run_fio(files, record, total, seed, limit))
        for way, workers in (way.split("/") for way in row.ways if python):
            yield run(f"{way}/{workers}", program(workers, python, feed.HERE / "cold_loader.py", way))

    def judged(self, values, facts):
        return [Target(f"{row.name} workers_{workers}, to {other}", bound,
                       of_rounds(values, row.name, f"leat workers_{workers}", other), True, "x",
                       other in values[row.name])
                for row in ROWS if row.name in values
                for other, asked in row.asked.items() for workers, bound in asked.items()]

    def tables(self, values, facts, out):
        for row in (row for row in ROWS if row.name in values):
            def to(other, row=row):
                found = {name: of_rounds(values, row.name, name, other) for name in values[row.name]}
                return lambda name: "-" if found[name] is None else f"{found[name]:.2f}x"
            cpu, order = values.get(f"{row.name}, CPU s/GB", {}), ("leat", "base", "fio")
            names = sorted(values[row.name], key=lambda name: (
                order.index(name.split(" ")[0]) if name.split(" ")[0] in order else len(order), name))  # they ran by chance
            listing(out, f"{row.name}, MB/s", {name: values[row.name][name] for name in names}, lambda value: f"{value:.0f}", [
                ("CPU s/GB", lambda name, cpu=cpu: f"{statistics.median(cpu[name]):.2f}" if cpu.get(name) else "-"),
                *((f"to {other}", to(other)) for other in row.asked)])

    def saved(self, values, facts):
        return {"latencies": {}}
