"""Streams of a GPU, on the software CUDA runtime: which wait for the copy, and when the slot goes back."""

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import leat
import leat.frameworks
import numpy as np
import pytest
from capsules import consume, name_of, read
from samples import BATCH, WIDTH, has_content, make_feed

pytestmark = pytest.mark.stand_in
GPU = (2, 0)
LEGACY = 1


class Gpu:
    """The software GPU: feeds on cuda:0, and two streams of the program's own."""

    def __init__(self, controls: Any) -> None:
        self.controls = controls
        self.streams: list[int] = [controls.stream(), controls.stream()]

    def feed(self, **options: Any) -> leat.Prefetcher:
        return make_feed(device="cuda:0", **options)

    def waits(self, stream: int) -> int:
        """How often the stream was made to wait for an event."""
        return sum(waiting == stream for waiting, _ in self.controls.waits())

    def content(self, address: int) -> Any:
        data = self.controls.read(address, 4 * BATCH * WIDTH)
        return np.frombuffer(data, np.int32).reshape(BATCH, WIDTH)


@pytest.fixture
def gpu(stand_in: Any) -> Iterator[Gpu]:
    """The test's batches end before its streams, which are destroyed here."""
    made = Gpu(stand_in)
    stand_in.record_waits()
    yield made
    gc.collect()
    for one in made.streams:
        stand_in.synchronize(one)
        stand_in.destroy(one)


class OnStream:
    """A framework of streams: the current one is `current`; its arrays are Leat's tensors."""

    name = "torch"

    def __init__(self) -> None:
        self.current: int | None = 0

    def stream(self, device: str) -> int | None:
        assert device == "cuda:0"
        return self.current

    def take(self, tensor: leat.Tensor) -> leat.Tensor:
        tensor._capsule()
        return tensor

    def copy(self, tensor: leat.Tensor) -> leat.Tensor:
        return tensor.copy()


@pytest.fixture
def on_stream(monkeypatch: pytest.MonkeyPatch) -> OnStream:
    made = OnStream()
    monkeypatch.setitem(leat.frameworks._ADAPTERS, "torch", lambda device: made)
    return made


def test_a_tensor_is_on_its_device(gpu: Gpu) -> None:
    x = next(iter(gpu.feed()))["x"]
    assert x.device == "cuda:0"
    assert x.__dlpack_device__() == GPU
    assert repr(x) == "<leat.Tensor x int32 [8, 6] on cuda:0>"
    capsule = x.__dlpack__(max_version=(1, 0))
    tensor = read(capsule).dl_tensor
    assert (tensor.device_type, tensor.device_id) == GPU
    assert gpu.controls.is_device_memory(tensor.data, x.nbytes)


def test_none_and_1_are_the_legacy_default_stream(gpu: Gpu) -> None:
    batches = iter(gpu.feed(max_leases=8))
    for stream in (None, 1):
        before = gpu.waits(LEGACY)
        next(batches)["x"].__dlpack__(stream=stream)
        assert gpu.waits(LEGACY) == before + 1


def test_a_stream_of_ones_own_waits_for_the_copy_once(gpu: Gpu) -> None:
    x = next(iter(gpu.feed()))["x"]
    for _ in range(3):
        x.__dlpack__(stream=gpu.streams[0])
    assert gpu.waits(gpu.streams[0]) == 1
    assert gpu.waits(gpu.streams[1]) == 0
    assert gpu.waits(LEGACY) == 0
    del x
    gc.collect()


def test_work_on_the_stream_sees_the_batch(gpu: Gpu) -> None:
    gpu.controls.delay_operations(200)
    for batch in gpu.feed(batches=20):
        managed = consume(batch["x"].__dlpack__(stream=gpu.streams[0]))
        gpu.controls.synchronize(gpu.streams[0])
        assert has_content(gpu.content(managed.dl_tensor.data), batch.index)
        managed.delete()
    del batch


def test_after_a_look_on_one_stream_the_loop_waits_on_its_own(gpu: Gpu, on_stream: OnStream) -> None:
    feed = gpu.feed(batches=2, framework="torch")
    for index in range(2):
        on_stream.current = gpu.streams[0]
        look = feed.peek()
        before = gpu.waits(gpu.streams[1])
        on_stream.current = gpu.streams[1]
        batch = next(loop) if index else next(loop := iter(feed))
        assert gpu.waits(gpu.streams[1]) == before + 1
        for one in (look, batch):
            managed = consume(one["x"].__dlpack__(stream=gpu.streams[1]))
            gpu.controls.synchronize(gpu.streams[1])
            assert has_content(gpu.content(managed.dl_tensor.data), index)
            managed.delete()
    del loop, look, batch, one, managed


