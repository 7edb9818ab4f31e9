"""The datasets of files and of arrays, sample by sample; loops over them are test_loop.py's."""

import array
import json
import os
import pathlib
import tarfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import leat
from samples import write_web


@pytest.fixture
def tokens(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two shards without a header: 0 to 99, and 100 to 149."""
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "a.bin")
    np.arange(100, 150, dtype=np.uint16).tofile(tmp_path / "b.bin")
    return tmp_path


@pytest.fixture
def mnist() -> pathlib.Path:
    return pathlib.Path(__file__).parents[2] / "examples" / "data" / "mnist"


def test_token_shards_are_windows_with_the_next_tokens(tokens: pathlib.Path) -> None:
    data = leat.TokenShards(tokens / "*.bin", sequence_length=8)
    assert len(data) == 12 + 6
    assert data.tokens == 150
    assert data.token == "uint16"
    assert data.fields == (leat.Field("x", "int32", (8,)), leat.Field("y", "int32", (8,)))
    sample = data[12]
    np.testing.assert_array_equal(sample["x"], np.arange(100, 108, dtype=np.int32))
    np.testing.assert_array_equal(sample["y"], np.arange(101, 109, dtype=np.int32))
    assert sample["x"].dtype == np.int32


def test_each_option_of_token_shards_is_used(tokens: pathlib.Path) -> None:
    data = leat.TokenShards(
        tokens, sequence_length=8, stride=4, header="none", token="uint16", dtype=np.int64, extension="a.bin"
    )
    assert len(data) == 23
    np.testing.assert_array_equal(data[1]["x"], np.arange(4, 12, dtype=np.int64))
    few = leat.TokenShards(tokens / "a.bin", sequence_length=8, vocabulary=50)
    assert few[0]["x"][0] == 0
    with pytest.raises(leat.Error, match="a.bin"):
        few[11]
    with pytest.raises(leat.Error, match="a.bin"):
        leat.TokenShards(tokens / "a.bin", sequence_length=8, header="llm.c")


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "int32", "int64"])
def test_what_numpy_saves_is_read_by_its_header_and_nothing_else_is_taken_for_tokens(
    tmp_path: pathlib.Path, dtype: str
) -> None:
    values = np.arange(100, dtype=dtype)
    np.save(tmp_path / "a.npy", values)
    for version in ((2, 0), (3, 0)):
        with open(tmp_path / f"{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, values, version)
    data = leat.TokenShards(tmp_path, sequence_length=99, vocabulary=50257, extension=".npy")
    assert (data.token, data.tokens, len(data)) == (dtype, 300, 3)
    for i in range(3):
        np.testing.assert_array_equal(data[i]["y"], np.arange(1, 100))
    for token in (dtype, None):
        assert leat.TokenShards(tmp_path / "a.npy", sequence_length=9, token=token).token == dtype
    with pytest.raises(leat.Error, match="the option token is "):
        leat.TokenShards(tmp_path / "a.npy", sequence_length=9, token="uint16" if dtype != "uint16" else "int64")

    file = tmp_path / "b.npy"
    for bad in (values.astype(values.dtype.newbyteorder(">")), values.reshape(2, 50), values.astype("U7")):
        np.save(file, bad)
        with pytest.raises(leat.Error, match="b.npy: its .npy header says that it holds"):
            leat.TokenShards(file, sequence_length=9)
    np.save(file, -values.astype("int64"))
    with pytest.raises(leat.Error, match="token -1 at byte 136 is negative"):
        leat.TokenShards(file, sequence_length=9)[0]
    file.write_bytes(file.read_bytes().replace(b"<i8", b"<\xff8"))  # no UTF-8
    with pytest.raises(leat.Error, match="the type <"):
        leat.TokenShards(file, sequence_length=9)
    np.savez(tmp_path / "c.npz", values)
    with pytest.raises(leat.Error, match="c.npz: its first bytes say that it is a zip"):
        leat.TokenShards(tmp_path / "c.npz", sequence_length=9)
    assert leat.TokenShards(tmp_path / "c.npz", sequence_length=9, header="none").token == "uint16"


@pytest.mark.parametrize(
    "files",
    [
        lambda folder: str(folder / "*.bin"),
        lambda folder: folder / "{a,b}.bin",
        lambda folder: os.fsencode(folder),
        lambda folder: [folder / "b.bin", str(folder / "a.bin")],
        lambda folder: (str(folder / "a.bin"), os.fsencode(folder / "b.bin")),
    ],
)
def test_files_are_patterns_paths_or_sequences_of_them(
    tokens: pathlib.Path, files: Callable[[pathlib.Path], Any]
) -> None:
    assert len(leat.TokenShards(files(tokens), sequence_length=8)) == 18


def test_a_file_name_that_is_no_utf8_is_opened_and_shown(tmp_path: pathlib.Path) -> None:
    name = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe.bin")
    np.arange(100, dtype=np.uint16).tofile(name)
    data = leat.FixedRecords(name, fields=[leat.Field("n", "uint16")])
    assert len(data) == 100
    assert "\\xff\\xfe.bin" in repr(data)


def test_numbers_of_samples_are_those_of_a_list(tokens: pathlib.Path) -> None:
    data = leat.TokenShards(tokens, sequence_length=8)
    np.testing.assert_array_equal(data[-1]["x"], data[17]["x"])
    for index in (18, -19, 2**62):
        with pytest.raises(IndexError, match="18 samples"):
            data[index]
    assert sum(1 for _ in data) == 18
    assert not len(leat.InMemory(x=np.zeros((0, 3))))


def test_fixed_records_have_their_fields_in_order(tmp_path: pathlib.Path) -> None:
    kind = np.dtype([("label", "<i8"), ("embedding", "<f4", (3,))])
    records = np.zeros(5, kind)
    records["label"] = range(5)
    records["embedding"] = np.arange(15).reshape(5, 3)
    (tmp_path / "r.dat").write_bytes(b"head" + records.tobytes())
    fields = [leat.Field("label", np.int64), leat.Field("embedding", np.dtype("f4"), [3])]
    data = leat.FixedRecords(tmp_path, fields=fields, header_bytes=4, extension=".dat", name="vectors")
    assert data.name == "vectors"
    assert data[3]["label"] == 3
    assert data[3]["label"].shape == ()
    np.testing.assert_array_equal(data[3]["embedding"], [9, 10, 11])
    assert repr(data) == '<leat.FixedRecords "vectors": 5 samples of label int64 [], embedding float32 [3]>'


def test_mnist_is_read_from_a_folder_and_its_arrays_are_views(mnist: pathlib.Path) -> None:
    data = leat.Mnist(mnist, split="test")
    assert data.images.shape == (len(data), 28, 28)
    np.testing.assert_array_equal(data[7]["image"], data.images[7])
    assert data[7]["label"] == data.labels[7]
    assert not data.images.flags.writeable
    images = data.images
    del data
    assert images.sum() > 0


@pytest.mark.parametrize(("classes", "extra"), [(10, 0), (100, 1)])
def test_cifar_is_read_from_a_folder_or_from_files(tmp_path: pathlib.Path, classes: int, extra: int) -> None:
    kind = leat.Cifar10 if classes == 10 else leat.Cifar100
    records = np.zeros((4, 3073 + extra), np.uint8)
    records[:, extra] = [3, 1, 4, 9]
    records[:, 1 + extra :] = np.arange(4)[:, None]
    file = tmp_path / ("test_batch.bin" if classes == 10 else "test.bin")
    records.tofile(file)
    for data in (kind(tmp_path, "test", label="int64"), kind(file, label=np.int64)):
        assert len(data) == 4
        assert data[2]["label"] == 4
        assert data[2]["label"].dtype == np.int64
        assert data[2]["image"].shape == (3, 32, 32)
        assert (data[2]["image"] == 2).all()
        assert ("coarse_label" in data[0]) == (classes == 100)
    with pytest.raises(ValueError, match="label"):
        kind(tmp_path, "test", label="float32")


# WebDataset.


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Two shards of three images each, with their numbers as labels."""
    folder = tmp_path_factory.mktemp("shards")
    for shard in range(2):
        write_web(folder / f"shard-{shard}.tar", range(3 * shard, 3 * shard + 3))
    return folder


def test_a_web_dataset_has_an_image_and_a_label_by_default(shards: pathlib.Path) -> None:
    data = leat.WebDataset(shards / "shard-{0..1}.tar")
    assert data.fields == (leat.Field("image", "uint8", (224, 224, 3)), leat.Field("label", "int64"))
    assert [int(data[i]["label"]) for i in range(len(data))] == list(range(6))
    assert data[0]["image"].std() > 5
    assert data.key(-1) == "0000000005"
    assert data.skipped == 0


def test_the_parts_of_a_web_dataset_are_chosen(shards: pathlib.Path) -> None:
    parts = [
        leat.jpeg_image("pixels", height=8, width=12, fit="random_resized_crop", mirror=0.5, planar=True),
        leat.raw_bytes(leat.Field("json", "uint8", (100,), variable_length=True), "json"),
        leat.class_label("number", extensions=["cls", "cls2"]),
    ]
    data = leat.WebDataset(shards, parts=parts, name="mine", index_threads=1, open_files=1)
    sample = data[4]
    assert list(sample) == ["pixels", "json", "number"]
    assert sample["pixels"].shape == (3, 8, 12)
    assert json.loads(sample["json"].tobytes())["index"] == 4
    assert sample["number"] == 4
    assert repr(data) == (
        '<leat.WebDataset "mine": 6 samples of pixels uint8 [3, 8, 12], json uint8 [<=100], number int64 []>'
    )
    assert (parts[0].kind, parts[1].kind, parts[2].kind) == ("image", "bytes", "label")
    assert parts[2].extensions == ("cls", "cls2")
    assert parts[0].field == data.fields[0]
    assert repr(parts[2]) == '<leat.WebPart "number" (.cls, .cls2): number int64 []>'


def test_a_random_crop_depends_on_seed_epoch_and_sample_alone(shards: pathlib.Path) -> None:
    crop = leat.jpeg_image("image", height=16, width=16, fit="random_resized_crop")
    data = leat.WebDataset(shards, parts=[crop])

    def image(**keys: int) -> bytes:
        return data.read(0, **keys)["image"].tobytes()

    assert image() == image(seed=0, epoch=0) == data[0]["image"].tobytes()
    assert len({image(), image(seed=1), image(epoch=1)}) == 3


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_hard_links_in_a_shard_are_read_as_tarfile_reads_them(tmp_path: pathlib.Path, form: int) -> None:
    folder = tmp_path / ("d" * 60) / ("e" * 60)
    folder.mkdir(parents=True)
    for i in range(3):
        (folder / f"{i}.n").write_bytes(bytes([i]))
    os.link(folder / "1.n", folder / "3.n")
    os.link(folder / "0.n", folder / "4.n")
    (folder / "5.n").symlink_to("0.n")
    with tarfile.open(tmp_path / "a.tar", "w", format=form) as tar:
        for file in sorted(folder.iterdir()):
            tar.add(file, file.relative_to(tmp_path))
    data = leat.WebDataset(tmp_path / "a.tar", parts=[leat.raw_bytes(leat.Field("n", "uint8", (1,)), "n")])
    with tarfile.open(tmp_path / "a.tar") as tar:
        members = [member for member in tar.getmembers() if not member.issym()]
        expected = {member.name: tar.extractfile(member).read() for member in members}  # type: ignore[union-attr]
    assert sum(member.islnk() for member in members) == 2
    assert {f"{data.key(i)}.n": data[i]["n"].tobytes() for i in range(len(data))} == expected
    assert data.skipped == 0
    assert data.left_out == {"symbolic_links": 1, "devices": 0, "unknown_members": 0, "files_without_key": 0}


def test_a_shard_that_changes_is_an_error_and_no_crash(shards: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a.tar"
    file.write_bytes((shards / "shard-0.tar").read_bytes())
    data = leat.WebDataset(file)
    os.truncate(file, 1024)
    with pytest.raises(leat.Error, match="a.tar"):
        data[2]
    with pytest.raises(leat.Error, match="a.tar"):
        leat.WebDataset(file)


def test_wrong_arguments_of_parts_are_named(shards: pathlib.Path) -> None:
    wrong: Any = 3
    with pytest.raises(ValueError, match='jpeg_image: fit has to be one of "stretch", .*not \'crop\''):
        leat.jpeg_image("x", fit="crop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="height"):
        leat.jpeg_image("x", height=0)
    with pytest.raises(TypeError, match="mirror has to be a float, not True"):
        leat.jpeg_image("x", mirror=True)
    with pytest.raises(TypeError, match="mirror has to be a float, not '1'"):
        leat.jpeg_image("x", mirror="1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="scale has to be two floats, not 3"):
        leat.jpeg_image("x", scale=wrong)
    with pytest.raises(TypeError, match="planar has to be a bool, not 3"):
        leat.jpeg_image("x", planar=wrong)
    with pytest.raises(TypeError, match="class_label needs name"):
        leat.class_label()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="field has to be a leat.Field, not 3"):
        leat.raw_bytes(wrong, "x")
    with pytest.raises(TypeError, match="parts has to be a sequence of leat.WebPart, not 3"):
        leat.WebDataset(shards, parts=[wrong])
    with pytest.raises(ValueError, match="index_threads"):
        leat.WebDataset(shards, index_threads=-1)
    with pytest.raises(leat.Error, match="none.tar"):
        leat.WebDataset(shards / "none.tar")


# Arrays.


def test_arrays_are_read_without_a_copy_and_kept_alive() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    data = leat.InMemory(x=x, y=np.arange(4))
    x[2, 1] = 99
    assert data[2]["x"][1] == 99
    assert data[2]["y"] == 2
    assert data.fields == (leat.Field("x", "float32", (3,)), leat.Field("y", "int64"))
    x[2, 1] = 7
    del x
    assert data[2]["x"][1] == 7


def test_a_sample_is_a_copy_of_its_own() -> None:
    x = np.zeros(4)
    data = leat.InMemory(x=x)
    sample = data[0]
    sample["x"][...] = 5
    assert x[0] == 0
    del data
    assert sample["x"] == 5


def test_arrays_come_as_a_dict_with_a_name_for_messages() -> None:
    data = leat.InMemory({"name": np.zeros(3), "b c": np.zeros(3, np.uint8)}, name="mine")
    assert data.name == "mine"
    assert [field.name for field in data.fields] == ["name", "b c"]
    assert leat.InMemory(name=np.zeros(3)).fields[0].name == "name"


@pytest.mark.parametrize(
    "values", [array.array("h", [1, 2, 3]), memoryview(array.array("h", [1, 2, 3])), np.array([1, 2, 3], np.int16)]
)
def test_whatever_has_the_buffer_protocol_is_an_array(values: Any) -> None:
    data = leat.InMemory(x=values)
    assert data.fields[0].dtype == "int16"
    assert data[1]["x"] == 2


def test_read_only_arrays_are_read() -> None:
    x = np.arange(3)
    x.flags.writeable = False
    assert leat.InMemory(x=x)[2]["x"] == 2
    assert leat.InMemory(x=b"abc")[2]["x"] == ord("c")


def test_memory_that_is_read_cannot_go_away() -> None:
    values = bytearray(b"abc")
    data = leat.InMemory(x=values)
    with pytest.raises(BufferError):
        values.append(1)
    assert data[0]["x"] == ord("a")
    del data
    values.append(1)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
def test_each_type_of_elements_goes_in_and_out(dtype: str) -> None:
    x = np.array([[1, 2], [3, 4]], dtype)
    sample = leat.InMemory(x=x)[1]["x"]
    assert sample.dtype == x.dtype
    np.testing.assert_array_equal(sample, x[1])


X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    ("values", "error", "text"),
    [
        (X.T, TypeError, "numpy.ascontiguousarray"),
        (X[::2], TypeError, "numpy.ascontiguousarray"),
        (np.array([1, "a"], object), TypeError, "object"),
        (np.array([1j]), TypeError, "complex|no field has"),
        (np.arange(3, dtype=">i4"), TypeError, ">i4"),
        (np.array(["2020-01-01"], "M8[D]"), TypeError, "datetime64"),
        (np.array(["a"]), TypeError, "<U1"),
        ([1, 2], TypeError, "list"),
        ("abc", TypeError, "str"),
        (None, TypeError, "NoneType"),
        (3, TypeError, "int"),
        (np.float32(3), TypeError, "single number"),
        (np.zeros((3, 0)), ValueError, "extent of 0"),
    ],
)
def test_what_is_no_array_of_elements_is_refused_by_name(values: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f'"x".*({text})'):
        leat.InMemory(x=values)


def test_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match='"y" in memory has 5 samples, but field "x" has 4'):
        leat.InMemory(x=np.zeros((4, 3)), y=np.zeros(5))
    with pytest.raises(ValueError, match="at least one"):
        leat.InMemory()


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, TypeError, "leat.TokenShards needs sequence_length"),
        ({"sequence_length": 2.5}, TypeError, "sequence_length has to be an int, not 2.5"),
        ({"sequence_length": True}, TypeError, "sequence_length has to be an int, not True"),
        ({"sequence_length": "8"}, TypeError, "sequence_length has to be an int, not '8'"),
        ({"sequence_length": -1}, ValueError, "sequence_length has to be an int from 0"),
        ({"sequence_length": 2**70}, ValueError, "sequence_length has to be an int from 0"),
        ({"sequence_length": 0}, ValueError, "sequence_length"),
        ({"sequence_length": 8, "header": "llm"}, ValueError, 'header has to be one of "auto", "none", "llm.c"'),
        ({"sequence_length": 8, "header": 1}, TypeError, "header has to be a str, not 1"),
        ({"sequence_length": 8, "token": "int7"}, ValueError, 'token has to be one of "int8", .*not \'int7\''),
        ({"sequence_length": 8, "token": 16}, TypeError, "token has to be the name of a type"),
        ({"sequence_length": 8, "token": "float32"}, ValueError, "token is float32"),
        ({"sequence_length": 8, "extension": b".bin"}, TypeError, "extension has to be a str"),
        ({"sequence_length": 8, "strid": 1}, TypeError, "no argument strid; it has .*stride"),
        ({"sequence_length": 8, "files": "b"}, TypeError, "files is given twice"),
    ],
)
def test_a_wrong_argument_is_one_error_that_names_it(
    tokens: pathlib.Path, arguments: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        leat.TokenShards(tokens, **arguments)


def test_wrong_arguments_of_other_datasets_are_named_too(mnist: pathlib.Path) -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match="files has to be a str or a path, not 3"):
        leat.Mnist(wrong)
    with pytest.raises(TypeError, match="files has to be a str or a path, not 3"):
        leat.Mnist(["a", wrong])
    with pytest.raises(ValueError, match='split has to be one of "train", "test"'):
        leat.Mnist(mnist, split="tset")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="2 arguments by position, not 3"):
        leat.Mnist(mnist, "test", 1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="fields has to be a sequence of leat.Field, not 3"):
        leat.FixedRecords(mnist, fields=[wrong])
    with pytest.raises(TypeError, match="shape has to be a sequence of ints"):
        leat.Field("x", "int8", wrong)
    with pytest.raises(ValueError, match="null byte"):
        leat.Mnist("a\0b")
    with pytest.raises(TypeError, match="no constructor"):
        leat.Dataset()


