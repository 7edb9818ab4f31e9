import os
import pathlib
import sys
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, Literal, TypeAlias, final

from numpy import uint8
from numpy.typing import DTypeLike, NDArray
from typing_extensions import disjoint_base

__version__: str

_Path: TypeAlias = str | bytes | os.PathLike[str]
_Files: TypeAlias = _Path | Sequence[_Path]
_Split: TypeAlias = Literal["train", "test"]
_None: TypeAlias = Any  # None only for a batch without a lease; Any, so that nobody has to check for it

# devices.cpp

@final
class DeviceInfo:
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def memory_bytes(self) -> int: ...

@final
class Tensor:
    """A tensor of a batch: what `framework=None` gives.

    Any framework that reads DLPack (`torch.from_dlpack`, `jax.dlpack.from_dlpack`,
    `cupy.from_dlpack`) or, on the CPU, the buffer protocol (`numpy.asarray`, `memoryview`) uses its
    memory without a copy. Everything made of it has a share of the batch's slot. The slot goes back
    with the last share, by an event on each stream that was bound. Shares may be dropped on any
    thread, with or without the GIL.
    """

    @property
    def name(self) -> str:
        """The name of the tensor's field."""

    @property
    def dtype(self) -> str:
        """The type of its elements: "uint8", "bfloat16", ..."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, shape of the field ...), row-major."""

    @property
    def ndim(self) -> int:
        """The number of its dimensions: at least 1."""

    @property
    def nbytes(self) -> int:
        """The bytes of all its elements."""

    @property
    def device(self) -> str:
        """The device that holds it: "host:0", "cuda:0"."""

    def copy(self) -> Tensor:
        """Returns a tensor on the same device in memory of its own, which shares no slot.

        On a GPU, streams that use the copy later wait until it is filled; the host does not wait."""

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule: versioned if `max_version` is (1, 0) or more.

        `stream` on a GPU: None and 1 are the legacy default stream; above 2, a cudaStream_t; -1, no
        stream: one has to be bound already. The stream waits for the batch's copy, on the device.
        Raises ValueError for 0 and below -1; BufferError for 2, the per-thread default stream, and for
        -1 if no stream is bound. On the CPU `stream` has to be None.

        `dl_device`: the tensor's own device, or (1, 0), the CPU: a GPU's tensor is then copied, and
        the call waits for the copy. BufferError for any other device. `copy`: True always copies;
        False raises BufferError if a copy is needed."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0) for the CPU, (2, N) for cuda:N."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Returns a NumPy array, of the same memory unless `dtype` or `copy` asks for a copy.

        TypeError on a GPU and for bfloat16."""

    def __deepcopy__(self, memo: Any, /) -> Tensor: ...
    def _capsule(self) -> Any: ...
    def __len__(self) -> int: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Batch(Mapping[str, Any]):
    """The tensors of a batch, by name, as arrays of the feed's framework.

    An array is made when it is first asked for, without a copy. On a GPU, each `batch[name]` makes the
    stream that is current wait for the batch's copy, and joins that stream to the release of the slot.
    A tensor that is used on a stream that was never bound is not protected. `on(stream)` binds one;
    torch's `record_stream` has no effect here.

    The slot goes back when the batch, its arrays and all that shares their memory are gone: views,
    `.numpy()`, the graph of a loss. A Python loop holds two batches: its name still has the old batch
    while the next one is asked for.

    `dict(batch)`, `copy.copy(batch)`, `batch | {...}` and `{...} | batch` are dicts of the same arrays;
    deepcopy and pickle make a dict of copies. `type(batch)({...})` makes a batch without a lease, as
    trainers do that move a mapping's arrays elsewhere."""

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        """Makes a batch without a lease from these values, by name. Its numbers (size, epoch, index ...)
        are those of the batch whose names this thread has iterated over last (by a loop, keys(),
        values(), items(), dict()). They are None if that batch is gone, or if a batch was made since.
        commit() raises ValueError."""

    @property
    def epoch(self) -> int | _None:
        """The epoch of the batch. Readable after release(), like all numbers here."""

    @property
    def index(self) -> int | _None:
        """The global batch's number in its epoch."""

    @property
    def size(self) -> int | _None:
        """Samples in this batch; packed: samples and pieces of samples."""

    @property
    def rows(self) -> int | _None:
        """Rows of each tensor: size, or more where the last batch is padded."""

    @property
    def elements(self) -> int | _None:
        """Packed: elements of all samples; otherwise 0."""

    @property
    def step_size(self) -> int | _None:
        """Samples (packed: elements) of the step over all ranks, as planned."""

    @property
    def step_shards(self) -> int | _None:
        """How many ranks have samples in this step."""

    @property
    def copied(self) -> bool:
        """Whether its arrays are copies: too many batches were held when it was asked for, or it was
        peeked at."""

    def __getitem__(self, name: str, /) -> Any:
        """The array of that name. KeyError: there is none. ValueError: the batch was released.
        TypeError: the framework has no such dtype."""

    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object, /) -> bool: ...
    def keys(self) -> KeysView[str]: ...
    def values(self) -> ValuesView[Any]: ...
    def items(self) -> ItemsView[str, Any]: ...
    def get(self, name: str, default: Any = None) -> Any: ...
    def __or__(self, other: Mapping[str, Any], /) -> dict[str, Any]: ...
    def __ror__(self, other: Mapping[str, Any], /) -> dict[str, Any]: ...
    @property
    def opaque(self) -> bytes:
        """What a reader of a Python dataset says of the batch, beside its tensors."""

    def arrays(self) -> list[Any]:
        """The arrays of all tensors, in order, as `batch[name]` gives them."""

    def release(self) -> None:
        """Gives up the batch's own share of the slot. Arrays that live keep their shares: the slot goes
        back with the last of them. A copied batch drops its arrays."""

    def commit(self) -> None:
        """Counts the batch as trained on now, before the loop asks for the next one. ValueError: it has
        no lease."""

    def on(self, stream: Any) -> None:
        """Makes one more stream wait for the batch's copy, and the slot's release wait for that stream.

        `stream` is a stream of torch or CuPy, or a number as `Tensor.__dlpack__` takes it. ValueError
        on the CPU, and beyond four streams. No effect on a copied batch: its framework owns the memory."""

