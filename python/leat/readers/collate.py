"""torch's default_collate, whose tensors are written straight into the slot."""

from __future__ import annotations

import copy
import importlib
import sys
import threading
from collections import OrderedDict, UserDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from leat.readers.structure import DTYPES, Part, Space, array_code, as_tensor, stacked_code

__all__ = ["Collate", "convert", "default_of", "keep_out_of_shared_memory", "stacking_in"]

_OF_TORCH = "torch.utils.data._utils.collate"
_FOUND = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"

# Types that each torch has. For others the installed torch is asked.
_IN_EVERY_TORCH = frozenset(
    DTYPES.index(name) for name in ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool")
)

Labels = Sequence[Any]


def default_of(collate_fn: Callable[[Any], Any] | None, *, batched: bool) -> bool:
    """Whether the function is the default: None, or torch's own default_collate (not batched: default_convert)."""
    if collate_fn is None:
        return True
    name = "default_collate" if batched else "default_convert"
    return getattr(collate_fn, "__module__", None) == _OF_TORCH and getattr(collate_fn, "__name__", None) == name


def convert(data: Any, *, as_torch: bool) -> Any:
    """A sample without a batch, as torch's default_convert gives it."""
    if not as_torch:
        return data
    return _torch_collate().default_convert(data)


def _torch_collate() -> Any:
    return importlib.import_module(_OF_TORCH)


class _Current(threading.local):
    space: Space | None = None


_current = _Current()


@contextmanager
def stacking_in(space: Space | None) -> Iterator[None]:
    """torch's default_collate, called in this thread, stacks there."""
    _current.space = space
    try:
        yield
    finally:
        _current.space = None


def keep_out_of_shared_memory() -> None:
    """Has torch's default_collate stack into the slot, or into plain memory, where get_worker_info() is set.

    torch would make a file in /dev/shm for each tensor.
    """
    tensor = importlib.import_module("torch").Tensor
    worker: Any = importlib.import_module("torch.utils.data._utils.worker")
    of_types: dict[Any, Any] = getattr(_torch_collate(), "default_collate_fn_map", {})
    original = of_types.get(tensor)
    if original is None or getattr(original, "__module__", None) != _OF_TORCH:
        return

    def collate_tensor_fn(batch: Any, **options: Any) -> Any:
        stacked = _current.space.stack(batch) if _current.space is not None else None
        if stacked is not None:
            return stacked
        info, worker._worker_info = worker._worker_info, None
        try:
            return original(batch, **options)
        finally:
            worker._worker_info = info

    collate_tensor_fn.__module__ = _OF_TORCH
    of_types[tensor] = collate_tensor_fn


