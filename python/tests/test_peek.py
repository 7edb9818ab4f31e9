"""peek(): a look at the batch that comes next, without an effect; and loops that only looked."""

import gc
import json
import logging
import os
import re
import threading
import types
from collections.abc import Callable
from typing import Any

import leat
import leat.frameworks
import pytest
from samples import feed_of_numbers
from slow import slow_feed

BATCHES = 10


def is_batch(batch: leat.Batch, epoch: int, index: int) -> bool:
    return (batch.epoch, batch.index) == (epoch, index) and batch["x"].tolist() == list(range(8 * index, 8 * index + 8))


def rest_of(feed: leat.Prefetcher) -> list[tuple[int, int]]:
    """What a run that resumes from its state is given until the end of epoch 1."""
    other = feed_of_numbers()
    other.load_state_dict(feed.state_dict())
    return [(batch.epoch, batch.index) for epoch in range(other.next_epoch, 2) for batch in other.epoch(epoch)]


def all_from(epoch: int, index: int) -> list[tuple[int, int]]:
    return [(e, i) for e in range(2) for i in range(BATCHES) if (e, i) >= (epoch, index)]


def test_a_look_before_the_first_loop_changes_nothing() -> None:
    feed = feed_of_numbers()
    for _ in range(2):
        batch = feed.peek()
        assert is_batch(batch, 0, 0) and batch.copied and batch.size == 8
        assert (feed.next_epoch, feed.copies, feed.stats().batches, len(feed.epoch(0))) == (0, 0, 0, BATCHES)
        assert rest_of(feed) == all_from(0, 0)
    seen = [(b.epoch, b.index) for epoch in range(feed.next_epoch, 2) for b in feed.epoch(epoch)]
    assert seen == all_from(0, 0)
    assert is_batch(batch, 0, 0), "the copy stays as it is"
    assert feed.copies == 0


@pytest.mark.parametrize("options", [{}, {"max_leases": 2}, {"delivery": "as_completed", "workers": 3}])
def test_looks_within_a_loop_show_the_batch_that_comes(options: dict[str, Any]) -> None:
    feed = feed_of_numbers(**options)
    for epoch in range(2):
        looks = [feed.peek().index]
        seen = []
        for batch in feed:
            seen.append(batch.index)
            assert is_batch(batch, epoch, batch.index)
            if len(seen) < BATCHES:
                look = feed.peek()
                assert is_batch(look, epoch, look.index) and feed.peek().index == look.index
                looks.append(look.index)
            assert rest_of(feed) == [one for one in all_from(epoch, 0) if one not in [(epoch, i) for i in seen]]
        assert seen == looks
        assert sorted(seen) == list(range(BATCHES))
    assert feed.stats().batches == 2 * BATCHES - 1 or feed.stats().batches == 2 * BATCHES


def test_behind_an_epochs_last_batch_comes_the_next_epoch() -> None:
    feed = feed_of_numbers()
    loop = iter(feed)
    for _ in range(BATCHES):
        batch = next(loop)
    assert is_batch(feed.peek(), 1, 0)
    assert rest_of(feed) == all_from(1, 0), "the batch in hand counts, once the body ends"
    assert rest_of_without_the_batch_in_hand(feed) == BATCHES - 1
    assert next(loop, None) is None
    assert rest_of(feed) == all_from(1, 0)
    del batch
    assert [b.epoch for b in feed] == [1] * BATCHES
    assert is_batch(feed.peek(), 2, 0)


def rest_of_without_the_batch_in_hand(feed: leat.Prefetcher) -> int:
    state = json.loads(feed.state_dict(in_hand=False)["state"])
    return sum(end - first for one in state["epochs"] for first, end in one["batches"])


def test_an_exception_after_a_look_does_not_count_the_batch_in_hand() -> None:
    feed = feed_of_numbers()
    with pytest.raises(KeyError):
        for batch in feed:
            feed.peek()
            if batch.index == 4:
                raise KeyError
    assert rest_of(feed) == all_from(0, 4)


