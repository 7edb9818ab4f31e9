"""Fits what a taxi's trip costs, from the columns of a parquet file, by NumPy alone.

    python examples/python/table_numpy.py [trips.parquet] [epochs]

Without a file, it makes one: distance, minutes, zone (words) and fare of 50,000 trips.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import leat

ZONES = ["airport", "centre", "harbour"]


def write_trips(path: Path, rows: int = 50_000) -> Path:
    random = np.random.default_rng(1)
    distance, minutes = random.gamma(2, 3, rows), random.gamma(3, 6, rows)
    zone = random.integers(0, len(ZONES), rows)
    fare = 3 + 1.2 * distance + 0.4 * minutes + np.array([8, 2, 0])[zone] + random.normal(0, 0.5, rows)
    columns = {"distance": distance.astype(np.float32), "minutes": minutes.astype(np.float32),
               "zone": pa.DictionaryArray.from_arrays(zone, ZONES), "fare": fare}  # fmt: skip
    pa.parquet.write_table(pa.table(columns), path, row_group_size=8192)
    return path


def inputs(batch: leat.Batch) -> np.ndarray:
    """A row for each trip: distance and minutes about 1 in size, and 1 at the place of its zone."""
    numbers = np.stack([batch["distance"] / 6, batch["minutes"] / 18], axis=1)
    return np.concatenate([numbers, np.eye(len(ZONES))[batch["zone"]]], axis=1)


def main(path: Path, epochs: int) -> None:
    # [columns]
    table = leat.Columns(pa.parquet.read_table(path, read_dictionary=["zone"]))  # or what polars, DuckDB, pandas has
    train, test = leat.split(table, [0.9, 0.1], seed=1)
    feed = leat.Prefetcher(train, "cpu", batch_size=256, seed=1, framework="numpy")
    # [/columns]
    weights = np.zeros(2 + len(ZONES))
    for epoch in range(epochs):
        for batch in feed.epoch(epoch):
            x = inputs(batch)
            weights -= 0.1 * x.T @ (x @ weights - batch["fare"]) / len(x)
        print(f"epoch {epoch + 1}/{epochs}  weights {weights.round(2)}")
    print(feed.stats().table())
    with leat.Prefetcher(test, "cpu", batch_size=1024, framework="numpy") as left:
        errors = [np.abs(inputs(batch) @ weights - batch["fare"]) for batch in left]
    print(f"test error {np.concatenate(errors).mean():.2f} a trip")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        file = Path(sys.argv[1]) if len(sys.argv) > 1 else write_trips(Path(folder) / "trips.parquet")
        main(file, int(sys.argv[2]) if len(sys.argv) > 2 else 3)
