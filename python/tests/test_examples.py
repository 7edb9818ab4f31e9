"""The programs of examples/python learn."""

import gzip
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(name: str, *arguments: str) -> str:
    """What the example prints."""
    program = ROOT / "examples" / "python" / f"mnist_{name}.py"
    if not program.exists():
        pytest.skip("the examples are not part of the source distribution")
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "copied" not in done.stderr  # no batch escapes
    return done.stdout


def accuracy(text: str) -> float:
    found = re.search(r"test accuracy ([\d.]+) %", text)
    assert found is not None, text
    return float(found[1])


@pytest.mark.parametrize("framework", ["numpy", "jax"])
def test_learns_mnist(framework: str) -> None:
    assert accuracy(run(framework, "examples/data/mnist", "1")) > 92


def test_a_trainer_of_torch_changes_one_line(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("torch")
    program = ROOT / "examples" / "python" / "mnist_loader.py"
    if not program.exists():
        pytest.skip("the examples are not part of the source distribution")
    text = program.read_text()
    (line,) = [line for line in text.splitlines() if "leat" in line and line.startswith("from")]
    (tmp_path / "before.py").write_text(text.replace(line, line.partition("this was: ")[2]))
    for split in ("train", "t10k"):  # some of it will do
        for name, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
            packed = ROOT / "examples" / "data" / "mnist" / f"{split}-{name}-ubyte.gz"
            (tmp_path / packed.stem).write_bytes(gzip.decompress(packed.read_bytes())[: header + 6000 * size])
    found = []
    for trainer in (program, tmp_path / "before.py"):
        done = subprocess.run(
            [sys.executable, str(trainer), str(tmp_path), "2"],
            cwd=ROOT, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found.append(accuracy(done.stdout))
    assert min(found) > 80


def test_torch_stops_and_goes_on(tmp_path: pathlib.Path) -> None:
    checkpoint = str(tmp_path / "checkpoint.pt")
    first = run("torch", "--epochs", "1", "--checkpoint", checkpoint, "--device", "cpu")
    assert "epoch 1/1" in first and accuracy(first) > 93
    again = run("torch", "--epochs", "1", "--checkpoint", checkpoint, "--device", "cpu")
    assert "loss" not in again  # nothing is left of the epoch
    assert accuracy(again) == accuracy(first)
