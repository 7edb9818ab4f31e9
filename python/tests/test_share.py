"""What a dataset's pickle shares, what it reopens, and what it says of that which does not pickle."""

import abc
import collections
import dataclasses
import enum
import functools
import logging
import os
import pathlib
import re
import threading
from collections.abc import Callable
from typing import Any

import leat
import numpy as np
import pytest
from leat.readers import share
from leat.readers.share import Shared, load, pickled
from reader_fakes import HasArray, Lock, Nested

LARGE = share.SHARED_FROM


def moved(value: Any) -> Any:
    """``value`` as another process has it."""
    return loaded(pickled(value=value))


def loaded(content: share.Pickled) -> Any:
    shared = Shared(content)
    there = load(shared.fd)["value"]
    shared.close()
    return there


class TestArrays:
    def test_large_ones_lie_beside_the_pickle(self) -> None:
        small, large = np.arange(LARGE - 1, dtype=np.uint8), np.arange(LARGE, dtype=np.uint8)
        content = pickled(value=[small, large, large])
        assert [array.nbytes for array in content.arrays] == [LARGE]
        assert LARGE < len(content.data) < LARGE + 2000
        there = loaded(content)
        assert (there[0] == small).all()
        assert (there[1] == large).all()
        assert there[1] is there[2]

    @pytest.mark.parametrize("size", [5, LARGE])
    def test_each_has_its_own_to_write_to(self, size: int) -> None:
        content = pickled(value=np.zeros(size))
        shared = Shared(content)
        one, two = load(shared.fd)["value"], load(shared.fd)["value"]
        one += 1
        assert one.sum() == size
        assert two.sum() == 0
        assert shared.holds(content)

    def test_flags_order_and_types_stay(self) -> None:
        fixed = np.ones((300, 400))
        fixed.flags.writeable = False
        there = moved([fixed, np.asfortranarray(np.arange(120_000.0).reshape(300, 400)), np.arange(60_000)[::2]])
        assert not there[0].flags.writeable
        assert there[1].flags.f_contiguous
        assert there[1][2, 3] == 803
        assert there[2].tolist() == list(range(0, 60_000, 2))
        records = np.zeros(30_000, [("a", "i4"), ("b", "f8")])
        assert moved(records).dtype == records.dtype

    def test_another_content_is_seen(self) -> None:
        array = np.full(LARGE, np.nan)
        value = {"array": array, "list": [1, 2]}
        shared = Shared(pickled(value=value))
        assert shared.holds(pickled(value=value))
        array[-1] = 0
        assert not shared.holds(pickled(value=value))
        array[-1] = np.nan
        assert shared.holds(pickled(value=value))
        value["list"] = [1, 3]
        assert not shared.holds(pickled(value=value))
        value["list"] = [1, 2]
        value["array"] = array[1:]
        assert not shared.holds(pickled(value=value))

    def test_nobody_can_change_what_is_shared(self) -> None:
        shared = Shared(pickled(value=np.zeros(LARGE)))
        with pytest.raises(PermissionError):
            os.pwrite(shared.fd, b"x", 0)
        with pytest.raises(PermissionError):
            os.ftruncate(shared.fd, 0)

    def test_what_is_larger_than_the_memory(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "large").touch()
        os.truncate(tmp_path / "large", 1 << 42)
        array = np.memmap(tmp_path / "large", np.uint8, "r")
        os.unlink(tmp_path / "large")  # so it can only be copied
        with pytest.raises(leat.OutOfMemory, match=r"need 4194304 MiB once more.*np\.memmap is not copied"):
            Shared(pickled(value=array))


    def test_an_unchanged_dataset_of_main_is_the_same(self) -> None:
        class Color(enum.Enum):
            RED = 1

        class Abstract(abc.ABC):
            @abc.abstractmethod
            def method(self) -> Any: ...

        @dataclasses.dataclass
        class Data:
            x: int
            names: set[str]

        class Local(Abstract):
            def __init__(self) -> None:
                self.point = collections.namedtuple("Point", "x y")(1, 2)
                self.parts = [Color.RED, Data(1, {"a", "b", "c"}), lambda: Color, re.compile("x"), logging.getLogger()]

            @functools.cached_property
            def property(self) -> int:
                return 1

            def method(self) -> Any:
                return super().method()

        value = Local()
        shared = Shared(pickled(value=value))
        assert shared.holds(pickled(value=value))
        assert isinstance(value, Abstract)
        assert value.parts[2]() is Color
        assert shared.holds(pickled(value=value))


