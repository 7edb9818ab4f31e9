"""A run that test_kill.py kills: python killed_run.py WHAT CHECKPOINT STATE SAMPLES MOST WORKERS RANK RANKS

WHAT is "Prefetcher"; or "DataLoader", with worker processes; or "Mixture", which has EPOCHS epochs of MIXED samples.

Goes on from the state in the file STATE, where there is one. After each batch, CHECKPOINT holds the state and a log of the samples
that were trained on since STATE, written together. Ends with the last epoch; after MOST samples, waits to be killed.
"""

import json
import os
import pathlib
import signal
import sys

import numpy as np

import leat

EPOCHS = 4
MIXED = 1500


def mixture() -> leat.Dataset:
    sizes = (700, 300, 90)
    parts = [leat.InMemory(x=np.zeros(size, np.uint8)) for size in sizes]
    weighted = list(zip(parts, (0.5, 0.3, 0.2), strict=True))
    return leat.Numbered(leat.Mixture(weighted, samples=MIXED, stages=[(1, [0.2, 0.2, 0.6]), (3, [1, 1, 1])]))


def feed_of(what: str, samples: int, workers: int, rank: int, ranks: int) -> leat.Prefetcher | leat.DataLoader:
    if what != "DataLoader":
        data = mixture() if what == "Mixture" else leat.InMemory({"number": np.arange(samples)})
        return leat.Prefetcher(
            data, "cpu", batch_size=30, workers=workers, seed=7, rank=rank, world_size=ranks, framework="numpy"
        )
    numbers = [{"number": i} for i in range(samples)]
    return leat.DataLoader(
        numbers, 30 // ranks, shuffle=True, num_workers=workers, seed=7, rank=rank, world_size=ranks, framework="numpy"
    )


def main(what: str, checkpoint: str, state: str, samples: int, most: int, workers: int, rank: int, ranks: int) -> None:
    feed = feed_of(what, samples, workers, rank, ranks)
    if os.path.exists(state):
        feed.load_state_dict(json.loads(pathlib.Path(state).read_text()))
    log: list[int] = []

    def save() -> None:
        text = json.dumps({"feed": feed.state_dict(), "log": log})
        pathlib.Path(checkpoint + ".new").write_text(text)
        os.replace(checkpoint + ".new", checkpoint)

    def train() -> None:
        for batch in feed:
            source = batch["source"] if what == "Mixture" else np.zeros_like(batch["number"])
            log.extend((batch["number"] + 10_000 * source).tolist())
            save()
            while len(log) >= most:
                signal.pause()

    save()
    train()
    while isinstance(feed, leat.Prefetcher) and what == "Mixture" and feed.next_epoch < EPOCHS:
        train()


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
