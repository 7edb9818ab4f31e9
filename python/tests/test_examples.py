"""The programs of examples/python learn."""

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


def test_torch_stops_and_goes_on(tmp_path: pathlib.Path) -> None:
    checkpoint = str(tmp_path / "checkpoint.pt")
    first = run("torch", "--epochs", "1", "--checkpoint", checkpoint, "--device", "cpu")
    assert "epoch 1/1" in first and accuracy(first) > 93
    again = run("torch", "--epochs", "1", "--checkpoint", checkpoint, "--device", "cpu")
    assert "loss" not in again  # nothing is left of the epoch
    assert accuracy(again) == accuracy(first)