@pytest.mark.parametrize("epochs", [[0, 1], [1, 0], [1], [0, 0]])
@pytest.mark.parametrize("looks", [0, 1])
def test_a_look_leaves_the_rest_of_a_resumed_epoch(epochs: list[int], looks: int) -> None:
    first = feed_of_numbers()
    for batch in first:
        if batch.index == 3:
            break
    feed = feed_of_numbers()
    feed.peek()  # of what the state replaces
    feed.load_state_dict(first.state_dict())
    for _ in range(looks):
        assert is_batch(feed.peek(), 0, 4)
        assert (feed.next_epoch, len(feed.epoch(0))) == (0, 6)
    for i, epoch in enumerate(epochs):
        begin = 4 if epoch == 0 and 0 not in epochs[:i] else 0
        assert [b.index for b in feed.epoch(epoch)] == list(range(begin, BATCHES))


def test_a_look_leaves_the_state_of_an_epoch_that_was_left() -> None:
    feed = feed_of_numbers()
    for batch in feed.epoch(0):
        if batch.index == 3:
            break
    for _ in range(2):
        assert rest_of(feed) == all_from(0, 4)
        feed.peek()
    assert [batch.epoch for batch in feed] == [1] * BATCHES
    with pytest.raises(KeyError):
        for batch in feed.epoch(0):
            if batch.index == BATCHES - 1:
                before = [feed.state_dict(in_hand=counts) for counts in (True, False)]
                feed.peek()  # of the next epoch
                assert before == [feed.state_dict(in_hand=counts) for counts in (True, False)]
                raise KeyError
    assert before[1] == feed.state_dict()
    del batch


def test_the_last_body_may_look_though_a_state_was_loaded() -> None:
    feed = feed_of_numbers()
    state = feed.state_dict()
    for batch in feed:
        if batch.index == 0:
            feed.load_state_dict(state)
        if batch.index == BATCHES - 1:
            assert is_batch(feed.peek(), 0, 0)
    assert rest_of(feed) == all_from(0, 0)


def test_a_look_is_not_in_the_state_of_a_loop_over_another_epoch() -> None:
    states = []
    for looks in (False, True):
        feed = feed_of_numbers()
        if looks:
            feed.peek()
        for batch in feed.epoch(5):
            if batch.index == 3:
                states.append(feed.state_dict())
                break
    assert states[0] == states[1]


def test_a_loop_over_another_epoch_begins_anew() -> None:
    feed = feed_of_numbers()
    assert is_batch(feed.peek(), 0, 0)
    assert [b.epoch for b in feed.epoch(5)] == [5] * BATCHES
    assert is_batch(feed.peek(), 6, 0)
    with feed.epoch(6) as batches:
        assert [b.index for b in batches] == list(range(BATCHES))
        assert is_batch(feed.peek(), 7, 0)


def test_what_cannot_be_looked_at_is_an_error() -> None:
    feed = feed_of_numbers(batch_size=100, last_batch="drop")
    for _ in range(2):
        with pytest.raises(leat.Error, match="epoch 0 has no batch to peek at"):
            feed.peek()
    assert list(feed) == []
    feed = feed_of_numbers()
    loop = iter(feed)
    feed.peek()
    feed.close()
    with pytest.raises(leat.Error, match="the feed was closed"):
        feed.peek()
    del loop
    with pytest.raises(leat.Error, match="the feed was closed"):
        feed.peek()
    feed = feed_of_numbers(on_escape="raise", max_leases=2)
    batch = next(iter(feed))
    with pytest.raises(leat.TooManyLeases):
        feed.peek()
    batch.release()
    assert is_batch(feed.peek(), 1, 0)


def test_while_a_look_is_under_way_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, copy, refused = feed_of_numbers(), leat.frameworks._Numpy.copy, []

    def meanwhile(self: Any, tensor: leat.Tensor) -> Any:  # as another thread, or a signal handler
        for ask in (feed.peek, lambda: iter(feed)):
            with pytest.raises(leat.Error, match="a feed has one loop at a time"):
                ask()
            refused.append(ask)
        return copy(self, tensor)

    monkeypatch.setattr(leat.frameworks._Numpy, "copy", meanwhile)
    assert is_batch(feed.peek(), 0, 0)
    assert len(refused) == 2
    assert is_batch(next(iter(feed)), 0, 0)


def test_an_interrupted_look_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Any, tensor: leat.Tensor) -> Any:
        raise KeyboardInterrupt

    feed = slow_feed(1_000_000, timeout=0.001)
    looks = []
    while not looks:
        try:
            looks.append(feed.peek())
        except leat.Timeout as error:
            assert "the next batch of epoch 0 did not come" in str(error)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(leat.frameworks._Numpy, "copy", interrupted)
        feed.peek()
    assert (feed.next_epoch, looks[0].index, feed.peek().index) == (0, 0, 0)
    assert next(iter(feed)).index == 0


