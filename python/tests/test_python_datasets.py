"""Python datasets and transforms, read by processes, threads and the caller of next()."""

import os
import pathlib
import pickle
import random
import signal
import threading
from collections.abc import Iterator
from typing import Any

import leat
import numpy as np
import pytest

READERS = [("caller", 1), ("threads", 1), ("threads", 3), ("processes", 1), ("processes", 3)]
KINDS: list[Any] = ["caller", "threads", "processes"]


class Squares:
    """Sample i: its number, its square as float32 [2, 3], a random number of its own, and one of the batch's."""

    def __init__(self, size: int = 103, fails: tuple[int, ...] = ()) -> None:
        self.size, self.fails = size, fails

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> dict[str, Any]:
        if index in self.fails:
            raise FileNotFoundError(2, "no such sample", f"sample {index}")
        square = np.full((2, 3), index * index, np.float32)
        return {"number": index, "square": square, "random": leat.rng().integers(1 << 62)}


class InBulk(Squares):
    def __getitems__(self, indices: list[int]) -> list[tuple[int, int]]:
        return [(index, len(indices)) for index in indices]


class Into:
    fields = {"x": ("uint8", (4, 5)), "y": ("int64", ())}  # noqa: RUF012

    def __len__(self) -> int:
        return 20

    def read_into(self, index: int, out: dict[str, Any]) -> None:
        out["x"][...] = index
        out["y"] = -index  # writes likewise


class Stream:
    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[Any]:
        return iter(np.arange(self.size))


def feed_of(data: Any, readers: Any = "processes", workers: int = 1, **options: Any) -> leat.Prefetcher:
    settings: dict[str, Any] = {"batch_size": 10, "framework": "numpy", "order": "sequential", "seed": 3}
    return leat.Prefetcher(data, "cpu", readers=readers, workers=workers, **(settings | options))


def numbers_of(feed: leat.Prefetcher, epoch: int = 0, name: str = "number") -> list[list[int]]:
    return [batch[name].tolist() for batch in feed.epoch(epoch)]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    """Two shuffled epochs, as the caller reads them."""
    with feed_of(Squares(), "caller", order="shuffled") as feed:
        return [[{name: batch[name].tolist() for name in batch} for batch in feed.epoch(e)] for e in range(2)]


@pytest.mark.parametrize(("readers", "workers"), READERS)
def test_any_readers_make_the_same_batches(readers: Any, workers: int, expected: list[Any]) -> None:
    assert sorted(n for batch in expected[1] for n in batch["number"]) == list(range(103))
    assert expected[0][0]["number"] != expected[1][0]["number"]
    assert len({n for epoch in expected for batch in epoch for n in batch["random"]}) == 206
    with feed_of(Squares(), readers, workers, order="shuffled") as feed:
        for epoch in range(2):
            seen = [{name: batch[name].tolist() for name in batch} for batch in feed.epoch(epoch)]
            assert seen == expected[epoch]
        assert feed.stats().batches == 22


@pytest.mark.parametrize("readers", KINDS)
def test_each_form_of_a_dataset(readers: Any) -> None:
    with feed_of(InBulk(25), readers) as feed:
        assert [(b["0"].tolist(), b["1"].tolist()) for b in feed][2] == ([20, 21, 22, 23, 24], [5] * 5)
    with feed_of(Into(), readers) as feed:
        batch = next(iter(feed))
        assert batch["x"].shape == (10, 4, 5) and batch["x"].dtype == np.uint8
        assert batch["x"][:, 3, 4].tolist() == list(range(10)) and batch["y"].tolist() == [-i for i in range(10)]
    with feed_of(Stream(25), readers) as feed:
        for _ in range(2):
            assert [b["0"].tolist() for b in feed] == [[*range(10)], [*range(10, 20)], [*range(20, 25)]]


