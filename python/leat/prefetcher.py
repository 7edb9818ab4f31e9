"""The prefetcher: batches on the device, one step ahead of the loop that uses them."""

from __future__ import annotations

import atexit
import html
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from leat import _core, options
from leat.readers.options import FillOptions
from leat.readers.processes import CallerReader
from leat.readers.source import READERS, Opened, Readers, kind_of, open_readers, source_of

if TYPE_CHECKING:
    from leat._core import Dataset, Trace

__all__ = ["Prefetcher", "merge_states"]

# The version of a state dict.
_VERSION = 1

# Before the interpreter ends the threads that ask for the GIL. Hooks run in reverse order: those
# that were registered after the import of leat still have their feeds.
atexit.register(_core.stop_all)


class Prefetcher(_core.Prefetcher):
    """Feeds the batches of ``dataset`` to one device.

    Example::

        data = leat.TokenShards("tokens/*.bin", sequence_length=1024)
        feed = leat.Prefetcher(data, "cuda:0", batch_size=32, seed=1, framework="torch")
        for batch in feed.epoch(0):
            step(batch["x"], batch["y"])

    Args:
        dataset: What to read: a ``leat.Dataset``; or an object with ``__getitem__`` and ``__len__``
            (``__getitems__``, if it has that), with ``fields`` and ``read_into(index, out)``, or with
            ``__iter__``, whose samples are dicts or tuples of arrays.
        device: ``"cuda:0"``, ``"cuda"``, ``"cpu"``, ``"auto"`` (the first CUDA device, or the CPU), or
            a ``torch.device``.
        batch_size: Samples in a global batch, over all ranks; with ``packing``, elements.
        framework: What a batch's tensors are: ``"torch"``, ``"numpy"``, ``"jax"``, ``"cupy"``, or
            ``None`` for ``leat.Tensor``, which each of them imports without a copy.
        on_escape: What happens when a batch is asked for while ``max_leases`` - 1 batches, or
            their tensors, are held: ``"copy"`` copies it into memory of its own, ``"raise"``
            raises ``leat.TooManyLeases``.
        timeout: The longest wait for a batch, in seconds. Then raises ``leat.Timeout``, which
            says what each reader does; the next call goes on waiting. ``None``: no limit.
        prefetch_depth: Batches on the device, the one in use included.
        max_leases: Batches that may be held at a time, at least 2. A ``for`` loop holds two: its
            name still has the old batch while the next one is asked for. ``tqdm(enumerate(feed))``
            holds three.
        workers: How many readers there are. Each reads one batch at a time.
        readers: Who runs the Python code of a dataset: ``"processes"``; ``"threads"``, for code that
            lets go of the GIL; ``"caller"``: whoever asks for a batch makes it, so breakpoints work.
        pinned_slots: 0: ``prefetch_depth`` + ``workers``.
        order: ``"shuffled"`` or ``"sequential"``.
        seed: Seeds the shuffled order and random transforms.
        last_batch: What becomes of the last batch of an epoch if the samples do not fill it:
            ``"partial"``, ``"drop"``, ``"pad"`` or ``"wrap"``.
        packing: Puts samples of variable length one after the other.
        pad_to: How long the rows of a field of variable length are: ``"field"``, as the field
            declares; ``"batch"``, as the longest sample in the batch, so that fewer bytes are
            copied.
        read_across_epochs: Whether readers that are ahead read the first batches of the next epoch
            before its loop begins. ``False``: they wait for that loop, so that an epoch has all that
            the program changed before it.
        delivery: ``"in_order"``, or ``"as_completed"``: a slow batch does not hold up others.
        rank: The rank of this process.
        world_size: How many ranks train together.
        read_failures: Samples that may fail in reading.
        transform_failures: Samples that may fail in a transform.
        autotune: Changes ``workers`` and ``prefetch_depth`` while the loop runs.
        copy_chunk_bytes: The largest piece of a copy; 0: a whole batch.
        max_pinned_bytes: The most bytes that all pinned slots may take; 0: no limit.
        max_device_bytes: The most bytes that all device slots may take; 0: no limit.
        resume: A state dict to resume from, as by ``load_state_dict``.
        check_slots: For debugging: ``"yes"`` finds writes to a slot that nobody may write to,
            ``"read_only"`` also those to a batch in use.
        trace: Records batches for a timeline; ends if a state is loaded after the first loop or peek().
        live: Shows the figures in a terminal while the loop runs.
        sample_every: One step in ``sample_every`` is timed on the device; 0: none.

    One loop at a time. Other functions may be called from any thread. A ``with`` block closes the
    feed at its end.
    """

    def __init__(
        self,
        dataset: Dataset | Any,
        device: object,
        *,
        batch_size: int,
        framework: options.Framework | None = None,
        on_escape: options.OnEscape = "copy",
        timeout: float | None = None,
        prefetch_depth: int = 2,
        max_leases: int = 4,
        workers: int = 1,
        readers: Readers = "processes",
        pinned_slots: int = 0,
        order: options.Order = "shuffled",
        seed: int = 0,
        last_batch: options.LastBatch = "partial",
        packing: options.Packing | None = None,
        pad_to: options.PadTo = "field",
        read_across_epochs: bool = True,
        delivery: options.Delivery = "in_order",
        rank: int = 0,
        world_size: int = 1,
        read_failures: options.FailureBudget | int = 0,
        transform_failures: options.FailureBudget | int = 0,
        autotune: options.Autotune | None = None,
        copy_chunk_bytes: int = 0,
        max_pinned_bytes: int = 0,
        max_device_bytes: int = 0,
        resume: Mapping[str, Any] | None = None,
        check_slots: options.CheckSlots = "no",
        trace: Trace | None = None,
        live: options.Live | None = None,
        sample_every: int = 16,
    ) -> None:
        whole = options.whole
        options.one_of("readers", readers, READERS)
        checked: dict[str, object] = {
            "batch_size": whole("batch_size", batch_size, 1),
            "prefetch_depth": whole("prefetch_depth", prefetch_depth, 1),
            "max_leases": whole("max_leases", max_leases, 2),
            "workers": whole("workers", workers, 1),
            "pinned_slots": whole("pinned_slots", pinned_slots),
            "order": options.one_of("order", order, options.ORDERS),
            "seed": whole("seed", seed, 0, 2**64 - 1),
            "last_batch": options.one_of("last_batch", last_batch, options.LAST_BATCHES),
            "packing": options.instance_or_none("packing", packing, options.Packing),
            "pad_to": options.one_of("pad_to", pad_to, options.PAD_TO),
            "read_across_epochs": options.flag("read_across_epochs", read_across_epochs),
            "delivery": options.one_of("delivery", delivery, options.DELIVERIES),
            "rank": whole("rank", rank),
            "world_size": whole("world_size", world_size, 1),
            "read_failures": _budget("read_failures", read_failures),
            "transform_failures": _budget("transform_failures", transform_failures),
            "autotune": options.instance_or_none("autotune", autotune, options.Autotune),
            "copy_chunk_bytes": whole("copy_chunk_bytes", copy_chunk_bytes),
            "max_pinned_bytes": whole("max_pinned_bytes", max_pinned_bytes),
            "max_device_bytes": whole("max_device_bytes", max_device_bytes),
            "resume": None if resume is None else _text_of(resume),
            "check_slots": options.one_of("check_slots", check_slots, options.CHECKS),
            "trace": options.instance_or_none("trace", trace, _core.Trace),
            "live": options.instance_or_none("live", live, options.Live),
            "sample_every": whole("sample_every", sample_every),
        }
        self._opened: Opened | None = None
        source = dataset
        if not isinstance(dataset, _core.Dataset):
            source = self._open(dataset, readers, checked)
        super().__init__(
            source,
            _device(device),
            framework,
            checked,
            options.one_of("on_escape", on_escape, options.ON_ESCAPE) == "copy",
            None if timeout is None else options.positive("timeout", timeout),
        )
        if isinstance(self._opened, CallerReader):
            self.read_in_caller(self._opened.step)

    def _open(self, dataset: Any, readers: Readers, checked: dict[str, Any]) -> _core.Readers:
        kind = kind_of(dataset)
        bound = kind == "iterable"
        if readers == "caller":
            checked["workers"] = 1
        fill = FillOptions(
            kind=kind,
            fields=dataset.fields if kind == "read_into" else None,
            batch_size=checked["batch_size"] if bound else None,
            drop_last=checked["last_batch"] == "drop",
            leave_out=checked["read_failures"] != options.FailureBudget(),
            as_torch=False,
            tensors_only=True,
            seed=checked["seed"],
        )
        if bound and readers == "threads" and checked["workers"] > 1:
            raise ValueError(
                "a dataset with __iter__ has one copy for each reader, and threads have one of all: take "
                'readers="processes", or workers=1'
            )
        if bound:
            if checked["world_size"] != 1 or checked["last_batch"] == "wrap":
                raise ValueError("a dataset with __iter__ has its own shards: world_size has to be 1, and no wrap")
            checked |= {"order": "drawn", "batch_size": 1, "last_batch": "partial"}
        size = 0 if bound else len(dataset)
        self._opened = open_readers(readers, dataset, fill, checked["workers"])
        self._opened.wait()  # raises for a dataset that the processes cannot load
        return source_of(dataset, self._opened, size, bound)

    def close(self) -> None:
        """Ends the feed: a call of another thread raises, and so do later ones. Waits for the reads that are
        under way, and ends its threads and processes. Batches stay as they are."""
        super().close()
        if self._opened is not None:
            self._opened.close()

    def state_dict(self, *, in_hand: bool = True) -> dict[str, Any]:
        """Returns where the run stands: which batches were trained on.

        In the body of a loop, the batch in hand counts, as if the body had ended; with
        ``in_hand=False`` it does not. The dict survives json, pickle and ``torch.save``.
        """
        return {"leat": _VERSION, "state": self.state(bool(in_hand))}

    def load_state_dict(self, state_dict: Mapping[str, Any], *, accept_dataset: bool = False) -> None:
        """Resumes from ``state_dict``, with the next loop that begins.

        Workers, slots and ranks may differ in number from the saved run's. Raises ValueError at once
        for the state of another run: other data, batch size, order or seed. ``accept_dataset``: other data
        will do, if it has as many samples: files that were renamed, a mixture with one more stage.
        """
        self.load(_text_of(state_dict), options.flag("accept_dataset", accept_dataset))

    def epoch(self, number: int) -> _core.Epoch:
        """Returns the batches of epoch ``number``, for a loop or a ``with`` block, which begins it."""
        return super().epoch(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}\n{html.escape(self.report())}</pre>"


