"""leat.DataLoader: arguments, epochs, samplers and states. Whether batches are torch's: test_oracle.py."""

import gc
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import leat
import numpy as np
import pytest


class Numbers:
    """Sample i is i."""

    def __init__(self, count: int = 20, scale: int = 1) -> None:
        self.count, self.scale = count, scale

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> int:
        if not 0 <= i < self.count:
            raise IndexError(i)
        return i * self.scale


class Fails(Numbers):
    def __getitem__(self, i: int) -> int:
        if i == 5:
            raise FileNotFoundError(2, "no such sample")
        return i


class Count:
    """An iterable dataset."""

    def __init__(self, count: int = 10, length: int | None = None) -> None:
        self.count, self.length = count, length

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))

    def __len__(self) -> int:
        if self.length is None:
            raise TypeError("no length")
        return self.length


class Shuffled:
    """A sampler that uses the global generators."""

    def __init__(self, count: int = 20) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        yield from random.sample(range(self.count), self.count // 2)
        yield from (int(x) for x in np.random.permutation(self.count // 2))

    def __len__(self) -> int:
        return self.count // 2 * 2


class Stepping:
    """A sampler with a state_dict(): each epoch begins one further."""

    def __init__(self, count: int = 20) -> None:
        self.count, self.at = count, 0

    def __iter__(self) -> Iterator[int]:
        begin = self.at
        self.at += 1
        return iter([(begin + i) % self.count for i in range(self.count)])

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Drawing:
    """A sampler with a generator of its own and an epoch."""

    def __init__(self, seed: int = 1) -> None:
        self.generator, self.epoch = np.random.default_rng(seed), 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter([int(i + self.epoch) % 20 for i in self.generator.permutation(20)])


def numbers(batches: Any) -> list[list[int]]:
    return [[int(x) for x in batch] for batch in batches]


def loader(dataset: Any = None, batch_size: int | None = 4, **arguments: Any) -> leat.DataLoader:
    return leat.DataLoader(Numbers() if dataset is None else dataset, batch_size, **arguments)


PLAIN = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18, 19]]


@pytest.fixture(params=["caller", "threads", "processes"])
def reads(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Arguments for each kind of reader."""
    return {} if request.param == "caller" else {"num_workers": 2, "readers": request.param}


# ---- epochs


def test_each_iter_is_the_next_epoch(reads: dict[str, Any]) -> None:
    with loader(shuffle=True, **reads) as data:
        found = [numbers(data) for _ in range(3)]
        assert data.next_epoch == 3
    assert [sorted(sum(one, [])) for one in found] == [list(range(20))] * 3
    assert found[0] != found[1] != found[2]


def test_batches_are_the_same_by_any_readers() -> None:
    found = []
    for more in ({}, {"num_workers": 1}, {"num_workers": 3, "readers": "threads"}):
        with loader(shuffle=True, seed=3, **more) as data:
            found.append([numbers(data) for _ in range(2)])
    assert found[0] == found[1] == found[2]


def test_set_epoch() -> None:
    data = loader(shuffle=True)
    first = [numbers(data) for _ in range(4)]
    for epoch in (2, 0, 3):
        data.set_epoch(epoch)
        assert data.next_epoch == epoch
        assert numbers(data) == first[epoch]
    with pytest.raises(ValueError, match="number"):
        data.set_epoch(-1)


def test_a_loop_that_takes_no_batch_uses_up_nothing(reads: dict[str, Any]) -> None:
    with loader(**reads) as data:
        for _ in range(3):
            iter(data)
        assert data.next_epoch == 0
        assert numbers(data) == PLAIN
        assert data.next_epoch == 1


def test_a_look_uses_up_nothing(reads: dict[str, Any]) -> None:
    with loader(shuffle=True, **reads) as data, warnings.catch_warnings():
        warnings.simplefilter("error")
        looked = numbers([next(iter(data))])
        assert data.next_epoch == 0
        found = numbers(data)
        assert found[0] == looked[0]
        assert sorted(sum(found, [])) == list(range(20))
        assert data.next_epoch == 1


def test_a_second_look_in_a_row_is_the_next_epoch() -> None:
    data = loader(shuffle=True)
    epochs = [numbers(loader(shuffle=True)) for _ in range(1)]
    assert numbers([next(iter(data))])[0] == epochs[0][0]
    assert numbers([next(iter(data))])[0] == epochs[0][0]
    with pytest.warns(RuntimeWarning, match="took one batch") as warned:
        third = numbers([next(iter(data))])[0]
    assert warned[0].filename == __file__
    assert third != epochs[0][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once
        fourth = numbers([next(iter(data))])[0]
    assert data.next_epoch == 3
    assert fourth != third


def test_one_batch_of_one_is_an_epoch() -> None:
    data = loader(batch_size=20)
    next(iter(data))
    assert data.next_epoch == 1


def test_the_loop_before_ends(reads: dict[str, Any]) -> None:
    with loader(**reads) as data:
        first = iter(data)
        next(first), next(first)
        second = iter(data)
        assert numbers([next(second)]) == [PLAIN[0]]
        with pytest.raises(leat.Error, match="another loop has begun"):
            next(first)
        assert numbers(second) == PLAIN[1:]
        assert list(second) == []


@pytest.mark.parametrize("closes", [False, True])
def test_a_loop_that_waits_is_ended_by_close_and_not_by_another(closes: bool) -> None:
    has_begun, goes_on = threading.Event(), threading.Event()

    class Waits(Numbers):
        def __getitem__(self, i: int) -> int:
            if i == 9:
                has_begun.set()
                goes_on.wait(10)
            return super().__getitem__(i)

    data, found = loader(Waits()), []

    def run() -> None:
        try:
            for batch in data:
                found.append(numbers([batch])[0])
        except leat.Error as error:
            found.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    assert has_begun.wait(10)
    if closes:
        threading.Timer(0.5, goes_on.set).start()
        data.close()  # waits for the sample
    else:
        with pytest.raises(leat.Error, match="one loop at a time"):
            iter(data)
    goes_on.set()
    thread.join(30)
    ended = "leat: this loop over epoch 0 has ended: the loader was closed"
    assert found == ([*PLAIN[:2], ended] if closes else PLAIN)


def test_close_ends_the_loop_and_iter_starts_again(reads: dict[str, Any]) -> None:
    data = loader(**reads)
    batches = iter(data)
    next(batches)
    data.close()
    data.close()
    with pytest.raises(leat.Error, match="was closed"):
        next(batches)
    assert numbers(data) == PLAIN
    data.close()


def test_a_loader_without_a_name() -> None:
    before = threading.active_count()
    found = []
    for batch in loader(num_workers=2, readers="threads"):
        found += numbers([batch])
        if len(found) == 2:
            break
    assert found == PLAIN[:2]
    gc.collect()
    assert threading.active_count() <= before + 1


@pytest.mark.parametrize("drop_last", [False, True])
def test_no_batches(drop_last: bool) -> None:
    for count in (0, 3):
        data = loader(Numbers(count), shuffle=True, drop_last=drop_last)
        expected = [[0, 1, 2]] if count and not drop_last else []
        assert [sorted(batch) for batch in numbers(data)] == expected
        assert len(data) == len(expected)
        assert data.next_epoch == 1


def test_a_change_between_epochs_is_seen(reads: dict[str, Any]) -> None:
    dataset = Numbers()
    with loader(dataset, **reads) as data:
        assert numbers(data) == PLAIN
        dataset.scale = 2
        assert numbers(data) == [[2 * x for x in batch] for batch in PLAIN]
        dataset.count = 5
        assert numbers(data) == [[0, 2, 4, 6], [8]]
        assert data.next_epoch == 3


def test_persistent_workers_keep_their_dataset() -> None:
    dataset = Numbers()
    with loader(dataset, num_workers=2, persistent_workers=True) as data:
        assert numbers(data) == PLAIN
        dataset.scale = 2
        assert numbers(data) == PLAIN


# ---- errors


def test_an_exception_is_of_one_batch(reads: dict[str, Any]) -> None:
    with loader(Fails(), **reads) as data:
        for _ in range(2):
            batches = iter(data)
            assert numbers([next(batches)]) == [PLAIN[0]]
            with pytest.raises(FileNotFoundError, match="no such sample") as raised:
                next(batches)
            assert any("sample 5" in note and "worker" in note for note in raised.value.__notes__)
            assert numbers(batches) == PLAIN[2:]


def test_a_worker_that_is_killed(tmp_path: pathlib.Path) -> None:
    class Dies(Numbers):
        def __getitem__(self, i: int) -> int:
            if i == 5 and (tmp_path / "dies").exists():
                os.kill(os.getpid(), signal.SIGKILL)
            return i

    (tmp_path / "dies").touch()
    with loader(Dies(), num_workers=2) as data:
        with pytest.raises(leat.Error, match="SIGKILL|killed"):
            numbers(data)
        (tmp_path / "dies").unlink()
        assert numbers(data) == PLAIN[1:]
        assert numbers(data) == PLAIN


def test_a_dataset_that_does_not_load() -> None:
    class Locked(Numbers):
        def __init__(self) -> None:
            super().__init__()
            self.lock = threading.Lock()

    data = loader(Locked(), num_workers=1)
    for _ in range(2):
        with pytest.raises(Exception, match="lock"):
            iter(data)

    class Unloadable(Numbers):
        def __setstate__(self, state: object) -> None:
            raise LookupError("not here")

    with loader(Unloadable(), num_workers=1) as data:
        for _ in range(2):
            with pytest.raises(leat.Error, match="not here"):
                next(iter(data))


def test_stop_iteration_is_an_error(reads: dict[str, Any]) -> None:
    class Stops(Numbers):
        def __getitem__(self, i: int) -> int:
            raise StopIteration

    with loader(Stops(), **reads) as data, pytest.raises(RuntimeError, match="StopIteration"):
        next(iter(data))


def test_a_length_that_lies() -> None:
    class Lies(Numbers):
        def __len__(self) -> int:
            return self.count + 2

    batches = iter(loader(Lies()))
    assert numbers(itertools.islice(batches, 5)) == PLAIN
    with pytest.raises(IndexError):
        next(batches)
    assert list(batches) == []


def test_an_iterable_length_that_lies_is_told_once() -> None:
    data = loader(Count(10, length=4))
    assert len(data) == 1
    with pytest.warns(RuntimeWarning, match="more batches than the 1") as warned:
        assert len(numbers(data)) == 3
    assert len(warned) == 1


def patiently(batches: Iterator[Any]) -> Any:
    """The next batch, for which the machine may take longer than the loader waits."""
    until = time.monotonic() + 30
    while True:
        try:
            return next(batches)
        except leat.Timeout:
            assert time.monotonic() < until


def test_timeout() -> None:
    wait = threading.Event()

    class Waits(Numbers):
        def __getitem__(self, i: int) -> int:
            if i == 4:
                assert wait.wait(30)
            return i

    with loader(Waits(), num_workers=1, readers="threads", timeout=0.05) as data:
        batches = iter(data)
        assert numbers([patiently(batches)]) == [PLAIN[0]]
        with pytest.raises(leat.Timeout):
            next(batches)
        wait.set()
        assert numbers([patiently(batches) for _ in PLAIN[1:]]) == PLAIN[1:]


@pytest.mark.parametrize("loads", [False, True])
def test_a_timeout_names_the_process_that_is_stopped(loads: bool) -> None:
    class Stops(Numbers):
        def __getitem__(self, i: int) -> int:
            if i == 4 and not loads:
                os.kill(os.getpid(), signal.SIGSTOP)
            return i

        def __setstate__(self, state: Any) -> None:
            vars(self).update(state)
            if loads:
                os.kill(os.getpid(), signal.SIGSTOP)

    with loader(Stops(), num_workers=2, timeout=0.3) as data:
        batches, last, until = iter(data), "", time.monotonic() + 30
        while "stopped" not in last and time.monotonic() < until:
            try:
                next(batches)
            except leat.Timeout as error:
                last = str(error).splitlines()[-1]
        begin = "the dataset is still being loaded, by process" if loads else "pids of the readers, from 0 on:"
        found = re.fullmatch(rf"{begin}.* (\d+) \(stopped\).*", last)
        assert found, last
        os.kill(int(found[1]), signal.SIGCONT)
        assert len(patiently(batches)) == 4


# ---- samplers


def test_a_sampler_is_drawn_lazily() -> None:
    drawn = []

    def endless() -> Iterator[int]:
        for i in itertools.count():
            drawn.append(threading.current_thread())
            yield i % 20

    class Endless:
        def __iter__(self) -> Iterator[int]:
            return endless()

    with loader(sampler=Endless(), num_workers=1, readers="threads", prefetch_factor=1) as data:
        batches = iter(data)
        assert numbers(itertools.islice(batches, 3)) == PLAIN[:3]
        assert len(drawn) <= 4 * (3 + 3)
        assert set(drawn) == {threading.current_thread()}
        with pytest.raises(TypeError):
            len(data)


def test_a_sampler_has_random_numbers_by_seed_and_epoch() -> None:
    found = []
    for seed in (1, 1, 2):
        random.seed(len(found))
        np.random.seed(len(found))
        before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]
        data = loader(sampler=Shuffled(), seed=seed)
        found.append([numbers(data) for _ in range(2)])
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index,union-attr]
    assert found[0] == found[1] != found[2]
    assert found[0][0] != found[0][1]


def test_torchs_global_generator_is_left_alone() -> None:
    torch = pytest.importorskip("torch")
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(found))
        before = torch.get_rng_state()
        data = loader(sampler=torch_data().RandomSampler(range(20)), seed=seed)
        found.append([numbers(data) for _ in range(2)])
        assert torch.equal(torch.get_rng_state(), before)
    assert found[0] == found[1] != found[2]
    assert found[0][0] != found[0][1]


def test_the_epoch_of_a_sampler_is_resumed() -> None:
    def make() -> leat.DataLoader:
        return loader(sampler=Drawing())

    data = make()
    data.sampler.set_epoch(7)
    batches = iter(data)
    first = numbers([next(batches), next(batches)])
    state = json.loads(json.dumps(data.state_dict()))
    resumed = make()
    resumed.load_state_dict(state)
    assert numbers(resumed) == numbers(batches)
    assert resumed.sampler.epoch == 7
    assert len(first) == 2


def test_keys_of_any_kind(reads: dict[str, Any]) -> None:
    class Keyed:
        def __getitem__(self, key: Any) -> str:
            return repr(key)

    keys = [["a", ("b", 2)], [-1, np.int64(3)], [None], [2**64, 1.5]]
    with leat.DataLoader(Keyed(), batch_sampler=keys, **reads) as data:
        assert [list(batch) for batch in data] == [[repr(key) for key in batch] for batch in keys]
        assert len(data) == 4


def test_what_a_sampler_raises() -> None:
    class Breaks:
        def __iter__(self) -> Iterator[int]:
            yield from range(4)
            raise LookupError("no more")

    batches = iter(loader(sampler=Breaks()))
    assert numbers([next(batches)]) == [PLAIN[0]]
    with pytest.raises(LookupError, match="no more"):
        next(batches)
    with pytest.raises(StopIteration):
        next(batches)


def test_a_look_gives_a_generator_back() -> None:
    for sampler in (Drawing(), Stepping()):
        data = loader(sampler=sampler)
        looked = numbers([next(iter(data))])[0]
        iter(data)
        first = numbers(data)
        assert first[0] == looked
        assert numbers(data)[0] != looked


def test_who_changes_the_generator_after_a_look_is_heard() -> None:
    sampler = Drawing(1)
    data = loader(sampler=sampler)
    next(iter(data))
    sampler.generator = np.random.default_rng(2)
    assert numbers(data) == numbers(loader(sampler=Drawing(2)))


# ---- states


def made(kind: str, **more: Any) -> Callable[[], leat.DataLoader]:
    kinds: dict[str, Callable[[], dict[str, Any]]] = {
        "sequential": dict,
        "shuffled": lambda: {"shuffle": True},
        "list": lambda: {"sampler": [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]},
        "global": lambda: {"sampler": Shuffled()},
        "generator": lambda: {"sampler": Drawing()},
        "state_dict": lambda: {"sampler": Stepping()},
        "batches": lambda: {"batch_size": 1, "batch_sampler": [[1], [2, 3], [4, 4, 4], [0]]},
        "keys": lambda: {"batch_size": None, "sampler": [3, 1, 2]},
        "torch": lambda: {"sampler": torch_data().RandomSampler(range(20))},
        "torch's generator": lambda: {"sampler": torch_data().SubsetRandomSampler(range(20), generator=torch_seed(3))},
    }

    def make() -> leat.DataLoader:
        return loader(**(kinds[kind]() | more))

    return make


def torch_data() -> Any:
    return pytest.importorskip("torch.utils.data")


def torch_seed(seed: int) -> Any:
    return pytest.importorskip("torch").Generator().manual_seed(seed)


KINDS = (
    "sequential", "shuffled", "list", "global", "generator", "state_dict", "batches", "keys", "torch",
    "torch's generator",
)  # fmt: skip


def run(data: leat.DataLoader, epochs: int = 3, most: int | None = None) -> list[tuple[int, Any]]:
    """What is trained on from where the loader stands, batch by batch; at most `most` batches."""
    found: list[tuple[int, Any]] = []
    while data.next_epoch < epochs:
        epoch = data.next_epoch
        for batch in data:
            found.append((epoch, [int(x) for x in np.atleast_1d(np.asarray(batch))]))
            if len(found) == most:
                return found
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_resume(kind: str) -> None:
    make = made(kind)
    whole = run(make())
    for at in range(1, len(whole)):
        data, found = make(), []
        while data.next_epoch < 3 and len(found) < at:
            epoch = data.next_epoch
            for batch in data:
                found.append((epoch, [int(x) for x in np.atleast_1d(np.asarray(batch))]))
                if len(found) == at:
                    state = json.loads(json.dumps(data.state_dict()))
                    break
        resumed = make()
        resumed.load_state_dict(state)
        assert found + run(resumed) == whole, f"after {at} batches"


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_between_epochs(kind: str) -> None:
    make = made(kind)
    whole = run(make())
    first = make()
    found = run(first, epochs=1)
    for _ in range(2):  # as well of a loader that has only loaded it
        resumed = make()
        resumed.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert resumed.next_epoch == 1
        first = resumed
    assert found + run(resumed) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_batch_in_hand(kind: str) -> None:
    make = made(kind)
    whole = run(make())
    data = make()
    batches = iter(data)
    for _ in range(2):
        next(batches)
    resumed = make()
    resumed.load_state_dict(data.state_dict(in_hand=False))
    assert run(resumed) == whole[1:]
    next(batches)  # the loop goes on


def test_resume_twice_by_other_readers() -> None:
    make = made("shuffled", num_workers=2, readers="threads")
    whole = run(made("shuffled")())
    data = make()
    found = run(data, most=3)
    for more in ({"num_workers": 1}, {}):
        resumed = made("shuffled", **more)()
        resumed.load_state_dict(data.state_dict())
        found += run(resumed, most=4)
        data.close()
        data = resumed
    assert found == whole[: len(found)]


def test_an_exception_leaves_its_batch() -> None:
    for kind in ("shuffled", "global"):
        data = made(kind)()
        with pytest.raises(ZeroDivisionError):
            for step, _ in enumerate(data):
                if step == 2:
                    1 / 0  # noqa: B018
        resumed = made(kind)()
        resumed.load_state_dict(data.state_dict())
        assert run(resumed) == run(made(kind)())[2:]


@pytest.mark.parametrize("kind", ["shuffled", "generator"])
@pytest.mark.parametrize("counts", ["commit", "state_dict", "no"])
def test_a_look_counts_only_when_told(kind: str, counts: str) -> None:
    make = made(kind)
    whole = run(make())
    data = make()
    next(iter(data))
    if counts == "commit":
        data.commit()
    state = data.state_dict(in_hand=counts == "state_dict")
    expected = whole if counts == "no" else whole[1:]
    resumed = make()
    resumed.load_state_dict(state)
    assert run(resumed) == expected
    assert run(data) == expected


def test_a_failed_batch_does_not_count() -> None:
    data = loader(Fails(), sampler=range(20))
    batches = iter(data)
    next(batches)
    with pytest.raises(FileNotFoundError):
        next(batches)
    next(batches)
    resumed = loader(sampler=range(20), dataset=Fails())
    resumed.load_state_dict(data.state_dict())
    batches = iter(resumed)
    with pytest.raises(FileNotFoundError):
        next(batches)
    assert numbers(batches) == PLAIN[3:]


def test_a_sampler_with_another_order() -> None:
    data = loader(sampler=[3, 1, 4, 1, 5, 9, 2, 6])
    for _ in data:
        break
    state = data.state_dict()
    other = loader(sampler=[3, 1, 4, 2, 5, 9, 2, 6])
    other.load_state_dict(state)
    for _ in range(2):
        with pytest.raises(ValueError, match="another order"):
            list(other)
    shorter = loader(sampler=[3])
    shorter.load_state_dict(state)
    with pytest.raises(ValueError, match="another order"):
        list(shorter)


def test_states_of_others() -> None:
    with_sampler, plain = loader(sampler=Stepping()), loader()
    for data, state, text in (
        (plain, with_sampler.state_dict(), "a sampler"),
        (with_sampler, plain.state_dict(), "no sampler"),
        (loader(sampler=[1]), with_sampler.state_dict() | {"sampler": {}}, "position"),
        (loader(sampler=Drawing()), None, "state"),
        (loader(Count()), loader(Count(), num_workers=2).state_dict(), "2 workers"),
        (loader(Numbers(21)), plain.state_dict(), "."),
        (loader(seed=1), plain.state_dict(), "."),
        (loader(Fails()), plain.state_dict(), "."),
    ):
        with pytest.raises((ValueError, TypeError), match=text):
            data.load_state_dict(state)  # type: ignore[arg-type]
        data.close()


def test_ranks() -> None:
    found = [numbers(loader(rank=rank, world_size=3, shuffle=True)) for rank in range(3)]
    assert [len(batches) for batches in found] == [2, 2, 2]
    assert sorted({x for batches in found for batch in batches for x in batch}) == list(range(20))
    assert all(len(batch) == 4 for batches in found for batch in batches)  # last_batch="wrap"
    assert len(loader(rank=0, world_size=3, drop_last=True)) == 1


def test_rank_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    assert numbers(loader(rank="auto")) == PLAIN
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match="WORLD_SIZE"):
        loader(rank="auto")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert numbers(loader(rank="auto"))[0] == PLAIN[1]


# ---- arguments


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (TypeError, {"num_workers": 1.5}),
        (ValueError, {"prefetch_factor": 0, "num_workers": 1}),
        (TypeError, {"multiprocessing_context": 3, "num_workers": 1}),
        (ValueError, {"rank": 2, "world_size": 2}),
        (ValueError, {"rank": 0}),
        (ValueError, {"rank": "auto", "world_size": 2}),
        (ValueError, {"rank": 0, "world_size": 2, "sampler": [1]}),
        (ValueError, {"last_batch": "drop", "sampler": [1]}),
        (ValueError, {"last_batch": "partial", "drop_last": True}),
        (ValueError, {"last_batch": "pad"}),
        (ValueError, {"readers": "fibers"}),
        (ValueError, {"framework": "tensorflow"}),
        (ValueError, {"device": "tpu"}),
        (ValueError, {"seed": -1}),
        (TypeError, {"generator": 7}),
        (ValueError, {"max_leases": 1}),
        (ValueError, {"prefetch_depth": 0}),
    ],
)
def test_bad_arguments(error: type[Exception], arguments: dict[str, Any]) -> None:
    with pytest.raises(error):
        loader(**arguments)


def test_what_has_no_effect_warns() -> None:
    with pytest.warns(RuntimeWarning, match="device=") as warned:
        loader(pin_memory=True)
    assert warned[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="multiprocessing_context"):
        loader(multiprocessing_context="fork", num_workers=1)


def test_attributes() -> None:
    def init(_worker: int) -> None: ...

    data = loader(num_workers=3, drop_last=True, timeout=5, worker_init_fn=init, collate_fn=list)
    assert (data.batch_size, data.num_workers, data.drop_last, data.timeout) == (4, 3, True, 5)
    assert (data.prefetch_factor, data.persistent_workers, data.pin_memory, data.generator) == (2, False, False, None)
    assert data.worker_init_fn is init
    assert data.collate_fn is list
    assert list(data.sampler) == list(range(20))
    assert list(data.batch_sampler) == PLAIN
    assert len(data.batch_sampler) == len(data) == len(iter(data)) == 5  # type: ignore[arg-type]
    sampler = [1, 2]
    data = loader(sampler=sampler)
    assert data.sampler is sampler
    data = loader(batch_size=1, batch_sampler=[sampler])
    assert (data.batch_size, data.batch_sampler) == (None, [sampler])
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=name):
            setattr(data, name, None)
    data.worker_init_fn = None


def test_generator_is_a_seed() -> None:
    class Generator:
        def initial_seed(self) -> int:
            return 5

    assert numbers(loader(shuffle=True, generator=Generator())) == numbers(loader(shuffle=True, seed=5))


def test_as_completed() -> None:
    with loader(num_workers=2, readers="threads", in_order=False) as data:
        assert sorted(numbers(data)) == PLAIN


def test_numpy() -> None:
    batch = next(iter(loader(framework="numpy")))
    assert type(batch) is np.ndarray
    assert batch.tolist() == PLAIN[0]


def test_torch_is_not_imported_for_numpy() -> None:
    import subprocess

    code = (
        "import sys, leat\n"
        "class D:\n"
        "  def __len__(self): return 4\n"
        "  def __getitem__(self, i): return i\n"
        "assert [b.tolist() for b in leat.DataLoader(D(), 2, framework='numpy')] == [[0, 1], [2, 3]]\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_profiler_sees_next() -> None:
    torch = pytest.importorskip("torch")
    with torch.autograd.profiler.profile() as profile:
        list(loader())
    assert any(event.name == "enumerate(DataLoader)#leat.__next__" for event in profile.function_events)


class Stepped:
    """A sampler as torch's distributed one: its order is that of the epoch it was told."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter([(i + 3 * self.epoch) % 8 for i in range(8)])


@pytest.mark.parametrize("in_the_body", [False, True])
def test_a_run_that_resumes_between_epochs_has_the_next_order(in_the_body: bool) -> None:
    def run(data: leat.DataLoader, sampler: Stepped, epoch: int) -> tuple[list[Any], dict[str, Any]]:
        sampler.set_epoch(epoch)
        seen, state = [], {}
        for batch in data:
            seen.append(batch.tolist())
            state = data.state_dict()
        return seen, state if in_the_body else data.state_dict()

    first, second = Stepped(), Stepped()
    _, state = run(loader(Numbers(8), sampler=first), first, 0)
    resumed = loader(Numbers(8), sampler=second)
    resumed.load_state_dict(json.loads(json.dumps(state)))
    assert resumed.next_epoch == 1
    assert run(resumed, second, 1)[0] == [[3, 4, 5, 6], [7, 0, 1, 2]]


def test_threads_have_one_copy_of_an_iterable_dataset() -> None:
    with pytest.raises(ValueError, match="one copy"):
        loader(Count(), num_workers=2, readers="threads")


def test_two_threads_in_one_loop() -> None:
    """Some are told; the others have each batch once, and nobody hangs."""
    batches = iter(loader(Numbers(400), batch_size=1, num_workers=1))
    told, seen = [], []

    def ask() -> None:
        try:
            for batch in batches:
                seen.append(int(batch[0]))
        except leat.Error as error:
            told.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert all("one loop at a time" in text for text in told)
    assert len(told) < 4 and sorted(seen) == list(range(400))


@pytest.mark.parametrize("changes", ["size", "state"])
def test_a_new_feed_does_not_take_what_old_requests_are_answered(changes: str) -> None:
    class Slow(Numbers):
        def __getitem__(self, i: int) -> int:
            time.sleep(0.01)
            return i

    dataset = Slow(40)
    with leat.DataLoader(dataset, batch_size=2, num_workers=2, persistent_workers=True, timeout=20) as data:
        for _ in range(4):
            next(iter(data))
            if changes == "size":
                dataset.count = 20 if dataset.count == 40 else 40
            else:
                data.load_state_dict(data.state_dict())
            seen = sorted(int(number) for batch in data for number in batch)
            assert seen == list(range(dataset.count))[-len(seen) :] and len(seen) >= dataset.count - 2


def test_exceptions_of_batches_that_nobody_took_go_with_the_loader() -> None:
    class Weight:
        pass

    alive: weakref.WeakSet[Weight] = weakref.WeakSet()

    def fail(samples: Any) -> Any:
        alive.add(weight := Weight())
        raise KeyError(len(alive))

    with loader(Numbers(), num_workers=2, readers="threads", collate_fn=fail) as data:
        with pytest.raises(KeyError):
            next(iter(data))
    del data
    gc.collect()
    assert not alive


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_in_a_forked_child_closes_without_a_word(workers: int) -> None:
    script = f"""
        import os, leat
        data = leat.DataLoader([0, 1, 2, 3], num_workers={workers})
        batches = iter(data); next(batches)
        if os.fork() == 0:
            data.close()
            raise SystemExit
        os.wait()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_that_ends_by_an_exception_says_it_once() -> None:
    script = "import leat\nfor b in leat.DataLoader([0, 1, None, 3], batch_size=1, num_workers=1): print(b)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 1 and "TypeError" in done.stderr
    assert "ignored" not in done.stderr


def test_a_worker_that_dies_before_its_first_batch_is_told() -> None:
    def die(worker: int) -> None:
        time.sleep(0.1)  # with the request unread
        os.kill(os.getpid(), signal.SIGSEGV)

    with pytest.raises(leat.Error, match="was killed by SIGSEGV"):
        next(iter(loader(num_workers=1, worker_init_fn=die)))


class Advancing(Stepped):
    """It goes on to its next epoch by itself."""

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        return super().__iter__()


class Keeping(Stepped):
    """Its state has the epoch."""

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]


@pytest.mark.parametrize("kind", [Advancing, Keeping])
def test_a_sampler_goes_on_from_its_state_unless_it_is_told_otherwise(kind: type[Stepped]) -> None:
    first, second = kind(), kind()
    before = loader(Numbers(8), sampler=first)
    first.set_epoch(1)
    expected = [numbers(before)]
    state = before.state_dict()
    expected.append(numbers(before))
    resumed = loader(Numbers(8), sampler=second)
    resumed.load_state_dict(state)
    assert numbers(resumed) == expected[1]
    second.set_epoch(5)
    first.set_epoch(5)
    assert numbers(resumed) == numbers(before)


def test_a_prefetcher_of_an_iterable_dataset_has_no_length() -> None:
    with leat.Prefetcher(Count(), "cpu", batch_size=4, readers="caller", framework="numpy") as feed:
        for counted in (feed, feed.epoch(0), iter(feed)):
            with pytest.raises(TypeError, match="known to its dataset"):
                len(counted)
        assert "4611686018427387904" not in repr(feed) + repr(feed.epoch(1))
        assert len(list(feed)) > 1
