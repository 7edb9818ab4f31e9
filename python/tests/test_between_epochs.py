"""Data that the program changes between two epochs."""

import leat
import numpy as np
import pytest


@pytest.mark.parametrize("delivery", ["in_order", "as_completed"])
def test_arrays_changed_between_two_epochs_are_in_the_whole_next_one(delivery: str) -> None:
    labels = np.zeros(1000, np.int64)
    feed = leat.Prefetcher(
        leat.InMemory(label=labels),
        "cpu",
        batch_size=10,
        workers=2,
        delivery=delivery,  # type: ignore[arg-type]
        framework="numpy",
        read_across_epochs=False,
    )
    for epoch in range(5):
        batches = [set(batch["label"].tolist()) for batch in feed]
        assert batches == [{epoch}] * 100
        if epoch % 2 == 0:
            feed.peek()  # what it has read is read again
        labels[:] = epoch + 1
    next(iter(feed))  # leaves an epoch early
    labels[:] = 7
    assert [set(batch["label"].tolist()) for batch in feed] == [{7}] * 100
