"""What a batch is made of: tensors, which go into the slot, and a pickle of all the rest."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

__all__ = ["DTYPES", "Part", "Place", "Space", "decode_layout", "encode_layout", "pack", "place", "unpack"]

#: The types that a slot's tensors may have. A type's code is its index here.
DTYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64",
    "float16", "bfloat16", "float32", "float64", "bool",
)  # fmt: skip

BFLOAT16 = DTYPES.index("bfloat16")
#: What NumPy writes them as. It has no bfloat16: that goes as its bits.
STORAGE = tuple(np.dtype("int16" if name == "bfloat16" else name) for name in DTYPES)
_CODES = {np.dtype(name): code for code, name in enumerate(DTYPES) if name != "bfloat16"}
_torch_codes: dict[Any, int] = {}

#: Where a slot's tensors begin: at multiples of it.
ALIGNMENT = 256


def array_code(dtype: np.dtype[Any]) -> int | None:
    """The code of a NumPy type; None if no tensor of a slot has it. Bytes in another order have none."""
    return _CODES.get(dtype)


def torch_code(dtype: Any) -> int | None:
    """The code of a torch type; None if no tensor of a slot has it."""
    global _torch_codes
    if not _torch_codes:
        torch = sys.modules["torch"]
        _torch_codes = {getattr(torch, name): code for code, name in enumerate(DTYPES) if hasattr(torch, name)}
    return _torch_codes.get(dtype)


def stacked_code(batch: Sequence[Any]) -> int | None:
    """The code of torch tensors that a slot takes as one: plain ones of the CPU, of one type. None: others."""
    torch = sys.modules["torch"]
    first = batch[0]
    if first.layout is not torch.strided or first.device.type != "cpu" or first.requires_grad:
        return None
    alike = {*map(type, batch)} == {torch.Tensor} and {one.dtype for one in batch} == {first.dtype}
    return torch_code(first.dtype) if alike else None


def as_tensor(array: np.ndarray[Any, Any], code: int) -> Any:
    """The torch tensor of that type in the array's memory."""
    torch = sys.modules["torch"]
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if code == BFLOAT16 else tensor


class Part:
    """A tensor of a batch that is written once its place in the slot is known."""

    __slots__ = ("at", "code", "is_array", "name", "shape", "write")

    def __init__(
        self, code: int, shape: Sequence[int], is_array: bool, write: Callable[[np.ndarray[Any, Any]], object]
    ) -> None:
        self.code = code
        self.shape = tuple(shape)
        #: Whether the batch has a NumPy array there, and not a torch tensor.
        self.is_array = is_array
        #: Writes all values into an array of this shape, and of ``STORAGE[code]``.
        self.write = write
        self.name = ""
        #: Where it is in the slot already; None: it is to be written.
        self.at: int | None = None

    def now(self) -> Any:
        """The tensor in memory of its own."""
        array = np.empty(self.shape, STORAGE[self.code])
        if array.size:
            self.write(array)
        if self.is_array:
            return array
        import torch  # noqa: F401

        return as_tensor(array, self.code)


def _array_part(array: np.ndarray[Any, Any], *, is_array: bool = True) -> Part | None:
    code = _CODES.get(array.dtype)
    return None if code is None else Part(code, array.shape, is_array, lambda out: np.copyto(out, array))


def _tensor_part(tensor: Any) -> Part | None:
    torch = sys.modules["torch"]
    code = torch_code(tensor.dtype)
    if code is None or tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.requires_grad:
        return None
    return Part(code, tensor.shape, False, lambda out: as_tensor(out, code).copy_(tensor))


