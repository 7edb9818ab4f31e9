#!/usr/bin/env python3
"""Usage: columns.py <leat|torch> <processes> <rows> <seconds>

Random batches of 1,024 rows of a table in memory: 8 columns, as a Hugging Face dataset. By leat.Columns, or by
with_format("numpy") in PyTorch's DataLoader. Each batch is compared with the table before the clock runs. Prints JSON:
samples_per_s; of Leat, also the time and the memory that opening takes.
"""

import itertools
import json
import pathlib
import sys
import time

import numpy as np
import pyarrow as pa

COLUMNS = {
    "number": "int64",
    "a": "int64",
    "b": "int32",
    "c": "float64",
    "d": "float32",
    "e": "float32",
    "f": "uint8",
    "g": "int16",
}
BATCH, CHECKED, OPENED = 1024, 20, 9


def table_of(rows):
    random = np.random.default_rng(1)
    arrays = {name: random.integers(0, 100, rows).astype(dtype) for name, dtype in COLUMNS.items()}
    return pa.table({**arrays, "number": np.arange(rows)})


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def batches_of_leat(table, _processes):
    import leat

    times, before = [], resident()
    for _ in range(OPENED):
        begin = time.perf_counter()
        data = leat.Columns(table)
        times.append(time.perf_counter() - begin)
        if len(times) == 1:  # whose first call loads code
            before = resident()
    opened = {"open_ms": 1e3 * sorted(times)[OPENED // 2], "open_mb": (resident() - before) / 1e6}
    return leat.Prefetcher(data, "cpu", batch_size=BATCH, seed=1, framework="numpy"), opened


def batches_of_torch(table, processes):
    import datasets
    import torch

    data = datasets.Dataset(datasets.table.InMemoryTable(table)).with_format("numpy")
    return torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=processes), {}


def main():
    loader, processes, rows, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
    table = table_of(rows)
    columns = {name: table.column(name).to_numpy() for name in COLUMNS}
    batches, found = {"leat": batches_of_leat, "torch": batches_of_torch}[loader](table, processes)
    epochs = itertools.chain.from_iterable(itertools.repeat(batches))
    for batch in itertools.islice(epochs, CHECKED):
        numbers = np.asarray(batch["number"])
        assert len(set(numbers.tolist())) == BATCH
        assert all(np.array_equal(np.asarray(batch[name]), columns[name][numbers]) for name in COLUMNS)
    count, begin = 0, time.perf_counter()
    for batch in epochs:
        count += len(batch["number"])
        if time.perf_counter() - begin >= seconds:
            break
    print(json.dumps({"samples_per_s": count / (time.perf_counter() - begin), **found}))


if __name__ == "__main__":
    main()