def test_minus_1_binds_nothing_and_needs_a_stream_that_is_bound(gpu: Gpu) -> None:
    batch = next(iter(gpu.feed()))
    with pytest.raises(BufferError, match=r"not bound to a stream yet.*batch\.on\(stream\)"):
        batch["x"].__dlpack__(stream=-1)
    with pytest.raises(BufferError, match="not bound to a stream yet"):
        batch["x"]._capsule()
    assert gpu.waits(LEGACY) == 0
    batch.on(gpu.streams[0])
    assert name_of(batch["x"].__dlpack__(stream=-1)) == "dltensor"
    assert gpu.waits(gpu.streams[0]) == 1
    assert gpu.waits(LEGACY) == 0
    del batch
    gc.collect()


def test_2_is_a_buffer_error_that_says_what_to_pass(gpu: Gpu) -> None:
    batch = next(iter(gpu.feed()))
    for use in (lambda: batch["x"].__dlpack__(stream=2), lambda: batch.on(2)):
        with pytest.raises(BufferError, match="pass 1 for the legacy default stream, or the number of a stream"):
            use()


def test_0_and_negative_numbers_are_value_errors(gpu: Gpu) -> None:
    batch = next(iter(gpu.feed()))
    for wrong in (0, -2, -100):
        with pytest.raises(ValueError, match=f"stream is {wrong}"):
            batch["x"].__dlpack__(stream=wrong)
        with pytest.raises(ValueError, match=f"stream is {wrong}"):
            batch.on(wrong)
    with pytest.raises(ValueError, match="-1 is no stream"):
        batch.on(-1)


def test_what_is_no_stream_is_a_type_error(gpu: Gpu) -> None:
    batch = next(iter(gpu.feed()))
    for wrong in (True, 1.5, "1", [1], object()):
        with pytest.raises(TypeError, match="is no stream"):
            batch["x"].__dlpack__(stream=wrong)
        with pytest.raises(TypeError, match="is no stream"):
            batch.on(wrong)


def test_a_stream_of_another_device_is_refused(gpu: Gpu) -> None:
    other = gpu.controls.stream(device=1)
    batch = next(iter(gpu.feed()))
    with pytest.raises(leat.GpuError):
        batch["x"].__dlpack__(stream=other)
    gpu.controls.destroy(other)


def test_streams_of_torch_and_cupy_are_taken_as_they_are(gpu: Gpu) -> None:
    class Torchs:
        cuda_stream = gpu.streams[0]

    class Cupys:
        ptr = gpu.streams[1]

    class Protocols:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 0

    batch = next(iter(gpu.feed()))
    for stream, number in ((Torchs(), gpu.streams[0]), (Cupys(), gpu.streams[1]), (Protocols(), LEGACY)):
        assert gpu.waits(number) == 0
        batch.on(stream)
        assert gpu.waits(number) == 1
    del batch
    gc.collect()


def test_a_fifth_stream_is_refused(gpu: Gpu) -> None:
    made = [gpu.controls.stream() for _ in range(5)]
    batch = next(iter(gpu.feed()))
    for one in made[:4]:
        batch.on(one)
    with pytest.raises(ValueError, match="at most 4 streams"):
        batch.on(made[4])
    del batch
    gc.collect()
    for one in made:
        gpu.controls.destroy(one)


def test_the_slot_goes_back_by_an_event_on_each_bound_stream(gpu: Gpu) -> None:
    for held in gpu.streams:
        batches = iter(gpu.feed(batches=40, max_leases=2, prefetch_depth=1))  # 2 slots
        batch = next(batches)
        x = batch["x"]
        address = None
        for stream in gpu.streams:
            managed = consume(x.__dlpack__(stream=stream))
            address = managed.dl_tensor.data
            managed.delete()
        gpu.controls.synchronize(gpu.streams[0])
        gpu.controls.synchronize(gpu.streams[1])
        gate = gpu.controls.Gate(held)
        del batch, x
        for _ in range(3):  # the slot is asked for again
            other = next(batches)
            managed = consume(other["x"].__dlpack__(stream=LEGACY))
            if managed.dl_tensor.data == address:
                break
            gpu.controls.synchronize(LEGACY)
            managed.delete()
            del other
        assert managed.dl_tensor.data == address
        assert has_content(gpu.content(address), 0)  # not written while `held` is busy
        assert not gpu.controls.is_done(LEGACY)
        gate.open()
        gpu.controls.synchronize(LEGACY)
        assert has_content(gpu.content(address), other.index)
        managed.delete()
        del other, batches, gate
        gc.collect()


