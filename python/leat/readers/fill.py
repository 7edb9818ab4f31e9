"""What a reader does for a batch: it reads the samples, and writes the batch into a slot."""

from __future__ import annotations

import importlib
import operator
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from leat.readers import rng
from leat.readers.collate import Collate, convert, default_of, keep_out_of_shared_memory, stacking_in
from leat.readers.options import FillOptions, Where
from leat.readers.pad import PadCollate
from leat.readers.structure import DTYPES, Part, Place, Space, encode_layout, pack, place

__all__ = ["NO_SAMPLE", "Dropped", "Filled", "Filler", "Request", "Room", "checked_fields"]

#: Where the number of a sample is asked for, and there is none.
NO_SAMPLE = 2**64 - 1

_FAILURE = struct.Struct("<QI4x")


class Dropped(BaseException):
    """The batch is not wanted any more. No error, and nothing that user code should catch."""


class Request(NamedTuple):
    """A batch that is wanted."""

    epoch: int
    #: The number of the batch in its epoch.
    index: int  # type: ignore[assignment]
    seed: int
    #: The place of the batch's first row in its epoch.
    first: int
    #: Another number each time that an epoch begins.
    pass_: int
    #: A list of sample numbers or keys; for ``one``, the key; for ``iterable``, None.
    keys: Any


class Room(Protocol):
    """The memory of a slot."""

    @property
    def memory(self) -> memoryview:
        """Writable bytes."""

    def grow(self, bytes: int) -> memoryview:
        """Returns memory of at least that size. What was written is lost. Raises Dropped."""


class Filled(NamedTuple):
    """A batch whose tensors are in the slot. The other bytes belong there one after another from ``at`` on."""

    rows: int
    layout: bytes
    opaque: bytes
    failures: bytes
    at: int


class _Row(dict[str, Any]):
    """The place of a sample in the slot, by field. To assign an array is to write it there."""

    def __setitem__(self, name: str, value: Any) -> None:
        self[name][...] = value


