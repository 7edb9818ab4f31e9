"""leat.Batch: the tensors by name, and what a batch keeps and gives up."""

import collections
import collections.abc
import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import leat
import leat.frameworks
import numpy as np
import pytest
from samples import BATCH, has_content, make_feed


@pytest.fixture
def batch() -> leat.Batch:
    return next(iter(make_feed()))


class Array:
    """What a framework's array may do: have attributes."""

    def __init__(self, tensor: leat.Tensor) -> None:
        self.tensor = tensor
        self.other: Any = None


class Arrays:
    """A framework whose arrays are Arrays."""

    name = "torch"
    takes = 0

    def stream(self, device: str) -> None:
        return None

    def take(self, tensor: leat.Tensor) -> Array:
        self.takes += 1
        return Array(tensor)

    def copy(self, tensor: leat.Tensor) -> Array:
        return Array(tensor.copy())


@pytest.fixture
def arrays(monkeypatch: pytest.MonkeyPatch) -> Arrays:
    """The framework "torch" is Arrays."""
    made = Arrays()
    monkeypatch.setitem(leat.frameworks._ADAPTERS, "torch", lambda device: made)
    return made


def test_it_is_a_mapping(batch: leat.Batch) -> None:
    assert isinstance(batch, collections.abc.Mapping)
    assert list(batch) == ["x", "y"] == list(batch.keys())
    assert len(batch) == 2
    assert "x" in batch
    assert "z" not in batch
    assert 3 not in batch
    assert dict(batch) == {"x": batch["x"], "y": batch["y"]} == dict(**batch) == dict(batch.items())
    assert list(batch.values()) == [batch["x"], batch["y"]]
    assert batch.get("x") is batch["x"]
    assert batch.get("z") is None
    assert batch.get("z", 5) == 5
    match batch:
        case {"x": x}:
            assert x is batch["x"]
        case _:
            raise AssertionError


def test_an_unknown_name_is_a_key_error_with_the_names(batch: leat.Batch) -> None:
    with pytest.raises(KeyError, match="batch 0 of epoch 0 has no tensor z; it has x, y"):
        batch["z"]


def test_it_says_what_it_is(batch: leat.Batch) -> None:
    assert (batch.epoch, batch.index, batch.size, batch.rows, batch.elements) == (0, 0, BATCH, BATCH, 0)
    assert (batch.step_size, batch.step_shards, batch.copied) == (BATCH, 1, False)
    assert repr(batch) == "<leat.Batch 0 of epoch 0: x int32 [8, 6], y int64 [8]>"


def test_a_padded_batch_has_more_rows_than_samples() -> None:
    last = list(make_feed(batches=2, batch_size=12, last_batch="pad"))[-1]
    assert (last.size, last.rows, last["x"].shape[0]) == (4, 12, 12)


def test_an_array_is_made_once(arrays: Arrays) -> None:
    batch = next(iter(make_feed(framework="torch")))
    assert batch["x"] is batch["x"]
    assert arrays.takes == 1


def test_threads_get_the_same_array(arrays: Arrays) -> None:
    batch = next(iter(make_feed(framework="torch")))
    barrier = threading.Barrier(8)
    got: list[Any] = []

    def ask() -> None:
        barrier.wait()
        got.append(batch["x"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in got}) == 1


def test_release_leaves_the_numbers_and_refuses_the_tensors(batch: leat.Batch) -> None:
    batch.release()
    batch.release()
    assert (batch.epoch, batch.index, batch.size) == (0, 0, BATCH)
    assert list(batch) == ["x", "y"]
    assert repr(batch) == "<leat.Batch 0 of epoch 0: x int32 [8, 6], y int64 [8]; released>"
    with pytest.raises(ValueError, match="batch 0 of epoch 0 was released"):
        batch["x"]
    with pytest.raises(ValueError, match="was released"):
        batch.on(1)


def test_release_gives_up_the_batchs_own_share_only() -> None:
    batches = iter(make_feed(batches=30, max_leases=2))
    batch = next(batches)
    x = batch["x"]
    batch.release()
    for _ in range(5):
        assert next(batches).copied  # x keeps the slot
        assert has_content(x, 0)
    del x
    assert not next(batches).copied


