"""Signals while a loop waits, and loops that are left at any moment."""

import operator
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import leat
import numpy as np
import pytest
from slow import MANY, slow_feed
from timing import within

RANDOM_POINTS = int(os.environ.get("LEAT_RANDOM_POINTS", "100"))


@contextmanager
def on_alarm(handler: Callable[[], None], after: float) -> Iterator[None]:
    """Calls ``handler``, as a signal handler, in ``after`` seconds."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: handler())
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_loop_that_waits_is_interrupted_within_50_ms() -> None:
    feed = slow_feed(2 * MANY)

    def one_try() -> float:
        sent = 0.0

        def interrupt() -> None:
            nonlocal sent
            time.sleep(0.02)  # the loop waits by then; if it does not yet, that is one more case
            sent = time.perf_counter()
            os.kill(os.getpid(), signal.SIGINT)

        loop = iter(feed.epoch(0))
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in loop:
                pass
        took = time.perf_counter() - sent
        thread.join()
        return took

    within(0.050, one_try)


def test_an_interruption_loses_no_batch() -> None:
    feed = slow_feed(MANY)
    batches = map(operator.attrgetter("index"), iter(feed.epoch(0)))
    seen: list[int] = []

    def interrupt() -> None:
        raise KeyboardInterrupt

    interrupted = 0
    while True:
        try:
            with on_alarm(interrupt, 0.01):
                # In C: no signal is handled between the end of next and the append.
                seen.extend(batches)
                break
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted > 0
    assert seen == [0, 1, 2, 3]


def test_handlers_may_use_the_feed_that_waits() -> None:
    feed = slow_feed()
    loop = iter(feed.epoch(0))
    seen: list[Any] = []

    def use() -> None:
        seen.append(feed.state_dict())
        seen.append(feed.stats())
        try:
            next(loop)
        except leat.Error as error:
            seen.append(error)

    with on_alarm(use, 0.01):
        assert next(loop).index == 0
    assert "a feed has one loop at a time" in str(seen[2])
    assert next(loop).index == 1


def test_a_handler_may_close_the_feed_that_waits() -> None:
    feed = slow_feed()
    with on_alarm(feed.close, 0.01), pytest.raises(leat.Error, match="the feed was closed"):
        next(iter(feed.epoch(0)))
    with pytest.raises(leat.Error, match="the feed was closed"):
        feed.stats()


def test_close_ends_the_call_of_another_thread() -> None:
    feed = slow_feed()
    loop = iter(feed.epoch(0))
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            for _ in loop:
                pass
        except leat.Error as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    feed.close()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert "the feed was closed" in str(ended[0])


def test_close_is_interrupted_while_a_read_does_not_end() -> None:
    # The samples of a shuffled batch are drawn in one go: of 4 million, that takes its time.
    data = leat.InMemory(x=np.zeros(4_000_000, np.uint8))

    def interrupt() -> None:
        raise KeyboardInterrupt

    for _ in range(20):  # the readers may not have begun, or have drawn already
        feed = leat.Prefetcher(data, "cpu", batch_size=4_000_000, order="shuffled")
        iter(feed)
        time.sleep(0.01)
        try:
            with on_alarm(interrupt, 0.02):
                feed.close()
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            with pytest.raises(leat.Error, match="the feed was closed"):
                feed.stats()
            return
    pytest.fail("close() was never interrupted")


def test_other_threads_run_while_a_loop_waits() -> None:
    feed = slow_feed()
    loop = iter(feed.epoch(0))
    running = threading.Event()
    stop = threading.Event()
    ticks = []

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            running.set()
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    running.wait()
    begin = time.perf_counter()
    next(loop)
    end = time.perf_counter()
    stop.set()
    thread.join()
    while_waiting = [at for at in ticks if begin < at < end]
    assert len(while_waiting) > (end - begin) / 0.020  # more than one in each slice


def test_a_timeout_says_what_each_reader_does_and_changes_nothing() -> None:
    feed = slow_feed(timeout=0.01, workers=2)
    loop = iter(feed.epoch(0))
    text = ""
    while "reads batch 0" not in text:  # a busy machine may not have begun within the first
        with pytest.raises(leat.Timeout) as caught:
            next(loop)
        text = str(caught.value)
    assert "the next batch of epoch 0 did not come within the timeout of 0.01 s" in text
    for line in ("reader 0: reads batch 0 of epoch 0", "reader 1: ", "copier: "):
        assert line in text
    assert isinstance(caught.value, TimeoutError)
    seen = []
    while True:
        try:
            batch = next(loop, None)
        except leat.Timeout:
            continue
        if batch is None:
            break
        seen.append(batch.index)
    assert seen == [0, 1, 2, 3]


def leave_at(feed: leat.Prefetcher, after: float) -> float:
    """Runs loops until a signal comes, then closes the feed; returns how long that took."""

    class Now(Exception):
        pass

    def leave() -> None:
        raise Now

    start = 0.0
    try:
        with on_alarm(leave, after):
            while True:
                for batch in feed:
                    batch["x"]
    except Now:
        start = time.perf_counter()
    feed.close()
    return time.perf_counter() - start


def test_a_loop_left_at_a_random_point_is_joined_within_100_ms() -> None:
    numbers = random.Random(5)
    data = leat.InMemory(x=np.zeros((3000, 16), np.int32))
    took = []
    for i in range(RANDOM_POINTS):
        feed = (
            slow_feed(workers=2)
            if i % 4 == 0
            else leat.Prefetcher(data, "cpu", batch_size=50, framework="numpy", workers=1 + i % 3)
        )
        took.append(leave_at(feed, 0.001 + numbers.random() * 0.03))
    took.sort()
    assert took[len(took) // 2] < 0.100, took
    assert took[-1] < 1.0, took