class Filler:
    """Makes the batches of one reader."""

    def __init__(self, dataset: Any, options: FillOptions, *, worker: int, workers: int, where: Where) -> None:
        self._dataset = dataset
        self._options = options
        self._worker, self._workers, self._where = worker, workers, where
        self._scope = rng.Scope()
        self._has_torch = False
        self._collate = Collate(as_torch=options.as_torch)
        self._stacks_in_slot = where == "process"
        self._arrays = options.device_is_host or not options.as_torch
        self._getitems = _getitems(dataset)
        #: Where it notes the row that it reads, for those who ask what killed it.
        self.progress: memoryview | None = None
        self._pass: int | None = None
        self._iterator: Iterator[Any] | None = None
        self._fields = checked_fields(options.fields or {}) if options.kind == "read_into" else ()
        if options.kind == "samples" or options.batch_size is not None:
            self._is_default = default_of(options.collate_fn, batched=True)
        else:
            self._is_default = default_of(options.collate_fn, batched=False)

    def start(self) -> None:
        """Prepares the reader, before its first batch. In a process: seeds, get_worker_info(), worker_init_fn."""
        if self._where != "process":
            return
        if self._options.as_torch and (self._options.worker_init_fn or self._options.kind == "iterable"):
            with suppress(ModuleNotFoundError):  # they ask for get_worker_info()
                importlib.import_module("torch")
        rng.seed_all(self._options.seed, self._worker, 0)
        self._meet_torch()
        if self._options.worker_init_fn is not None:
            try:
                self._options.worker_init_fn(self._worker)
            except Exception as error:
                error.add_note(f"leat: worker_init_fn, worker {self._worker}")
                raise

    def fill(self, request: Request, room: Room) -> Filled | None:
        """Reads a batch and writes its tensors into the slot. None: an iterable dataset has no more.

        Raises what the dataset's code raises, with a note of the sample and the worker; where the sample has
        a number, the exception has it as ``_leat_sample``.
        """
        self._scope.seed, self._scope.epoch = request.seed, request.epoch
        with rng.restored() if self._where == "caller" else nullcontext(), rng.within(self._scope):
            if self._where == "process":
                self._meet_torch()
            if self._where != "thread":
                rng.seed_all(request.seed, request.epoch, request.index)
            if self._options.kind == "read_into":
                return self._read_into(request, room)
            if self._options.kind == "one":
                return self._one(request, room)
            if self._options.kind == "iterable":
                return self._from_iterable(request, room)
            return self._samples(request, room)

    # ---- the kinds

    def _samples(self, request: Request, room: Room) -> Filled:
        keys, failures = list(request.keys), b""
        if self._getitems is not None:
            self._scope.batch(request.index)
            try:
                samples: Any = self._getitems(keys)
            except Exception as error:
                if not self._options.leave_out:
                    raise self._noted(error, f"samples {_few(keys)} (__getitems__)")
                one_each = self._getitems
                samples, keys, failures = self._each(request, lambda key: next(iter(one_each([key]))))
        else:
            samples, keys, failures = self._each(request, partial(operator.getitem, self._dataset))
        return self._collated(request, room, samples, keys, failures)

    def _each(self, request: Request, read: Callable[[Any], Any]) -> tuple[list[Any], list[Any], bytes]:
        """The samples that could be read, their keys, and the failures."""
        samples: list[Any] = []
        failed, failures = set(), b""
        scope, numbers = self._scope, self._options.random == "sample"
        scope.samples()
        progress = self.progress
        for row, key in enumerate(request.keys):
            if progress is not None:
                progress[0] = row
            scope.number = key if numbers and type(key) is int else request.first + row
            scope.made = None
            try:
                samples.append(read(key))
            except Exception as error:
                failures += self._failed(error, key)
                failed.add(row)
        keys = [key for row, key in enumerate(request.keys) if row not in failed] if failed else request.keys
        return samples, keys, failures

    def _read_into(self, request: Request, room: Room) -> Filled:
        count = len(request.keys)
        is_array = not self._options.as_torch
        parts = {name: Part(code, (count, *shape), is_array, lambda out: None) for name, code, shape in self._fields}
        packed, opaque = pack(parts)
        places, at = place(packed)
        memory = _at_least(room, at + len(opaque) + 256 * (len(parts) + 1))
        views = {field[0]: one.view(memory) for field, one in zip(self._fields, places, strict=True)}
        row = 0

        def read(key: Any) -> None:
            nonlocal row
            self._dataset.read_into(key, _Row((name, view[row, ...]) for name, view in views.items()))
            row += 1

        _, _, failures = self._each(request, read)
        if row < count:
            places = [
                Place(one.name, one.code, (row, *one.shape[1:]), one.offset, one.nbytes // count * row)
                for one in places
            ]
        layout = encode_layout(places)
        if at + len(layout) + len(opaque) + len(failures) > len(memory):
            kept = [view.copy() for view in views.values()]  # growing loses what is written
            views.clear()
            memory = room.grow(at + len(layout) + len(opaque) + len(failures))
            for one, rows in zip(places, kept, strict=True):
                one.view(memory)[...] = rows[:row]
        return Filled(row, layout, opaque, failures, at)

    def _one(self, request: Request, room: Room) -> Filled:
        key, place = request.keys, request.first
        if self._options.random == "sample":  # Leat's order: a list of one number
            (key,) = key
            place = key
        self._scope.samples(place)
        try:
            data = self._dataset[key]
        except Exception as error:
            return _without_rows(room, self._failed(error, key))
        return self._finished(request, room, data, 1, b"", f"sample {key!r}")

    def _from_iterable(self, request: Request, room: Room) -> Filled | None:
        if request.pass_ != self._pass:
            self._iterator = None
            self._scope.batch(request.index)
            try:
                self._iterator = iter(self._dataset)
            except Exception as error:
                raise self._noted(error, "iter(dataset)")
            self._pass = request.pass_
        size = self._options.batch_size
        samples, failures = [], b""
        for row in range(1 if size is None else size):
            if self._iterator is None:
                break
            self._scope.samples(request.first + row)
            try:
                samples.append(next(self._iterator))
            except StopIteration:
                self._iterator = None
            except Exception as error:
                failures += self._failed(error, request.first + row, f"row {row} of batch {request.index}")
        if not samples and not failures:
            return None
        if size is None:
            if not samples:
                return _without_rows(room, failures)
            return self._finished(request, room, samples[0], 1, failures, f"batch {request.index}")
        if self._options.drop_last and self._iterator is None and len(samples) < size:
            return None
        return self._collated(request, room, samples, (), failures)

    # ---- from samples to the slot

    def _collated(self, request: Request, room: Room, samples: Any, keys: Sequence[Any], failures: bytes) -> Filled:
        if failures and not len(samples):
            return _without_rows(room, failures)
        function = self._options.collate_fn
        what = f"batch {request.index} of epoch {request.epoch}" + (f" (samples {_few(keys)})" if keys else "")
        self._scope.batch(request.index)
        try:
            rows = len(samples) if isinstance(samples, (list, tuple)) else len(keys)
            if self._is_default:
                return self._written(room, self._collate(samples, keys), rows, failures)
            if isinstance(function, PadCollate):
                batch = function.parts(samples, keys, as_torch=self._options.as_torch)
                return self._written(room, batch, rows, failures)
            return self._by_function(room, samples, rows, failures)
        except Exception as error:
            raise self._noted(error, what)

    def _finished(self, request: Request, room: Room, data: Any, rows: int, failures: bytes, what: str) -> Filled:
        """For what is a batch already."""
        try:
            if self._is_default:
                return self._written(room, convert(data, as_torch=self._options.as_torch), rows, failures)
            self._scope.batch(request.index)
            return self._by_function(room, data, rows, failures)
        except Exception as error:
            raise self._noted(error, what)

    def _by_function(self, room: Room, data: Any, rows: int, failures: bytes) -> Filled:
        """By the user's collate_fn."""
        assert self._options.collate_fn is not None
        space = Space(room.memory) if self._stacks_in_slot else None
        with stacking_in(space):
            batch = self._options.collate_fn(data)
        packed = pack(batch, arrays=self._arrays, space=space)
        del batch
        filled = self._placed(room, packed, rows, failures, space)
        if space is not None and space.is_held():
            # User code keeps a tensor that is in the slot. It has that memory for itself then.
            self._stacks_in_slot = False
            before, size = room.memory, filled.at
            room.grow(len(before) + 1)[:size] = before[:size]
        return filled

    def _written(self, room: Room, batch: Any, rows: int, failures: bytes) -> Filled:
        if self._options.tensors_only:
            batch = _only_tensors(batch)
        return self._placed(room, pack(batch, arrays=self._arrays), rows, failures, None)

    def _placed(
        self, room: Room, packed: tuple[list[Part], bytes], rows: int, failures: bytes, space: Space | None
    ) -> Filled:
        """Writes the parts that are not in the slot yet, and lets go of all."""
        parts, opaque = packed
        places, at = place(parts, space.end if space is not None else 0)
        layout = encode_layout(places)
        total = at + len(layout) + len(opaque) + len(failures)
        if total > len(room.memory):
            for part in parts:
                part.at = None  # it is in the old memory
            room.grow(total)
        memory = room.memory
        while parts:
            part, one = parts.pop(), places[len(parts)]
            if one.nbytes and part.at is None:
                part.write(one.view(memory))
        return Filled(rows, layout, opaque, failures, at)

    # ---- errors

    def _failed(self, error: Exception, key: Any, what: str | None = None) -> bytes:
        """The bytes of a failure, or raises."""
        sample = key if type(key) is int and 0 <= key < NO_SAMPLE else NO_SAMPLE
        if not self._options.leave_out:
            error = self._noted(error, what or f"sample {key!r}")
            if sample != NO_SAMPLE:
                with suppress(AttributeError):
                    error._leat_sample = sample  # type: ignore[attr-defined]
            raise error
        text = "".join(traceback.format_exception_only(error)).strip().encode(errors="replace")[:4000]
        return _FAILURE.pack(sample, len(text)) + text + bytes(-len(text) % 8)

    def _noted(self, error: Exception, what: str) -> Exception:
        if isinstance(error, StopIteration):  # it would end the trainer's loop in silence
            cause, error = error, RuntimeError("the dataset's code raised StopIteration")
            error.__cause__ = cause
        error.add_note(f"leat: {what}, worker {self._worker}")
        return error

    # ---- torch

    def _meet_torch(self) -> None:
        """Once torch is imported in a process: get_worker_info(), one thread, no shared memory."""
        if self._has_torch or sys.modules.get("torch") is None:
            return
        self._has_torch = True
        sys.modules["torch"].set_num_threads(1)
        worker: Any = importlib.import_module("torch.utils.data._utils.worker")
        worker._worker_info = worker.WorkerInfo(
            id=self._worker, num_workers=self._workers, seed=self._options.seed + self._worker, dataset=self._dataset
        )
        keep_out_of_shared_memory()


def _only_tensors(batch: Any) -> dict[str, Any]:
    named = batch if isinstance(batch, Mapping) else dict(enumerate(batch if isinstance(batch, (tuple, list)) else (batch,)))
    for name, value in named.items():
        if isinstance(value, (Part, np.ndarray)) or type(value).__name__ == "Tensor":
            continue
        raise TypeError(
            f"a sample has to be a dict or a tuple of arrays and numbers for a leat.Prefetcher, but {name!r} makes "
            f"a {type(value).__name__} of a batch: leave it out, or take a leat.DataLoader"
        )
    return {str(name): value for name, value in named.items()}


def checked_fields(fields: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[tuple[str, int, tuple[int, ...]]]:
    """Returns name, code and shape of each field, or raises for what is no field."""
    wanted = 'fields has to be a dict such as {"x": ("uint8", (3, 224, 224))}'
    if not isinstance(fields, Mapping) or not fields:
        raise TypeError(f"{wanted}, not {fields!r}")
    checked = []
    for name, field in fields.items():
        if not isinstance(name, str) or not isinstance(field, (tuple, list)) or len(field) != 2:
            raise TypeError(f"{wanted}: {name!r} is {field!r}")
        dtype, shape = field
        dtype = np.dtype(dtype).name if _is_numpy(dtype) else str(dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise ValueError(f"field {name!r} has type {dtype!r}, which is none of {', '.join(DTYPES)}")
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes):
            raise ValueError(f"field {name!r} has shape {shape!r}, which has to be of ints of at least 0")
        checked.append((name, DTYPES.index(dtype), sizes))
    return checked


def _is_numpy(dtype: object) -> bool:
    return isinstance(dtype, np.dtype) or (isinstance(dtype, type) and issubclass(dtype, np.generic))


def _getitems(dataset: Any) -> Callable[[list[Any]], Any] | None:
    """``__getitems__``, if it reads samples together. torch's Subset has it for datasets without, too."""
    function: Callable[[list[Any]], Any] | None = getattr(dataset, "__getitems__", None)
    kind = type(dataset)
    if function and kind.__name__ == "Subset" and kind.__module__ == "torch.utils.data.dataset":
        return function if _getitems(dataset.dataset) else None
    return function


def _without_rows(room: Room, failures: bytes) -> Filled:
    """Of a batch whose samples have all failed."""
    _, opaque = pack(None)
    _at_least(room, len(opaque) + len(failures))
    return Filled(0, b"", opaque, failures, 0)


def _at_least(room: Room, size: int) -> memoryview:
    memory = room.memory
    return memory if len(memory) >= size else room.grow(size)


def _few(keys: Sequence[Any]) -> str:
    named = ", ".join(str(key) for key in keys[:8])
    return f"{named} and {len(keys) - 8} more" if len(keys) > 8 else named
