"""Which batches count as trained on, and resuming without them."""

import gc
import itertools
import json
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import leat
import pytest
from samples import feed_of_numbers
from slow import MANY, slow_feed

BATCHES = 10


@pytest.fixture
def feed() -> leat.Prefetcher:
    return feed_of_numbers()


def counted(feed: leat.Prefetcher, epoch: int = 0, in_hand: bool = True) -> list[int]:
    """The batches of an epoch that count."""
    state = json.loads(feed.state_dict(in_hand=in_hand)["state"])
    of_epoch = [one["batches"] for one in state["epochs"] if one["epoch"] == epoch]
    return [i for first, end in itertools.chain(*of_epoch) for i in range(first, end)]


class Left(Exception):
    pass


def test_a_batch_counts_once_the_loop_asks_for_the_next_one(feed: leat.Prefetcher) -> None:
    for batch in feed.epoch(0):
        assert counted(feed, in_hand=False) == list(range(batch.index))
        assert counted(feed) == list(range(batch.index + 1)), "the batch in hand"
    assert counted(feed) == list(range(BATCHES))


def test_return_counts_the_batch_in_hand(feed: leat.Prefetcher) -> None:
    def train() -> int:
        for batch in feed.epoch(0):
            if batch.index == 3:
                return int(batch.index)
        return -1

    assert train() == 3
    assert counted(feed) == [0, 1, 2, 3]


