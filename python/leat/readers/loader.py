"""The process of one loader: loads its dataset once, forks its workers, and watches over them.

It runs user code only while it loads. Its parent, the server, then ends it with the main process.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import mmap
import os
import pickle
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from leat.readers.share import load
from leat.readers.errors import pack_error
from leat.readers.worker import ADVICE, ANSWER, DIED, ENDURED, serve

GRACE = 5.0
"""Seconds that user code has to end in."""

FDS_A_MESSAGE = 100
PRELOADED = ("torch", "torchvision", "PIL.Image", "pandas")
"""What takes long to import, and is safe to have: the server imports it once a loader has needed it."""

_LONGEST_TEXT = 10_000
_libc = ctypes.CDLL(None)


def tell(control: socket.socket, *message: Any) -> None:
    """Sends a message on a control socket. Does nothing if it is closed, or full."""
    try:
        control.send(pickle.dumps(message), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
    except OSError:
        pass


def endure_signals() -> None:
    """Signals for the whole group do not end this process. What it starts has the usual handlers."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it is ignored, no child can be waited for
    for number in ENDURED:
        if signal.getsignal(number) is not signal.SIG_IGN:  # of nohup
            signal.signal(number, lambda number, frame: None)
            signal.siginterrupt(number, False)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def name_process(name: str) -> None:
    """What ps and top call it."""
    _libc.prctl(15, name.encode()[:15])  # PR_SET_NAME


def fork(name: str) -> int:
    """As os.fork(). The child dies with this process, and is called ``name``."""
    parent = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a library's threads, such as OpenBLAS's
        child = os.fork()
    if child == 0:
        _libc.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)
        name_process(name)
    return child


def set_threads() -> None:
    """torch, if it is there, uses one core in a reader."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def run(control: socket.socket, main: int) -> NoReturn:
    """All that a loader's process does. ``main`` is a pidfd of the main process."""
    workers: dict[int, _Worker] = {}
    failed, advice = "the dataset does not load in the reader processes", ""
    try:
        sockets, job = _prepare(control)
        known = set(sys.modules)
        values = load(job)
        os.close(job)
        endure_signals()  # whatever was imported
        set_threads()
        gc.freeze()  # workers do not write to these objects' pages
        failed, advice = "reader processes cannot be started", ADVICE
        _start_workers(workers, sockets, values, (control, main))
        del values
    except BaseException as error:
        for worker in workers.values():
            worker.end()
        summary = "".join(traceback.format_exception_only(error)).strip()
        text = "".join(traceback.format_exception(error))
        tell(control, "failed", f"{failed}: {summary[:_LONGEST_TEXT]}{advice}", text[-_LONGEST_TEXT:])
        os._exit(1)
    imported = [name for name in PRELOADED if name in sys.modules and name not in known]
    tell(control, "ready", [worker.pid for worker in workers.values()], imported)
    _watch(control, main, workers)
    os._exit(0)


def _prepare(control: socket.socket) -> tuple[list[socket.socket], int]:
    """Takes on the main process' surroundings; the workers' sockets and the dataset's memfd."""
    data, fds, _, _ = socket.recv_fds(control, 64, 2, socket.MSG_CMSG_CLOEXEC)
    if len(fds) != 2:
        os._exit(0)  # closed
    count, (around, job) = pickle.loads(data), fds
    surroundings = load(around)
    os.close(around)
    sys.path[:], sys.argv[:] = surroundings["path"], surroundings["argv"]
    if os.environ != surroundings["environ"]:
        os.environ.clear()
        os.environ.update(surroundings["environ"])
    if surroundings["cwd"] is not None:
        os.chdir(surroundings["cwd"])
    importlib.invalidate_caches()
    sockets: list[socket.socket] = []
    while len(sockets) < count:
        _, fds, _, _ = socket.recv_fds(control, 64, FDS_A_MESSAGE, socket.MSG_CMSG_CLOEXEC)
        if not fds:
            os._exit(0)
        sockets += [socket.socket(fileno=fd) for fd in fds]
    return sockets, job


class _Worker:
    def __init__(self, pid: int, sock: socket.socket, progress: memoryview) -> None:
        self.pid, self.socket, self.progress = pid, sock, progress

    def ask(self) -> None:
        """Its socket ends, whoever else may hold the other end."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def bury(self, control: socket.socket) -> None:
        """Tells its death, and that on its own socket as well."""
        _, status = os.waitpid(self.pid, 0)
        tell(control, "died", self.pid, status)
        try:
            answer = ANSWER.pack(DIED, 0, 0, self.progress[0], 0, 0, 0, 0, 0, time.monotonic_ns(), 0, status)
            self.socket.send(answer, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            pass
        self.socket.close()


def _start_workers(
    workers: dict[int, _Worker], sockets: list[socket.socket], values: dict[str, Any], others: tuple[socket.socket, int]
) -> None:
    _flush()
    progress = memoryview(mmap.mmap(-1, 8 * len(sockets))).cast("Q")  # shared with the workers
    for index, sock in enumerate(sockets):
        pid = fork(f"leat-worker-{index}")
        if pid == 0:
            control, main = others
            for other in [*sockets[:index], *sockets[index + 1 :], control]:
                other.close()
            for fd in (main, *workers):
                os.close(fd)
            _work(index, len(sockets), sock, values, progress[index : index + 1])
        workers[os.pidfd_open(pid)] = _Worker(pid, sock, progress[index : index + 1])


def _work(index: int, count: int, sock: socket.socket, values: dict[str, Any], progress: memoryview) -> NoReturn:
    status = 1
    try:
        try:
            make: Callable[..., Any] = values["make"]
            filler = make(values["dataset"], values["options"], worker=index, workers=count, where="process")
            filler.progress = progress
        except Exception as error:
            filler = _Broken(error)
        serve(sock, filler, pack_error)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            _flush()
        finally:
            os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


class _Broken:
    """A filler that could not be made: each request is told why."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def start(self) -> None:
        raise self._error

    def fill(self, request: Any, room: Any) -> Any:
        raise self._error


def _watch(control: socket.socket, main: int, workers: dict[int, _Worker]) -> None:
    """Until the main process ends, or closes and the workers have ended."""
    poll = select.poll()
    for fd in (main, control.fileno(), *workers):
        poll.register(fd, select.POLLIN)
    deadline: float | None = None
    while workers or deadline is None:
        left = None if deadline is None else max(0, deadline - time.monotonic()) * 1000
        ready = poll.poll(left)
        if not ready:
            for worker in workers.values():
                os.kill(worker.pid, signal.SIGKILL)
            deadline = time.monotonic() + GRACE
        for fd, _ in ready:
            if fd == main:
                for worker in workers.values():
                    worker.end()
                return
            if fd == control.fileno():
                poll.unregister(fd)
                deadline = time.monotonic() + grace(control)
                for worker in workers.values():
                    worker.ask()
            else:
                poll.unregister(fd)
                os.close(fd)
                workers.pop(fd).bury(control)


def grace(control: socket.socket, flags: int = 0) -> float:
    """The seconds that the main process gives when it closes. It may just be gone, too."""
    try:
        data = control.recv(64, flags)
    except OSError:
        return GRACE
    message = pickle.loads(data) if data else None
    return float(message[1]) if isinstance(message, tuple) else GRACE
