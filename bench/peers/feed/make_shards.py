#!/usr/bin/env python3
"""Usage: make_shards.py <folder> <images>

Writes into a folder that has tokens/ and cifar10/, as make_data writes them, the same samples as tar
files, a member or two for each, for those that read nothing else; and jpeg/, photographs that nobody
has taken: smooth shapes, edges and grain, 500 x 375, quality 90."""

import io
import pathlib
import sys
import tarfile

import numpy
from PIL import Image

import batches
import peer

SHARDS = 4
WIDTH, HEIGHT, QUALITY = 500, 375, 90


class Tar:
    """A file that is there under its name once it is whole."""

    def __init__(self, path):
        self.path, self.partial = path, path.with_suffix(".partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        self.tar = tarfile.open(self.partial, "w", format=tarfile.USTAR_FORMAT)

    def add(self, name, data):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        self.tar.addfile(member, io.BytesIO(data))

    def finish(self):
        self.tar.close()
        self.partial.rename(self.path)


def write(folder, samples, members):
    """members(number) -> ending -> bytes."""
    for shard in range(SHARDS):
        tar = Tar(folder / f"shard_{shard:05}.tar")
        for number in range(samples * shard // SHARDS, samples * (shard + 1) // SHARDS):
            for ending, data in members(number).items():
                tar.add(f"{number:08}.{ending}", data)
        tar.finish()


def photograph(number):
    """Noise of several sizes, as the spectrum of photographs has it, with some edges."""
    random = numpy.random.default_rng((peer.SEED, number))
    picture = numpy.full((HEIGHT, WIDTH, 3), random.uniform(70, 180), dtype=numpy.float32)
    for cells, strength in ((3, 45), (9, 25), (30, 13), (100, 7)):
        noise = random.normal(0, strength, (cells * 3 // 4 + 1, cells, 3)).astype(numpy.float32)
        noise = 0.7 * noise.mean(axis=2, keepdims=True) + 0.5 * noise  # mostly brightness
        for colour in range(3):
            layer = Image.fromarray(noise[:, :, colour], mode=None)
            picture[:, :, colour] += numpy.asarray(layer.resize((WIDTH, HEIGHT),
                                                                Image.Resampling.BICUBIC))
    for _ in range(12):
        left, top = random.integers(0, WIDTH - 20), random.integers(0, HEIGHT - 20)
        right, bottom = left + random.integers(10, 160), top + random.integers(10, 160)
        picture[top:bottom, left:right] += random.normal(0, 25, 3).astype(numpy.float32)
    picture += random.normal(0, 9.0, (HEIGHT, WIDTH, 1)).astype(numpy.float32)
    return Image.fromarray(picture.clip(0, 255).astype(numpy.uint8))


def main():
    folder, images = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    tokens = peer.Tokens(folder)
    mapped = tokens.tokens()
    write(folder / "tokens_tar", tokens.samples,
          lambda number: {"bin": mapped[number * peer.LENGTH:(number + 1) * peer.LENGTH
                                        + 1].tobytes()})
    cifar = batches.CifarSamples(peer.Cifar(folder))

    def record(number):
        image, label = cifar.read(number)
        return {"bin": image.tobytes(), "cls": str(int(label)).encode()}

    write(folder / "cifar10_tar", len(cifar), record)

    means = []

    def coded(number):
        buffer = io.BytesIO()
        photograph(number).save(buffer, "JPEG", quality=QUALITY)
        means.append(batches.pillow(buffer.getvalue()).mean())
        return {"jpg": buffer.getvalue(), "cls": str(number).encode()}

    write(folder / "jpeg", images, coded)
    numpy.array(means, dtype=numpy.float32).tofile(folder / "jpeg" / "means.f32")


if __name__ == "__main__":
    main()
