#!/usr/bin/env python3
"""Runs leat-overlap and PyTorch's ways of feeding a loop in turns, on the same bytes and the same
kernels of the same GPU, and prints one table. ./run bench overlap calls it, once all is built.

A missed target is reported; it is not a failure. A program that fails is one: exit status 1.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
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
VARIANTS = ("to", "pinned", "side_stream")
NAMES = ("compute", "description", "torch")
# What the table shows of a result: names, and figures.
LEAT_HAS = (("compute",), ("description",), ("t_x_alone",), ("t_c_alone",), ("t_step",),
            ("interference",), ("accelerator_utilization",), ("speed_up",),
            *(("ranks", 0, of, quantile) for of in ("step", "bubble") for quantile in ("p50", "p99")))
TORCH_HAS = (("compute",), ("torch",), ("t_step",), ("p50",), ("p99",), ("allocations",))


class Failed(Exception):
    """A program, or the making of its data, failed; the text says how."""


def run(command, limit, preload=None):
    """What the command prints, as JSON."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if preload is not None:
        env["LD_PRELOAD"] = " ".join(filter(None, (preload, env.get("LD_PRELOAD"))))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", timeout=limit,
                              env=env)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {limit:g} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise Failed(lines[-1])
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Failed(f"printed what is no JSON: {done.stdout[:60]!r}") from None


def get(result, keys):
    for key in keys:
        result = result[key]
    return result


def got(result, keys):
    try:
        return get(result, keys)
    except (LookupError, TypeError):
        raise Failed(f"its JSON has no {'.'.join(map(str, keys))}") from None


def complete(result, wanted):
    """The result, if it has all that is wanted of it."""
    for keys in wanted:
        value = got(result, keys)
        good = (isinstance(value, str) if keys[-1] in NAMES else
                isinstance(value, (int, float)) and (value > 0 or keys[-1] != "t_step"))
        if not good:
            raise Failed(f"its JSON has {value!r} as {'.'.join(map(str, keys))}")
    return result


def products_of(result):
    """The number of products in a step, and the cuBLAS that computes them, by version and file. Of the
    same version, it has the same kernels."""
    found = re.fullmatch(r"(\d+) x .* by (cuBLAS \S+) of (.+)", result["compute"])
    if found is None:
        raise Failed(f"names no products and cuBLAS: {result['compute']!r}")
    return int(found[1]), found[2], found[3]


