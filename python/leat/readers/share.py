"""A dataset on its way to the reader processes: its pickle, and its arrays beside it, in one memfd.

Each process maps the memfd privately: the arrays are there once, and who writes to one has its own pages.
"""

from __future__ import annotations

import copyreg
import ctypes
import fcntl
import functools
import mmap
import os
import pickle
import struct
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped, import-not-found, unused-ignore]
import numpy as np

from leat.errors import OutOfMemory

SHARED_FROM = 64 << 10
"""Bytes from which on an array lies beside the pickle."""

_ALIGNED = 64
_NUMBERS = struct.Struct("<QQ")  # bytes of the pickle, arrays; then for each array: where, bytes
_MOST_AT_ONCE = 256 << 20
_MOST_PARTS = 10_000
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


_slotnames: Any = vars(copyreg)["_slotnames"]


class Pickled(NamedTuple):
    """A pickle whose large arrays stay where they are."""

    data: bytes
    arrays: list[memoryview]


def pickled(**values: Any) -> Pickled:
    """Pickles ``values`` as a dict, with what is theirs of ``__main__``.

    TypeError: something does not pickle. The text names it, as from one of ``values`` on.
    """
    try:
        return _pickle(values)
    except Exception as error:
        path, culprit = next(_culprits(values), ("dataset", values.get("dataset")))
        kind = type(culprit)
        what = f"{path}, a {kind.__module__}.{kind.__qualname__},".replace(" a builtins.", " a ").replace(",,", ",")
        raise TypeError(
            f"{what} does not go to reader processes, as it does not pickle: {type(error).__name__}: {error}. Make it "
            'in the reader on first use, leave it out by __getstate__, or take readers="threads"'
        ) from error


def _pickle(value: Any) -> Pickled:
    arrays: list[memoryview] = []

    def stays_within(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < SHARED_FROM:
            return True
        arrays.append(raw)
        return False

    sink = _Sink()
    _Pickler(sink, protocol=5, buffer_callback=stays_within).dump(value)
    return Pickled(b"".join(sink.pieces), arrays)


class _Sink:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, piece: Any) -> int:
        self.pieces.append(bytes(piece))
        return len(piece)


