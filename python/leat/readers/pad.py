"""Ragged samples in one batch: padded to its longest."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from leat import options
from leat.readers.collate import Collate, Labels, in_field, in_torch, told
from leat.readers.structure import BFLOAT16, DTYPES, STORAGE, Part, array_code, as_tensor, torch_code

__all__ = ["PadCollate", "pad_collate"]

_NUMBERS = (int, float, np.number, np.bool_)
_WHOLE = (int, np.integer, np.bool_)


def pad_collate(
    values: Mapping[str, float] | float = 0,
    *,
    multiple_of: int = 1,
    lengths: bool = False,
    fields: Sequence[str] | None = None,
    name: str = "ids",
) -> PadCollate:
    """Returns a ``collate_fn`` that pads the samples' first dimension to the longest of the batch.

    Example::

        collate_fn=leat.pad_collate(values={"labels": -100}, multiple_of=8, lengths=True)

    A sample is a tensor, an array or a list of numbers, or a dict, tuple or list of them; all else becomes
    what torch's ``default_collate`` makes of it. A list of ints gives int64, one of floats float64. A
    reader of Leat writes the rows straight into the slot.

    Args:
        values: What rows are padded with: a number, or one for each field. A field without one has 0.
        multiple_of: The padded length is a multiple of it.
        lengths: Adds the lengths of the rows, in int64: for a field ``"x"`` of a dict, ``"x_length"``; to a
            tuple, one more tensor for each padded field, in their order. Samples that are single tensors
            become a dict of ``name`` and ``"length"``.
        fields: The fields that are padded; None: all that have a dimension. The fields of a tuple are
            "0", "1", and so on.
        name: What the field of single tensors is called.
    """
    return PadCollate(values, multiple_of=multiple_of, lengths=lengths, fields=fields, name=name)


class PadCollate:
    """What ``pad_collate`` returns."""

    def __init__(
        self,
        values: Mapping[str, float] | float,
        *,
        multiple_of: int,
        lengths: bool,
        fields: Sequence[str] | None,
        name: str,
    ) -> None:
        if isinstance(values, Mapping):
            self._values, self._value = {key: _number(key, value) for key, value in values.items()}, 0.0
        else:
            self._values, self._value = {}, _number("values", values)
        self._multiple = options.whole("multiple_of", multiple_of, 1)
        self._lengths = options.flag("lengths", lengths)
        if isinstance(fields, str):
            raise TypeError(f"fields has to be a list of names, not {fields!r}")
        self._fields = None if fields is None else frozenset(fields)
        self._name = name

    def __call__(self, samples: Sequence[Any]) -> Any:
        """The batch, in memory of its own: torch tensors where a sample has one or torch is imported."""
        return self._batch(_Padding(samples, (), sys.modules.get("torch") is not None, now=True))

    def parts(self, samples: Sequence[Any], labels: Labels, *, as_torch: bool) -> Any:
        """The batch, with a ``Part`` for each tensor."""
        return self._batch(_Padding(samples, labels, as_torch, now=False))

    def _batch(self, work: _Padding) -> Any:
        samples = work.samples
        if not len(samples):
            raise ValueError("pad_collate: there are no samples")
        first = samples[0]
        if isinstance(first, Mapping):
            work.collate.check_keys(samples, ())
            self._check_names(map(str, first))
            batch = {key: self._field(work, [one[key] for one in samples], str(key)) for key in first}
            if self._lengths:
                for key, length in work.lengths:
                    if f"{key}_length" in batch:
                        raise ValueError(f"pad_collate(lengths=True): the samples have a field '{key}_length' already")
                    batch[f"{key}_length"] = length
            return batch
        if isinstance(first, (tuple, list)) and not _is_row(first):
            if any(not isinstance(one, (tuple, list)) or len(one) != len(first) for one in samples):
                raise work.collate.explain(RuntimeError("the samples have to be of equal length"), samples, ())
            self._check_names(map(str, range(len(first))))
            columns = [self._field(work, rows, str(at)) for at, rows in enumerate(zip(*samples, strict=True))]
            added = [length for _, length in work.lengths] if self._lengths else []
            if hasattr(first, "_fields") and not added:
                return type(first)(*columns)
            return columns + added
        self._check_names([self._name])
        padded = self._field(work, samples, self._name)
        if self._lengths and work.lengths:
            return {self._name: padded, "length": work.lengths[0][1]}
        return padded

    def _check_names(self, names: Iterable[str]) -> None:
        known = list(names)
        for name in [*self._values, *(self._fields or ())]:
            if name not in known:
                raise ValueError(f"pad_collate: the samples have no field {name!r}, but {', '.join(map(repr, known))}")

    def _field(self, work: _Padding, rows: Sequence[Any], name: str) -> Any:
        if self._fields is None or name in self._fields:
            arrays = work.arrays(rows, name)
            if arrays[0] is not None:
                return work.padded(rows, arrays, name, self._values.get(name, self._value), self._multiple)
            if self._fields is not None:
                raise work.collate.explain(
                    TypeError(f"pad_collate: field {name!r} has no dimension to pad"), rows, (name,)
                )
        return work.collate.node(rows, (name,), work.now)


class _Padding:
    """The work for one batch."""

    def __init__(self, samples: Sequence[Any], labels: Labels, as_torch: bool, *, now: bool) -> None:
        self.samples, self.as_torch, self.now = samples, as_torch, now
        self.collate = Collate(as_torch=as_torch)
        self.collate.labels = labels
        self.lengths: list[tuple[str, Any]] = []

    def arrays(self, rows: Sequence[Any], name: str) -> list[Any]:
        made = []
        for row, one in enumerate(rows):
            try:
                made.append(_array(one))
            except OverflowError:
                who = self.collate.label(row)
                raise ValueError(f"pad_collate: {who} has an int{in_field((name,))} that int64 cannot hold") from None
        if all(isinstance(one, list) for one in rows) and all(one is not None for one in made):
            # An empty list has no type of its own, and ints beside floats are floats.
            dtype = np.result_type(*[one.dtype for one in made if len(one)] or [np.int64])
            made = [one.astype(dtype, copy=False) for one in made]
        return made

    def padded(self, rows: Sequence[Any], arrays: Sequence[Any], name: str, value: float, multiple: int) -> Any:
        first = arrays[0]
        code, rest = _code(first), tuple(first.shape[1:])
        for row, one in enumerate(arrays):
            if one is None or _code(one) != code or code is None:
                raise self._unlike(TypeError, rows, row, name)
            if tuple(one.shape[1:]) != rest:
                raise self._unlike(RuntimeError, rows, row, name)
        assert code is not None
        if self.as_torch and not in_torch(code):
            raise self._unlike(TypeError, rows, 0, name)
        sizes = [len(one) for one in arrays]
        longest = -(-max(sizes) // multiple) * multiple
        if code != BFLOAT16:
            _check_value(value, code, name)

        def write(out: np.ndarray[Any, Any]) -> None:
            torch = sys.modules.get("torch")
            target = as_tensor(out, code) if code == BFLOAT16 else out
            for row, one in enumerate(arrays):
                if code != BFLOAT16 and torch is not None and isinstance(one, torch.Tensor):
                    one = one.detach().numpy()
                target[row, : sizes[row]] = one
                target[row, sizes[row] :] = value

        lengths = np.array(sizes, np.int64)
        made = Part(DTYPES.index("int64"), lengths.shape, not self.as_torch, lambda out: np.copyto(out, lengths))
        self.lengths.append((name, made.now() if self.now else made))
        made = Part(code, (len(rows), longest, *rest), not self.as_torch, write)
        return made.now() if self.now else made

    def _unlike(self, error: type[Exception], rows: Sequence[Any], row: int, name: str) -> Exception:
        label = self.collate.label
        return error(
            f"pad_collate: {label(row)} has {told(rows[row])}{in_field((name,))}, and {label(0)} has {told(rows[0])}; "
            "rows may differ in their first dimension only"
            if row
            else f"pad_collate: {label(0)} has {told(rows[0])}{in_field((name,))}, which cannot be padded"
        )


def _is_row(value: Any) -> bool:
    """Whether it is a list of numbers."""
    return isinstance(value, list) and all(issubclass(kind, _NUMBERS) for kind in {*map(type, value)})


def _array(value: Any) -> Any:
    """The value as something with a first dimension to pad, or None. OverflowError: int64 cannot hold an int of it."""
    torch = sys.modules.get("torch")
    if isinstance(value, np.ndarray) or (torch is not None and isinstance(value, torch.Tensor)):
        return value if value.ndim else None
    if not _is_row(value):
        return None
    kinds = {*map(type, value)} or {int}
    # NumPy alone would make floats of an int that is too large.
    return np.array(value, np.int64 if int in kinds and all(issubclass(kind, _WHOLE) for kind in kinds) else None)


def _code(row: Any) -> int | None:
    return array_code(row.dtype) if isinstance(row, np.ndarray) else torch_code(row.dtype)


def _check_value(value: float, code: int, name: str) -> None:
    if STORAGE[code].kind in "iub" and np.array(value).astype(STORAGE[code]) != value:
        raise ValueError(f"pad_collate: field {name!r} is of {DTYPES[code]}, which cannot hold {value!r}")


def _number(name: str, value: object) -> float:
    if not isinstance(value, _NUMBERS):
        raise TypeError(f"pad_collate: the value of {name!r} has to be a number, not {value!r}")
    return value  # type: ignore[return-value]
