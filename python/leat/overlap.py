"""Measures what data costs a training loop: any loop, whoever feeds it."""

from __future__ import annotations

import contextlib
import copy
import html
import logging
import operator
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Generic, Self, TypeVar, final

from leat._core import LoopFigures, LoopMeter

__all__ = ["LoopFigures", "Overlap", "overlap"]

_LOGGER = logging.getLogger("leat")
_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


def overlap(
    iterable: Iterable[_T], *, name: str | None = None, stream: object = None
) -> Overlap[_T]:
    """Measures what data costs the loop over ``iterable``, and changes nothing else of the loop.

    Example::

        loader = leat.overlap(torch.utils.data.DataLoader(...))
        for batch in loader:
            train_step(batch)
        print(loader.report())     # data costs 18.0 % of the step: the device is idle for ...

    Measures the host's wait for each batch and, once the loop uses CUDA, the device's idle gap
    across that wait, in one step of 16. Nothing waits for the device. At the end of each loop,
    writes one sentence to the logger ``leat``, at level INFO.

    Args:
        iterable: A DataLoader, a generator, a ``leat.Prefetcher``: anything that ``for`` takes.
        name: What the sentences call it. By default the name of its type.
        stream: Where the loop's work runs: a ``torch.cuda.Stream`` or a ``cupy.cuda.Stream``. By
            default torch's current stream, if the program has initialised torch's CUDA, or else
            CuPy's, if the program uses CuPy. JAX has no streams: there the host is measured.
    """
    return Overlap(iterable, name, stream)


class _Measured:
    """What an Overlap knows, apart from the attributes that are the loader's."""

    def __init__(self, name: str, stream: object) -> None:
        self.name = name
        self.given = stream
        self.meter = LoopMeter()
        self.latest = 0  # the number of the loop that is measured
        self.blocks: list[tuple[contextlib.ExitStack, Any]] = []  # with blocks, and the loader outside
        if stream is not None:
            _place_of(stream)

    def asks(self) -> None:
        place = _place_of(self.given) if self.meter.wants_stream() else None
        if place is None:
            self.meter.asks()
        else:
            self.meter.asks_on(*place)

    def ends(self, number: int) -> None:
        if number != self.latest:
            return
        self.meter.ends()
        if _LOGGER.isEnabledFor(logging.INFO) and self.meter.is_here:
            figures = self.meter.figures()
            if figures.iterations > 0:
                _LOGGER.info("%s: %s", self.name, figures.sentence())


