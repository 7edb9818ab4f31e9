"""A table with __arrow_c_stream__ that needs no Arrow: numbers and strings, by ctypes."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

Column = Any  # a NumPy array of numbers, or a list of str; None among them: null
Chunk = dict[str, Column]


class _Schema(ctypes.Structure):
    pass


class _Array(ctypes.Structure):
    pass


class _Stream(ctypes.Structure):
    pass


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_Stream._fields_ = [
    ("get_schema", _GET),
    ("get_next", _GET),
    ("get_last_error", _ERROR),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]
_FORMATS = {
    "i1": "c",
    "u1": "C",
    "i2": "s",
    "u2": "S",
    "i4": "i",
    "u4": "I",
    "i8": "l",
    "u8": "L",
    "f4": "f",
    "f8": "g",
}

_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Table:
    """Gives each chunk as a struct array. `released` has what was released: "schema", "array"..., "stream"."""

    def __init__(self, chunks: Sequence[Chunk], fails_at: int | None = None) -> None:
        self.chunks = chunks
        self.fails_at = fails_at
        self.released: list[str] = []
        self._kept: list[Any] = []  # what C has pointers to

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self._next = 0
        self._error = ctypes.create_string_buffer(b"the chunk is gone")
        stream = _Stream(
            get_schema=_GET(self._get_schema),
            get_next=_GET(self._get_next),
            get_last_error=_ERROR(lambda _: ctypes.addressof(self._error)),
            release=self._release_of("stream", _Stream),
        )
        self._kept.append(stream)
        return _new(ctypes.addressof(stream), b"arrow_array_stream", None)

    def _release_of(self, what: str, struct: type[ctypes.Structure]) -> int | None:
        def release(address: int) -> None:
            self.released.append(what)
            struct.from_address(address).release = None

        function = _RELEASE(release)
        self._kept.append(function)
        return ctypes.cast(function, ctypes.c_void_p).value

    def _get_schema(self, _: int, out: int) -> int:
        below = [_Schema(format=self._format_of(column), name=name.encode()) for name, column in self.chunks[0].items()]
        for one in below:
            one.release = self._release_of("child", _Schema)
        children = (ctypes.POINTER(_Schema) * len(below))(*map(ctypes.pointer, below))
        self._kept += [below, children]
        ctypes.memset(out, 0, ctypes.sizeof(_Schema))
        schema = _Schema.from_address(out)
        schema.format, schema.name = b"+s", b""
        schema.n_children, schema.children = len(below), children
        schema.release = self._release_of("schema", _Schema)
        self._kept.append(schema.format)
        return 0

    def _get_next(self, _: int, out: int) -> int:
        if self._next == self.fails_at:
            return 5
        ctypes.memset(out, 0, ctypes.sizeof(_Array))
        if self._next == len(self.chunks):
            return 0
        chunk = self.chunks[self._next]
        self._next += 1
        below = [self._array_of(column) for column in chunk.values()]
        array = _Array.from_address(out)
        array.length = len(next(iter(chunk.values())))
        array.n_buffers, array.buffers = 1, (ctypes.c_void_p * 1)(None)
        array.n_children = len(below)
        array.children = (ctypes.POINTER(_Array) * len(below))(*map(ctypes.pointer, below))
        self._kept += [below, array.buffers, array.children]
        array.release = self._release_of("array", _Array)
        return 0

    @staticmethod
    def _format_of(column: Column) -> bytes:
        return b"u" if isinstance(column, list) else _FORMATS[column.dtype.str[1:]].encode()

    def _array_of(self, column: Column) -> _Array:
        buffers: list[Any] = []
        if isinstance(column, list):
            texts = [(text or "").encode() for text in column]
            ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
            valid = np.packbits([text is not None for text in column], bitorder="little")
            buffers = [valid, ends, np.frombuffer(b"".join(texts) + b"\0", np.uint8)]
        else:
            buffers = [None, np.ascontiguousarray(column)]
        addresses = (ctypes.c_void_p * len(buffers))(*(None if b is None else b.ctypes.data for b in buffers))
        self._kept += [buffers, addresses]
        array = _Array(length=len(column), null_count=-1, n_buffers=len(buffers), buffers=addresses)
        array.release = self._release_of("child", _Array)
        return array
