"""./run bench pipeline: what an action costs, steps beside their simulation, and beside torch.distributed.pipelining.
bench/peers/pipeline/README.md has the protocol."""

import shutil

from engine.programs import BUILD, CPUS, MPIRUN, PEERS, TORCH, Failed, execute, first_line, google_benchmark, \
    torch_environment
from engine.suite import Run, Suite as Base, builds_with
from engine.tables import matrix
from engine.verdicts import Requirement

KINDS = ("gpipe", "one_f_one_b", "onnx_1f1b", "interleaved_1f1b", "looped_bfs", "zero_bubble",
         "zero_bubble_h2", "zbv", "dualpipe_v")
EMPTY = ("gpipe", "one_f_one_b", "zbv")  # of bench/pipeline/action_bench.cpp
MICROBATCHES = 8  # of a step that is compared with torch's
TORCH_NAMES = {"one_f_one_b": "Schedule1F1B", "gpipe": "ScheduleGPipe"}
OTHERS = {"local": 0.1, "mpi": 0.5}  # Leat's ways to run that step -> the target, of torch's overhead

ACTIONS = [f"action/{kind}/ranks:{ranks}/microbatches:16" for kind in EMPTY for ranks in (2, 4, 8)]
SIMULATED = {f"{what}/{kind}": bound for what, bound in (("modelled", 0.95), ("computing", 0.9)) for kind in KINDS}
STEPS = [f"overhead/{kind}/ranks:{ranks}" for kind in TORCH_NAMES for ranks in (2, 4)]

# --- what is taken off a step -------------------------------------------------------------------


def order_of(kind, rank, ranks):
    """A rank's actions: pairs of whether it is a forward, and the microbatch."""
    warmup = MICROBATCHES if kind == "gpipe" else min(MICROBATCHES, ranks - rank)
    actions = [(True, b) for b in range(warmup)]
    for b in range(MICROBATCHES):
        actions.append((False, b))
        if warmup + b < MICROBATCHES:
            actions.append((True, warmup + b))
    return actions


def makespan(kind, times):
    """What a step takes if nothing but computing takes time: `times` has the forward and backward of each
    stage."""
    ranks = len(times) // 2
    orders = [order_of(kind, rank, ranks) for rank in range(ranks)]
    ends, free = {}, [0] * ranks
    while any(orders):
        for rank, order in enumerate(orders):
            while order:
                forward, b = order[0]
                needs = [] if rank == 0 and forward else [(rank - 1, True, b)] if forward else (
                    [(rank, True, b)] if rank == ranks - 1 else [(rank + 1, False, b)])
                if any(need not in ends for need in needs):
                    break
                start = max([free[rank], *(ends[need] for need in needs)])
                free[rank] = ends[rank, forward, b] = start + times[2 * rank + (not forward)]
                order.pop(0)
    return max(free)


def least_of(row, times, cpus):
    """The shortest step: that, or what the CPUs need for all of it."""
    return max(makespan(row.split("/")[1], times), MICROBATCHES * sum(times) / cpus)


def overhead_of(row, step, times, cpus):
    """Nanoseconds beyond that, for each F or B of all ranks."""
    return (step - least_of(row, times, cpus)) / (MICROBATCHES * len(times))


# --- the suite --------------------------------------------------------------------------------


class Suite(Base):
    about = "The benchmarks of bench/pipeline, and torch.distributed.pipelining."
    rows = (*ACTIONS, *SIMULATED, *STEPS)
    peers = ("torch",)
    ours = ("leat", "local", "mpi", "base")
    rounds = {"": 5, "quick": 1, "base": 15}
    seconds = {"": 0.1, "quick": 0.05, "base": 0.05}
    quick = "one round"
    base = "bench_pipeline_action"
    to_base = "action/|modelled/|computing/|overhead/|step/"
    asked = [Requirement("action/.*", "leat", 2, scale=1e3, unit="us"),  # an F or B
             *(Requirement(row, "leat", bound, True) for row, bound in SIMULATED.items()),
             *(Requirement("overhead/.*", f"{name} / torch", bound) for name, bound in OTHERS.items())]
    venv = BUILD / "ddp" / "venv"  # as ./run bench comm --ddp
    wants = ("openmpi-bin libopenmpi-dev",)
    builds = ("bench_pipeline_action", "bench_pipeline_simulated", "bench_pipeline_step")

    def sections(self, bench):
        options, python, steps = bench.options, None, [row for row in STEPS if row in bench.rows]
        contestants = []
        for name in ("local", "mpi") if steps else ():
            if name == "mpi" and shutil.which("mpirun") is None:
                bench.without("mpi", "there is no mpirun")
                continue
            contestants += [(name if of == "leat" else f"base {name}", name, folder)
                            for of, folder in builds_with(options, "bench_pipeline_step").items()]
        if "torch" in bench.peers and steps:
            try:
                python = torch_environment(options.venv)
                contestants.append(("torch", "torch", None))
            except Failed as failure:
                bench.without("torch", str(failure))
        bench.facts |= {"mpi": first_line("mpirun", "--version"), "torch": TORCH}

        def step(name, of, folder, row):
            _, kind, ranks = row.split("/")
            ranks = ranks.split(":")[1]
            command = [python, PEERS / "pipeline" / "torch_step.py", ranks, TORCH_NAMES[kind]] if of == "torch" else [
                *(MPIRUN + [ranks] if of == "mpi" else []), folder / "bench_pipeline_step", of, ranks, kind]

            def figures():
                said = execute([*command, 50, 5], options.limit)  # blocks of so many steps
                time, *times = (float(word) for word in said.split())
                return {row: overhead_of(row, time, times, CPUS),
                        row.replace("overhead", "step"): time,
                        row.replace("overhead", "least"): least_of(row, times, CPUS),
                        row.replace("overhead", "computing of"): MICROBATCHES * sum(times)}
            return Run(name, row, figures)

        def benchmarks(name, folder, program, rows, figure):
            return Run(name, program, lambda: {row: one[figure] for row, one in google_benchmark(
                folder / f"bench_pipeline_{program}", rows, options.seconds, options.limit).items()})

        groups = [[benchmarks(name, folder, program, wanted, figure)
                   for name, folder in builds_with(options, f"bench_pipeline_{program}").items()]
                  for program, rows, figure in (("action", ACTIONS, "ns_per_action"), ("simulated", SIMULATED, "ratio"))
                  for wanted in [[row for row in rows if row in bench.rows]] if wanted]
        yield lambda turn: groups + [[step(*one, row) for one in contestants] for row in steps]

    def is_rate(self, row):
        return row in SIMULATED

    def tables(self, values, facts, out):
        matrix(out, ["an action; simulated / measured"],
               [([row], row, "x" if row in SIMULATED else "ns") for row in (*ACTIONS, *SIMULATED)], values, reference="leat")
        matrix(out, ["a training step"], [([name], name, "ns") for row in STEPS for name in (
            row, *(row.replace("overhead", what) for what in ("step", "least", "computing of")))], values)
