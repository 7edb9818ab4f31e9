"""What data costs a training loop: any loop, whoever feeds it."""

from __future__ import annotations

import html
import logging
import operator
import sys
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar, final

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

    The host's wait for each batch is measured, and, once the loop uses CUDA, the device's idle gap
    across it, in one step of 16. Nothing waits for the device. At the end of each loop, the
    logger ``leat`` has one sentence, at level INFO.

    Args:
        iterable: A DataLoader, a generator, a ``leat.Prefetcher``: anything that ``for`` takes.
        name: What the sentences call it. By default the name of its type.
        stream: Where the loop's work runs: a ``torch.cuda.Stream`` or a ``cupy.cuda.Stream``. By
            default torch's current stream, if the program has initialised torch's CUDA, or else
            CuPy's, if the program uses CuPy. JAX has no streams: there the host is measured.
    """
    return Overlap(iterable, name, stream)


@final
class Overlap(Generic[_T_co]):
    """What ``leat.overlap()`` returns: the iterable, measured. It has the iterable's length and
    attributes. Several loops over it, one after the other, add up.

    If a second loop begins before the first has ended, the second is measured. ``figures()`` and
    ``report()`` may be called from any thread.
    """

    def __init__(self, iterable: Iterable[_T_co], name: str | None, stream: object) -> None:
        self._iterable = iterable
        self._name = type(iterable).__name__ if name is None else name
        self._given = stream
        self._meter = LoopMeter()
        self._latest = 0  # the number of the loop that is measured
        if stream is not None:
            _place_of(stream)

    def __iter__(self) -> Iterator[_T_co]:
        self._meter.ends()
        self._latest += 1
        self._asks()
        try:
            return _Loop(self, iter(self._iterable), self._latest)
        except BaseException:
            self._meter.ends()
            raise

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __length_hint__(self) -> int:
        return operator.length_hint(self._iterable)

    def __bool__(self) -> bool:
        return bool(self._iterable)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_iterable" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._iterable, name)

    def figures(self) -> LoopFigures:
        """The figures so far. Does not wait for the device."""
        return self._meter.figures()

    def report(self) -> str:
        """The figures so far as a table, with a sentence, in several lines."""
        return f"{self._name}:\n{self.figures().table()}"

    def __repr__(self) -> str:
        return f"<leat.Overlap {self._name}: {self.figures().sentence()}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.report())}</pre>"

    def _asks(self) -> None:
        place = _place_of(self._given) if self._meter.wants_stream() else None
        if place is None:
            self._meter.asks()
        else:
            self._meter.asks_on(*place)

    def _ends(self, number: int) -> None:
        if number != self._latest:
            return
        self._meter.ends()
        if _LOGGER.isEnabledFor(logging.INFO) and self._meter.is_here:
            figures = self._meter.figures()
            if figures.iterations > 0:
                _LOGGER.info("%s: %s", self._name, figures.sentence())


@final
class _Loop(Iterator[_T]):
    """An iterator, measured while its number is the latest."""

    def __init__(self, of: Overlap[_T], iterator: Iterator[_T], number: int) -> None:
        self._of = of
        self._iterator = iterator
        self._number = number
        self._has_asked = True  # since before iter(), which may start workers
        self._is_over = False

    def __next__(self) -> _T:
        of = self._of
        if self._is_over or self._number != of._latest:
            return next(self._iterator)
        if self._has_asked:
            self._has_asked = False
        else:
            of._asks()
        try:
            batch = next(self._iterator)
        except BaseException:  # StopIteration among others: as it came
            self._ends()
            raise
        of._meter.got()
        return batch

    def __length_hint__(self) -> int:
        return operator.length_hint(self._iterator)

    def __del__(self) -> None:
        self._ends()

    def _ends(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._of._ends(self._number)


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
