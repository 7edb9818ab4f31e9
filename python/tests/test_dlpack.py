"""DLPack capsules, looked into with ctypes: what a consumer is given, and who owns it."""

import ctypes
import gc
import threading
from typing import Any

import leat
import numpy as np
import pytest
from capsules import Managed, Versioned, consume, name_of, read
from samples import BATCH, WIDTH, address_of, has_content, make_feed

CPU = (1, 0)


class Loop:
    """A loop that can hold one lease: is_free() says whether none is held."""

    def __init__(self) -> None:
        self._batches = iter(make_feed(batches=100, max_leases=2))

    def tensor(self) -> leat.Tensor:
        batch = next(self._batches)
        assert not batch.copied
        tensor: leat.Tensor = batch["x"]
        return tensor

    def is_free(self) -> bool:
        return not next(self._batches).copied


def test_a_capsule_shows_the_slots_memory(x: leat.Tensor) -> None:
    capsule = x.__dlpack__()
    assert name_of(capsule) == "dltensor"
    tensor = read(capsule).dl_tensor
    assert tensor.data == address_of(x)
    assert (tensor.device_type, tensor.device_id) == CPU == x.__dlpack_device__()
    assert (tensor.code, tensor.bits, tensor.lanes) == (0, 32, 1)
    assert tensor.shape[: tensor.ndim] == [BATCH, WIDTH]
    assert tensor.strides[: tensor.ndim] == [WIDTH, 1]
    assert tensor.byte_offset == 0


@pytest.mark.parametrize(
    ("asked", "name"),
    [(None, "dltensor"), ((0, 8), "dltensor"), ((1, 0), "dltensor_versioned"), ((2, 3), "dltensor_versioned")],
)
def test_a_capsule_is_versioned_only_if_asked_for(x: leat.Tensor, asked: Any, name: str) -> None:
    assert name_of(x.__dlpack__(max_version=asked)) == name


def test_a_versioned_capsule_says_its_version_and_whether_it_is_a_copy(x: leat.Tensor) -> None:
    for copy, flags in ((None, 0), (False, 0), (True, 2)):
        capsule = x.__dlpack__(max_version=(1, 1), copy=copy)
        managed = read(capsule)
        assert isinstance(managed, Versioned)
        assert (managed.major, managed.minor, managed.flags) == (1, 0, flags)
        assert (managed.dl_tensor.data == address_of(x)) == (flags == 0)
    assert name_of(x.__dlpack__(copy=True)) == "dltensor"


@pytest.mark.parametrize("stream", [0, 1, 2, -1, -2, 12345])
def test_the_cpu_has_no_streams(x: leat.Tensor, stream: int) -> None:
    with pytest.raises(ValueError, match=f"stream is {stream}, but a CPU has none: pass None"):
        x.__dlpack__(stream=stream)


@pytest.mark.parametrize("device", [(2, 0), (3, 0), (1, 1), (13, 0)])
def test_another_device_is_refused(x: leat.Tensor, device: tuple[int, int]) -> None:
    with pytest.raises(BufferError, match=r"not to \(%d, %d\)" % device):
        x.__dlpack__(dl_device=device)


@pytest.mark.parametrize(
    "wrong",
    [{"max_version": 1}, {"max_version": (1,)}, {"dl_device": "cpu"}, {"dl_device": (1.5, 0)}, {"copy": 1}],
)
def test_arguments_of_wrong_type_are_type_errors(x: leat.Tensor, wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        x.__dlpack__(**wrong)
    with pytest.raises(TypeError):
        x.__dlpack__(None)  # type: ignore[misc]


def test_a_capsule_that_nobody_consumes_gives_its_share_back() -> None:
    for asked in (None, (1, 0)):
        loop = Loop()
        capsule = loop.tensor().__dlpack__(max_version=asked)
        assert not loop.is_free()
        del capsule
        assert loop.is_free()


def test_a_consumed_capsule_is_the_consumers() -> None:
    for asked in (None, (1, 0)):
        loop = Loop()
        capsule = loop.tensor().__dlpack__(max_version=asked)
        managed = consume(capsule)
        assert name_of(capsule).startswith("used_dltensor")
        del capsule
        assert not loop.is_free()  # the capsule's end has not called the deleter
        managed.delete()
        assert loop.is_free()


def test_numpy_refuses_a_capsule_that_was_consumed() -> None:
    class Once:
        """Hands out one capsule again and again."""

        def __init__(self, capsule: Any) -> None:
            self._capsule = capsule

        def __dlpack__(self, **_: Any) -> Any:
            return self._capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return CPU

    loop = Loop()
    once = Once(loop.tensor().__dlpack__())
    array = np.from_dlpack(once)
    assert has_content(array, 0)
    with pytest.raises((ValueError, RuntimeError, BufferError)):
        np.from_dlpack(once)
    assert has_content(array, 0)
    del array, once
    assert loop.is_free()


def test_numpys_from_dlpack_shares_the_memory(x: leat.Tensor) -> None:
    assert np.from_dlpack(x).ctypes.data == address_of(x)


def test_each_export_has_a_share_of_its_own() -> None:
    loop = Loop()
    tensor = loop.tensor()
    exports = [consume(tensor.__dlpack__()) for _ in range(3)]
    del tensor
    while exports:
        assert not loop.is_free()
        exports.pop().delete()
    assert loop.is_free()


def test_a_deleter_runs_on_a_thread_without_the_gil() -> None:
    loop = Loop()
    managed = consume(loop.tensor().__dlpack__())
    without_gil = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)  # ctypes releases the GIL
    thread = threading.Thread(target=without_gil, args=(managed.address,))
    thread.start()
    thread.join()
    assert loop.is_free()


def test_deleters_on_many_threads_at_once_and_the_loop() -> None:
    batches = iter(make_feed(batches=300, max_leases=8))
    threads = []
    for batch in batches:
        managed = consume(batch["x"].__dlpack__())
        assert managed.dl_tensor.shape[0] == BATCH
        delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)
        threads.append(threading.Thread(target=delete, args=(managed.address,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    again = iter(make_feed(batches=3, max_leases=2))
    del batch
    assert not next(again).copied


def test_a_deleter_runs_after_the_feed_is_gone() -> None:
    loop = Loop()
    managed = consume(loop.tensor().__dlpack__())
    del loop
    gc.collect()
    memory = (ctypes.c_int32 * WIDTH * BATCH).from_address(managed.dl_tensor.data)
    assert has_content(np.ctypeslib.as_array(memory), 0)
    managed.delete()


def test_a_copy_shares_no_slot() -> None:
    loop = Loop()
    copied = consume(loop.tensor().__dlpack__(copy=True))
    assert loop.is_free()
    copied.delete()


def test_managed_is_what_dlpack_says() -> None:
    assert ctypes.sizeof(Managed) == 64
    assert ctypes.sizeof(Versioned) == 80