def test_a_big_value_is_no_part_of_a_message(tokens: pathlib.Path) -> None:
    big: Any = np.zeros((1000, 1000))
    with pytest.raises(TypeError, match="sequence_length has to be an int, not a <class 'numpy.ndarray'>"):
        leat.TokenShards(tokens, sequence_length=big)


def test_fields_are_values() -> None:
    field = leat.Field("x", "float32", (2, 3))
    assert field == leat.Field("x", np.float32, [2, 3])
    assert hash(field) == hash(leat.Field("x", np.float32, [2, 3]))
    assert field != leat.Field("x", "float32", (2, 3), variable_length=True)
    assert field != 3
    assert (field.name, field.dtype, field.shape, field.variable_length) == ("x", "float32", (2, 3), False)
    assert repr(leat.Field("t", "int32", (9,), variable_length=True)) == (
        "leat.Field('t', 'int32', (9,), variable_length=True)"
    )


# Files that change.


def test_a_missing_file_is_an_error_with_its_name(tmp_path: pathlib.Path) -> None:
    with pytest.raises(leat.Error, match="nowhere"):
        leat.TokenShards(tmp_path / "nowhere.bin", sequence_length=8)


def test_an_address_is_not_supported_as_a_str_or_as_a_path() -> None:
    with pytest.raises(leat.Error, match='"https://" is not supported; download'):
        leat.WebDataset("https://a/b-{0..9}.tar")
    with pytest.raises(leat.Error, match='"https:/" is not supported; download'):
        leat.Mnist(pathlib.Path("https://a/b"), split="train")


