"""Reads small data with the package that is installed, in an environment that has only what pip brought with it.

    python python/wheel/epoch.py <folder with the MNIST files>
"""

import base64
import platform
import sys
import tempfile
from collections import Counter
from pathlib import Path

import leat
import numpy as np

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from samples import JPEG  # noqa: E402

IMAGES = {
    "a.jpg": JPEG,
    "b.png": base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    ),
    "c.webp": base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="),
}


class Squares:
    """Read by processes, which are given it by cloudpickle."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"square": index * index}


def epoch_of(data: object, field: str) -> list[int]:
    with leat.Prefetcher(data, "cpu", batch_size=64, seed=1, framework="numpy") as feed:
        return [value for batch in feed for value in batch[field].tolist()]


digits = Counter(epoch_of(leat.Mnist(sys.argv[1], split="test"), "label"))
assert [digits[digit] for digit in range(10)] == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
assert sorted(epoch_of(Squares(), "square")) == [number * number for number in range(100)]
with tempfile.TemporaryDirectory() as folder:
    for name, content in IMAGES.items():
        (Path(folder) / name).write_bytes(content)
    images = leat.Files(sorted(Path(folder).iterdir()), [0, 1, 2], height=8, width=8)
    assert sorted(epoch_of(images, "label")) == [0, 1, 2]

status = leat.cuda_status()
assert "driver" in status, status  # CUDA's runtime is inside,
assert "no NVIDIA driver" not in status or "CUDA 12.0 or newer" in status, status  # and not that of a newer toolkit
print(f"Python {platform.python_version()}, NumPy {np.__version__}: installed, and three epochs read. CUDA: {status}")