def test_a_tensor_that_was_taken_before_release_can_be_exported_after(batch: leat.Batch) -> None:
    x = batch["x"]
    batch.release()
    assert has_content(np.from_dlpack(x), 0)
    assert has_content(x.copy(), 0)


def test_release_drops_the_arrays_that_the_batch_caches(arrays: Arrays) -> None:
    batch = next(iter(make_feed(framework="torch")))
    gone = weakref.ref(batch["x"])
    assert gone() is not None
    batch.release()
    assert gone() is None


def test_the_garbage_collector_finds_a_cycle_through_a_batchs_arrays(arrays: Arrays) -> None:
    batches = iter(make_feed(batches=30, max_leases=2, framework="torch"))
    batch = next(batches)
    batch["x"].other = batch
    gone = weakref.ref(batch)
    gc.disable()
    try:
        del batch
        assert gone() is not None
        assert next(batches).copied
        gc.collect()
        assert gone() is None
        assert not next(batches).copied
    finally:
        gc.enable()


def test_an_array_that_is_dropped_with_its_batch_may_use_the_batch(arrays: Arrays) -> None:
    class Last:
        def __init__(self, batch: leat.Batch) -> None:
            self.batch = batch

        def __del__(self) -> None:
            said.append(repr(self.batch))
            with pytest.raises(ValueError, match="was released"):
                self.batch["x"]

    said: list[str] = []
    batch = next(iter(make_feed(framework="torch")))
    batch["x"].other = Last(batch)
    batch.release()
    assert said == ["<leat.Batch 0 of epoch 0: x int32 [8, 6], y int64 [8]; released>"]


def test_what_a_framework_raises_reaches_the_caller(arrays: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(tensor: leat.Tensor) -> None:
        raise ArithmeticError(tensor.name)

    batches = iter(make_feed(batches=30, max_leases=2, framework="torch"))
    batch = next(batches)
    monkeypatch.setattr(arrays, "take", fail)
    with pytest.raises(ArithmeticError, match="y"):
        batch["y"]
    monkeypatch.setattr(arrays, "take", Array)
    assert batch["y"].tensor.name == "y"
    monkeypatch.setattr(arrays, "copy", fail)
    with pytest.raises(ArithmeticError, match="x"):
        next(batches)
    del batch
    again = next(batches)  # with room for it now
    assert (again.index, again.copied) == (1, False)


def test_a_batch_that_is_released_while_its_array_is_made_is_refused(arrays: Arrays) -> None:
    batch = next(iter(make_feed(framework="torch")))

    def take(tensor: leat.Tensor) -> Array:
        batch.release()
        return Array(tensor)

    arrays.take = take  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="was released"):
        batch["x"]


def test_a_cpu_has_no_streams(batch: leat.Batch) -> None:
    for stream in (None, 0, 1, 5):
        with pytest.raises(ValueError, match="batch 0 of epoch 0 is on host:0: a CPU has no streams"):
            batch.on(stream)


def numbers(batch: leat.Batch) -> tuple[Any, ...]:
    return (batch.epoch, batch.index, batch.size, batch.rows, batch.elements, batch.step_size, batch.step_shards)


def lightnings(data: Any, function: Any) -> Any:
    """As lightning_utilities.core.apply_func walks."""
    out = []
    for k, v in data.items():
        out.append((k, function(v)))
    return type(data)(collections.OrderedDict(out))


# As accelerate.utils.operations, transformers.trainer_pt_utils and torch's pin_memory walk; one that
# looks at each value first; one that adds a value.
WALKS: dict[str, Any] = {
    "Lightning": lightnings,
    "Accelerate, Transformers": lambda data, f: type(data)({k: f(v) for k, v in data.items()}),
    "torch": lambda data, f: type(data)({k: f(data[k]) for k in data}),
    "Accelerate's concatenate": lambda data, f: type(data)({k: f(data[k]) for k in data.keys()}),
    "apply_to_collections": lambda data, f: type(data)({k: f(data[k]) for k in sorted(data.keys() | data.keys())}),
    "values": lambda data, f: type(data)(zip_to_dict("xy", map(f, data.values()))),
    "a dict": lambda data, f: type(data)({k: f(v) for k, v in dict(data).items()}),
    "unpacking": lambda data, f: type(data)({**data, "x": f(data["x"]), "y": f(data["y"])}),
}


