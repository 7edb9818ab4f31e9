"""Tensors that outlive their step: no batch is overwritten, the loop goes on, memory does not grow."""

import logging
import os
import random
import re
import subprocess
import sys
import threading
from typing import Any

import leat
import numpy as np
import pytest
from samples import has_content, make_feed

FRAMEWORKS = (None, "numpy", "torch", "jax")


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str | None:
    name: str | None = request.param
    if name is not None:
        pytest.importorskip(name)
    return name


def test_tensors_kept_in_a_list_keep_their_content(framework: str | None) -> None:
    feed = make_feed(batches=60, framework=framework)
    kept = [(batch.index, batch["x"]) for batch in feed]
    assert [index for index, _ in kept] == list(range(60))
    for index, x in kept:
        assert has_content(x, index)
    assert feed.copies >= 57


def test_batches_kept_in_a_list_keep_their_content(framework: str | None) -> None:
    kept = list(make_feed(batches=60, framework=framework))
    assert [batch.copied for batch in kept] == [False] * 3 + [True] * 57
    for batch in kept:
        assert has_content(batch["x"], batch.index)


def test_a_plain_loop_copies_nothing(framework: str | None) -> None:
    feed = make_feed(batches=60, framework=framework)
    for batch in feed:
        assert not batch.copied
        assert has_content(batch["x"], batch.index)
        if framework == "jax":  # jax frees on threads of its own
            batch["x"].block_until_ready()
    assert feed.copies == 0


@pytest.mark.parametrize("seed", range(20))
def test_no_tensor_sees_another_batch_whatever_is_kept_for_how_long(framework: str | None, seed: int) -> None:
    rng = random.Random(seed)
    feed = make_feed(
        batches=40,
        framework=framework,
        max_leases=rng.randint(2, 6),
        prefetch_depth=rng.randint(1, 3),
        workers=rng.randint(1, 4),
    )
    kept: list[tuple[int, Any]] = []
    for batch in feed:
        for _ in range(rng.randint(0, 2)):
            kept.append((batch.index, rng.choice([batch, batch["x"]])))
        if rng.random() < 0.2:
            batch.release()
            kept = [(index, one) for index, one in kept if one is not batch]
        rng.shuffle(kept)
        for index, one in kept:
            assert has_content(one["x"] if isinstance(one, leat.Batch) else one, index)
        del kept[rng.randint(0, 8) :]


def test_a_lease_is_left_for_the_loop_however_small_max_leases_is(framework: str | None) -> None:
    for max_leases in (2, 3, 4):
        kept = list(make_feed(batches=20, max_leases=max_leases, framework=framework))
        assert sum(not batch.copied for batch in kept) == max_leases - 1


def test_one_warning_names_the_oldest_batch_its_tensors_and_its_line(caplog: pytest.LogCaptureFixture) -> None:
    feed = make_feed(batches=20)
    kept = []
    with caplog.at_level(logging.WARNING, "leat"):
        for batch in feed:
            kept.append(batch["y"])
            if batch.index == 0:
                kept.append(batch["x"])
            batch.release()
        for batch in feed:
            kept.append(batch["y"])
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("leat", "WARNING")
    text = record.getMessage()
    assert "batch 0 of epoch 0, asked for at " in text
    assert re.search(r"test_escapes\.py:\d+", text)
    assert "whose tensors x, y live" in text


def test_the_warning_says_that_a_batch_lives_without_a_tensor(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "leat"):
        list(make_feed())
    assert "which lives itself, without a tensor" in caplog.text


def test_raise_refuses_the_batch_and_the_loop_can_go_on() -> None:
    batches = iter(make_feed(on_escape="raise", max_leases=3))
    kept = [next(batches) for _ in range(2)]
    x = kept[0]["x"]
    with pytest.raises(leat.TooManyLeases, match=r"batch 0 of epoch 0, asked for at .*, whose tensor x lives") as caught:
        next(batches)
    assert "max_leases" in str(caught.value)
    assert [batch.index for batch in kept] == [0, 1]
    kept.clear()
    assert next(batches).index == 2
    assert has_content(x, 0)