class Collate:
    """Makes one batch of samples, by the rules of the installed torch's default_collate.

    The result has a ``Part`` for each tensor that can be stacked into the slot. Without ``as_torch`` the
    tensors are NumPy arrays, and samples of different types are an error: torch would convert them.
    """

    def __init__(self, *, as_torch: bool) -> None:
        self._as_torch = as_torch
        self.labels: Labels = ()

    def __call__(self, samples: Sequence[Any], labels: Labels = ()) -> Any:
        """``labels`` are what errors call the samples."""
        self.labels = labels
        if self._as_torch and _is_extended():
            return self._by_torch(samples, ())
        return self.node(samples, (), False)

    def node(self, batch: Sequence[Any], path: tuple[Any, ...], now: bool) -> Any:
        """The batch of what the samples have at ``path``. ``now``: with all tensors made at once, as the type
        above looks at what it is given."""
        made = self._leaf(batch, path)
        if made is None:
            return self._inner(batch, path, now)
        return made.now() if now and isinstance(made, Part) else made

    def _leaf(self, batch: Sequence[Any], path: tuple[Any, ...]) -> Any:
        first = batch[0]
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(first, torch.Tensor):
            return self._tensors(batch, path)
        if isinstance(first, np.ndarray):
            return self._arrays(batch, path)
        if isinstance(first, (np.bool_, np.number)):
            return self._scalars(batch, path)
        if isinstance(first, float):
            return self._numbers(batch, path, "float64")
        if isinstance(first, int):
            return self._numbers(batch, path, "bool" if isinstance(first, bool) else "int64")
        if isinstance(first, (str, bytes)):
            return batch
        return None

    def _tensors(self, batch: Sequence[Any], path: tuple[Any, ...]) -> Any:
        torch = sys.modules["torch"]
        first = batch[0]
        code = stacked_code(batch)
        if code is None:
            return self._by_torch(batch, path)

        def write(out: np.ndarray[Any, Any]) -> None:
            try:
                torch.stack(tuple(batch), 0, out=as_tensor(out, code))
            except Exception as error:  # other shapes: a loop that looks for them costs as much as the stack
                raise self.explain(error, batch, path)

        return Part(code, (len(batch), *first.shape), not self._as_torch, write)

    def _arrays(self, batch: Sequence[Any], path: tuple[Any, ...]) -> Any:
        first = batch[0]
        if first.dtype.kind in "SUO":
            raise self.explain(TypeError(_FOUND.format(first.dtype)), batch, path)
        code = array_code(first.dtype)
        alike = all(isinstance(one, np.ndarray) for one in batch) and {one.dtype for one in batch} == {first.dtype}
        if code is None or not alike or {one.shape for one in batch} != {first.shape}:
            return self._by_torch(batch, path)
        if self._as_torch:
            flipped = any(not one.flags.c_contiguous and min(one.strides) < 0 for one in batch)
            if flipped or not in_torch(code):
                return self._by_torch(batch, path)

        def write(out: np.ndarray[Any, Any]) -> None:
            if first.ndim:
                np.concatenate(batch, out=out.reshape(-1, *first.shape[1:]))
            else:
                out[:] = batch

        return Part(code, (len(batch), *first.shape), not self._as_torch, write)

    def _scalars(self, batch: Sequence[Any], path: tuple[Any, ...]) -> Any:
        code = array_code(batch[0].dtype)
        if {*map(type, batch)} != {type(batch[0])} or code is None:
            return self._by_torch(batch, path)
        if self._as_torch and not in_torch(code):
            return self._by_torch(batch, path)
        return self._of_list(np.array(batch, batch[0].dtype), code)

    def _numbers(self, batch: Sequence[Any], path: tuple[Any, ...], name: str) -> Any:
        allowed = {"float64": (float, int), "int64": (int,), "bool": (bool,)}[name]
        kinds = {*map(type, batch)}
        if not self._as_torch and kinds <= {int, float, bool} and kinds != {bool}:
            name = "float64" if float in kinds else "int64"  # as NumPy makes of them
        elif not all(issubclass(kind, allowed) and not issubclass(kind, np.generic) for kind in kinds) or (
            name == "int64" and bool in kinds
        ):
            return self._by_torch(batch, path)
        try:
            return self._of_list(np.array(batch, name), DTYPES.index(name))
        except OverflowError:
            return self._by_torch(batch, path)

    def _of_list(self, array: np.ndarray[Any, Any], code: int) -> Part:
        return Part(code, array.shape, not self._as_torch, lambda out: np.copyto(out, array))

    def _inner(self, batch: Sequence[Any], path: tuple[Any, ...], now: bool) -> Any:
        first = batch[0]
        kind = type(first)
        if isinstance(first, Mapping):
            if not self._as_torch:
                self.check_keys(batch, path)
            now = now or not _is_known_mapping(kind)
            values = {key: self.node(self.under(batch, key, path), (*path, key), now) for key in first}
            return values if kind is dict else self._mapping(first, values)
        if isinstance(first, tuple) and hasattr(first, "_fields"):
            now = now or kind.__bases__ != (tuple,)
            parts = zip(first._fields, zip(*batch, strict=False), strict=False)
            return kind(*(self.node(rows, (*path, name), now) for name, rows in parts))
        if isinstance(first, Sequence):
            try:
                if {*map(len, batch)} != {len(first)}:
                    raise RuntimeError("each element in list of batch should be of equal size")
            except (RuntimeError, TypeError) as error:
                raise self.explain(error, batch, path)
            now = now or kind not in (list, tuple)
            made = [self.node(rows, (*path, index), now) for index, rows in enumerate(zip(*batch, strict=True))]
            return made if kind is list or isinstance(first, tuple) else self._sequence(first, made)
        raise self.explain(TypeError(_FOUND.format(kind)), batch, path)

    def under(self, batch: Sequence[Any], key: Any, path: tuple[Any, ...]) -> list[Any]:
        try:
            return [sample[key] for sample in batch]
        except Exception as error:
            for row, sample in enumerate(batch):
                if not isinstance(sample, Mapping):
                    error.add_note(f"leat: {self.label(row)} has {told(sample)}{in_field(path)}, and no dict")
                    break
                if key not in sample:
                    error.add_note(f"leat: {self.label(row)} has no field {_dotted((*path, key))}")
                    break
            raise

    def check_keys(self, batch: Sequence[Any], path: tuple[Any, ...]) -> None:
        """Raises if the samples have not all the same keys. torch asks for those of the first."""
        first = batch[0].keys()
        for row, sample in enumerate(batch):
            if not isinstance(sample, Mapping):
                raise TypeError(f"{self.label(row)} has {told(sample)}{in_field(path)}, and no dict")
            if sample.keys() != first:
                key = next(key for key in [*first, *sample] if key not in sample or key not in first)
                who, other = (0, row) if key in sample else (row, 0)
                raise KeyError(f"{self.label(who)} has no field {_dotted((*path, key))}, which {self.label(other)} has")

    def _mapping(self, first: Any, values: dict[Any, Any]) -> Any:
        try:
            if self._clones() and isinstance(first, MutableMapping):
                clone = copy.copy(first)
                clone.update(values)
                return clone
            return type(first)(values)
        except TypeError:
            return values

    def _sequence(self, first: Any, made: list[Any]) -> Any:
        try:
            if self._clones() and isinstance(first, MutableSequence):
                clone = copy.copy(first)
                for index, one in enumerate(made):
                    clone[index] = one
                return clone
            return type(first)(made)
        except TypeError:
            return made

    def _clones(self) -> bool:
        """Whether torch copies a sample's own mapping and updates the copy: not in torch 1."""
        if not self._as_torch:
            return True
        return hasattr(_torch_collate(), "copy")

    def _by_torch(self, batch: Sequence[Any], path: tuple[Any, ...]) -> Any:
        """What has no fast way, also all errors: as torch makes it."""
        if not self._as_torch:
            return self._by_numpy(batch, path)
        try:
            return _torch_collate().default_collate(batch)
        except Exception as error:
            raise self.explain(error, batch, path)

    def _by_numpy(self, batch: Sequence[Any], path: tuple[Any, ...]) -> Any:
        first = batch[0]
        for row, one in enumerate(batch):
            same = type(one) is type(first) and getattr(one, "dtype", None) == getattr(first, "dtype", None)
            if not same or getattr(one, "shape", None) != getattr(first, "shape", None):
                error = RuntimeError if same else TypeError
                raise error(f"{self.label(row)} has {told(one)}{in_field(path)}, and {self.label(0)} has {told(first)}")
        if type(first).__module__.partition(".")[0] == "torch":
            return sys.modules["torch"].stack(list(batch))
        return np.stack(batch) if isinstance(first, np.ndarray) else np.array(batch)

    def explain(self, error: Exception, batch: Sequence[Any], path: tuple[Any, ...]) -> Exception:
        """Adds which sample differs from the first, and where."""
        seen = [told(one) for one in batch]
        row = next((row for row, one in enumerate(seen) if one != seen[0]), None)
        if row is None:
            error.add_note(f"leat: {self.label(0)} has {seen[0]}{in_field(path)}")
        else:
            error.add_note(
                f"leat: {self.label(row)} has {seen[row]}{in_field(path)}, and {self.label(0)} has {seen[0]}"
            )
        return error

    def label(self, row: int) -> str:
        return f"sample {self.labels[row]}" if row < len(self.labels) else f"row {row} of the batch"


