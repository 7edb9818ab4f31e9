"""What is said of a wrong argument: what was given, what is accepted, once."""

import os
import pathlib
import tempfile
import traceback
from collections.abc import Callable
from typing import Any

import leat
import leat.errors
import numpy as np
import pytest
from arrow_stream import Table
from samples import write_web

NUMBERS: list[Any] = [None, True, 0, -1, 1.5, 10**30]
WRONG = [*NUMBERS, "x", b"x", slice(1, 3), (1, 2), ["x", 3], {}, {"x": 3}, object(), np.zeros(3)]

DATA = leat.InMemory(x=np.zeros((8, 2), np.float32))
FEED = leat.Prefetcher(DATA, "cpu", batch_size=4)
BATCH = FEED.peek()
STATS = FEED.stats()
TENSOR = BATCH["x"]
KEPT = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(KEPT.name)
write_web(FOLDER / "a.tar", range(2))
WEB = leat.WebDataset(FOLDER / "*.tar")
FILES = leat.Files(["x", "y"])
FIELD = leat.Field("x", "uint8")
TABLE = Table([{"x": np.arange(3)}])

# Each public function, with one argument that is wrong. (What names files gets none, or a folder.)
CALLS: dict[str, Callable[[Any], Any]] = {
    "Autotune": lambda wrong: leat.Autotune(every=wrong),
    "Batch": lambda wrong: leat.Batch(wrong),
    "Batch.__contains__": lambda wrong: wrong in BATCH,
    "Batch.__getitem__": lambda wrong: BATCH[wrong],
    "Batch.__or__": lambda wrong: BATCH | wrong,
    "Batch.__ror__": lambda wrong: wrong | BATCH,
    "Batch.get": lambda wrong: BATCH.get(wrong),
    "Batch.on": lambda wrong: BATCH.on(wrong),
    "Cifar10": lambda wrong: leat.Cifar10(wrong),
    "Cifar10.split": lambda wrong: leat.Cifar10(FOLDER, wrong),
    "Cifar100.label": lambda wrong: leat.Cifar100(FOLDER, label=wrong),
    "Columns": lambda wrong: leat.Columns(wrong),
    "Columns.shapes": lambda wrong: leat.Columns(TABLE, shapes=wrong),
    "Columns.shapes.shape": lambda wrong: leat.Columns(TABLE, shapes={"x": wrong}),
    "Columns.fill": lambda wrong: leat.Columns(TABLE, fill=wrong),
    "Columns.fill.value": lambda wrong: leat.Columns(TABLE, fill={"x": wrong}),
    "Columns.images": lambda wrong: leat.Columns(TABLE, images=wrong),
    "Columns.categories": lambda wrong: leat.Columns(TABLE).categories(wrong),
    "Concat": lambda wrong: leat.Concat(wrong),
    "Concat.part": lambda wrong: leat.Concat([DATA, wrong]),
    "DataLoader": lambda wrong: leat.DataLoader([1], num_workers=wrong),
    "DataLoader.device": lambda wrong: leat.DataLoader([1], device=wrong),
    "DataLoader.load_state_dict": lambda wrong: leat.DataLoader([1]).load_state_dict(wrong),
    "DataLoader.set_epoch": lambda wrong: leat.DataLoader([1]).set_epoch(wrong),
    "Dataset.__getitem__": lambda wrong: DATA[wrong],
    "Dataset.__contains__": lambda wrong: wrong == 0 and wrong in DATA,  # type: ignore[operator]
    "Dataset.map": lambda wrong: DATA.map(wrong),
    "Dataset.read": lambda wrong: DATA.read(wrong),
    "Dataset.read.seed": lambda wrong: DATA.read(0, seed=wrong),
    "Dataset.read.epoch": lambda wrong: DATA.read(0, epoch=wrong),
    "Epoch.__exit__": lambda wrong: FEED.epoch(0).__exit__(wrong, wrong, wrong),
    "FailureBudget": lambda wrong: leat.FailureBudget(rate=wrong),
    "Field": lambda wrong: leat.Field(wrong, "uint8"),
    "Field.dtype": lambda wrong: leat.Field("x", wrong),
    "Field.shape": lambda wrong: leat.Field("x", "uint8", wrong),
    "Field.__eq__": lambda wrong: FIELD == wrong,
    "Files": lambda wrong: leat.Files(wrong),
    "Files.labels": lambda wrong: leat.Files(["x"], wrong),
    "FixedRecords": lambda wrong: leat.FixedRecords(FOLDER, fields=wrong),
    "ImageFiles.path": lambda wrong: FILES.path(wrong),
    "ImageFiles.label": lambda wrong: FILES.label(wrong),
    "ImageFolder": lambda wrong: leat.ImageFolder(wrong),
    "ImageFolder.extensions": lambda wrong: leat.ImageFolder(FOLDER, extensions=wrong),
    "InMemory": lambda wrong: leat.InMemory(wrong),
    "InMemory.fields": lambda wrong: leat.InMemory(x=wrong),
    "Live": lambda wrong: leat.Live(batches=wrong),
    "Mixture": lambda wrong: leat.Mixture(wrong),
    "Mixture.part": lambda wrong: leat.Mixture([wrong]),
    "Mixture.weight": lambda wrong: leat.Mixture([(DATA, wrong)]),
    "Mixture.samples": lambda wrong: leat.Mixture([DATA], samples=wrong),
    "Mixture.stages": lambda wrong: leat.Mixture([DATA], stages=wrong),
    "Mixture.stages.stage": lambda wrong: leat.Mixture([DATA], stages=[wrong]),
    "Mixture.stages.epoch": lambda wrong: leat.Mixture([DATA], stages=[(wrong, [1])]),
    "Mixture.stages.weights": lambda wrong: leat.Mixture([DATA], stages=[(1, wrong)]),
    "Mixture.shuffle": lambda wrong: leat.Mixture([DATA], shuffle=wrong),
    "Mnist": lambda wrong: leat.Mnist(wrong),
    "Mnist.split": lambda wrong: leat.Mnist(FOLDER, wrong),
    "Npy": lambda wrong: leat.Npy(wrong),
    "Npy.fields": lambda wrong: leat.Npy(x=wrong),
    "Npy.name": lambda wrong: leat.Npy({"x": FOLDER}, name=wrong),
    "Numbered": lambda wrong: leat.Numbered(wrong),
    "Packing": lambda wrong: leat.Packing(wrong),
    "Prefetcher": lambda wrong: leat.Prefetcher(wrong, "cpu", batch_size=4),
    "Prefetcher.device": lambda wrong: leat.Prefetcher(DATA, wrong, batch_size=4),
    "Prefetcher.framework": lambda wrong: leat.Prefetcher(DATA, "cpu", batch_size=4, framework=wrong),
    "Prefetcher.timeout": lambda wrong: leat.Prefetcher(DATA, "cpu", batch_size=4, timeout=wrong),
    "Prefetcher.resume": lambda wrong: leat.Prefetcher(DATA, "cpu", batch_size=4, resume=wrong),
    "Prefetcher.epoch": lambda wrong: FEED.epoch(wrong),
    "Prefetcher.state_dict": lambda wrong: FEED.state_dict(in_hand=wrong),
    "Prefetcher.load_state_dict": lambda wrong: FEED.load_state_dict(wrong),
    "Ragged": lambda wrong: leat.InMemory(x=leat.Ragged(wrong, [0, 1])),
    "Ragged.offsets": lambda wrong: leat.InMemory(x=leat.Ragged(np.zeros(3), wrong)),
    "Stats.what_if": lambda wrong: STATS.what_if(workers=wrong),
    "Subset": lambda wrong: leat.Subset(DATA, wrong),
    "Subset.dataset": lambda wrong: leat.Subset(wrong, [0]),
    "Tensor.__array__": lambda wrong: TENSOR.__array__(copy=wrong),
    "Tensor.__dlpack__": lambda wrong: TENSOR.__dlpack__(stream=wrong),
    "Tensor.__dlpack__.max_version": lambda wrong: TENSOR.__dlpack__(max_version=wrong),
    "Tensor.__dlpack__.dl_device": lambda wrong: TENSOR.__dlpack__(dl_device=wrong),
    "Tensor.__dlpack__.copy": lambda wrong: TENSOR.__dlpack__(copy=wrong),
    "TokenShards": lambda wrong: leat.TokenShards(FOLDER, sequence_length=wrong),
    "TokenShards.token": lambda wrong: leat.TokenShards(FOLDER, sequence_length=1, token=wrong),
    "Trace": lambda wrong: leat.Trace(skip=wrong),
    "Trace.save": lambda wrong: leat.Trace().save(wrong if wrong is None else [wrong]),  # type: ignore[arg-type]
    "WebDataset": lambda wrong: leat.WebDataset(FOLDER / "*.tar", parts=wrong),
    "WebDataset.key": lambda wrong: WEB.key(wrong),
    "Weighted": lambda wrong: leat.Weighted(DATA, wrong),
    "Weighted.dataset": lambda wrong: leat.Weighted(wrong, [1]),
    "Weighted.samples": lambda wrong: leat.Weighted(DATA, np.ones(8), samples=wrong),
    "Weighted.replacement": lambda wrong: leat.Weighted(DATA, np.ones(8), replacement=wrong),
    "any_image": lambda wrong: leat.any_image(wrong),
    "class_label": lambda wrong: leat.class_label(wrong),
    "jpeg_image": lambda wrong: leat.jpeg_image("x", ratio=wrong),
    "merge_states": lambda wrong: leat.merge_states(wrong),
    "pad_collate": lambda wrong: leat.pad_collate(multiple_of=wrong),
    "overlap": lambda wrong: leat.overlap([], stream=wrong),
    "raw_bytes": lambda wrong: leat.raw_bytes(wrong, "x"),
    "raw_bytes.extensions": lambda wrong: leat.raw_bytes(FIELD, wrong),
    "split": lambda wrong: leat.split(wrong, [1]),
    "split.parts": lambda wrong: leat.split(DATA, wrong),
    "split.seed": lambda wrong: leat.split(DATA, [1], seed=wrong),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_wrong_argument_is_answered_with_signatures(name: str) -> None:
    for wrong in WRONG:
        try:
            CALLS[name](wrong)
        except Exception as error:
            assert "incompatible function arguments" not in str(error), (wrong, str(error))
            assert isinstance(error, (TypeError, ValueError, LookupError, BufferError, leat.Error, OSError)), error


def test_the_table_has_all_that_is_public() -> None:
    without_arguments = {"devices", "cuda_status", "rng"}
    of_results = {"Decision", "DeviceInfo", "FailedSample", "LoopFigures", "Loop", "Overlap", "Prediction", "Quantiles",
                  "StageShares", "WebPart"}  # fmt: skip
    errors = set(leat.errors.__dict__)
    there = {name.partition(".")[0] for name in CALLS} | without_arguments | of_results | errors | {"__version__"}
    assert set(leat.__all__) <= there


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: BATCH[0], TypeError, "leat: the keys of batch 0 of epoch 0 are the names of its tensors (x), not 0"),
        (
            lambda: DATA[1:3],  # type: ignore[index]
            TypeError,
            'leat: dataset "in memory" takes the number of a sample, an int, not slice(1, 3, None): ask for one sample '
            "at a time",
        ),
        (
            lambda: leat.Mnist(FOLDER),
            ValueError,
            f"leat: mnist: {FOLDER} is a folder: give the split to read from it, train or test, or the files of its "
            "images",
        ),
        (
            lambda: leat.Prefetcher(DATA, "gpu", batch_size=4),
            ValueError,
            """device has to be "cpu", "cuda", "cuda:N" or "auto", or a torch.device of these, not 'gpu'""",
        ),
        (
            lambda: leat.Prefetcher(DATA, "cpu:1", batch_size=4),
            ValueError,
            """device has to be "cpu", "cuda", "cuda:N" or "auto", or a torch.device of these, not 'cpu:1'""",
        ),
    ],
)
def test_it_says_what_was_given_and_what_is_accepted(call: Callable[[], Any], kind: type, text: str) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert str(raised.value) == text


def test_a_traceback_says_each_sentence_once(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "cut.bin"
    np.zeros(100_000, np.uint16).tofile(file)
    feed = leat.Prefetcher(leat.TokenShards(file, sequence_length=64), "cpu", batch_size=16, framework="numpy")
    with pytest.raises(leat.SampleError) as raised:
        for _ in feed:
            os.truncate(file, 1_000)
    text = "".join(traceback.format_exception(raised.value, limit=0))
    assert text.count("it was cut off while it was mapped") == 1
    assert text.count("sample ") == 1