def make_records(folder, sample_bytes, samples):
    """Two files of them, in memory, whose every MiB differs from the others."""
    block = os.urandom(1 << 20)
    try:
        folder.mkdir(parents=True)
        for shard in range(2):
            left = sample_bytes * (samples // 2)
            with open(folder / f"{shard}.bin", "wb") as out:
                while left > 0:
                    out.write((os.urandom(64) + block[64:])[:left])
                    left -= min(left, len(block))
    except OSError as error:
        raise Failed(f"cannot write {sample_bytes * samples / 1e6:.0f} MB of records in "
                     f"{folder.parent} (--scratch: another folder): {error.strerror}") from None


class Bench:
    """What was measured so far, and what failed."""

    def __init__(self, options):
        self.options = options
        # Variant, DataLoader's workers: each has what serves it best.
        self.peers = (*((variant, workers) for variant in VARIANTS
                        for workers in sorted({0, 4, options.workers})), ("resident", 0))
        self.rows = {}  # (shape, row) -> results
        self.failures = {}  # (shape, row) -> why
        self.preload = None  # the cuBLAS that Leat takes in place of what it would find
        self.stopped = ""  # why the rest was not measured

    def steps(self, milliseconds):
        return max(20, min(1000, int(self.options.seconds * 1000 / milliseconds)))

    def leat(self, shape, folder, products, steps=None):
        sample, batch, milliseconds, kind = SHAPES[shape]
        command = [str(self.options.programs.absolute() / "leat-overlap"),
                   "--device", self.options.device, "--data", f"records:{sample}:{folder}/*.bin",
                   "--samples", str(batch), "--compute", f"{milliseconds}ms",
                   "--steps", str(steps or self.steps(milliseconds)),
                   "--workers", str(self.options.workers), "--json", "-"]
        if kind == "gemm":
            command += ["--compute-kind", "gemm"]
            if products:
                command += ["--products", str(products)]
        result = run(command, self.options.limit, self.preload if kind == "gemm" else None)
        return complete(got(result, ("runs", 0)), LEAT_HAS)

    def torch(self, shape, folder, variant, workers, products, steps=None):
        sample, batch, milliseconds, kind = SHAPES[shape]
        command = [self.options.python, str(HERE / "torch_loop.py"), "--variant", variant,
                   "--files", f"{folder}/*.bin", "--sample-bytes", str(sample),
                   "--batch-size", str(batch), "--workers", str(workers),
                   "--steps", str(steps or self.steps(milliseconds)),
                   "--kernels", str(self.options.kernels.absolute()),
                   "--device", self.options.device.partition(":")[2] or "0"]
        command += (["--products", str(products)] if kind == "gemm"
                    else ["--busy-ns", str(int(milliseconds * 1e6))])
        return complete(run(command, self.options.limit), TORCH_HAS)

    def torch_beside(self, ours, shape, folder, variant, workers, products):
        """The same, if its products are computed as Leat's are."""
        result = self.torch(shape, folder, variant, workers, products)
        if SHAPES[shape][3] == "gemm":
            _, theirs, file = products_of(result)
            _, wanted, its_file = products_of(ours)
            if theirs != wanted:
                raise Failed(f"computes by {theirs} of {file}, Leat by {wanted} of {its_file}")
        return result

    def take(self, shape, row, measured):
        if (shape, row) in self.failures:
            return None
        try:
            result = measured()
        except Failed as failed:
            self.failures[shape, row] = str(failed)
            print(f"{shape} {row}: {failed}", file=sys.stderr)
            return None
        self.rows.setdefault((shape, row), []).append(result)
        return result

    def agree_on_cublas(self, shape, folder):
        """A process of PyTorch's computes by PyTorch's cuBLAS, and Leat's would by the system's."""
        try:
            _, theirs, file = products_of(self.torch(shape, folder, "resident", 0, 1, steps=20))
            if theirs != products_of(self.leat(shape, folder, 1, steps=20))[1]:
                self.preload = file
        except Failed:
            pass  # the rows will tell

    def measure(self, shape, scratch):
        sample, batch, _, kind = SHAPES[shape]
        folder = scratch / shape
        try:
            make_records(folder, sample, 4 * batch)
            if kind == "gemm" and self.options.python:
                self.agree_on_cublas(shape, folder)
            self.rounds(shape, folder)
        except Failed as failed:
            self.failures[shape, "leat"] = str(failed)
            print(f"{shape}: {failed}", file=sys.stderr)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def rounds(self, shape, folder):
        products = 0
        for turn in range(self.options.rounds):
            print(f"{shape}, round {turn + 1} of {self.options.rounds}", file=sys.stderr)
            ours = self.take(shape, "leat", lambda: self.leat(shape, folder, products))
            if ours is None:
                return
            if SHAPES[shape][3] == "gemm" and not products:
                products = products_of(ours)[0]
            if not self.options.python:
                continue
            for variant, workers in self.peers:
                self.take(shape, f"torch {variant} {workers}", lambda v=variant, w=workers:
                          self.torch_beside(ours, shape, folder, v, w, products))


def median(results, *keys):
    return statistics.median(get(result, keys) for result in results)


def milliseconds(seconds):
    return f"{1000 * seconds:10.3f}"


def table_of(bench, shape):
    """The lines of one shape."""
    failures = {row: why for (of, row), why in bench.failures.items() if of == shape}
    ours = bench.rows.get((shape, "leat"))
    if not ours:
        return [f"{shape}: not measured: {failures['leat']}", ""] if failures else []
    sample, batch, _, _ = SHAPES[shape]
    t_x, t_c = median(ours, "t_x_alone"), median(ours, "t_c_alone")
    limit = max(t_x, t_c)
    t_step = median(ours, "t_step")
    lines = [f"{shape}: batches of {sample * batch / 1e6:.1f} MB, {ours[-1]['compute']}; alone "
             f"Tx {1000 * t_x:.3f} ms, Tc {1000 * t_c:.3f} ms",
             f"  {'':24}{'Tstep ms':>10}{'p50':>10}{'p99':>10}{'OE':>8}{'of Leat':>10}"]

    def line(row, results, at):
        its = median(results, "t_step")
        notes = []
        if len(results) < bench.options.rounds:
            notes.append(f"{len(results)} of {bench.options.rounds} rounds")
        allocations = max(result.get("allocations", 0) for result in results)
        if allocations > 0:
            notes.append(f"{allocations} allocations on the device meanwhile")
        lines.append(f"  {row:24}{milliseconds(its)}{milliseconds(median(results, *at, 'p50'))}"
                     f"{milliseconds(median(results, *at, 'p99'))}{limit / its:8.3f}"
                     f"{its / t_step:10.3f}{''.join('  ' + note for note in notes)}")
        return its

    line("leat", ours, ("ranks", 0, "step"))
    theirs = [line(row, results, ()) for (of, row), results in bench.rows.items()
              if of == shape and row != "leat"]
    lines += [f"  {row:24}failed: {why}" for row, why in failures.items()]
    lines.append(f"  bubble p50 {1e6 * median(ours, 'ranks', 0, 'bubble', 'p50'):.1f} us, "
                 f"p99 {1e6 * median(ours, 'ranks', 0, 'bubble', 'p99'):.1f} us; interference "
                 f"{median(ours, 'interference'):.3f}; AU "
                 f"{100 * median(ours, 'accelerator_utilization'):.1f} %; the serial loop "
                 f"{median(ours, 'speed_up'):.2f} times as long")
    if theirs:
        best = min(theirs)
        verdict = "met" if best >= t_step else "MISSED"
        if failures or len(theirs) < len(bench.peers):
            verdict += ", but not all was measured"
        lines.append(f"  no slower than the best of PyTorch: {best / t_step:.3f} times as fast, of at "
                     f"most {best / limit:.3f} ({verdict})")
    return lines + [""]


def head_of(bench):
    gpus = sorted({result["description"] for (_, row), results in bench.rows.items()
                   for result in results if row == "leat"})
    versions = sorted({result["torch"] for (_, row), results in bench.rows.items()
                       for result in results if row != "leat"})
    lines = [f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}, "
             f"{', '.join(gpus) or 'no device'}, PyTorch {', '.join(versions) or 'not run'}",
             f"command: compare.py {shlex.join(sys.argv[1:])}",
             f"medians of {bench.options.rounds} rounds, in which all take turns; OE = max(Tx, Tc) "
             f"alone / Tstep"]
    if bench.preload is not None:
        lines.append(f"leat-overlap was given PyTorch's cuBLAS: LD_PRELOAD={bench.preload}")
    if bench.stopped:
        lines.append(f"STOPPED, and not all was measured: {bench.stopped}")
    return "\n".join(lines) + "\n"