@pytest.mark.parametrize("readers", KINDS)
def test_a_function_of_a_dataset_of_leat(readers: Any) -> None:
    data = leat.InMemory(x=np.arange(30, dtype=np.int32), y=np.arange(30.0)).map(lambda s: {"z": s["x"] + s["y"]})
    with feed_of(data.map(lambda s: {"z": 10 * s["z"]}), readers) as feed:
        assert numbers_of(feed, name="z")[1] == [20.0 * i for i in range(10, 20)]
    with pytest.raises(TypeError, match="map"):
        leat.InMemory(x=np.arange(3)).map("no function")  # type: ignore[arg-type]


@pytest.mark.parametrize(("readers", "workers"), READERS)
def test_a_sample_that_fails_ends_its_batch_alone(readers: Any, workers: int) -> None:
    with feed_of(Squares(40, fails=(13,)), readers, workers) as feed:
        for epoch in range(2):
            loop = iter(feed)
            assert next(loop)["number"].tolist() == list(range(10))
            with pytest.raises(leat.SampleError, match="no such sample") as caught:
                next(loop)
            error = caught.value
            assert (error.epoch, error.batch, error.sample, error.stage) == (epoch, 1, 13, "read")
            assert isinstance(error.__cause__, FileNotFoundError) and error.__cause__.errno == 2
            assert any("sample 13" in note for note in error.__cause__.__notes__)
            assert [batch["number"][0] for batch in loop] == [20, 30]


@pytest.mark.parametrize("readers", KINDS)
def test_samples_may_be_left_out(readers: Any) -> None:
    with feed_of(Squares(40, fails=(13, 17)), readers, read_failures=2) as feed:
        assert [len(numbers) for numbers in numbers_of(feed)] == [10, 8, 10, 10]
        assert [(f.batch, f.sample) for f in feed.failed_samples()] == [(1, 13), (1, 17)]
        with pytest.raises(leat.SampleError):  # the budget is used up
            numbers_of(feed, 1)


def test_the_state_goes_on_with_other_readers() -> None:
    with feed_of(Squares(), "threads", 2, order="shuffled") as feed:
        whole = numbers_of(feed)
        loop = iter(feed.epoch(0))
        assert [next(loop)["number"].tolist() for _ in range(4)] == whole[:4]
        state = feed.state_dict()
    with feed_of(Squares(), "processes", 3, order="shuffled", resume=state) as feed:
        assert numbers_of(feed) == whole[4:]
    with pytest.raises(ValueError, match="samples"):
        feed_of(Squares(50), order="shuffled", resume=state)


class Unusual(Squares):
    def __init__(self, what: str) -> None:
        super().__init__(40)
        self.what = what

    def __getitem__(self, index: int) -> Any:
        if index != 13:
            return {"number": index}
        return {
            "nothing": None,
            "keys": {"other": 1},
            "shape": {"number": np.arange(3)},
            "dtype": {"number": np.zeros(1, complex)},
            "text": {"number": "thirteen"},
        }[self.what]


@pytest.mark.parametrize("what", ["nothing", "keys", "shape", "dtype", "text"])
def test_a_sample_unlike_the_others_is_told(what: str) -> None:
    with feed_of(Unusual(what), "threads") as feed:
        loop = iter(feed)
        next(loop)
        with pytest.raises(leat.SampleError) as caught:
            next(loop)
        assert "13" in str(caught.value) + "".join(getattr(caught.value.__cause__, "__notes__", []))
        assert next(loop)["number"][0] == 20


def test_a_batch_has_tensors_and_nothing_else() -> None:
    with feed_of([{"text": "a"}] * 10, "threads") as feed, pytest.raises(leat.SampleError, match="'text'"):
        next(iter(feed))


def test_what_is_no_dataset() -> None:
    with pytest.raises(TypeError, match="__getitem__"):
        feed_of(5)
    with pytest.raises(TypeError, match="len"):
        feed_of(type("Endless", (), {"__getitem__": lambda self, i: i})())
    with pytest.raises(ValueError, match="readers"):
        feed_of(Squares(), "fibers")
    with pytest.raises(ValueError, match="check_slots"):
        feed_of(Squares(), "threads", check_slots="yes")


