"""Random numbers that do not depend on which reader reads a sample, nor when."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["Scope", "restored", "rng", "seed_all", "seed_and_epoch"]

_MASK = 2**64 - 1

# The second word of the counter: what a generator is for. Streams of 2^128 numbers, disjoint.
_SAMPLE, _BATCH = 0, 1


class Scope:
    """What one reader's ``rng()`` is keyed by. The reader sets it before each sample."""

    __slots__ = ("_bits", "_counter", "_key", "_state", "_what", "epoch", "made", "number", "seed")

    def __init__(self) -> None:
        self.seed = self.epoch = 0
        self._what = _SAMPLE
        #: The sample, by its number or place. Where it is set, ``made`` becomes None.
        self.number = 0
        self.made: np.random.Generator | None = None
        self._bits: np.random.Philox | None = None
        self._counter, self._key = np.zeros(4, np.uint64), np.zeros(2, np.uint64)
        self._state: Any = {
            "bit_generator": "Philox",
            "state": {"counter": self._counter, "key": self._key},
            "buffer": np.zeros(4, np.uint64),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }

    def samples(self, number: int = 0) -> None:
        """What follows is of samples, the first one by its number or place."""
        self._what, self.number, self.made = _SAMPLE, number, None

    def batch(self, number: int) -> None:
        """What follows is of a whole batch: ``__getitems__``, ``collate_fn``."""
        self._what, self.number, self.made = _BATCH, number, None

    def generator(self) -> np.random.Generator:
        """The generator of the sample, or batch: one and the same until the next begins."""
        if self.made is None:
            # One object for all samples: a new one costs 12 us, its state 4.
            if self._bits is None:
                self._bits = np.random.Philox(key=0)
            self._counter[2:], self._key[:] = (self._what, self.number & _MASK), (self.seed & _MASK, self.epoch & _MASK)
            self._bits.state = self._state
            self.made = np.random.Generator(self._bits)
        return self.made


class _Current(threading.local):
    scope: Scope | None = None


_current = _Current()


@contextmanager
def within(scope: Scope) -> Iterator[None]:
    """``rng()`` of this thread is the scope's."""
    before, _current.scope = _current.scope, scope
    try:
        yield
    finally:
        _current.scope = before


def rng() -> np.random.Generator:
    """Returns the random numbers of the sample that is being read, for use in a dataset or transform.

    They are a function of the seed, the epoch and the sample's number alone: the same for any number and
    kind of readers, and after a resume. Where a sampler gives the order, the sample's place in the epoch
    takes the place of its number, as samples may repeat. In ``__getitems__`` and ``collate_fn`` they are the
    batch's. All calls for one sample return one generator; it is of no use after that sample.

    RuntimeError: no reader of Leat is reading in this thread.
    """
    scope = _current.scope
    if scope is None:
        raise RuntimeError(
            "leat.rng() works where a reader of Leat reads a sample: in a dataset's __getitem__, in a transform or "
            "collate_fn, in the same thread. Elsewhere, take numpy.random.default_rng()"
        )
    return scope.generator()


def seed_and_epoch() -> tuple[int, int]:
    """The seed and the epoch of what this thread reads; zeros outside of a reader."""
    scope = _current.scope
    return (0, 0) if scope is None else (scope.seed, scope.epoch)


def _mixed(*words: int) -> int:
    """64 bits that depend on all bits of the words (the finalizer of splitmix64)."""
    value = 0
    for word in words:
        value = (value + (word & _MASK) + 0x9E3779B97F4A7C15) & _MASK
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
        value ^= value >> 31
    return value


def seed_all(seed: int, epoch: int, batch: int) -> None:
    """Seeds ``random``, ``numpy.random`` and torch's generator of the CPU, where torch is imported."""
    value = _mixed(seed, epoch, batch)
    random.seed(value)
    np.random.seed(value >> 32)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(value)  # torch.manual_seed would note it for CUDA, too: 40 us


@contextmanager
def restored() -> Iterator[None]:
    """Puts the state of ``random``, ``numpy.random`` and torch back at the end."""
    python, arrays = random.getstate(), np.random.get_state(legacy=False)
    torch = sys.modules.get("torch")
    tensors = torch.default_generator.get_state() if torch else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)
        if torch:
            torch.default_generator.set_state(tensors)
