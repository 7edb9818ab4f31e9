"""What was measured, what failed, and the trace of a loop."""

import json
import math
import pathlib
from typing import Any

import leat
import numpy as np
import pytest

BATCHES = 25


def feed_of(*, sample_every: int = 1, **options: Any) -> leat.Prefetcher:
    data = leat.InMemory(x=np.arange(100, dtype=np.float32))
    return leat.Prefetcher(
        data, "host", batch_size=4, framework="numpy", sample_every=sample_every, **options
    )


def run(feed: leat.Prefetcher) -> float:
    return sum(float(batch["x"].sum()) for batch in feed.epoch(0))


def test_before_a_loop_nothing_is_measured() -> None:
    stats = feed_of(workers=2, max_leases=3, prefetch_depth=2).stats()
    assert (stats.batches, stats.workers, stats.prefetch_depth, stats.device_slots) == (0, 2, 2, 4)
    assert not stats.is_measured
    assert not stats.reader.is_known
    assert stats.overlap_efficiency == stats.feed_efficiency == 0
    assert stats.what_if(workers=4).t_step == 0
    assert stats.decisions == []
    assert repr(stats).startswith("<leat.Stats of 0 batches: ")


def test_a_logger_gets_plain_figures_by_name() -> None:
    feed = feed_of()
    before = feed.stats().as_dict()
    run(feed)
    stats = feed.stats()
    figures = stats.as_dict()
    assert figures.keys() == before.keys()
    assert {type(value) for value in figures.values()} == {int, float, str}
    assert json.loads(json.dumps(figures)) == figures
    assert all(math.isfinite(value) for value in figures.values() if isinstance(value, float))
    assert figures["batches"] == BATCHES and figures["t_step"] == stats.t_step
    assert figures["step_p99"] == stats.step.p99 and figures["reader_starved"] == stats.reader.starved
    assert figures["bottleneck"] == stats.bottleneck()
    named = {name for name in dir(stats) if not name.startswith("_") and isinstance(getattr(stats, name), (int, float))}
    assert named - figures.keys() == {"is_measured", "t_c_is_upper_bound"}, "those that are bools"


def test_without_samples_no_copy_is_timed() -> None:
    feed = feed_of(sample_every=0)
    run(feed)
    assert (feed.stats().batches, feed.stats().timed_copies) == (BATCHES, 0)


def test_after_a_loop_the_figures_agree_with_each_other() -> None:
    feed = feed_of()
    run(feed)
    stats = feed.stats()
    assert stats.batches == BATCHES
    assert stats.batch_bytes == 16
    assert stats.is_measured
    assert stats.t_step > 0
    assert stats.sampled_steps > 0
    assert stats.timed_copies > 0
    assert stats.overlap_efficiency == pytest.approx(max(stats.t_c, stats.t_x) / stats.t_step)
    longest = max(stats.t_read * stats.devices / stats.workers, stats.t_x, stats.t_c)
    assert stats.feed_efficiency == pytest.approx(longest / stats.t_step)
    assert 0 <= stats.hidden_fraction <= 1
    assert stats.read_cpu_per_gb == pytest.approx(1e9 * stats.t_read_cpu / 16)
    assert stats.step.p50 <= stats.step.p99
    assert 0 <= stats.bubble.p50 <= stats.bubble.p99
    for shares in (stats.reader, stats.copier, stats.consumer):
        assert shares.is_known
        assert math.isclose(shares.busy + shares.starved + shares.blocked, 1, abs_tol=1e-6)
    assert stats.reordered == stats.most_overtaken == stats.failed_samples == stats.decided == 0


def test_every_figure_is_there_and_every_function_has_a_text() -> None:
    feed = feed_of()
    run(feed)
    stats = feed.stats()
    figures = [name for name in dir(stats) if not name.startswith("_")]
    assert {"t_read", "t_x", "t_c", "t_step", "t_step_error", "samples_per_second", "idle_ends"} <= set(figures)
    for name in figures:
        assert getattr(stats, name) is not None
    assert "reader" in stats.shares_table()
    assert " ".join(stats.bottleneck().split()) in " ".join(stats.table().split())
    assert repr(stats) == f"<leat.Stats of {BATCHES} batches: {stats.bottleneck()}>"
    assert "\n" not in repr(stats)
    assert stats._repr_html_().count("<pre>") == 1
    for part in (stats.reader, stats.step, stats.what_if()):
        assert repr(part).startswith(f"<leat.{type(part).__name__}")