def test_a_file_that_shrinks_is_an_error_and_no_crash(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a.bin"
    np.arange(100_000, dtype=np.uint32).tofile(file)
    shards = leat.TokenShards(file, sequence_length=8, token="uint32")
    records = leat.FixedRecords(file, fields=[leat.Field("n", "uint32")])
    os.truncate(file, 8192)
    for data in (shards, records):
        assert data[0]
        with pytest.raises(leat.Error, match="a.bin"):
            data[len(data) - 1]


def test_a_mapped_array_whose_file_shrinks_is_an_error_and_no_crash(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x.npy"
    np.save(file, np.arange(10_000, dtype=np.int64))
    data = leat.InMemory(x=np.load(file, mmap_mode="r"))
    assert data[9_999]["x"] == 9_999
    os.truncate(file, 8192)
    assert data[0]["x"] == 0
    with pytest.raises(leat.Error, match='sample 9999 of field "x"'):
        data[9_999]


def test_a_file_that_is_written_again_in_place_is_an_error(tmp_path: pathlib.Path, shards: pathlib.Path) -> None:
    file, shard = tmp_path / "a.bin", tmp_path / "a.tar"
    np.arange(600_000, dtype=np.uint32).tofile(file)
    shard.write_bytes((shards / "shard-0.tar").read_bytes())
    feeds = [
        leat.Prefetcher(data, "cpu", batch_size=2048)
        for data in (
            leat.TokenShards(file, sequence_length=8, token="uint32"),
            leat.FixedRecords(file, fields=[leat.Field("n", "uint32", (8,))]),
            leat.WebDataset(shard),
        )
    ]
    for feed in feeds:
        assert sum(1 for _ in feed.epoch(0)) == len(feed)
    for path in (file, shard):
        modified = path.stat().st_mtime_ns + 1_000_000_000
        with path.open("r+b") as out:
            out.write(bytes(path.stat().st_size))
        os.utime(path, ns=(modified, modified))
    for feed in feeds:
        with pytest.raises(leat.Error, match=r"a\.(bin: it was written again|tar .*: the shard has changed)"):
            for epoch in range(1, 20):  # the first of them were read already
                sum(1 for _ in feed.epoch(epoch))


def test_a_file_that_is_deleted_is_still_read(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "a.bin"
    np.arange(1000, dtype=np.uint16).tofile(file)
    data = leat.TokenShards(file, sequence_length=8)
    file.unlink()
    assert data[3]["x"][0] == 24
