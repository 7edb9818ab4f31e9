"""leat.Npy and leat.Ragged beside NumPy. What a header can say, and errors of files: tests/feeder/sources."""

import os
import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

import leat


def save(file: pathlib.Path, array: Any, version: tuple[int, int] = (1, 0)) -> None:
    with open(file, "wb") as out:
        np.lib.format.write_array(out, array, version)


@pytest.mark.parametrize(
    "dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?", "M8[ns]", "m8[D]"]
)
def test_files_are_shards_of_an_array(tmp_path: pathlib.Path, dtype: str) -> None:
    array = np.arange(24).reshape(6, 2, 2).astype(dtype)
    for version, (begin, end) in zip(((1, 0), (2, 0), (3, 0)), ((0, 1), (1, 1), (1, 6)), strict=True):
        save(tmp_path / f"{version[0]}.npy", array[begin:end], version)
    data = leat.Npy(tmp_path)
    assert data.fields[0].shape == (2, 2)
    read = np.stack([sample["x"] for sample in data])
    np.testing.assert_array_equal(read, array.view(read.dtype) if array.dtype.kind in "?Mm" else array)


def test_arrays_by_name_and_members_are_fields(tmp_path: pathlib.Path) -> None:
    records = np.zeros(5, np.dtype([("shape", "<u2"), ("pair", "<f4", (2,)), ("n", "u1")], align=True))
    records["shape"], records["pair"], records["n"] = range(5), np.arange(10).reshape(5, 2), range(5, 10)
    np.save(tmp_path / "a.npy", records[:3])
    np.save(tmp_path / "b.npy", records[3:])
    np.save(tmp_path / "y.npy", np.arange(5))
    data = leat.Npy(tmp_path / "[ab].npy")
    assert [field.name for field in data.fields] == ["shape", "pair", "n"]
    for name in ("shape", "pair", "n"):
        np.testing.assert_array_equal(np.stack([sample[name] for sample in data]), records[name])
    data = leat.Npy(r=tmp_path / "{a,b}.npy", y=[tmp_path / "y.npy"])
    assert [field.name for field in data.fields] == ["r.shape", "r.pair", "r.n", "y"]
    again = pickle.loads(pickle.dumps(leat.Npy({"y": tmp_path / "y.npy"}, name="mine")))
    assert (again.name, again[3]["y"], again.digest != 0) == ("mine", 3, True)


def test_files_that_no_field_can_be_are_errors(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a.npy"
    for array, text in (
        (np.zeros(3, ">f4"), "type >f4"),
        (np.asfortranarray(np.zeros((3, 2))), "Fortran's order"),
        (np.zeros(3, "c8"), "type <c8"),
        (np.zeros(3, "U7"), "type <U7"),
        (np.array(3), "number of samples"),
    ):
        np.save(file, array)
        with pytest.raises(leat.Error, match=rf"a\.npy: its \.npy header \(byte 0\).*{text}"):
            leat.Npy(file)
    np.save(file, np.zeros(1000))
    os.truncate(file, 8000)
    with pytest.raises(leat.Error, match="truncated: .*byte 128"):
        leat.Npy(file)
    for wrong in ((), (3,), ("a", "b")):
        with pytest.raises((TypeError, ValueError)):
            leat.Npy(*wrong)
    with pytest.raises(TypeError):
        leat.Npy(x=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64", "int16"])
def test_ragged_arrays_have_the_lengths_that_offsets_say(dtype: str) -> None:
    values = np.arange(20, dtype=np.float32).reshape(10, 2)
    offsets = np.array([0, 3, 3, 10], dtype)
    data = leat.InMemory(x=leat.Ragged(values, offsets), y=np.arange(3))
    assert data.fields[0] == leat.Field("x", "float32", (7, 2), variable_length=True)
    for i in range(3):
        np.testing.assert_array_equal(data[i]["x"], values[offsets[i] : offsets[i + 1]])
    values[0] = 77
    assert data[0]["x"][0, 0] == 77  # no copy
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data))[2]["x"], values[3:])
    batch = next(
        iter(leat.Prefetcher(data, "cpu", batch_size=3, order="sequential", pad_to="batch", framework="numpy"))
    )
    assert np.asarray(batch["x"]).shape == (3, 7, 2)


@pytest.mark.parametrize(
    ("offsets", "error", "text"),
    [
        ([0, 2, 1], ValueError, "sample 1 is rows 2 to 1 of 4"),
        ([0, 5], ValueError, "sample 0 is rows 0 to 5 of 4"),
        ([-1, 2], ValueError, "sample 0"),
        ([0.0, 2.0], TypeError, "offsets"),
        ([], TypeError, "offsets"),
        ([[0, 1]], TypeError, "offsets"),
    ],
)
def test_wrong_offsets_are_refused(offsets: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        leat.InMemory(x=leat.Ragged(np.arange(4), offsets))


def test_offsets_in_a_file_may_not_take_a_process_along(tmp_path: pathlib.Path) -> None:
    for name, array in (("values", np.arange(20_000)), ("offsets", np.arange(0, 20_001, 2))):
        np.save(tmp_path / f"{name}.npy", array)
    values, offsets = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("values", "offsets"))
    data = leat.InMemory(x=leat.Ragged(values, offsets))
    for name in ("values", "offsets"):
        os.truncate(tmp_path / f"{name}.npy", 4096)
    assert data[0]["x"].tolist() == [0, 1]
    with pytest.raises(leat.Error, match="sample 9999 of field"):
        data[9999]
