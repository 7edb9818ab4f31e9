"""leat.DataLoader gives what torch's DataLoader gives."""

import itertools
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import leat
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import oracle  # noqa: E402

WORKERS = (0, 2)


def difference(a: Any, b: Any, at: str = "batch") -> str:
    """Where two batches differ; empty: nowhere."""
    if type(a) is not type(b):
        return f"{at}: {type(a)} and {type(b)}"
    if isinstance(a, (torch.Tensor, np.ndarray)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{at}: {a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)}"
        if isinstance(a, torch.Tensor) and a.device.type != "cpu":
            return f"{at}: on {a.device}"
        equal = (a == b) | ((a != a) & (b != b))
        return "" if bool(equal.all()) else f"{at}: {a} and {b}"
    if isinstance(a, Mapping):
        if list(a) != list(b):
            return f"{at}: keys {list(a)} and {list(b)}"
        return next(filter(None, (difference(a[key], b[key], f"{at}[{key!r}]") for key in a)), "")
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return f"{at}: {len(a)} and {len(b)} items"
        found = (difference(x, y, f"{at}[{i}]") for i, (x, y) in enumerate(zip(a, b, strict=True)))
        return next(filter(None, found), "")
    if is_dataclass(a):
        names = [field.name for field in fields(a)]
        return next(filter(None, (difference(getattr(a, n), getattr(b, n), f"{at}.{n}") for n in names)), "")
    return "" if a == b else f"{at}: {a!r} and {b!r}"


def epoch_of(loader: Any, most: int | None) -> list[Any]:
    """The batches of an epoch; in the place of one that fails, the exception's type."""
    found: list[Any] = []
    batches = iter(loader)
    while len(found) < (20 if most is None else most):
        try:
            found.append(next(batches))
        except StopIteration:
            break
        except Exception as error:  # noqa: BLE001
            found.append(type(error))
    return found


def epochs_of(make: Any, row: oracle.Row, **more: Any) -> list[list[Any]]:
    dataset, arguments = row.make()
    loader = make(dataset, **arguments, **more)
    found = []
    for epoch in range(3):
        sampler = arguments.get("sampler")
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        found.append(epoch_of(loader, row.batches))
    if isinstance(loader, leat.DataLoader):
        loader.close()
    return found


@pytest.mark.parametrize(("number", "workers"), [(n, w) for n, row in oracle.ROWS.items() for w in row.workers])
def test_batches(number: int, workers: int) -> None:
    row = oracle.ROWS[number]
    ours = epochs_of(leat.DataLoader, row, num_workers=workers)
    theirs = epochs_of(torch.utils.data.DataLoader, row, num_workers=workers)
    if not row.compares:
        assert [[len(batch) for batch in epoch] for epoch in ours] == [
            [len(batch) for batch in epoch] for epoch in theirs
        ]
        samples = [torch.cat(epoch).tolist() for epoch in ours]
        assert all(sorted(one) == list(range(10)) for one in samples)
        assert samples[0] != samples[1] or samples[1] != samples[2]
        return
    for epoch, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert len(a) == len(b), f"epoch {epoch}: {a} and {b}"
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            assert difference(x, y, f"epoch {epoch}, batch {index}") == ""


@pytest.mark.parametrize("workers", WORKERS)
def test_by_position(workers: int) -> None:
    dataset = oracle.Of(10, oracle.number)
    arguments = (dataset, 3, False, None, None, workers, None, False, True)
    ours, theirs = leat.DataLoader(*arguments), torch.utils.data.DataLoader(*arguments)
    assert difference(list(ours), list(theirs)) == ""
    ours.close()


@pytest.mark.parametrize("number", oracle.ROWS)
def test_len(number: int) -> None:
    found = []
    for make in (leat.DataLoader, torch.utils.data.DataLoader):
        dataset, arguments = oracle.ROWS[number].make()
        try:
            found.append(len(make(dataset, **arguments)))
        except TypeError:
            found.append(-1)
    assert found[0] == found[1]


@pytest.mark.parametrize("case", oracle.arguments_that_fail())
def test_arguments(case: str) -> None:
    error, dataset, arguments = oracle.arguments_that_fail()[case]
    for make in (torch.utils.data.DataLoader, leat.DataLoader):
        with pytest.raises(error):
            make(dataset, **arguments)


@pytest.mark.parametrize(("name", "value"), [("batch_size", 3), ("dataset", []), ("sampler", []), ("drop_last", True)])
def test_attributes_are_fixed(name: str, value: object) -> None:
    for make in (torch.utils.data.DataLoader, leat.DataLoader):
        with pytest.raises(ValueError, match=name):
            setattr(make(oracle.Of(10, oracle.number)), name, value)


@pytest.mark.parametrize("case", oracle.SAMPLES_THAT_FAIL)
def test_samples(case: str) -> None:
    error, f = oracle.SAMPLES_THAT_FAIL[case]
    with pytest.raises(error):
        next(iter(torch.utils.data.DataLoader(oracle.Of(4, f), batch_size=2)))
    for workers in WORKERS:
        with leat.DataLoader(oracle.Of(4, f), batch_size=2, num_workers=workers) as loader:
            with pytest.raises(error) as raised:
                next(iter(loader))
            assert raised.type is error
            assert any("worker" in note for note in raised.value.__notes__)


def test_pad_collate_gives_the_same() -> None:
    ours = leat.DataLoader(oracle.ragged(), 4, collate_fn=leat.pad_collate(-1, lengths=True))
    theirs = torch.utils.data.DataLoader(oracle.ragged(), 4, collate_fn=oracle.pad)
    for a, b in itertools.zip_longest(ours, theirs):
        assert difference(a, b) == ""
