"""leat.Tensor on the CPU: what it says, the buffer protocol, NumPy, copies."""

import pathlib
import weakref

import leat
import numpy as np
import pytest
from samples import BATCH, DTYPES, WIDTH, address_of, feed_of_type, has_content, make_feed


def test_it_says_what_it_is(x: leat.Tensor) -> None:
    assert (x.name, x.dtype, x.shape, x.ndim, x.nbytes) == ("x", "int32", (BATCH, WIDTH), 2, 4 * BATCH * WIDTH)
    assert x.device == "host:0"
    assert len(x) == BATCH
    assert repr(x) == "<leat.Tensor x int32 [8, 6] on host:0>"


def test_only_a_batch_makes_one() -> None:
    with pytest.raises(TypeError):
        leat.Tensor()  # type: ignore[call-arg]


def test_numpy_uses_its_memory_which_is_aligned(x: leat.Tensor) -> None:
    array = np.asarray(x)
    assert has_content(array, 0)
    assert np.shares_memory(array, np.asarray(x))
    assert address_of(x) % 256 == 0
    array[0, 0] = 7
    assert np.asarray(x)[0, 0] == 7


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bfloat16"])
def test_numpy_has_its_type(tmp_path: pathlib.Path, dtype: str) -> None:
    array = np.asarray(next(iter(feed_of_type(tmp_path, dtype)))["v"])
    assert array.dtype == np.dtype(dtype)
    assert array.tolist() == [np.array([1, 2, 3], dtype).tolist()] * 4


def test_bfloat16_is_refused_by_numpy_with_a_reason(tmp_path: pathlib.Path) -> None:
    tensor = next(iter(feed_of_type(tmp_path, "bfloat16")))["v"]
    with pytest.raises(TypeError, match="bfloat16, which NumPy does not have"):
        tensor.__array__()
    with pytest.raises(BufferError, match="no type bfloat16"):
        memoryview(tensor)
    assert repr(tensor) == "<leat.Tensor v bfloat16 [4, 3] on host:0>"


def test_a_memoryview_has_shape_strides_and_format(x: leat.Tensor) -> None:
    view = memoryview(x)  # type: ignore[arg-type, unused-ignore]
    assert (view.shape, view.strides, view.format, view.readonly) == ((BATCH, WIDTH), (4 * WIDTH, 4), "i", False)
    assert view.c_contiguous
    assert view.nbytes == x.nbytes
    assert bytes(x) == np.asarray(x).tobytes()  # type: ignore[call-overload, unused-ignore]


def test_a_mask_is_bool_from_the_array_to_the_batch() -> None:
    mask = np.arange(8) % 3 == 0
    data = leat.InMemory(mask=mask)
    assert data.fields == (leat.Field("mask", bool),)
    assert data[3]["mask"].dtype == np.bool_
    tensor = next(iter(leat.Prefetcher(data, "cpu", batch_size=8, order="sequential")))["mask"]
    assert tensor.dtype == "bool"
    assert memoryview(tensor).format == "?"  # type: ignore[arg-type, unused-ignore]
    assert np.asarray(tensor).tolist() == mask.tolist()


def test_array_copies_only_if_it_has_to(x: leat.Tensor) -> None:
    same = np.asarray(x)
    assert np.shares_memory(x.__array__(), same)
    assert np.shares_memory(x.__array__(np.int32), same)
    assert np.shares_memory(x.__array__(copy=False), same)
    assert not np.shares_memory(x.__array__(copy=True), same)
    other = x.__array__(np.float64)
    assert other.dtype == np.float64
    assert has_content(other, 0)
    assert x.__array__(np.float32, copy=True).dtype == np.float32
    with pytest.raises(ValueError, match="needs a copy"):
        x.__array__(np.float64, copy=False)
    with pytest.raises(TypeError, match="copy has to be"):
        x.__array__(copy=1)  # type: ignore[arg-type]


def test_a_copy_has_memory_of_its_own_and_no_share(x: leat.Tensor) -> None:
    copy = x.copy()
    assert address_of(copy) != address_of(x)
    assert address_of(copy) % 256 == 0
    np.asarray(x)[:] = 0
    assert has_content(copy, 0)
    assert has_content(copy.copy(), 0)
    assert repr(copy) == "<leat.Tensor x int32 [8, 6] on host:0, a copy>"


def test_views_outlive_everything_that_they_came_from() -> None:
    feed = make_feed()
    batch = next(iter(feed))
    view = memoryview(batch["y"])[2:4]
    part = np.asarray(batch["x"])[1:3, ::2]
    x, y = weakref.ref(batch["x"]), weakref.ref(batch["y"])
    del batch, feed
    assert part.tolist() == [[6, 8, 10], [12, 14, 16]]
    assert view.tolist() == [2, 3]
    assert x() is not None
    assert y() is not None
    del part, view
    assert (x(), y()) == (None, None)

