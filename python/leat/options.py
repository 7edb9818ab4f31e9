"""Options of a Prefetcher, and their checks."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Autotune", "FailureBudget", "Live", "Packing"]

Framework = Literal["torch", "numpy", "jax", "cupy"]
Order = Literal["shuffled", "sequential"]
LastBatch = Literal["partial", "drop", "pad", "wrap"]
Delivery = Literal["in_order", "as_completed"]
CheckSlots = Literal["no", "yes", "read_only"]
PadTo = Literal["field", "batch"]
OnEscape = Literal["copy", "raise"]

ORDERS = ("shuffled", "sequential")
LAST_BATCHES = ("partial", "drop", "pad", "wrap")
DELIVERIES = ("in_order", "as_completed")
CHECKS = ("no", "yes", "read_only")
PAD_TO = ("field", "batch")
ON_ESCAPE = ("copy", "raise")

_LARGEST = 2**63 - 1


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # NumPy's, too


def whole(name: str, value: object, least: int = 0, most: int = _LARGEST) -> int:
    """Returns ``value`` as an int within the bounds. ``True`` is no number, nor is 2.0."""
    wanted = f"{name} has to be an int of at least {least}, not {value!r}"
    if _is_bool(value):
        raise TypeError(wanted)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(wanted) from None
    if number < least:
        raise ValueError(wanted)
    if number > most:
        raise ValueError(f"{name} has to be at most {most}, not {value!r}")
    return number


def positive(name: str, value: object) -> float:
    """Returns ``value`` as a finite float above 0."""
    return _real(name, value, "a number above 0", lambda number: 0 < number < float("inf"))


def _real(name: str, value: object, what: str, is_good: Any) -> float:
    wanted = f"{name} has to be {what}, not {value!r}"
    if _is_bool(value) or isinstance(value, (str, bytes)):
        raise TypeError(wanted)
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(wanted) from None
    except OverflowError:  # an int that no float is near to
        raise ValueError(wanted) from None
    if not is_good(number):
        raise ValueError(wanted)
    return number


def flag(name: str, value: object) -> bool:
    """Returns ``value``, which is True or False."""
    if not _is_bool(value):
        raise TypeError(f"{name} has to be True or False, not {value!r}")
    return bool(value)


def one_of(name: str, value: object, values: Sequence[str]) -> str:
    """Returns ``value``, which is one of ``values``."""
    wanted = f"{name} has to be one of {', '.join(map(repr, values))}, not {value!r}"
    if not isinstance(value, str):
        raise TypeError(wanted)
    if value not in values:
        raise ValueError(wanted)
    return value


def instance_or_none(name: str, value: object, of: type) -> Any:
    """Returns ``value``, which is a ``of`` or None."""
    if value is not None and not isinstance(value, of):
        raise TypeError(f"{name} has to be a leat.{of.__name__}, not {value!r}")
    return value


@dataclass(frozen=True)
class Packing:
    """Puts samples of variable length one after the other, without padding.

    An epoch is then one row of elements, cut into batches of ``batch_size`` elements; a sample may
    be cut into pieces. A batch's ``"offsets"`` say where each begins, and where the last one ends.
    """

    #: Samples and pieces of samples that one rank's batch may have; 0: as many as it has elements.
    most_samples: int = 0

    def __post_init__(self) -> None:
        whole("most_samples", self.most_samples)


@dataclass(frozen=True)
class Autotune:
    """Lets the prefetcher change ``workers`` and ``prefetch_depth`` while it runs.

    It changes them when its measurements say that a change pays. ``stats().decisions`` lists the
    changes with their reasons. The batches stay the same.
    """

    #: At least ``workers``.
    max_workers: int = 8
    #: At least ``prefetch_depth``.
    max_prefetch_depth: int = 4
    #: Batches from one look at the measurements to the next.
    every: int = 64

    def __post_init__(self) -> None:
        whole("max_workers", self.max_workers, 1)
        whole("max_prefetch_depth", self.max_prefetch_depth, 1)
        whole("every", self.every, 1)


@dataclass(frozen=True)
class FailureBudget:
    """How many samples may fail, and be left out, before a failure ends the epoch with an error.

    The budget is ``count``, or what ``rate`` allows if that is more.
    """

    #: Samples.
    count: int = 0
    #: A fraction, 0 to 1, of the samples that were handed out so far.
    rate: float = 0.0

    def __post_init__(self) -> None:
        whole("count", self.count)
        _real("rate", self.rate, "a number from 0 to 1", lambda number: 0 <= number <= 1)


@dataclass(frozen=True)
class Live:
    """Shows the figures in a terminal while the loop runs."""

    #: A file descriptor, open for writing as long as the prefetcher lives.
    fd: int = 2
    #: Batches after which progress is 100 %; 0: those of an epoch.
    batches: int = 0

    def __post_init__(self) -> None:
        whole("fd", self.fd, 0, 2**31 - 1)
        whole("batches", self.batches)
