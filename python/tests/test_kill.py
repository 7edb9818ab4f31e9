"""kill -9 and resume: each sample counts once."""

import json
import pathlib
import random
import subprocess
import sys
import time

import pytest

import leat

SAMPLES = 30 * 200 + 7
PROGRAM = pathlib.Path(__file__).with_name("killed_run.py")


def run(folder: pathlib.Path, stage: int, *, workers: int, ranks: int, kill_after: int | None) -> list[int]:
    """Runs all ranks from the state of the stage before, kills them once one has logged `kill_after` samples, and leaves the merged
    state for the next stage. Returns what they have logged."""
    checkpoints = [folder / f"stage{stage}_rank{rank}" for rank in range(ranks)]
    before = folder / f"state{stage}"
    most = SAMPLES + 1 if kill_after is None else kill_after + 300
    running = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), *map(str, (checkpoint, before, SAMPLES, most, workers, rank, ranks))],
            stderr=subprocess.PIPE, text=True,
        )
        for rank, checkpoint in enumerate(checkpoints)
    ]  # fmt: skip
    until = time.monotonic() + 60
    while kill_after is not None and time.monotonic() < until:
        texts = [checkpoint.read_text() for checkpoint in checkpoints if checkpoint.exists()]
        if len(texts) == ranks and max(len(json.loads(text)["log"]) for text in texts) >= kill_after:
            break
        assert all(process.poll() is None for process in running), "a run ended before it was killed"
        time.sleep(0.001)
    for process in running:
        if kill_after is not None:
            process.kill()
        _, errors = process.communicate(timeout=60)
        assert kill_after is not None or process.returncode == 0, errors
    saved = [json.loads(checkpoint.read_text()) for checkpoint in checkpoints]
    (folder / f"state{stage + 1}").write_text(json.dumps(leat.merge_states([one["feed"] for one in saved])))
    return [number for one in saved for number in one["log"]]


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_three_times_each_sample_counts_once(tmp_path: pathlib.Path, seed: int) -> None:
    pick = random.Random(seed)
    plan = [(1, 1), (3, 1), (2, 2), (1, 1)] if seed == 1 else [(2, 2), (1, 3), (2, 1), (3, 2)]  # workers, ranks
    log: list[int] = []
    for stage, (workers, ranks) in enumerate(plan):
        last = stage == len(plan) - 1
        kill_after = None if last else pick.randrange(1, 30 * 50 // ranks)
        log += run(tmp_path, stage, workers=workers, ranks=ranks, kill_after=kill_after)
    assert sorted(log) == list(range(SAMPLES))
