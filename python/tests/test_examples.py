"""The programs of examples/python learn."""

import gzip
import importlib.util
import os
import pathlib
import re
import struct
import subprocess
import sys
import zlib

import leat
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def need(module: str) -> None:
    """Skips the test where that is not installed. It is not imported: it may start threads."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


def run(name: str, *arguments: str) -> str:
    """What the example prints, whose name ends with its framework's."""
    program = ROOT / "examples" / "python" / f"{name}.py"
    if not program.exists():
        pytest.skip("the examples are not part of the source distribution")
    need(name.rpartition("_")[2])
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        cwd=ROOT, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "copied" not in done.stderr  # no batch escapes
    return done.stdout


def figure(before: str, text: str) -> float:
    found = re.search(before + r" ([\d.]+)", text)
    assert found is not None, text
    return float(found[1])


def accuracy(text: str) -> float:
    return figure("test accuracy", text)


@pytest.mark.parametrize("framework", ["numpy", "jax"])
def test_learns_mnist(framework: str) -> None:
    assert accuracy(run(f"mnist_{framework}", "examples/data/mnist", "1")) > 92


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
    first = run("mnist_torch", "--epochs", "1", "--checkpoint", checkpoint, "--device", "cpu")
    assert "epoch 1/1" in first and accuracy(first) > 93
    again = run("mnist_torch", "--epochs", "1", "--checkpoint", checkpoint, "--device", "cpu")
    assert "loss" not in again  # nothing is left of the epoch
    assert accuracy(again) == accuracy(first)


def test_a_gpt_learns_from_a_mixture(tmp_path: pathlib.Path) -> None:
    for name, pattern in (("prose.bin", "docs/**/*.md"), ("code.bin", "python/**/*.py")):
        text = b"".join(path.read_bytes() for path in sorted(ROOT.glob(pattern)))[:20_000]
        np.frombuffer(text, np.uint8).astype(np.uint16).tofile(tmp_path / name)
    text = run("gpt_torch", str(tmp_path / "prose.bin"), str(tmp_path / "code.bin"), "40")
    assert figure("prose: test loss", text) < 4 and figure("code: test loss", text) < 4  # log 256 = 5.5 without learning


def test_learns_a_folder_of_images(tmp_path: pathlib.Path) -> None:
    need("torch")
    for split, samples in (("train", 2000), ("test", 500)):
        data = leat.Mnist(ROOT / "examples" / "data" / "mnist", split=split)
        for number in range(samples):
            folder = tmp_path / split / f"digit {data[number]['label']}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.png").write_bytes(png(data[number]["image"]))
    assert accuracy(run("images_torch", str(tmp_path), "2")) > 80


def png(gray: np.ndarray) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + row.tobytes() for row in gray)
    head = struct.pack(">IIBBBBB", gray.shape[1], gray.shape[0], 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def test_fits_a_parquet_table() -> None:
    need("pyarrow")
    assert figure("test error", run("table_numpy")) < 0.6  # the noise makes 0.4; the mean fare alone, 5