class TestFiles:
    @pytest.fixture
    def file(self, tmp_path: pathlib.Path) -> pathlib.Path:
        np.arange(100_000, dtype=np.int32).tofile(tmp_path / "file")
        return tmp_path / "file"

    @pytest.mark.parametrize(
        "view",
        [
            lambda array: array,
            lambda array: array[30_000:60_000:3],
            lambda array: array[::-1],
            lambda array: array.reshape(80, 1000)[7:70, 5:].T,
            lambda array: np.asarray(array)[10_000:],
            lambda array: array.view([("a", "i4"), ("b", "i4")])["b"],
            lambda array: array[70_000],
            lambda array: array[:0],
        ],
    )
    @pytest.mark.parametrize("offset", [0, 40, 8192])
    def test_are_reopened(self, file: pathlib.Path, view: Callable[[Any], Any], offset: int) -> None:
        array = view(np.memmap(file, np.int32, "r", offset, (80_000,)))
        content = pickled(value=array)
        assert content.arrays == []
        assert len(content.data) < 1000
        there = loaded(content)
        assert type(there) is type(array)
        assert there.shape == array.shape
        assert (there == array).all()
        assert (moved(there) == array).all()

    def test_modes_stay(self, file: pathlib.Path) -> None:
        for mode in ("r", "r+", "c"):
            there = moved(np.memmap(file, np.int32, mode))
            assert there.mode == mode
            assert there.flags.writeable == (mode != "r")
            assert there.filename == file
            assert there[99_999] == 99_999

    def test_one_that_makes_its_file_is_not_made_again(self, tmp_path: pathlib.Path) -> None:
        array = np.memmap(tmp_path / "new", np.int64, "w+", shape=(50_000,))
        array[:] = 7
        there = moved(array)
        assert there.mode == "r+"
        assert (there == 7).all()
        array[3] = 8
        assert there[3] == 8

    def test_private_changes_are_copied(self, file: pathlib.Path) -> None:
        array = np.memmap(file, np.int32, "c")
        array[5] = -1
        assert moved(array)[5] == -1
        assert np.fromfile(file, np.int32)[5] == 5

    def test_one_without_its_file_is_copied(self, file: pathlib.Path) -> None:
        array = np.memmap(file, np.int32, "r")
        file.unlink()
        assert len(pickled(value=array).arrays) == 1
        assert moved(array)[99_999] == 99_999

    def test_a_copy_of_one_is_an_array(self, file: pathlib.Path) -> None:
        array = np.memmap(file, np.int32, "r").copy()
        array[4] = 0
        assert len(pickled(value=array).arrays) == 1
        assert moved(array)[4] == 0


