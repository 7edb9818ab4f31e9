#!/usr/bin/env python3
"""Runs leat-overlap and PyTorch's ways of feeding a loop in turns, on the same bytes and the same
kernels of the same GPU, and prints one table. ./run bench overlap calls it, once all is built.

A target that is missed is told, and is no failure; a program that fails is: exit status 1.
"""

import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Name, bytes of a sample, samples of a batch, milliseconds of a step, what computes. Tx / Tc depends
# on the link: at 55 GB/s 256 MiB take 4.9 ms, 64 MiB 1.2 ms.
SHAPES = {
    "tx_tc_5ms": (1 << 20, 256, 5.0, "busy"),
    "gemm_5ms": (1 << 20, 256, 5.0, "gemm"),
    "tx_tc_1ms": (1 << 18, 208, 1.0, "busy"),
    "small_20ms": (1 << 18, 64, 20.0, "busy"),
    "unet3d": (146_600_628, 7, 323.0, "busy"),
    "resnet50": (114_660, 400, 224.0, "busy"),
    "cosmoflow": (2_828_486, 1, 3.5, "busy"),
}
# Variant, DataLoader's workers.
TORCH = (("to", 2), ("pinned", 2), ("side_stream", 0), ("side_stream", 2), ("side_stream", 4),
         ("resident", 0))


class Failed(Exception):
    pass


def last_json(command, limit):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=limit, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {limit} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise Failed(lines[-1])
    return json.loads(done.stdout)