@final
class Overlap(Generic[_T_co]):
    """What ``leat.overlap()`` returns: the iterable, measured. Several loops over it, one after the
    other, add up.

    Otherwise it behaves as the iterable: attributes and items are read, set and deleted there, and
    length, truth, ``in``, ``==`` and hash are the iterable's. A ``with`` block enters the iterable;
    inside it, the wrapper stands for what the block gives. Copies and pickles have a copy of the
    iterable, and measure anew. ``figures``, ``report``, ``repr()`` and the type are the wrapper's
    own: for an attribute of such a name, ask the iterable itself.

    If a second loop begins before the first has ended, the second is measured. ``figures()`` and
    ``report()`` may be called from any thread.
    """

    __slots__ = ("__weakref__", "_leat_loader", "_leat_measured")
    _leat_loader: Any
    _leat_measured: _Measured

    def __init__(self, iterable: Iterable[_T_co], name: str | None, stream: object) -> None:
        measured = _Measured(type(iterable).__name__ if name is None else name, stream)
        object.__setattr__(self, "_leat_loader", iterable)
        object.__setattr__(self, "_leat_measured", measured)

    def __iter__(self) -> Iterator[_T_co]:
        of = self._leat_measured
        of.meter.ends()
        of.latest += 1
        of.asks()
        try:
            return _Loop(of, iter(self._leat_loader), of.latest)
        except BaseException:
            of.meter.ends()
            raise

    def figures(self) -> LoopFigures:
        """The figures so far. Does not wait for the device."""
        return self._leat_measured.meter.figures()

    def report(self) -> str:
        """The figures so far as a table, with a sentence, in several lines."""
        return f"{self._leat_measured.name}:\n{self.figures().table()}"

    def __repr__(self) -> str:
        return f"<leat.Overlap {self._leat_measured.name}: {self.figures().sentence()}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.report())}</pre>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_leat_"):  # not set yet
            raise AttributeError(name)
        return getattr(self._leat_loader, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._leat_loader, _not_own(name), value)

    def __delattr__(self, name: str) -> None:
        delattr(self._leat_loader, _not_own(name))

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._leat_loader), *_OWN})

    def __len__(self) -> int:
        return len(self._leat_loader)

    def __length_hint__(self) -> int:
        return operator.length_hint(self._leat_loader)

    def __bool__(self) -> bool:
        return bool(self._leat_loader)

    def __contains__(self, item: object) -> bool:
        return item in self._leat_loader

    def __getitem__(self, key: Any) -> Any:
        return self._leat_loader[key]

    def __setitem__(self, key: Any, value: object) -> None:
        self._leat_loader[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._leat_loader[key]

    def __reversed__(self) -> Any:
        return reversed(self._leat_loader)

    def __eq__(self, other: object) -> Any:
        return self._leat_loader == (other._leat_loader if isinstance(other, Overlap) else other)

    def __hash__(self) -> int:
        return hash(self._leat_loader)

    def __enter__(self) -> Self:
        block, loader = contextlib.ExitStack(), self._leat_loader
        entered = block.enter_context(loader)
        self._leat_measured.blocks.append((block, loader))
        object.__setattr__(self, "_leat_loader", loader if entered is None else entered)
        return self

    def __exit__(self, *exception: Any) -> bool | None:
        block, loader = self._leat_measured.blocks.pop()
        object.__setattr__(self, "_leat_loader", loader)
        return block.__exit__(*exception)

    def __copy__(self) -> Overlap[_T_co]:
        return Overlap(copy.copy(self._leat_loader), self._leat_measured.name, self._leat_measured.given)

    def __deepcopy__(self, memo: dict[int, Any]) -> Overlap[_T_co]:
        loader = copy.deepcopy(self._leat_loader, memo)
        return Overlap(loader, self._leat_measured.name, self._leat_measured.given)

    def __reduce__(self) -> tuple[object, ...]:
        return Overlap, (self._leat_loader, self._leat_measured.name, self._leat_measured.given)


_OWN = ("figures", "report")


def _not_own(name: str) -> str:
    if name in _OWN:
        raise AttributeError(f"{name} is leat.Overlap's own: set it on the loader itself")
    return name


@final
class _Loop(Iterator[_T]):
    """An iterator, measured while its number is the latest. Its attributes and items are the iterator's."""

    _leat_has_asked = True  # since before iter(), which may start workers
    _leat_is_over = False

    def __init__(self, of: _Measured, iterator: Iterator[_T], number: int) -> None:
        self._leat_of = of
        self._leat_iterator = iterator
        self._leat_number = number

    def __next__(self) -> _T:
        of = self._leat_of
        if self._leat_is_over or self._leat_number != of.latest:
            return next(self._leat_iterator)
        if self._leat_has_asked:
            self._leat_has_asked = False
        else:
            of.asks()
        try:
            batch = next(self._leat_iterator)
        except BaseException:  # StopIteration among others: as it came
            self._leat_ends()
            raise
        of.meter.got()
        return batch

    def __len__(self) -> int:
        return len(self._leat_iterator)  # type: ignore[arg-type]

    def __length_hint__(self) -> int:
        return operator.length_hint(self._leat_iterator)

    def __bool__(self) -> bool:
        return bool(self._leat_iterator)

    def __getitem__(self, key: Any) -> Any:
        return self._leat_iterator[key]  # type: ignore[index]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_leat_"):  # not set yet
            raise AttributeError(name)
        return getattr(self._leat_iterator, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_leat_"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._leat_iterator, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._leat_iterator, name)

    def __copy__(self) -> Any:
        return copy.copy(self._leat_iterator)  # which nobody measures

    def __del__(self) -> None:
        self._leat_ends()

    def _leat_ends(self) -> None:
        if not self._leat_is_over:
            self._leat_is_over = True
            self._leat_of.ends(self._leat_number)


def _place_of(given: object) -> tuple[str, int] | None:
    """The device and the number of the stream where the loop's work runs; None: nowhere."""
    if given is None:
        try:
            return _current_of_torch() or _current_of_cupy()
        except Exception:  # a framework that is half imported, or has no GPU: not the loop's concern
            return None
    number: Any = getattr(given, "cuda_stream", None)  # torch's
    device: Any = getattr(getattr(given, "device", None), "index", None)
    if number is None:
        number = getattr(given, "ptr", None)  # CuPy's
        device = getattr(given, "device_id", None)
        if isinstance(device, int) and device < 0:  # that which was current
            device = sys.modules["cupy"].cuda.runtime.getDevice()
    if isinstance(number, int) and isinstance(device, int):
        return f"cuda:{device}", number
    raise TypeError(f"stream has to be a torch.cuda.Stream or a cupy.cuda.Stream, not {given!r}")


def _current_of_torch() -> tuple[str, int] | None:
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    stream = cuda.current_stream()
    return f"cuda:{stream.device.index}", stream.cuda_stream


def _current_of_cupy() -> tuple[str, int] | None:
    cuda: Any = getattr(sys.modules.get("cupy"), "cuda", None)
    if cuda is None or not cuda.driver.ctxGetCurrent():  # the program has not used it
        return None
    return f"cuda:{cuda.runtime.getDevice()}", cuda.get_current_stream().ptr
