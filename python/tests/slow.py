"""A dataset whose batches take their time: each has millions of samples."""

from typing import Any

import leat
import numpy as np

#: Samples of a batch: 10 to 200 ms of reading.
MANY = 4_000_000


def slow_feed(many: int = MANY, **options: Any) -> leat.Prefetcher:
    """A feed of 4 batches an epoch, each of ``many`` samples, which take their time."""
    data = leat.InMemory(x=np.zeros(4 * many, np.uint8))
    settings: dict[str, Any] = {"batch_size": many, "framework": "numpy", "order": "sequential"}
    return leat.Prefetcher(data, "cpu", **(settings | options))
