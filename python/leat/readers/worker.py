"""The loop of a reader: it takes requests from a socket, and fills slots.

The same for a process, a thread and the caller of next(). At the socket's other end is a fiber of the feed. What
is large lies in the slot's memory, which comes as a descriptor once and stays mapped.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import socket
import struct
import time
import weakref
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final

from leat.errors import Error
from leat.readers.fill import Dropped, Filled, Filler, Request

FILL, GROWN, DROPPED, HEARD = 1, 2, 3, 4
FILLED, GROW, ERROR, END, DIED, AGAIN = 1, 2, 3, 4, 5, 6
NUMBERS, PICKLED, NO_KEYS = 0, 1, 2

REQUEST: Final = struct.Struct("<IIQQQQQQQQQI4x")
ANSWER: Final = struct.Struct("<IIQQQQQQqqqQ")
NO_SAMPLE: Final = 2**64 - 1

ENDURED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that do not end a reader's process: a launcher sends them to the whole group."""

ADVICE: Final = '; take fewer workers, or readers="threads"'
"""Where no process can be started."""

_ONE_DESCRIPTOR = socket.CMSG_SPACE(4)

Errors = Callable[[BaseException], bytes]
"""Turns an exception into what its ERROR says."""


def serve(sock: socket.socket, filler: Filler, errors: Errors) -> None:
    """Fills slots until the other end closes."""
    reader = Reader(sock, filler, errors)
    reader.start()
    while reader.step(waits=True):
        pass


