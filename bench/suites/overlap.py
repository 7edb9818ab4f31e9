"""./run bench overlap: leat-overlap and PyTorch's ways of feeding a loop, on the same bytes and the same kernels of the same
GPU. bench/peers/overlap/README.md has the protocol."""

import os
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

from engine.programs import CPUS, ENVIRONMENT, PEERS, ROOT, Failed, execute_json
from engine.suite import Refused, Run, Suite as Base, positive
from engine.tables import listing
from engine.verdicts import Target, median, ratio

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
# What is kept of a result, in seconds but for the last four: quantity -> where it is.
LEAT_HAS = {"Tstep": ("t_step",), "p50": ("ranks", 0, "step", "p50"), "p99": ("ranks", 0, "step", "p99"),
            "Tx": ("t_x_alone",), "Tc": ("t_c_alone",), "bubble p50": ("ranks", 0, "bubble", "p50"),
            "bubble p99": ("ranks", 0, "bubble", "p99"), "interference": ("interference",),
            "AU": ("accelerator_utilization",), "serial / Tstep": ("speed_up",)}
TORCH_HAS = {"Tstep": ("t_step",), "p50": ("p50",), "p99": ("p99",), "allocations": ("allocations",)}


def got(result, keys, kind=(int, float)):
    """What the JSON has there."""
    value = result
    for key in keys:
        try:
            value = value[key]
        except (LookupError, TypeError):
            raise Failed(f"its JSON has no {'.'.join(map(str, keys))}") from None
    if not isinstance(value, kind) or keys[-1] == "t_step" and not value > 0:
        raise Failed(f"its JSON has {value!r} as {'.'.join(map(str, keys))}")
    return value


def products_of(result):
    """The number of products in a step, and the cuBLAS that computes them, by version and file. Of the
    same version, it has the same kernels."""
    found = re.fullmatch(r"(\d+) x .* by (cuBLAS \S+) of (.+)", got(result, ("compute",), str))
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


class Shape:
    """The programs over one shape's records, and what they have agreed on."""

    def __init__(self, name, options, folder):
        self.name, self.options, self.folder = name, options, folder
        self.sample, self.batch, self.milliseconds, kind = SHAPES[name]
        self.is_products, self.products = kind == "gemm", 0
        self.ours = self.preload = None  # Leat's last result; the cuBLAS that it takes in place of what it would find
        self.steps = max(20, min(1000, int(options.seconds * 1000 / self.milliseconds)))

    def leat(self, steps=None):
        command = [self.options.programs / "leat-overlap", "--device", self.options.device,
                   "--data", f"records:{self.sample}:{self.folder}/*.bin", "--samples", self.batch,
                   "--compute", f"{self.milliseconds}ms", "--steps", steps or self.steps,
                   "--workers", self.options.workers, "--json", "-"]
        if self.is_products:
            command += ["--compute-kind", "gemm", *(["--products", self.products] if self.products else [])]
        preload = {"LD_PRELOAD": " ".join(filter(None, (self.preload, os.environ.get("LD_PRELOAD"))))} if self.preload else {}
        return got(execute_json(command, self.options.limit, env={**ENVIRONMENT, **preload}), ("runs", 0), dict)

    def torch(self, variant, workers, steps=None):
        command = [self.options.python, PEERS / "overlap" / "torch_loop.py", "--variant", variant,
                   "--files", f"{self.folder}/*.bin", "--sample-bytes", self.sample, "--batch-size", self.batch,
                   "--workers", workers, "--steps", steps or self.steps, "--kernels", self.options.kernels,
                   "--device", self.options.device.partition(":")[2] or "0"]
        command += (["--products", self.products or 1] if self.is_products
                    else ["--busy-ns", int(self.milliseconds * 1e6)])
        return execute_json(command, self.options.limit, env=ENVIRONMENT)

    def agree_on_cublas(self):
        """A process of PyTorch's computes by PyTorch's cuBLAS, and Leat's would by the system's."""
        try:
            _, theirs, file = products_of(self.torch("resident", 0, steps=20))
            self.products = 1
            if theirs != products_of(self.leat(steps=20))[1]:
                self.preload = file
        except Failed:
            pass  # the rows will tell
        self.products = 0

    def run_leat(self, facts):
        self.ours = self.leat()
        found = {f"{self.name}, {what}": got(self.ours, keys) for what, keys in LEAT_HAS.items()}
        facts["device"] = got(self.ours, ("description",), str)
        facts[self.name] = f"batches of {self.sample * self.batch / 1e6:.1f} MB, {got(self.ours, ('compute',), str)}"
        if self.is_products and not self.products:
            self.products = products_of(self.ours)[0]
        return found

    def run_torch(self, facts, variant, workers):
        """Its figures, if its products are computed as Leat's are."""
        if self.ours is None:
            raise Failed("there is no figure of Leat's to compare with")
        result = self.torch(variant, workers)
        if self.is_products:
            (_, theirs, file), (_, wanted, its_file) = products_of(result), products_of(self.ours)
            if theirs != wanted:
                raise Failed(f"computes by {theirs} of {file}, Leat by {wanted} of {its_file}")
        facts["PyTorch"] = got(result, ("torch",), str)
        return {f"{self.name}, {what}": got(result, keys) for what, keys in TORCH_HAS.items()}


