"""Datasets and arguments for which leat.DataLoader has to give what torch's DataLoader gives.

A module of its own, so that workers can import it.
"""

from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)
from torch.utils.data.distributed import DistributedSampler

Point = namedtuple("Point", "x y")  # noqa: PYI024


class Of(Dataset[Any]):
    """Of(n, f): sample i is f(i)."""

    def __init__(self, n: int, f: Callable[[int], Any]) -> None:
        self.n, self.f = n, f

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, i: Any) -> Any:
        return self.f(i)


class Batched(Of):
    """Has __getitems__, and says so."""

    def __getitems__(self, ids: list[int]) -> Any:
        return [(self.f(i), len(ids)) for i in ids]


class Bulk(Of):
    """Takes a list of indices."""

    def __getitem__(self, ids: Any) -> Any:
        return {"x": torch.tensor([self.f(i) for i in ids]), "ids": list(ids)}


class Keyed(Dataset[Any]):
    """Keys are no numbers, and there is no __len__."""

    def __getitem__(self, key: Any) -> Any:
        return (str(key), torch.tensor(len(str(key))))


class Fails(Of):
    def __getitem__(self, i: Any) -> Any:
        if i in (5, 6):
            raise FileNotFoundError(2, f"no sample {i}")
        return i


class Stream(IterableDataset[Any]):
    """0 .. n-1; with shard, each worker has its part."""

    def __init__(self, n: int, shard: bool = False, length: int = 0) -> None:
        self.n, self.shard, self.length = n, shard, length

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info() if self.shard else None
        return iter(range(self.n) if info is None else range(info.id, self.n, info.num_workers))


class Sized(Stream):
    def __len__(self) -> int:
        return self.length


class Set(Of):
    extra = 0

    def __getitem__(self, i: Any) -> Any:
        info = get_worker_info()
        return (i, self.extra, -1 if info is None else info.num_workers)


def set_extra(_worker: int) -> None:
    info: Any = get_worker_info()
    info.dataset.extra = 7


class Enc(UserDict[str, Any]):
    pass


@dataclass
class Box:
    x: torch.Tensor
    names: list[str]


