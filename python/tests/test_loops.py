"""Several loops, threads and owners of one feed."""

import ctypes
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import leat
import numpy as np
import pytest
from samples import feed_of_numbers
from slow import slow_feed


def test_of_two_loops_the_older_one_ends_with_an_error() -> None:
    feed = feed_of_numbers()
    old = iter(feed.epoch(0))
    assert next(old).index == 0
    new = iter(feed.epoch(1))
    assert next(new).epoch == 1
    with pytest.raises(
        leat.Error,
        match="this loop over epoch 0 has ended: another loop, over epoch 1, has begun on the same feed",
    ):
        next(old)
    assert [batch.index for batch in new] == list(range(1, 10))


def test_a_loop_that_has_ended_stays_so() -> None:
    feed = feed_of_numbers()
    loop = iter(feed)
    assert len(list(loop)) == 10
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(loop)
    assert next(iter(feed)).epoch == 1
    with pytest.raises(StopIteration):
        next(loop)


def test_iter_begins_the_epoch_after_the_last_one_begun() -> None:
    feed = feed_of_numbers()
    epochs = []
    for _ in range(3):
        for batch in feed:
            epochs.append(batch.epoch)
            break
    assert epochs == [0, 1, 2]
    for batch in feed.epoch(7):
        break
    assert feed.next_epoch == 8
    assert next(iter(feed)).epoch == 8


def test_an_epoch_may_be_looped_over_again() -> None:
    epoch = feed_of_numbers().epoch(3)
    first = [batch["x"].tolist() for batch in epoch]
    assert [batch["x"].tolist() for batch in epoch] == first


def test_a_loop_may_go_from_thread_to_thread() -> None:
    feed = feed_of_numbers()
    loop = iter(feed)
    seen: list[int] = []
    for _ in range(10):
        thread = threading.Thread(target=lambda: seen.append(next(loop).index))
        thread.start()
        thread.join()
    assert seen == list(range(10))


def test_a_second_thread_in_next_gets_an_error_at_once() -> None:
    feed = slow_feed()
    loop = iter(feed)
    errors: list[leat.Error] = []
    together = threading.Barrier(4)
    batches: list[Any] = []

    def ask() -> None:
        together.wait()
        try:
            batches.append(next(loop).index)
        except leat.Error as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert batches == [0]
    assert len(errors) == 3
    assert all("a feed has one loop at a time" in str(error) for error in errors)
    assert next(loop).index == 1


def test_a_loop_keeps_its_feed_and_its_dataset() -> None:
    loop = iter(feed_of_numbers().epoch(0))
    gc.collect()
    assert [batch["x"][0] for batch in loop] == list(range(0, 80, 8))


def test_tensors_outlive_batch_loop_feed_and_dataset() -> None:
    tensors = [batch["x"] for batch in feed_of_numbers(max_leases=12)]
    gc.collect()
    assert [tensor[0] for tensor in tensors] == list(range(0, 80, 8))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def threads_become(count: int) -> bool:
    """The system counts a thread that was joined for a moment."""
    until = time.monotonic() + 10
    while threads() != count and time.monotonic() < until:
        time.sleep(0.001)
    return threads() == count


@pytest.mark.parametrize("options", [{}, {"check_slots": "yes"}])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_tensor_keeps_its_memory_and_no_thread_of_its_feed(
    options: dict[str, Any], is_closed: bool
) -> None:
    gc.collect()
    before = threads()
    feed = feed_of_numbers(framework=None, max_leases=4, **options)
    first, second, third = (batch["x"] for _, batch in zip(range(3), feed, strict=False))
    kept = [np.asarray(second)[2:], third.__dlpack__()]
    del second, third
    assert threads() > before
    if is_closed:
        feed.close()
        assert threads_become(before)
        assert feed.device == "host:0"
    del feed
    gc.collect()
    assert threads_become(before)
    assert np.from_dlpack(first).tolist() == list(range(8))
    assert kept[0].tolist() == list(range(10, 16))
    dropper = threading.Thread(target=kept.clear)  # the last shares go on any thread
    dropper.start()
    dropper.join()