def merge_states(state_dicts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merges the states of all ranks into one, from which any number of ranks resumes."""
    return {"leat": _VERSION, "state": _core.merge_states([_text_of(one) for one in state_dicts])}


def _text_of(state_dict: Mapping[str, Any]) -> str:
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"a state has to be a dict of state_dict(), not {state_dict!r}")
    text = state_dict.get("state")
    if "leat" not in state_dict or not isinstance(text, str):
        raise ValueError(f"this is no state of a leat.Prefetcher: it has {list(state_dict)}")
    if state_dict["leat"] is True or state_dict["leat"] != _VERSION:
        raise ValueError(
            f"the state has version {state_dict['leat']!r}, and this leat reads version {_VERSION}"
        )
    return text


def _budget(name: str, value: options.FailureBudget | int) -> options.FailureBudget:
    if isinstance(value, options.FailureBudget):
        return value
    return options.FailureBudget(options.whole(name, value))


def _device(device: object) -> str:
    wanted = 'device has to be "cpu", "cuda", "cuda:N" or "auto", or a torch.device of these'
    if not isinstance(device, str):
        if type(device).__module__ != "torch" or type(device).__name__ != "device":
            raise TypeError(f"{wanted}, not {device!r}")
        device = str(device)
    if device in ("cpu", "cpu:0"):
        return "host"
    if not re.fullmatch("auto|(cuda|host)(:[0-9]{1,9})?", device):  # "host:0" is what feed.device says
        raise ValueError(f"{wanted}, not {device!r}")
    return device