class TestTensors:
    def test_are_shared(self) -> None:
        torch = pytest.importorskip("torch")
        whole = torch.arange(100_000)
        value = [whole[10:], whole.reshape(100, 1000).T, torch.ones(100_000, dtype=torch.bfloat16), torch.ones(3) > 0]
        content = pickled(value=value)
        assert [array.nbytes for array in content.arrays] == [800_000, 200_000]
        assert len(content.data) < 2000
        there = loaded(content)
        for one, other in zip(there, value, strict=True):
            assert (one.dtype, one.stride()) == (other.dtype, other.stride())
            assert torch.equal(one, other)
        there[0][0] = -1
        assert there[1][10, 0] == -1  # the same memory, as before
        assert whole[10] == 10

    def test_those_that_torch_alone_can_pickle_arrive(self) -> None:
        torch = pytest.importorskip("torch")
        grad = torch.ones(3, requires_grad=True)
        value = [grad, torch.empty(0, 5), torch.eye(3).to_sparse(), torch.tensor([1 + 2j]).conj(), torch.tensor(4)]
        there = moved(value)
        assert there[0].requires_grad
        assert there[1].shape == (0, 5)
        assert torch.equal(there[2].to_dense(), torch.eye(3))
        assert there[3].item() == 1 - 2j
        assert there[4].item() == 4

    def test_a_tensor_that_only_the_pickle_has(self) -> None:
        torch = pytest.importorskip("torch")
        assert moved(MadeByPickle(torch.ones(1 << 20))).made.sum() == 2 << 20

    def test_a_modules_parameters_are_shared(self) -> None:
        torch = pytest.importorskip("torch")
        module = torch.nn.Linear(300, 300)
        content = pickled(value=module)
        assert [array.nbytes for array in content.arrays] == [360_000]
        there = loaded(content)
        assert isinstance(there.weight, torch.nn.Parameter)
        assert there.weight.requires_grad
        assert torch.equal(there.weight, module.weight)

    def test_another_content_is_seen(self) -> None:
        torch = pytest.importorskip("torch")
        tensor = torch.zeros(100_000)
        shared = Shared(pickled(value=tensor))
        assert shared.holds(pickled(value=tensor))
        tensor[7] = 1
        assert not shared.holds(pickled(value=tensor))


class MadeByPickle:
    def __init__(self, tensor: Any) -> None:
        self.made = tensor

    def __getstate__(self) -> Any:
        return {"made": self.made + 1}


class TestWhatDoesNotPickle:
    def refused(self, match: str, **values: Any) -> None:
        with pytest.raises(TypeError, match=match) as caught:
            pickled(**values)
        assert "Make it in the reader on first use" in str(caught.value)
        assert caught.value.__cause__ is not None

    def test_the_attribute_is_named(self) -> None:
        self.refused(
            r"^dataset\.inner\.parts\['one'\]\[0\], a _thread\.lock, does not go.*cannot pickle '_thread\.lock'",
            dataset=Nested(Lock()),
        )
        self.refused(r"^dataset\[1\]\.array, a generator, does not", dataset=[1, HasArray(x for x in "")])

    def test_of_options_the_option_is_named(self) -> None:
        self.refused(r"^inner\.parts\['one'\]\[0\], a _thread\.lock,", dataset=1, options=Nested(Lock()))

    def test_in_functions(self) -> None:
        lock = threading.Lock()

        def closure() -> Any:
            return lock

        self.refused(r"^lock, which dataset uses, a _thread\.lock,", dataset=closure)
        self.refused(r"^dataset\.keywords\['x'\], a _thread\.lock,", dataset=functools.partial(print, x=lock))
        self.refused(r"^dataset\.__self__\.parts\['one'\]\[0\], a", dataset=Lock().method)

    def test_in_a_class_by_value(self) -> None:
        class Local:
            def method(self) -> Any:
                return lock

        lock = threading.Lock()
        self.refused(r"^lock, which .*Local\.method uses, a _thread\.lock,", dataset=Local())

    def test_what_is_bad_in_a_class_that_knows_itself(self) -> None:
        class Local:
            lock = threading.Lock()

            def method(self) -> Any:
                return super().__repr__()

        self.refused(r"^.*Local\.lock, a _thread\.lock,", dataset=Local())

    def test_a_cached_property_is_good(self) -> None:
        class Local:
            @functools.cached_property
            def seven(self) -> int:
                return 7

        there = moved(Local())
        assert (there.seven, vars(there)) == (7, {"seven": 7})

    def test_one_that_refuses_by_itself(self) -> None:
        class Refuses:
            def __reduce__(self) -> Any:
                raise leat.Error("not me")

        self.refused(r"^dataset\.inner, a test_share\..*Refuses, does not.*Error: not me", dataset=Nested(Refuses()))

    def test_a_cycle(self) -> None:
        cycle: list[Any] = [threading.Lock()]
        cycle.append(cycle)
        self.refused(r"^dataset\[0\]", dataset=cycle)
