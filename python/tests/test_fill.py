"""What a reader does for a batch."""

import os
import pickle
import random
import subprocess
import sys
import threading
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from leat.readers.fill import Filled, Filler, Request, checked_fields
from leat.readers.options import FillOptions
from leat.readers.pad import pad_collate
from leat.readers.rng import rng
from leat.readers.structure import decode_layout, unpack
from test_structure import assert_same, tensor_of

try:
    import torch
except ModuleNotFoundError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

Point = namedtuple("Point", "x y")


class Encoding(UserDict):  # type: ignore[type-arg]
    """A mapping of one's own."""


class Checked(UserDict):  # type: ignore[type-arg]
    """A mapping that looks at its values."""

    def __init__(self, values: Any) -> None:
        super().__init__({key: value[:] for key, value in values.items()})


class Of:
    """Sample i is f(i)."""

    def __init__(self, f: Callable[[Any], Any]) -> None:
        self.f = f

    def __getitem__(self, index: Any) -> Any:
        return self.f(index)


class Memory:
    """A slot's memory, as a reader sees it."""

    def __init__(self, size: int = 0) -> None:
        self.memory = memoryview(bytearray(size))
        self.grown: list[int] = []

    def grow(self, size: int) -> memoryview:
        self.grown.append(size)
        self.memory = memoryview(bytearray(size))
        return self.memory


def request(keys: Any, *, epoch: int = 0, index: int = 0, first: int = 0, pass_: int = 0) -> Request:
    return Request(epoch, index, 5, first, pass_, keys)


def filler(dataset: Any, where: Any = "thread", **options: Any) -> Filler:
    options.setdefault("as_torch", torch is not None)
    made = Filler(dataset, pickle.loads(pickle.dumps(FillOptions(**options))), worker=1, workers=2, where=where)
    made.start()
    return made


def batch_of(filled: Filled | None, memory: Memory) -> Any:
    """The batch, as main gets it from what main is told."""
    assert filled is not None
    places = decode_layout(filled.layout)
    taken: list[tuple[int, int]] = []
    for one in places:
        assert one.offset % 256 == 0
        assert all(one.offset >= end or one.offset + one.nbytes <= begin for begin, end in taken)
        taken.append((one.offset, one.offset + one.nbytes))
        assert taken[-1][1] <= filled.at
    rest = len(filled.layout) + len(filled.opaque) + len(filled.failures)
    assert filled.at + rest <= len(memory.memory)
    slot = memory.memory
    return unpack(filled.opaque, lambda i: tensor_of(places[i], slot), lambda i: places[i].view(slot))


def fill(dataset: Any, keys: Any = (0, 1, 2, 3), **options: Any) -> Any:
    memory = Memory(4096)
    return batch_of(filler(dataset, **options).fill(request(list(keys)), memory), memory)


# ---- the default collate


def image(i: int) -> Any:
    return np.arange(6, dtype=np.float32).reshape(2, 3) + i


def tensor(i: int) -> Any:
    return torch.from_numpy(image(i))