class Reader:
    """One reader: its socket, its filler, and the memory of the slots."""

    def __init__(self, sock: socket.socket, filler: Filler, errors: Errors) -> None:
        self._socket, self._filler, self._errors = sock, filler, errors
        self._memory: dict[int, tuple[int, memoryview]] = {}
        self._next: deque[_Work] = deque()  # taken from the socket, and not begun
        self._is_interrupted = False  # an exception has left step(): what it had taken may be lost
        self._again = 0  # the number of the latest AGAIN
        self._is_deaf = False  # what comes is from before that
        self._is_closed = False
        self._is_started = False
        self._start_error: BaseException | None = None
        self._start_traceback: TracebackType | None = None

    def start(self, *, keeps: bool = False) -> None:
        """Prepares the filler. What that raises is the answer to each request."""
        try:
            self._filler.start()
        except BaseException as error:
            if keeps and not isinstance(error, Exception):
                raise
            self._start_error, self._start_traceback = error, error.__traceback__
        self._is_started = True

    def step(self, *, waits: bool, keeps: bool = False) -> bool:
        """Answers one request. False: none is there, or, if it ``waits``, none will come.

        ``keeps``: KeyboardInterrupt and SystemExit are raised, wherever they come, and the next call begins the same
        batch again. For a reader with one request at a time.
        """
        if self._is_interrupted:
            self._ask_again()
        try:
            work = self._take(waits)
            return work is not None and self._serve(work, keeps)
        except BaseException:
            self._is_interrupted = True
            raise

    def _serve(self, work: _Work, keeps: bool) -> bool:
        if not self._is_started:
            self.start(keeps=keeps)
        answer = self._answer(work, keeps)
        return answer is None or self._send(*answer)

    def _ask_again(self) -> None:
        self._again += 1
        self._is_deaf = True
        self._next.clear()
        self._send(AGAIN, 0, self._again, 0, 0, 0, 0, 0, 0, 0, 0, NO_SAMPLE)
        self._is_interrupted = False

    def _take(self, waits: bool) -> _Work | None:
        # All that has come is heard first: what is not wanted any more costs no work.
        while (told := self._receive(0 if waits and not self._next else socket.MSG_DONTWAIT)) is not None:
            self._hear(told)
        return self._next.popleft() if self._next and not self._is_closed else None

    def _hear(self, told: _Work) -> None:
        if self._is_deaf:
            self._is_deaf = told.op != HEARD or told.echo[1] != self._again
        elif told.op == FILL:
            self._next.append(told)
        else:
            self._next = deque(work for work in self._next if work.echo != told.echo)

    def _answer(self, work: _Work, keeps: bool) -> tuple[Any, ...] | None:
        begin, cpu = time.monotonic_ns(), time.thread_time_ns()

        def times() -> tuple[int, int, int]:
            return begin, time.monotonic_ns(), time.thread_time_ns() - cpu

        room = _Room(self, work)
        try:
            try:
                if self._start_error is not None:
                    raise self._start_error.with_traceback(self._start_traceback)
                if isinstance(work.keys, _BadKeys):
                    raise work.keys.error
                filled = self._filler.fill(Request(*work.numbers, work.keys), room)
                if filled is None:
                    return (END, *work.echo, 0, 0, 0, 0, 0, *times(), NO_SAMPLE)
                sizes = self._write(filled, room)
                return (FILLED, *work.echo, filled.rows, filled.at, *sizes, *times(), NO_SAMPLE)
            except Dropped:
                return None
            except BaseException as error:
                if keeps and not isinstance(error, Exception):
                    raise
                payload = self._errors(_as_exception(error))
                size = self._write_error(payload, room)
                sample = getattr(error, "_leat_sample", NO_SAMPLE)
                return (ERROR, *work.echo, 0, 0, 0, size, 0, *times(), sample)
        except Dropped:
            return None

    def _write(self, filled: Filled, room: _Room) -> tuple[int, int, int]:
        pieces = filled.layout, filled.opaque, filled.failures
        end = filled.at + sum(map(len, pieces))
        if end > len(room.memory):
            before = room.memory
            room.grow(end)[: filled.at] = before[: filled.at]
        at = filled.at
        for piece in pieces:
            room.memory[at : at + len(piece)] = piece
            at += len(piece)
        return len(pieces[0]), len(pieces[1]), len(pieces[2])

    def _write_error(self, payload: bytes, room: _Room) -> int:
        if len(payload) > len(room.memory):
            room.grow(len(payload))
        room.memory[: len(payload)] = payload
        return len(payload)

    def _grown(self, work: _Work, size: int) -> memoryview:
        """The slot's larger memory. Dropped: the batch is not wanted."""
        if not self._send(GROW, *work.echo, 0, size, 0, 0, 0, 0, 0, 0, NO_SAMPLE):
            raise Dropped
        while (told := self._receive(0)) is not None:
            if told.echo == work.echo:
                if told.op == DROPPED:
                    break
                return self._memory[work.echo[0]][1]
            self._hear(told)
        raise Dropped

    def _send(self, *answer: Any) -> bool:
        try:
            self._socket.send(ANSWER.pack(*answer), socket.MSG_NOSIGNAL)
        except OSError:
            return False
        return True

    def _receive(self, flags: int) -> _Work | None:
        try:
            data, ancillary, _, _ = self._socket.recvmsg(
                REQUEST.size, _ONE_DESCRIPTOR, flags | socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError:  # closed by this end, or with messages unread
            data = b""
        if len(data) != REQUEST.size:
            self._is_closed = True
            return None
        op, slot, request, number, size, epoch, index, seed, first, pass_, key_bytes, kind = REQUEST.unpack(data)
        for level, what, descriptor in ancillary:
            if level == socket.SOL_SOCKET and what == socket.SCM_RIGHTS:
                (fd,) = struct.unpack("i", descriptor[:4])
                try:
                    self._memory.pop(slot, None)
                    self._memory[slot] = number, _mapped(fd, size)
                finally:
                    os.close(fd)
        if op in (FILL, GROWN) and self._memory[slot][0] != number:
            raise AssertionError(f"slot {slot} has memory {self._memory[slot][0]}, not {number}")
        keys = _keys(self._memory[slot][1][:key_bytes], kind) if op == FILL else None
        return _Work(op, (slot, request), (epoch, index, seed, first, pass_), keys)


class _Work:
    """A request."""

    def __init__(self, op: int, echo: tuple[int, int], numbers: tuple[int, int, int, int, int], keys: Any) -> None:
        self.op, self.echo, self.numbers, self.keys = op, echo, numbers, keys


class _Room:
    """A slot's memory, for the filler."""

    def __init__(self, reader: Reader, work: _Work) -> None:
        self._reader, self._work = reader, work
        self.memory = reader._memory[work.echo[0]][1]

    def grow(self, bytes: int) -> memoryview:  # noqa: A002
        """Memory of at least so many bytes instead, with other content."""
        self.memory = self._reader._grown(self._work, bytes)
        return self.memory


class _BadKeys:
    """Keys that do not unpickle here."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _keys(memory: memoryview, kind: int) -> Any:
    if kind == NUMBERS:
        return memory.cast("Q").tolist()
    if kind == NO_KEYS:
        return None
    try:
        return pickle.loads(memory)
    except Exception as error:
        return _BadKeys(error)


_mappings: weakref.WeakValueDictionary[tuple[int, int], mmap.mmap] = weakref.WeakValueDictionary()


def _mapped(fd: int, size: int) -> memoryview:
    """The memory behind ``fd``. Readers in one process share the mapping: each holds a descriptor."""
    if size == 0:
        return memoryview(bytearray())
    status = os.fstat(fd)
    key = status.st_dev, status.st_ino
    mapping = _mappings.get(key)
    if mapping is None or len(mapping) < size:
        mapping = mmap.mmap(fd, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        _mappings[key] = mapping
    return memoryview(mapping)[:size]


def _as_exception(error: BaseException) -> Exception:
    """``error``, or what tells of it: user code must end neither the training nor, unseen, the loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    told = Error(f"a reader raised {type(error).__name__}: {error}")
    told.__cause__ = error
    return told
