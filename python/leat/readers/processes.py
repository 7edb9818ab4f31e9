"""What the main process has of its readers: processes, threads, or itself.

All three have `descriptors`, the feed's ends of the readers' sockets. They are theirs: who uses one beyond
renew() or close() makes a copy (dup).
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

from leat.errors import Error
from leat.readers.errors import ReaderTraceback, keep_error
from leat.readers.fill import Filler
from leat.readers.options import FillOptions
from leat.readers.worker import ADVICE, ENDURED, Reader, serve

__all__ = ["CallerReader", "ReaderProcesses", "ReaderThreads"]

Make = Callable[..., Any]
"""Makes a filler, as Filler() does."""

_START = "import sys; sys.path[:] = sys.argv[3:]; from leat.readers.server import main; main()"
_FOR_EACH = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # one core a reader
_LONGEST_GRACE = 5.0


class ReaderProcesses:
    """Worker processes with a dataset. They survive SIGINT and SIGTERM, and end with this process.

    They start while the caller goes on; wait() tells whether that succeeded. A request may be sent before.
    """

    def __init__(self, dataset: Any, options: FillOptions, workers: int, *, make: Make = Filler) -> None:
        self._process, self._workers, self._make = os.getpid(), workers, make
        self._sockets: list[socket.socket] = []
        self._control: socket.socket | None = None
        self._lock = threading.Lock()  # one thread at a time hears
        self._start(self._pickled(dataset, options), options)

    @property
    def descriptors(self) -> list[int]:
        """One for each worker, non-blocking."""
        return [sock.fileno() for sock in self._sockets]

    @property
    def pids(self) -> list[int]:
        """The workers', once they run."""
        self.wait()
        return self._pids

    @property
    def ended(self) -> int | None:
        """The wait status of the workers' parent, if it has ended, and so they have (-1: it is not known)."""
        while self._hear(0):
            pass
        return self._ended

    def wait(self) -> None:
        """Until the dataset is loaded and the workers run. leat.Error: it did not load, or they cannot run."""
        while not self._pids and self._failure is None and self._ended is None and self._control is not None:
            self._hear(0.1)
        if self._failure is not None:
            summary, text = self._failure
            error = Error(summary)
            raise error from (ReaderTraceback(text) if text else None)

    def told(self) -> str:
        """A line for who waits for a batch: where the dataset is loaded, or the workers' pids. Does not wait."""
        while self._hear(0):
            pass
        if self._pids:
            return f"pids of the readers, from 0 on: {', '.join(map(_told, self._pids))}"
        return f"the dataset is still being loaded, by process {_told(self._loader or _server_pid())}"

    def renew(self, dataset: Any, options: FillOptions) -> bool:
        """True: the workers have this, byte for byte. Else new ones are started with it, and have new descriptors."""
        if os.getpid() != self._process:
            return True
        job = self._pickled(dataset, options)
        while self._hear(0):
            pass
        is_well = self._control is not None and self._ended is None and not self._died and self._failure is None
        if is_well and self._shared.holds(job):
            return True
        self._leave()
        self._start(job, options)
        return False

    def close(self, grace: float = _LONGEST_GRACE) -> None:
        """Ends the workers: those that are in user code for ``grace`` seconds more, at most 5, are killed."""
        if os.getpid() != self._process or self._control is None:
            return
        self._ask(grace)
        until = time.monotonic() + min(grace, _LONGEST_GRACE) + 1.5  # where it is stopped, it ends once it goes on
        while self._ended is None and time.monotonic() < until:
            if not self._hear(0.1) and self._is_stopped():
                break
        self._leave()

    def __del__(self) -> None:
        if not sys.is_finalizing() and getattr(self, "_control", None) and os.getpid() == self._process:
            self._leave()

    def _pickled(self, dataset: Any, options: FillOptions) -> Any:
        from leat.readers.share import pickled

        return pickled(dataset=dataset, options=options, make=self._make)

    def _start(self, job: Any, options: FillOptions) -> None:
        from leat.readers.share import Shared, _pickle

        self._loader = 0  # the pid of the workers' parent, once it is known
        self._pids: list[int] = []
        self._died: list[tuple[int, int]] = []  # pid, wait status
        self._ended: int | None = None
        self._failure: tuple[str, str] | None = None
        around = Shared(_pickle(_surroundings()))
        self._shared = Shared(job)
        theirs: list[socket.socket] = []
        try:
            self._control, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            theirs.append(end)
            for _ in range(self._workers):
                ours, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                ours.setblocking(False)
                self._sockets.append(ours)
                theirs.append(end)
            _fork_loader(theirs[0].fileno(), _preloads(job.data, options))
            fds = [end.fileno() for end in theirs[1:]]
            socket.send_fds(self._control, [pickle.dumps(self._workers)], [around.fd, self._shared.fd])
            for first in range(0, len(fds), 100):
                socket.send_fds(self._control, [pickle.dumps("sockets")], fds[first : first + 100])
        except OSError as error:
            self._leave()
            raise Error(f"reader processes cannot be started: {error}{ADVICE}") from error
        except BaseException:
            self._leave()
            raise
        finally:
            around.close()
            for end in theirs:
                end.close()

    def _hear(self, seconds: float) -> bool:
        """Takes a message of the workers' parent. False: none has come in that time, or none will come."""
        with self._lock:
            if self._control is None:
                return False
            poll = select.poll()
            poll.register(self._control, select.POLLIN)
            if not poll.poll(1000 * seconds):
                return False
            try:
                data = self._control.recv(1 << 18, socket.MSG_DONTWAIT)
            except OSError:
                data = b""
            message: tuple[Any, ...] = pickle.loads(data) if data else ("ended", -1)
            what, *values = message
            if what == "forked":
                self._loader = values[0]
            elif what == "ready":
                self._pids, imported = values
                _imported.update(imported)
            elif what == "failed":
                self._failure = values[0], values[1]
            elif what == "died":
                self._died.append((values[0], values[1]))
            elif self._ended is None:
                self._ended = values[0]
                if not self._pids and self._failure is None:
                    self._failure = (f"the process that loads the dataset for the readers {_how(values[0])}", "")
            return bool(data)

    def _is_stopped(self) -> bool:
        """Whether nobody will tell that the workers have ended. Kills their parent, and so them, if it is stopped."""
        server = _server_pid()
        state, parent = _state_of(self._loader)
        if state == "T" and parent == server:  # it is the loader: the server has not reaped it
            os.kill(self._loader, signal.SIGKILL)
        return _state_of(server)[0] == "T" and (state == "Z" or not self._loader)

    def _ask(self, grace: float) -> None:
        assert self._control is not None
        try:
            message = pickle.dumps(("close", min(grace, _LONGEST_GRACE)))
            self._control.send(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            self._control.shutdown(socket.SHUT_WR)
        except OSError:  # it has ended
            pass

    def _leave(self) -> None:
        """Closes all, and does not wait."""
        if self._control is not None:
            self._ask(_LONGEST_GRACE)
            self._control.close()
        self._control = None
        for sock in self._sockets:
            sock.close()
        self._sockets = []
        self._shared.close()


def _surroundings() -> Any:
    try:
        cwd = os.getcwd()
    except FileNotFoundError:
        cwd = None
    environ = dict.fromkeys(_FOR_EACH, "1") | dict(os.environ)
    return {"path": _path(), "argv": list(sys.argv), "cwd": cwd, "environ": environ}


def _path() -> list[str]:
    return [entry for entry in sys.path if isinstance(entry, str)]


def _state_of(pid: int) -> tuple[str, int]:
    """The letter that /proc has for it (T where it is stopped, Z where it has ended; empty: it is not there); its parent."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
            return state, int(parent)
    except OSError:
        return "", 0


def _told(pid: int) -> str:
    return f"{pid} (stopped)" if _state_of(pid)[0] == "T" else str(pid)


def _how(status: int) -> str:
    if status < 0:
        return "could not be started, or was ended"
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"ended with code {code}"
    return f"was ended by signal {-code} ({signal.strsignal(-code)})"


_imported: set[str] = set()  # by loaders' processes, of what the server may import


def _preloads(data: bytes, options: FillOptions) -> list[str]:
    """What the server imports, as a loader is about to need it."""
    needs_torch = options.as_torch and (options.worker_init_fn is not None or options.kind == "iterable")
    if "torch" in sys.modules and (needs_torch or b"\x05torch" in data or b"torch." in data):
        return sorted(_imported | {"torch"})
    return sorted(_imported)


class _Process(subprocess.Popen[bytes]):
    """It ends with this process, which need not wait for it."""

    def __del__(self, *_: Any) -> None:
        pass


class _Server:
    def __init__(self) -> None:
        from subprocess import _args_from_interpreter_flags  # type: ignore[attr-defined]

        if not sys.executable:
            raise Error('reader processes need a Python to start, and sys.executable is empty: take readers="threads"')
        self.control, end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        main = -1
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDURED)  # until it does
        try:
            main = os.pidfd_open(os.getpid())
            self._process = _Process(
                [sys.executable, *_args_from_interpreter_flags(), "-c", _START, str(end.fileno()), str(main), *_path()],
                stdin=subprocess.DEVNULL,
                pass_fds=(end.fileno(), main),
                env=dict.fromkeys(_FOR_EACH, "1") | dict(os.environ),
            )
        except BaseException:
            self.control.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            end.close()
            if main >= 0:
                os.close(main)

    def close(self) -> None:
        self.control.close()
        self._process.wait()


_server: _Server | None = None
_lock = threading.Lock()


def _server_pid() -> int:
    return 0 if _server is None else _server._process.pid


def _fork_loader(end: int, preloads: list[str]) -> None:
    """Has the server fork a process that serves at the socket ``end``."""
    global _server
    with _lock:
        for is_last in (False, True):
            if _server is None:
                _server = _Server()
            try:
                socket.send_fds(_server.control, [pickle.dumps(preloads)], [end])
                return
            except (BrokenPipeError, ConnectionResetError):  # someone has killed it
                server, _server = _server, None
                server.close()
                if is_last:
                    raise


def _forget() -> None:
    """In a child of this process: the server is its parent's."""
    global _server, _lock
    _server, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)


