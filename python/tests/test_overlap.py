"""leat.overlap: what it measures, that it changes nothing of the loop, and that it imports nothing.

Times are compared with each other, not with a clock: machines are slow at times."""

import copy
import gc
import logging
import operator
import os
import pickle
import subprocess
import sys
import threading
import time
import types
from collections.abc import Generator, Iterator
from typing import Any

import leat
import numpy
import pytest


def batches(count: int, wait: float = 0.0) -> Generator[int, None, str]:
    for i in range(count):
        time.sleep(wait)
        yield i
    return "the end"


class Sized:
    """An iterable with a length, and more."""

    batch_size = 7

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))

    def __getitem__(self, i: int) -> int:
        raise AssertionError("is iterated")


def test_it_gives_what_the_iterable_gives() -> None:
    assert list(leat.overlap(batches(5))) == [0, 1, 2, 3, 4]
    assert list(leat.overlap([])) == []
    loop = leat.overlap(Sized(3))
    assert [list(loop) for _ in range(2)] == [[0, 1, 2]] * 2


def test_it_measures_steps_without_the_first_of_each_loop() -> None:
    loop = leat.overlap(Sized(5))
    for _ in range(3):
        for _ in loop:
            pass
    figures = loop.figures()
    assert figures.iterations == 3
    assert figures.steps == 3 * 4
    assert not figures.has_device
    assert figures.device_error == ""


def test_the_wait_is_the_time_in_the_iterable() -> None:
    loop = leat.overlap(batches(6, wait=0.02))
    for _ in loop:
        time.sleep(0.01)
    figures = loop.figures()
    assert figures.wait.p50 >= 0.02
    assert figures.first_wait.p50 >= 0.02
    assert figures.step.p50 >= 0.03
    assert figures.wait_sum >= 5 * 0.02
    assert figures.step_sum - figures.wait_sum >= 5 * 0.01, "the body is no wait"
    assert figures.share == pytest.approx(figures.wait_sum / figures.step_sum)


def test_what_workers_take_to_start_is_in_the_first_wait_alone() -> None:
    class Slow(Sized):
        def __iter__(self) -> Iterator[int]:
            time.sleep(0.05)
            return iter(range(self.count))

    loop = leat.overlap(Slow(3))
    list(loop)
    figures = loop.figures()
    assert figures.first_wait.p50 >= 0.05
    assert figures.wait_sum < figures.first_wait.p50


