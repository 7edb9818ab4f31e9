"""A feed's batches, its escapes and its figures."""

import io
import logging
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import leat
import numpy as np
import pytest


def make_feed(samples: int = 80, **options: Any) -> leat.Prefetcher:
    data = leat.InMemory(x=np.arange(samples, dtype=np.int32), y=np.ones((samples, 2), np.float32))
    settings: dict[str, Any] = {"batch_size": 8, "framework": "numpy", "order": "sequential"}
    return leat.Prefetcher(data, "cpu", **(settings | options))


def test_a_loop_gives_the_samples_in_order() -> None:
    for i, batch in enumerate(make_feed(84)):
        assert batch["x"].tolist() == list(range(8 * i, min(8 * i + 8, 84)))
        assert (batch.epoch, batch.index) == (0, i)
        assert batch["y"].shape == (batch.size, 2)
    assert i == 10


def test_lengths_are_known() -> None:
    feed = make_feed()
    assert len(feed) == len(feed.epoch(4)) == 10
    loop = iter(feed)
    lengths = [len(loop) for _ in loop]
    assert lengths == list(range(9, -1, -1))
    assert len(loop) == 0


def test_reprs_say_what_it_is() -> None:
    feed = make_feed()
    assert "on host:0: 10 batches of 8 an epoch, framework 'numpy'" in repr(feed)
    assert repr(feed.epoch(3)) == "<leat.Epoch 3: 10 batches>"
    assert feed._repr_html_().startswith("<pre>&lt;leat.Prefetcher of ")


def test_an_epoch_has_a_number_from_0_on() -> None:
    feed = make_feed()
    assert feed.epoch(5).number == 5
    with pytest.raises(ValueError, match="there is no epoch -1"):
        feed.epoch(-1)
    with pytest.raises(ValueError, match="there is no epoch"):
        feed.epoch(2**64 - 1)
    for wrong in (True, 1.0, "0", None):
        with pytest.raises(TypeError, match="epoch"):
            feed.epoch(wrong)  # type: ignore[arg-type]


def test_stats_count_what_was_given_back() -> None:
    feed = make_feed(sample_every=1)
    for batch in feed:
        batch["x"]
    del batch
    assert feed.stats().batches == 10
    assert "Tread" in feed.report()
    assert feed.failed_samples() == []
    feed.reset_stats()
    assert feed.stats().batches == 0


def test_a_step_ends_when_the_next_batch_is_asked_for() -> None:
    # The loop holds each batch for two steps more, in which the work on the next ones is done. None
    # of that is work on this one: Tc is at most a step.
    feed = make_feed(max_leases=5, sample_every=1)
    work = np.arange(200_000)[::-1].copy()
    held: list[Any] = []
    for epoch in range(3):
        for batch in feed.epoch(epoch):
            held = [*held[-1:], batch]
            np.sort(work)
    del held, batch
    assert feed.copies == 0
    stats = feed.stats()
    assert stats.sampled_steps > 10
    assert 0 < stats.t_c < 1.2 * stats.t_step  # as a lease ends, it would be twice as long


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_feed_with_a_trace_resumes(is_begun: bool) -> None:
    trace = leat.Trace()
    feed = make_feed(trace=trace)
    state = feed.state_dict()
    if is_begun:
        list(feed)
    for _ in range(2):
        feed.load_state_dict(state)
        assert [batch.index for batch in feed] == list(range(10))
    assert '"epoch":0,"batch":9' in trace.json()


def test_the_report_has_the_copies() -> None:
    feed = make_feed()
    assert "copied" not in feed.report()
    list(feed)
    assert f"{feed.copies} batches were copied" in feed.report()


def test_below_leat_overlap_the_line_of_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    list(leat.overlap(leat.overlap(make_feed())))
    (record,) = (one for one in caplog.records if one.levelname == "WARNING")
    assert "test_prefetcher.py:" in record.getMessage()