class Shared:
    """A memfd with a pickle and its arrays. Nobody can change it."""

    def __init__(self, content: Pickled) -> None:
        places, end = [], _NUMBERS.size * (1 + len(content.arrays)) + len(content.data)
        for array in content.arrays:
            at = -(-end // _ALIGNED) * _ALIGNED
            places.append((at, array.nbytes))
            end = at + array.nbytes
        _check_room(end)
        self._places = places
        self._size = end
        self.fd = os.memfd_create("leat-dataset", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            heads = [_NUMBERS.pack(len(content.data), len(places)), *(_NUMBERS.pack(*place) for place in places)]
            self._write(b"".join(heads) + content.data, 0)
            for (at, _), array in zip(places, content.arrays, strict=True):
                self._write(array, at)
            seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise _no_room(end, str(error)) from error
            raise

    def holds(self, content: Pickled) -> bool:
        """Whether this is what it holds, byte for byte."""
        if [size for _, size in self._places] != [array.nbytes for array in content.arrays]:
            return False
        with mmap.mmap(self.fd, self._size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ) as mapping:
            here = np.frombuffer(mapping, np.uint8)
            address = here.ctypes.data
            head = _NUMBERS.size * (1 + len(self._places))
            pieces = [(head, memoryview(content.data)), *zip((at for at, _ in self._places), content.arrays)]
            is_same = _NUMBERS.unpack_from(mapping)[0] == len(content.data) and all(
                _memcmp(address + at, np.frombuffer(piece, np.uint8).ctypes.data, piece.nbytes) == 0
                for at, piece in pieces
            )
            del here
        return is_same

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            self.close()

    def _write(self, content: bytes | memoryview, at: int) -> None:
        left = memoryview(content)
        while left.nbytes:
            written = os.pwrite(self.fd, left[:_MOST_AT_ONCE], at)
            left, at = left[written:], at + written


def load(fd: int) -> Any:
    """What a memfd holds. Its arrays are this process's own to write to."""
    whole = mmap.mmap(fd, 0, mmap.MAP_PRIVATE | _NO_RESERVE, mmap.PROT_READ | mmap.PROT_WRITE)
    view = memoryview(whole)
    size, count = _NUMBERS.unpack_from(view)
    places = list(_NUMBERS.iter_unpack(view[_NUMBERS.size : _NUMBERS.size * (1 + count)]))
    head = _NUMBERS.size * (1 + count)
    return pickle.loads(view[head : head + size], buffers=[view[at : at + bytes_] for at, bytes_ in places])


def _check_room(size: int) -> None:
    """A memfd that outgrows the memory ends the process, or another one, and no call fails."""
    if size < 1 << 28:
        return
    with open("/proc/meminfo") as lines:
        available = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable")), size)
    if size > available:
        raise _no_room(size, f"{available >> 20} MiB are available")


def _no_room(size: int, why: str) -> OutOfMemory:
    return OutOfMemory(
        f"the dataset's arrays need {size >> 20} MiB once more, for the reader processes: {why}. An np.memmap is "
        'not copied, nor is anything by readers="threads"',
        size,
        f"a memfd of {size} bytes",
    )


class _Pickler(cloudpickle.CloudPickler):  # type: ignore[misc, unused-ignore]
    """cloudpickle's, with arrays and tensors beside the pickle, and files reopened."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._tensor_types: Any = getattr(sys.modules.get("torch"), "Tensor", ())
        self._storages: dict[int, np.ndarray[Any, Any]] = {}

    def reducer_override(self, value: Any) -> Any:
        reduced: Any = NotImplemented
        if isinstance(value, np.ndarray):
            reduced = _reduce_array(value)
        elif isinstance(value, self._tensor_types):
            reduced = self._reduce_tensor(value)
        elif isinstance(value, functools.cached_property) and hasattr(value, "lock"):  # of a class of __main__
            reduced = _cached_property, (value.func, value.attrname)
        elif isinstance(value, type):
            _slotnames(value)  # what its first instance adds to a class: the next pickle would differ
        return super().reducer_override(value) if reduced is NotImplemented else reduced

    def _reduce_tensor(self, tensor: Any) -> Any:
        torch: Any = sys.modules["torch"]
        is_plain = (
            type(tensor) is torch.Tensor
            and tensor.device.type == "cpu"
            and tensor.layout is torch.strided
            and tensor.numel() > 0
            and not (tensor.requires_grad or tensor.is_quantized)
            and not (getattr(tensor, "has_names", bool)() or tensor.__dict__)
        )
        if not is_plain:
            return NotImplemented  # torch's way, which a Parameter's data comes back from
        tensor = tensor.resolve_conj().resolve_neg()
        storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
        address = storage.data_ptr()
        whole = self._storages.get(address)
        if whole is None:  # one for all tensors in the storage: they share it afterwards, too
            count = storage.nbytes() // tensor.element_size() * tensor.element_size()
            memory = (ctypes.c_uint8 * count).from_address(address)
            memory.tensor = tensor  # keeps the memory, with the array
            whole = self._storages[address] = np.frombuffer(memory, np.uint8)
        place = tuple(tensor.size()), tensor.stride(), tensor.storage_offset()
        return _tensor, (whole, tensor.dtype, *place)


def _cached_property(function: Any, name: Any) -> Any:
    made: Any = functools.cached_property(function)
    made.attrname = name
    return made


def _tensor(whole: np.ndarray[Any, Any], dtype: Any, size: Any, stride: Any, offset: int) -> Any:
    import torch

    return torch.frombuffer(whole, dtype=dtype).as_strided(size, stride, offset)


def _reduce_array(array: np.ndarray[Any, Any]) -> Any:
    kind = type(array)
    if kind is not np.ndarray and kind is not np.memmap:
        return NotImplemented
    file = _file_of(array)
    if file is None:
        # A memmap without a file is an array, which lies beside the pickle.
        return np.asarray(array).__reduce_ex__(5) if kind is np.memmap else NotImplemented
    first = last = array.ctypes.data
    for length, stride in zip(array.shape, array.strides, strict=True):
        first, last = first + min(0, (length - 1) * stride), last + max(0, (length - 1) * stride)
    last += array.itemsize
    mode = file.mode if file.mode == "c" else "r+"
    if mode == "c" and _has_own_pages(first, last):
        return np.asarray(array).__reduce_ex__(5)
    mapping = np.frombuffer(file._mmap, np.uint8).ctypes.data  # type: ignore[attr-defined]
    at = file.offset - file.offset % mmap.ALLOCATIONGRANULARITY + first - mapping
    place = at, last - first, array.ctypes.data - first, array.strides
    return _reopened, (
        kind is np.memmap,
        file.filename,
        mode if array.flags.writeable else "r",
        array.dtype,
        array.shape,
        *place,
    )


def _file_of(array: np.ndarray[Any, Any]) -> np.memmap[Any, Any] | None:
    """The mapped file that has the array's elements, if it can be opened by its name."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap) and base.filename is not None and array.size:
            return base if os.path.exists(base.filename) else None
        base = base.base
    return None


def _reopened(
    is_memmap: bool,
    name: Any,
    mode: Any,
    dtype: Any,
    shape: Any,
    at: int,
    size: int,
    offset: int,
    strides: Any,
) -> Any:
    file = np.memmap(name, np.uint8, mode, at, (size,))
    if not is_memmap:
        return np.ndarray(shape, dtype, file, offset, strides)
    array: Any = np.ndarray.__new__(np.memmap, shape, dtype, file, offset, strides)
    for attribute in ("_mmap", "filename", "offset", "mode"):
        setattr(array, attribute, getattr(file, attribute))
    return array


def _has_own_pages(first: int, last: int) -> bool:
    """Whether someone has written to these bytes of a private mapping."""
    try:
        with open("/proc/self/smaps") as lines:
            is_within = False
            for line in lines:
                name = line.split(None, 1)[0]
                if not name.endswith(":"):
                    begin, end = (int(number, 16) for number in name.split("-"))
                    is_within = begin < last and first < end
                elif is_within and name == "Anonymous:" and line.split()[1] != "0":
                    return True
    except OSError:
        return True
    return False


def _culprits(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What does not pickle, and has no part that does not: its path, and itself."""
    fails: dict[int, bool] = {}  # by identity

    def search(path: str, value: Any) -> Iterator[tuple[str, Any]]:
        if id(value) in fails or len(fails) > _MOST_PARTS:
            return
        try:
            _pickle(value)
            fails[id(value)] = False
        except Exception:
            fails[id(value)] = True
            has_bad_part = False
            for name, part in _parts(path, value):
                yield from search(name, part)
                has_bad_part |= fails.get(id(part), False)
            if not has_bad_part:
                yield path, value

    for name, value in values.items():
        yield from search(name, value)


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{path}[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"{path}[{number}]", part) for number, part in enumerate(value))
    elif isinstance(value, types.MethodType):
        yield f"{path}.__self__", value.__self__
        yield f"{path}.__func__", value.__func__
    elif isinstance(value, functools.partial):
        yield f"{path}.func", value.func
        yield f"{path}.args", value.args
        yield f"{path}.keywords", value.keywords
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from ((f"{name}, which {path} uses,", cell.cell_contents) for name, cell in cells)
        used = (name for name in value.__code__.co_names if name in value.__globals__)
        yield from ((f"{name}, which {path} uses,", value.__globals__[name]) for name in used)
        yield f"{path}.__defaults__", value.__defaults__
    else:
        attributes = dict(getattr(value, "__dict__", {}))
        outside = "" if path == "options" else f"{path}."
        yield from ((f"{outside}{name}", part) for name, part in attributes.items())
        if not isinstance(value, type):
            yield type(value).__qualname__, type(value)
