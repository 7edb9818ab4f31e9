"""The order of a sampler: its lists of keys, drawn in the caller's thread while the epoch goes on."""

from __future__ import annotations

import base64
import hashlib
import pickle
import random
import struct
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

__all__ = ["Batches", "Draws", "Keys", "is_unchanged", "restore", "saved"]

NUMBERS, PICKLED = 0, 1  # kinds of keys

_END = object()


class Batches:
    """Lists of ``batch_size`` keys each of a sampler, as torch's BatchSampler makes them."""

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        keys: list[Any] = []
        for key in self.sampler:
            keys.append(key)
            if len(keys) == self.batch_size:
                yield keys
                keys = []
        if keys and not self.drop_last:
            yield keys

    def __len__(self) -> int:
        keys: int = len(self.sampler)  # type: ignore[arg-type]
        return keys // self.batch_size if self.drop_last else -(-keys // self.batch_size)


class Keys(NamedTuple):
    """The keys of one batch, as a reader gets them."""

    data: bytes
    kind: int
    #: How many keys there are.
    rows: int
    #: The same bytes for the same keys, in every run.
    order: bytes


class Draws:
    """The lists of one epoch, in order.

    Args:
        source: A batch sampler; with ``one``, a sampler, whose keys are batches.
        seed, epoch: What random numbers the sampler gets from the global generators.
        one: Each item is one key, and not a list of keys.
        expected: What ``state()`` said of the same epoch before. Another order raises ValueError.
    """

    def __init__(
        self, source: Iterable[Any], *, seed: int, epoch: int, one: bool, expected: Mapping[str, Any] | None = None
    ) -> None:
        self._one = one
        self._failure: Exception | None = None
        self._expected = expected if expected is not None and expected["drawn"] else None
        self._digest = hashlib.blake2b(digest_size=16)
        self._random = _Random(source, seed, epoch)
        with self._random:
            self._items = iter(source)
        #: How many lists were drawn.
        self.drawn = 0
        #: Whether the sampler has no more.
        self.ended = False

    def draw(self, most: int) -> list[Keys]:
        """Draws the next lists, at most so many; fewer where the sampler ends. Raises what the sampler raises,
        once the lists before it were returned.
        """
        found: list[Keys] = []
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        with self._random:
            while len(found) < most and not self.ended:
                try:
                    item = next(self._items, _END)
                except Exception as error:
                    if not found:
                        raise
                    self._failure = error
                    break
                if item is not _END:
                    found.append(self._noted(_pickled(item, 1) if self._one else _keys_of(item)))
                    continue
                self.ended = True
                if self.is_behind:
                    self._fail()
        return found

    def _noted(self, keys: Keys) -> Keys:
        self._digest.update(struct.pack("<IQ", keys.kind, len(keys.order)))
        self._digest.update(keys.order)
        self.drawn += 1
        if self._expected is not None and self.drawn == self._expected["drawn"]:
            if self._digest.hexdigest() != self._expected["digest"]:
                self._fail()
            self._expected = None
        return keys

    @property
    def is_behind(self) -> bool:
        """Whether lists that were drawn before the state was saved have still to be drawn again."""
        return self._expected is not None

    def state(self) -> dict[str, Any]:
        """How many lists were drawn, and their digest."""
        return {"drawn": self.drawn, "digest": self._digest.hexdigest()}

    def _fail(self) -> None:
        drawn = self._expected["drawn"] if self._expected is not None else 0
        self.ended = True
        raise ValueError(
            f"leat: the sampler gives another order than when the state was saved: its first {drawn} lists "
            f"({self.drawn} were drawn now) differ; resume with the same sampler, its arguments and seed"
        )


def _keys_of(item: Any) -> Keys:
    keys = item if isinstance(item, (list, tuple)) else list(item)
    if keys and set(map(type, keys)) == {int}:
        try:
            data = array("Q", keys).tobytes()
            return Keys(data, NUMBERS, len(keys), data)
        except OverflowError:  # negative numbers
            pass
    return _pickled(keys, len(keys))


def _pickled(keys: Any, rows: int) -> Keys:
    out = BytesIO()
    pickler = pickle.Pickler(out, protocol=5)
    pickler.fast = True  # without a memo: equal keys give equal bytes, whichever objects they share
    try:
        pickler.dump(keys)
    except (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError):  # a local class, a cycle
        return Keys(cloudpickle.dumps(keys), PICKLED, rows, b"")
    data = out.getvalue()
    # Readers in other processes have a __main__ of their own.
    sent = cloudpickle.dumps(keys) if b"__main__" in data else data
    return Keys(sent, PICKLED, rows, data)