def g(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def t(i: int) -> torch.Tensor:
    return torch.arange(6, dtype=torch.float32).view(2, 3) + i


def ragged() -> Of:
    return Of(11, lambda i: torch.arange(1 + (i * 7) % 5))


def pad(b: Any) -> Any:
    return {"ids": pad_sequence(b, batch_first=True, padding_value=-1), "length": torch.tensor([len(x) for x in b])}


def boxes(b: Any) -> Any:
    return Box(torch.stack(b), ["n%d" % len(b)])


def some(b: Any) -> Any:
    return default_collate([x for x in b if x is not None])


def aliases(b: Any) -> Any:
    x = torch.stack(b)
    return {"a": x, "b": x, "t": x.transpose(1, 2), "e": x[:1].expand(3, -1, -1)}


def numpys(b: Any) -> Any:
    return {"a": np.stack([x.numpy() for x in b]), "s": np.array(["s", "tt"]), "o": {"k": None, "v": (1, "z")}}


def endless() -> Iterator[list[int]]:
    while True:
        yield [0, 1]
        yield [2]


class Endless:
    def __iter__(self) -> Iterator[list[int]]:
        return endless()


def number(i: int) -> int:
    return i


def orders(i: int) -> Any:
    count: Any = defaultdict(int)
    count["n"] = i
    return (OrderedDict(b=i, a=t(i)), count)


TYPES = ("float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64")


class Row(NamedTuple):
    """The dataset and the arguments, made anew for each loader."""

    make: Callable[[], tuple[Any, dict[str, Any]]]
    batches: int | None = None  # the loop ends after so many
    compares: bool = True  # the values; else the sizes
    workers: tuple[int, ...] = (0, 2)


def _of(f: Callable[[int], Any], n: int = 10, **arguments: Any) -> Row:
    return Row(lambda: (Of(n, f), {"batch_size": 4} | arguments))


def _distributed() -> tuple[Any, dict[str, Any]]:
    ds = Of(10, number)
    return ds, {"batch_size": 2, "sampler": DistributedSampler(ds, num_replicas=3, rank=1, seed=7)}


def _parts() -> tuple[Any, dict[str, Any]]:
    ds = Of(10, number)
    return ConcatDataset([Subset(ds, [8, 1]), random_split(ds, [7, 3], g(0))[1]]), {"batch_size": 2}


def _mixed(i: int) -> Any:
    return (np.array(i), torch.empty(0, 3), torch.tensor(i, dtype=torch.bfloat16))


def _strided(i: int) -> Any:
    return (t(i).t(), np.asfortranarray(np.arange(6.0).reshape(2, 3) + i), np.arange(6)[::2])


ROWS: dict[int, Row] = {
    1: _of(lambda i: (t(i), i)),
    2: _of(lambda i: {"a": [t(i), (i, 2.5)], "b": {"c": np.float32(i)}}),
    3: _of(lambda i: Point(t(i), i)),
    4: _of(lambda i: ("s%d" % i, b"b" * i, {"n": "t%d" % i})),
    5: _of(lambda i: (i % 2 == 0, i, i / 2, np.bool_(i % 3 == 0))),
    6: _of(lambda i: (np.float16(i), np.float32(i), np.float64(i), np.int16(i), np.uint8(i))),
    7: _of(lambda i: {name: np.full((2,), i, name) for name in TYPES}),
    8: _of(_mixed),
    9: _of(orders),
    10: _of(lambda i: Enc(b=i)),
    11: _of(_strided),
    12: _of(number, drop_last=True),
    13: _of(number, batch_size=16, drop_last=True),
    14: _of(number, n=0),
    15: _of(lambda i: (np.arange(i), i, "s", [1.5, np.float32(2)]), n=5, batch_size=None),
    16: Row(
        lambda: (
            Bulk(10, int),
            {"batch_size": None, "sampler": BatchSampler(SequentialSampler(range(10)), 4, False)},
        )
    ),
    17: Row(lambda: (Batched(10, int), {"batch_size": 4})),
    # 18 is by position
    19: _of(number, batch_size=2, sampler=[5, 3, 3, 0, 9]),
    20: Row(
        lambda: (
            Of(10, number),
            {"batch_size": 2, "sampler": SubsetRandomSampler([1, 3, 5, 7, 9], generator=g(3))},
        )
    ),
    21: Row(
        lambda: (
            Of(10, number),
            {"batch_size": 4, "sampler": WeightedRandomSampler([1.0] * 9 + [20.0], 12, generator=g(3))},
        )
    ),
    22: Row(
        lambda: (
            Of(10, number),
            {
                "batch_size": 4,
                "sampler": RandomSampler(range(10), replacement=True, num_samples=35, generator=g(3)),
            },
        )
    ),
    23: Row(_distributed),
    24: Row(lambda: (Of(10, t), {"batch_sampler": [[1], [0, 2, 4, 6, 8], [3, 3]]})),
    25: Row(lambda: (Keyed(), {"batch_sampler": [["a", ("b", 2)], [("c", 30)]]})),
    26: Row(lambda: (Of(10, number), {"batch_sampler": Endless()}), batches=12),
    27: Row(_parts),
    28: Row(lambda: (Of(10, number), {"batch_size": 4, "shuffle": True}), compares=False),
    29: Row(lambda: (ragged(), {"batch_size": 4, "collate_fn": pad})),
    30: _of(t, collate_fn=boxes),
    31: _of(lambda i: None if i % 4 == 1 else (i, t(i)), collate_fn=some),
    32: _of(t, collate_fn=aliases),
    33: _of(t, collate_fn=numpys),
    34: Row(lambda: (ragged(), {"batch_size": 4, "collate_fn": list})),
    35: Row(lambda: (Stream(10), {"batch_size": 4})),
    36: Row(lambda: (Stream(11, shard=True), {"batch_size": 3})),
    37: Row(lambda: (Stream(11, shard=True), {"batch_size": 3, "drop_last": True})),
    38: Row(lambda: (Sized(9, shard=True, length=10), {"batch_size": 4})),
    39: Row(lambda: (Set(4, int), {"batch_size": 2, "worker_init_fn": set_extra})),
    40: Row(lambda: (Fails(10, int), {"batch_size": 2})),
    # beside the 40
    41: _of(lambda i: 1 if i == 0 else i / 2),
    # torch's workers stack into float32, its caller into float64
    42: _of(lambda i: torch.tensor(1.5, dtype=torch.float64 if i % 2 else torch.float32))._replace(workers=(0,)),
    43: Row(lambda: (Of(6, number), {"batch_size": None, "sampler": ["3", 1.0, 2]})),
    44: Row(lambda: (Stream(3), {"batch_size": None})),
}


def arguments_that_fail() -> dict[str, tuple[type[Exception], Any, dict[str, Any]]]:
    """What making a loader has to raise."""
    ds, stream = Of(10, number), Stream(10)
    value = {
        "workers": (ds, {"num_workers": -1}),
        "timeout": (ds, {"timeout": -1}),
        "prefetch_factor": (ds, {"prefetch_factor": 4}),
        "persistent_workers": (ds, {"persistent_workers": True}),
        "context without workers": (ds, {"multiprocessing_context": "fork"}),
        "context": (ds, {"multiprocessing_context": "no", "num_workers": 1}),
        "sampler, shuffle": (ds, {"sampler": [1], "shuffle": True}),
        "batch_sampler, batch_size": (ds, {"batch_sampler": [[1]], "batch_size": 4}),
        "batch_sampler, shuffle": (ds, {"batch_sampler": [[1]], "shuffle": True}),
        "batch_sampler, sampler": (ds, {"batch_sampler": [[1]], "sampler": [1]}),
        "batch_sampler, drop_last": (ds, {"batch_sampler": [[1]], "drop_last": True}),
        "drop_last": (ds, {"batch_size": None, "drop_last": True}),
        "batch_size 0": (ds, {"batch_size": 0}),
        "batch_size 2.5": (ds, {"batch_size": 2.5}),
        "batch_size True": (ds, {"batch_size": True}),
        "iterable, shuffle": (stream, {"shuffle": True}),
        "iterable, sampler": (stream, {"sampler": [1]}),
        "iterable, batch_sampler": (stream, {"batch_sampler": [[1]]}),
    }
    return {name: (ValueError, *case) for name, case in value.items()}


class Unknown:
    pass


SAMPLES_THAT_FAIL: dict[str, tuple[type[Exception], Callable[[int], Any]]] = {
    "shapes": (RuntimeError, lambda i: torch.zeros(i + 1)),
    "shapes of arrays": (RuntimeError, lambda i: np.zeros(i + 1)),
    "lists": (RuntimeError, lambda i: [0] * (i + 1)),
    "None": (TypeError, lambda i: None),
    "object": (TypeError, lambda i: Unknown()),
    "objects": (TypeError, lambda i: np.array([Unknown()])),
    "key": (KeyError, lambda i: {"a": 0} if i else {"a": 0, "b": 1}),
    "stride": (ValueError, lambda i: np.arange(3)[::-1]),
}