def test_html_has_the_texts_escaped() -> None:
    feed = feed_of()
    run(feed)
    inside = feed.stats()._repr_html_().split("<pre>")[1].split("</pre>")[0]
    assert "<" not in inside
    assert "reader" in inside


def test_a_snapshot_does_not_change() -> None:
    feed = feed_of()
    run(feed)
    before = feed.stats()
    assert sum(1 for _ in feed.epoch(1)) == BATCHES
    assert before.batches == BATCHES
    assert feed.stats().batches == 2 * BATCHES


def test_a_prediction_says_what_would_limit_the_loop() -> None:
    feed = feed_of()
    run(feed)
    stats = feed.stats()
    unchanged = stats.what_if()
    assert unchanged.t_step == pytest.approx(stats.t_step)
    assert unchanged.gain == pytest.approx(0)
    more = stats.what_if(workers=8, device_slots=8, pinned_slots=16)
    assert 0 < more.t_step <= stats.t_step * (1 + 1e-9)
    assert more.gain >= 0
    limits = {"consumer", "link", "readers", "cpus", "device_slots", "pinned_slots"}
    assert {unchanged.limit, more.limit} <= limits
    with pytest.raises(TypeError, match="workers has to be an int, not 2.5"):
        stats.what_if(workers=2.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no argument worker; it has workers, device_slots, pinned_slots"):
        stats.what_if(worker=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="0 arguments by position"):
        stats.what_if(2)  # type: ignore[call-arg]


def test_samples_that_were_left_out_are_listed(tmp_path: pathlib.Path) -> None:
    tokens = np.arange(401, dtype=np.uint16)
    tokens[[25, 305]] = 60_000
    tokens.tofile(tmp_path / "a.bin")
    data = leat.TokenShards(tmp_path, sequence_length=10, vocabulary=5000)
    feed = leat.Prefetcher(
        data, "host", batch_size=8, order="sequential", framework="numpy", read_failures=leat.FailureBudget(2)
    )
    assert sum(batch.size for batch in feed.epoch(0)) == 38
    first, second = feed.failed_samples()
    assert (first.stage, first.epoch, first.batch, first.sample) == ("read", 0, 0, 2)
    assert (second.stage, second.epoch, second.batch, second.sample) == ("read", 0, 3, 30)
    assert "a.bin" in first.error
    assert repr(first).startswith("<leat.FailedSample 2 of epoch 0, batch 0, read: ")
    assert feed.stats().failed_samples == 2


def test_a_trace_has_the_batches_that_it_was_asked_for(tmp_path: pathlib.Path) -> None:
    trace = leat.Trace(skip=3, batches=5)
    assert "traceEvents" in json.loads(trace.json())
    feed = feed_of(trace=trace)
    run(feed)
    feed.close()
    recorded = trace.json()
    work = {event["args"]["batch"] for event in json.loads(recorded)["traceEvents"] if "batch" in event.get("args", {})}
    assert work == {3, 4, 5, 6, 7}
    trace.save(tmp_path / "t.json")
    assert (tmp_path / "t.json").read_text() == recorded
    assert trace.timeline(length=0.1).startswith("  no timeline: "), "no batch was used on a stream"
    with pytest.raises(ValueError, match="0 steps in 80 columns; it has at least 1 step"):
        trace.timeline(steps=0)
    with pytest.raises(ValueError, match="length has to be 0 to 1e9 seconds"):
        trace.timeline(length=float("nan"))


def test_a_trace_refuses_what_it_cannot_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="batches"):
        leat.Trace(batches=0)
    with pytest.raises(TypeError, match="batches has to be an int, not True"):
        leat.Trace(batches=True)
    with pytest.raises(leat.Error, match="nowhere"):
        leat.Trace().save(tmp_path / "nowhere" / "t.json")
    trace = leat.Trace()
    feed = feed_of(trace=trace)
    with pytest.raises(ValueError, match="trace"):
        feed_of(trace=trace)
    feed.close()