def test_the_caller_reads_when_it_asks_and_not_before() -> None:
    read: list[int] = []

    class Noted(Squares):
        def __getitem__(self, index: int) -> Any:
            assert threading.current_thread() is threading.main_thread()
            read.append(index)
            return index

    with feed_of(Noted(40), "caller") as feed:
        for number, batch in enumerate(feed):
            assert len(read) == 10 * (number + 1)
            assert batch["0"][0] == 10 * number


def test_the_caller_goes_on_after_ctrl_c_in_a_sample() -> None:
    pressed = []

    class Interrupted(Squares):
        def __getitem__(self, index: int) -> Any:
            if index == 15 and not pressed:
                pressed.append(index)
                signal.raise_signal(signal.SIGINT)
            return index

    with feed_of(Interrupted(40), "caller") as feed:
        loop = iter(feed)
        next(loop)
        with pytest.raises(KeyboardInterrupt):
            next(loop)
        assert [batch["0"][0] for batch in loop] == [10, 20, 30]


class Fatal(Squares):
    def __getitem__(self, index: int) -> Any:
        if index == 25:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def test_a_process_that_dies_is_told() -> None:
    with feed_of(Fatal(), workers=2) as feed:
        loop = iter(feed)
        with pytest.raises(leat.Error, match=r"reader \d was killed by SIGKILL while it made batch 2 of epoch 0, at sample 25"):
            for _ in range(3):
                next(loop)
        with pytest.raises(leat.Error, match="earlier error"):
            next(loop)


def test_a_process_that_is_stopped_is_told_by_the_timeout() -> None:
    class Stopped(Squares):
        def __getitem__(self, index: int) -> Any:
            if index == 15:
                os.kill(os.getpid(), signal.SIGSTOP)
            return index

    with feed_of(Stopped(40), timeout=1.5) as feed:
        loop = iter(feed)
        next(loop)
        with pytest.raises(leat.Timeout, match="reads batch 1 of epoch 0"):
            next(loop)


def test_global_random_numbers_are_the_batches() -> None:
    class Random(Squares):
        def __getitem__(self, index: int) -> Any:
            return random.random(), np.random.random()  # noqa: NPY002

    runs = []
    for readers, workers in (("caller", 1), ("processes", 3)):
        random.seed(1)
        before = random.getstate()
        with feed_of(Random(40), readers, workers) as feed:
            runs.append([(b["0"].tolist(), b["1"].tolist()) for e in range(2) for b in feed.epoch(e)])
        assert random.getstate() == before
    assert runs[0] == runs[1]
    assert len({x for batch in runs[0] for x in batch[0]}) == 80


def test_datasets_of_leat_pickle(tmp_path: pathlib.Path) -> None:
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "a.bin")
    tokens = leat.TokenShards(tmp_path / "a.bin", sequence_length=4, header="none")
    records = leat.FixedRecords(tmp_path / "a.bin", fields=[leat.Field("v", "uint8", (5,))])
    arrays = leat.InMemory({"x": np.arange(7)}, name="seven")
    for data in (tokens, records, arrays):
        again = pickle.loads(pickle.dumps(data))
        assert (type(again), again.name, len(again), again.digest) == (type(data), data.name, len(data), data.digest)
        assert again.fields == data.fields
        assert all((again[3][name] == data[3][name]).all() for name in data[3])
    part = leat.jpeg_image("image", height=64, mirror=0.5)
    assert repr(pickle.loads(pickle.dumps(part))) == repr(part)
    assert pickle.loads(pickle.dumps(leat.Field("t", "int32", (3,), variable_length=True))) == leat.Field(
        "t", "int32", (3,), variable_length=True
    )


class Elsewhere:
    """Unpickles in this process alone."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return index

    def __setstate__(self, state: Any) -> None:
        raise ImportError("no module named elsewhere")

    def __getstate__(self) -> Any:
        return {"here": True}


def test_what_does_not_go_to_a_process_is_told_at_once() -> None:
    with pytest.raises(leat.Error, match="elsewhere"):
        feed_of(Elsewhere())
    data = Squares()
    data.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="lock"):
        feed_of(data)
