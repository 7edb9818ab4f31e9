#!/usr/bin/env python3
"""Trainers make another batch of the type of the one that they walk over. Here their own functions walk over
batches of Leat: what comes out is checked, and the versions of the packages that are installed are printed.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import sys

import leat
import numpy


def twice(array):
    return array * 2


def lightning(batch, torch):
    apply = importlib.import_module("lightning_utilities.core.apply_func")
    arrays = numpy.ndarray if torch is None else torch.Tensor
    yield 2, apply.apply_to_collection(batch, arrays, twice)
    yield 2, apply.apply_to_collections(batch, batch, arrays, lambda one, other: one + other)


def accelerate(batch, torch):
    operations = importlib.import_module("accelerate.utils.operations")
    yield 1, operations.send_to_device(batch, "cpu")
    yield 2, operations.recursively_apply(twice, batch)
    yield 1, operations.slice_tensors(batch, slice(0, 3))
    yield 1, operations.concatenate([batch, batch])
    assert operations.find_batch_size(batch) == batch.size


def transformers(batch, torch):
    trainer = importlib.import_module("transformers.trainer_pt_utils")
    yield 1, trainer.nested_detach(batch)
    yield 1, trainer.nested_numpify(batch)
    yield 1, trainer.nested_truncate(batch, 3)


def pinned(batch, torch):
    collate = importlib.import_module("torch.utils.data._utils.collate")
    yield 1, collate.default_convert(batch)


# package: its walks, and whether they are torch's alone
WALKS = {"lightning-utilities": (lightning, False), "accelerate": (accelerate, True),
         "transformers": (transformers, True), "torch": (pinned, True)}


def check(walk, torch):
    data = leat.InMemory(x=numpy.arange(24, dtype=numpy.float32), y=numpy.arange(24))
    for batch in leat.Prefetcher(data, "cpu", batch_size=8, framework="numpy" if torch is None else "torch"):
        for times, made in walk(batch, torch):
            assert type(made) is leat.Batch, type(made)
            assert sorted(made) == ["x", "y"]
            assert (made.epoch, made.index, made.size) == (batch.epoch, batch.index, batch.size)
            for name in made:
                rows = min(len(made[name]), batch.size)
                assert made[name][:rows].tolist() == [times * one for one in batch[name][:rows].tolist()]


def main():
    torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
    versions = {}
    for package, (walk, needs_torch) in WALKS.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        if torch is None and needs_torch:
            continue
        check(walk, torch)
        versions[package] = version
    print(json.dumps(versions))


if __name__ == "__main__":
    sys.exit(main())