SAMPLES = {
    "tuple": lambda i: (image(i), i),
    "nested": lambda i: {"a": [image(i), (i, 2.5)], "b": {"c": np.float32(i)}},
    "namedtuple": lambda i: Point(image(i), i),
    "strings": lambda i: (f"s{i}", b"b" * i, {"n": f"t{i}"}, np.str_("a")),
    "bools": lambda i: (i % 2 == 0, i, i / 2, np.bool_(i % 3 == 0)),
    "scalars": lambda i: tuple(np.dtype(t).type(i) for t in ("f2", "f4", "f8", "i2", "u1")),
    "arrays": lambda i: {t: np.full(2, i, t) for t in ("f2", "f8", "i1", "u1", "i2", "i4", "i8", "?", "c8")},
    "small": lambda i: (np.array(i), np.empty((0, 3))),
    "mappings": lambda i: [OrderedDict(b=i, a=image(i)), defaultdict(int, n=i), Encoding(b=i)],
    "a mapping that looks": lambda i: Checked({"c": image(i)}),
    "strided": lambda i: (image(i).T, np.asfortranarray(image(i)), np.arange(6)[::2]),
    "int beside float": lambda i: i if i % 2 == 0 else i / 2,
    "float beside int": lambda i: i / 2 if i % 2 == 0 else i,
    "bool beside int": lambda i: i == 0 or i,
    "large ints": lambda i: 2**62 + i,
    "sequence": lambda i: (range(i, i + 2), bytearray(2), [[i], [i]]),
}  # fmt: skip
OF_TORCH = {
    "more keys": lambda i: {"x": i, f"only {i}": 1} if i else {"x": i},
    "tensors": lambda i: (tensor(i), {"t": tensor(i).t()}, torch.empty(0, 3), torch.tensor(i)),
    "bfloat16": lambda i: tensor(i).to(torch.bfloat16),
    "complex": lambda i: tensor(i).to(torch.complex64),
    "promoted": lambda i: tensor(i).double() if i % 2 else tensor(i),
    "arrays promoted": lambda i: image(i).astype("f8") if i % 2 else image(i),
    "parameter": lambda i: torch.nn.Parameter(tensor(i), requires_grad=False),
    "tensor beside array": lambda i: {"x": tensor(i), "y": image(i)},
}
BAD = {
    "none": lambda i: None,
    "one none": lambda i: None if i == 2 else image(i),
    "none beside ints": lambda i: None if i == 2 else i,
    "object": lambda i: object(),
    "objects": lambda i: np.array([None]),
    "shape": lambda i: np.zeros(3 + (i == 2)),
    "length": lambda i: [0] * (3 + (i == 2)),
    "no length": lambda i: i if i == 2 else [i],
    "key": lambda i: {"x": i} if i == 2 else {"x": i, "y": i},
    "no mapping": lambda i: 3 if i == 2 else {"x": i},
    "flipped": lambda i: np.arange(3)[:: -1 if i == 2 else 1],
    "big-endian": lambda i: np.arange(3, dtype=">i4"),
    "too large": lambda i: 2**64 + i,
    "date": lambda i: np.datetime64(i, "s"),
}
BAD_OF_TORCH = {
    "shape of tensors": lambda i: torch.zeros(3 + (i == 2)),
    "an array beside tensors": lambda i: image(i) if i == 2 else tensor(i),
}


@needs_torch
@pytest.mark.parametrize("name", [*SAMPLES, *OF_TORCH])
def test_the_default_is_torchs(name: str) -> None:
    from torch.utils.data import default_collate

    f = {**SAMPLES, **OF_TORCH}[name]
    expected = default_collate([f(i) for i in range(4)])
    assert_same(fill(Of(f)), expected)
    assert_same(fill(Of(f), collate_fn=default_collate), expected)
    assert_same(fill(Of(f), collate_fn=list), [f(i) for i in range(4)])


@needs_torch
@pytest.mark.parametrize("name", [*BAD, *BAD_OF_TORCH])
def test_errors_are_torchs(name: str) -> None:
    from torch.utils.data import default_collate

    f = {**BAD, **BAD_OF_TORCH}[name]
    with pytest.raises(Exception) as expected:
        default_collate([f(i) for i in range(4)])
    with pytest.raises(expected.type) as caught:
        fill(Of(f), keys=[4, 3, 2, 1])
    assert caught.type is expected.type


@pytest.mark.parametrize(
    ("f", "error", "text"),
    [
        (BAD["shape"], RuntimeError, "sample 2 has an array of float64 and shape (4,) in field 'a.0', and sample 4"),
        (BAD["length"], RuntimeError, "sample 2 has a list of length 4 in field 'a.0', and sample 4 has a list of"),
        (BAD["key"], KeyError, "sample 2 has no field 'a.0.y'"),
        (BAD["none"], TypeError, "sample 4 has None in field 'a.0'"),
        (BAD["one none"], (TypeError, RuntimeError), "sample 2 has None in field 'a.0', and sample 4 has an array"),
    ],
)
@pytest.mark.parametrize("as_torch", [False, pytest.param(True, marks=needs_torch)])
def test_an_error_names_the_sample_and_the_field(f: Any, error: Any, text: str, as_torch: bool) -> None:
    with pytest.raises(error) as caught:
        fill(Of(lambda i: {"a": [f(i)]}), keys=[4, 3, 2, 1], as_torch=as_torch)
    told = "\n".join([str(caught.value), *caught.value.__notes__])
    assert text in told
    assert caught.value.__notes__[-1] == "leat: batch 0 of epoch 0 (samples 4, 3, 2, 1), worker 1"