def test_each_use_of_a_batch_binds_the_current_stream(gpu: Gpu, on_stream: OnStream) -> None:
    on_stream.current = gpu.streams[0]
    batch = next(iter(gpu.feed(framework="torch")))
    batch["x"]
    batch["x"]
    assert gpu.waits(gpu.streams[0]) == 1
    on_stream.current = gpu.streams[1]
    batch["x"]
    assert gpu.waits(gpu.streams[1]) == 1
    on_stream.current = 0  # torch's default stream
    batch["y"]
    assert gpu.waits(LEGACY) == 1
    on_stream.current = 2
    with pytest.raises(BufferError, match="each thread's own default stream"):
        batch["x"]
    del batch
    gc.collect()


@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_torchs_and_cupys_current_stream_is_bound(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    """With modules that have what is asked of torch and CuPy, which are not built for this GPU."""
    current = types.SimpleNamespace(cuda_stream=gpu.streams[0], ptr=gpu.streams[0])
    asked = []

    def from_dlpack(tensor: Any) -> Any:
        return tensor if framework == "torch" else tensor.__dlpack__(stream=current.ptr)

    def current_stream(device: str) -> Any:
        asked.append(device)
        return current

    cuda = types.SimpleNamespace(
        is_available=lambda: True,
        current_stream=current_stream,
        Device=lambda number: contextlib.nullcontext(asked.append(f"cuda:{number}")),
        get_current_stream=lambda: current,
    )
    module = types.SimpleNamespace(cuda=cuda, from_dlpack=from_dlpack, __version__="2", int32=None)
    monkeypatch.setitem(sys.modules, framework, module)
    monkeypatch.setitem(sys.modules, "torch.utils.dlpack", module)
    batch = next(iter(gpu.feed(framework=framework)))
    assert gpu.waits(gpu.streams[0]) == 1  # by next()
    capsule = batch["x"]
    assert set(asked) == {"cuda:0"}
    assert name_of(capsule) == "dltensor"
    assert read(capsule).dl_tensor.device_type == GPU[0]
    current.cuda_stream = current.ptr = gpu.streams[1]
    batch["x"]
    assert gpu.waits(gpu.streams[1]) == 1
    assert gpu.waits(LEGACY) == 0


def test_a_batch_that_is_released_while_its_stream_is_asked_for_is_refused(gpu: Gpu, on_stream: OnStream) -> None:
    batch = next(iter(gpu.feed(framework="torch")))

    def stream(device: str) -> int:
        batch.release()
        gc.collect()
        return gpu.streams[0]

    class Late:
        @property
        def cuda_stream(self) -> int:
            other.release()
            return gpu.streams[0]

    on_stream.stream = stream  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="was released"):
        batch["x"]
    other = next(iter(gpu.feed()))
    other.on(Late())
    assert repr(other).endswith("released>")


def test_the_host_does_not_wait_for_the_copy(gpu: Gpu, on_stream: OnStream) -> None:
    gpu.controls.delay_operations(20_000)
    batch = next(iter(gpu.feed(framework="torch")))
    managed = consume(batch["x"]._capsule())
    assert not gpu.controls.is_done(LEGACY)
    gpu.controls.synchronize(LEGACY)
    assert has_content(gpu.content(managed.dl_tensor.data), 0)
    managed.delete()
    del batch


def test_a_deleter_on_a_thread_without_the_gil_gives_the_slot_back(gpu: Gpu) -> None:
    batches = iter(gpu.feed(batches=60, max_leases=2))
    for _ in range(10):
        batch = next(batches)
        assert not batch.copied
        managed = consume(batch["x"].__dlpack__(stream=gpu.streams[0]))
        del batch
        other = next(batches)
        assert other.copied
        del other
        delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)
        thread = threading.Thread(target=delete, args=(managed.address,))
        thread.start()
        thread.join()


