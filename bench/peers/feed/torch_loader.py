#!/usr/bin/env python3
"""PyTorch's DataLoader over map-style datasets, as it is taught and as it goes fastest; and, for token
windows, the loop that nanoGPT has instead of it."""

import functools

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

import batches
import peer

WORKERS = (0, 1, 2)


class Samples(Dataset):
    """A sample at a time; the loader's default collate stacks them."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, number):
        first, second = self.samples.read(number)
        if first.dtype == numpy.uint8:
            return torch.tensor(first), second  # of read-only memory
        return torch.from_numpy(first), torch.from_numpy(second)


class WholeBatches(Dataset):
    """A batch at a time, by the numbers of its samples."""

    def __init__(self, source):
        self.source = source

    def __len__(self):
        return len(self.source)

    def __getitem__(self, numbers):
        first, second = self.source.read(numbers)
        return torch.from_numpy(first), torch.from_numpy(second)

    __getitems__ = __getitem__


class SlicesOfAnOrder:
    """A batch sampler whose batches are slices of one array: it makes no list of numbers."""

    def __init__(self, samples, batch):
        self.samples, self.batch, self.epoch = samples, batch, 0

    def __len__(self):
        return -(-self.samples // self.batch)

    def __iter__(self):
        order = peer.mix_order(self.samples, self.epoch)
        for first in range(0, self.samples, self.batch):
            yield order[first:first + self.batch]


def quiet(_):
    """In a worker: the main process does not compute more than it either."""
    torch.set_num_threads(1)
    batches.one_thread_each()


class Loader:
    def __init__(self, dataset, workers, slices=None, **options):
        self.slices = slices
        if workers:
            options |= {"num_workers": workers, "persistent_workers": True,
                        "worker_init_fn": quiet}
        generator = torch.Generator()
        generator.manual_seed(peer.SEED)
        self.loader = DataLoader(dataset, generator=generator, **options)

    def epoch(self, number):
        if self.slices is not None:
            self.slices.epoch = number
        return iter(self.loader)


def collate(problem, workers, make):
    return Loader(Samples(make(problem)), workers, batch_size=problem.batch, shuffle=True)


def same(batch):
    return batch


def getitems(problem, workers, make):
    """The loader's own sampler; the dataset is asked for a whole batch (__getitems__)."""
    return Loader(WholeBatches(make(problem)), workers, batch_size=problem.batch, shuffle=True,
                  collate_fn=same)


def slices(problem, workers, make):
    """A sampler of one's own; no batching by the loader."""
    sampler = SlicesOfAnOrder(problem.samples, problem.batch)
    return Loader(WholeBatches(make(problem)), workers, sampler, sampler=sampler, batch_size=None)


class GetBatch:
    """nanoGPT's get_batch, but for the order, in which each window comes once, and the type."""

    def __init__(self, problem):
        self.problem = problem

    def epoch(self, number):
        order = torch.from_numpy(peer.mix_order(self.problem.samples, number)) * peer.LENGTH
        dtype, length = self.problem.dtype, peer.LENGTH
        for first in range(0, self.problem.samples, self.problem.batch):
            data = self.problem.tokens()  # anew for each batch, as there
            ix = order[first:first + self.problem.batch]
            x = torch.stack([torch.from_numpy((data[i:i + length]).astype(dtype)) for i in ix])
            y = torch.stack([torch.from_numpy((data[i + 1:i + 1 + length]).astype(dtype))
                             for i in ix])
            yield x, y


# --- JPEG.


class Images(Samples):
    """Decoded to tensors."""

    def __getitem__(self, number):
        return self.samples.read(number)


def to_tensor(decode, data):
    return torch.from_numpy(numpy.array(decode(data)))


def torchvision(data):
    """Colours first, as it decodes; antialiased."""
    from torchvision.io import ImageReadMode, decode_image
    from torchvision.transforms.v2.functional import InterpolationMode, resize
    image = decode_image(torch.frombuffer(bytearray(data), dtype=torch.uint8), ImageReadMode.RGB)
    return resize(image, [peer.SIZE, peer.SIZE], InterpolationMode.BILINEAR, antialias=True)


def images(problem, workers, decode):
    torch.set_num_threads(1)
    batches.one_thread_each()
    return Loader(Images(batches.JpegSamples(problem, decode)), workers, batch_size=problem.batch, shuffle=True)


def variants():
    made = {problem: {} for problem in peer.PROBLEMS}
    for workers in WORKERS:
        for name, how, sources in (
                ("collate", collate, (batches.TokenSamples, batches.CifarSamples)),
                ("getitems", getitems, (batches.TokenBatches, batches.CifarBatches)),
                ("slices", slices, (batches.TokenBatches, batches.CifarBatches))):
            for problem, make in peer.of_arrays(*sources):
                made[problem][f"{name}/{workers}"] = functools.partial(how, workers=workers,
                                                                       make=make)
        for problem, decoders in batches.DECODERS.items():
            for name, decode in decoders.items():
                made[problem][f"{name}/{workers}"] = functools.partial(
                    images, workers=workers, decode=functools.partial(to_tensor, decode))
        for problem in ("jpeg", "jpeg_large", "png", "webp"):
            made[problem][f"torchvision/{workers}"] = functools.partial(images, workers=workers,
                                                                        decode=torchvision)
    for problem in ("tokens", "tokens_uint16", "tokens_large"):
        made[problem]["get_batch"] = GetBatch
    return made


if __name__ == "__main__":
    peer.main(variants(), ("torch", "torchvision", "numpy", "pillow", "simplejpeg",
                           "opencv-python-headless"))
