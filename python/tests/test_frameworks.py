"""Batches as arrays of torch, NumPy and JAX: without a copy, and which share the slot."""

import gc
import pathlib
import sys
import types
from typing import Any

import leat
import leat.frameworks
import numpy as np
import pytest
from samples import DTYPES, feed_of_type, has_content, make_feed

FRAMEWORKS = ("torch", "numpy", "jax")


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    pytest.importorskip(name)
    return name


def address_of(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return int(array.ctypes.data)
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    return int(array.unsafe_buffer_pointer())


def taken(framework: str, tensor: leat.Tensor) -> Any:
    return leat.frameworks.adapter(framework, "host:0").take(tensor)


def zero_copy_dtypes(framework: str, folder: pathlib.Path) -> tuple[set[str], dict[str, str]]:
    """The types of leat that the framework uses without a copy; and what becomes of the others."""
    same, others = set(), {}
    for dtype in DTYPES:
        tensor = next(iter(feed_of_type(folder, dtype)))["v"]
        try:
            array = taken(framework, tensor)
        except TypeError as error:
            assert "'v'" in str(error)
            assert f"no type {dtype}" in str(error)
            others[dtype] = "TypeError"
            continue
        name = str(array.dtype).removeprefix("torch.")
        assert array.shape == (4, 3)
        assert [float(one) for one in array[1]] == ([1, 1, 1] if dtype == "bool" else [1, 2, 3])
        if dtype == "bfloat16" or address_of(array) == address_of(np.asarray(tensor)):
            assert name == dtype
            same.add(dtype)
        else:
            others[dtype] = name
    return same, others


def test_numpy_takes_all_types_but_bfloat16_without_a_copy(tmp_path: pathlib.Path) -> None:
    assert zero_copy_dtypes("numpy", tmp_path) == (set(DTYPES) - {"bfloat16"}, {"bfloat16": "TypeError"})


def test_torch_takes_all_types_that_it_has_without_a_copy(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    lacks = set() if hasattr(torch, "uint16") else {"uint16", "uint32", "uint64"}  # since torch 2.3
    assert zero_copy_dtypes("torch", tmp_path) == (set(DTYPES) - lacks, dict.fromkeys(lacks, "TypeError"))


def test_jax_converts_the_types_of_64_bits(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("jax")
    converted = {"int64": "int32", "uint64": "uint32", "float64": "float32"}
    assert zero_copy_dtypes("jax", tmp_path) == (set(DTYPES) - set(converted), converted)


def test_jax_with_x64_takes_all_types_without_a_copy(tmp_path: pathlib.Path) -> None:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    try:
        assert zero_copy_dtypes("jax", tmp_path) == (set(DTYPES), {})
    finally:
        jax.config.update("jax_enable_x64", False)


def test_a_framework_that_takes_no_bool_says_so(tmp_path: pathlib.Path) -> None:
    def refuses(_: Any) -> None:
        raise RuntimeError("Unsupported code 6")

    on_host = next(iter(feed_of_type(tmp_path, "bool")))["v"]
    on_gpu = types.SimpleNamespace(name="v", dtype="bool", nbytes=12, device="cuda:0", _capsule=lambda: None)
    for kind, tensor in ((leat.frameworks._Torch, on_gpu), (leat.frameworks._Jax, on_host)):
        old: Any = kind.__new__(kind)
        old._torch, old._version = types.SimpleNamespace(__version__="1.13", bool=None), "0.4"
        old._from_dlpack = refuses
        with pytest.raises(TypeError, match=r"(torch 1\.13|jax 0\.4) has no type bool, which tensor 'v' has"):
            old.take(tensor)


def test_bfloat16_is_the_slots_memory_in_torch(tmp_path: pathlib.Path) -> None:
    torch = pytest.importorskip("torch")
    tensor = next(iter(feed_of_type(tmp_path, "bfloat16")))["v"]
    one, other = taken("torch", tensor), taken("torch", tensor)
    assert one.dtype == torch.bfloat16
    assert one.data_ptr() == other.data_ptr()
    one[0, 0] = 7
    assert float(other[0, 0]) == 7


def test_a_batch_has_the_frameworks_arrays(framework: str) -> None:
    kinds = {"torch": "Tensor", "numpy": "ndarray", "jax": "ArrayImpl"}
    for batch in make_feed(framework=framework):
        assert type(batch["x"]).__name__ == kinds[framework]
        assert has_content(batch["x"], batch.index)


def test_a_partial_batch_has_fewer_rows(framework: str) -> None:
    last = list(make_feed(batches=2, batch_size=10, framework=framework))[-1]
    assert last["x"].shape == (6, 6)
    assert last["y"].shape == (6,)


def test_a_rank_without_a_sample_has_arrays_without_rows(framework: str) -> None:
    feed = make_feed(batches=1, batch_size=7, rank=1, world_size=2, framework=framework)
    sizes = []
    for batch in feed:
        sizes.append(batch.size)
        assert batch["x"].shape == (batch.size, 6)
        assert float(batch["x"].sum()) == np.asarray(batch["x"]).sum()
    assert sizes == [3, 0]


def holds(framework: str, make: Any) -> None:
    """What `make` makes of a batch's x keeps the slot, until it is gone."""
    batches = iter(make_feed(batches=60, max_leases=2, framework=framework))
    batch = next(batches)
    made = make(batch["x"])
    del batch
    gc.collect()
    for _ in range(5):
        assert next(batches).copied
        assert has_content(np.asarray(made()), 0)
    del made
    gc.collect()
    assert not next(batches).copied


def test_a_view_shares_the_slot(framework: str) -> None:
    if framework == "jax":
        pytest.skip("an index of a jax array is a copy")

    def make(x: Any) -> Any:
        view = x[:, ::1]
        return lambda: view

    holds(framework, make)


def test_an_array_shares_the_slot(framework: str) -> None:
    holds(framework, lambda x: lambda: x)


def test_torchs_numpy_shares_the_slot() -> None:
    pytest.importorskip("torch")

    def make(x: Any) -> Any:
        array = x.numpy()
        return lambda: array

    holds("torch", make)


def test_the_graph_of_a_loss_shares_the_slot() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.ones(6, requires_grad=True)
    batches = iter(make_feed(batches=60, max_leases=2, framework="torch"))
    batch = next(batches)
    expected = batch["x"].float().sum(0)
    loss = (batch["x"].view(torch.float32).mul(0) + batch["x"].float()).mul(weight).sum()
    saved = batch["x"].view(torch.float32).mul(weight)  # saves the slot's memory for its backward pass
    del batch
    gc.collect()
    assert next(batches).copied
    loss.backward()
    assert torch.equal(weight.grad, expected)
    assert next(batches).copied
    del saved
    gc.collect()
    assert not next(batches).copied


def test_a_write_in_place_reaches_the_slot_and_no_other_batch() -> None:
    pytest.importorskip("torch")
    for batch in make_feed(framework="torch"):
        assert has_content(batch["x"], batch.index)
        batch["x"].fill_(-1)
        assert int(batch["x"].sum()) == -48


def test_torch_refuses_a_capsule_that_was_consumed() -> None:
    torch = pytest.importorskip("torch")
    capsule = next(iter(make_feed()))["x"]._capsule()
    array = torch.utils.dlpack.from_dlpack(capsule)
    with pytest.raises(RuntimeError):
        torch.utils.dlpack.from_dlpack(capsule)
    assert has_content(array, 0)


def test_what_jax_computes_later_sees_the_batch() -> None:
    jax = pytest.importorskip("jax")

    @jax.jit
    def compute(x: Any) -> Any:
        slow = jax.lax.fori_loop(0, 30, lambda _, a: a @ a * 0, jax.numpy.ones((96, 96)))
        return x + slow.sum().astype(x.dtype)

    feed = make_feed(batches=100, framework="jax")
    later = [compute(batch["x"]) for batch in feed]
    for index, x in enumerate(later):
        assert has_content(x, index)


def test_a_framework_that_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for framework, package in (("torch", "torch"), ("jax", "jax"), ("cupy", "cupy-cuda12x")):
        monkeypatch.setitem(sys.modules, framework, None)
        with pytest.raises(ModuleNotFoundError, match=f"needs the package {package}.*framework=None needs none"):
            make_feed(framework=framework)


def test_a_wrong_framework_is_a_value_error_with_the_names() -> None:
    for wrong in ("tensorflow", "Torch", "", 3, np):
        with pytest.raises(ValueError, match="'torch', 'numpy', 'jax', 'cupy' or None, not"):
            make_feed(framework=wrong)


def test_a_framework_that_cannot_use_the_device_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="framework='numpy' cannot use cuda:0"):
        leat.frameworks.adapter("numpy", "cuda:0")


def test_torch_without_cuda_cannot_use_a_gpu() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this torch has CUDA")
    with pytest.raises(ValueError, match="framework='torch' cannot use cuda:0"):
        leat.frameworks.adapter("torch", "cuda:0")


def test_jax_without_cuda_cannot_use_a_gpu() -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "cpu":
        pytest.skip("this jax has CUDA")
    with pytest.raises(ValueError, match="framework='jax' cannot use cuda:0"):
        leat.frameworks.adapter("jax", "cuda:0")


def test_copies_are_in_memory_of_their_own(framework: str) -> None:
    adapter = leat.frameworks.adapter(framework, "host:0")
    batch = next(iter(make_feed()))
    copy, same = adapter.copy(batch["x"]), adapter.take(batch["x"])
    assert type(copy) is type(same)
    assert address_of(copy) != address_of(same) == address_of(np.asarray(batch["x"]))
    np.asarray(batch["x"])[:] = 0
    assert has_content(copy, 0)
