"""A training step of torch.distributed.pipelining over Gloo: the peer of bench/pipeline, with the same
layers, the same batch and the same order of work.

    torch_step.py <ranks> <schedule> <steps of a block> <blocks>

The ranks are processes with a thread of torch's each. The schedule is a class of torch's for one stage
a rank, such as Schedule1F1B. Prints medians of the blocks, in nanoseconds: a step (its forwards,
backwards and transfers; no optimizer), and of each stage what one microbatch's forward and backward
take in one process, without a pipeline. Before that, each rank checks its gradient against that of the
whole batch.
"""

import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn
from torch.distributed import pipelining

MICROBATCHES = 8
SAMPLES = 64
WIDTHS = [784] + 7 * [128] + [10]  # the layers of the perceptron: inputs and outputs


def layers(ranks):
    """The stages: as many layers for each rank, a ReLU behind each but the last."""
    torch.manual_seed(1)
    parts = [nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU())
             for inputs, outputs in zip(WIDTHS[:-2], WIDTHS[1:-1])]
    parts.append(nn.Sequential(nn.Linear(WIDTHS[-2], WIDTHS[-1])))
    each = len(parts) // ranks
    return [nn.Sequential(*parts[each * rank:each * (rank + 1)]) for rank in range(ranks)]


def alone(stages, images, labels, loss):
    """The computing of a step, every stage by itself as a pipeline runs it: nanoseconds of the forwards and
    backwards, [forward, backward] of each stage."""
    times = [[0, 0] for _ in stages]
    for image, label in zip(images.chunk(MICROBATCHES), labels.chunk(MICROBATCHES)):
        value, cuts = image, []
        for number, stage in enumerate(stages):
            entered = value.detach().requires_grad_(bool(cuts))
            start = time.perf_counter_ns()
            value = stage(entered)
            if number == len(stages) - 1:
                value = loss(value, label)
            times[number][0] += time.perf_counter_ns() - start
            cuts.append((entered, value))
        gradient = None
        for number, (entered, left) in reversed(list(enumerate(cuts))):
            start = time.perf_counter_ns()
            left.backward(gradient)
            times[number][1] += time.perf_counter_ns() - start
            gradient = entered.grad
    return [one / MICROBATCHES for stage in times for one in stage]


def gradient_of(module):
    return torch.cat([one.grad.flatten() for one in module.parameters()])


def run(rank, ranks, schedule_name, steps, blocks, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    stages = layers(ranks)
    images, labels = torch.rand(SAMPLES, WIDTHS[0]), torch.randint(10, (SAMPLES,))
    loss = nn.functional.cross_entropy
    stage = pipelining.PipelineStage(stages[rank], rank, ranks, torch.device("cpu"))
    schedule = getattr(pipelining.schedules, schedule_name)(stage, MICROBATCHES, loss_fn=loss)
    arguments = (images,) if rank == 0 else ()
    target = {"target": labels} if rank == ranks - 1 else {}

    schedule.step(*arguments, **target, return_outputs=False)
    of_pipeline = gradient_of(stages[rank])
    whole = layers(ranks)
    loss(nn.Sequential(*whole)(images), labels).backward()
    of_batch = gradient_of(whole[rank])
    if (of_pipeline - of_batch).norm() > 1e-5 * of_batch.norm():
        raise RuntimeError(f"rank {rank} has another gradient than the whole batch")

    times, computing = [], []
    for block in range(blocks + 1):
        dist.barrier()
        start = time.perf_counter_ns()
        for _ in range(steps):
            schedule.step(*arguments, **target, return_outputs=False)
        times.append((time.perf_counter_ns() - start) / steps)
        dist.barrier()
        if rank == 0:  # the others wait at the next barrier
            runs = [alone(whole, images, labels, loss) for _ in range(steps)]
            computing.append([statistics.median(column) for column in zip(*runs)])
    dist.barrier()
    if rank == 0:  # the first block warms up
        medians = [statistics.median(column) for column in zip(*computing[1:])]
        print(round(statistics.median(times[1:])), *map(round, medians))
    dist.destroy_process_group()


def main():
    ranks, steps, blocks = int(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run, (ranks, sys.argv[2], steps, blocks, f"{folder}/store"), ranks)


if __name__ == "__main__":
    main()
