"""Images: feeder/sources/image.h promises the bytes of Pillow 13."""

import io
import pathlib
import tarfile

import numpy as np
import pytest

import leat

PIL = pytest.importorskip("PIL", reason="needs Pillow")
if int(PIL.__version__.split(".")[0]) < 13:
    pytest.skip(f"Pillow {PIL.__version__}; resizes have the results of Pillow 13", allow_module_level=True)
from PIL import Image  # noqa: E402

# Width and height. Of some, Pillow resizes rows first: those that lose more than twice as many rows as columns.
SIZES = [(123, 456), (321, 421), (416, 264), (90, 60), (60, 90), (225, 230), (50, 600), (600, 50), (7, 9)]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, list[Image.Image]]:
    """A shard of noisy images, in colours and in grey, and what Pillow decodes."""
    path, decoded = tmp_path_factory.mktemp("pillow") / "a.tar", []
    random = np.random.default_rng(1)
    with tarfile.open(path, "w") as tar:
        for i, (width, height) in enumerate(SIZES):
            for mode in ("RGB", "L"):
                noise = random.integers(0, 256, (height, width, 3), np.uint8)
                buffer = io.BytesIO()
                Image.fromarray(noise).convert(mode).save(buffer, "JPEG", quality=95)
                member = tarfile.TarInfo(f"{i}{mode}.jpg")
                member.size = buffer.tell()
                buffer.seek(0)
                tar.addfile(member, buffer)
                decoded.append(Image.open(buffer).convert("RGB"))
    return path, decoded


@pytest.mark.parametrize("width, height", [(224, 224), (97, 55), (300, 40), (1, 3)])
def test_a_resize_has_pillows_bytes(
    images: tuple[pathlib.Path, list[Image.Image]], width: int, height: int
) -> None:
    path, decoded = images
    data = leat.WebDataset(path, parts=[leat.jpeg_image("image", width=width, height=height)])
    for i, image in enumerate(decoded):
        expected = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
        assert np.array_equal(data[i]["image"], expected), f"{image.size} to {width} x {height}"


def test_a_center_crop_has_the_bytes_of_pillows_resize_and_crop(
    images: tuple[pathlib.Path, list[Image.Image]],
) -> None:
    path, decoded = images
    part = leat.jpeg_image("image", height=56, width=48, fit="center_crop", shorter_side=64)
    data = leat.WebDataset(path, parts=[part])
    for i, image in enumerate(decoded):
        short = min(image.size)
        width, height = (64 * side // short for side in image.size)
        left, top = round((width - 48) / 2), round((height - 56) / 2)
        resized = image.resize((width, height), Image.Resampling.BILINEAR)
        expected = np.asarray(resized.crop((left, top, left + 48, top + 56)))
        assert np.array_equal(data[i]["image"], expected), f"{image.size} cropped"
