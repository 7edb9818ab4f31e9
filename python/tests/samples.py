"""Feeds whose every element tells its sample, for tests of tensors."""

import base64
import io
import json
import pathlib
import tarfile
from collections.abc import Iterable
from typing import Any

import leat
import numpy as np

BATCH = 8
WIDTH = 6
DTYPES = (
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
)


def x_of(samples: Any) -> Any:
    """What `x` has for these samples: 6 numbers each, all different."""
    return np.asarray(samples)[:, None] * WIDTH + np.arange(WIDTH)


def make_feed(batches: int = 10, device: str = "cpu", **options: Any) -> leat.Prefetcher:
    """Batches of 8 samples in order: x is int32 [8, 6], y is the sample's number, int64 [8]."""
    samples = np.arange(batches * BATCH)
    data = leat.InMemory(x=x_of(samples).astype(np.int32), y=samples.astype(np.int64))
    settings: dict[str, Any] = {"batch_size": BATCH, "order": "sequential"}
    return leat.Prefetcher(data, device, **(settings | options))


def feed_of_numbers(samples: int = 80, **options: Any) -> leat.Prefetcher:
    """Batches of 8 samples in order, as NumPy's arrays: x is the sample's number, int32 [8]."""
    data = leat.InMemory(x=np.arange(samples, dtype=np.int32))
    settings: dict[str, Any] = {"batch_size": BATCH, "framework": "numpy", "order": "sequential"}
    return leat.Prefetcher(data, "cpu", **(settings | options))


def samples_of(index: int) -> Any:
    """The samples of batch `index`."""
    return np.arange(index * BATCH, (index + 1) * BATCH)


def has_content(x: Any, index: int) -> bool:
    """Whether `x` is that of batch `index`."""
    return bool((np.asarray(x) == x_of(samples_of(index))).all())


def address_of(tensor: leat.Tensor) -> int:
    """Where its elements are, in memory of the host."""
    return int(np.asarray(tensor).ctypes.data)


def feed_of_type(folder: pathlib.Path, dtype: str, **options: Any) -> leat.Prefetcher:
    """One batch of 4 samples, whose `v` is [1, 2, 3] in the given type; of bool, all are True."""
    if dtype == "bfloat16":
        values = (np.array([1, 2, 3], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        values = np.array([1, 2, 3], dtype)
    (folder / f"{dtype}.bin").write_bytes(values.tobytes() * 4)
    data = leat.FixedRecords(folder / f"{dtype}.bin", fields=[leat.Field("v", dtype, (3,))])
    return leat.Prefetcher(data, "cpu", batch_size=4, **options)


# 24 x 16 pixels, a gradient.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71"
    "////m8H////6/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4"
    "+Pj4+Pj4+Pj/wAARCAAQABgDASIAAhEBAxEB/8QAFwAAAwEAAAAAAAAAAAAAAAAAAAMEBf/EABwQAAICAwEBAAAAAAAAAAAAAAAD"
    "AQIRQVEhYf/EABcBAAMBAAAAAAAAAAAAAAAAAAECAwT/xAAZEQACAwEAAAAAAAAAAAAAAAAAAQIDESH/2gAMAwEAAhEDEQA/AM+i"
    "fg6qOlS0+ZwOqncwBSWayddxJVEajIGhVPYAVzRtjdw//9k="
)


def write_web(shard: pathlib.Path, numbers: Iterable[int]) -> None:
    """A shard for WebDataset: of each number that image, the number as its label, and some JSON."""
    with tarfile.open(shard, "w") as tar:
        for number in numbers:
            files = {"jpg": JPEG, "cls": str(number).encode(), "json": json.dumps({"index": number}).encode()}
            for extension, content in files.items():
                member = tarfile.TarInfo(f"{number:010d}.{extension}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
