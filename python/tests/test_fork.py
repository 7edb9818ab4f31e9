"""After os.fork(): the child's calls raise, its destructors do nothing, and the parent goes on."""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import leat
import pytest
from samples import feed_of_numbers
from slow import slow_feed


def in_child(body: Callable[[], None]) -> None:
    """Runs ``body`` in a child. Fails if it raises, or if it has not ended after a minute."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        except BaseException as error:  # noqa: BLE001
            os.write(2, f"in the child: {error!r}\n".encode())
        os._exit(code)
    deadline = time.monotonic() + 60
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.001)


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises(leat.Error, match=r"does not survive fork\(\)"):
        call()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
class TestFork:
    def test_the_childs_calls_raise(self) -> None:
        feed = feed_of_numbers()
        loop = iter(feed)
        next(loop)

        def body() -> None:
            refused(lambda: next(loop))
            refused(lambda: iter(feed))
            refused(feed.stats)
            refused(feed.report)
            refused(feed.state_dict)
            refused(lambda: feed.load_state_dict({"leat": 1, "state": ""}))
            refused(feed.close)
            assert len(feed) == 10
            repr(feed)

        in_child(body)
        assert [batch.index for batch in loop] == list(range(1, 10))

    def test_destructors_in_the_child_do_nothing(self) -> None:
        held: dict[str, Any] = {}
        held["feed"] = feed = slow_feed()
        held["loop"] = iter(feed)
        held["batch"] = next(held["loop"])
        held["tensor"] = held["batch"]["x"]
        del feed

        def body() -> None:
            for name in ("batch", "loop", "feed", "tensor"):
                del held[name]
            gc.collect()

        in_child(body)
        in_child(lambda: held.clear())
        assert [batch.index for batch in held["loop"]] == [1, 2, 3]
        assert held["tensor"].sum() == 0

    def test_a_childs_exit_by_python_ends_nothing_of_the_parent(self) -> None:
        feed = feed_of_numbers()
        loop = iter(feed)
        batch = next(loop)

        def body() -> None:
            leat._core.stop_all()

        in_child(body)
        assert batch["x"].tolist() == list(range(8))
        assert [one.index for one in loop] == list(range(1, 10))

    def test_fork_while_another_thread_waits(self) -> None:
        feed = slow_feed()
        loop = iter(feed)
        seen: list[int] = []
        thread = threading.Thread(target=lambda: seen.extend(one.index for one in loop))
        thread.start()
        for _ in range(5):

            def body() -> None:
                refused(feed.stats)
                feed_of_numbers().close()
                leat._core.stop_all()

            in_child(body)
        thread.join()
        assert seen == [0, 1, 2, 3]

    def test_a_feed_that_is_made_in_the_child_works(self) -> None:
        feed = feed_of_numbers()
        loop = iter(feed)
        next(loop)

        def body() -> None:
            other = feed_of_numbers()
            assert [batch["x"][0] for batch in other] == list(range(0, 80, 8))
            state = other.state_dict()
            other = feed_of_numbers(resume=state)
            other.close()

        in_child(body)
        assert [batch.index for batch in loop] == list(range(1, 10))

    def test_an_exception_in_the_child_unwinds_the_loop(self) -> None:
        feed = feed_of_numbers()

        def body() -> None:
            raise ValueError

        for batch in feed:
            if batch.index == 3:

                def child() -> None:
                    with pytest.raises(ValueError):
                        body()

                in_child(child)
        assert '"batches":[[0,10]]' in feed.state_dict()["state"]
