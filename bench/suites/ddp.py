"""./run bench comm --ddp: LibTorch's gradients exchanged by Leat, beside torch's DistributedDataParallel over Gloo, on CPUs.
Both sides have the same libtorch: that of PyPI's torch, which is installed with all of its libraries (5.5 GB)."""

import pathlib
import sys

from engine.programs import BUILD, MPIRUN, ONE_THREAD, PEERS, ROOT, TORCH, Failed, capture, execute, first_line, logged, \
    torch_environment
from engine.suite import Run, Suite as Base, positive
from engine.tables import matrix

FOLDER = BUILD / "ddp"
# What both print: the row, its unit, and how large the figure is in that.
ROWS = {"a step without an exchange": "ns", "a step with it": "ns", "more memory with it": "B"}
RATIO = "with it / without"


def build(torch):
    """Leat's program, with that libtorch."""
    program, log = FOLDER / "build" / "bench" / "bench_comm_torch", FOLDER / "build.log"
    print(f"building bench_comm_torch (log: {log})", file=sys.stderr)
    # Torch's own libraries find theirs when the program starts.
    if not logged(log, "cmake", "--preset", "release", "-B", FOLDER / "build", f"-DCMAKE_PREFIX_PATH={torch}",
                  "-DLEAT_TORCH=ON", "-DLEAT_BUILD_TESTS=OFF", "-DLEAT_BUILD_EXAMPLES=OFF",
                  "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined", cwd=ROOT) or not logged(
            log, "cmake", "--build", FOLDER / "build", "--target", "bench_comm_torch", mode="a", cwd=ROOT):
        raise Failed(f"bench_comm_torch could not be built; see {log}")
    return program


class Suite(Base):
    about = "A step of LibTorch with TorchExchange, and with torch's DistributedDataParallel over Gloo."
    ours = ("leat",)
    rounds = {"": 5}
    venv = FOLDER / "venv"
    needs = ("python3-venv", "openmpi-bin", "libopenmpi-dev")

    def add_options(self, add):
        add("--ddp", action="store_true", help="this comparison")
        add("--ranks", type=positive(int), default=2, help="processes (2)")

    def sections(self, bench):
        options = bench.options
        FOLDER.mkdir(parents=True, exist_ok=True)
        python = torch_environment(options.venv)
        packages = pathlib.Path(capture([python, "-c", "import torch; print(torch.__path__[0])"]).strip()).parent
        libraries = ":".join(map(str, packages.glob("nvidia/*/lib")))
        ours, sizes = build(packages / "torch"), ["40", "7"]  # steps of a block, blocks
        commands = {"leat": [*MPIRUN, options.ranks, ours, *sizes],
                    "ddp": [python, PEERS / "comm" / "ddp" / "step.py", options.ranks, *sizes]}
        bench.facts |= {"on both sides": f"{TORCH}, {options.ranks} ranks, a thread each; 1.9 million parameters, 64 "
                        "samples a rank", "mpi": first_line("mpirun", "--version")}

        def figures(command):
            out = execute(command, options.limit, env={**ONE_THREAD, "LD_LIBRARY_PATH": libraries})
            found = dict(zip(ROWS, map(float, out.split())))
            without, with_it, _ = found.values()
            return {**found, RATIO: with_it / without}

        group = [Run(name, "steps", lambda command=command: figures(command)) for name, command in commands.items()]
        yield lambda turn: [group]

    def tables(self, values, facts, out):
        matrix(out, ["a training step"], [([row], row, unit) for row, unit in [*ROWS.items(), (RATIO, "x")]], values,
               reference="leat")
