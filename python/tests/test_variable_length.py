"""Samples of variable length: padded to their field, to their batch, or packed."""

import io
import pathlib
import tarfile
from typing import Any

import leat
import numpy as np
import pytest


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> leat.WebDataset:
    """Sample i has 1 + i % 9 numbers: 0, 1, 2, ..."""
    shard = tmp_path_factory.mktemp("shards") / "ids.tar"
    with tarfile.open(shard, "w") as tar:
        for i in range(60):
            numbers = np.arange(1 + i % 9, dtype=np.int32).tobytes()
            for name, content in ((f"{i:06d}.ids", numbers), (f"{i:06d}.cls", b"1")):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    ids = leat.raw_bytes(leat.Field("ids", "int32", (2048,), variable_length=True), "ids")
    return leat.WebDataset(shard, parts=[ids, leat.class_label("label")])


def make_feed(data: leat.WebDataset, **options: Any) -> leat.Prefetcher:
    settings: dict[str, Any] = {"batch_size": 8, "order": "sequential", "framework": "numpy"}
    return leat.Prefetcher(data, "cpu", **(settings | options))


@pytest.mark.parametrize("pad_to", ["field", "batch"])
def test_rows_are_as_long_as_the_field_or_the_longest_sample(data: leat.WebDataset, pad_to: str) -> None:
    seen = 0
    for batch in make_feed(data, pad_to=pad_to):
        lengths = batch["ids.length"]
        assert lengths.tolist() == [1 + i % 9 for i in range(seen, seen + batch.size)]
        ids = batch["ids"]
        assert ids.shape == (batch.size, 2048 if pad_to == "field" else lengths.max())
        assert ids.flags.c_contiguous
        for row, length in zip(ids, lengths):
            assert row.tolist() == list(range(length)) + [0] * (len(row) - length)
        seen += batch.size
    assert seen == 60


def test_fewer_bytes_are_copied(data: leat.WebDataset) -> None:
    of: dict[str, float] = {}
    for pad_to in ("field", "batch"):
        feed = make_feed(data, pad_to=pad_to)
        for _ in feed:
            pass
        of[pad_to] = feed.stats().batch_bytes
    assert of["batch"] < of["field"] / 100


def test_packed_samples_follow_each_other(data: leat.WebDataset) -> None:
    samples: list[list[int]] = []
    feed = make_feed(data, batch_size=45, packing=leat.Packing())  # 9 samples have 45 numbers
    for batch in feed:
        # [packed]
        ids, offsets = batch["ids"], batch["offsets"]  # [45] and [batch.size + 1]
        samples += [ids[a:b].tolist() for a, b in zip(offsets, offsets[1:])]
        # [/packed]
        assert batch.elements == len(ids) == offsets[-1]
    assert samples == [list(range(1 + i % 9)) for i in range(60)]


def test_packing_excludes_padding_and_both_are_named(data: leat.WebDataset) -> None:
    with pytest.raises(ValueError, match="packing and a pad_to of batch"):
        make_feed(data, packing=leat.Packing(), pad_to="batch")