class _Random:
    """The states of `random`, NumPy and torch that a sampler sees, and nobody else. For `with`.

    Of a sampler that surely uses none of them, or torch's alone, the others are left as they are: to
    exchange them all takes 0.1 ms.
    """

    def __init__(self, source: object, seed: int, epoch: int) -> None:
        key = hashlib.blake2b(struct.pack("<QQ", seed, epoch), digest_size=8, person=b"leat draws").digest()
        self._key = int.from_bytes(key, "little")
        self._users = _users_of(source)
        self._inside: dict[str, Any] = {}
        self._outside: list[tuple[str, Any]] = []

    def __enter__(self) -> None:
        for user in self._users:
            if user == "torch" and _torch_generator() is None:
                continue
            get, put, seed = _ACCESS[user]
            self._outside.append((user, get()))
            if user in self._inside:
                put(self._inside[user])
            else:
                seed(self._key)

    def __exit__(self, *exception: object) -> None:
        while self._outside:
            user, state = self._outside.pop()
            get, put, _ = _ACCESS[user]
            self._inside[user] = get()
            put(state)


def _torch_generator() -> Any:
    """torch's global generator on the CPU, if torch was imported."""
    return getattr(sys.modules.get("torch"), "default_generator", None)


_ACCESS: dict[str, tuple[Any, Any, Any]] = {
    "random": (random.getstate, random.setstate, random.seed),
    "numpy": (
        lambda: np.random.get_state(),
        lambda state: np.random.set_state(state),
        lambda key: np.random.seed([key & 0xFFFFFFFF, key >> 32]),
    ),
    "torch": (
        lambda: _torch_generator().get_state(),
        lambda state: _torch_generator().set_state(state),
        lambda key: _torch_generator().manual_seed(key),
    ),
}

_TORCH_SAMPLERS = ("torch.utils.data.sampler", "torch.utils.data.distributed")


def _users_of(source: object) -> tuple[str, ...]:
    """Whose random numbers the sampler may use."""
    users: tuple[str, ...] = ()
    for part in _parts(source):
        if isinstance(part, (list, tuple, range)) or type(part) is Batches:
            continue
        if type(part).__module__ not in _TORCH_SAMPLERS:
            return tuple(_ACCESS)
        users = ("torch",)
    return users


def _parts(sampler: object) -> list[Any]:
    """The sampler, its `.sampler`, that one's, and so on."""
    parts: list[Any] = []
    part: Any = sampler
    while part is not None and not any(part is one for one in parts):
        parts.append(part)
        part = getattr(part, "sampler", None)
    return parts


def saved(sampler: object) -> dict[str, Any]:
    """What of the sampler decides about its next lists, for json: its `state_dict()` if it has one, else
    the `epoch` and the `generator` of it and its `.sampler`.
    """
    parts = []
    for part in _parts(sampler):
        if callable(getattr(part, "state_dict", None)):
            parts.append({"state_dict": part.state_dict()})
            break
        epoch = getattr(part, "epoch", None)
        found = {"epoch": epoch} if isinstance(epoch, int) else {}
        state = _state_of(getattr(part, "generator", None))
        parts.append(found if state is None else found | {"generator": state})
    return {"parts": parts}


def restore(sampler: object, state: Mapping[str, Any], *, with_epoch: bool = True) -> None:
    """Puts the sampler back to what `saved()` gave. Raises ValueError for the state of another sampler."""
    parts = _parts(sampler)
    found = state.get("parts")
    if not isinstance(found, list) or len(found) > len(parts):
        raise ValueError("leat: the state is of another sampler: it has other parts")
    for part, one in zip(parts, found, strict=False):
        has_dict = callable(getattr(part, "state_dict", None))
        if ("state_dict" in one) != has_dict:
            raise ValueError(f"leat: the state is of another sampler than this {type(part).__name__}")
        if has_dict:
            part.load_state_dict(one["state_dict"])
            return
        if with_epoch and "epoch" in one and getattr(part, "epoch", None) != one["epoch"]:
            set_epoch = getattr(part, "set_epoch", None)
            if callable(set_epoch):
                set_epoch(one["epoch"])
            else:
                part.epoch = one["epoch"]
        if "generator" in one:
            _put_state(part, getattr(part, "generator", None), one["generator"])


def _state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return _plain(generator.bit_generator.state)
    if callable(getattr(generator, "get_state", None)):  # torch's
        return base64.b64encode(bytes(generator.get_state().numpy())).decode()
    return None


def _put_state(part: object, generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator) and isinstance(state, dict):
        generator.bit_generator.state = state
    elif callable(getattr(generator, "set_state", None)) and isinstance(state, str):
        values = np.frombuffer(base64.b64decode(state), np.uint8).copy()
        generator.set_state(sys.modules["torch"].from_numpy(values))
    else:
        raise ValueError(f"leat: the state has a generator, and this {type(part).__name__} has none of its kind")


def _plain(value: Any) -> Any:
    """The value with lists in place of arrays."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


def is_unchanged(sampler: object, state: Mapping[str, Any]) -> bool:
    """Whether nobody has changed the sampler since ``saved()`` gave that. One with a ``state_dict()`` counts
    as unchanged.
    """
    now = saved(sampler)["parts"]
    then = state["parts"]
    return len(now) == len(then) and all("state_dict" in a or a == b for a, b in zip(now, then, strict=True))