@pytest.mark.parametrize("max_leases", [2, 3])
def test_an_exception_that_is_kept_keeps_no_lease(
    framework: str | None, max_leases: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from leat import frameworks

    adapter = {None: frameworks._Leat, "numpy": frameworks._Numpy, "torch": frameworks._Torch, "jax": frameworks._Jax}
    batches = iter(make_feed(batches=30, framework=framework, max_leases=max_leases))
    kept = [next(batches) for _ in range(max_leases - 1)]
    copy = adapter[framework].copy

    def fail(self: Any, tensor: Any) -> Any:
        copy(self, tensor)
        raise MemoryError

    errors = []
    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(adapter[framework], "copy", fail)
            with pytest.raises(MemoryError) as caught:
                next(batches)
        errors.append(caught)
        kept += [next(batches) for _ in range(5)]
    assert [batch.index for batch in kept] == list(range(max_leases + 14))
    assert all(has_content(batch["x"], batch.index) for batch in kept)
    lent = errors[0].tb.tb_next.tb_frame.f_locals["tensor"]
    with pytest.raises((BufferError, RuntimeError), match="lent for a copy, which has ended"):
        np.asarray(lent.copy())


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_batch_whose_copy_is_interrupted_comes_again(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    from leat import frameworks

    feed = make_feed(batches=20, framework="numpy", max_leases=3)
    batches = iter(feed)
    kept = [next(batches) for _ in range(3)]
    copy = frameworks._Numpy.copy
    calls = 0

    def interrupted(self: Any, tensor: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:  # the batch's second tensor
            raise error
        return copy(self, tensor)

    monkeypatch.setattr(frameworks._Numpy, "copy", interrupted)
    with pytest.raises(error):
        next(batches)
    assert feed.copies == 1
    state = feed.state_dict()
    kept += batches
    assert [batch.index for batch in kept] == list(range(20))
    assert all(has_content(batch["x"], batch.index) for batch in kept)
    feed.load_state_dict(state)
    assert next(iter(feed)).index == 3


def test_a_copied_batch_counts_and_keeps_no_slot() -> None:
    batches = iter(make_feed(batches=20, max_leases=2))
    first = next(batches)
    copies = [next(batches) for _ in range(10)]
    assert all(batch.copied for batch in copies)
    assert repr(copies[0]) == "<leat.Batch 1 of epoch 0: x int32 [8, 6], y int64 [8]; copied>"
    del first
    after = next(batches)
    assert not after.copied
    for batch in copies:
        assert has_content(batch["x"], batch.index)
        batch.release()
        with pytest.raises(ValueError, match="was released"):
            batch["x"]


def test_tensors_that_other_threads_drop_leave_the_content_of_others_alone() -> None:
    def check(kept: list[Any], index: int) -> None:
        if all(has_content(kept[0], index) for _ in range(20)):
            good.append(index)
        kept.clear()

    good: list[int] = []
    threads = []
    for batch in make_feed(batches=200, max_leases=4):
        threads.append(threading.Thread(target=check, args=([np.asarray(batch["x"])], batch.index)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert sorted(good) == list(range(200))


def run(script: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    folder = os.path.dirname(os.path.abspath(__file__))
    path = os.pathsep.join([os.path.dirname(os.path.dirname(leat.__file__)), folder])
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


FORK = """
import os, warnings, numpy as np
from samples import make_feed, has_content
warnings.simplefilter("ignore", DeprecationWarning)
batches = iter(make_feed(batches=40, max_leases=4))
batch, other = next(batches), next(batches)
array, capsule, copy = np.asarray(batch["x"]), other["x"].__dlpack__(), batch["y"].copy()
child = os.fork()
if child == 0:
    assert has_content(array, 0)
    batch.commit()
    other.release()
    del array, batch, other, capsule, copy
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert has_content(array, 0)
del capsule, other
for batch in batches:
    assert has_content(batch["x"], batch.index) and has_content(array, 0)
"""


def test_the_destructors_of_a_forked_child_do_nothing() -> None:
    done = run(FORK)
    assert (done.returncode, done.stderr) == (0, "")


EXIT = """
import sys, threading, numpy as np
import samples
feed = samples.make_feed(batches=100, max_leases=8)
batches = iter(feed)
batch = next(batches)
array = np.asarray(batch["x"])
tensor = next(batches)["y"]
samples.capsule = tensor.__dlpack__()
cycle = [array]; cycle.append(cycle)
sys.modules["kept"] = next(batches)
class AtExit:
    def __del__(self, tensor=tensor): tensor.copy()
at_exit = AtExit()
{more}
"""


@pytest.mark.parametrize(
    "more",
    [
        "",
        "import torch; kept = torch.utils.dlpack.from_dlpack(tensor); grad = kept.float()",
        "import jax; kept = jax.dlpack.from_dlpack(tensor)",
        "raise SystemExit(0)",
        "threading.Thread(target=lambda: threading.Event().wait(), daemon=True, args=()).start()",
    ],
)
def test_tensors_may_live_until_the_interpreter_ends(more: str) -> None:
    for module in ("torch", "jax"):
        if module in more:
            pytest.importorskip(module)
    done = run(EXIT.replace("{more}", more))
    assert (done.returncode, done.stderr) == (0, "")
