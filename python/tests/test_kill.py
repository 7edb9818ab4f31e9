"""kill -9 and resume: each sample counts once."""

import json
import pathlib
import random
import subprocess
import sys
import time

import pytest

import leat
from killed_run import EPOCHS, MIXED

SAMPLES = {"Prefetcher": 30 * 200 + 7, "DataLoader": 30 * 200, "Mixture": MIXED * EPOCHS}  # ranks of a DataLoader fill up the last batch
PROGRAM = pathlib.Path(__file__).with_name("killed_run.py")


def run(
    folder: pathlib.Path, what: str, stage: int, *, workers: int, ranks: int, kill_after: int | None
) -> list[int]:
    """Runs all ranks from the state of the stage before, kills them once one has logged `kill_after` samples, and leaves the merged
    state for the next stage. Returns what they have logged."""
    checkpoints = [folder / f"stage{stage}_rank{rank}" for rank in range(ranks)]
    before = folder / f"state{stage}"
    samples = SAMPLES[what]
    most = samples + 1 if kill_after is None else kill_after + 300
    running = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), what, *map(str, (checkpoint, before, samples, most, workers, rank, ranks))],
            stderr=subprocess.PIPE, text=True,
        )
        for rank, checkpoint in enumerate(checkpoints)
    ]  # fmt: skip
    until = time.monotonic() + 60
    while kill_after is not None and time.monotonic() < until:
        texts = [checkpoint.read_text() for checkpoint in checkpoints if checkpoint.exists()]
        if len(texts) == ranks and max(len(json.loads(text)["log"]) for text in texts) >= kill_after:
            break
        ended = next((process for process in running if process.poll() is not None), None)
        assert ended is None, f"a run ended before it was killed: {ended.communicate()[1]}"
        time.sleep(0.001)
    for process in running:
        if kill_after is not None:
            process.kill()
        _, errors = process.communicate(timeout=60)
        assert kill_after is not None or process.returncode == 0, errors
    saved = [json.loads(checkpoint.read_text()) for checkpoint in checkpoints]
    (folder / f"state{stage + 1}").write_text(json.dumps(leat.merge_states([one["feed"] for one in saved])))
    return [number for one in saved for number in one["log"]]


@pytest.mark.parametrize(("what", "seed"), [("Prefetcher", 1), ("Prefetcher", 2), ("DataLoader", 2)])
def test_killed_three_times_each_sample_counts_once(tmp_path: pathlib.Path, what: str, seed: int) -> None:
    pick = random.Random(seed)
    plan = [(1, 1), (3, 1), (2, 2), (1, 1)] if seed == 1 else [(2, 2), (1, 3), (2, 1), (3, 2)]  # workers, ranks
    log: list[int] = []
    for stage, (workers, ranks) in enumerate(plan):
        last = stage == len(plan) - 1
        kill_after = None if last else pick.randrange(1, 30 * 50 // ranks)
        log += run(tmp_path, what, stage, workers=workers, ranks=ranks, kill_after=kill_after)
    assert sorted(log) == list(range(SAMPLES[what]))
