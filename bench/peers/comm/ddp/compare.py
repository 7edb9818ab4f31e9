#!/usr/bin/env python3
"""LibTorch's gradients exchanged by Leat, beside torch's DistributedDataParallel over Gloo, on CPUs.

./run bench comm --ddp calls it. Both sides have the same libtorch: that of PyPI's torch, which is
installed into a folder of its own with all of its libraries (5.5 GB).
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
sys.dont_write_bytecode = True  # nothing is written to the tree
from facts import ROOT, commit, first_line, machine  # noqa: E402
from torch_venv import TORCH, NoTorch, python_with_torch  # noqa: E402

BUILD = ROOT / "build" / "peers" / "ddp"


def quietly(log, *command):
    with open(log, "a") as out:
        if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, cwd=ROOT).returncode != 0:
            sys.exit(f"{' '.join(map(str, command[:4]))} ... has failed; see {log}")


def environment(folder):
    """Python with torch; what its libraries need is in $LD_LIBRARY_PATH then."""
    try:
        python = python_with_torch(folder, BUILD / "pip.log")
    except NoTorch as reason:
        sys.exit(str(reason))
    packages = pathlib.Path(subprocess.check_output(
        [python, "-c", "import torch; print(torch.__path__[0])"], text=True).strip()).parent
    os.environ["LD_LIBRARY_PATH"] = ":".join(map(str, packages.glob("nvidia/*/lib")))
    return python, packages / "torch"


def build(torch):
    print(f"building bench_comm_torch (log: {BUILD / 'build.log'})", file=sys.stderr)
    # Torch's own libraries find theirs when the program starts.
    quietly(BUILD / "build.log", "cmake", "--preset", "release", "-B", BUILD / "build",
            f"-DCMAKE_PREFIX_PATH={torch}", "-DLEAT_TORCH=ON", "-DLEAT_BUILD_TESTS=OFF",
            "-DLEAT_BUILD_EXAMPLES=OFF", "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined")
    quietly(BUILD / "build.log", "cmake", "--build", BUILD / "build", "--target", "bench_comm_torch")
    return BUILD / "build" / "bench" / "bench_comm_torch"


def main():
    parser = argparse.ArgumentParser(prog="./run bench comm --ddp", description=__doc__.splitlines()[0])
    parser.add_argument("--ddp", action="store_true", help="this comparison")
    parser.add_argument("--ranks", type=int, default=2, help="processes (2)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each program runs (5)")
    parser.add_argument("--venv", type=pathlib.Path, default=BUILD / "venv", metavar="FOLDER",
                        help="where Python has torch, or shall have it")
    parser.add_argument("--save", type=pathlib.Path, metavar="FILE", help="write the table to FILE")
    parser.add_argument("--directory", default=".", help=argparse.SUPPRESS)  # where FILEs begin
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # these, no more
    options = parser.parse_args()
    if options.ranks < 2 or options.rounds < 1:
        parser.error("two ranks and one round at least")
    if options.check:
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    python, torch = environment(pathlib.Path(options.directory, options.venv))
    ours = build(torch)
    load = os.getloadavg()[0]
    sizes = ["40", "7"]  # steps of a block, blocks
    commands = {
        "leat": ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                 "btl", "self,vader", "-np", str(options.ranks), ours, *sizes],
        "ddp": [python, HERE / "step.py", str(options.ranks), *sizes],
    }
    figures = {name: [] for name in commands}
    for turn in range(options.rounds):
        for name, command in sorted(commands.items(), reverse=turn % 2 == 1):
            out = subprocess.check_output(command, text=True, timeout=600)
            figures[name].append([float(word) for word in out.split()])
    lines = [f"command: ./run bench comm {' '.join(w for w in sys.argv[1:] if 'directory' not in w)}",
             f"machine: {machine()}", f"load before: {load:.1f}", f"commit: {commit()}",
             f"rounds: {options.rounds}; {options.ranks} ranks, a thread each; {TORCH} on both sides",
             f"leat: {first_line('g++', '--version')}, {first_line('mpirun', '--version')}", "",
             "1.9 million parameters, 64 samples a rank      leat       ddp"]
    medians = {name: [statistics.median(column) for column in zip(*rows)]
               for name, rows in figures.items()}
    for what, at, scale in (("a step without an exchange, ms", 0, 1e6),
                            ("a step with it, ms", 1, 1e6), ("more memory with it, MB", 2, 1e6)):
        lines.append(f"{what:42}" + "".join(f"{medians[name][at] / scale:10.2f}" for name in commands))
    ratios = {name: statistics.median(row[1] / row[0] for row in rows) for name, rows in figures.items()}
    lines.append(f"{'with it / without':42}" + "".join(f"{ratios[name]:10.2f}" for name in commands))
    print("\n".join(lines))
    if options.save:
        pathlib.Path(options.directory, options.save).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