def test_a_feed_that_was_looked_at_ends_with_its_last_name() -> None:
    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    feed_of_numbers().close()
    gc.collect()
    before = threads()
    gc.disable()
    try:
        feed = feed_of_numbers()
        feed.peek()
        assert threads() > before
        del feed
        assert threads() == before
    finally:
        gc.enable()


# What only looked.


def warnings_of(caplog: pytest.LogCaptureFixture, run: Callable[[], None]) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "leat"):
        run()
    return [record.getMessage() for record in caplog.records]


def test_a_loop_that_ends_after_its_first_batch_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def next_of_iter(feed: leat.Prefetcher) -> None:
        next(iter(feed))

    def break_at_once(feed: leat.Prefetcher) -> None:
        for _ in feed.epoch(0):
            break

    def block(feed: leat.Prefetcher) -> None:
        with feed.epoch(0) as batches:
            next(batches)

    def another_begins(feed: leat.Prefetcher) -> None:
        loop = iter(feed)
        next(loop)
        list(batch.index for batch in feed)

    def generator(feed: leat.Prefetcher) -> None:
        for _ in (batch for batch in feed):
            break

    for looks in (next_of_iter, break_at_once, block, another_begins, generator):
        feed = feed_of_numbers(max_leases=8)
        (text,) = warnings_of(caplog, lambda: [looks(feed) for _ in range(2)] and None)  # noqa: B023
        line = re.search(r"at (\S+):(\d+) has ended after its first batch, with 9 more to come", text)
        assert line is not None and line[1] == __file__, looks.__name__
        assert looks.__code__.co_firstlineno < int(line[2]) <= looks.__code__.co_firstlineno + 3
        assert "that batch counts as trained on" in text and "peek()" in text


def test_other_loops_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    def run() -> None:
        feed = feed_of_numbers()
        feed.peek()
        for _ in feed:
            pass
        for batch in feed:
            if batch.index == 1:
                break
        with pytest.raises(KeyError):
            for _ in feed:
                raise KeyError
        iter(feed)
        next(iter(feed_of_numbers(batch_size=100))), next(iter(feed_of_numbers()))  # with all that there was
        loop = iter(feed)
        next(loop)
        feed.load_state_dict(feed.state_dict())
        feed.peek()
        feed.close()

    assert warnings_of(caplog, run) == []


def installed(name: str, code: str) -> Any:
    """A module as of an installed package."""
    module = types.ModuleType(name)
    exec(compile(code, f"/usr/lib/python3/dist-packages/{name}.py", "exec"), module.__dict__)
    return module


def test_warnings_name_the_line_outside_installed_packages(caplog: pytest.LogCaptureFixture) -> None:
    bars = installed("bars", "def bar(of):\n    for one in of:\n        yield one\n")

    def look() -> None:
        feed = feed_of_numbers()
        for _ in bars.bar(feed):
            break

    def keep() -> None:
        feed = feed_of_numbers()
        list(bars.bar(leat.overlap(enumerate(map(lambda batch: batch, feed)))))

    for run, line in ((look, 2), (keep, 2)):
        (text,) = warnings_of(caplog, run)
        assert f"{__file__}:{run.__code__.co_firstlineno + line}" in text


def test_where_all_is_installed_the_innermost_line_is_named(caplog: pytest.LogCaptureFixture) -> None:
    code = "def look(feed):\n    for _ in feed:\n        break\n"
    feed = feed_of_numbers()
    look = installed("trainer", code).look
    thread = threading.Thread(target=look, args=(feed,))  # whose frames are the standard library's

    def run() -> None:
        thread.start()
        thread.join()

    (text,) = warnings_of(caplog, run)
    assert "at /usr/lib/python3/dist-packages/trainer.py:2 has ended" in text


def test_tqdm_with_enumerate_copies_nothing() -> None:
    tqdm = pytest.importorskip("tqdm")
    feed = feed_of_numbers()
    with open(os.devnull, "w") as nothing:
        for _, _ in tqdm.tqdm(enumerate(feed), file=nothing):
            pass
    assert feed.copies == 0
