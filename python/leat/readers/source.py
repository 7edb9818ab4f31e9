"""From a Python dataset to what a feed reads: which kind it is, and readers that run its code."""

from __future__ import annotations

import os
from typing import Any, Literal

from leat import _core
from leat.readers.options import FillOptions
from leat.readers.processes import CallerReader, ReaderProcesses, ReaderThreads

__all__ = ["READERS", "Mapped", "Opened", "Readers", "is_ordered", "kind_of", "open_readers"]

#: Who runs the Python code of a dataset.
Readers = Literal["processes", "threads", "caller"]
READERS = ("processes", "threads", "caller")

#: What open_readers() gives.
Opened = ReaderProcesses | ReaderThreads | CallerReader


def kind_of(dataset: Any) -> Literal["samples", "read_into", "iterable"]:
    """How a dataset is read. TypeError: it is none."""
    wanted = (
        "dataset has to be a leat.Dataset, or an object with __getitem__ and __len__, with read_into, or with "
        f"__iter__, not {dataset!r}"
    )
    if isinstance(dataset, (str, bytes, os.PathLike, type)):
        raise TypeError(wanted)
    if callable(getattr(dataset, "read_into", None)):
        if not hasattr(dataset, "fields"):
            raise TypeError(
                f"{type(dataset).__name__} has read_into(), but no fields: give it "
                'fields = {"x": ("uint8", (3, 224, 224))}'
            )
        return "read_into"
    if hasattr(type(dataset), "__getitem__") or callable(getattr(dataset, "__getitems__", None)):
        return "samples"
    if hasattr(type(dataset), "__iter__"):
        return "iterable"
    raise TypeError(wanted)


def open_readers(readers: Readers, dataset: Any, options: FillOptions, workers: int) -> Opened:
    """Starts readers, which make batches of ``dataset``."""
    if readers == "caller":
        return CallerReader(dataset, options)
    return (ReaderProcesses if readers == "processes" else ReaderThreads)(dataset, options, workers)


def source_of(dataset: Any, opened: Opened, size: int, bound: bool) -> _core.Readers:
    """What a feed reads by those readers."""
    digest = getattr(dataset, "digest", 0)
    number = digest if isinstance(digest, int) and 0 <= digest < 2**64 else 0
    return _core.Readers(
        type(dataset).__name__,
        size,
        number,
        bound,
        requests_of(opened, bound),
        opened.descriptors,
        is_ordered(dataset),
    )


def is_ordered(dataset: Any) -> bool:
    """Whether the numbers of its samples are an order already: it maps a mixture."""
    return getattr(dataset, "is_ordered", False) is True


def requests_of(opened: object, bound: bool) -> int:
    """For how many batches each of those readers is asked at a time: its next one is there when one is filled."""
    return 1 if bound or isinstance(opened, CallerReader) else 2


class Mapped:
    """A dataset whose samples are computed from those of another: ``dataset.map(function)``."""

    def __init__(self, dataset: Any, function: Any) -> None:
        if not callable(function):
            raise TypeError(f"map() takes a function, not {function!r}")
        self.dataset, self.function = dataset, function
        #: Of the dataset below: the function is not known to it.
        self.digest = dataset.digest
        #: Whether the numbers are an order already, as those of a mixture are.
        self.is_ordered = is_ordered(dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        from leat.readers import rng

        seed, epoch = rng.seed_and_epoch()
        return self.function(self.dataset.read(index, seed=seed, epoch=epoch))

    def map(self, function: Any) -> Mapped:
        """This dataset with one more function behind it."""
        return Mapped(self, function)

    def read(self, index: int, *, seed: int = 0, epoch: int = 0) -> Any:
        """A sample, as a dataset's ``read`` gives it."""
        return self.function(self.dataset.read(index, seed=seed, epoch=epoch))

    def __repr__(self) -> str:
        return f"<{self.dataset!r} mapped by {getattr(self.function, '__qualname__', self.function)!s}>"
