"""Wrong options: each one clear error."""

from typing import Any

import leat
import numpy as np
import pytest


def make_feed(**options: Any) -> leat.Prefetcher:
    data = leat.InMemory(x=np.arange(80, dtype=np.int32))
    return leat.Prefetcher(data, **({"device": "cpu", "batch_size": 8} | options))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"batch_size": 0}, ValueError, "batch_size has to be an int of at least 1, not 0"),
        ({"batch_size": -3}, ValueError, "batch_size has to be an int of at least 1, not -3"),
        ({"batch_size": 2.5}, TypeError, "batch_size has to be an int of at least 1, not 2.5"),
        ({"batch_size": 2.0}, TypeError, "batch_size has to be an int of at least 1, not 2.0"),
        ({"batch_size": True}, TypeError, "batch_size has to be an int of at least 1, not True"),
        ({"batch_size": np.True_}, TypeError, "batch_size has to be an int of at least 1"),
        ({"batch_size": "8"}, TypeError, "batch_size has to be an int of at least 1, not '8'"),
        ({"batch_size": None}, TypeError, "batch_size has to be an int of at least 1, not None"),
        ({"batch_size": 2**70}, ValueError, "batch_size has to be at most"),
        ({"workers": 0}, ValueError, "workers has to be an int of at least 1, not 0"),
        ({"workers": 5000}, ValueError, "workers"),
        ({"prefetch_depth": 0}, ValueError, "prefetch_depth has to be an int of at least 1"),
        ({"max_leases": 1}, ValueError, "max_leases has to be an int of at least 2, not 1"),
        ({"pinned_slots": -1}, ValueError, "pinned_slots has to be an int of at least 0"),
        ({"seed": -1}, ValueError, "seed has to be an int of at least 0, not -1"),
        ({"order": "random"}, ValueError, "order has to be one of 'shuffled', 'sequential'"),
        ({"order": 1}, TypeError, "order has to be one of 'shuffled', 'sequential', not 1"),
        ({"last_batch": "keep"}, ValueError, "'partial', 'drop', 'pad', 'wrap', not 'keep'"),
        ({"delivery": "any"}, ValueError, "delivery has to be one of"),
        ({"check_slots": True}, TypeError, "check_slots has to be one of 'no', 'yes'"),
        ({"on_escape": "ignore"}, ValueError, "on_escape has to be one of 'copy', 'raise'"),
        ({"timeout": 0}, ValueError, "timeout has to be a number above 0, not 0"),
        ({"timeout": "1"}, TypeError, "timeout has to be a number above 0, not '1'"),
        ({"timeout": float("nan")}, ValueError, "timeout has to be a number above 0, not nan"),
        ({"timeout": True}, TypeError, "timeout has to be a number above 0, not True"),
        ({"timeout": np.True_}, TypeError, "timeout has to be a number above 0"),
        ({"timeout": 10**400}, ValueError, "timeout has to be a number above 0, not 1000"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank"),
        ({"world_size": 0}, ValueError, "world_size has to be an int of at least 1, not 0"),
        ({"pad_to": "longest"}, ValueError, "pad_to has to be one of 'field', 'batch'"),
        ({"read_across_epochs": 0}, TypeError, "read_across_epochs has to be True or False, not 0"),
        ({"packing": True}, TypeError, "packing has to be a leat.Packing, not True"),
        ({"packing": leat.Packing()}, ValueError, "cannot be packed"),
        ({"autotune": 8}, TypeError, "autotune has to be a leat.Autotune, not 8"),
        ({"read_failures": 0.5}, TypeError, "read_failures has to be an int"),
        ({"live": 2}, TypeError, "live has to be a leat.Live, not 2"),
        ({"trace": "file"}, TypeError, "trace has to be a leat.Trace, not 'file'"),
        ({"max_pinned_bytes": 1}, ValueError, "max_pinned_bytes"),
        ({"device": "cuda:99"}, leat.Error, "cuda:99"),
        ({"device": 0}, TypeError, 'device has to be "cpu"'),
        ({"device": None}, TypeError, 'device has to be "cpu"'),
        ({"framework": "tensorflow"}, ValueError, "tensorflow"),
    ],
)
def test_a_wrong_option_is_named(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        make_feed(**options)
    assert text in str(caught.value)


@pytest.mark.parametrize("option", ["packing", "autotune", "trace", "live"])
@pytest.mark.parametrize("value", [False, 0, "", [], {}, np.array([1, 2])])
def test_what_is_false_is_no_none(option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{option} has to be a leat\."):
        make_feed(**{option: value})


def test_the_cpu_may_have_a_number_as_torch_writes_it() -> None:
    assert make_feed(device="cpu:0").device == make_feed(device="cpu").device


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TypeError, match="batchsize"):
        make_feed(batchsize=4)


@pytest.mark.parametrize("data", [None, "tokens/*.bin", b"tokens", 3, leat.InMemory])
def test_a_dataset_is_needed(data: Any) -> None:
    with pytest.raises(TypeError, match=r"dataset has to be a leat\.Dataset, or an object with __getitem__"):
        leat.Prefetcher(data, "cpu", batch_size=8)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: leat.Packing(most_samples=-1), "most_samples"),
        (lambda: leat.Autotune(max_workers=0), "max_workers"),
        (lambda: leat.Autotune(every=0), "every"),
        (lambda: leat.FailureBudget(count=-1), "count"),
        (lambda: leat.FailureBudget(rate=2), "rate has to be a number from 0 to 1, not 2"),
        (lambda: leat.Live(fd=-1), "fd"),
    ],
)
def test_a_wrong_part_of_an_option_is_named(make: Any, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert text in str(caught.value)


def test_numbers_may_be_numpys() -> None:
    feed = make_feed(batch_size=np.int64(8), workers=np.uint8(2), seed=2**64 - 1)
    assert len(feed) == 10


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({"batch_size": 32}, [32, 32, 16]),
        ({"batch_size": 32, "last_batch": "drop"}, [32, 32]),
        ({"batch_size": 32, "last_batch": "pad"}, [32, 32, 16]),
        ({"batch_size": 32, "last_batch": "wrap"}, [32, 32, 32]),
        ({"batch_size": 32, "rank": 1, "world_size": 2}, [16, 16, 8]),
        ({"workers": 3, "delivery": "as_completed", "batch_size": 40}, [40, 40]),
        ({"autotune": leat.Autotune(), "read_failures": 3}, [8] * 10),
        ({"check_slots": "read_only"}, [8] * 10),
    ],
)
def test_options_take_effect(options: dict[str, Any], sizes: list[int]) -> None:
    feed = make_feed(order="sequential", **options)
    assert [batch.size for batch in feed] == sizes
    assert len(feed) == len(sizes)


def test_a_seed_determines_the_order() -> None:
    def order(**options: Any) -> list[int]:
        feed = make_feed(framework="numpy", **options)
        return [int(x) for batch in feed for x in batch["x"]]

    assert order(seed=1) == order(seed=1, workers=3)
    assert order(seed=1) != order(seed=2)
    assert sorted(order(seed=1)) == list(range(80))
