"""A training step of torch.distributed.pipelining over Gloo: the peer of bench/pipeline, with the same
layers, the same batch and the same order of work.

    torch_step.py <ranks> <schedule> <steps of a block> <blocks>

The ranks are processes with a thread of torch's each. The schedule is a class of torch's for one stage
a rank, such as Schedule1F1B. Prints two medians of the blocks, in nanoseconds: a step (its forwards,
backwards and transfers; no optimizer), and what one process takes for the same layers and
microbatches, one behind the other, without a pipeline. Before that, each rank checks its gradient
against that of the whole batch.
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
    """The computing of a step: every stage by itself, as a pipeline runs it."""
    for image, label in zip(images.chunk(MICROBATCHES), labels.chunk(MICROBATCHES)):
        value, cuts = image, []
        for stage in stages:
            entered = value.detach().requires_grad_(bool(cuts))
            value = stage(entered)
            cuts.append((entered, value))
        cuts[-1] = (cuts[-1][0], loss(value, label))
        gradient = None
        for entered, left in reversed(cuts):
            left.backward(gradient)
            gradient = entered.grad


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
            start = time.perf_counter_ns()
            for _ in range(steps):
                alone(whole, images, labels, loss)
            computing.append((time.perf_counter_ns() - start) / steps)
    dist.barrier()
    if rank == 0:  # the first block warms up
        print(round(statistics.median(times[1:])), round(statistics.median(computing[1:])))
    dist.destroy_process_group()


def main():
    ranks, steps, blocks = int(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run, (ranks, sys.argv[2], steps, blocks, f"{folder}/store"), ranks)


if __name__ == "__main__":
    main()
