"""torch's DistributedDataParallel over Gloo: the peer of bench/comm/torch_step.cpp, with the same
network, batch and order of work.

    step.py <ranks> <steps of a block> <blocks>

Prints rank 0's median nanoseconds of a step without and with the exchange of gradients, and the
bytes by which DistributedDataParallel has made its process larger.
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


def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def run(rank, ranks, steps, blocks, store):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    network = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                            nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.5)
    images, labels = torch.rand(64, 784), torch.randint(10, (64,))

    def step(model):
        optimizer.zero_grad(set_to_none=False)  # as C++'s
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    for _ in range(steps):
        step(network)

    before = resident_bytes()
    together = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
    for _ in range(steps):
        step(together)
    more = resident_bytes() - before

    times = {False: [], True: []}

    def block(exchanged):
        dist.barrier()
        start = time.perf_counter_ns()
        for _ in range(steps):
            step(together)
        times[exchanged].append((time.perf_counter_ns() - start) / steps)

    for _ in range(blocks):
        with together.no_sync():
            block(False)
        block(True)
    dist.barrier()
    if rank == 0:
        print(round(statistics.median(times[False])), round(statistics.median(times[True])), more)
    dist.destroy_process_group()


def main():
    ranks, steps, blocks = (int(word) for word in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run, (ranks, steps, blocks, f"{folder}/store"), ranks)


if __name__ == "__main__":
    main()