@pytest.mark.parametrize("name", SAMPLES)
def test_without_torch_the_rules_are_the_same(name: str) -> None:
    got = fill(Of(SAMPLES[name]), as_torch=False)
    if torch is None:
        return
    if name == "int beside float":  # torch's float32 has not all ints
        assert got.dtype == np.float64
        return
    expected = fill(Of(SAMPLES[name]))

    def same(a: Any, b: Any) -> None:
        if isinstance(b, torch.Tensor):
            assert type(a) is np.ndarray and np.array_equal(a, b.numpy()) and a.dtype == b.numpy().dtype
        elif isinstance(b, (dict, UserDict)):
            assert list(a) == list(b)
            [same(a[key], b[key]) for key in b]
        elif isinstance(b, (list, tuple)):
            assert len(a) == len(b)
            [same(*pair) for pair in zip(a, b, strict=True)]
        else:
            assert a == b

    same(got, expected)


def test_without_torch_a_mapping_keeps_its_type_and_its_attributes() -> None:
    def sample(i: int) -> Any:
        one = Encoding(x=i)
        one.source = "file"
        return {"o": OrderedDict(b=i, a=i), "d": defaultdict(int, n=i), "e": one}

    got = fill(Of(sample), as_torch=False)
    assert [type(value) for value in got.values()] == [OrderedDict, defaultdict, Encoding]
    assert got["d"].default_factory is int and got["e"].source == "file"
    assert got["e"]["x"].tolist() == [0, 1, 2, 3]


def test_without_torch_other_keys_are_an_error() -> None:
    with pytest.raises(KeyError, match=r"sample 0 has no field 'a.more', which sample 2 has"):
        fill(Of(lambda i: {"a": {"x": 1, "more": 1} if i == 2 else {"x": 1}}), as_torch=False)
    with pytest.raises(KeyError, match=r"sample 2 has no field 'x', which sample 0 has"):
        fill(Of(lambda i: {} if i == 2 else {"x": 1}), as_torch=False)
    with pytest.raises(TypeError, match="sample 2 has None, and no dict"):
        fill(Of(lambda i: None if i == 2 else {"x": 1}), as_torch=False)


def test_without_torch_another_type_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"sample 3 has an array of float64 and shape \(2,\), and sample 0"):
        fill(Of(lambda i: np.zeros(2, "f8" if i == 3 else "f4")), as_torch=False)
    with pytest.raises(TypeError, match="sample 1 has a value of type float32, and sample 0 .* of type float64"):
        fill(Of(lambda i: np.dtype("f4" if i else "f8").type(i)), as_torch=False)


@needs_torch
def test_torchs_registry_of_types_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils import collate

    monkeypatch.setitem(collate.default_collate_fn_map, slice, lambda batch, collate_fn_map: len(batch))
    assert fill(Of(slice)) == 4


def test_the_slot_grows_to_what_the_batch_needs() -> None:
    memory = Memory(64)
    made = filler(Of(lambda i: np.full(1000, i)), as_torch=False)
    filled = made.fill(request([1, 2]), memory)
    (size,) = memory.grown
    assert filled and size == filled.at + len(filled.layout) + len(filled.opaque)
    assert np.array_equal(batch_of(filled, memory), [[1] * 1000, [2] * 1000])
    assert made.fill(request([3]), memory) and len(memory.grown) == 1