def test_a_program_and_its_data_may_have_names_in_any_bytes(tmp_path: pathlib.Path) -> None:
    folder = os.fsdecode(bytes(tmp_path) + b"/caf\xe9")
    os.mkdir(folder)
    np.arange(80, dtype=np.uint16).tofile(f"{folder}/tokens.bin")
    script = f"""
import leat
feed = leat.Prefetcher(leat.TokenShards({folder!r} + "/tokens.bin", sequence_length=4), "cpu", batch_size=2)
kept = list(feed)
print(len(kept), repr(feed), feed.copies)
"""
    with open(f"{folder}/program.py", "w") as file:
        file.write(script)
    path = os.path.dirname(os.path.dirname(leat.__file__))
    done = subprocess.run(
        [sys.executable, f"{folder}/program.py"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        errors="surrogateescape",
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"10 <leat\.Prefetcher of tokens of .*caf.*tokens\.bin on host:0", done.stdout)
    assert re.search(r"asked for at .*caf.*program\.py:4", done.stderr)


class WithoutInit(leat.Prefetcher):
    def __init__(self) -> None:
        pass


@pytest.mark.filterwarnings("ignore:nanobind")
@pytest.mark.parametrize(
    "make", [WithoutInit, lambda: leat.Prefetcher.__new__(leat.Prefetcher)], ids=["subclass", "new"]
)
def test_a_prefetcher_without_init_raises(make: Any) -> None:
    feed = make()
    for use in (iter, len, repr, lambda feed: feed.epoch(0), lambda feed: feed.stats()):
        with pytest.raises(TypeError):
            use(feed)


def test_a_tensor_that_no_batch_made_has_no_buffer() -> None:
    with pytest.raises(BufferError, match="no memory"):
        memoryview(leat.Tensor.__new__(leat.Tensor))


def test_released_batches_are_not_copied() -> None:
    feed = make_feed()
    kept = []
    for batch in feed:
        batch.release()
        kept.append(batch)
    assert feed.copies == 0


def test_a_file_that_is_cut_off_ends_the_loop_with_one_clear_error(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "records.bin"
    file.write_bytes(bytes(8000 * 4096))
    data = leat.FixedRecords(file, fields=[leat.Field("x", np.uint8, (4096,))])
    feed = leat.Prefetcher(data, "cpu", batch_size=100, order="sequential", framework="numpy")
    loop = iter(feed)
    batch = next(loop)
    os.truncate(file, 4096 * 4000)
    with pytest.raises(leat.SampleError) as caught:
        for batch in loop:
            batch["x"]
    assert "epoch 0, batch " in str(caught.value)
    assert str(caught.value).count(f"cannot read {file}") == 1
    assert caught.value.__cause__ is None, "it would say the same again"
    with pytest.raises(leat.Error, match="stopped because of an earlier error"):
        next(loop)
    with pytest.raises(leat.Error, match="stopped because of an earlier error"):
        next(iter(feed))


def test_tqdm_knows_how_many_batches_come() -> None:
    tqdm = pytest.importorskip("tqdm").tqdm
    for whole in (lambda feed: feed, lambda feed: feed.epoch(2), iter):
        with tqdm(whole(make_feed()), disable=False, file=io.StringIO()) as bar:
            assert bar.total == 10
            assert len(list(bar)) == 10


def test_two_leases_copy_every_second_batch_of_a_plain_loop() -> None:
    feed = make_feed(max_leases=2)
    for batch in feed:
        batch["x"]
    assert feed.copies == 5


def test_an_error_of_a_log_handler_loses_no_batch() -> None:
    class Broken(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise OSError("the disk is full")

    feed = make_feed(max_leases=3)
    loop = iter(feed)
    kept = [next(loop), next(loop)]
    broken = Broken()
    logging.getLogger("leat").addFilter(broken)
    try:
        with pytest.raises(OSError, match="the disk is full"):
            next(loop)
    finally:
        logging.getLogger("leat").removeFilter(broken)
    kept.append(next(loop))
    assert [one.index for one in kept] == [0, 1, 2]