WRAPPERS: dict[str, Callable[[Iterable[Any]], Iterable[Any]]] = {
    "alone": lambda loop: loop,
    "enumerate": enumerate,
    "zip": lambda loop: zip(loop, itertools.count()),
    "zip, as the second": lambda loop: zip(itertools.count(), loop),
    "islice": lambda loop: itertools.islice(loop, 7),
    "map": lambda loop: map(lambda batch: batch, loop),
    "enumerate of zip of map": lambda loop: enumerate(zip(map(lambda one: one, loop), range(99))),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("error", [Left, KeyboardInterrupt, SystemExit, StopIteration])
def test_an_exception_does_not_count_the_batch_in_hand(
    feed: leat.Prefetcher, wrapper: str, error: type[BaseException]
) -> None:
    with pytest.raises(error):
        for i, _ in enumerate(WRAPPERS[wrapper](feed.epoch(0))):
            if i == 3:
                raise error
    assert counted(feed) == [0, 1, 2]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_break_counts_below_each_of_them(feed: leat.Prefetcher, wrapper: str) -> None:
    for i, _ in enumerate(WRAPPERS[wrapper](feed.epoch(0))):
        if i == 3:
            break
    assert counted(feed) == [0, 1, 2, 3]


def test_an_exception_that_the_loops_own_function_handles_does_not_count(
    feed: leat.Prefetcher,
) -> None:
    try:
        for batch in feed.epoch(0):
            if batch.index == 3:
                raise Left
    except Left:
        assert counted(feed) == [0, 1, 2]
    assert counted(feed) == [0, 1, 2]


def progress(loop: Iterable[Any]) -> Iterator[Any]:
    yield from (one for one in loop)


@pytest.mark.parametrize("by_exception", [False, True])
def test_below_a_generator_each_end_counts_the_batch_in_hand(
    feed: leat.Prefetcher, by_exception: bool
) -> None:
    try:
        for batch in progress(feed.epoch(0)):
            if batch.index == 3:
                if by_exception:
                    raise Left
                break
    except Left:
        pass
    gc.collect()
    assert counted(feed) == [0, 1, 2, 3]


def test_an_exception_in_a_generators_body_does_not_count(feed: leat.Prefetcher) -> None:
    def train() -> Iterator[int]:
        for batch in feed.epoch(0):
            if batch.index == 3:
                raise Left
            yield batch.index

    with pytest.raises(Left):
        list(train())
    assert counted(feed) == [0, 1, 2]


def test_an_iterator_with_a_name_counts_when_it_is_dropped(feed: leat.Prefetcher) -> None:
    loop = iter(feed.epoch(0))
    with pytest.raises(Left):
        for batch in loop:
            if batch.index == 3:
                raise Left
    assert counted(feed, in_hand=False) == [0, 1, 2]
    del loop
    assert counted(feed, in_hand=False) == [0, 1, 2, 3]


def test_an_iterator_with_a_name_counts_when_another_loop_begins(feed: leat.Prefetcher) -> None:
    loop = iter(feed.epoch(0))
    batch = next(loop)
    other = iter(feed.epoch(1))
    # The epoch that was left is over: nothing of it waits for a decision.
    assert [one["epoch"] for one in json.loads(feed.state_dict()["state"])["epochs"]] == [1]
    del batch, loop, other


@pytest.mark.parametrize("by_exception", [False, True])
def test_a_with_block_decides_at_its_end(feed: leat.Prefetcher, by_exception: bool) -> None:
    try:
        with feed.epoch(0) as batches:
            for batch in progress(batches):
                if batch.index == 3:
                    break
            assert counted(feed, in_hand=False) == [0, 1, 2]
            if by_exception:
                raise Left
    except Left:
        pass
    assert counted(feed) == ([0, 1, 2] if by_exception else [0, 1, 2, 3])


def test_a_loop_in_a_with_block_goes_on_where_it_was_left(feed: leat.Prefetcher) -> None:
    seen = []
    with feed.epoch(0) as batches:
        for batch in batches:
            seen.append(batch.index)
            if batch.index == 3:
                break
        for batch in batches:
            seen.append(batch.index)
        assert counted(feed) == list(range(BATCHES))
    assert seen == list(range(BATCHES))
    with pytest.raises(StopIteration):
        next(batches)


def test_after_its_with_block_a_loop_has_ended(feed: leat.Prefetcher) -> None:
    with feed.epoch(0) as batches:
        next(batches)
    with pytest.raises(leat.Error, match="its with block has ended"):
        next(batches)
    assert counted(feed) == [0]


def test_an_exception_through_loop_and_block_does_not_count(feed: leat.Prefetcher) -> None:
    with pytest.raises(Left), feed.epoch(0) as batches:
        for batch in batches:
            if batch.index == 3:
                raise Left
    assert counted(feed) == [0, 1, 2]


def test_commit_counts_at_once(feed: leat.Prefetcher) -> None:
    with pytest.raises(Left):
        for batch in feed.epoch(0):
            if batch.index == 3:
                batch.commit()
                batch.commit()
                assert counted(feed, in_hand=False) == [0, 1, 2, 3]
                raise Left
    assert counted(feed) == [0, 1, 2, 3]


def test_commit_counts_also_after_the_loop_was_left(feed: leat.Prefetcher) -> None:
    with pytest.raises(Left):
        for batch in feed.epoch(0):
            raise Left
    assert counted(feed) == []
    batch.commit()
    assert counted(feed) == [0]


def test_release_does_not_count(feed: leat.Prefetcher) -> None:
    with pytest.raises(Left):
        for batch in feed.epoch(0):
            batch.release()
            assert counted(feed, in_hand=False) == []
            raise Left
    assert counted(feed) == []


def test_zip_with_a_shorter_partner_counts_the_batch_that_it_drops(feed: leat.Prefetcher) -> None:
    assert len(list(zip(feed.epoch(0), range(3)))) == 3
    assert counted(feed) == [0, 1, 2, 3]
    feed = feed_of_numbers()
    assert len(list(zip(range(3), feed.epoch(0)))) == 3
    assert counted(feed) == [0, 1, 2]


def test_batches_that_are_held_count_once_the_loop_goes_on(feed: leat.Prefetcher) -> None:
    held = []
    for batch in feed.epoch(0):
        held.append(batch)
        if batch.index == 5:
            break
    assert counted(feed) == [0, 1, 2, 3, 4, 5]


def test_a_state_takes_effect_with_the_next_iter(feed: leat.Prefetcher) -> None:
    for batch in feed.epoch(2):
        if batch.index == 3:
            state = feed.state_dict()
    loop = iter(feed.epoch(3))
    next(loop)
    feed.load_state_dict(state)
    assert next(loop).index == 1
    assert feed.next_epoch == 2
    assert feed.state_dict() == state
    epoch = feed.epoch(2)
    assert len(epoch) == BATCHES - 4
    assert [batch.index for batch in feed] == list(range(4, BATCHES))
    with pytest.raises(leat.Error, match="with the state that was loaded"):
        next(loop)
    assert feed.next_epoch == 3
    assert len(list(feed.epoch(2))) == BATCHES  # the epoch anew


def test_a_state_may_be_loaded_again_and_again(feed: leat.Prefetcher) -> None:
    state = feed.state_dict()
    for _ in range(3):
        for batch in feed:
            if batch.index == 2:
                break
        feed.load_state_dict(state)
    assert [batch.index for batch in feed] == list(range(BATCHES))


@pytest.mark.parametrize("workers", [1, 3])
def test_resume_with_other_workers_delivers_each_sample_once(workers: int) -> None:
    feed = feed_of_numbers(order="shuffled", seed=4, workers=2)
    seen = []
    for batch in feed:
        seen += batch["x"].tolist()
        if batch.index == 4:
            break
    other = feed_of_numbers(order="shuffled", seed=4, workers=workers, resume=feed.state_dict())
    assert other.next_epoch == 0
    for batch in other:
        seen += batch["x"].tolist()
    assert sorted(seen) == list(range(8 * BATCHES))


def test_resume_with_other_ranks_delivers_each_sample_once() -> None:
    seen = []
    states = []
    for rank in range(2):  # the ranks stop at other batches
        feed = feed_of_numbers(order="shuffled", seed=4, rank=rank, world_size=2)
        for batch in feed:
            seen += batch["x"].tolist()
            if batch.index == 3 + rank:
                break
        states.append(feed.state_dict())
    merged = json.loads(json.dumps(leat.merge_states(states)))
    for rank in range(4):
        feed = feed_of_numbers(order="shuffled", seed=4, rank=rank, world_size=4)
        feed.load_state_dict(merged)
        for batch in feed:
            seen += batch["x"][: batch.size].tolist()
    assert sorted(seen) == list(range(8 * BATCHES))


def test_a_state_survives_json_and_pickle(feed: leat.Prefetcher) -> None:
    for batch in feed.epoch(0):
        if batch.index == 3:
            break
    state = feed.state_dict()
    for copy in (
        json.loads(json.dumps(state, sort_keys=True, indent=2)),
        pickle.loads(pickle.dumps(state)),
    ):
        assert copy == state
        other = feed_of_numbers()
        other.load_state_dict(copy)
        assert next(iter(other)).index == 4


@pytest.mark.parametrize(
    "options",
    [
        {"samples": 72},
        {"batch_size": 4},
        {"order": "shuffled"},
        {"order": "shuffled", "seed": 7},
        {"last_batch": "drop"},
    ],
)
def test_the_state_of_another_run_is_refused_at_once(options: dict[str, Any]) -> None:
    state = feed_of_numbers(**options).state_dict()
    feed = feed_of_numbers(seed=5, **({"order": "shuffled"} if "seed" in options else {}))
    loop = iter(feed)
    next(loop)
    with pytest.raises(ValueError, match="not"):
        feed.load_state_dict(state)
    assert next(loop).index == 1  # as if nothing had been
    assert counted(feed) == [0, 1]
    with pytest.raises(ValueError, match="not"):
        feed_of_numbers(seed=5, resume=state)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        (None, TypeError),
        ("text", TypeError),
        ({}, ValueError),
        ({"epoch": 3, "model": {}}, ValueError),
        ({"leat": 1, "state": None}, ValueError),
        ({"leat": 1, "state": '{"leat_state":2}'}, ValueError),
    ],
)
def test_what_is_no_state_is_refused(
    feed: leat.Prefetcher, state: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        feed.load_state_dict(state)
    with pytest.raises(error):
        leat.merge_states([state])
    assert next(iter(feed)).index == 0


@pytest.mark.parametrize("version", [0, 2, True, "1", None])
def test_a_state_of_another_version_is_refused(feed: leat.Prefetcher, version: object) -> None:
    with pytest.raises(ValueError, match=f"has version {version!r}"):
        feed.load_state_dict(feed.state_dict() | {"leat": version})


def test_a_state_that_was_cut_off_is_refused(feed: leat.Prefetcher) -> None:
    state = feed.state_dict()
    for length in range(0, len(state["state"]), 7):
        with pytest.raises(ValueError, match="state"):
            feed.load_state_dict({"leat": 1, "state": state["state"][:length]})


def test_of_a_loop_that_was_interrupted_all_other_batches_are_left() -> None:
    feed = feed_of_numbers(order="shuffled", seed=3)
    seen: list[int] = []
    for stop in (2, 5, 8):
        with pytest.raises(Left):
            for batch in feed:
                if len(seen) >= 8 * stop:
                    raise Left
                seen += batch["x"].tolist()
        state = feed.state_dict()
        feed = feed_of_numbers(order="shuffled", seed=3)
        feed.load_state_dict(state)
    for batch in feed:
        seen += batch["x"].tolist()
    assert sorted(seen) == list(range(8 * BATCHES))


def test_after_an_epoch_that_is_complete_the_next_one_comes() -> None:
    feed = feed_of_numbers()
    assert sum(1 for _ in feed) == BATCHES
    state = feed.state_dict()
    feed = feed_of_numbers()
    feed.load_state_dict(state)
    assert feed.next_epoch == 1
    assert {batch.epoch for batch in feed} == {1}
    feed = feed_of_numbers(resume=state)
    assert len(feed.epoch(0)) == 0 and list(feed.epoch(0)) == []


def test_ranks_that_have_only_loaded_a_state_tell_their_own() -> None:
    state = feed_of_numbers().state_dict()
    ranks = [feed_of_numbers(rank=rank, world_size=2) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(state)
    next(iter(ranks[0])).commit()
    merged = leat.merge_states([rank.state_dict() for rank in ranks])
    feed = feed_of_numbers(resume=merged)
    assert sum(batch.size for batch in feed) == 8 * BATCHES - 4


def loaded_while_it_reads() -> leat.Prefetcher:
    """A feed whose next loop has to wait for a read before the state that was loaded takes effect."""
    feed = slow_feed(5 * MANY)  # longer than a slice of a wait, in which no signal is handled
    iter(feed)  # begins to read, and is dropped
    feed.load_state_dict(feed.state_dict())
    return feed


def during_the_wait(
    call: Callable[[leat.Prefetcher], Any], is_in_time: Callable[[Any], bool] = lambda result: True
) -> tuple[leat.Prefetcher, Any]:
    """A feed, and what iter(feed) returns or raises if a signal handler makes ``call`` meanwhile.

    ``call`` returns False if it came too early; ``is_in_time`` tells by the result."""
    for attempt in range(200):  # the read may have ended before the signal comes
        feed = loaded_while_it_reads()
        done: list[bool] = []

        def handle(number: int, frame: Any, feed: Any = feed, done: Any = done) -> None:
            if call(feed) is not False:
                done.append(True)

        before = signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.001 * (1 + attempt % 8))
        try:
            result: Any = iter(feed)
        except leat.Error as error:
            result = error
        finally:
            in_time = bool(done)
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        if in_time and is_in_time(result):
            return feed, result
    pytest.fail("no signal came in time")


def test_a_signal_handler_may_take_the_state_while_a_loaded_one_takes_effect() -> None:
    seen: list[Any] = []
    _, loop = during_the_wait(lambda feed: seen.append(feed.state_dict()))
    assert [one["batches"] for one in json.loads(seen[-1]["state"])["epochs"]] == [[]]
    assert [next(loop).index for _ in range(2)] == [0, 1]


def test_a_loop_that_a_signal_handler_begins_meanwhile_is_refused() -> None:
    refused: list[str] = []

    def begin(feed: leat.Prefetcher) -> bool:
        try:
            iter(feed)
        except leat.Error as error:
            refused.append(str(error))
        return bool(refused)

    _, loop = during_the_wait(begin)
    assert "a feed has one loop at a time" in refused[-1]
    assert [next(loop).index for _ in range(2)] == [0, 1]


def test_a_feed_that_is_closed_while_a_loaded_state_takes_effect_stays_closed() -> None:
    feed, ended = during_the_wait(leat.Prefetcher.close, lambda result: isinstance(result, leat.Error))
    assert "the feed was closed" in str(ended)
    with pytest.raises(leat.Error, match="the feed was closed"):
        iter(feed)


def test_threads_may_use_a_feed_while_a_loaded_state_takes_effect() -> None:
    for use in (iter, leat.Prefetcher.state_dict, leat.Prefetcher.close):
        feed = loaded_while_it_reads()
        together = threading.Barrier(3)
        wrong: list[BaseException] = []

        def run(use: Any = use, feed: Any = feed, together: Any = together, wrong: Any = wrong) -> None:
            together.wait()
            try:
                use(feed)
            except leat.Error as error:
                if not any(text in str(error) for text in ("one loop at a time", "was closed", "has ended")):
                    wrong.append(error)
            except BaseException as error:  # noqa: BLE001
                wrong.append(error)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        together.wait()
        try:
            iter(feed)
        except leat.Error as error:
            assert any(text in str(error) for text in ("one loop at a time", "was closed", "has ended")), error
        for thread in threads:
            thread.join()
        assert not wrong