def hold_in_a_cycle() -> Any:
    class Trainer:
        feed: leat.Prefetcher
        loop: Any
        me: Any

    trainer = Trainer()
    trainer.feed = slow_feed()
    trainer.loop = iter(trainer.feed.epoch(0))
    trainer.me = trainer
    trainer.feed.trainer = trainer  # type: ignore[attr-defined]
    return weakref.ref(trainer)


def hold_in_a_dataset() -> Any:
    data = leat.InMemory(x=np.arange(80, dtype=np.int32))
    feed = leat.Prefetcher(data, "cpu", batch_size=8, framework="numpy")
    feed.loops = [iter(feed)]  # type: ignore[attr-defined]
    return weakref.ref(feed)


@pytest.mark.parametrize("hold", [hold_in_a_cycle, hold_in_a_dataset])
def test_the_garbage_collector_ends_feeds_in_cycles(hold: Callable[[], Any]) -> None:
    feed_of_numbers().close()
    gc.collect()
    before = threads()
    gc.disable()
    try:
        held = hold()
        assert held() is not None
        assert threads() > before
        gc.collect()
        assert held() is None
        assert threads() == before
    finally:
        gc.enable()


def test_close_may_be_called_twice_and_ends_all_else() -> None:
    feed = feed_of_numbers()
    loop = iter(feed)
    batch = next(loop)
    feed.close()
    feed.close()
    for call in (
        lambda: next(loop),
        lambda: iter(feed),
        feed.stats,
        feed.report,
        feed.state_dict,
        feed.failed_samples,
        feed.reset_stats,
    ):
        with pytest.raises(leat.Error, match="the feed was closed"):
            call()
    assert batch["x"].tolist() == list(range(8))
    batch.commit()
    assert len(feed) == 10
    assert "80" in repr(feed) or "10 batches" in repr(feed)


@pytest.mark.parametrize("error", [None, KeyError])
def test_a_with_block_closes_the_feed(error: type[Exception] | None) -> None:
    feed = feed_of_numbers()
    try:
        with feed as entered:
            assert entered is feed
            for batch in feed:
                if batch.index == 3:
                    break
            state = feed.state_dict()
            if error is not None:
                raise error
    except KeyError:
        assert error is KeyError
    with pytest.raises(leat.Error, match="the feed was closed"):
        iter(feed)
    feed.close()
    other = feed_of_numbers(resume=state)
    assert [batch.index for batch in other] == [4, 5, 6, 7, 8, 9], "break counts"


def test_next_returns_once_the_copy_is_done() -> None:
    # Looks into the slots themselves: what a batch hands out would wait for the copy. An epoch is one batch, which is
    # copied once it is asked for, to the slots in turns.
    count = 1 << 24
    data = leat.InMemory(x=np.arange(1, count + 1, dtype=np.int32)[None])
    feed = leat.Prefetcher(
        data, "cpu", batch_size=1, framework="numpy", prefetch_depth=1, max_leases=2, read_across_epochs=False
    )
    slots: list[int] = []
    for epoch in range(12):
        if epoch >= 2:
            ctypes.memset(slots[-2], 0, 4 * count)
        batch = next(iter(feed.epoch(epoch)))
        last = ctypes.c_int32.from_address(slots[-2] + 4 * (count - 1)).value if epoch >= 2 else count
        slots.append(batch["x"].ctypes.data)
        assert last == count
        del batch
    assert slots[2:] == slots[:-2]


def test_a_with_block_may_end_while_another_thread_waits_for_a_batch() -> None:
    data = leat.InMemory(x=np.zeros((4, 50_000_000), np.uint8))  # a copy takes its time
    for pause in (0.0, 0.01, 0.02, 0.03, 0.04, 0.05):
        feed = leat.Prefetcher(data, "cpu", batch_size=1, framework="numpy", prefetch_depth=1)
        ended: list[str] = []

        def wait(batches: leat.Loop, ended: list[str] = ended) -> None:
            try:
                while True:
                    next(batches)
            except (leat.Error, StopIteration) as error:
                ended.append(str(error))

        with feed.epoch(0) as batches:
            thread = threading.Thread(target=wait, args=(batches,))
            thread.start()
            time.sleep(pause)
        thread.join()
        assert ended == [""] or "its with block has ended" in ended[0]
        assert [batch.index for batch in feed.epoch(1)] == [0, 1, 2, 3]
