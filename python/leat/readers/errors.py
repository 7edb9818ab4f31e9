"""How an exception travels from a reader to the loop."""

from __future__ import annotations

import itertools
import pickle
import traceback
import weakref

from leat.errors import Error, SampleError

__all__ = ["Keeper", "ReaderTraceback", "pack_error", "sample_error", "unpack_error"]

_LONGEST_ERROR = 256 << 10


def pack_error(error: BaseException) -> bytes:
    """An exception for another process: itself, if it pickles, and how it is displayed here."""
    text = "".join(traceback.format_exception(error))[-_LONGEST_ERROR // 4 :]
    summary = "".join(traceback.format_exception_only(error)).strip()[: _LONGEST_ERROR // 4]
    try:
        import cloudpickle  # type: ignore[import-untyped, import-not-found, unused-ignore]

        data = cloudpickle.dumps(error)
        if len(data) > _LONGEST_ERROR or type(pickle.loads(data)) is not type(error):
            data = b""
    except Exception:
        data = b""
    return pickle.dumps((summary, text, data))


def unpack_error(payload: bytes) -> BaseException:
    """The exception that pack_error() was given, with its traceback as the cause.

    If it does not pickle: a leat.Error that says the same.
    """
    if len(payload) == 8:
        number = int.from_bytes(payload, "little")
        kept = (keeper.errors.pop(number, None) for keeper in list(_keepers))
        return next(filter(None, kept), Error("a reader failed, and its exception is gone"))
    summary, text, data = pickle.loads(payload)
    error: BaseException
    try:
        error = pickle.loads(data) if data else Error(summary)
    except Exception:
        error = Error(summary)
    error.__cause__ = ReaderTraceback(text)
    return error


class ReaderTraceback(Exception):
    """Where in the reader an exception was raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


_MOST_KEPT = 256  # those of dropped batches are never taken
_numbers = itertools.count()
_keepers: weakref.WeakSet[Keeper] = weakref.WeakSet()


class Keeper:
    """Exceptions of readers in this process: unpack_error() gives each, once. They go with the keeper."""

    def __init__(self) -> None:
        self.errors: dict[int, BaseException] = {}
        _keepers.add(self)

    def keep(self, error: BaseException) -> bytes:
        """What unpack_error() takes."""
        number = next(_numbers)
        self.errors[number] = error
        while len(self.errors) > _MOST_KEPT:
            self.errors.pop(next(iter(self.errors)), None)
        return number.to_bytes(8, "little")


def sample_error(text: str, payload: bytes, epoch: int, batch: int, sample: int | None) -> SampleError:
    """What a loop raises for a batch that failed. Called from C++."""
    if not payload:
        return SampleError(text, "read", epoch, batch, sample)
    cause = unpack_error(payload)
    error = SampleError(f"{text}: {type(cause).__name__}: {cause}", "read", epoch, batch, sample)
    error.__cause__ = cause
    return error
