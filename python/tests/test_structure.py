"""What a batch is made of: its tensors, and a pickle of the rest."""

import __main__
import subprocess
import sys
from collections import OrderedDict, UserDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import pytest
from leat.readers.structure import DTYPES, STORAGE, decode_layout, encode_layout, pack, place, unpack

try:
    import torch
except ModuleNotFoundError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

Point = namedtuple("Point", "x y")


class Encoding(UserDict):  # type: ignore[type-arg]
    """A mapping of one's own."""


@dataclass
class Box:
    x: Any
    names: list[str]


def there_and_back(batch: Any, *, arrays: bool = True) -> Any:
    """A batch through a slot, as main gets it."""
    parts, opaque = pack(batch, arrays=arrays)
    places, end = place(parts)
    memory = memoryview(bytearray(end))
    for part, one in zip(parts, places, strict=True):
        if one.nbytes:
            part.write(one.view(memory))
    places = decode_layout(encode_layout(places))
    return unpack(opaque, lambda i: tensor_of(places[i], memory), lambda i: places[i].view(memory))


def tensor_of(one: Any, memory: memoryview) -> Any:
    tensor = torch.from_numpy(one.view(memory))
    return tensor.view(torch.bfloat16) if DTYPES[one.code] == "bfloat16" else tensor


def assert_same(a: Any, b: Any) -> None:
    """By the rules of torch's DataLoader: types at each node, order of keys, values."""
    assert type(a) is type(b)
    if torch is not None and isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(a.to_dense(), b.to_dense())
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    elif isinstance(a, (dict, UserDict)):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_same(one, other)
    elif isinstance(a, Box):
        assert_same(vars(a), vars(b))
    else:
        assert a == b


ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)

BATCHES = [
    ARRAY,
    [ARRAY, (ARRAY + 1, "text", b"bytes"), None, 3, 2.5, True, 1 + 2j],
    {"b": ARRAY, "a": {"c": [ARRAY]}, 7: {1, 2}},
    OrderedDict(b=ARRAY, a=1),
    defaultdict(list, n=ARRAY),
    Encoding(x=ARRAY),
    Point(ARRAY, [ARRAY]),
    Box(ARRAY, ["n"]),
    {"0-d": np.array(3), "empty": np.empty((0, 4)), "t": ARRAY.T, "step": np.arange(10)[::-2]},
    {"complex": np.ones(2, np.complex64), "text": np.array(["a", "bc"]), "objects": np.array([None, "x"])},
    {"big-endian": np.arange(3, dtype=">i4"), "scalar": np.float32(2), "records": np.zeros(2, "i4,f8")},
    {name: np.ones(3, name) for name in DTYPES if name != "bfloat16"},
    [],
]


@pytest.mark.parametrize("batch", BATCHES, ids=range(len(BATCHES)))
@pytest.mark.parametrize("arrays", [True, False])
def test_a_batch_comes_back_as_it_was(batch: Any, arrays: bool) -> None:
    assert_same(there_and_back(batch, arrays=arrays), batch)


@needs_torch
def test_torch_tensors_come_back() -> None:
    x = torch.arange(6.0).view(2, 3)
    batch = {
        "x": x,
        "t": x.t(),
        "expanded": x[:1].expand(4, 3),
        "bfloat16": x.to(torch.bfloat16),
        "0-d": torch.tensor(3),
        "empty": torch.empty(2, 0),
        "complex": torch.ones(2, dtype=torch.complex64),
        "sparse": torch.eye(3).to_sparse(),
        "box": Box(x + 1, ["a"]),
        "array": ARRAY,
        "parameter": [torch.nn.Parameter(x)],
        "gradient": x.clone().requires_grad_(),
    }
    got = there_and_back(batch)
    assert_same(got, batch)
    assert got["gradient"].requires_grad
    assert len(pack(batch)[0]) == 11  # all but complex and gradient; of sparse, its indices and values


def test_what_is_cut_out() -> None:
    parts, opaque = pack({"x": ARRAY, "y": Box(ARRAY + 1, ["a"]), "s": np.array(["a"])})
    assert [(part.name, part.shape, part.is_array) for part in parts] == [
        ("x", (2, 3), True),
        ("tensor 1", (2, 3), True),
    ]
    assert ARRAY.tobytes() not in opaque
    assert pack({"x": ARRAY}, arrays=False)[0] == []


def test_names_are_paths_and_differ() -> None:
    parts, _ = pack({"x": ARRAY + 0, "a": [ARRAY + 1, {"b": ARRAY + 2}], "a.0": ARRAY + 3})
    assert [part.name for part in parts] == ["x", "a.0", "a.1.b", "a.0_"]
    assert pack(ARRAY)[0][0].name == "0"


def test_a_tensor_twice_is_one_part() -> None:
    got = there_and_back({"a": ARRAY, "b": ARRAY})
    assert got["a"] is got["b"]
    assert_same(got, {"a": ARRAY, "b": ARRAY})


def test_batches_share_no_nodes() -> None:
    _, opaque = pack({"x": [1, 2]})
    first, second = unpack(opaque, int, int), unpack(opaque, int, int)
    first["x"].append(3)
    assert second == {"x": [1, 2]}


def test_a_list_that_has_itself() -> None:
    batch: list[Any] = [ARRAY]
    batch.append(batch)
    got = there_and_back(batch)
    assert got[1] is got and np.array_equal(got[0], ARRAY)


def test_a_class_of_main_and_a_local_class_are_mains_own() -> None:
    """The reader is another process, which has them from cloudpickle."""
    local = namedtuple("local", "x")
    own = namedtuple("own", "x")
    own.__module__ = "__main__"
    __main__.own = own  # type: ignore[attr-defined]
    code = (
        "import sys, cloudpickle; from leat.readers.structure import pack\n"
        "sys.stdout.buffer.write(pack(cloudpickle.load(sys.stdin.buffer))[1])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], input=cloudpickle.dumps([own(1), local(2)]), capture_output=True, check=True
    )
    try:
        got = unpack(run.stdout, int, int)
    finally:
        del __main__.own  # type: ignore[attr-defined]
    assert got == [own(1), local(2)]
    assert type(got[0]) is own and type(got[1]) is local


def test_what_does_not_pickle_says_so() -> None:
    with pytest.raises(TypeError, match="generator") as caught:
        pack({"x": (i for i in range(3))})
    assert caught.value.__notes__ == ["leat: a batch that goes from a reader to the trainer has to pickle"]


def test_layout_round_trip_and_alignment() -> None:
    parts, _ = pack({"x": ARRAY, "é" * 3: np.empty((0, 2)), "last": np.array(True)})
    places, end = place(parts)
    assert decode_layout(encode_layout(places)) == places
    assert len(encode_layout(places)) % 8 == 0 and end % 8 == 0
    assert [one.offset % 256 for one in places] == [0, 0, 0]
    assert [one.nbytes for one in places] == [24, 0, 1]
    assert places[2].offset >= 24 and end >= places[2].offset + 1


def test_storage_has_a_type_for_each_code() -> None:
    assert [dtype.name for dtype in STORAGE] == [name.replace("bfloat16", "int16") for name in DTYPES]