def _is_known_mapping(kind: type) -> bool:
    """Whether the type takes any values, without a look at them."""
    if issubclass(kind, UserDict):
        return kind.__init__ is UserDict.__init__ and kind.__setitem__ is UserDict.__setitem__
    return kind in (dict, OrderedDict, defaultdict)


def _is_extended() -> bool:
    """Whether the program gave torch's default_collate other types, or other functions."""
    collate = sys.modules.get(_OF_TORCH)
    of_types: dict[Any, Any] = getattr(collate, "default_collate_fn_map", {})
    return any(getattr(function, "__module__", None) != _OF_TORCH for function in of_types.values())


def in_torch(code: int) -> bool:
    """Whether the installed torch has the type."""
    return code in _IN_EVERY_TORCH or hasattr(importlib.import_module("torch"), DTYPES[code])


def _dotted(path: tuple[Any, ...]) -> str:
    return repr(".".join(map(str, path)))


def in_field(path: tuple[Any, ...]) -> str:
    return f" in field {_dotted(path)}" if path else ""


def told(value: Any) -> str:
    """A value, in as few words as tell it from one that does not fit beside it."""
    kind = type(value).__name__
    if value is None:
        return "None"
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic):
        what = {"ndarray": "an array", "Tensor": "a tensor"}.get(kind, f"a value of type {kind},")
        return f"{what} of {str(value.dtype).removeprefix('torch.')} and shape {tuple(value.shape)}"
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return f"a {kind} of length {len(value)}"
    return f"a value of type {kind}"
