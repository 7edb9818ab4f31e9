"""Loops over batches on a CUDA device, which a software runtime plays."""

import gc
import os
from typing import Any

import leat
import numpy as np
import pytest

pytestmark = pytest.mark.stand_in


def make_feed(**options: Any) -> leat.Prefetcher:
    data = leat.InMemory(x=np.arange(80, dtype=np.int32))
    settings: dict[str, Any] = {"batch_size": 8, "order": "sequential"}
    return leat.Prefetcher(data, "cuda:0", **(settings | options))


def on_cpu(tensor: Any) -> list[int]:
    values: list[int] = np.from_dlpack(tensor, device="cpu").tolist()
    return values


def test_a_loop_gives_the_samples_in_order(stand_in: Any) -> None:
    feed = make_feed()
    assert feed.device == "cuda:0"
    for i, batch in enumerate(feed):
        assert on_cpu(batch["x"]) == list(range(8 * i, 8 * i + 8))
    assert feed.copies == 0
    del batch, feed


def test_batches_that_escape_are_copied(stand_in: Any) -> None:
    feed = make_feed()
    kept = [batch["x"] for batch in feed]
    assert feed.copies == 7
    assert [on_cpu(x) for x in kept] == [list(range(8 * i, 8 * i + 8)) for i in range(10)]
    del kept, feed


def test_leaving_counts_as_on_the_cpu(stand_in: Any) -> None:
    feed = make_feed()
    with pytest.raises(KeyError):
        for batch in feed:
            if batch.index == 3:
                raise KeyError
    assert '"batches":[[0,3]]' in feed.state_dict()["state"]
    for batch in feed.epoch(1):
        if batch.index == 3:
            break
    assert '"batches":[[0,4]]' in feed.state_dict()["state"]
    del batch, feed


def test_a_resumed_feed_goes_on(stand_in: Any) -> None:
    feed = make_feed()
    for batch in feed:
        if batch.index == 3:
            break
    state = feed.state_dict()
    feed.load_state_dict(state)
    assert [batch.index for batch in feed] == [4, 5, 6, 7, 8, 9]
    del batch, feed


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_destructors_in_a_child_do_nothing(stand_in: Any) -> None:
    held: dict[str, Any] = {"feed": make_feed()}
    held["loop"] = iter(held["feed"])
    held["batch"] = next(held["loop"])
    held["tensor"] = held["batch"]["x"]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.raises(leat.Error, match="does not survive fork"):
                next(held["loop"])
            held.clear()
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [batch.index for batch in held["loop"]] == list(range(1, 10))
    assert on_cpu(held["tensor"]) == list(range(8))
    held.clear()


class Growing:
    """Sample i: i + 1 times the number i."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": np.full(index + 1, index, np.int64)}


@pytest.mark.parametrize("readers", ["caller", "threads", "processes"])
def test_readers_write_batches_of_any_size_into_pinned_memory(stand_in: Any, readers: Any) -> None:
    with leat.Prefetcher(Growing(), "cuda:0", batch_size=1, workers=2, readers=readers, order="sequential") as feed:
        for epoch in range(2):
            for i, batch in enumerate(feed.epoch(epoch)):
                assert on_cpu(batch["x"]) == [[i] * (i + 1)]
        del batch
