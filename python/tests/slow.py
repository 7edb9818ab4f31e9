"""A dataset whose batches take their time: each has millions of samples."""

from typing import Any

import leat
import numpy as np

#: Samples of a batch: some 0.2 s of reading.
MANY = 4_000_000


def slow_feed(**options: Any) -> leat.Prefetcher:
    """A feed of 4 batches an epoch, each of which takes its time."""
    data = leat.InMemory(x=np.zeros(4 * MANY, np.uint8))
    settings: dict[str, Any] = {"batch_size": MANY, "framework": "numpy", "order": "sequential"}
    return leat.Prefetcher(data, "cpu", **(settings | options))
