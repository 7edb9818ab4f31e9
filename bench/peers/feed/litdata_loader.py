#!/usr/bin/env python3
"""LitData: token windows of its optimized format, by its TokensLoader and StreamingDataLoader. Each
block has one token more than a window, for y, as LitGPT's have."""

import functools

import numpy
import torch
from litdata import StreamingDataLoader, StreamingDataset, TokensLoader

import peer

WORKERS = (0, 1, 2)


def split(blocks, dtype):
    """x and y, of blocks {rows, LENGTH + 1}."""
    return blocks[:, :-1].astype(dtype), blocks[:, 1:].astype(dtype)


def as_tensors(blocks, dtype):
    x, y = split(numpy.stack(blocks), dtype)
    return torch.from_numpy(x), torch.from_numpy(y)


def quiet(_):
    torch.set_num_threads(1)


class Loader:
    def __init__(self, problem, workers, collate_fn, finish):
        dataset = StreamingDataset(str(problem.data / "tokens_litdata"), shuffle=True, seed=peer.SEED,
                                   drop_last=False, item_loader=TokensLoader(peer.LENGTH + 1))
        options = {"num_workers": workers, "persistent_workers": True,
                   "worker_init_fn": quiet} if workers else {}
        self.finish = finish
        self.loader = StreamingDataLoader(dataset, batch_size=problem.batch, collate_fn=collate_fn,
                                          **options)

    def epoch(self, number):
        return map(self.finish, self.loader) if self.finish else iter(self.loader)


def collate(problem, workers):
    """The loader makes x and y of a batch's blocks."""
    return Loader(problem, workers, functools.partial(as_tensors, dtype=problem.dtype), None)


def blocks(problem, workers):
    """The loader stacks blocks, as it does by default; the loop makes x and y of them."""
    return Loader(problem, workers, None,
                  lambda blocks: split(blocks.numpy(), problem.dtype))


def variants():
    made = {problem: {} for problem in peer.PROBLEMS}
    for workers in WORKERS:
        for problem, kind in peer.PROBLEMS.items():
            if issubclass(kind, peer.Tokens):
                for name, how in (("collate", collate), ("blocks", blocks)):
                    made[problem][f"{name}/{workers}"] = functools.partial(how, workers=workers)
    return made


if __name__ == "__main__":
    peer.main(variants(), ("litdata", "torch", "numpy"))
