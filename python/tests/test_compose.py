"""Datasets of datasets: the orders of a model in another language, passes over epochs, resume, wrong arguments."""

import collections
import gc
import itertools
import pathlib
import pickle
import random
from collections.abc import Callable, Iterable
from typing import Any

import leat
import numpy as np
import pytest
from killed_run import EPOCHS, MIXED
from test_kill import run


def values(size: int, base: int = 0) -> leat.InMemory:
    """Sample i has the value base + i."""
    return leat.InMemory({"value": np.arange(base, base + size)}, name=f"values from {base}")


def read(data: leat.Dataset, seed: int = 0, epoch: int = 0) -> list[int]:
    return [int(data.read(i, seed=seed, epoch=epoch)["value"]) for i in range(len(data))]


def named(of: Iterable[int]) -> str:
    return " ".join("ABC"[value // 100] + str(value % 100) for value in of)


A, B, C = values(3), values(5, 100), values(2, 200)
WEIGHTED = [(A, 0.5), (B, 0.3), (C, 0.2)]


def test_epochs_of_a_mixture_are_those_of_the_model() -> None:
    mixture = leat.Mixture(WEIGHTED, samples=10)
    assert [named(read(mixture, 1, epoch)) for epoch in range(4)] == [
        "A1 B0 A2 C0 A0 B1 A1 C1 A0 B4",
        "A2 B2 A1 C0 A0 B3 A2 C1 A1 B4",
        "A2 B3 A0 C1 A0 B2 A2 C0 A1 B0",
        "A0 B1 A2 C0 A1 B3 A1 C1 A2 B2",
    ]
    staged = leat.Mixture([A, B, C], samples=10, stages=[(0, [0.5, 0.3, 0.2]), (2, [0.2, 0.2, 0.6])])
    for same in (staged, leat.Mixture(WEIGHTED, samples=10, stages=[(2, np.array([0.2, 0.2, 0.6]))])):
        assert named(read(same, 1, 1)) == "A2 B2 A1 C0 A0 B3 A2 C1 A1 B4"
        assert named(read(same, 1, 2)) == "C1 B3 A2 C0 C0 C1 B2 A0 C0 C1"
        assert named(read(same, 1, 3)) == "C1 B0 A0 C0 C0 C1 B1 A2 C0 C1"
    by_size = leat.Mixture([A, B, C])
    assert named(read(by_size, 1, 0)) == "B0 A1 C0 B1 A2 B4 B2 C1 A0 B3"
    assert named(read(by_size, 1, 1)) == "B4 A1 C0 B3 A0 B2 B0 C1 A2 B1"
    in_order = leat.Mixture(WEIGHTED, samples=10, shuffle=False)
    assert named(read(in_order, 1, 1)) == "A2 B3 A0 C0 A1 B4 A2 C1 A0 B0"


def test_weighted_draws_and_splits_are_those_of_the_model() -> None:
    four = values(4)
    systematic = leat.Weighted(four, [1, 2, 3, 4], samples=10)
    assert read(systematic, 1) == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    drawn = leat.Weighted(four, np.array([1, 2, 3, 4], np.float32), samples=10, replacement=True)
    assert read(drawn, 1) == [1, 3, 0, 2, 3, 3, 3, 3, 3, 3]
    assert read(drawn, 1, 1) == [3, 3, 3, 1, 2, 3, 1, 1, 0, 0]
    ten = values(10)
    assert [read(part) for part in leat.split(ten, [0.8, 0.2])] == [[5, 6, 0, 2, 7, 3, 1, 4], [8, 9]]
    assert [read(part) for part in leat.split(ten, (0.7, 0.2, 0.1), seed=1)] == [[5, 8, 6, 4, 3, 7, 9], [2, 1], [0]]


def test_subsets_are_by_numbers_or_ranges() -> None:
    ten = values(10)
    for numbers in ([7, 0, 7], (7, 0, 7), np.array([7, 0, 7], np.int16), range(9, 0, -4), range(3), [], range(5, 5)):
        assert read(leat.Subset(ten, numbers)) == list(numbers)


def test_a_concat_has_its_parts_one_after_the_other() -> None:
    assert named(read(leat.Concat([C, A, C]))) == "C0 C1 A0 A1 A2 C0 C1"


def test_numbers_tell_part_and_number_in_it() -> None:
    numbered = leat.Numbered(leat.Mixture(WEIGHTED, samples=10))
    assert [field.name for field in numbered.fields] == ["value", "number", "source"]
    for index in range(10):
        sample = numbered.read(index, seed=1, epoch=3)
        assert sample["value"] == 100 * sample["source"] + sample["number"]
    assert leat.Numbered(B)[3]["number"] == 3


@pytest.mark.parametrize("readers", ["c++", "processes", "threads"])
def test_a_feed_takes_a_mixture_in_its_own_order_mapped_or_not(readers: Any) -> None:
    mixture: Any = leat.Mixture(WEIGHTED, samples=10)
    data, options = (mixture, {}) if readers == "c++" else (mixture.map(lambda sample: sample), {"readers": readers})
    assert data.is_ordered
    with leat.Prefetcher(data, "cpu", batch_size=4, seed=1, framework="numpy", **options) as feed:
        for epoch in range(2):
            got = [int(value) for batch in feed.epoch(epoch) for value in batch["value"]]
            assert got == read(mixture, 1, epoch)
    assert not leat.Weighted(A, [1, 1, 1]).is_ordered


def test_the_example_of_the_page() -> None:
    web, books = values(1000), values(50, 2000)
    # [mixture]
    train_web, test_web = leat.split(web, [0.9, 0.1])  # the same two parts in each epoch of each run
    train = leat.Mixture([(train_web, 0.7), (books, 0.3)], samples=256 * 4, stages=[(2, [0.5, 0.5])])
    feed = leat.Prefetcher(train, "cpu", batch_size=256, seed=7, framework="numpy")
    # [/mixture]
    assert len(test_web) == 100
    for epoch, of_books in ((1, 307), (2, 512)):
        assert sum(int((batch["value"] >= 2000).sum()) for batch in feed.epoch(epoch)) == of_books


def composed() -> list[leat.Dataset]:
    mixture = leat.Mixture([(A, 1), (B, 2)], samples=9, stages=[(1, [2, 1])])
    weighted = leat.Weighted(B, [1, 2, 3, 4, 5], samples=7)
    subset = leat.Subset(B, range(1, 5, 2))
    return [mixture, weighted, subset, leat.Concat([A, C, A]), leat.Numbered(B), *leat.split(B, [3, 2], seed=4)]


def test_what_is_composed_is_pickled_with_its_parts() -> None:
    for data in composed():
        copy = pickle.loads(pickle.dumps(data))
        assert type(copy) is type(data)
        assert copy.digest == data.digest != 0
        assert read(copy, 3, 1) == read(data, 3, 1)


def test_what_is_composed_is_pickled_as_it_was_made() -> None:
    numbers, weights, labels, parts = np.arange(5), np.array([1.0, 0, 0, 0, 1]), np.arange(1), [A, B]
    stages = [(0, [1.0, 1.0])]
    made = [
        leat.Subset(B, numbers),
        leat.Weighted(B, weights),
        *leat.split(B, shares := np.array([0.6, 0.4])),
        leat.Mixture(parts, stages=stages),
        leat.Concat(parts),
        leat.Files(["a.png"], labels=labels),
    ]
    digests = [one.digest for one in made]
    numbers[:], weights[:], labels[:], shares[:] = 0, [0, 1, 1, 1, 0], 7, [0.2, 0.8]
    parts.append(C)
    stages[0] = (0, [1.0, 2.0])
    assert [pickle.loads(pickle.dumps(one)).digest for one in made] == digests


def test_what_is_composed_holds_its_parts() -> None:
    def make() -> list[leat.Dataset]:
        return [
            leat.Mixture([(values(4), 1), (values(4, 100), 1)]),
            leat.Concat([values(4), values(4)]),
            leat.Numbered(leat.Subset(values(50), [3, 4])),
            leat.split(values(9), [1, 2])[1],
            leat.Weighted(values(3), [1, 1, 1]),
        ]

    kept = make()
    for data in kept:
        data.__dict__.clear()
    gc.collect()
    assert [read(data) for data in kept] == [read(data) for data in make()]


def test_each_kind_of_composition_has_a_digest_of_its_own() -> None:
    digests = [data.digest for data in composed()]
    assert len({0, A.digest, *digests}) == len(digests) + 1


def test_a_state_of_another_composition_is_loaded_only_if_told_to() -> None:
    def feed_of(stages: list[tuple[int, list[float]]]) -> leat.Prefetcher:
        mixture = leat.Mixture(WEIGHTED, samples=12, stages=stages)
        return leat.Prefetcher(mixture, "cpu", batch_size=4, seed=1, framework="numpy")

    first = feed_of([(2, [1, 1, 1])])
    next(iter(first))
    state = first.state_dict()
    longer = feed_of([(2, [1, 1, 1]), (3, [1, 0, 0])])
    with pytest.raises(ValueError, match="or how it is composed.*accept_dataset=True"):
        longer.load_state_dict(state)
    with pytest.raises(TypeError, match="accept_dataset has to be True or False"):
        longer.load_state_dict(state, accept_dataset=1)  # type: ignore[arg-type]
    longer.load_state_dict(state, accept_dataset=True)
    left = [batch["value"].tolist() for batch in longer]
    assert sum(left, []) == read(longer.dataset, 1)[4:]
    with pytest.raises(ValueError, match="how it is composed"):  # it has the digest of what it goes on with
        first.load_state_dict(longer.state_dict())


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_takes_a_mixture_in_its_own_order(workers: int) -> None:
    mixture = leat.Mixture(WEIGHTED, samples=10)
    with leat.DataLoader(mixture, 4, shuffle=True, num_workers=workers, seed=1, framework="numpy") as loader:
        for epoch in range(3):
            assert [int(value) for batch in loader for value in batch["value"]] == read(mixture, 1, epoch)


class Renamed(list[int]):
    """A dataset in Python."""


def test_a_loader_accepts_a_state_of_another_dataset_if_told_to() -> None:
    first = leat.DataLoader(list(range(8)), 2, framework="numpy")
    next(iter(first))
    state = first.state_dict()
    other = leat.DataLoader(Renamed(range(8)), 2, framework="numpy")
    with pytest.raises(ValueError, match="another dataset.*accept_dataset=True"):
        other.load_state_dict(state)
    other.load_state_dict(state, accept_dataset=True)
    assert [batch.tolist() for batch in other] == [[2, 3], [4, 5], [6, 7]]


def test_an_error_names_part_and_number_in_it(tmp_path: pathlib.Path) -> None:
    for name, count in (("a", 40), ("b", 40)):
        np.arange(count, dtype=np.uint16).tofile(tmp_path / f"{name}.bin")
    parts = [leat.TokenShards(tmp_path / "a.bin", sequence_length=8)]
    parts.append(leat.TokenShards(tmp_path / "b.bin", sequence_length=8, vocabulary=20))
    feed = leat.Prefetcher(leat.Concat(parts), "cpu", batch_size=2, order="sequential", read_failures=2)
    assert sum(batch.size for batch in feed) == 6
    failed = feed.failed_samples()
    assert [one.sample for one in failed] == [6, 7]
    assert failed[0].error.startswith('number 2 of part 1, "tokens of ')
    with pytest.raises(leat.Error, match='^leat: number 2 of part 1, "tokens of '):
        leat.Concat(parts)[6]


def test_packing_a_mixture_is_refused_with_ways_out() -> None:
    with pytest.raises(ValueError, match='"mixture" cannot be packed.*Concat.*windows of a fixed length'):
        leat.Prefetcher(leat.Mixture([A, B]), "cpu", batch_size=8, packing=leat.Packing())


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: leat.Subset(A, [3]), ValueError, "number 3, at place 0, is beyond the 3 samples"),
    (lambda: leat.Subset(A, [-1]), ValueError, "from 0 on, not -1"),
    (lambda: leat.Subset(A, range(4)), ValueError, "a range of 4 from 0 in steps of 1 leaves the 3 samples"),
    (lambda: leat.Subset(A, range(-1, 2)), ValueError, "not range"),
    (lambda: leat.Subset(A, range(2**70)), ValueError, "not range"),
    (lambda: leat.Subset(A, [True, False, True]), TypeError, "a range, or a sequence of ints"),
    (lambda: leat.Subset(A, [0.5]), TypeError, "a range, or a sequence of ints"),  # type: ignore[list-item]
    (lambda: leat.Subset([1, 2], [0]), TypeError, "not a list: .*torch.utils.data.*map what is composed"),  # type: ignore[arg-type]
    (lambda: leat.split(A, [0.99, 0.01]), ValueError, "none of the 3 samples"),
    (lambda: leat.split(A, ["x"]), TypeError, "parts has to be a sequence of floats"),  # type: ignore[list-item]
    (lambda: leat.Concat([]), ValueError, "no dataset is given"),
    (lambda: leat.Concat(A), TypeError, "a sequence of datasets"),  # type: ignore[arg-type]
    (lambda: leat.Concat([A, leat.Numbered(A)]), ValueError, r"part 1, .* has the fields value int64 \(\), number"),
    (lambda: leat.Concat([A, A.map(print)]), TypeError, "not a Mapped"),
    (lambda: leat.Mixture([(A, "x")]), TypeError, "a float for each weight"),  # type: ignore[list-item]
    (lambda: leat.Mixture([(A, float("nan"))]), ValueError, "weight 0 is nan"),
    (lambda: leat.Mixture([(A, 1), (B, -1)]), ValueError, "weight 1 is -1"),
    (lambda: leat.Mixture([(A, 0), (B, 0)]), ValueError, "no weight is above 0"),
    (lambda: leat.Mixture([(A, 1), B]), ValueError, "has no weight, and others have one"),
    (lambda: leat.Mixture([(A, 1), (values(0), 1)]), ValueError, "the part has no samples"),
    (lambda: leat.Mixture([(A, 1), (B, 1e-9)]), ValueError, "gives no sample in an epoch of 8"),
    (lambda: leat.Mixture([A], samples=0), ValueError, "`samples` is 0"),
    (lambda: leat.Mixture([A], samples=2**63), ValueError, r"samples has to be an int below 2\*\*63"),
    (lambda: leat.Mixture([A], stages=[(1, [1, 2])]), ValueError, "2 weights for 1 parts"),
    (lambda: leat.Mixture([A], stages=[(2, [1]), (2, [1])]), ValueError, "have to ascend"),
    (lambda: leat.Mixture([A], stages=[[1]]), TypeError, "pairs"),  # type: ignore[list-item]
    (lambda: leat.Weighted(A, [1, 2]), ValueError, "2 weights are given for the 3 samples"),
    (lambda: leat.Weighted(leat.Mixture([A]), [1, 1, 1]), ValueError, "weight its parts"),
    (lambda: leat.Numbered(leat.Numbered(A)), ValueError, "has a field .number. already"),
]


@pytest.mark.parametrize(("make", "kind", "text"), WRONG)
def test_what_cannot_be_composed_is_refused(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_mixture_killed_three_times_keeps_each_pass_complete(tmp_path: pathlib.Path, seed: int) -> None:
    pick = random.Random(seed)
    plan = [(1, 1), (3, 2), (2, 3), (1, 1)] if seed == 1 else [(2, 3), (1, 1), (3, 2), (2, 1)]  # workers, ranks
    log: list[int] = []
    for stage, (workers, ranks) in enumerate(plan):
        kill_after = None if stage == len(plan) - 1 else pick.randrange(1, MIXED * EPOCHS // 5 // ranks)
        log += run(tmp_path, "Mixture", stage, workers=workers, ranks=ranks, kill_after=kill_after)
    assert len(log) == MIXED * EPOCHS
    for part, of_part in itertools.groupby(sorted(log), lambda number: number // 10_000):
        visits = collections.Counter(of_part)
        size = (700, 300, 90)[part]
        passes, more = divmod(sum(visits.values()), size)
        assert collections.Counter(visits.values()) == collections.Counter(
            {passes + 1: more, passes: size - more} if more else {passes: size}
        )
