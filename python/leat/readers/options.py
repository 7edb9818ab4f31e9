"""What a reader is told about its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["FillOptions"]

#: ``samples``: map-style, ``dataset[i]`` or ``__getitems__``. ``read_into``: ``dataset.read_into(i, out)``.
#: ``one``: a key gives a whole batch, and nothing is collated. ``iterable``: ``iter(dataset)``.
Kind = Literal["samples", "read_into", "one", "iterable"]
Where = Literal["process", "thread", "caller"]


@dataclass(frozen=True)
class FillOptions:
    """How the batches of a dataset are made. It pickles if the functions in it do."""

    kind: Kind = "samples"
    #: None: torch's default_collate, straight into the slot; without a batch size, default_convert.
    collate_fn: Callable[[Any], Any] | None = None
    #: For ``read_into``: name -> (dtype, shape) of one sample.
    fields: Mapping[str, tuple[str, tuple[int, ...]]] | None = None
    #: Called with the worker's number when a worker process starts.
    worker_init_fn: Callable[[int], Any] | None = None
    #: For ``iterable``. None: what the dataset gives is a batch.
    batch_size: int | None = None
    #: For ``iterable``: whether each reader leaves out its last batch if that is not full.
    drop_last: bool = False
    #: Samples that fail are left out and reported, instead of raised.
    leave_out: bool = False
    #: Whether a batch's tensors are torch's, by the rules of the installed torch. Else NumPy's.
    as_torch: bool = True
    #: Whether the batches stay on the host. If not, NumPy arrays of a batch for torch are pickled.
    device_is_host: bool = True
    #: A batch is a dict or a tuple of tensors, and nothing else.
    tensors_only: bool = False
    #: What keys ``leat.rng()``: the sample's number, or its place in the epoch.
    random: Literal["sample", "place"] = "sample"
    #: Seeds a worker process when it starts; its number is added.
    seed: int = 0
