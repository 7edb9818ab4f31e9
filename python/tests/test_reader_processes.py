"""Readers: the same answers from a process, a thread and the caller, and processes that end with all that they had."""

import gc
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import leat
import numpy as np
import pytest
import reader_fakes as fakes
from leat.readers import processes, worker
from leat.readers.options import FillOptions
from leat.readers.processes import CallerReader, ReaderProcesses, ReaderThreads
from reader_fakes import OPTIONS, FakeFeed, FakeFiller
from test_fork import in_child
from timing import within

Make = Callable[..., Any]


def make_readers(kind: str, dataset: Any, options: Any = OPTIONS, *, workers: int = 1) -> Any:
    if kind == "caller":
        return CallerReader(dataset, options, make=FakeFiller)
    made = ReaderProcesses if kind == "processes" else ReaderThreads
    return made(dataset, options, workers, make=FakeFiller)


@pytest.fixture(params=["processes", "threads", "caller"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made = []

    def one(dataset: Any, options: Any = OPTIONS, **others: Any) -> Any:
        made.append(make_readers(request.param, dataset, options, **others))
        return made[-1]

    yield one
    for readers in made:
        readers.close()


@pytest.fixture
def start() -> Iterator[Make]:
    made = []

    def one(dataset: Any, options: Any = OPTIONS, workers: int = 1) -> ReaderProcesses:
        made.append(ReaderProcesses(dataset, options, workers, make=FakeFiller))
        return made[-1]

    yield one
    for readers in made:
        readers.close(grace=0)


def is_running(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(is_so: Callable[[], bool], seconds: float) -> float:
    """How long it took. Fails after ``seconds``."""
    begin = time.monotonic()
    while not is_so():
        assert time.monotonic() < begin + seconds
        time.sleep(0.002)
    return time.monotonic() - begin


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def family(pid: int) -> list[int]:
    return [one for child in children(pid) for one in (child, *family(child))]


def server() -> int:
    assert processes._server is not None
    return processes._server._process.pid


class TestAllKinds:
    def test_a_request_comes_to_the_dataset_and_its_batch_to_the_slot(self, make: Make) -> None:
        feed = FakeFeed(make(fakes.echo))
        numbers = {"epoch": 1, "index": 2, "seed": 2**64 - 1, "first": 4, "pass_": 5}
        assert feed.batch([0, 2**64 - 1], **numbers) == (*numbers.values(), [0, 2**64 - 1])
        assert feed.batch(["a", (1, 2)])[-1] == ["a", (1, 2)]
        assert feed.batch("one key")[-1] == "one key"
        assert feed.batch(None)[-1] is None

    def test_the_numbers_of_an_answer(self, make: Make) -> None:
        feed = FakeFeed(make(fakes.doubled))
        begin = time.monotonic_ns()
        feed.send([1, 2, 3])
        answer = feed.answer()
        assert feed.made(answer) == [2, 4, 6]
        assert (answer.slot, answer.request, answer.rows, answer.at) == (5, 1, 3, 256)
        assert begin < answer.begin < answer.end < time.monotonic_ns()
        assert 0 < answer.cpu <= answer.end - answer.begin
        assert answer.sample == worker.NO_SAMPLE

    def test_each_has_its_worker_number(self, make: Make) -> None:
        readers = make(fakes.echo, FillOptions(worker_init_fn=fakes.fail_to_start, as_torch=False))
        feed = FakeFeed(readers)
        for _ in range(2):
            feed.send([1])
            kind = getattr(readers, "where", "process")
            with pytest.raises(LookupError, match=f"no start in \\(0, 1, '{kind}'\\)"):
                raise feed.error(feed.answer())

    def test_the_end_of_an_iterable(self, make: Make) -> None:
        feed = FakeFeed(make(fakes.Nested(None)))
        feed.send()
        assert feed.answer().op == worker.END

    def test_a_slot_grows(self, make: Make) -> None:
        feed = FakeFeed(make(fakes.echo))
        feed.send(["x" * 3000])
        feed.answer()
        feed.send(["x" * 3900])
        grow = feed.answer()
        assert (grow.op, grow.request) == (worker.GROW, 2)
        assert grow.at > 4096
        feed.new_memory(grow.at + 4096)
        feed.send(op=worker.GROWN)
        assert feed.made(feed.answer())[-1] == ["x" * 3900]
        assert feed.batch([1])[-1] == [1]

    def test_a_batch_that_may_not_grow_is_dropped(self, make: Make) -> None:
        feed = FakeFeed(make(fakes.echo))
        for _ in range(2):
            feed.send(["x" * 4000])
            assert feed.answer().op == worker.GROW
            feed.send(op=worker.DROPPED)
        feed.send([7], epoch=3)
        answer = feed.answer()
        assert answer.request == 3
        assert feed.made(answer) == (3, 0, 0, 0, 0, [7])

    def test_requests_wait_while_a_slot_grows(self, make: Make) -> None:
        feed = FakeFeed(make(fakes.echo))
        feed.send(["x" * 4000])
        assert feed.answer().op == worker.GROW
        for slot in (7, 8):
            feed.new_memory(4096)
            feed.send([slot], slot=slot)
        feed.send(op=worker.DROPPED, slot=8)
        feed.send(op=worker.DROPPED, request=1)
        answer = feed.answer()
        assert (answer.request, answer.slot) == (2, 7)
        feed.new_memory(4096)
        assert feed.batch([9])[-1] == [9]
        assert feed.requests == 4

    def test_an_exception_is_an_answer_and_the_next_batch_comes(self, make: Make) -> None:
        feed = FakeFeed(make(fakes.fail), size=1 << 20)
        feed.send([0])
        answer = feed.answer()
        assert answer.sample == 7
        error = feed.error(answer)
        assert isinstance(error, KeyError)
        assert error.args == ("zero",)
        assert error.__notes__ == ["in sample 7"]
        assert feed.batch([5]) == 5

    def test_keys_that_do_not_unpickle(self, make: Make) -> None:
        feed = FakeFeed(make(fakes.echo))
        feed.send([fakes.Unloadable()])
        assert "no such key here" in str(feed.error(feed.answer()))
        assert feed.batch([1])[-1] == [1]

    def test_close_twice(self, make: Make) -> None:
        readers = make(fakes.echo)
        feed = FakeFeed(readers)
        feed.batch([1])
        readers.close()
        readers.close()
        assert readers.descriptors == []
        with pytest.raises((EOFError, ConnectionResetError)):
            feed.answer()

    def test_renew_with_another_dataset(self, make: Make) -> None:
        dataset = fakes.HasArray(np.arange(3.0))
        readers = make(dataset)
        assert FakeFeed(readers).batch([]) == 3
        assert readers.renew(dataset, OPTIONS)
        assert FakeFeed(readers).batch([]) == 3
        assert not readers.renew(fakes.HasArray(np.ones(3)), OPTIONS)
        assert FakeFeed(readers).batch([]) == 3
        assert not readers.renew(fakes.doubled, OPTIONS)
        assert FakeFeed(readers).batch([4]) == [8]


class TestErrors:
    def test_the_traceback_of_the_process_is_the_cause(self, start: Make) -> None:
        feed = FakeFeed(start(fakes.fail), size=1 << 20)
        feed.send([0])
        cause = str(feed.error(feed.answer()).__cause__)
        assert "reader_fakes.py" in cause
        assert "in fail" in cause

    def test_one_that_does_not_pickle_is_told(self, start: Make) -> None:
        feed = FakeFeed(start(fakes.fail), size=1 << 20)
        feed.send([1])
        error = feed.error(feed.answer())
        assert type(error) is leat.Error
        assert str(error) == "reader_fakes.Odd: odd 1 2"

    @pytest.mark.parametrize("kind", ["processes", "threads"])
    def test_an_exit_does_not_end_the_training(self, kind: str) -> None:
        readers = make_readers(kind, fakes.fail)
        feed = FakeFeed(readers)
        feed.send([2])
        with pytest.raises(leat.Error, match="a reader raised SystemExit: 3"):
            raise feed.error(feed.answer())
        assert feed.batch([5]) == 5
        readers.close()

    @pytest.mark.parametrize("kind", ["processes", "threads", "caller"])
    def test_a_stop_iteration_does_not_end_the_loop(self, kind: str) -> None:
        readers = make_readers(kind, fakes.fail)
        feed = FakeFeed(readers)
        feed.send([4])
        with pytest.raises(leat.Error, match="a reader raised StopIteration: 4"):
            raise feed.error(feed.answer())
        readers.close()

    def test_one_that_is_larger_than_the_slot_is_cut(self, start: Make) -> None:
        feed = FakeFeed(start(fakes.fail), size=256)
        feed.send([3])
        grow = feed.answer()
        assert grow.op == worker.GROW
        assert grow.at < 1 << 20
        feed.new_memory(1 << 20)
        feed.send(op=worker.GROWN)
        assert "ValueError: long long" in str(feed.error(feed.answer()))

    def test_an_interrupted_caller_begins_the_same_batch_again(self) -> None:
        interrupts = [KeyboardInterrupt(), None]

        def dataset(request: Any) -> Any:
            if (error := interrupts.pop(0)) is not None:
                raise error
            return request.keys

        readers = CallerReader(dataset, OPTIONS, make=FakeFiller)
        assert not readers.step()
        step, readers.step = readers.step, lambda: True  # type: ignore[method-assign]
        feed = FakeFeed(readers)
        feed.send([3, 4])
        with pytest.raises(KeyboardInterrupt):
            step()
        assert step()
        assert feed.made(feed.answer()) == [3, 4]
        assert not step()
        readers.close()

    def test_what_does_not_load_in_the_process(self, start: Make) -> None:
        readers = start(fakes.OnLoad(fakes.no_module))
        for _ in range(2):
            match = "^the dataset does not load in the reader processes: ModuleNotFoundError.*a_module_that"
            with pytest.raises(leat.Error, match=match) as caught:
                readers.wait()
            assert "in no_module" in str(caught.value.__cause__)
        with pytest.raises(EOFError):
            FakeFeed(readers).answer()

    def test_a_process_that_dies_while_it_loads(self, start: Make) -> None:
        with pytest.raises(leat.Error, match=r"loads the dataset.*was ended by signal 9 \(Killed\)"):
            start(fakes.OnLoad(fakes.kill_self)).wait()

    def test_no_process_can_be_started(self, start: Make) -> None:
        with pytest.raises(leat.Error, match="^reader processes cannot be started.*temporarily unavailable; take"):
            start(fakes.OnLoad(fakes.no_fork), workers=3).wait()

    def test_no_server_can_be_started(self, start: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise BlockingIOError(11, "Resource temporarily unavailable")

        monkeypatch.setattr(processes, "_server", None)
        monkeypatch.setattr(processes, "_Process", refuse)
        gc.collect()
        open_files = len(os.listdir("/proc/self/fd"))
        with pytest.raises(leat.Error, match='temporarily unavailable; take fewer workers, or readers="threads"'):
            start(fakes.echo)
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == open_files

    def test_a_worker_that_cannot_make_its_filler_says_so(self, start: Make) -> None:
        readers = ReaderProcesses(fakes.echo, OPTIONS, 1, make=fakes.fail_to_start)
        feed = FakeFeed(readers)
        feed.send([1])
        assert isinstance(feed.error(feed.answer()), TypeError)
        readers.close()


class TestEnds:
    def test_a_death_is_told_at_once(self, start: Make) -> None:
        def one_try() -> float:
            readers = start(fakes.die, workers=2)
            feed, other = FakeFeed(readers, 0), FakeFeed(readers, 1)
            readers.wait()
            begin = time.monotonic()
            feed.send([signal.SIGSEGV])
            answer = feed.answer()
            took = time.monotonic() - begin
            assert answer.op == worker.DIED
            assert os.WTERMSIG(answer.sample) == signal.SIGSEGV
            with pytest.raises(EOFError):
                feed.answer()
            other.send([0])  # kill(pid, 0) does nothing
            assert other.answer().op == worker.END
            readers.close(grace=0)
            return took

        within(0.1, one_try)

    def test_a_dead_worker_is_replaced_by_renew(self, start: Make) -> None:
        readers = start(fakes.die, workers=2)
        feed = FakeFeed(readers)
        feed.send([signal.SIGKILL])
        assert feed.answer().op == worker.DIED
        assert not readers.renew(fakes.die, OPTIONS)
        feed = FakeFeed(readers)
        feed.send([0])
        assert feed.answer().op == worker.END

    def test_signals_of_the_group_end_no_worker(self, tmp_path: pathlib.Path) -> None:
        script = """
            import os, signal, subprocess, sys
            from leat.readers.processes import ReaderProcesses
            from reader_fakes import *
            for number in worker.ENDURED:
                signal.signal(number, lambda number, frame: None)
            def dataset(request):
                return subprocess.run(["sleep", str(request.keys[0])]).returncode
            readers = ReaderProcesses(dataset, OPTIONS, 1, make=FakeFiller)
            for number in worker.ENDURED:
                os.killpg(0, number)  # the server may not even have begun
            feed = FakeFeed(readers)
            assert feed.batch([0]) == 0
            for number in worker.ENDURED:
                os.killpg(0, number)
                assert feed.batch([0]) == 0
            feed.send([60])
            import time
            time.sleep(0.2)
            os.killpg(0, signal.SIGTERM)
            print(feed.made(feed.answer()))
        """
        done = run_script(script, start_new_session=True)
        assert done == f"{-signal.SIGTERM}\n"  # what a worker starts is ended

    @pytest.mark.parametrize("how", ["idle", "in user code", "forked", "loading", "exit"])
    def test_all_end_with_the_main_process(self, how: str) -> None:
        script = f"""
            import os, sys, time
            from leat.readers.processes import ReaderProcesses
            from reader_fakes import *
            dataset = OnLoad(hang) if {how!r} == "loading" else sleep
            readers = ReaderProcesses(dataset, OPTIONS, 2, make=FakeFiller)
            if {how!r} != "loading":
                feed = FakeFeed(readers)
                feed.batch([0])
                readers.wait()
            if {how!r} == "in user code":
                feed.send([60])
            other = os.fork() if {how!r} == "forked" else 0
            if {how!r} == "forked" and other == 0:
                time.sleep(60)
            print(other, *([] if {how!r} == "loading" else readers.pids), flush=True)
            if {how!r} != "exit":
                time.sleep(60)
        """
        other, all_of_them = 0, []
        with start_script(script) as main:
            try:
                other, *all_of_them = map(int, main.stdout.readline().split())
                if how == "exit":
                    main.wait(timeout=10)
                else:
                    wait_until(lambda: len(family(main.pid)) >= (2 if how == "loading" else 4), 10)
                    time.sleep(0.02)
                    all_of_them += [pid for pid in family(main.pid) if pid != other]
                    main.kill()
                wait_until(lambda: not any(map(is_running, all_of_them)), 1)
            finally:
                main.kill()
                for pid in (*all_of_them, *([other] if other else [])):
                    if is_running(pid):
                        os.kill(pid, signal.SIGKILL)

    @pytest.mark.parametrize("which", ["server", "loader"])
    def test_all_end_with_each_parent(self, which: str, start: Make) -> None:
        readers = start(fakes.sleep, workers=2)
        feeds = [FakeFeed(readers, index) for index in range(2)]
        readers.wait()
        feeds[0].send([60])
        (loader,) = children(server())
        os.kill(server() if which == "server" else loader, signal.SIGKILL)
        for feed in feeds:
            with pytest.raises((EOFError, ConnectionResetError)):
                feed.answer()
        wait_until(lambda: not any(map(is_running, readers.pids)), 5)
        wait_until(lambda: readers.ended is not None, 5)
        assert readers.ended == (-1 if which == "server" else signal.SIGKILL)
        assert FakeFeed(start(fakes.doubled)).batch([2]) == [4]  # by another server

    def test_close_kills_what_stays_in_user_code(self, start: Make) -> None:
        readers = start(fakes.sleep, workers=2)
        FakeFeed(readers).send([60])
        pids = readers.pids
        begin = time.monotonic()
        readers.close(grace=0.2)
        assert 0.2 <= time.monotonic() - begin < 4
        assert not any(map(is_running, pids))

    def test_close_kills_what_loads(self, start: Make, tmp_path: pathlib.Path) -> None:
        def hang() -> None:
            (tmp_path / "loads").touch()
            time.sleep(60)

        readers = start(fakes.OnLoad(hang))
        wait_until((tmp_path / "loads").exists, 10)
        begin = time.monotonic()
        readers.close(grace=0)
        assert time.monotonic() - begin < 3
        assert not children(server())

    @pytest.mark.parametrize("which", [["server"], ["loader"], ["server", "loader"]])
    def test_close_does_not_wait_for_a_process_that_is_stopped(self, start: Make, which: list[str]) -> None:
        readers = start(fakes.echo)
        assert FakeFeed(readers).batch([1])[-1] == [1]
        (loader,), workers = children(server()), readers.pids
        stopped = [{"server": server(), "loader": loader}[name] for name in which]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            readers.close()
            assert time.monotonic() - begin < 4
            wait_until(lambda: not any(map(is_running, [loader, *workers])), 5)
        finally:
            os.kill(server(), signal.SIGCONT)
        assert FakeFeed(start(fakes.doubled)).batch([2]) == [4]  # by the same server

    def test_close_before_a_server_that_is_stopped_has_begun(self, start: Make) -> None:
        start(fakes.echo).wait()
        os.kill(server(), signal.SIGSTOP)
        try:
            readers = start(fakes.echo)
            begin = time.monotonic()
            readers.close()
            assert time.monotonic() - begin < 4
        finally:
            os.kill(server(), signal.SIGCONT)

    def test_close_lets_user_code_end(self, start: Make, tmp_path: pathlib.Path) -> None:
        def dataset(request: Any) -> Any:
            time.sleep(0.2)
            (tmp_path / "ended").touch()

        readers = start(dataset)
        readers.wait()
        FakeFeed(readers).send()
        time.sleep(0.05)
        readers.close()
        assert (tmp_path / "ended").exists()

    def test_nothing_is_left(self, start: Make) -> None:
        def one_loader(number: int) -> None:
            readers = ReaderProcesses(fakes.HasArray(np.zeros(1 << 15)), OPTIONS, 2, make=FakeFiller)
            if number % 4:
                feed = FakeFeed(readers)
                assert feed.batch([]) == 0
                feed.socket.close()
            if number % 2:
                readers.close()

        one_loader(1)
        gc.collect()
        wait_until(lambda: not children(server()), 5)
        before = [sorted(os.listdir(f"/proc/{pid}/fd")) for pid in (os.getpid(), server())]
        for number in range(20):
            one_loader(number)
        gc.collect()
        wait_until(lambda: not children(server()), 5)
        assert [sorted(os.listdir(f"/proc/{pid}/fd")) for pid in (os.getpid(), server())] == before
        assert "leat-dataset" not in pathlib.Path("/proc/self/maps").read_text()

    def test_nothing_is_left_of_threads(self) -> None:
        gc.collect()
        before = sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        for number in range(6):
            readers = make_readers("threads" if number % 2 else "caller", fakes.echo)
            feed = FakeFeed(readers)
            feed.batch([1])
            if number > 2:
                readers.close()
            feed.socket.close()
            del readers, feed
        gc.collect()
        wait_until(lambda: (sorted(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))) == before, 5)


class TestProcesses:
    def test_the_server_is_clean(self, start: Make) -> None:
        start(fakes.echo).wait()
        assert os.listdir(f"/proc/{server()}/task") == [str(server())]
        assert "libcuda.so" not in pathlib.Path(f"/proc/{server()}/maps").read_text()
        # Open: the standard ones, its own two, and two for each loader.
        wait_until(lambda: len(os.listdir(f"/proc/{server()}/fd")) == 3 + 2 + 2, 5)

    def test_surroundings_are_those_of_the_main_process_now(
        self, start: Make, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("LEAT_TEST", "1")
        readers = start(fakes.where)
        assert FakeFeed(readers).batch() == (*readers.pids, str(tmp_path), "1", False)

    def test_a_module_that_is_new_since_the_server_began(
        self, start: Make, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start(fakes.echo).wait()
        (tmp_path / "made_just_now.py").write_text("def f(request): return request.keys[0] + 1")
        monkeypatch.syspath_prepend(str(tmp_path))
        import made_just_now  # type: ignore[import-not-found]

        assert FakeFeed(start(made_just_now.f)).batch([1]) == 2

    @pytest.mark.parametrize("how", ["-c", "stdin", "file"])
    def test_scripts_need_no_guard(self, how: str, tmp_path: pathlib.Path) -> None:
        script = """
            from leat.readers.processes import ReaderProcesses
            from reader_fakes import *
            OFFSET = 40
            class Problem(Exception): pass
            class Dataset:
                def __call__(self, request):
                    if request.keys == [0]:
                        raise Problem("of main")
                    return request.keys[0] + OFFSET
            print("once")
            feed = FakeFeed(ReaderProcesses(Dataset(), OPTIONS, 2, make=FakeFiller), 1)
            print(feed.batch([2]))
            feed.send([0])
            try:
                raise feed.error(feed.answer())
            except Problem as error:
                print(error)
        """
        assert run_script(script, how=how, folder=tmp_path) == "once\n42\nof main\n"

    def test_an_array_is_shared_and_each_worker_writes_to_its_own(self, start: Make) -> None:
        array = np.ones(1 << 18)
        readers = start(fakes.HasArray(array), workers=2)
        one, two = FakeFeed(readers, 0), FakeFeed(readers, 1)
        assert [one.batch([1]), one.batch([1]), two.batch([])] == [1 << 18, 2 << 18, 1 << 18]
        assert array.sum() == 1 << 18
        maps = pathlib.Path(f"/proc/{readers.pids[1]}/maps").read_text()
        assert "leat-dataset" in maps
        assert readers.renew(fakes.HasArray(array), OPTIONS)
        array[7] = 2
        assert not readers.renew(fakes.HasArray(array), OPTIONS)
        assert FakeFeed(readers).batch([]) == (1 << 18) + 1

    def test_a_child_of_fork_leaves_its_parents_readers_alone(self, start: Make) -> None:
        readers = start(fakes.doubled)
        feed = FakeFeed(readers)
        assert feed.batch([1]) == [2]

        def body() -> None:
            nonlocal readers
            readers.close()
            assert readers.renew(fakes.echo, OPTIONS)
            del readers
            gc.collect()
            own = ReaderProcesses(fakes.doubled, OPTIONS, 1, make=FakeFiller)
            assert FakeFeed(own).batch([3]) == [6]
            own.close()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            in_child(body)
        assert feed.batch([2]) == [4]


def start_script(script: str, *, how: str = "-c", folder: pathlib.Path | None = None, **options: Any) -> Any:
    """A Python that runs ``script``, with the tests' modules."""
    text = textwrap.dedent(script)
    arguments = {"-c": ["-c", text], "stdin": ["-"], "file": []}[how]
    if how == "file":
        assert folder is not None
        (folder / "script.py").write_text(text)
        arguments = [str(folder / "script.py")]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, **options
    )
    if how == "stdin":
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
    return process


def run_script(script: str, **options: Any) -> str:
    with start_script(script, **options) as process:
        out: str = process.communicate(timeout=30)[0]
    assert process.returncode == 0
    return out