class Space:
    """The part of a slot in which tensors are made that may become parts of a batch."""

    def __init__(self, memory: memoryview) -> None:
        self._memory = memory
        self._made: list[weakref.ref[Any]] = []
        self._whole: dict[int, tuple[int, int]] = {}  # address: offset and bytes of a tensor that no part has
        #: Where it ends in the slot.
        self.end = 0

    def stack(self, batch: Sequence[Any]) -> Any:
        """torch.stack() of the tensors; None if they do not fit there."""
        torch = sys.modules["torch"]
        first = batch[0]
        code = stacked_code(batch)
        if code is None:
            return None
        offset = -(-self.end // ALIGNMENT) * ALIGNMENT
        nbytes = len(batch) * first.numel() * first.element_size()
        if nbytes == 0 or offset + nbytes > len(self._memory):
            return None
        array: np.ndarray[Any, Any] = np.ndarray((len(batch), *first.shape), STORAGE[code], self._memory, offset)
        tensor = as_tensor(array, code)
        torch.stack(tuple(batch), 0, out=tensor)
        self._made.append(weakref.ref(array))  # which the tensor keeps
        self._whole[tensor.data_ptr()] = offset, nbytes
        self.end = offset + nbytes
        return tensor

    def place_of(self, tensor: Any) -> int | None:
        """Where the tensor is in the slot, if it is one that was made here. Once."""
        offset, nbytes = self._whole.get(tensor.data_ptr(), (0, -1))
        if nbytes != tensor.numel() * tensor.element_size() or not tensor.is_contiguous():
            return None
        del self._whole[tensor.data_ptr()]
        return offset

    def is_held(self) -> bool:
        """Whether anyone has a tensor of it."""
        return any(one() is not None for one in self._made)


# ---- the pickle

# The structure of most batches is made of these.
_PLAIN = frozenset((dict, list, tuple, str, bytes, int, float, bool, type(None)))


class _Cut:
    """The tensors that were cut out of a pickle."""

    def __init__(self, arrays: bool, space: Space | None) -> None:
        self.parts: list[Part] = []
        self._space = space
        self.ids: dict[int, int] = {}  # of an object: what stands for it
        self._arrays = arrays
        self._kept: list[object] = []  # so that no other object gets its id
        self._tensor = getattr(sys.modules.get("torch"), "Tensor", None)

    def stand_in(self, obj: Any) -> object:
        """What stands for the object; None: it is pickled."""
        kind = type(obj)
        if kind in _PLAIN:
            return None
        part: Part | None
        if kind is Part:
            part = obj
        elif kind is np.ndarray:
            part = _array_part(obj) if self._arrays else None
        elif kind is self._tensor:
            part = _tensor_part(obj)
            if part is not None and self._space is not None and id(obj) not in self.ids:
                part.at = self._space.place_of(obj)
        else:
            return _class_id(obj) if isinstance(obj, type) else None
        if part is None:
            return None
        known = self.ids.get(id(obj))
        if known is None:
            known = len(self.parts)
            if part.is_array:
                known = ~known
            self.ids[id(obj)] = known
            self._kept.append(obj)
            self.parts.append(part)
        return known


class _Pickler(pickle.Pickler):
    """For most batches, and 10 us faster than the other."""

    def __init__(self, file: io.BytesIO, cut: _Cut) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.persistent_id = cut.stand_in  # type: ignore[method-assign]


class _CloudPickler(cloudpickle.Pickler):  # type: ignore[misc]
    """For functions and all else that main cannot import."""

    def __init__(self, file: io.BytesIO, cut: _Cut) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.persistent_id = cut.stand_in


_class_ids: dict[type, tuple[str, str, bytes] | None] = {}


def _class_id(of: type) -> tuple[str, str, bytes] | None:
    """None: main can import the class. Else what finds it there: (module, name, pickle of it by value)."""
    try:
        return _class_ids[of]
    except KeyError:
        pass
    found: Any = sys.modules.get(of.__module__)
    for name in of.__qualname__.split("."):
        found = getattr(found, name, None)
    # A class that main pickled by value has its name, but is in no module of this process.
    known = None
    if of.__module__ == "__main__" or found is not of:
        known = of.__module__, of.__qualname__, cloudpickle.dumps(of)
    _class_ids[of] = known
    return known


def pack(batch: Any, *, arrays: bool = True, space: Space | None = None) -> tuple[list[Part], bytes]:
    """Returns the tensors of a batch, and a pickle of the batch without them.

    Torch's tensors on the CPU are cut out, and with ``arrays`` NumPy's arrays; also those inside of objects.
    What no slot can hold (complex, sparse, strings, objects, what has a gradient) stays in the pickle. A
    tensor that the batch has twice is one part. Those that were made in ``space`` are in their place.
    """
    try:
        try:
            cut, pickled = _Cut(arrays, space), io.BytesIO()
            _Pickler(pickled, cut).dump(batch)
        except (pickle.PicklingError, AttributeError, TypeError):
            cut, pickled = _Cut(arrays, None), io.BytesIO()
            _CloudPickler(pickled, cut).dump(batch)
    except Exception as error:
        error.add_note("leat: a batch that goes from a reader to the trainer has to pickle")
        raise
    _name(batch, cut)
    return cut.parts, pickled.getvalue()


# What has no tensor in it.
_SCALARS = frozenset((str, bytes, int, float, bool, type(None)))


def _name(batch: Any, cut: _Cut) -> None:
    """Names each part by the keys that lead to it: "x", "a.0"; "0" for a batch that is one tensor."""
    if isinstance(batch, (dict, list, tuple)) or id(batch) in cut.ids:
        _walk(batch, "", 0, cut, set())
    for index, part in enumerate(cut.parts):
        if part.name == "":  # inside of an object
            part.name = f"tensor {index}"


# No function within _name: it would keep the tensors until the garbage collector comes.
def _walk(node: Any, path: str, depth: int, cut: _Cut, names: set[str]) -> None:
    index = cut.ids.get(id(node))
    if index is not None:
        part = cut.parts[index if index >= 0 else ~index]
        if part.name == "":
            part.name = path or "0"
            while part.name in names:
                part.name += "_"
            names.add(part.name)
        return
    if depth > 8:  # it may have itself in it
        return
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        if type(value) not in _SCALARS and (isinstance(value, (dict, list, tuple)) or id(value) in cut.ids):
            _walk(value, f"{path}.{key}" if path else str(key), depth + 1, cut, names)


class _Unpickler(pickle.Unpickler):
    def __init__(self, opaque: bytes, tensor: Callable[[int], Any], array: Callable[[int], Any]) -> None:
        super().__init__(io.BytesIO(opaque))
        self._tensor, self._array = tensor, array
        self._made: dict[int, Any] = {}

    def persistent_load(self, pid: Any) -> Any:
        if type(pid) is not int:
            return _class_of(pid)
        made = self._made.get(pid)
        if made is None:
            made = self._made[pid] = self._tensor(pid) if pid >= 0 else self._array(~pid)
        return made


_loaded: dict[bytes, type] = {}


def _class_of(known: tuple[str, str, bytes]) -> Any:
    module, name, pickled = known
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type):
        return found
    if pickled not in _loaded:
        if len(_loaded) > 256:
            _loaded.clear()
        _loaded[pickled] = pickle.loads(pickled)  # main's own class: cloudpickle knows those it has pickled
    return _loaded[pickled]


