"""What the tests of readers have in place of a filler and of the feed: a batch is what a function makes of its keys."""

import mmap
import os
import pickle
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from leat.readers import worker
from leat.readers.errors import unpack_error
from leat.readers.fill import Filled
from leat.readers.options import FillOptions

OPTIONS = FillOptions(as_torch=False)


class FakeFiller:
    """The dataset is called with the request; what it returns travels pickled, as the opaque bytes. None: END."""

    def __init__(self, dataset: Any, options: Any, *, worker: int, workers: int, where: str) -> None:
        self.dataset, self.init = dataset, options.worker_init_fn
        self.about = worker, workers, where

    def start(self) -> None:
        if self.init is not None:
            self.init(self.about)

    def fill(self, request: Any, room: Any) -> Filled | None:
        made = self.dataset(request)
        if made is None:
            return None
        opaque = pickle.dumps(made)
        at = 256
        if at + len(opaque) > len(room.memory):
            room.grow(at + len(opaque))
        return Filled(len(request.keys or ()), b"layout", opaque, b"failures", at)


class Answer(NamedTuple):
    op: int
    slot: int
    request: int
    rows: int
    at: int
    layout: int
    opaque: int
    failures: int
    begin: int
    end: int
    cpu: int
    sample: int


def call(readers: Any) -> None:
    """As the caller of next()."""
    while (there := readers()) is not None and there.descriptors:
        there.step()
        del there
        time.sleep(0.001)


class FakeFeed:
    """The feed's end of one reader, with one slot."""

    def __init__(self, readers: Any, index: int = 0, *, size: int = 4096) -> None:
        self.readers = readers
        self.socket = socket.socket(fileno=os.dup(readers.descriptors[index]))
        self.socket.settimeout(20)
        self.number, self.requests = 0, 0
        self.new_memory(size)
        if hasattr(readers, "step"):
            threading.Thread(target=call, args=(weakref.ref(readers),), daemon=True).start()

    def __del__(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()

    def new_memory(self, size: int) -> None:
        fd = os.memfd_create("slot")
        os.ftruncate(fd, size)
        self.memory, self.fd, self.number = mmap.mmap(fd, size), fd, self.number + 1

    def send(
        self, keys: Any = None, *, op: int = worker.FILL, slot: int = 5, request: int | None = None, **numbers: int
    ) -> None:
        """FILL with ints, with anything that pickles, or without keys; or another, by default for the last request."""
        kind, data = worker.NO_KEYS, b""
        if isinstance(keys, list) and all(type(key) is int for key in keys):
            kind, data = worker.NUMBERS, b"".join(key.to_bytes(8, "little") for key in keys)
        elif keys is not None:
            kind, data = worker.PICKLED, pickle.dumps(keys)
        self.memory[: len(data)] = data
        self.requests += op == worker.FILL
        names = "epoch", "index", "seed", "first", "pass_"
        values = [numbers.get(name, 0) for name in names]
        message = worker.REQUEST.pack(
            op, slot, request or self.requests, self.number, len(self.memory), *values, len(data), kind
        )
        socket.send_fds(self.socket, [message], [self.fd] if self.fd >= 0 else [])
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def answer(self) -> Answer:
        data = self.socket.recv(4096)
        if not data:
            raise EOFError
        return Answer(*worker.ANSWER.unpack(data))

    def made(self, answer: Answer) -> Any:
        """What the dataset has made, of FILLED."""
        assert answer.op == worker.FILLED, answer
        layout = self.memory[answer.at :][: answer.layout]
        opaque = self.memory[answer.at + answer.layout :][: answer.opaque]
        failures = self.memory[answer.at + answer.layout + answer.opaque :][: answer.failures]
        assert (layout, failures) == (b"layout", b"failures")
        return pickle.loads(opaque)

    def error(self, answer: Answer) -> BaseException:
        """The exception, of ERROR."""
        assert answer.op == worker.ERROR, answer
        error: BaseException = unpack_error(self.memory[answer.at :][: answer.opaque])
        return error

    def batch(self, keys: Any = None, **numbers: int) -> Any:
        self.send(keys, **numbers)
        return self.made(self.answer())


def echo(request: Any) -> Any:
    return tuple(request)


def doubled(request: Any) -> Any:
    return [2 * key for key in request.keys]


def sleep(request: Any) -> Any:
    """As user code that nothing but a SIGKILL ends."""
    until = time.monotonic() + request.keys[0]
    while time.monotonic() < until:
        time.sleep(0.01)
    return "slept"


def die(request: Any) -> Any:
    os.kill(os.getpid(), request.keys[0])


def where(request: Any) -> Any:
    return os.getpid(), os.getcwd(), os.environ.get("LEAT_TEST"), signal.getsignal(signal.SIGINT) is signal.SIG_IGN


class Odd(Exception):
    """Does not unpickle."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"odd {one} {two}")


def fail(request: Any) -> Any:
    key = request.keys[0]
    if key == 0:
        error = KeyError("zero")
        error.add_note("in sample 7")
        error._leat_sample = 7  # type: ignore[attr-defined]
        raise error
    if key == 1:
        raise Odd(1, 2)
    if key == 2:
        raise SystemExit(3)
    if key == 3:
        raise ValueError("long " * 100_000)
    if key == 4:
        raise StopIteration(4)
    return key


def fail_to_start(about: Any) -> None:
    raise LookupError(f"no start in {about}")


def no_such_key() -> None:
    raise KeyError("no such key here")


class Unloadable:
    """Pickles, and does not unpickle."""

    def __reduce__(self) -> Any:
        return no_such_key, ()


class Lock:
    """Does not pickle, in an attribute of an attribute."""

    def __init__(self) -> None:
        self.parts = {"one": [threading.Lock()]}

    def method(self, request: Any) -> Any:
        return self.parts


class Nested:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __call__(self, request: Any) -> Any:
        return None


class HasArray:
    """Adds to its own copy of an array, and returns the sum."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __call__(self, request: Any) -> Any:
        before = float(self.array.sum())
        if request.keys:
            self.array += 1
        return before


class OnLoad:
    """Calls a function where it is unpickled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call

    def __setstate__(self, state: Any) -> None:
        state["call"]()

    def __call__(self, request: Any) -> Any:
        return "loaded"


def no_fork() -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    os.fork = fork


def no_module() -> None:
    import a_module_that_main_only_has  # noqa: F401


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(60)