@needs_torch
def test_arrays_stay_on_the_host_where_batches_do_not() -> None:
    made = filler(Of(lambda i: i), collate_fn=array_beside_tensor, device_is_host=False)
    filled = made.fill(request([1, 2]), Memory(4096))
    assert filled and [one.name for one in decode_layout(filled.layout)] == ["t"]


def array_beside_tensor(samples: list[int]) -> Any:
    return {"a": np.array(samples), "t": torch.tensor(samples)}


def rejects_three(samples: list[int]) -> Any:
    if 3 in samples:
        raise LookupError("three")
    return samples


def test_an_error_of_collate_fn() -> None:
    with pytest.raises(LookupError, match="three") as caught:
        fill(Of(int), collate_fn=rejects_three)
    assert caught.value.__notes__ == ["leat: batch 0 of epoch 0 (samples 0, 1, 2, 3), worker 1"]
    assert [entry.name for entry in caught.traceback][-1] == "rejects_three"


# ---- samples


def fails_at_two(i: int) -> int:
    if i == 2:
        raise FileNotFoundError(2, "no sample")
    return i


def test_an_error_keeps_type_and_traceback_and_names_the_sample() -> None:
    made = filler(Of(fails_at_two))
    with pytest.raises(FileNotFoundError) as caught:
        made.fill(request([0, 1, 2]), Memory(999))
    assert caught.value.__notes__ == ["leat: sample 2, worker 1"]
    assert [entry.name for entry in caught.traceback][-1] == "fails_at_two"
    assert caught.value._leat_sample == 2  # type: ignore[attr-defined]
    assert made.fill(request([3]), Memory(999))


def test_stop_iteration_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="StopIteration") as caught:
        fill(Of(lambda i: next(iter(()))))
    assert isinstance(caught.value.__cause__, StopIteration)