def unpack(opaque: bytes, tensor: Callable[[int], Any], array: Callable[[int], Any]) -> Any:
    """Returns the batch of ``pack``, with new nodes.

    ``tensor(i)`` gives part i where the batch has a torch tensor, ``array(i)`` where it has a NumPy array;
    each is called once for a part.
    """
    return _Unpickler(opaque, tensor, array).load()


# ---- the layout


class Place(NamedTuple):
    """A tensor in a slot."""

    name: str
    code: int
    shape: tuple[int, ...]
    offset: int
    nbytes: int

    def view(self, memory: memoryview) -> np.ndarray[Any, Any]:
        """The tensor there; bfloat16 as int16."""
        return np.ndarray(self.shape, STORAGE[self.code], memory, self.offset if self.nbytes else 0)


_TENSOR = struct.Struct("<HBB4xQQ")


def place(parts: Sequence[Part], begin: int = 0) -> tuple[list[Place], int]:
    """Returns where the parts lie in a slot, and where they end (a multiple of 8). ``begin``: where the first
    lies that has no place yet."""
    places, end = [], begin
    for part in parts:
        nbytes = STORAGE[part.code].itemsize
        for size in part.shape:
            nbytes *= size
        offset = part.at
        if offset is None:
            offset = -(-end // ALIGNMENT) * ALIGNMENT
            end = offset + nbytes
        places.append(Place(part.name, part.code, part.shape, offset, nbytes))
    return places, -(-end // 8) * 8


def encode_layout(places: Sequence[Place]) -> bytes:
    """The bytes that tell the places to main."""
    pieces = []
    for one in places:
        name = one.name.encode(errors="replace")[:1000]
        piece = _TENSOR.pack(len(name), one.code, len(one.shape), one.offset, one.nbytes)
        piece += struct.pack(f"<{len(one.shape)}q", *one.shape) + name
        pieces.append(piece + bytes(-len(piece) % 8))
    return b"".join(pieces)


def decode_layout(layout: bytes) -> list[Place]:
    """The places that ``encode_layout`` was given."""
    places, at = [], 0
    while at < len(layout):
        name_size, code, dimensions, offset, nbytes = _TENSOR.unpack_from(layout, at)
        shape = struct.unpack_from(f"<{dimensions}q", layout, at + _TENSOR.size)
        name_at = at + _TENSOR.size + 8 * dimensions
        name = bytes(layout[name_at : name_at + name_size]).decode(errors="replace")
        places.append(Place(name, code, shape, offset, nbytes))
        at = -(-(name_at + name_size) // 8) * 8
    return places