class ReaderThreads:
    """The same with threads of this process, for code that lets go of the GIL."""

    where: Literal["thread", "caller"] = "thread"

    def __init__(self, dataset: Any, options: FillOptions, workers: int, *, make: Make = Filler) -> None:
        self._process, self._workers, self._make = os.getpid(), workers, make
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._start(dataset, options)

    @property
    def descriptors(self) -> list[int]:
        """One for each thread, non-blocking."""
        return [ours.fileno() for ours, _ in self._pairs]

    @property
    def pids(self) -> list[int]:
        """No processes."""
        return []

    def wait(self) -> None:
        """They run."""

    def renew(self, dataset: Any, options: FillOptions) -> bool:
        """True: they have this dataset, as it is now, and these options. Else new ones are started."""
        if os.getpid() != self._process or (self._pairs and dataset is self._dataset and options == self._options):
            return True
        self._leave()
        self._start(dataset, options)
        return False

    def close(self, grace: float = 5.0) -> None:
        """Ends the threads, and waits ``grace`` seconds for user code to end. A thread cannot be killed."""
        if os.getpid() != self._process:
            return
        self._leave()
        until = time.monotonic() + grace
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
        self._threads.clear()

    def __del__(self) -> None:
        if not sys.is_finalizing() and getattr(self, "_pairs", None) and os.getpid() == self._process:
            self._leave()

    def _start(self, dataset: Any, options: FillOptions) -> None:
        self._dataset, self._options = dataset, options
        make = self._make
        fillers = [
            make(dataset, options, worker=worker, workers=self._workers, where=self.where)
            for worker in range(self._workers)
        ]
        try:
            for filler in fillers:
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                self._pairs.append((ours, theirs))
                ours.setblocking(False)
            self._begin(fillers)
        except (OSError, RuntimeError) as error:
            self._leave()
            raise Error(f"reader {self.where}s cannot be started: {error}; take fewer workers") from error

    def _begin(self, fillers: list[Any]) -> None:
        for number, (filler, (_, theirs)) in enumerate(zip(fillers, self._pairs, strict=True)):
            arguments = theirs, filler
            thread = threading.Thread(target=_serve, args=arguments, name=f"leat-reader-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def _leave(self) -> None:
        for ours, theirs in self._pairs:
            try:
                theirs.shutdown(socket.SHUT_RDWR)  # its thread closes it
            except OSError:
                pass
            ours.close()
        self._pairs = []


def _serve(sock: socket.socket, filler: Any) -> None:
    with sock:
        serve(sock, filler, keep_error)


class CallerReader(ReaderThreads):
    """The same with no thread: the caller of next() calls step()."""

    where = "caller"

    def __init__(self, dataset: Any, options: FillOptions, *, make: Make = Filler) -> None:
        self._reader: Reader | None = None
        super().__init__(dataset, options, 1, make=make)

    def step(self) -> bool:
        """Answers one request, if there is one. What ends the program (KeyboardInterrupt) is raised, and the next
        call begins the same batch again."""
        if self._reader is None or os.getpid() != self._process:
            return False
        return self._reader.step(waits=False, keeps=True)

    def _begin(self, fillers: list[Any]) -> None:
        self._reader = Reader(self._pairs[0][1], fillers[0], keep_error)

    def _leave(self) -> None:
        for _, theirs in self._pairs:
            theirs.close()
        self._reader = None
        super()._leave()
