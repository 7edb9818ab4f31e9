"""What several peers share: how a careful user reads a whole batch with numpy, and decodes an image."""

import io
import mmap
import pathlib
import sys
import tarfile

import numpy

from peer import LENGTH, SIZE

FORMATS = ("jpg", "png", "webp")  # of images, as members of tar files end
PILLOW_SIMD = pathlib.Path(sys.prefix) / "pillow-simd"


class TokenBatches:
    """Windows of the mapped file, gathered a batch at a time: one copy of whole rows for x, one for
    y, and their conversion. No loop in Python."""

    def __init__(self, problem):
        tokens, used = problem.tokens(), problem.samples * LENGTH
        self.x = tokens[:used].reshape(-1, LENGTH)
        self.y = tokens[1:used + 1].reshape(-1, LENGTH)
        self.dtype = problem.dtype

    def __len__(self):
        return len(self.x)

    def read(self, numbers):
        x, y = self.x[numbers], self.y[numbers]
        return x.astype(self.dtype, copy=False), y.astype(self.dtype, copy=False)


class TokenSamples:
    """The same, a window at a time."""

    def __init__(self, problem):
        self.tokens, self.samples = problem.tokens(), problem.samples
        self.dtype = problem.dtype

    def __len__(self):
        return self.samples

    def read(self, number):
        window = self.tokens[number * LENGTH:number * LENGTH + LENGTH + 1].astype(self.dtype)
        return window[:-1], window[1:]


class CifarBatches:
    """The images and the labels as two arrays in memory, as torchvision.datasets.CIFAR10 holds them:
    a batch is one gather of rows. (The others read the mapped files.)"""

    def __init__(self, problem):
        records = numpy.concatenate(problem.records())
        self.images = numpy.ascontiguousarray(records[:, 1:]).reshape(-1, 3, 32, 32)
        self.labels = records[:, 0].copy()

    def __len__(self):
        return len(self.labels)

    def read(self, numbers):
        return self.images[numbers], self.labels[numbers]


class CifarSamples:
    """An image at a time, from the mapped files."""

    def __init__(self, problem):
        self.files = problem.records()
        self.ends = numpy.cumsum([len(records) for records in self.files])

    def __len__(self):
        return int(self.ends[-1])

    def read(self, number):
        file = int(numpy.searchsorted(self.ends, number, side="right"))
        record = self.files[file][number - self.ends[file]]
        return record[1:].reshape(3, 32, 32), record[0]


class JpegBytes:
    """The images of mapped tar files by number, and their labels. The index is made once; a copy of
    this in another process maps the files itself."""

    def __init__(self, problem):
        self.paths, self.places = problem.shards(), []
        self.map_files()
        for shard, path in enumerate(self.paths):
            members = {}
            with tarfile.open(path) as tar:
                for member in tar:
                    stem, ending = member.name.rsplit(".", 1)
                    members.setdefault(stem, {})[ending] = member
            for of in members.values():
                image, label = next(of[form] for form in FORMATS if form in of), of["cls"]
                text = self.pages[shard][label.offset_data:label.offset_data + label.size]
                self.places.append((shard, image.offset_data, image.size, int(text)))

    def map_files(self):
        self.pages = []
        for path in self.paths:
            with open(path, "rb") as file:
                self.pages.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))

    def __getstate__(self):
        return {"paths": self.paths, "places": self.places}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.map_files()

    def __len__(self):
        return len(self.places)

    def read(self, number):
        shard, offset, size, label = self.places[number]
        return self.pages[shard][offset:offset + size], label


class JpegSamples(JpegBytes):
    """The same, decoded."""

    def __init__(self, problem, decode):
        super().__init__(problem)
        self.decode = decode

    def __getstate__(self):
        return {**super().__getstate__(), "decode": self.decode}

    def read(self, number):
        data, label = super().read(number)
        return self.decode(data), label


def stack(samples, dtype):
    """A batch of samples; the second array is of that type."""
    first, second = zip(*samples)
    return numpy.stack(first), numpy.array(second, dtype=dtype)


# --- Decoders: a file's bytes to uint8 {SIZE, SIZE, 3}. Of JPEG, all but SPDL's are libjpeg-turbo, with the
# accurate integer transform and smooth upsampling of the chroma, which are its defaults.


def pillow(data):
    """Resized with support for all source pixels (antialiased)."""
    from PIL import Image
    image = Image.open(io.BytesIO(data)).convert("RGB")
    return numpy.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def pillow_simd(data):
    """Pillow's fork; bench/suites/feed.py puts it beside, since it has Pillow's names."""
    if str(PILLOW_SIMD) not in sys.path:
        if "PIL" in sys.modules:
            raise ImportError("another Pillow is there already")
        sys.path.insert(0, str(PILLOW_SIMD))
    return pillow(data)


def pillow_scaled(data):
    """The decoder leaves out the finest detail: 1/2, 1/4, 1/8 of the size, but not less than wanted."""
    from PIL import Image
    image = Image.open(io.BytesIO(data))
    image.draft("RGB", (SIZE, SIZE))
    return numpy.asarray(image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR))


def opencv_linear(data):
    """Of each 2 x 2 source pixels around a point: what lies between is not looked at."""
    import cv2
    image = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR_RGB)
    return cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)


def opencv_area(data):
    import cv2
    image = cv2.imdecode(numpy.frombuffer(data, numpy.uint8), cv2.IMREAD_COLOR_RGB)
    return cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_AREA)


def simplejpeg_linear(data):
    import cv2
    import simplejpeg
    image = simplejpeg.decode_jpeg(data, fastdct=False, fastupsample=False)
    return cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)


def simplejpeg_scaled(data):
    import cv2
    import simplejpeg
    image = simplejpeg.decode_jpeg(data, fastdct=False, fastupsample=False, min_height=SIZE,
                                   min_width=SIZE)
    return cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)


WHOLE = {"pillow": pillow, "opencv_linear": opencv_linear, "opencv_area": opencv_area,
         "simplejpeg": simplejpeg_linear,
         **({"pillow_simd": pillow_simd} if PILLOW_SIMD.exists() else {})}
DECODERS = {
    "jpeg": WHOLE,
    "jpeg_large": WHOLE,
    "jpeg_scaled": {"pillow": pillow_scaled, "simplejpeg": simplejpeg_scaled},
    **dict.fromkeys(("png", "webp"), {name: of for name, of in WHOLE.items() if name != "simplejpeg"}),
}


def one_thread_each():
    """A decoder's library must not start threads of its own beside the workers."""
    try:
        import cv2
        cv2.setNumThreads(0)
    except ImportError:
        pass