class Loader:
    """A loader with all that Python's data model lets one have, but for calls and arithmetic."""

    def __init__(self, items: dict[Any, int]) -> None:
        self.items, self.augment, self.is_open = items, True, False

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("is iterated")

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return self.augment

    def __length_hint__(self) -> int:
        return 17

    def __contains__(self, item: object) -> bool:
        return item in self.items.values()

    def __getitem__(self, key: Any) -> int:
        return self.items[key]

    def __setitem__(self, key: Any, value: int) -> None:
        self.items[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.items[key]

    def __reversed__(self) -> list[int]:
        return list(reversed(self.items.values()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loader) and other.items == self.items

    def __hash__(self) -> int:
        return 5

    def __enter__(self) -> None:
        self.is_open = True

    def __exit__(self, *exception: object) -> bool:
        self.is_open = False
        return True  # goes on behind an exception

    def __dir__(self) -> list[str]:
        return ["augment", "more"]

    def __copy__(self) -> "Loader":
        return Loader({"copy": 1})

    def __deepcopy__(self, memo: object) -> "Loader":
        return Loader({"deep": 1})

    def __reduce__(self) -> tuple[Any, ...]:
        return Loader, ({"pickle": 1},)


class Bare:
    """A loader that has loops alone."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


def raise_inside(loader: Any) -> str:
    with loader as entered:
        assert entered is loader or entered is None
        was_open = loader.is_open
        raise KeyError
    return f"{was_open} {loader.is_open}"


def set_and_get(loader: Any) -> Any:
    loader.augment = False
    loader._name = loader._meter = "the loader's"
    return loader.augment, loader._name, loader._meter


def delete(loader: Any) -> Any:
    del loader.augment
    return hasattr(loader, "augment")


def set_item(loader: Any) -> Any:
    loader["b"] = 6
    del loader["a"]
    return loader["b"], len(loader)


# Python's data model, but for what a loader is not asked: to be called, to calculate, to await.
DATA_MODEL: dict[str, Any] = {
    "getattr": lambda loader: (loader.augment, loader.items),
    "getattr of nothing": lambda loader: loader.nothing,
    "setattr": set_and_get,
    "delattr": delete,
    "delattr of nothing": lambda loader: delattr(loader, "nothing"),
    "vars": lambda loader: sorted(vars(loader)),
    "len": len,
    "length_hint": operator.length_hint,
    "bool": bool,
    "in": lambda loader: (1 in loader, 3 in loader),
    "[]": lambda loader: loader["a"],
    "[] of nothing": lambda loader: loader["nothing"],
    "[] = and del []": set_item,
    "del [] of nothing": lambda loader: operator.delitem(loader, "nothing"),
    "reversed": reversed,
    "==": lambda loader: (loader == Loader({"a": 1, "b": 2}), loader == 5, loader != 5),
    "hash": hash,
    "with": raise_inside,
    "copy": lambda loader: copy.copy(loader).items,
    "deepcopy": lambda loader: copy.deepcopy(loader).items,
    "pickle": lambda loader: pickle.loads(pickle.dumps(loader)).items,
}


def outcome(does: Any, loader: Any) -> Any:
    try:
        return does(loader)
    except Exception as error:
        return type(error), str(error).replace("test_overlap.", "").replace("builtins.", "")


def test_all_but_next_is_the_iterators() -> None:
    class Iterator:
        def __init__(self) -> None:
            self.factor = 1
            self.left = [1, 2, 3]

        def __iter__(self) -> "Iterator":
            return self

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            return self.factor * self.left.pop(0)

        def __getitem__(self, i: int) -> int:
            return self.left[i]

    it: Any = iter(leat.overlap(Iterator()))
    it.factor = 10
    assert next(it) == 10
    other = copy.copy(it)
    assert it[1] == 3 and list(it) == [20, 30] and other.left is it.left
    del it.factor
    assert not hasattr(it, "factor")


@pytest.mark.parametrize("what", DATA_MODEL)
@pytest.mark.parametrize("kind", ["full", "bare", "builtin"])
def test_all_but_loops_is_the_iterables(what: str, kind: str) -> None:
    make = {"full": lambda: Loader({"a": 1, "b": 2}), "bare": Bare, "builtin": lambda: batches(3)}[kind]
    loader, measured = make(), make()
    loop = leat.overlap(measured)
    of_loop, of_loader = outcome(DATA_MODEL[what], loop), outcome(DATA_MODEL[what], loader)
    if what in ("hash", "reversed") and kind != "full":  # of this object
        of_loader = outcome(DATA_MODEL[what], measured)
    assert of_loop == of_loader
    if kind == "full":
        assert measured == loader and vars(measured) == vars(loader)
    assert loop.figures().iterations == 0, "nothing but a loop is measured"


def test_copies_and_pickles_are_measured_anew() -> None:
    loop = leat.overlap(Sized(3), name="train")
    list(loop)
    for other in (copy.copy(loop), copy.deepcopy(loop), pickle.loads(pickle.dumps(loop))):
        assert type(other) is leat.Overlap
        other.count = 5
        assert list(other) == [0, 1, 2, 3, 4]
        assert other.report().startswith("train:\n")
        assert other.figures().iterations == 1
    assert (loop.count, loop.figures().iterations) == (3, 1)


def test_a_with_block_yields_the_wrapper_of_what_the_block_gives() -> None:
    data = leat.InMemory(x=numpy.arange(20, dtype=numpy.int64))
    feed = leat.Prefetcher(data, "cpu", batch_size=2, order="sequential", framework="numpy")
    loop = leat.overlap(feed.epoch(0))
    with loop as batches:
        assert batches is loop
        for _ in batches:
            break
        assert [batch.index for batch in batches] == list(range(1, 10)), "the block's loop goes on"
    assert loop.number == 0, "the epoch again"
    assert loop.figures().iterations == 2
    with pytest.raises(TypeError, match="does not support the context manager protocol"), leat.overlap([]):
        pass


def test_two_names_are_the_wrappers_own() -> None:
    class Reporting(Sized):
        report = "the loader's"

    loop = leat.overlap(Reporting(1))
    assert "count" in dir(loop) and "figures" in dir(loop)
    assert callable(loop.report)
    for change in (lambda: setattr(loop, "report", 1), lambda: delattr(loop, "figures")):
        with pytest.raises(AttributeError, match="is leat.Overlap's own: set it on the loader itself"):
            change()
    assert len({loop, leat.overlap(loop._leat_loader)}) == 1


def test_a_loops_iterator_has_what_the_iterables_has() -> None:
    iterator: Any = iter(leat.overlap(batches(3)))
    assert next(iterator) == 0 and bool(iterator)
    iterator.close()
    assert list(iterator) == []
    feed = leat.Prefetcher(leat.InMemory(x=numpy.zeros(6)), "cpu", batch_size=2)
    assert len(iter(leat.overlap(feed))) == 3  # type: ignore[arg-type]


def test_tqdm_knows_the_length() -> None:
    tqdm = pytest.importorskip("tqdm")
    with open(os.devnull, "w") as nothing:
        bar = tqdm.tqdm(leat.overlap(Sized(3)), file=nothing)
        assert bar.total == 3
        assert list(bar) == [0, 1, 2]
        assert tqdm.tqdm(leat.overlap(batches(3)), file=nothing).total is None


def test_the_value_of_a_generator_comes_through() -> None:
    def delegating() -> Generator[int, None, str]:
        return (yield from leat.overlap(batches(2)))

    loop = delegating()
    assert [next(loop), next(loop)] == [0, 1]
    with pytest.raises(StopIteration) as stopped:
        next(loop)
    assert stopped.value.value == "the end"


def test_an_iterator_that_has_ended_may_be_asked_again() -> None:
    loop = leat.overlap(Sized(1))
    iterator = iter(loop)
    assert next(iterator) == 0
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)
    assert loop.figures().iterations == 1
    assert iter(iterator) is iterator


def test_an_exception_of_the_iterable_comes_through() -> None:
    class Broken(Exception):
        pass

    broken = Broken("sample 3")

    def breaking() -> Iterator[int]:
        yield 0
        yield 1
        raise broken

    loop = leat.overlap(breaking())
    with pytest.raises(Broken) as raised:
        list(loop)
    assert raised.value is broken
    assert raised.value.__cause__ is None and raised.value.__context__ is None
    assert "breaking" in [entry.name for entry in raised.traceback]
    assert loop.figures().steps == 1
    with pytest.raises(TypeError, match="'int' object is not iterable"):
        list(leat.overlap(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["break", "exception"])
def test_a_generator_is_closed_when_the_loop_is_left(how: str) -> None:
    closed = []

    def closing() -> Iterator[int]:
        try:
            yield from range(10)
        except GeneratorExit:
            closed.append(True)
            raise

    try:
        for i in leat.overlap(closing()):
            if i == 3 and how == "break":
                break
            if i == 3:
                raise KeyError(how)
    except KeyError:
        pass
    assert closed == [True]


def test_a_step_that_the_loop_leaves_does_not_count() -> None:
    loop = leat.overlap(Sized(10))
    for _ in range(2):
        for i in loop:
            if i == 3:
                break
        time.sleep(0.05)
    figures = loop.figures()
    assert figures.steps == 2 * 2
    assert figures.step_sum < 0.05, "nor what comes between two loops"


def test_the_latest_of_two_loops_is_measured() -> None:
    loop = leat.overlap(Sized(4))
    older = iter(loop)
    assert [next(older), next(older)] == [0, 1]
    assert list(loop) == [0, 1, 2, 3]
    assert list(older) == [2, 3]
    assert loop.figures().iterations == 2
    assert loop.figures().steps == 3, "the older loop was left in its first step"


def test_the_end_of_an_older_loop_does_not_end_the_latest() -> None:
    loop = leat.overlap(Sized(4))
    older = iter(loop)
    next(older)
    newer = iter(loop)
    next(newer)
    del older
    assert list(newer) == [1, 2, 3]
    assert loop.figures().steps == 3


def test_an_interruption_ends_the_iteration(caplog: pytest.LogCaptureFixture) -> None:
    def interrupted() -> Iterator[int]:
        yield from range(3)
        raise KeyboardInterrupt

    with caplog.at_level(logging.INFO, logger="leat"):
        batches = iter(leat.overlap(interrupted()))
        with pytest.raises(KeyboardInterrupt):
            while True:
                next(batches)
        assert len(caplog.records) == 1


def test_the_logger_has_one_sentence_for_each_loop(caplog: pytest.LogCaptureFixture) -> None:
    loop = leat.overlap(Sized(3), name="train")
    with caplog.at_level(logging.INFO, logger="leat"):
        list(loop)
        for i in loop:
            if i == 1:
                break
        list(leat.overlap([]))  # nothing to say
    assert [(one.name, one.levelname) for one in caplog.records] == [("leat", "INFO")] * 2
    for one in caplog.records:
        assert one.getMessage().startswith("train: data costs ")
    caplog.clear()
    list(leat.overlap(Sized(3)))
    assert caplog.records == [], "INFO is off unless asked for"


def test_what_it_shows() -> None:
    loop = leat.overlap(Sized(3), name="<train>")
    assert repr(loop).startswith("<leat.Overlap <train>: no step was measured")
    list(loop)
    figures = loop.figures()
    assert figures.sentence().startswith("data costs ")
    assert figures.sentence() in loop.report()
    assert loop.report().startswith("<train>:\n")
    assert "wait for a batch" in figures.table()
    assert loop._repr_html_().startswith("<pre>&lt;train&gt;:\n")
    assert repr(leat.overlap(Sized(3))).startswith("<leat.Overlap Sized: ")
    assert figures.sentence() in repr(figures)


def test_figures_may_be_read_by_another_thread() -> None:
    loop = leat.overlap(Sized(20_000))
    seen = [0]
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            steps = loop.figures().steps
            assert steps >= seen[-1]
            seen.append(steps)

    reader = threading.Thread(target=read)
    reader.start()
    list(loop)
    over.set()
    reader.join()
    assert loop.figures().steps == 19_999
    assert len(seen) > 1


@pytest.mark.parametrize("leaves", ["break", "exception", "commit", "end"])
def test_below_it_batches_count_as_without_it(leaves: str) -> None:
    def counted(wrap: Any) -> str:
        data = leat.InMemory(x=numpy.arange(20, dtype=numpy.int64))
        feed = leat.Prefetcher(data, "cpu", batch_size=2, order="sequential", framework="numpy")
        try:
            for batch in wrap(feed.epoch(0)):
                if batch.index == 3 and leaves == "break":
                    break
                if batch.index == 3 and leaves == "exception":
                    raise KeyError(leaves)
                if batch.index == 3 and leaves == "commit":
                    batch.commit()
                    raise KeyError(leaves)
        except KeyError:
            pass
        del batch
        state: str = feed.state_dict()["state"]
        return state

    untouched = leat.Prefetcher(
        leat.InMemory(x=numpy.arange(20, dtype=numpy.int64)), "cpu", batch_size=2, order="sequential"
    ).state_dict()["state"]
    plain = counted(lambda batches: batches)
    assert counted(leat.overlap) == plain
    assert plain != untouched


def test_over_a_prefetcher_it_has_its_length_and_functions() -> None:
    data = leat.InMemory(x=numpy.arange(20, dtype=numpy.int64))
    feed = leat.Prefetcher(data, "cpu", batch_size=2, framework="numpy")
    loop = leat.overlap(feed)
    assert len(loop) == 10
    assert sorted(int(x) for batch in loop for x in batch["x"]) == list(range(20))
    assert loop.figures().steps == 9
    assert loop.state_dict() == feed.state_dict()


def test_it_goes_with_the_loop() -> None:
    class Seen(Sized):
        gone = 0

        def __del__(self) -> None:
            Seen.gone += 1

    for _ in range(3):
        for i in leat.overlap(Seen(5)):
            if i == 2:
                break
    gc.collect()
    assert Seen.gone == 3


def test_a_child_loops_without_being_measured() -> None:
    code = """
import os, sys, leat
loop = leat.overlap([1, 2, 3])
assert list(loop) == [1, 2, 3]
child = os.fork()
if child == 0:
    ok = list(loop) == [1, 2, 3]
    try:
        loop.figures()
    except Exception as error:
        ok = ok and "process" in str(error)
    else:
        ok = False
    del loop
    os._exit(0 if ok else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert loop.figures().steps == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_it_imports_no_framework() -> None:
    code = """
import sys, leat
assert list(leat.overlap([1, 2])) == [1, 2]
assert not {"torch", "cupy", "jax", "tensorflow"} & set(sys.modules), sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_stream_has_to_be_one() -> None:
    for bad in (5, "cuda:0", object()):
        with pytest.raises(TypeError, match="stream has to be a torch.cuda.Stream or a cupy.cuda.Stream"):
            leat.overlap([], stream=bad)


def test_without_that_device_the_host_is_measured() -> None:
    if leat.devices()[0].name.startswith("cuda"):
        pytest.skip("there is a GPU")
    stream = types.SimpleNamespace(cuda_stream=0, device=types.SimpleNamespace(index=0))
    loop = leat.overlap(Sized(3), stream=stream)
    assert list(loop) == [0, 1, 2]
    assert loop.figures().steps == 2
    assert "cuda:0" in loop.figures().device_error
    assert "measured no longer: leat: " in loop.report()


def test_the_data_loader_of_torch() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.arange(40))
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=workers)
        loop = leat.overlap(loader)
        for _ in range(2):
            seen = [int(x) for (batch,) in loop for x in batch]
            assert seen == list(range(40))
        assert len(loop) == 10
        assert loop.batch_size == 4
        assert loop.figures().iterations == 2
        assert loop.figures().steps == 2 * 9


def test_the_loop_of_the_guide(capsys: pytest.CaptureFixture[str]) -> None:
    torch = pytest.importorskip("torch")
    dataset = torch.utils.data.TensorDataset(torch.arange(96))

    def train_step(batch: Any) -> None:
        assert len(batch[0]) == 32

    # [overlap]
    loader = leat.overlap(torch.utils.data.DataLoader(dataset, batch_size=32), name="train")
    for batch in loader:
        train_step(batch)
    print(loader.report())
    # [/overlap]
    assert capsys.readouterr().out.startswith("train:\n")


# On the CUDA stand-in, whose streams are numbers, as torch's and CuPy's.


def torch_that_has(stream: int, device: int = 0, initialized: bool = True) -> types.ModuleType:
    torch: Any = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(
        is_initialized=lambda: initialized,
        current_stream=lambda: types.SimpleNamespace(
            cuda_stream=stream, device=types.SimpleNamespace(index=device)
        ),
    )
    return torch


def cupy_that_has(stream: int, device: int = 0, context: int = 1) -> types.ModuleType:
    cupy: Any = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(
        driver=types.SimpleNamespace(ctxGetCurrent=lambda: context),
        runtime=types.SimpleNamespace(getDevice=lambda: device),
        get_current_stream=lambda: types.SimpleNamespace(ptr=stream),
    )
    return cupy


@pytest.mark.stand_in
@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("framework", ["torch", "cupy"])
def test_on_cuda_the_current_stream_is_measured(
    stand_in: Any, monkeypatch: pytest.MonkeyPatch, framework: str, device: int
) -> None:
    stream = stand_in.stream(device)
    module = (torch_that_has if framework == "torch" else cupy_that_has)(stream, device)
    monkeypatch.setitem(sys.modules, framework, module)
    loop = leat.overlap(Sized(200))
    for _ in loop:
        stand_in.synchronize(stream)
    figures = loop.figures()
    assert figures.device_error == ""
    assert figures.steps == 199
    assert 199 / 32 < figures.sampled < 199 / 8
    assert 0 <= figures.share <= 1
    assert figures.gap_sum <= figures.sampled_step_sum
    assert "the device is idle for " in figures.sentence()
    del loop
    stand_in.destroy(stream)


@pytest.mark.stand_in
def test_a_gap_is_the_wait_of_a_device_that_has_nothing_to_do(stand_in: Any) -> None:
    stream = stand_in.stream()
    given = types.SimpleNamespace(ptr=stream, device_id=0)  # a cupy.cuda.Stream
    idle = leat.overlap(batches(60, wait=0.002), stream=given)
    for _ in idle:
        stand_in.synchronize(stream)
    assert idle.figures().sampled > 0
    assert idle.figures().gap.p50 >= 0.9 * 0.002
    assert idle.figures().share > 0.1

    held = leat.overlap(batches(60, wait=0.002), stream=given)
    gate = None
    for _ in held:
        if gate is not None:
            gate.open()  # the device was busy until now
            stand_in.synchronize(stream)
        gate = stand_in.Gate(stream)
    assert gate is not None
    gate.open()
    stand_in.synchronize(stream)
    assert held.figures().sampled > 0
    assert held.figures().wait.p50 >= 0.002
    assert held.figures().gap.p50 < idle.figures().gap.p50
    del idle, held
    stand_in.destroy(stream)


@pytest.mark.stand_in
def test_the_stream_is_asked_for_in_sampled_steps_alone(
    stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch: Any = torch_that_has(0)  # the legacy default stream
    asked = []
    current = torch.cuda.current_stream

    def current_stream() -> Any:
        asked.append(None)
        return current()

    torch.cuda.current_stream = current_stream
    monkeypatch.setitem(sys.modules, "torch", torch)
    loop = leat.overlap(Sized(400))
    for _ in loop:
        stand_in.synchronize(0)
    sampled = loop.figures().sampled
    assert sampled > 10
    assert sampled < len(asked) <= 2 * sampled + 3
    assert stand_in.calls("cudaEventRecord") <= 3 * (sampled + 1)


@pytest.mark.stand_in
def test_loops_of_several_threads_are_given_all_that_they_ask_for(
    stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stand_in.stream()
    monkeypatch.setitem(sys.modules, "torch", torch_that_has(stream))
    loop = leat.overlap(Sized(300))
    lists: list[list[int]] = []
    threads = [threading.Thread(target=lambda: lists.append(list(loop))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lists == [list(range(300))] * 4
    assert list(loop) == list(range(300))
    assert loop.figures().steps >= 299
    assert loop.figures().device_error == ""
    del loop
    stand_in.destroy(stream)


@pytest.mark.stand_in
def test_without_a_use_of_cuda_none_is_made(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_that_has(0, initialized=False))
    monkeypatch.setitem(sys.modules, "cupy", cupy_that_has(0, context=0))
    loop = leat.overlap(Sized(100))
    list(loop)
    assert not loop.figures().has_device
    assert loop.figures().device_error == ""
    assert stand_in.calls("cudaEventRecord") == 0


@pytest.mark.stand_in
def test_a_device_that_fails_does_not_break_the_loop(
    stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stand_in.stream()
    monkeypatch.setitem(sys.modules, "torch", torch_that_has(stream))
    loop = leat.overlap(Sized(200))
    for i in loop:
        if i == 100:
            stand_in.fail_call("cudaEventRecord", 700)
    figures = loop.figures()
    assert figures.steps == 199
    assert "cudaEventRecord" in figures.device_error
    assert "measured no longer" in figures.sentence()
    del loop
    stand_in.destroy(stream)


@pytest.mark.stand_in
def test_the_stream_that_is_per_thread_is_told_apart(stand_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_that_has(2))
    loop = leat.overlap(Sized(50))
    assert len(list(loop)) == 50
    assert not loop.figures().has_device
    assert loop.figures().steps == 49
    assert "cudaStreamPerThread" in loop.figures().device_error


@pytest.mark.gpu
def test_on_a_gpu_with_torch() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch without CUDA")
    x = torch.rand(2048, 2048, device="cuda")
    loop = leat.overlap(batches(100, wait=0.002))
    for _ in loop:
        (x @ x).sum().item()
    figures = loop.figures()
    assert figures.device_error == ""
    assert figures.sampled > 0
    assert figures.gap.p50 >= 0.9 * 0.002