def zip_to_dict(names: str, values: Any) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_rebuilds_a_batch_with_its_numbers(walk: str) -> None:
    feed = make_feed(framework="numpy")
    for batch in feed:
        twice = WALKS[walk](batch, lambda array: array * 2)
        assert type(twice) is leat.Batch
        assert list(twice) == ["x", "y"]
        assert (twice["x"] == batch["x"] * 2).all() and (twice["y"] == batch["y"] * 2).all()
        assert numbers(twice) == numbers(batch)
        assert numbers(WALKS[walk](twice, lambda array: array)) == numbers(batch), "and again"
    assert repr(twice) == "<leat.Batch 9 of epoch 0: x, y; without a lease>"


def test_without_a_walk_a_batch_has_no_numbers(batch: leat.Batch) -> None:
    nothing = (None,) * 7
    assert numbers(leat.Batch({"x": 1})) == nothing, "no batch was walked over"
    list(batch)
    assert numbers(leat.Batch({"x": 1})) == numbers(batch)
    assert numbers(leat.Batch({"x": 1})) == nothing, "another was made of that walk"
    list(next(iter(make_feed())))
    assert numbers(leat.Batch({"x": 1})) == nothing, "that batch is gone"
    list(batch)
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(numbers(leat.Batch({"x": 1}))))
    thread.start()
    thread.join()
    assert seen == [nothing], "another thread walked over it"
    assert numbers(leat.Batch(batch)) == numbers(batch)


def test_a_batch_without_a_lease_has_what_it_was_given() -> None:
    made = leat.Batch({"x": [1], "y": None})
    assert dict(made) == {"x": [1], "y": None}
    assert (made.get("z", 5), "x" in made, len(made), made.copied) == (5, True, 2, False)
    assert repr(made) == "<leat.Batch: x, y; without a lease>"
    with pytest.raises(ValueError, match="this batch has no lease: commit\\(\\) the batch that the loop gave"):
        made.commit()
    made.on(1)
    made.release()
    with pytest.raises(ValueError, match="this batch was released"):
        made["x"]


@pytest.mark.parametrize("given", [(), (5,), (None,), ("xy",), ([("x", 1)],), ({1: 2},), ({}, {})])
def test_a_batch_is_made_of_a_mapping_of_names(given: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"leat\.Batch"):
        leat.Batch(*given)


def test_copies_unions_and_pickles_are_dicts() -> None:
    batch = next(iter(make_feed(framework="numpy")))
    plain = {"x": batch["x"], "y": batch["y"]}
    for same in (dict(batch), copy.copy(batch), batch | {}, {} | batch, batch | batch):
        assert type(same) is dict and list(same) == ["x", "y"]
        assert all(same[name] is plain[name] for name in plain)
    assert (batch | {"y": 1})["y"] == 1 and ({"y": 1} | batch)["y"] is batch["y"]
    grown = {"z": 1}
    grown |= batch
    assert list(grown) == ["z", "x", "y"]
    with pytest.raises(TypeError, match="unsupported operand"):
        batch | 5  # type: ignore[operator]
    copies = [pickle.loads(pickle.dumps(batch, number)) for number in range(pickle.HIGHEST_PROTOCOL + 1)]
    for other in [*copies, copy.deepcopy(batch)]:
        assert type(other) is dict and list(other) == ["x", "y"]
        for name in plain:
            assert (other[name] == plain[name]).all() and not np.shares_memory(other[name], plain[name])
    tensors = next(iter(make_feed()))
    assert has_content(copy.deepcopy(tensors)["x"], 0) and copy.copy(tensors)["x"] is tensors["x"]
    with pytest.raises(TypeError, match="leat: tensor x cannot be pickled: pickle what a framework makes of it"):
        pickle.dumps(tensors)
    batch.release()
    for made in (copy.copy, pickle.dumps, dict):
        with pytest.raises(ValueError, match="was released"):
            made(batch)  # type: ignore[operator]