def make_records(folder, sample_bytes, samples):
    """Two files of them, in memory: what is in them is of no matter, but that it differs."""
    folder.mkdir(parents=True)
    block = os.urandom(1 << 20)
    for shard in range(2):
        left = sample_bytes * (samples // 2)
        with open(folder / f"{shard}.bin", "wb") as out:
            while left > 0:
                out.write(block[:min(left, len(block))])
                left -= len(block)


class Bench:
    def __init__(self, options):
        self.options = options
        self.rows = {}  # (shape, row) -> results
        self.failures = {}

    def steps(self, milliseconds):
        return max(20, min(1000, int(self.options.seconds * 1000 / milliseconds)))

    def leat(self, shape, folder, products):
        sample, batch, milliseconds, kind = SHAPES[shape]
        command = [str(self.options.programs / "leat-overlap"), "--device", self.options.device,
                   "--data", f"records:{sample}:{folder}/*.bin", "--samples", str(batch),
                   "--compute", f"{milliseconds}ms", "--steps", str(self.steps(milliseconds)),
                   "--workers", str(self.options.workers), "--json", "-"]
        if kind == "gemm":
            command += ["--compute-kind", "gemm"]
            if products:
                command += ["--products", str(products)]
        return last_json(command, self.options.limit)["runs"][0]

    def torch(self, shape, folder, variant, workers, products):
        sample, batch, milliseconds, kind = SHAPES[shape]
        command = [self.options.python, str(HERE / "torch_loop.py"), "--variant", variant,
                   "--files", f"{folder}/*.bin", "--sample-bytes", str(sample),
                   "--batch-size", str(batch), "--workers", str(workers),
                   "--steps", str(self.steps(milliseconds)), "--kernels", str(self.options.kernels),
                   "--device", self.options.device.partition(":")[2] or "0"]
        command += (["--products", str(products)] if kind == "gemm"
                    else ["--busy-ns", str(int(milliseconds * 1e6))])
        return last_json(command, self.options.limit)

    def take(self, shape, row, run):
        if (shape, row) in self.failures:
            return None
        try:
            result = run()
        except Failed as failed:
            self.failures[shape, row] = str(failed)
            print(f"{shape} {row}: {failed}", file=sys.stderr)
            return None
        self.rows.setdefault((shape, row), []).append(result)
        return result

    def measure(self, shape, scratch):
        sample, batch, _, kind = SHAPES[shape]
        folder = scratch / shape
        make_records(folder, sample, 4 * batch)
        products = 0
        try:
            for turn in range(self.options.rounds):
                print(f"{shape}, round {turn + 1} of {self.options.rounds}", file=sys.stderr)
                ours = self.take(shape, "leat", lambda: self.leat(shape, folder, products))
                if ours is None:
                    return
                if kind == "gemm" and not products:
                    products = int(ours["compute"].split(" x ")[0])
                if not self.options.python:
                    continue
                for variant, workers in TORCH:
                    self.take(shape, f"torch {variant} {workers}",
                              lambda v=variant, w=workers: self.torch(shape, folder, v, w, products))
        finally:
            shutil.rmtree(folder)


def median(results, *keys):
    values = []
    for result in results:
        for key in keys:
            result = result[key]
        values.append(result)
    return statistics.median(values)


def milliseconds(seconds):
    return f"{1000 * seconds:10.3f}"


def table(bench):
    lines = []
    for shape in SHAPES:
        ours = bench.rows.get((shape, "leat"))
        if not ours:
            if (shape, "leat") in bench.failures:
                lines += [f"{shape}: leat-overlap failed: {bench.failures[shape, 'leat']}", ""]
            continue
        sample, batch, _, _ = SHAPES[shape]
        t_x, t_c = median(ours, "t_x_alone"), median(ours, "t_c_alone")
        limit = max(t_x, t_c)
        t_step = median(ours, "t_step")
        lines.append(f"{shape}: batches of {sample * batch / 1e6:.1f} MB, {ours[0]['compute']}; alone "
                     f"Tx {1000 * t_x:.3f} ms, Tc {1000 * t_c:.3f} ms")
        lines.append(f"  {'':24}{'Tstep ms':>10}{'p50':>10}{'p99':>10}{'OE':>8}{'of Leat':>10}")
        rank = [result["ranks"][0] for result in ours]
        lines.append(f"  {'leat':24}{milliseconds(t_step)}{milliseconds(median(rank, 'step', 'p50'))}"
                     f"{milliseconds(median(rank, 'step', 'p99'))}{limit / t_step:8.3f}{1:10.3f}")
        best = None
        for (of, row), results in bench.rows.items():
            if of != shape or row == "leat":
                continue
            theirs = median(results, "t_step")
            best = theirs if best is None else min(best, theirs)
            lines.append(f"  {row:24}{milliseconds(theirs)}{milliseconds(median(results, 'p50'))}"
                         f"{milliseconds(median(results, 'p99'))}{limit / theirs:8.3f}"
                         f"{theirs / t_step:10.3f}")
        for (of, row), why in bench.failures.items():
            if of == shape:
                lines.append(f"  {row:24}failed: {why}")
        lines.append(f"  bubble p50 {1e6 * median(rank, 'bubble', 'p50'):.1f} us, "
                     f"p99 {1e6 * median(rank, 'bubble', 'p99'):.1f} us; interference "
                     f"{median(ours, 'interference'):.3f}; AU "
                     f"{100 * median(ours, 'accelerator_utilization'):.1f} %; the serial loop "
                     f"{median(ours, 'speed_up'):.2f} times as long")
        if best is not None:
            verdict = "met" if best >= t_step else "MISSED"
            lines.append(f"  no slower than the best of PyTorch: {best / t_step:.3f} times as fast, of at "
                         f"most {best / limit:.3f} ({verdict})")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of leat-overlap")
    parser.add_argument("--kernels", type=pathlib.Path, help="libleat_overlap_kernels.so")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--python", default=sys.executable, help="with PyTorch; empty: Leat alone")
    parser.add_argument("--only", action="append", choices=SHAPES, help="a shape; several times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="of each loop, about")
    parser.add_argument("--workers", type=int, default=4, help="Leat's readers")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one program")
    parser.add_argument("--save", type=pathlib.Path, help="write <save>.txt and <save>.json")
    options = parser.parse_args()
    if options.python and not options.kernels:
        parser.error("PyTorch's loops need --kernels")

    bench = Bench(options)
    memory = pathlib.Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as scratch:
        for shape in options.only or SHAPES:
            bench.measure(shape, pathlib.Path(scratch))
    gpus = sorted({result["description"] for (_, row), results in bench.rows.items()
                   for result in results if row == "leat"})
    versions = sorted({result["torch"] for (_, row), results in bench.rows.items()
                       for result in results if row != "leat"})
    head = (f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}, "
            f"{', '.join(gpus) or 'no device'}, PyTorch {', '.join(versions) or 'not run'}\n"
            f"command: compare.py {' '.join(sys.argv[1:])}\n"
            f"medians of {options.rounds} rounds, in which all take turns; OE = max(Tx, Tc) alone / "
            f"Tstep\n")
    text = head + "\n" + table(bench)
    print(text)
    if options.save:
        options.save.with_suffix(".txt").write_text(text + "\n")
        rows = [{"shape": shape, "row": row, "results": results}
                for (shape, row), results in bench.rows.items()]
        failures = [{"shape": shape, "row": row, "why": why}
                    for (shape, row), why in bench.failures.items()]
        options.save.with_suffix(".json").write_text(
            json.dumps({"head": head, "rows": rows, "failures": failures}, indent=1) + "\n")
    return 1 if bench.failures or not bench.rows else 0


if __name__ == "__main__":
    sys.exit(main())