class Suite(Base):
    about = "leat-overlap and PyTorch's ways of feeding a loop, on the same bytes and kernels of the same GPU."
    rows = tuple(SHAPES)
    ours = ("leat", "torch")  # no row may fail
    rounds = {"": 5}
    seconds = {"": 2}
    programs = ROOT / "build" / "release" / "overlap"
    builds = ("leat-overlap", "leat_overlap_kernels_shared")

    def add_options(self, add):
        memory = pathlib.Path("/dev/shm")
        add("--device", default="cuda:0", help="(%(default)s)")
        add("--python", default=sys.executable, metavar="FILE", help="with PyTorch; '': Leat alone")
        add("--kernels", type=pathlib.Path, metavar="FILE", help="libleat_overlap_kernels.so (beside leat-overlap)")
        add("--workers", type=positive(int), default=max(4, CPUS * 3 // 4),
            help="Leat's readers, and DataLoader's most workers: 3/4 of the CPUs, at least 4")
        add("--scratch", type=pathlib.Path, metavar="FOLDER", help="where the records are (%(default)s)",
            default=memory if os.access(memory, os.W_OK) else tempfile.gettempdir())

    def check(self, options):
        for name in ("kernels", "scratch"):
            if getattr(options, name):
                setattr(options, name, pathlib.Path(options.directory, getattr(options, name)).absolute())
        options.kernels = options.kernels or options.programs / "libleat_overlap_kernels.so"
        if "/" in options.python:
            options.python = pathlib.Path(options.directory, options.python).absolute()
        if options.python and not re.fullmatch(r"auto|cuda:\d+", options.device):
            raise Refused("PyTorch's loops need --device cuda:N; --python '' measures Leat alone")
        if not options.scratch.is_dir():
            raise Refused(f"--scratch: there is no folder {options.scratch}")

    def sections(self, bench):
        options = bench.options
        for name in bench.rows:
            with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
                shape = Shape(name, options, pathlib.Path(scratch).resolve() / name)
                try:
                    make_records(shape.folder, shape.sample, 4 * shape.batch)
                except Failed as failure:
                    bench.failures[f"leat, {name}"] = str(failure)
                    continue
                if shape.is_products and options.python:
                    shape.agree_on_cublas()
                    if shape.preload:
                        bench.facts["leat-overlap was given PyTorch's cuBLAS"] = f"LD_PRELOAD={shape.preload}"
                runs = [Run("leat", name, lambda shape=shape: shape.run_leat(bench.facts))]
                for variant, workers in (*((variant, workers) for variant in VARIANTS
                                           for workers in sorted({0, 4, options.workers})), ("resident", 0)):
                    if options.python:
                        runs.append(Run(f"torch {variant} {workers}", name, lambda shape=shape, at=(variant, workers): (
                            shape.run_torch(bench.facts, *at))))
                yield lambda turn, runs=runs: [[run] for run in runs]  # Leat first: the products are as many as it took
                shutil.rmtree(shape.folder, ignore_errors=True)

    def targets(self, values, facts):
        """The best of PyTorch's steps to Leat's."""
        found = []
        for shape in SHAPES:
            of = values.get(f"{shape}, Tstep", {})
            theirs = {name: statistics.median(steps) for name, steps in of.items() if name != "leat" and steps}
            best = min(theirs, key=theirs.get, default=None)
            if of.get("leat"):
                found.append(Target(f"{shape}: the best of PyTorch to leat", 1, ratio(
                    theirs.get(best), median(values, f"{shape}, Tstep", "leat")), True, "x", best is not None, f"{best}, of {len(theirs)}" if best else ""))
        return found

    def tables(self, values, facts, out):
        for shape in SHAPES:
            t_x, t_c, ours = (median(values, f"{shape}, {what}", "leat") for what in ("Tx", "Tc", "Tstep"))
            if ours is None:
                continue

            def of(what, show, shape=shape):
                return lambda name: show(median(values, f"{shape}, {what}", name))

            milliseconds = lambda seconds: f"{1e3 * seconds:.3f}"
            print(f"{shape}: {facts.get(shape, '?')}; alone Tx {milliseconds(t_x)} ms, Tc {milliseconds(t_c)} ms; "
                  f"OE = max(Tx, Tc) / Tstep", file=out)
            listing(out, "Tstep, ms", values[f"{shape}, Tstep"], milliseconds, [
                ("p50", of("p50", milliseconds)), ("p99", of("p99", milliseconds)),
                ("OE", of("Tstep", lambda step: f"{max(t_x, t_c) / step:.3f}")),
                ("of leat", of("Tstep", lambda step: f"{step / ours:.3f}"))],
                lambda name: "" if not median(values, f"{shape}, allocations", name) else "allocates on the device meanwhile")
            more = {what: median(values, f"{shape}, {what}", "leat") for what in LEAT_HAS}
            print(f"  bubble p50 {1e6 * more['bubble p50']:.1f} us, p99 {1e6 * more['bubble p99']:.1f} us; interference "
                  f"{more['interference']:.3f}; AU {100 * more['AU']:.1f} %; the serial loop {more['serial / Tstep']:.2f} "
                  "times as long\n", file=out)
