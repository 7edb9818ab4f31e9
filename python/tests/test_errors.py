"""Which Python exception a C++ exception becomes; what it keeps."""

import copy
import errno
import pathlib
import pickle
import resource
from typing import Any

import leat
import numpy as np
import pytest


def error_of(stand_in: Any, kind: str) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: B017
        stand_in.throw_(kind)
    return raised.value


@pytest.mark.stand_in
@pytest.mark.parametrize(
    ("kind", "wanted", "text"),
    [
        ("Error", leat.Error, "leat: a text"),
        ("not UTF-8", leat.Error, "leat: a\\xff.bin"),
        ("SampleError", leat.SampleError, "leat: reader: sample 789 failed"),
        ("GpuError", leat.GpuError, "leat: cudaFree on cuda:0: cudaErrorInvalidValue"),
        ("OutOfMemory", leat.OutOfMemory, "leat: cudaMalloc(8 bytes) on cuda:0: none is left"),
        ("bad_alloc", leat.OutOfMemory, "leat: the host's memory is exhausted"),
        ("Timeout", leat.Timeout, "leat: too long"),
        ("TooManyLeases", leat.TooManyLeases, "leat: too many"),
        ("ChannelClosed", leat.Error, "leat: closed"),
        ("Deadlock", leat.Error, "leat: all wait"),
        ("Cancelled", leat.Error, "leat: cancelled"),
        ("out_of_range", IndexError, "leat: 7"),
        ("invalid_argument", ValueError, "leat: no"),
        ("length_error", ValueError, "leat: long"),
        ("domain_error", ValueError, "leat: domain"),
        ("logic_error", RuntimeError, "leat: order"),
        ("runtime_error", RuntimeError, "leat: run"),
        ("int", RuntimeError, "leat: an exception of unknown type"),
    ],
)
def test_each_exception_has_its_type_and_its_text(stand_in: Any, kind: str, wanted: type, text: str) -> None:
    error = error_of(stand_in, kind)
    assert type(error) is wanted
    assert str(error) == text
    assert error.__cause__ is None


@pytest.mark.stand_in
def test_errors_of_the_system_have_number_and_file(stand_in: Any) -> None:
    denied = error_of(stand_in, "errno")
    assert isinstance(denied, PermissionError)
    assert denied.errno == errno.EACCES
    missing = error_of(stand_in, "file")
    assert isinstance(missing, FileNotFoundError)
    assert missing.filename == "a.bin"
    assert type(error_of(stand_in, "future")) is leat.Error  # its number is none of errno


@pytest.mark.stand_in
def test_an_error_has_its_causes_and_the_sample(stand_in: Any) -> None:
    error = error_of(stand_in, "nested")
    assert isinstance(error, leat.SampleError)
    assert (error.stage, error.epoch, error.batch, error.sample) == ("transform", 4, 2, 789)
    assert type(error.__cause__) is leat.Error
    assert str(error.__cause__) == "leat: cannot read a.bin (at byte 40)"
    assert type(error.__cause__.__cause__) is FileNotFoundError


@pytest.mark.stand_in
def test_a_python_exception_that_is_a_cause_stays_itself(stand_in: Any) -> None:
    class Torn(Exception):
        pass

    torn = Torn("page 3")

    def read() -> None:
        raise torn

    with pytest.raises(leat.SampleError) as raised:
        stand_in.throw_around(read)
    assert raised.value.__cause__ is torn
    traceback = torn.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    assert traceback is not None
    assert traceback.tb_frame.f_code.co_name == "read"


@pytest.mark.stand_in
def test_what_the_device_said_is_in_attributes(stand_in: Any) -> None:
    error = error_of(stand_in, "GpuError")
    assert isinstance(error, leat.GpuError)
    assert (error.code, error.name) == (1, "cudaErrorInvalidValue")
    assert (error.call, error.device) == ("cudaFree", "cuda:0")
    missing = error_of(stand_in, "OutOfMemory")
    assert isinstance(missing, leat.OutOfMemory)
    assert (missing.bytes, missing.request) == (8, "cudaMalloc(8 bytes) on cuda:0")


def test_exceptions_are_of_the_usual_types_too() -> None:
    assert issubclass(leat.Error, RuntimeError)
    assert issubclass(leat.Timeout, TimeoutError)
    assert issubclass(leat.OutOfMemory, MemoryError)
    for kind in (leat.SampleError, leat.GpuError, leat.OutOfMemory, leat.Timeout, leat.TooManyLeases):
        assert issubclass(kind, leat.Error)
        assert kind.__module__ == "leat"


@pytest.mark.parametrize(
    "error",
    [
        leat.Error("text"),
        leat.Timeout("text"),
        leat.SampleError("text", "read", 1, 2, 3),
        leat.GpuError("text", 2, "name", "call", "cuda:0"),
        leat.OutOfMemory("text", 8, "request"),
    ],
)
def test_exceptions_survive_pickle_and_copy(error: leat.Error) -> None:
    error.add_note("a note")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is type(error)
        assert str(other) == "text"
        assert vars(other) == vars(error)


def test_the_sample_that_ends_a_run_is_in_its_error(tmp_path: pathlib.Path) -> None:
    tokens = np.arange(1000, dtype=np.uint16)
    tokens[505] = 60_000
    tokens.tofile(tmp_path / "a.bin")
    data = leat.TokenShards(tmp_path, sequence_length=10, vocabulary=5000)
    feed = leat.Prefetcher(data, "host", batch_size=4, order="sequential", framework="numpy")
    with pytest.raises(leat.SampleError) as raised:
        for _ in feed.epoch(0):
            pass
    error = raised.value
    assert (error.stage, error.epoch, error.batch, error.sample) == ("read", 0, 12, 50)
    assert str(error).count("token 60000 at byte 1010") == 1 and "a.bin" in str(error)
    assert error.__cause__ is None, "it would say the same again"


def test_memory_that_the_host_lacks_is_no_error_of_a_gpu() -> None:
    data = leat.InMemory(x=np.zeros((64, 1 << 20), np.uint8))
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (256 << 20), before[1]))
    try:
        with pytest.raises(leat.OutOfMemory) as raised:
            leat.Prefetcher(data, "host", batch_size=64, prefetch_depth=16)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert raised.value.bytes >= 16 << 26
    assert "pinned memory on host:0" in raised.value.request
