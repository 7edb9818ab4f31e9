#!/usr/bin/env python3
"""Usage: make_shards.py <folder>

Completes a folder that has tokens/, cifar10/, and jpeg/ or jpeg_large/, as make_data writes them: the
samples of the first two as tar files, a member or two for each, for those that read nothing else; and
the means by which the images are checked. With jpeg_large/, also png/ and webp/: 500 images of 400 to 600
x 300 to 450, four fifths of them made smaller and smooth, a fifth gradients with noise. And jpeg_folder/, the images
of jpeg/ as files, each in a folder of its own, so that its class is its number."""

import io
import pathlib
import sys
import tarfile

import numpy
import batches
import peer

SHARDS = 4


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


def write_means(problem):
    """Of each image, by number, as Pillow decodes and resizes it: what all decoders are checked by."""
    images = batches.JpegBytes(problem)
    means = numpy.zeros(len(images), dtype=numpy.float32)
    for i in range(len(images)):
        data, number = images.read(i)
        means[number] = batches.pillow(data).mean()
    means.tofile(problem.folder / "means.f32")


def write_others(images, folder):
    """The same images as PNG, with Pillow's compression, and as WebP of quality 85."""
    from PIL import Image
    random = numpy.random.default_rng(peer.SEED)
    encoded = []
    for number in range(min(500, 2 * len(images))):
        size = (int(random.integers(400, 601)), int(random.integers(300, 451)))
        if number % 5 == 4:
            ramp = numpy.add.outer(numpy.arange(size[1]), numpy.arange(size[0]))[:, :, None] * random.uniform(0.1, 0.3, 3)
            image = Image.fromarray((ramp + random.uniform(0, 6, ramp.shape)).clip(0, 255).astype(numpy.uint8))
        else:
            image = Image.open(io.BytesIO(images.read(number % len(images))[0])).convert("RGB")
            for part in (0.2, 1):  # without the finest noise: then they take as many bytes as photographs do
                image = image.resize([round(part * side) for side in size], Image.Resampling.LANCZOS)
        encoded.append({})
        for form, options in (("png", {}), ("webp", {"quality": 85})):
            file = io.BytesIO()
            image.save(file, form, **options)
            encoded[-1][form] = file.getvalue()
    for form in ("png", "webp"):
        write(folder / form, len(encoded),
              lambda number, form=form: {form: encoded[number][form], "cls": str(number).encode()})


def write_files(images, folder):
    for number in range(len(images)):
        data, label = images.read(number)
        (folder / f"{label:08}").mkdir(parents=True)
        (folder / f"{label:08}" / "image.jpg").write_bytes(data)


def main():
    folder = pathlib.Path(sys.argv[1])
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

    if (folder / "jpeg_large").exists():
        write_others(batches.JpegBytes(peer.JpegLarge(folder)), folder)
        write_files(batches.JpegBytes(peer.Jpeg(folder)), folder / "jpeg_folder")
    for kind in (peer.Jpeg, peer.JpegLarge, peer.Png, peer.Webp):
        problem = kind(folder)
        if problem.folder.exists():
            write_means(problem)


if __name__ == "__main__":
    main()
