"""The programs of bench/peers/python, over small files: what they read is right, and they end."""

import json
import pathlib
import subprocess
import sys

import numpy
import pytest

PROGRAMS = pathlib.Path(__file__).resolve().parents[2] / "bench/peers/python"
pytestmark = pytest.mark.skipif(not PROGRAMS.exists(), reason="without the benchmarks")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """70 windows of tokens and 600 records of CIFAR-10, as ./run bench python makes them."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "tokens").mkdir()
    (folder / "cifar10").mkdir()
    random = numpy.random.default_rng(1)
    random.integers(0, 50257, 70 * 1024 + 1, dtype=numpy.uint16).tofile(folder / "tokens/tokens_00000.bin")
    records = random.integers(0, 256, (600, 3073), dtype=numpy.uint8)
    records[:, 0] %= 10
    for number in range(2):
        records[300 * number : 300 * (number + 1)].tofile(folder / f"cifar10/data_batch_{number + 1}.bin")
    return folder


def test_trainers_rebuild_batches() -> None:
    run("trainers.py")  # those that are installed


def run(program: str, *words: object) -> dict[str, float]:
    """What it prints; it has checked its data."""
    done = subprocess.run(
        [sys.executable, PROGRAMS / program, *map(str, words)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(figures, dict)
    return figures


@pytest.mark.parametrize("problem", ["tokens", "tokens_uint16", "cifar"])
@pytest.mark.parametrize("variant", ["numpy/workers_1", "numpy/workers_2"])
def test_the_loader_delivers_each_sample_once_in_each_epoch(data: pathlib.Path, problem: str, variant: str) -> None:
    assert run("leat_loader.py", problem, variant, 0.01, data)["epochs"] >= 1


@pytest.mark.parametrize("way", ["leat_numpy", "leat_none"])
def test_a_ready_batch_is_timed(data: pathlib.Path, way: str) -> None:
    assert run("handover.py", way, 5, data)["n"] == 5


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("images")
    subprocess.run([sys.executable, PROGRAMS / "python_datasets.py", "make", folder], check=True, timeout=60)
    return folder


@pytest.mark.parametrize(("what", "much", "figure"), [("memory", 5, "early_pss"), ("start", 2, "second_ms")])
def test_a_python_dataset_is_read(images: pathlib.Path, what: str, much: int, figure: str) -> None:
    assert run("python_datasets.py", "leat", what, "prefetcher", much, images)[figure] > 0


def test_a_table_is_read() -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    found = run("columns.py", "leat", 0, 30_000, 0.01)
    assert found["samples_per_s"] > 0 and found["open_ms"] > 0


def test_memory_is_told_after_two_epochs(data: pathlib.Path) -> None:
    found = run("memory.py", "tokens", "numpy/workers_2", 6, data)
    assert found["late_rss"] > 0 and found["early_rss"] > 0 and found["batches"] == 6 * 3
