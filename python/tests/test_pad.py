"""Ragged samples, padded to the batch's longest."""

import pickle
import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from leat.readers.pad import pad_collate
from test_fill import Of, fill
from test_structure import assert_same, torch

needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

Pair = namedtuple("Pair", "ids label")


def ids(i: int) -> Any:
    return np.arange(1 + i % 3)


def plain(value: Any) -> Any:
    """Tensors and arrays as lists."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value.tolist()


def both(f: Any, *arguments: Any, **options: Any) -> Any:
    """By a reader, and called as a function."""
    collate = pickle.loads(pickle.dumps(pad_collate(*arguments, **options)))
    as_torch = "torch" in sys.modules
    got = fill(Of(f), collate_fn=collate, as_torch=as_torch)
    assert_same(collate([f(i) for i in range(4)]), got)
    return got


def test_single_tensors() -> None:
    rows = [[0, -1, -1], [0, 1, -1], [0, 1, 2], [0, -1, -1]]
    got = both(ids, -1)
    assert plain(got) == rows
    assert "int64" in str(got.dtype)
    assert plain(both(ids, -1, lengths=True)) == {"ids": rows, "length": [1, 2, 3, 1]}
    assert plain(both(ids, {"x": -1}, lengths=True, name="x")) == {"x": rows, "length": [1, 2, 3, 1]}


@needs_torch
def test_it_is_pad_sequence() -> None:
    from torch.nn.utils.rnn import pad_sequence

    def ragged(i: int) -> Any:
        return torch.arange(2 * (1 + (i * 7) % 5)).view(-1, 2)

    samples = [ragged(i) for i in range(4)]
    expected = {
        "ids": pad_sequence(samples, batch_first=True, padding_value=-1),
        "length": torch.tensor([len(one) for one in samples]),
    }
    assert_same(both(ragged, -1, lengths=True), expected)
    halves = both(lambda i: ragged(i).to(torch.bfloat16), 0.5)
    assert_same(halves, pad_sequence([one.to(torch.bfloat16) for one in samples], True, 0.5))


def test_dicts_with_a_value_for_each_field() -> None:
    def sample(i: int) -> Any:
        return {"ids": [1] * (i + 1), "labels": ids(i), "name": f"n{i}", "score": i / 2, "empty": [0.5] * (i > 2)}

    got = both(sample, {"labels": -100}, multiple_of=4, lengths=True)
    assert list(got) == ["ids", "labels", "name", "score", "empty", "ids_length", "labels_length", "empty_length"]
    assert got.pop("name") == ["n0", "n1", "n2", "n3"]
    assert plain(got) == {
        "ids": [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]],
        "labels": [[0, -100, -100, -100], [0, 1, -100, -100], [0, 1, 2, -100], [0, -100, -100, -100]],
        "score": [0.0, 0.5, 1.0, 1.5],
        "empty": [[0.0] * 4, [0.0] * 4, [0.0] * 4, [0.5, 0, 0, 0]],
        "ids_length": [1, 2, 3, 4],
        "labels_length": [1, 2, 3, 1],
        "empty_length": [0, 0, 0, 1],
    }
    assert "float64" in str(got["empty"].dtype)


def test_tuples() -> None:
    rows = [[0, 0, 0], [0, 1, 0], [0, 1, 2], [0, 0, 0]]
    assert plain(both(lambda i: (ids(i), i))) == [rows, [0, 1, 2, 3]]
    assert plain(both(lambda i: (ids(i), i), lengths=True)) == [rows, [0, 1, 2, 3], [1, 2, 3, 1]]
    got = both(lambda i: Pair(ids(i), i))
    assert type(got) is Pair and plain(got) == [rows, [0, 1, 2, 3]]
    assert plain(both(lambda i: [ids(i), i], {"0": 7}))[0][0] == [0, 7, 7]


def test_only_the_fields_that_are_named() -> None:
    got = both(lambda i: {"ids": ids(i), "image": np.zeros((3, 2))}, multiple_of=8, fields=["ids"], lengths=True)
    assert {key: tuple(value.shape) for key, value in got.items()} == {
        "ids": (4, 8),
        "image": (4, 3, 2),
        "ids_length": (4,),
    }


def test_rows_without_values() -> None:
    assert both(lambda i: np.empty((0, 2))).shape == (4, 0, 2)
    assert both(lambda i: []).shape == (4, 0)


@pytest.mark.parametrize(
    ("f", "options", "error", "text"),
    [
        (lambda i: np.zeros((2, 2 + i)), {}, RuntimeError, r"shape \(2, 3\).* shape \(2, 2\); rows may"),
        (lambda i: {"x": np.zeros(2, "f8" if i == 2 else "f4")}, {}, TypeError, "2 .*float64.* field 'x', and"),
        (lambda i: {"x": None if i else ids(i)}, {}, TypeError, "1 .*has None in field 'x'"),
        (lambda i: {"x": 3}, {"fields": ["x"]}, TypeError, "'x' has no dimension"),
        (lambda i: np.zeros(2, "c8"), {}, TypeError, "complex64"),
        (lambda i: (1, [2], [3]) if i == 1 else (1, [2]), {}, RuntimeError, "equal length"),
        (lambda i: np.zeros(2, "u1"), {"values": -1}, ValueError, "uint8, which cannot hold -1"),
        (lambda i: np.zeros(2, "i4"), {"values": 0.5}, ValueError, "int32, which cannot hold 0.5"),
        (lambda i: {"x": [0, 2**63 if i == 2 else i]}, {}, ValueError, "2 .*an int in field 'x' that int64 cannot"),
        (lambda i: [2**63, -1], {}, ValueError, "0 .*an int in field 'ids' that int64 cannot"),
        (lambda i: {"x": [1]}, {"values": {"labels": 1}}, ValueError, "no field 'labels', but 'x'"),
        (lambda i: ([1], 2), {"fields": ["2"]}, ValueError, "no field '2', but '0', '1'"),
        (lambda i: [1], {"values": {"x": 1}}, ValueError, "no field 'x', but 'ids'"),
        (lambda i: {"x": [1], "x_length": 1}, {"lengths": True}, ValueError, "'x_length' already"),
    ],
)
def test_bad_samples(f: Any, options: Any, error: type[Exception], text: str) -> None:
    collate = pad_collate(**options)
    with pytest.raises(error, match=text):
        collate([f(i) for i in range(4)])
    with pytest.raises(error, match=text):
        fill(Of(f), collate_fn=collate, as_torch=False)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"multiple_of": 0}, ValueError),
        ({"multiple_of": 2.5}, TypeError),
        ({"lengths": 1}, TypeError),
        ({"values": "x"}, TypeError),
        ({"values": {"x": None}}, TypeError),
        ({"fields": "ids"}, TypeError),
    ],
)
def test_bad_arguments(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        pad_collate(**options)


def test_no_samples() -> None:
    with pytest.raises(ValueError, match="no samples"):
        pad_collate()([])
