"""The protocol of ./README.md: what a peer is asked for, how it is timed, and how what it delivers is
checked.

    <peer>.py                                       prints the variants it has, "problem variant" a line
    <peer>.py <problem> <variant> <seconds> <data>  runs one; prints its figures as JSON

A variant is a function that is given the problem and returns an object with

    epoch(number)   an iterator of that epoch's batches: (x, y) or (image, label), anything that
                    numpy.asarray takes without copying
    close()         optional
"""

import json
import pathlib
import sys
import time

import numpy

SEED = 1
LENGTH = 1024
PIXELS = 3 * 32 * 32
SIZE = 224  # of a decoded image's sides


def mix_order(samples, epoch):
    """The samples' numbers in an order of that epoch."""
    return numpy.random.default_rng((SEED, epoch)).permutation(samples)


class Problem:
    """What is read, and what has to arrive. keys() are a few elements of each sample of a batch, which
    tell samples apart; they are taken while the clock runs, and compared when it has stopped."""

    name = ""
    batch = 0
    dtypes = ()  # of the two arrays

    def __init__(self, data):
        self.data = pathlib.Path(data)

    def check_all(self, first, second):
        """Every element of a batch, as numbers that add up over an epoch; before the clock runs."""
        return int(first.sum(dtype=numpy.uint64)), int(second.sum(dtype=numpy.uint64))

    @property
    def batches(self):
        return -(-self.samples // self.batch)

    def shards(self):
        """The same samples as tar files, for those that read nothing else."""
        return sorted(str(path) for path in (self.data / f"{self.source}_tar").glob("*.tar"))


class Tokens(Problem):
    name, source, batch, dtype = "tokens", "tokens", 32, numpy.int32
    dtypes = (numpy.int32, numpy.int32)

    def __init__(self, data):
        super().__init__(data)
        self.path = self.data / "tokens" / "tokens_00000.bin"
        self.samples = (self.path.stat().st_size // 2 - 1) // LENGTH

    def tokens(self):
        """The file, mapped."""
        return numpy.memmap(self.path, dtype=numpy.uint16, mode="r")

    def shape(self, rows):
        return ((rows, LENGTH), (rows, LENGTH))

    def keys(self, x, y):
        return x[:, 0].copy(), y[:, -1].copy()

    def expected(self):
        tokens = numpy.fromfile(self.path, dtype=numpy.uint16)
        used = self.samples * LENGTH
        sums = tuple(int(part.sum(dtype=numpy.uint64))
                     for part in (tokens[:used], tokens[1:used + 1]))
        return (tokens[:used:LENGTH], tokens[LENGTH:used + 1:LENGTH]), sums


class TokensUint16(Tokens):
    name, dtype = "tokens_uint16", numpy.uint16
    dtypes = (numpy.uint16, numpy.uint16)


class TokensLarge(Tokens):
    name, batch = "tokens_large", 2048


class Cifar(Problem):
    name, source, batch = "cifar", "cifar10", 256
    dtypes = (numpy.uint8, numpy.uint8)

    def __init__(self, data):
        super().__init__(data)
        self.paths = sorted((self.data / "cifar10").glob("data_batch_*.bin"))
        self.samples = sum(path.stat().st_size for path in self.paths) // (PIXELS + 1)

    def records(self):
        """Of each file, mapped: the label and the pixels of each sample."""
        return [numpy.memmap(path, dtype=numpy.uint8, mode="r").reshape(-1, PIXELS + 1)
                for path in self.paths]

    def shape(self, rows):
        return ((rows, 3, 32, 32), (rows,))

    def keys(self, image, label):
        return label.copy(), image[:, 0, 0, 0].copy(), image[:, -1, -1, -1].copy()

    def expected(self):
        records = numpy.concatenate(self.records())
        return ((records[:, 0], records[:, 1], records[:, -1]),
                (int(records[:, 1:].sum(dtype=numpy.uint64)), int(records[:, 0].sum())))


class CifarLarge(Cifar):
    name, batch = "cifar_large", 4096


class Jpeg(Problem):
    """A sample's label is its number. Decoders and resizers differ in the pixels a little: what is
    checked is the mean of each image, against what Pillow made of it."""

    name, source, batch = "jpeg", "jpeg", 32
    dtypes = (numpy.uint8, numpy.int64)
    far = 2.0  # from Pillow's mean, in levels of 256

    def __init__(self, data):
        super().__init__(data)
        self.folder = self.data / self.source
        means = self.folder / "means.f32"
        if means.exists():  # else make_shards.py is about to make it
            self.means = numpy.fromfile(means, dtype=numpy.float32)
            self.samples = len(self.means)

    def shards(self):
        return sorted(str(path) for path in self.folder.glob("*.tar"))

    def shape(self, rows):
        return ((rows, SIZE, SIZE, 3), (rows,))

    def keys(self, image, label):
        image[:, 0, 0, 0].copy()  # looked at, as of the others
        return (label.copy(),)

    def check_all(self, image, label):
        found = image.reshape(len(image), -1).mean(axis=1)
        apart = numpy.abs(found - self.means[label])
        if apart.max() > self.far:
            worst = apart.argmax()
            raise SystemExit(f"wrong data: image {label[worst]} has mean {found[worst]:.1f}, "
                             f"not {self.means[label[worst]]:.1f}")
        return 0, int(label.sum())

    def expected(self):
        numbers = numpy.arange(self.samples)
        return (numbers,), (0, int(numbers.sum()))


class JpegLarge(Jpeg):
    name, source = "jpeg_large", "jpeg_large"


class JpegScaled(JpegLarge):
    name = "jpeg_scaled"


class Png(Jpeg):
    name, source = "png", "png"


class Webp(Jpeg):
    name, source = "webp", "webp"


PROBLEMS = {kind.name: kind for kind in (Tokens, TokensUint16, TokensLarge, Cifar, CifarLarge, Jpeg,
                                         JpegLarge, JpegScaled, Png, Webp)}


def of_arrays(tokens, cifar):
    """(problem, `tokens` or `cifar`) for each problem whose samples are no images to decode."""
    return [(name, tokens if issubclass(kind, Tokens) else cifar)
            for name, kind in PROBLEMS.items() if issubclass(kind, (Tokens, Cifar))]


def sorted_keys(keys):
    """As numbers that compare as the samples do."""
    whole = numpy.zeros(len(keys[0]), dtype=numpy.uint64)
    for part in keys:
        whole = whole << numpy.uint64(17) | part.astype(numpy.uint64)
    return whole, numpy.sort(whole)


def as_array(value):
    return value.numpy() if hasattr(value, "numpy") else numpy.asarray(value)


def arrays(problem, batch):
    first, second = as_array(batch[0]), as_array(batch[1])
    if (first.dtype, second.dtype) != tuple(map(numpy.dtype, problem.dtypes)):
        raise SystemExit(f"wrong types: {first.dtype}, {second.dtype}")
    if not (first.flags.c_contiguous and second.flags.c_contiguous):
        raise SystemExit("a batch is not contiguous")
    shape = problem.shape(len(first))
    if shape[0] != first.shape and isinstance(problem, Jpeg):
        shape = ((len(first), 3, SIZE, SIZE), shape[1])  # a decoder may put the colours first
    if (first.shape, second.shape) != shape:
        raise SystemExit(f"wrong shapes: {first.shape}, {second.shape}")
    return first, second


def once_each(problem, seen, expected, order_before):
    """The order of the epoch, when it had every sample once, in another order than the one before."""
    keys = tuple(numpy.concatenate(parts) for parts in zip(*seen))
    order, found = sorted_keys(keys)
    if not numpy.array_equal(found, sorted_keys(expected)[1]):
        raise SystemExit(f"wrong data: {len(found)} samples of {problem.samples}, or not each once")
    if numpy.array_equal(order, order_before):
        raise SystemExit("two epochs have the same order")
    return order


def check_epoch(problem, loader, number, sums_expected):
    """Reads every element of an epoch; returns the keys of its batches, and keeps none of these."""
    sums, seen = [0, 0], []
    for batch in loader.epoch(number):
        first, second = arrays(problem, batch)
        for i, part in enumerate(problem.check_all(first, second)):
            sums[i] += part
        seen.append(problem.keys(first, second))
    if tuple(sums) != sums_expected:
        raise SystemExit(f"wrong data: sums {sums}, not {sums_expected}")
    return seen


def measure(problem, loader, seconds):
    expected, sums_expected = problem.expected()
    order = sorted_keys(expected)[0]  # of the files: not to be seen either
    order = once_each(problem, check_epoch(problem, loader, 0, sums_expected), expected, order)

    epochs, elapsed, start = [], 0, time.perf_counter()
    while elapsed < seconds:
        seen = []
        for batch in loader.epoch(len(epochs) + 1):
            seen.append(problem.keys(as_array(batch[0]), as_array(batch[1])))
        epochs.append(seen)
        elapsed = time.perf_counter() - start
    for seen in epochs:
        order = once_each(problem, seen, expected, order)
    return {"samples_per_second": len(epochs) * problem.samples / elapsed,
            "epochs": len(epochs), "seconds": elapsed}


def main(variants, versions):
    """`variants`: problem -> name -> function of the problem; `versions`: the packages' names."""
    if len(sys.argv) != 5:
        import importlib.metadata
        for problem, of in variants.items():
            for name in of:
                print("variant", problem, name)
        for package in versions:
            print("version", package, importlib.metadata.version(package))
        return
    problem = PROBLEMS[sys.argv[1]](sys.argv[4])
    loader = variants[problem.name][sys.argv[2]](problem)
    figures = measure(problem, loader, float(sys.argv[3]))
    if hasattr(loader, "close"):
        loader.close()
    print(json.dumps(figures))