def failures_of(filled: Filled | None) -> list[tuple[int, str]]:
    assert filled is not None
    found, at = [], 0
    while at < len(filled.failures):
        sample = int.from_bytes(filled.failures[at : at + 8], "little")
        size = int.from_bytes(filled.failures[at + 8 : at + 12], "little")
        found.append((sample, filled.failures[at + 16 : at + 16 + size].decode()))
        at += 16 + -(-size // 8) * 8
    return found


@pytest.mark.parametrize("bulk", [False, True])
def test_failed_samples_are_left_out(bulk: bool) -> None:
    dataset = Of(fails_at_two)
    if bulk:
        dataset = Bulk(fails_at_two)
    memory = Memory(999)
    made = filler(dataset, leave_out=True)
    filled = made.fill(request([1, 2, 3]), memory)
    assert filled and filled.rows == 2
    assert list(batch_of(filled, memory)) == [1, 3]
    assert failures_of(filled) == [(2, "FileNotFoundError: [Errno 2] no sample")]
    memory = Memory()
    filled = made.fill(request([2]), memory)
    assert filled and filled.rows == 0 and filled.layout == b"" and len(failures_of(filled)) == 1
    assert batch_of(filled, memory) is None


class Bulk(Of):
    calls = 0

    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.calls += 1
        return [self.f(i) for i in indices]


def test_getitems_is_called_once_a_batch() -> None:
    dataset = Bulk(fails_at_two)
    assert list(fill(dataset, keys=[5, 6])) == [5, 6]
    assert dataset.calls == 1
    with pytest.raises(FileNotFoundError) as caught:
        fill(dataset, keys=range(10))
    assert caught.value.__notes__ == ["leat: samples 0, 1, 2, 3, 4, 5, 6, 7 and 2 more (__getitems__), worker 1"]


@needs_torch
def test_a_subset_reads_sample_by_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data import Subset

    monkeypatch.setattr(Subset, "__getitems__", lambda self, i: [self.dataset[self.indices[n]] for n in i], False)
    with pytest.raises(FileNotFoundError) as caught:
        fill(Subset(Of(fails_at_two), [5, 4, 3, 2]))
    assert caught.value.__notes__ == ["leat: sample 3, worker 1"]


def columns(samples: Any) -> Any:
    return {key: len(column) for key, column in samples.items()}


def test_getitems_gives_what_collate_fn_takes() -> None:
    class Columns(Of):
        def __getitems__(self, indices: list[int]) -> Any:
            return {"x": np.array(indices), "y": indices}

    memory = Memory(4096)
    filled = filler(Columns(int), collate_fn=columns).fill(request([4, 5, 6]), memory)
    assert filled and filled.rows == 3
    assert batch_of(filled, memory) == {"x": 3, "y": 3}


def test_keys_of_any_kind() -> None:
    assert fill(Of(str), keys=["a", ("b", 2)]) == ["a", "('b', 2)"]


def test_one_key_one_batch() -> None:
    def sample(i: Any) -> Any:
        return (np.arange(2), i, "s", [1.5, np.float32(2)])

    memory = Memory(4096)
    made = filler(Of(sample), kind="one", random="place")
    filled = made.fill(request(7), memory)
    assert filled and filled.rows == 1
    got = batch_of(filled, memory)
    if torch is not None:
        from torch.utils.data import default_convert

        assert_same(got, default_convert(sample(7)))
    filled = filler(Of(sample), kind="one", random="place", as_torch=False).fill(request([7, 8]), memory)
    assert_same(batch_of(filled, memory), sample([7, 8]))
    with pytest.raises(FileNotFoundError) as caught:
        filler(Of(fails_at_two), kind="one").fill(request([2]), memory)  # Leat's order: a list of one number
    assert caught.value.__notes__ == ["leat: sample 2, worker 1"]


# ---- read_into


class Into:
    fields = {"x": ("uint8", (2, 3)), "y": ("float32", ())}

    def read_into(self, index: int, out: dict[str, Any]) -> None:
        fails_at_two(index)
        out["x"][:] = index
        out["y"][...] = index / 2


def test_read_into_writes_rows_of_the_slot() -> None:
    memory = Memory()
    filled = filler(Into(), kind="read_into", fields=Into.fields, as_torch=False).fill(request([4, 5]), memory)
    assert filled and filled.rows == 2
    expected = {"x": np.full((2, 2, 3), [[[4]], [[5]]], np.uint8), "y": np.array([2, 2.5], np.float32)}
    assert_same(batch_of(filled, memory), expected)


def test_read_into_leaves_failed_samples_out() -> None:
    made = filler(Into(), kind="read_into", fields=Into.fields, as_torch=False, leave_out=True)
    memory = Memory()
    filled = made.fill(request([4, 2, 5]), memory)
    assert filled and filled.rows == 2
    assert list(batch_of(filled, memory)["y"]) == [2, 2.5]
    assert [sample for sample, _ in failures_of(filled)] == [2]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, TypeError),
        ("x", TypeError),
        ({"x": "uint8"}, TypeError),
        ({3: ("uint8", ())}, TypeError),
        ({"x": ("complex64", ())}, ValueError),
        ({"x": ("uint8", (-1,))}, ValueError),
        ({"x": ("uint8", (2.5,))}, ValueError),
    ],
)
def test_bad_fields(fields: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="field"):
        checked_fields(fields)


def test_fields_by_numpys_types() -> None:
    assert checked_fields({"x": (np.uint8, 3), "y": (np.dtype("f4"), [2])}) == [("x", 0, (3,)), ("y", 10, (2,))]


# ---- iterable


class Stream:
    def __init__(self, n: int, bad: int = -1) -> None:
        self.n, self.bad = n, bad

    def __iter__(self) -> Iterator[int]:
        for i in range(self.n):
            if i == self.bad:
                raise LookupError("bad")
            yield i


def batches(made: Filler, pass_: int = 0, most: int = 9) -> list[list[int]]:
    found = []
    for index in range(most):
        memory = Memory(4096)
        filled = made.fill(request(None, index=index, pass_=pass_), memory)
        if filled is None:
            break
        found.append(np.array(batch_of(filled, memory)).reshape(-1).tolist())
    return found


