"""Batches on a real GPU, in torch, JAX and CuPy: what the software runtime of the other tests cannot show."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import exits
import leat
import numpy as np
import pytest
from capsules import consume
from samples import has_content, make_feed

pytestmark = pytest.mark.gpu

BATCHES = 60
LARGE = 1 << 21


@pytest.fixture
def torch() -> Iterator[Any]:
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("torch without CUDA")
    yield module
    gc.collect()
    module.cuda.synchronize()


@pytest.fixture
def jax() -> Any:
    module = pytest.importorskip("jax")
    try:
        module.local_devices(backend="cuda")
    except RuntimeError:
        pytest.skip("jax without CUDA")
    return module


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


def make_large_feed(framework: str) -> leat.Prefetcher:
    """Batches whose copy takes longer than what reads them: 16 of 8 MB; all elements of batch i are i."""
    data = leat.InMemory(x=np.repeat(np.arange(16, dtype=np.int32), LARGE).reshape(16, LARGE))
    return leat.Prefetcher(data, "cuda:0", batch_size=1, order="sequential", framework=framework)


def on_cpu(tensor: Any) -> Any:
    """The content of a leat.Tensor, by Leat's own copy."""
    return np.from_dlpack(tensor, device="cpu")


def test_leats_own_tensors_have_the_content() -> None:
    feed = make_feed(BATCHES, "cuda:0")
    for batch in feed:
        assert batch["x"].device == "cuda:0"
        assert batch["x"].__dlpack_device__() == (2, 0)
        assert has_content(on_cpu(batch["x"]), batch.index)
    assert feed.copies == 0
    del batch


@pytest.mark.parametrize("own_stream", [False, True])
def test_torchs_stream_waits_for_the_copy(torch: Any, own_stream: bool) -> None:
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    feed = make_large_feed("torch")
    with torch.cuda.stream(stream):
        sums = [batch["x"].sum() for batch in feed]
    stream.synchronize()
    assert [int(one) for one in sums] == [i * LARGE for i in range(16)]
    assert feed.copies == 0


@pytest.mark.parametrize("own_stream", [False, True])
def test_a_slot_waits_for_what_torch_computes(torch: Any, own_stream: bool) -> None:
    """The host runs ahead: each batch is read by a kernel that starts a millisecond after the one before."""
    stream = torch.cuda.Stream() if own_stream else torch.cuda.current_stream()
    feed, seen = make_feed(BATCHES, "cuda:0", framework="torch"), []
    with torch.cuda.stream(stream):
        for batch in feed:
            torch.cuda._sleep(2_000_000)
            seen.append(batch["x"] + 0)
    stream.synchronize()
    assert feed.copies == 0
    assert all(has_content(x.cpu(), i) for i, x in enumerate(seen))
    del batch


def test_torch_has_the_slots_memory(torch: Any) -> None:
    batch = next(iter(make_feed(1, "cuda:0", framework=None)))
    x = torch.from_dlpack(batch["x"])
    assert x.device == torch.device("cuda:0")
    managed = consume(batch["x"].__dlpack__())
    assert x.data_ptr() == managed.dl_tensor.data
    managed.delete()
    del batch


def test_torch_computes_gradients_from_batches(torch: Any) -> None:
    weights = torch.zeros(6, device="cuda", requires_grad=True)
    for batch in make_feed(BATCHES, "cuda:0", framework="torch"):
        (batch["x"].float() @ weights).sum().backward()
    assert float(weights.grad.sum()) == sum(range(BATCHES * 8 * 6))
    del batch


def test_batches_that_a_loop_keeps_stay_as_they_are(torch: Any) -> None:
    feed = make_feed(BATCHES, "cuda:0", framework="torch", max_leases=3)
    kept = [batch["x"] for batch in feed]
    assert feed.copies >= BATCHES - 3
    assert all(has_content(x.cpu(), i) for i, x in enumerate(kept))
    assert len({x.data_ptr() for x in kept}) == BATCHES


def test_jax_has_the_content(jax: Any) -> None:
    for batch in make_feed(BATCHES, "cuda:0", framework="jax"):
        assert batch["x"].device.platform == "gpu"
        assert has_content(np.asarray(batch["x"] + 0), batch.index)
    del batch


def test_a_slot_waits_for_what_jax_computes(jax: Any) -> None:
    """Dispatched, not awaited, while a large product keeps the device."""
    large = jax.device_put(np.ones((4096, 4096), np.float32), jax.local_devices(backend="cuda")[0])

    @jax.jit
    def late(x: Any, matrix: Any) -> Any:
        return x + jax.numpy.isnan((matrix @ matrix).sum()).astype(x.dtype)  # not what XLA can leave out

    seen = [late(batch["x"], large) for batch in make_feed(BATCHES, "cuda:0", framework="jax")]
    assert all(has_content(x, i) for i, x in enumerate(seen))