def cuda_status() -> str: ...
def devices() -> list[DeviceInfo]: ...

# datasets.cpp

@final
class Field:
    def __init__(
        self, name: str, dtype: DTypeLike, shape: Sequence[int] = (), *, variable_length: bool = False
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def variable_length(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Dataset:
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> dict[str, NDArray[Any]]: ...
    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]: ...
    def read(self, index: int, *, seed: int = 0, epoch: int = 0) -> dict[str, NDArray[Any]]: ...
    def map(self, function: Callable[[dict[str, NDArray[Any]]], Any]) -> Any:
        """A dataset of function(sample), where a sample is a dict of arrays. Readers call it."""

    @property
    def name(self) -> str: ...
    @property
    def fields(self) -> tuple[Field, ...]: ...
    @property
    def digest(self) -> int: ...
    @property
    def is_ordered(self) -> bool: ...

# compose.cpp

@final
class Subset(Dataset):
    def __init__(self, dataset: Dataset, numbers: range | Sequence[int] | NDArray[Any]) -> None: ...

def split(dataset: Dataset, parts: Sequence[float] | NDArray[Any], *, seed: int = 0) -> list[Subset]: ...
def _split_part(arguments: Sequence[Any], named: Mapping[str, Any], part: int) -> Subset: ...
@final
class Concat(Dataset):
    def __init__(self, datasets: Sequence[Dataset]) -> None: ...

@final
class Mixture(Dataset):
    def __init__(
        self,
        parts: Sequence[Dataset | tuple[Dataset, float]],
        *,
        samples: int | None = None,
        stages: Sequence[tuple[int, Sequence[float] | NDArray[Any]]] | None = None,
        shuffle: bool = True,
    ) -> None: ...

@final
class Weighted(Dataset):
    def __init__(
        self,
        dataset: Dataset,
        weights: Sequence[float] | NDArray[Any],
        *,
        samples: int | None = None,
        replacement: bool = False,
    ) -> None: ...

@final
class Numbered(Dataset):
    def __init__(self, dataset: Dataset) -> None: ...

# readers.cpp

@final
class Readers(Dataset):
    def __init__(self, name: str, size: int, digest: int, bound: bool, requests: int, sockets: Sequence[int], ordered: bool = False) -> None: ...
    @property
    def count(self) -> int: ...

# sources.cpp

@final
class TokenShards(Dataset):
    def __init__(
        self,
        files: _Files,
        *,
        sequence_length: int,
        stride: int = 0,
        header: Literal["auto", "none", "llm.c"] = "auto",
        token: DTypeLike | None = None,
        dtype: DTypeLike = "int32",
        vocabulary: int = 0,
        extension: str = ".bin",
    ) -> None: ...
    @property
    def token(self) -> str: ...
    @property
    def tokens(self) -> int: ...

@final
class FixedRecords(Dataset):
    def __init__(
        self,
        files: _Files,
        *,
        fields: Sequence[Field],
        header_bytes: int = 0,
        extension: str = ".bin",
        name: str | None = None,
    ) -> None: ...

@final
class Cifar10(Dataset):
    def __init__(self, files: _Files, split: _Split | None = None, *, label: DTypeLike = "uint8") -> None: ...

@final
class Cifar100(Dataset):
    def __init__(self, files: _Files, split: _Split | None = None, *, label: DTypeLike = "uint8") -> None: ...

@final
class Mnist(Dataset):
    def __init__(self, files: _Files, split: _Split | None = None) -> None: ...
    @property
    def images(self) -> NDArray[uint8]: ...
    @property
    def labels(self) -> NDArray[uint8]: ...

@final
class Npy(Dataset):
    def __init__(self, files: _Files | Mapping[str, _Files] = ..., /, *, name: Any = None, **fields: _Files) -> None: ...

# web_dataset.cpp

@final
class WebPart:
    @property
    def field(self) -> Field: ...
    @property
    def extensions(self) -> tuple[str, ...]: ...
    @property
    def kind(self) -> Literal["image", "label", "bytes"]: ...

def any_image(
    name: str,
    *,
    height: int = 224,
    width: int = 224,
    fit: Literal["stretch", "center_crop", "random_resized_crop", "exact"] = "stretch",
    shorter_side: int = 256,
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (0.75, 1.3333333333333333),
    mirror: float = 0.0,
    planar: bool = False,
    antialias: bool = True,
    scaled_decoding: bool = False,
    max_pixels: int = 134217728,
    accept_corrupt: bool = False,
    extensions: str | Sequence[str] = ("jpg", "jpeg", "png", "webp"),
) -> WebPart: ...
def jpeg_image(
    name: str,
    *,
    height: int = 224,
    width: int = 224,
    fit: Literal["stretch", "center_crop", "random_resized_crop", "exact"] = "stretch",
    shorter_side: int = 256,
    scale: Sequence[float] = (0.08, 1.0),
    ratio: Sequence[float] = (0.75, 1.3333333333333333),
    mirror: float = 0.0,
    planar: bool = False,
    antialias: bool = True,
    scaled_decoding: bool = False,
    max_pixels: int = 134217728,
    accept_corrupt: bool = False,
    extensions: str | Sequence[str] = ("jpg", "jpeg"),
) -> WebPart: ...
def class_label(name: str, *, extensions: str | Sequence[str] = ("cls",)) -> WebPart: ...
def raw_bytes(field: Field, extensions: str | Sequence[str]) -> WebPart: ...
@final
class WebDataset(Dataset):
    def __init__(
        self,
        shards: _Files,
        *,
        parts: Sequence[WebPart] | None = None,
        skip_incomplete: bool = False,
        accept_short_shards: bool = False,
        index_threads: int = 8,
        open_files: int = 128,
        name: str = "web dataset",
    ) -> None: ...
    def key(self, index: int) -> str: ...
    @property
    def skipped(self) -> int: ...
    @property
    def left_out(self) -> dict[str, int]: ...

# images.cpp

@disjoint_base
class ImageFiles(Dataset):
    def path(self, index: int) -> str: ...
    def label(self, index: int) -> int: ...

@final
class ImageFolder(ImageFiles):
    def __init__(
        self,
        root: _Path,
        *,
        height: int = 224,
        width: int = 224,
        fit: Literal["stretch", "center_crop", "random_resized_crop", "exact"] = "stretch",
        shorter_side: int = 256,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (0.75, 1.3333333333333333),
        mirror: float = 0.0,
        planar: bool = False,
        antialias: bool = True,
        scaled_decoding: bool = False,
        max_pixels: int = 134217728,
        accept_corrupt: bool = False,
        extensions: str | Sequence[str] = (),
        allow_empty: bool = False,
        name: str = "image folder",
    ) -> None: ...
    @property
    def classes(self) -> list[str]: ...
    @property
    def class_to_idx(self) -> dict[str, int]: ...

@final
class Files(ImageFiles):
    def __init__(
        self,
        paths: _Files,
        labels: Sequence[int] | NDArray[Any] | None = None,
        *,
        height: int = 224,
        width: int = 224,
        fit: Literal["stretch", "center_crop", "random_resized_crop", "exact"] = "stretch",
        shorter_side: int = 256,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (0.75, 1.3333333333333333),
        mirror: float = 0.0,
        planar: bool = False,
        antialias: bool = True,
        scaled_decoding: bool = False,
        max_pixels: int = 134217728,
        accept_corrupt: bool = False,
        name: str = "image files",
    ) -> None: ...

# stats.cpp

@final
class StageShares:
    @property
    def busy(self) -> float: ...
    @property
    def starved(self) -> float: ...
    @property
    def blocked(self) -> float: ...
    @property
    def is_known(self) -> bool: ...

@final
class Quantiles:
    @property
    def p50(self) -> float: ...
    @property
    def p99(self) -> float: ...

@final
class Prediction:
    @property
    def t_step(self) -> float: ...
    @property
    def gain(self) -> float: ...
    @property
    def limit(
        self,
    ) -> Literal["consumer", "link", "readers", "cpus", "device_slots", "pinned_slots"]: ...

@final
class Decision:
    @property
    def batch(self) -> int: ...
    @property
    def what(self) -> str: ...
    @property
    def from_(self) -> int: ...
    @property
    def to(self) -> int: ...
    @property
    def why(self) -> str: ...

@final
class Stats:
    @property
    def batches(self) -> int: ...
    @property
    def sampled_steps(self) -> int: ...
    @property
    def timed_copies(self) -> int: ...
    @property
    def reordered(self) -> int: ...
    @property
    def most_overtaken(self) -> int: ...
    @property
    def failed_samples(self) -> int: ...
    @property
    def workers(self) -> int: ...
    @property
    def devices(self) -> int: ...
    @property
    def prefetch_depth(self) -> int: ...
    @property
    def device_slots(self) -> int: ...
    @property
    def pinned_slots(self) -> int: ...
    @property
    def past_cache_bytes(self) -> int: ...
    @property
    def batch_bytes(self) -> float: ...
    @property
    def t_read(self) -> float: ...
    @property
    def t_read_cpu(self) -> float: ...
    @property
    def cpus(self) -> int: ...
    @property
    def cold_bytes(self) -> float: ...
    @property
    def hot_bytes(self) -> float: ...
    @property
    def major_faults(self) -> float: ...
    @property
    def t_x(self) -> float: ...
    @property
    def t_c(self) -> float: ...
    @property
    def t_step(self) -> float: ...
    @property
    def t_step_error(self) -> float: ...
    @property
    def samples_per_second(self) -> float: ...
    @property
    def idle_ends(self) -> float: ...
    @property
    def step(self) -> Quantiles: ...
    @property
    def bubble(self) -> Quantiles: ...
    @property
    def reader(self) -> StageShares: ...
    @property
    def copier(self) -> StageShares: ...
    @property
    def consumer(self) -> StageShares: ...
    @property
    def decided(self) -> int: ...
    @property
    def decisions(self) -> list[Decision]: ...
    @property
    def is_measured(self) -> bool: ...
    @property
    def t_c_is_upper_bound(self) -> bool: ...
    @property
    def overlap_efficiency(self) -> float: ...
    @property
    def feed_efficiency(self) -> float: ...
    @property
    def hidden_fraction(self) -> float: ...
    @property
    def read_cpu_per_gb(self) -> float: ...
    def what_if(self, *, workers: int = 0, device_slots: int = 0, pinned_slots: int = 0) -> Prediction: ...
    def bottleneck(self) -> str: ...
    def shares_table(self) -> str: ...
    def table(self) -> str: ...
    def as_dict(self) -> dict[str, float | int | str]:
        """Returns the figures by name, for loggers: all attributes that are ints or floats; `step_p50`,
        `step_p99`, and the same for `bubble`; `reader_busy`, `reader_starved`, `reader_blocked`, and the
        same for `copier` and `consumer`; and `bottleneck`, the sentence."""

    def _repr_html_(self) -> str: ...

@final
class FailedSample:
    @property
    def stage(self) -> Literal["read", "transform"]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def sample(self) -> int: ...
    @property
    def error(self) -> str: ...

@final
class Trace:
    def __init__(self, *, skip: int = 0, batches: int = 64) -> None: ...
    def json(self) -> str: ...
    def save(self, file: _Path) -> None: ...
    def timeline(self, *, steps: int = 3, length: float = 0, columns: int = 80) -> str: ...

# arrays.cpp

@final
class InMemory(Dataset):
    def __init__(self, arrays: Mapping[str, Any] = ..., /, *, name: Any = "in memory", **fields: Any) -> None: ...

# columns.cpp

@final
class Columns(Dataset):
    def __init__(
        self,
        table: Any,
        *,
        shapes: Mapping[str, Sequence[int]] = ...,
        fill: Mapping[str, float] = ...,
        images: Sequence[WebPart] = (),
        name: str = "columns",
    ) -> None: ...
    def categories(self, name: str) -> list[str]: ...

# loop.cpp

@final
class Loop:
    def __iter__(self) -> Loop: ...
    def __next__(self) -> Batch: ...
    def __len__(self) -> int: ...

@final
class Departure:
    def __init__(self, left: Callable[[bool], object]) -> None: ...

@final
class Epoch:
    @property
    def number(self) -> int: ...
    def __iter__(self) -> Loop: ...
    def __enter__(self) -> Loop: ...
    def __exit__(self, type: object, value: object, traceback: object) -> None: ...
    def __len__(self) -> int: ...

# prefetcher.cpp

@disjoint_base
class Prefetcher:
    def __init__(
        self,
        dataset: Dataset,
        device: str,
        framework: str | None,
        options: dict[str, object],
        copies_escapes: bool,
        timeout: float | None,
    ) -> None: ...
    def epoch(self, number: int) -> Epoch: ...
    def __iter__(self) -> Loop: ...
    def peek(self) -> Batch:
        """Returns a copy of the batch that comes next, without a lease: of the loop that runs, or else of
        the epoch that iter() begins. That batch is delivered all the same. A look does not count:
        state_dict(), next_epoch, len() and the number of batches in stats() do not change.

        A second call gives the same batch. A loop over another epoch does not deliver it. In the stats,
        the time of the request is this call's. Waits and raises as a loop does; leat.Error for an epoch
        without a batch."""

    def __len__(self) -> int: ...
    @property
    def next_epoch(self) -> int: ...
    @property
    def copies(self) -> int: ...
    @property
    def dataset(self) -> Dataset: ...
    @property
    def device(self) -> str: ...
    def state(self, in_hand: bool) -> str: ...
    def load(self, state: str, accept_dataset: bool = False) -> None: ...
    def draw(self, keys: bytes, kind: int, rows: int) -> None: ...
    def end_draws(self) -> None: ...
    def read_in_caller(self, step: Callable[[], bool]) -> None: ...
    def close(self) -> None: ...
    def stats(self) -> Stats: ...
    def reset_stats(self) -> None: ...
    def report(self) -> str: ...
    def failed_samples(self) -> list[FailedSample]: ...

def merge_states(states: list[str]) -> str: ...
def stop_all() -> None: ...

@final
class LoopFigures:
    @property
    def iterations(self) -> int: ...
    @property
    def first_wait(self) -> Quantiles: ...
    @property
    def steps(self) -> int: ...
    @property
    def wait(self) -> Quantiles: ...
    @property
    def wait_sum(self) -> float: ...
    @property
    def step(self) -> Quantiles: ...
    @property
    def step_sum(self) -> float: ...
    @property
    def sampled(self) -> int: ...
    @property
    def gap(self) -> Quantiles: ...
    @property
    def gap_sum(self) -> float: ...
    @property
    def sampled_step(self) -> Quantiles: ...
    @property
    def sampled_step_sum(self) -> float: ...
    @property
    def device_error(self) -> str: ...
    @property
    def has_device(self) -> bool: ...
    @property
    def share(self) -> float: ...
    def sentence(self) -> str: ...
    def table(self) -> str: ...

@final
class LoopMeter:
    def __init__(self, sample_every: int = 16) -> None: ...
    @property
    def is_here(self) -> bool: ...
    def wants_stream(self) -> bool: ...
    def asks(self) -> None: ...
    def asks_on(self, device: str, stream: int) -> None: ...
    def got(self) -> None: ...
    def ends(self) -> None: ...
    def figures(self) -> LoopFigures: ...