def test_iterable() -> None:
    made = filler(Stream(5), kind="iterable", batch_size=2)
    assert batches(made) == [[0, 1], [2, 3], [4]]
    assert batches(made) == []  # it has ended, for this pass
    assert batches(made, pass_=1, most=1) == [[0, 1]]
    assert batches(made, pass_=2) == [[0, 1], [2, 3], [4]]
    assert batches(filler(Stream(5), kind="iterable", batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert batches(filler(Stream(4), kind="iterable", batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert batches(filler(Stream(2), kind="iterable")) == [[0], [1]]
    assert batches(filler(Stream(0), kind="iterable", batch_size=2)) == []


def test_an_error_of_an_iterable() -> None:
    made = filler(Stream(5, bad=1), kind="iterable", batch_size=2)
    with pytest.raises(LookupError) as caught:
        made.fill(request(None, index=3), Memory())
    assert caught.value.__notes__ == ["leat: row 1 of batch 3, worker 1"]
    assert made.fill(request(None, index=4), Memory()) is None  # as torch's: a generator ends by an error


# ---- in a process


PROCESS = """
import random
import numpy as np, torch
from torch.utils.data import default_collate, get_worker_info
from test_fill import Memory, Of, batch_of, filler, request

def init(worker):
    get_worker_info().dataset.extra = worker + 6

def sample(i):
    return i, dataset.extra, get_worker_info().num_workers, np.random.randint(1 << 30), random.random()

dataset = Of(sample)
assert get_worker_info() is None
made = filler(dataset, "process", worker_init_fn=init, seed=40)

def read(keys, index):
    memory = Memory(9999)
    return batch_of(made.fill(request(keys, index=index), memory), memory)

one, two, again = read([1, 2], 3), read([1, 2], 4), read([1, 2], 3)
assert [list(map(float, x)) for x in one[:3]] == [[1, 2], [7, 7], [2, 2]], one
assert get_worker_info().seed == 41 and get_worker_info().dataset is dataset
assert one[3].tolist() == again[3].tolist() != two[3].tolist()
assert one[4].tolist() == again[4].tolist() != two[4].tolist()


shared, kept, places = [], [], []
storage = type(torch.zeros(1).storage())
storage._new_shared = classmethod(lambda *args, **kwargs: shared.append(args))

def address(memory):
    return np.frombuffer(memory.memory, np.uint8).ctypes.data

def collate(samples):
    x, half = default_collate([(torch.full((50,), i), torch.ones(3, dtype=torch.bfloat16)) for i in samples])
    places.append(x.data_ptr())
    default_collate([x, x])  # which is in no batch
    return {"x": x, "t": x.t(), "part": x[:1], "x again": x, "half": half, "worker": get_worker_info().id}

def keeps(samples):
    kept.append(default_collate([torch.full((50,), i) for i in samples]))
    return kept[-1]

made = filler(Of(int), "process", collate_fn=collate)
memory = Memory(8)
for i in range(5):
    got = batch_of(made.fill(request([i, 6]), memory), memory)
    assert got["x"].tolist() == [[i] * 50, [6] * 50] and got["t"].tolist() == [[i, 6]] * 50
    assert got["part"].tolist() == [[i] * 50] and got["half"].tolist() == [[1.0] * 3] * 2 and got["worker"] == 1
    assert got["x again"] is got["x"]
assert len(memory.grown) == 3 and places[4] == address(memory)
assert not shared and torch.get_num_threads() == 1

made = filler(Of(int), "process", collate_fn=keeps)
memory = Memory(4000)
first = address(memory)
made.fill(request([1, 2]), memory)
assert kept[0].data_ptr() == first != address(memory)
for i in range(2):
    assert batch_of(made.fill(request([3, 4]), memory), memory).tolist() == [[3] * 50, [4] * 50]
assert len(memory.grown) == 1
assert kept[0].tolist() == [[1] * 50, [2] * 50]
"""


@needs_torch
def test_in_a_process() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", PROCESS], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr


# ---- random numbers


def drawn(keys: list[Any], where: Any = "thread", *, epoch: int = 0, first: int = 0, **options: Any) -> list[float]:
    memory = Memory(4096)
    made = filler(Of(lambda i: rng().random()), where, **options)
    return batch_of(made.fill(request(keys, epoch=epoch, first=first), memory), memory).tolist()


def test_rng_depends_on_seed_epoch_and_sample_alone() -> None:
    a = drawn([3, 4, 5])
    assert len(set(a)) == 3
    assert drawn([5, 3, 3], "caller", first=7) == [a[2], a[0], a[0]]
    assert not set(a) & set(drawn([3, 4, 5], epoch=1))


def test_rng_by_the_place_where_the_order_comes_from_outside() -> None:
    a = drawn([3, 3, 3], first=10, random="place")
    assert len(set(a)) == 3
    assert drawn([8, 9], first=11, random="place") == a[1:]
    assert drawn(["b"], first=10) == a[:1]  # keys that are no numbers


def test_rng_is_philox_of_these_numbers() -> None:
    """The numbers are the same for ever: runs can be repeated."""
    bits = np.random.Philox(key=np.array([5, 2], np.uint64), counter=np.array([0, 0, 0, 9], np.uint64))
    assert drawn([9], epoch=2) == [np.random.Generator(bits).random()]


def test_rng_goes_on_within_a_sample() -> None:
    def sample(i: int) -> Any:
        return np.array([rng().random(), rng().integers(1 << 30), rng().integers(1 << 30, dtype=np.uint32)])

    a = fill(Of(sample), as_torch=False)
    assert a[0, 1] != a[0, 2]
    assert np.array_equal(fill(Of(sample), keys=[1, 0], as_torch=False), a[[1, 0]])


def rng_collate(samples: Any) -> Any:
    return [rng().random(), samples]


def test_rng_in_collate_fn_is_the_batchs() -> None:
    a, numbers = fill(Of(lambda i: rng().random()), collate_fn=rng_collate)
    b, _ = fill(Of(lambda i: 3), collate_fn=rng_collate)
    assert a == b and a not in numbers


def test_rng_elsewhere_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="__getitem__"):
        rng()
    errors = []

    def sample(i: int) -> int:
        def other() -> None:
            with pytest.raises(RuntimeError) as caught:
                rng()
            errors.append(caught)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return i

    fill(Of(sample), keys=[1])
    assert len(errors) == 1


def global_numbers(i: int) -> Any:
    numbers = [random.random(), np.random.random(), np.random.normal()]
    if torch is not None:
        numbers.append(float(torch.rand(1)))
    return np.array(numbers)


def test_the_caller_has_its_random_state_back() -> None:
    random.seed(1)
    np.random.seed(1)
    np.random.normal()  # leaves one number behind, which is part of the state
    if torch is not None:
        torch.manual_seed(1)
    states = random.getstate(), np.random.get_state(), torch and torch.get_rng_state().tolist()
    a = fill(Of(global_numbers), where="caller", as_torch=False)
    assert str((random.getstate(), np.random.get_state(), torch and torch.get_rng_state().tolist())) == str(states)
    assert np.array_equal(fill(Of(global_numbers), where="caller", as_torch=False), a)
    with pytest.raises(FileNotFoundError):
        fill(Of(fails_at_two), where="caller")
    assert str((random.getstate(), np.random.get_state(), torch and torch.get_rng_state().tolist())) == str(states)


def test_threads_are_not_seeded() -> None:
    random.seed(1)
    np.random.seed(1)
    a = fill(Of(global_numbers), as_torch=False)
    b = fill(Of(global_numbers), as_torch=False)
    assert a[0, 0] != b[0, 0] and a[0, 1] != b[0, 1]
    random.seed(1)
    assert a[0, 0] == random.random()


def test_pad_collate_goes_into_the_slot() -> None:
    got = fill(Of(lambda i: np.arange(i)), collate_fn=pad_collate(-1, lengths=True), as_torch=False)
    assert got["ids"].tolist() == [[-1, -1, -1], [0, -1, -1], [0, 1, -1], [0, 1, 2]]
    assert got["length"].tolist() == [0, 1, 2, 3]