def test_the_cpu_gets_a_copy_that_is_waited_for(gpu: Gpu) -> None:
    gpu.controls.delay_operations(2000)
    batches = iter(gpu.feed(batches=20, max_leases=2))
    batch = next(batches)
    capsule = batch["x"].__dlpack__(dl_device=(1, 0), max_version=(1, 0))
    managed = consume(capsule)
    assert managed.flags == 2
    assert (managed.dl_tensor.device_type, managed.dl_tensor.device_id) == (1, 0)
    memory = (ctypes.c_int32 * WIDTH * BATCH).from_address(managed.dl_tensor.data)
    assert has_content(np.ctypeslib.as_array(memory), 0)
    with pytest.raises(BufferError, match="by a copy only"):
        batch["x"].__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(BufferError, match=r"not to \(2, 1\)"):
        batch["x"].__dlpack__(dl_device=(2, 1))
    del batch
    assert not next(batches).copied  # the copy has no share
    managed.delete()


def test_numpy_is_refused_with_advice_and_can_ask_for_a_copy(gpu: Gpu) -> None:
    x = next(iter(gpu.feed()))["x"]
    with pytest.raises(TypeError, match=r'numpy\.from_dlpack\(tensor, device="cpu"\)'):
        np.asarray(x)
    with pytest.raises(BufferError, match="lies on cuda:0, whose memory the CPU cannot read"):
        memoryview(x)
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert has_content(np.from_dlpack(x, device="cpu"), 0)


def test_a_copy_is_filled_in_the_order_of_the_stream_that_uses_it(gpu: Gpu) -> None:
    gpu.controls.delay_operations(2000)
    batches = iter(gpu.feed(batches=40, max_leases=2))
    copies = []
    for _ in range(10):
        batch = next(batches)
        copies.append((batch.index, batch["x"].copy()))
        with pytest.raises(BufferError, match="not bound to a stream yet"):
            copies[-1][1]._capsule()
    del batch
    for index, copy in copies:
        managed = consume(copy.__dlpack__(stream=gpu.streams[0]))
        gpu.controls.synchronize(gpu.streams[0])
        assert gpu.controls.is_device_memory(managed.dl_tensor.data, 4)
        assert has_content(gpu.content(managed.dl_tensor.data), index)
        managed.delete()
    del copies, copy


def test_a_copys_memory_lives_until_the_work_of_its_streams_is_done(gpu: Gpu) -> None:
    copy = next(iter(gpu.feed()))["x"].copy()
    managed = consume(copy.__dlpack__(stream=gpu.streams[0]))
    address = managed.dl_tensor.data
    gpu.controls.synchronize(gpu.streams[0])
    gate = gpu.controls.Gate(gpu.streams[0])
    managed.delete()
    del copy
    gc.collect()
    assert gpu.controls.is_device_memory(address, 4 * BATCH * WIDTH)
    assert has_content(gpu.content(address), 0)
    gate.open()
    gpu.controls.synchronize(gpu.streams[0])


def test_escapes_are_copied_and_their_slots_go_back(gpu: Gpu, on_stream: OnStream) -> None:
    on_stream.current = gpu.streams[0]
    gpu.controls.delay_operations(100)
    kept = list(gpu.feed(batches=40, framework="torch"))
    assert [batch.copied for batch in kept] == [False] * 3 + [True] * 37
    for batch in kept:
        managed = consume(batch["x"].__dlpack__(stream=gpu.streams[1]))
        gpu.controls.synchronize(gpu.streams[1])
        assert has_content(gpu.content(managed.dl_tensor.data), batch.index)
        managed.delete()
    del kept, batch


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_the_destructors_of_a_forked_child_do_not_call_cuda(gpu: Gpu) -> None:
    functions = ("cudaEventRecord", "cudaStreamWaitEvent", "cudaFreeAsync", "cudaEventDestroy", "cudaStreamDestroy")
    feed = gpu.feed(batches=1)
    batch = next(iter(feed))
    managed = consume(batch["x"].__dlpack__(stream=gpu.streams[0]))
    copy = batch["x"].copy()
    gpu.controls.synchronize(gpu.streams[0])
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs fails the test
        calls = [gpu.controls.calls(function) for function in functions]
        managed.delete()
        del batch, copy
        gc.collect()
        os._exit(int(calls != [gpu.controls.calls(function) for function in functions]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert has_content(gpu.content(managed.dl_tensor.data), 0)
    managed.delete()


def test_a_device_that_fails_is_an_error_and_hangs_nothing(gpu: Gpu) -> None:
    batch = next(iter(gpu.feed()))
    gpu.controls.fail_call("cudaStreamWaitEvent", 700)
    with pytest.raises(leat.GpuError, match="cuda:0"):
        batch["x"].__dlpack__(stream=1)
    assert gpu.controls.clear_faults()
