"""The drop-in for torch's DataLoader: Python datasets, with batches that nest as they like."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import multiprocessing
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self

import numpy as np

from leat import _core, options
from leat.errors import Error, SampleError, Timeout, TooManyLeases
from leat.prefetcher import _device, _text_of
from leat.readers.draws import Batches, Draws, is_unchanged, restore, saved
from leat.readers.options import FillOptions
from leat.readers.processes import CallerReader, ReaderProcesses, ReaderThreads
from leat.readers.source import is_ordered, requests_of
from leat.readers.structure import unpack

if TYPE_CHECKING:
    from leat._core import Batch, Stats, Trace

__all__ = ["DataLoader"]

Readers = Literal["processes", "threads"]
READERS = ("processes", "threads")
FRAMEWORKS = ("auto", "torch", "numpy", "jax", "cupy")

# torch's attributes that do not change.
_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class _Reads(Protocol):
    """What runs the dataset's code."""

    @property
    def descriptors(self) -> list[int]: ...
    def renew(self, dataset: Any, options: FillOptions) -> bool: ...
    def wait(self) -> None: ...
    def close(self) -> None: ...


class DataLoader:
    """Loads the batches of a Python dataset as torch's ``DataLoader`` does.

    Example::

        loader = leat.DataLoader(dataset, batch_size=256, shuffle=True, num_workers=8, device="cuda:0")
        for images, labels in loader:
            step(images, labels)

    Arguments up to ``in_order`` are torch's, in its order. Those with another meaning here:

    Args:
        num_workers: How many readers there are. 0: the caller of ``next`` reads.
        pin_memory: No effect, with a warning: ``device`` says where batches go.
        timeout: The longest wait for a batch, in seconds. Then raises ``leat.Timeout``; the next call goes
            on waiting. 0: no limit.
        multiprocessing_context: No effect, with a warning.
        generator: Its ``initial_seed()`` is the seed.
        prefetch_factor: Pinned slots for each reader. None: 2.
        persistent_workers: Whether workers keep their copy of the dataset. ``False``: ``iter()`` compares
            it with the dataset, and renews it if that has changed.
        in_order: ``False``: batches come as they are completed.

    Leat's own:

    Args:
        device: Where batches go: ``"cpu"``, ``"cuda"``, ``"cuda:0"``, ``"auto"`` (the first CUDA device, or
            the CPU), or a ``torch.device``.
        framework: What tensors are: ``"torch"``, ``"numpy"``, ``"jax"``, ``"cupy"``. ``"auto"``: torch's, or
            NumPy's where torch is not installed.
        seed: Seeds the shuffled order, samplers that use the global generators, and random transforms.
        readers: ``"processes"``, or ``"threads"`` for code that lets go of the GIL.
        rank: The rank of this process: each reads its part of each global batch. ``"auto"``: that of
            ``torch.distributed``, or of the variables ``RANK`` and ``WORLD_SIZE``. ``None``: no parts.
        world_size: How many ranks train together.
        last_batch: What becomes of the samples that do not fill the last batch: ``"partial"``, ``"drop"``,
            ``"wrap"``. ``None``: by ``drop_last``; with several ranks ``"wrap"`` in place of ``"partial"``.
        prefetch_depth: Batches on the device, the one in use included.
        max_leases: Batches that may be held at a time, at least 2.
        on_escape: What happens when a loop holds more: ``"copy"``, or ``"raise"`` (``leat.TooManyLeases``).
        max_pinned_bytes: The most bytes that all pinned slots may take; 0: no limit.
        max_device_bytes: The most bytes that all device slots may take; 0: no limit.
        trace: Records batches for a timeline.
        live: Shows the figures in a terminal while the loop runs.
        sample_every: One step in ``sample_every`` is timed on the device; 0: none.

    Each ``iter()`` is the next epoch. A loop that takes no batch or one uses up nothing: the next ``iter()``
    is the same epoch. One loop at a time. A ``with`` block closes the loader at its end.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        device: object = "cpu",
        framework: Literal["auto"] | options.Framework = "auto",
        seed: int = 0,
        readers: Readers = "processes",
        rank: int | Literal["auto"] | None = None,
        world_size: int | None = None,
        last_batch: Literal["partial", "drop", "wrap"] | None = None,
        prefetch_depth: int = 2,
        max_leases: int = 4,
        on_escape: options.OnEscape = "copy",
        max_pinned_bytes: int = 0,
        max_device_bytes: int = 0,
        trace: Trace | None = None,
        live: options.Live | None = None,
        sample_every: int = 16,
    ) -> None:
        whole = options.whole
        num_workers = whole("num_workers", num_workers)
        if not isinstance(timeout, (int, float)) or not 0 <= timeout < float("inf"):
            raise ValueError(f"timeout has to be a number of at least 0, not {timeout!r}")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor needs num_workers > 0: slots are counted by worker")
        if num_workers == 0 and persistent_workers:
            raise ValueError("persistent_workers needs num_workers > 0")
        factor = 2 if prefetch_factor is None else whole("prefetch_factor", prefetch_factor, 1)
        _check_context(multiprocessing_context, num_workers)
        self._is_iterable = _is_iterable(dataset)
        if self._is_iterable:
            for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value is not None:
                    raise ValueError(f"{name} is for map-style datasets: an iterable dataset has an order of its own")
        if sampler is not None and shuffle:
            raise ValueError("sampler and shuffle exclude each other")
        if batch_sampler is not None:
            if batch_size != 1 or isinstance(batch_size, bool) or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler excludes batch_size, shuffle, sampler and drop_last")
            batch_size = None
        elif batch_size is None:
            if drop_last:
                raise ValueError("drop_last needs a batch_size")
        elif not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size has to be an int of at least 1, or None, not {batch_size!r}")

        self.dataset = dataset
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.drop_last = bool(drop_last)
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = factor if num_workers else prefetch_factor
        self.persistent_workers = bool(persistent_workers)
        self.in_order = bool(in_order)

        self._shuffles = bool(shuffle)
        self._sampler, self._batch_sampler, self._collate_fn = sampler, batch_sampler, collate_fn
        self._kind: Literal["planned", "drawn", "iterable"] = (
            "iterable" if self._is_iterable else "drawn" if (sampler, batch_sampler) != (None, None) else "planned"
        )
        self._rank, self._world_size = _ranks(rank, world_size)
        if self._kind != "planned" and (self._world_size > 1 or last_batch is not None):
            what = "an iterable dataset" if self._is_iterable else "a sampler"
            raise ValueError(f"rank, world_size and last_batch are for Leat's own order: {what} decides itself")
        self._is_filled_by_ranks = last_batch is None and not drop_last
        if last_batch is None:
            last_batch = "drop" if drop_last else "wrap" if self._world_size > 1 else "partial"
        elif drop_last and last_batch != "drop":
            raise ValueError(f"drop_last=True and last_batch={last_batch!r} contradict each other")
        self._last_batch = options.one_of("last_batch", last_batch, ("partial", "drop", "wrap"))
        self._seed = whole("seed", _seed_of(generator, seed), 0, 2**64 - 1)
        self._device = _device(device)
        framework = options.one_of("framework", framework, FRAMEWORKS)  # type: ignore[assignment]
        if framework == "auto":
            framework = "torch" if importlib.util.find_spec("torch") else "numpy"
        self._framework = framework
        self._reads_by = options.one_of("readers", readers, READERS)
        if self._is_iterable and self._reads_by == "threads" and num_workers > 1:
            raise ValueError(
                "an iterable dataset has one copy for each worker, and threads have one of all: take "
                'readers="processes", or num_workers=1'
            )
        self._copies_escapes = options.one_of("on_escape", on_escape, options.ON_ESCAPE) == "copy"
        depth = whole("prefetch_depth", prefetch_depth, 1)
        pinned = max(1, num_workers * factor)
        # So many lists are drawn at least, and at most: several at once, as it takes 0.4 ms to exchange all
        # random numbers. Without workers, the request for the next batch is there when next() is called.
        self._ahead = (pinned + depth, 2 * pinned + depth) if num_workers else (2, 2)
        self._options: dict[str, object] = {
            # What is drawn is counted in batches.
            "batch_size": (batch_size or 1) * self._world_size if self._kind == "planned" else 1,
            "prefetch_depth": depth,
            "max_leases": whole("max_leases", max_leases, 2),
            "workers": max(1, num_workers),
            "pinned_slots": pinned,
            "order": ("shuffled" if shuffle else "sequential") if self._kind == "planned" else "drawn",
            "seed": self._seed,
            "last_batch": self._last_batch if self._kind == "planned" else "partial",
            "packing": None,
            "pad_to": "field",
            "read_across_epochs": self.persistent_workers and self._kind == "planned",
            "delivery": "in_order" if in_order else "as_completed",
            "rank": self._rank,
            "world_size": self._world_size,
            "read_failures": options.FailureBudget(),
            "transform_failures": options.FailureBudget(),
            "autotune": None,
            "copy_chunk_bytes": 0,
            "max_pinned_bytes": whole("max_pinned_bytes", max_pinned_bytes),
            "max_device_bytes": whole("max_device_bytes", max_device_bytes),
            "resume": None,
            "check_slots": "no",
            "trace": options.instance_or_none("trace", trace, _core.Trace),
            "live": options.instance_or_none("live", live, options.Live),
            "sample_every": whole("sample_every", sample_every),
        }
        if pin_memory and self._device.startswith("host"):
            _warn(
                "pin_memory has no effect: Leat's readers write into pinned memory, and device= says where batches "
                "go; the default is the CPU, in memory that is not pinned"
            )
        if multiprocessing_context is not None:
            _warn("multiprocessing_context has no effect: workers come from a process of Leat's own")

        self._held = _Held()
        self._size = 0  # of the dataset, as the feed knows it
        self._start = _Start(0)
        self._wanted_epoch: int | None = None  # by set_epoch()
        self._pass: _Pass | None = None
        self._looks = 0  # in a row
        self._has_warned = False
        self._reported: int | None = None  # by len(), of an iterable dataset
        weakref.finalize(self, self._held.close)
        self._is_made = True

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FIXED and "_is_made" in self.__dict__:
            raise ValueError(f"{name} cannot be set any more: make another loader")
        super().__setattr__(name, value)

    # ---- torch's attributes

    @cached_property
    def sampler(self) -> Any:
        """The sampler; None for an iterable dataset. In Leat's own order, one that stands for it."""
        if self._sampler is not None or self._is_iterable:
            return self._sampler
        data = _torch_data()
        if data is None:
            return range(len(self.dataset))
        if self._shuffles and self._batch_sampler is None:
            return data.RandomSampler(self.dataset, generator=self.generator)
        return data.SequentialSampler(self.dataset)

    @cached_property
    def batch_sampler(self) -> Any:
        """The batch sampler; None where there is no batch size, or the dataset is iterable."""
        if self._batch_sampler is not None or self.batch_size is None or self._is_iterable:
            return self._batch_sampler
        make = getattr(_torch_data(), "BatchSampler", Batches)
        return make(self.sampler, self.batch_size, self.drop_last)

    @property
    def collate_fn(self) -> Any:
        """What makes a batch of samples; None for the default where torch is not imported."""
        if self._collate_fn is not None or (data := _torch_data()) is None:
            return self._collate_fn
        return data.default_collate if self._is_batched else data.default_convert

    @property
    def _is_batched(self) -> bool:
        return self.batch_size is not None or self._batch_sampler is not None

    def __len__(self) -> int:
        """How many batches an epoch has. TypeError: the dataset or the sampler has no length."""
        if self._is_iterable:
            samples = len(self.dataset)
            per_batch = self.batch_size or 1
            self._reported = samples // per_batch if self.drop_last else -(-samples // per_batch)
            return self._reported
        if self._batch_sampler is not None:
            return len(self._batch_sampler)  # type: ignore[arg-type]
        if self._sampler is not None:
            if self.batch_size is None:
                return len(self._sampler)  # type: ignore[arg-type]
            return len(Batches(self._sampler, self.batch_size, self.drop_last))
        samples, per_step = len(self.dataset), (self.batch_size or 1) * self._world_size
        return samples // per_step if self._last_batch == "drop" else -(-samples // per_step)

    # ---- epochs

    def __iter__(self) -> Iterator[Any]:
        """Begins the next epoch, or the same one again where a loop took one batch at most."""
        if self._kind == "planned" and len(self) == 0:
            self._settle()
            self._start = _Start(self._start.epoch + 1)
            return iter(())
        return _Iterator(self, self._begin())

    def set_epoch(self, number: int) -> None:
        """Says which epoch the next ``iter()`` begins. A resumed one goes on where it was.

        A sampler has a ``set_epoch()`` of its own.
        """
        self._wanted_epoch = options.whole("number", number)

    @property
    def next_epoch(self) -> int:
        """The epoch that the next ``iter()`` begins, if the loop that runs goes on."""
        if self._wanted_epoch is not None:
            return self._wanted_epoch
        run = self._pass
        return self._start.epoch if run is None else self._after(run)[0].epoch

    def commit(self) -> None:
        """Counts the batch that ``next`` gave last as trained on now. No effect if it counts already."""
        if self._pass is not None:
            self._pass.commit()

    # What follows the pass, and how many looks in a row that makes.
    def _after(self, run: _Pass) -> tuple[_Start, int]:
        if not run.is_look:
            return _Start(run.epoch + 1), 0
        looks = self._looks + run.taken
        if looks > 1 and run.taken:
            return _Start(run.epoch + 1), looks
        return _Start(run.epoch, run.position(in_hand=False), run, run.is_resumed or run.is_committed), looks

    # Ends the pass before, and says where the next one starts.
    def _settle(self) -> None:
        run = self._pass
        if run is not None:
            run.check_idle("this loop cannot begin")
            run.supersede()
            self._start, self._looks = self._after(run)
            if self._looks > 1 and not self._has_warned:
                self._has_warned = True
                _warn(
                    f"twice in a row, a loop over epoch {run.epoch} took one batch and ended: the next iter() begins "
                    f"epoch {self._start.epoch}, and those batches count only by state_dict() or commit(); to "
                    "train on all batches, keep one iterator"
                )
            self._pass = None
        if self._wanted_epoch is not None:
            if self._wanted_epoch != self._start.epoch:
                self._start = _Start(self._wanted_epoch)
            self._wanted_epoch = None

    def _begin(self) -> _Pass:
        self._settle()
        feed, start = self._open(renews=True), self._start
        if start.loads:
            feed.load(feed.state(False))  # as by load_state_dict(): the epoch goes on
        draws, begin, counted = None, None, 0
        if self._kind == "drawn":
            source, position = self._source, start.position
            if position is not None:
                if start.before is not None and is_unchanged(source, start.before.end):
                    restore(source, position["begin"], with_epoch=False)
                counted = position["counted"]
            begin = saved(source)
            draws = Draws(
                source,
                seed=self._seed,
                epoch=start.epoch,
                one=not self._is_batched,
                expected=position if start.loads else None,
            )
        run = _Pass(self, feed, start, draws, begin, counted)
        try:
            run.draw_ahead()
        except BaseException:
            run.leave(False)
            raise
        self._pass = run
        self._start = _Start(start.epoch)
        return run

    @property
    def _source(self) -> Any:
        if self._batch_sampler is not None:
            return self._batch_sampler
        assert self._sampler is not None
        return self._sampler if self.batch_size is None else Batches(self._sampler, self.batch_size, self.drop_last)

    # ---- readers and feed

    def _open(self, *, renews: bool = False) -> Any:
        """The feed, with its readers. `renews`: an epoch begins, for which a dataset that has changed is read."""
        held, keeps = self._held, not renews or self._start.loads
        size = len(self.dataset) if self._kind == "planned" else 0
        if held.feed is not None and (size != self._size or (self._pass is None and held.is_broken)):
            held.close_feed(keeps_state=keeps and size == self._size)
        if held.is_broken and held.feed is None:
            held.close()
        if held.readers is None:
            held.readers = self._make_readers()
        elif renews and not self.persistent_workers and not held.readers.renew(self.dataset, self._fill_options()):
            held.close_feed(keeps_state=keeps)
        if held.feed is None:
            self._size = size
            source = _core.Readers(
                name=type(self.dataset).__name__,
                size=size,
                digest=_digest_of(self.dataset),
                bound=self._is_iterable,
                requests=requests_of(held.readers, self._is_iterable),
                sockets=held.readers.descriptors,
                ordered=is_ordered(self.dataset),
            )
            timeout = float(self.timeout) if self.timeout else None
            held.feed = _core.Prefetcher(
                source,
                self._device,
                self._framework,
                self._options,
                self._copies_escapes,
                timeout,
            )
            if isinstance(held.readers, CallerReader):
                held.feed.read_in_caller(held.readers.step)
            state, held.state = held.state, None
            if state is not None and keeps:
                held.feed.load(state)
        return held.feed

    def _make_readers(self) -> _Reads:
        if self.num_workers == 0:
            return CallerReader(self.dataset, self._fill_options())
        make = ReaderProcesses if self._reads_by == "processes" else ReaderThreads
        made: _Reads = make(self.dataset, self._fill_options(), self.num_workers)
        return made

    def _fill_options(self) -> FillOptions:
        device = self._device if self._device != "auto" else _core.devices()[0].name
        return FillOptions(
            kind="iterable" if self._is_iterable else "samples" if self._is_batched else "one",
            collate_fn=self._collate_fn,
            worker_init_fn=self.worker_init_fn,
            batch_size=self.batch_size,
            drop_last=self.drop_last,
            as_torch=self._framework == "torch",
            device_is_host=device.startswith("host"),
            random="sample" if self._kind == "planned" else "place",
            seed=self._seed,
        )

    # ---- states

    def state_dict(self, *, in_hand: bool = True) -> dict[str, Any]:
        """Returns where the run stands: which batches were trained on.

        The batch that ``next`` gave last counts, as if its step had ended; with ``in_hand=False`` it does
        not. The dict survives json, pickle and ``torch.save``, if that of a sampler does.
        """
        run = self._pass
        if run is not None and run.is_look and in_hand:
            run.commit()
        feed, start = self._open(), self._start
        if run is None:
            epoch, position = start.epoch, start.position
        else:
            is_complete = run.is_complete(in_hand)
            epoch = run.epoch + is_complete
            position = None if is_complete else run.position(in_hand)
        state = {"leat": 1, "state": feed.state(bool(in_hand)), "epoch": epoch}
        if self._kind == "drawn":
            nothing = {"begin": saved(self._source), "counted": 0, "drawn": 0, "digest": ""}
            state["sampler"] = nothing if position is None else position
        elif self._kind == "iterable":
            state["workers"] = max(1, self.num_workers)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *, accept_dataset: bool = False) -> None:
        """Resumes from ``state_dict``, with the next ``iter()``.

        In Leat's own order, workers and ranks may differ in number from the saved run's. Raises ValueError at
        once for the state of another run; where a sampler gives another order, with the next ``iter()``.
        ``accept_dataset``: a dataset of another class will do.
        """
        text = _text_of(state_dict)
        position = state_dict.get("sampler")
        if (position is not None) != (self._kind == "drawn"):
            has = "no sampler" if position is None else "a sampler"
            raise ValueError(f"leat: the state is of a loader with {has}, unlike this one")
        if position is not None:
            _check_position(position)
        workers = state_dict.get("workers")
        if self._is_iterable and workers != max(1, self.num_workers):
            raise ValueError(
                f"leat: the state is of {workers} workers: an iterable dataset resumes with as many, not with "
                f"{max(1, self.num_workers)}"
            )
        run, self._pass = self._pass, None
        if run is not None:
            run.supersede("a state was loaded", counts=False)
        self._adopt_last_batch(text)
        feed = self._open()
        feed.load(text, options.flag("accept_dataset", accept_dataset))
        if position is not None:  # now: what the program tells the sampler after this holds
            restore(self._source, position["begin"])
        epoch = state_dict.get("epoch") if self._kind != "planned" else None
        number = feed.next_epoch if epoch is None else options.whole("epoch", epoch)
        self._start, self._looks = _Start(number, position, None, True), 0

    # Whether the last batch is filled up was decided by the number of ranks: the saved run's holds.
    def _adopt_last_batch(self, text: str) -> None:
        with contextlib.suppress(ValueError, KeyError, TypeError):  # load() says what is wrong
            found = json.loads(text)["last_batch"]
            if self._is_filled_by_ranks and found in ("partial", "wrap") and found != self._last_batch:
                self._last_batch = self._options["last_batch"] = found
                self._held.close_feed()

    # ---- the rest

    def stats(self) -> Stats:
        """Returns the figures of the loops so far."""
        stats: Stats = self._open().stats()
        return stats

    def report(self) -> str:
        """Returns the figures as a text."""
        return str(self._open().report())

    def close(self) -> None:
        """Ends the loop that runs, the feed and the workers. Another ``iter()`` starts them again."""
        if self._pass is not None:
            self._pass.supersede("the loader was closed")
        self._held.close(keeps_state=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Held:
    """What a loader has to close."""

    def __init__(self) -> None:
        self.feed: Any = None
        self.readers: _Reads | None = None
        self.is_broken = False  # a worker has died
        self.state: str | None = None  # for the next feed

    def close_feed(self, *, keeps_state: bool = False) -> None:
        feed, self.feed = self.feed, None
        if feed is not None:
            if keeps_state:
                with contextlib.suppress(Error):
                    self.state = feed.state(False)
            feed.close()

    def close(self, *, keeps_state: bool = False) -> None:
        self.close_feed(keeps_state=keeps_state)
        readers, self.readers = self.readers, None
        if readers is not None:
            readers.close()
        self.is_broken = False


class _Start(NamedTuple):
    """Where the next pass starts."""

    epoch: int
    #: Of a sampler: its state at the epoch's begin, how many lists it gave, how many of them count.
    position: Mapping[str, Any] | None = None
    #: The look before, over the same epoch. None: `position` is a state's.
    before: _Pass | None = None
    #: Whether batches of the epoch count already.
    loads: bool = False


class _Pass:
    """One loop over an epoch. Does not hold the loader or its iterator."""

    _is_left = True  # of one that the garbage collector has cleared

    def __init__(
        self, loader: DataLoader, feed: Any, start: _Start, draws: Draws | None, begin: Any, counted: int
    ) -> None:
        self.epoch = start.epoch
        self.is_resumed = start.loads
        self.is_committed = False
        self.is_over = False
        #: It was left after one batch at most, and there are more.
        self.is_look = False
        #: What `saved()` gave when it was left.
        self.end: Any = None
        self._held = loader._held
        self._feed, self._draws, self._begin = feed, draws, begin
        self._source = loader._source if draws is not None else None
        self._kind, self._ahead = loader._kind, loader._ahead
        self._reported = loader._reported
        self._given = self._failed = self._lost = 0
        self._counted = counted  # before it
        self._pending: Batch | None = None  # in hand, and does not count yet
        self._has_ended_draws = False
        self._is_asking = False
        self._failure: Exception | None = None  # of the sampler
        self._is_left = False
        self._why = ""
        self._block = feed.epoch(start.epoch)
        self._loop = self._block.__enter__()

    @property
    def taken(self) -> int:
        return self._given + self._failed

    def next(self) -> Any:
        if self.is_over:
            raise StopIteration
        if self._why:
            raise self._ended()
        self.check_idle("this call gives no batch")
        self._is_asking = True
        try:
            return self._next()
        finally:
            self._is_asking = False

    def check_idle(self, refused: str) -> None:
        """Raises while a call of next() goes on."""
        if self._is_asking:
            raise Error(
                f"leat: {refused}, as a loop over epoch {self.epoch} waits for a batch, and a loader has one loop at a "
                "time: end that loop first (leave it and drop its iterator, or loader.close()), or make another loader"
            )

    def _ended(self) -> Error:
        return Error(f"leat: this loop over epoch {self.epoch} has ended: {self._why}")

    def _next(self) -> Any:
        self.draw_ahead()
        if self._pending is not None:  # from here on it counts
            self._pending, self.is_committed = None, True
        try:
            batch: Batch = next(self._loop)
        except StopIteration:
            self.is_over = True
            raise
        except SampleError as error:  # of this batch alone
            self._failed += 1
            failure = error.__cause__ or error
        except Timeout as error:
            if isinstance(self._held.readers, ReaderProcesses):
                error.args = (f"{error}\n{self._held.readers.told()}",)
            raise
        except TooManyLeases:
            raise
        except Error:
            if self._why:  # another thread has ended it meanwhile
                raise self._ended() from None
            self._held.is_broken = True
            if self._held.readers is not None:
                self._held.readers.wait()  # raises if they did not start
            raise
        else:
            self._given += 1
            self._pending = batch
            if self._reported is not None and self._given == self._reported + 1:
                _warn(
                    f"the iterable dataset gives more batches than the {self._reported} that len() said, by its "
                    "__len__; with several workers, each has to give its part"
                )
            arrays = batch.arrays()
            value = unpack(batch.opaque, arrays.__getitem__, lambda index: np.asarray(arrays[index]))
            batch.release()  # the arrays have their shares
            return value
        if isinstance(failure, StopIteration):  # it would end the loop in silence
            raise RuntimeError("leat: the dataset's code raised StopIteration") from failure
        raise failure

    def draw_ahead(self, more: int = 0) -> None:
        """Draws as many lists as there are slots. Raises what the sampler raises, after the batches before it."""
        draws = self._draws
        if draws is None or self._has_ended_draws:
            return
        done = self._counted + self.taken
        if self._failure is not None and draws.drawn == done:
            failure, self._failure = self._failure, None
            raise failure
        least, most = self._ahead
        while self._failure is None and (draws.is_behind or draws.drawn - done < least + more):
            try:
                lists = draws.draw(max(done + most + more - draws.drawn, 1))
            except Exception as error:
                if draws.is_behind or draws.drawn == done:
                    raise
                self._failure = error
                return
            for keys in lists:
                self._feed.draw(keys.data, keys.kind, keys.rows)
            if draws.ended:
                self._feed.end_draws()
                self._has_ended_draws = True
                return

    def commit(self) -> None:
        if self._pending is not None:
            self._pending.commit()
            self._pending = None
            self.is_committed = True

    def leave(self, normally: bool) -> None:
        """The iterator was dropped, not `normally` if by an exception. The batch in hand counts by that."""
        if self._is_left:
            return
        self._is_left = True
        self.is_look = self.taken <= 1 and not self.is_over and self._has_more()
        if self._source is not None:
            self.end = saved(self._source)
        counts = normally and not self.is_look
        if not self.is_look:
            self._lost = int(self._pending is not None and not counts)
            self._pending = None
        self._block.__exit__(*((None,) * 3 if counts else (Exception, None, None)))

    def supersede(
        self,
        why: str = "another loop has begun on the same loader, which has one at a time: make a loader for each",
        *,
        counts: bool = True,
    ) -> None:
        """Ends it for good."""
        self._why = self._why or why
        self.leave(counts)

    def _has_more(self) -> bool:
        if self._draws is not None:
            return not (self._draws.ended and self._draws.drawn == self._counted + self.taken)
        return self._kind == "iterable" or len(self._loop) > 0

    def _count(self, in_hand: bool) -> int:
        return self._counted + self._given - self._lost - (self._pending is not None and not in_hand)

    def is_complete(self, in_hand: bool) -> bool:
        """Whether the epoch has no batch left that does not count."""
        draws = self._draws
        if draws is None:
            done = self.is_over if self._kind == "iterable" else not self._has_more()
            return done and not self._lost and (in_hand or self._pending is None)
        if draws.drawn - self._counted - self.taken == 0 and not draws.ended:  # is there one more?
            if self._is_left:
                draws.draw(1)
            else:
                self.draw_ahead(1)
        return draws.ended and draws.drawn == self._count(in_hand) + self._failed

    def position(self, in_hand: bool) -> dict[str, Any] | None:
        """Of a sampler: where it began, what it gave, and how many batches count."""
        if self._draws is None:
            return None
        return {"begin": self._begin, "counted": self._count(in_hand), **self._draws.state()}


class _Iterator:
    """The iterator over one epoch."""

    __slots__ = ("__weakref__", "_departure", "_loader", "_pass")  # dropped in this order

    def __init__(self, loader: DataLoader, run: _Pass) -> None:
        self._departure = _core.Departure(run.leave)
        self._loader = loader
        self._pass = run

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not _is_profiled():
            return self._pass.next()
        with sys.modules["torch"].autograd.profiler.record_function("enumerate(DataLoader)#leat.__next__"):
            return self._pass.next()

    def __len__(self) -> int:
        return len(self._loader)


def _warn(text: str) -> None:
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") == __name__:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(f"leat: {text}", RuntimeWarning, stacklevel=depth)


def _torch_data() -> Any:
    """torch.utils.data, if it was imported."""
    return sys.modules.get("torch.utils.data")


def _is_profiled() -> bool:
    """Whether torch's profiler records."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    try:
        enabled = torch._C._autograd._profiler_enabled
    except AttributeError:
        return False
    return bool(enabled())


def _is_iterable(dataset: Any) -> bool:
    known = getattr(_torch_data(), "IterableDataset", None)
    if known is not None and isinstance(dataset, known):
        return True
    return hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__")


def _digest_of(dataset: Any) -> int:
    """What tells the states of different datasets apart, beside their sizes."""
    name = f"{type(dataset).__qualname__}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") or 1


def _seed_of(generator: Any, seed: int) -> int:
    if generator is None:
        return seed
    initial_seed = getattr(generator, "initial_seed", None)
    if not callable(initial_seed):
        raise TypeError(f"generator has to be a torch.Generator, not {generator!r}")
    return int(initial_seed()) & (2**64 - 1)


def _ranks(rank: int | str | None, world_size: int | None) -> tuple[int, int]:
    if rank == "auto":
        if world_size is not None:
            raise ValueError("rank='auto' finds out world_size, too: leave that out")
        distributed: Any = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        found = [os.environ.get(name) for name in ("RANK", "WORLD_SIZE")]
        if found == [None, None]:
            return 0, 1
        if not all(value is not None and value.isascii() and value.isdigit() for value in found):
            raise ValueError(
                "rank='auto' needs torch.distributed to be initialised, or RANK and WORLD_SIZE to be set: "
                f"they are {found}"
            )
        rank, world_size = (int(value or 0) for value in found)
    if (rank is None) != (world_size is None):
        raise ValueError("rank and world_size belong together")
    if rank is None or world_size is None:
        return 0, 1
    world_size = options.whole("world_size", world_size, 1)
    rank = options.whole("rank", rank)
    if rank >= world_size:
        raise ValueError(f"rank has to be below world_size, which is {world_size}, not {rank}")
    return rank, world_size


def _check_context(context: Any, num_workers: int) -> None:
    if context is None:
        return
    if num_workers == 0:
        raise ValueError("multiprocessing_context needs num_workers > 0")
    if isinstance(context, str):
        if context not in multiprocessing.get_all_start_methods():
            raise ValueError(f"multiprocessing_context has to be a start method of multiprocessing, not {context!r}")
    elif not isinstance(context, BaseContext):
        raise TypeError(f"multiprocessing_context has to be a context or the name of one, not {context!r}")


def _check_position(position: Any) -> None:
    kinds = {"begin": Mapping, "counted": int, "drawn": int, "digest": str}
    if not isinstance(position, Mapping) or not all(isinstance(position.get(n), k) for n, k in kinds.items()):
        raise ValueError(f"leat: the state has no position of a sampler, but {position!r}")
