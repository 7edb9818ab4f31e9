"""The clean process that loaders' processes are forked from: one thread, no device, no user code.

It ends with the main process, and ends what it has forked.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from leat.readers import loader
from leat.readers.worker import ADVICE

_MORE = 1.0  # seconds for a loader's process to see to its workers
_LAST_MORE = 0.2  # when the main process has ended


def main() -> NoReturn:
    """All that the server does: ``control, main, *sys.path`` are its arguments."""
    loader.endure_signals()
    loader.name_process("leat-server")
    try:
        importlib.import_module("leat.readers.fill")  # and with it what each loader needs
        importlib.import_module("cloudpickle")
        gc.freeze()
        server = _Server(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
        while server.goes_on():
            pass
        server.end()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


class _Child:
    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid, self.control = pid, control
        self.deadline: float | None = None


class _Server:
    def __init__(self, control: socket.socket, main: int) -> None:
        self._control, self._main = control, main
        self._children: dict[int, _Child] = {}  # by pidfd
        self._poll = select.poll()
        for fd in (main, control.fileno()):
            os.set_inheritable(fd, False)
            self._poll.register(fd, select.POLLIN)

    def goes_on(self) -> bool:
        """Handles what has happened. False: the main process has ended, or has closed."""
        deadlines = [child.deadline for child in self._children.values() if child.deadline is not None]
        left = max(0.0, min(deadlines) - time.monotonic()) * 1000 if deadlines else None
        ready = self._poll.poll(left)
        fd = ready[0][0] if ready else -1  # one at a time: the next may be closed by then, and another's
        if fd == self._main:
            return False
        if fd == self._control.fileno():
            return self._fork()
        if fd in self._children:
            self._bury(fd)
        elif fd >= 0:
            self._poll.unregister(fd)
            for child in self._children.values():
                if child.control.fileno() == fd:
                    grace = loader.grace(child.control, socket.MSG_PEEK | socket.MSG_DONTWAIT)  # it may load forever
                    child.deadline = time.monotonic() + grace + _MORE
        self._kill(lambda child: child.deadline is not None and child.deadline <= time.monotonic())
        return True

    def end(self) -> None:
        """Kills and reaps, after a moment in which the children reap their own."""
        deadline = time.monotonic() + _LAST_MORE
        poll = select.poll()
        for fd, child in self._children.items():
            child.control.close()
            poll.register(fd, select.POLLIN)
        left = set(self._children)
        while left and (wait := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(wait * 1000):
                poll.unregister(fd)
                left.discard(fd)
        self._kill(lambda child: True)
        for child in self._children.values():
            os.waitpid(child.pid, 0)

    def _kill(self, is_due: Callable[[_Child], bool]) -> None:
        for child in self._children.values():
            if is_due(child):
                os.kill(child.pid, signal.SIGKILL)  # and so its workers
                child.deadline = None

    def _fork(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, 4096, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return False
        if not data or not fds:
            return False
        control = socket.socket(fileno=fds[0])
        for name in pickle.loads(data):
            try:
                importlib.import_module(name)
                loader.set_threads()
            except Exception:  # the loader's process then says so, if it needs it
                continue
        try:
            pid = loader.fork("leat-loader")
        except OSError as error:
            loader.tell(control, "failed", f"reader processes cannot be started: {error}{ADVICE}", "")
            control.close()
            return True
        if pid == 0:
            self._control.close()
            for fd, child in self._children.items():
                os.close(fd)
                child.control.close()
            loader.run(control, self._main)
        loader.tell(control, "forked", pid)
        fd = os.pidfd_open(pid)
        self._children[fd] = _Child(pid, control)
        self._poll.register(fd, select.POLLIN)
        self._poll.register(control.fileno(), select.POLLRDHUP)
        return True

    def _bury(self, fd: int) -> None:
        child = self._children.pop(fd)
        _, status = os.waitpid(child.pid, 0)
        self._poll.unregister(fd)
        os.close(fd)
        try:
            self._poll.unregister(child.control.fileno())
        except KeyError:
            pass
        loader.tell(child.control, "ended", status)
        child.control.close()