def text_of(bench):
    return "\n".join([head_of(bench)] + [line for shape in SHAPES for line in table_of(bench, shape)])


def save(bench):
    """Replaces <save>.txt and <save>.json by what was measured so far."""
    name = bench.options.save
    if name is None:
        return
    rows = [{"shape": shape, "row": row, "results": results}
            for (shape, row), results in bench.rows.items()]
    failures = [{"shape": shape, "row": row, "why": why}
                for (shape, row), why in bench.failures.items()]
    everything = {"head": head_of(bench), "rows": rows, "failures": failures}
    pathlib.Path(f"{name}.txt").write_text(text_of(bench) + "\n")
    pathlib.Path(f"{name}.json").write_text(json.dumps(everything, indent=1) + "\n")


STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def on_stopping(action):
    for number in STOPPING:
        signal.signal(number, action)


is_stopping = False


def interrupt(number, _frame):
    global is_stopping
    if is_stopping:  # timeout(1) sends two, of which the second would come while we print
        return
    is_stopping = True
    raise KeyboardInterrupt(signal.Signals(number).name)


def measure_all(bench):
    """All shapes, or those until it is stopped. Saves after each: the next may be killed."""
    try:
        with tempfile.TemporaryDirectory(dir=bench.options.scratch) as scratch:
            for shape in bench.options.only or SHAPES:
                bench.measure(shape, pathlib.Path(scratch).resolve())
                save(bench)
    except KeyboardInterrupt as signalled:
        bench.stopped = str(signalled) or "SIGINT"
    except OSError as error:
        bench.stopped = str(error)


def positive(of):
    def convert(text):
        value = of(text)
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text} is not more than 0")
        return value
    convert.__name__ = of.__name__  # argparse tells it: "invalid int value"
    return convert


def parse():
    memory = pathlib.Path("/dev/shm")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of leat-overlap")
    parser.add_argument("--kernels", type=pathlib.Path, help="libleat_overlap_kernels.so")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--python", default=sys.executable, help="with PyTorch; empty: Leat alone")
    parser.add_argument("--only", action="append", choices=SHAPES, help="a shape; several times")
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--seconds", type=positive(float), default=2, help="of each loop, about")
    parser.add_argument("--workers", type=positive(int), default=max(4, len(os.sched_getaffinity(0)) * 3 // 4),
                        help="Leat's readers, and DataLoader's most workers: 3/4 of the CPUs, at least 4")
    parser.add_argument("--limit", type=positive(float), default=300, help="seconds for one program")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for the records (/dev/shm)",
                        default=memory if os.access(memory, os.W_OK) else tempfile.gettempdir())
    parser.add_argument("--save", type=pathlib.Path, help="write <save>.txt and <save>.json")
    options = parser.parse_args()
    if options.python and not options.kernels:
        parser.error("PyTorch's loops need --kernels")
    if options.python and not re.fullmatch(r"auto|cuda:\d+", options.device):
        parser.error("PyTorch's loops need --device cuda:N; --python '' measures Leat alone")
    if options.save is not None and not options.save.parent.is_dir():
        parser.error(f"--save: there is no folder {options.save.parent}")
    if not pathlib.Path(options.scratch).is_dir():
        parser.error(f"--scratch: there is no folder {options.scratch}")
    return options


def main():
    bench = Bench(parse())
    on_stopping(interrupt)
    measure_all(bench)
    on_stopping(signal.SIG_IGN)
    print(text_of(bench), flush=True)
    try:
        save(bench)
    except OSError as error:
        sys.exit(f"compare.py: {error}")
    if bench.stopped:
        print(f"compare.py: stopped: {bench.stopped}", file=sys.stderr)
    return 1 if bench.failures or bench.stopped or not bench.rows else 0


if __name__ == "__main__":
    sys.exit(main())