@pytest.mark.parametrize("own_stream", [False, True])
def test_cupys_stream_waits_for_the_copy(cupy: Any, own_stream: bool) -> None:
    stream = cupy.cuda.Stream(non_blocking=True) if own_stream else cupy.cuda.Stream.null
    feed = make_large_feed("cupy")
    with stream:
        sums = [batch["x"].sum() for batch in feed]
    stream.synchronize()
    assert [int(one) for one in sums] == [i * LARGE for i in range(16)]
    assert feed.copies == 0


@pytest.mark.parametrize("own_stream", [False, True])
def test_a_slot_waits_for_what_cupy_computes(cupy: Any, own_stream: bool) -> None:
    stream = cupy.cuda.Stream(non_blocking=True) if own_stream else cupy.cuda.Stream.null
    feed, seen = make_feed(BATCHES, "cuda:0", framework="cupy"), []
    with stream:
        large = cupy.ones((2048, 2048), cupy.float32)
        for batch in feed:
            large @ large
            seen.append(batch["x"] + 0)
    stream.synchronize()
    assert feed.copies == 0
    assert all(has_content(cupy.asnumpy(x), i) for i, x in enumerate(seen))
    del batch


def test_a_stream_that_is_bound_by_hand(torch: Any) -> None:
    stream, seen = torch.cuda.Stream(), []
    for batch in make_feed(BATCHES, "cuda:0"):
        batch.on(stream.cuda_stream)
        with torch.cuda.stream(stream):
            x = torch.from_dlpack(batch["x"].__dlpack__(stream=-1))  # -1: binds nothing itself
            torch.cuda._sleep(1_000_000)
            seen.append(x + 0)
            del x
    stream.synchronize()
    assert all(has_content(x.cpu(), i) for i, x in enumerate(seen))
    del batch


@pytest.mark.parametrize("framework", ["torch", "jax", "cupy"])
def test_bools_have_the_content(framework: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(framework)
    mask = np.random.default_rng(1).integers(0, 2, (64, 5)).astype(bool)
    feed = leat.Prefetcher(leat.InMemory(m=mask), "cuda:0", batch_size=8, order="sequential", framework=framework)
    rows = [(~batch["m"]).tolist() for batch in feed]
    assert rows == (~mask).reshape(8, 8, 5).tolist()


def test_a_peeked_batch_is_a_copy_and_comes_again(torch: Any) -> None:
    feed = make_feed(BATCHES, "cuda:0", framework="torch")
    peeked = feed.peek()
    again = type(peeked)({name: tensor + 0 for name, tensor in peeked.items()})
    seen = [(batch.index, has_content(batch["x"].cpu(), batch.index)) for batch in feed]
    assert seen == [(i, True) for i in range(BATCHES)]
    assert has_content(peeked["x"].cpu(), 0) and has_content(again["x"].cpu(), 0)
    assert (again.index, again.size) == (peeked.index, peeked.size) == (0, 8)


def test_memory_that_the_gpu_lacks_is_told_and_the_device_goes_on() -> None:
    data = leat.InMemory(x=np.zeros((64, 1 << 20), np.uint8))
    with pytest.raises(leat.OutOfMemory) as raised:  # 250 GiB
        leat.Prefetcher(data, "cuda:0", batch_size=64, prefetch_depth=4000, pinned_slots=2)
    assert raised.value.bytes >= 64 << 20 and "cuda:0" in raised.value.request
    assert sum(batch.size for batch in make_feed(1, "cuda:0")) == 8


def test_a_resumed_feed_goes_on(torch: Any) -> None:
    feed = make_feed(BATCHES, "cuda:0", framework="torch")
    for batch in feed:
        if batch.index == 3:
            break
    del batch
    feed.load_state_dict(feed.state_dict())
    rest = [(batch.index, has_content(batch["x"].cpu(), batch.index)) for batch in feed]
    assert rest == [(i, True) for i in range(4, BATCHES)]


def test_numpy_cannot_use_it() -> None:
    with pytest.raises(ValueError, match="cannot use cuda:0"):
        make_feed(1, "cuda:0", framework="numpy")


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(leat.Error, match="cuda:99"):
        make_feed(1, "cuda:99")


@pytest.mark.parametrize("end", exits.ENDS)
def test_the_interpreter_exits_in_order(end: str) -> None:
    program = exits.BEGIN + exits.ENDS[end]
    for on_cpu, on_gpu in (('"cpu"', '"cuda:0"'), ('"numpy"', "None"), (".sum()", ".copy()")):
        program = program.replace(on_cpu, on_gpu)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == exits.CODES.get(end, 0), done.stderr
    assert done.stderr == "" or end == "an exception that nobody handles leaves the loop"


def test_devices_lists_it() -> None:
    first = leat.devices()[0]
    assert first.name == "cuda:0"
    assert first.memory_bytes > 1 << 30
    assert make_feed(1, "auto").device == "cuda:0"
