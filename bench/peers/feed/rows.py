"""What is compared, and what is asked of it."""

import re


class Row:
    """Of samples per second. `ratio`: ours to that of the best variant of any peer in the problem
    `against`; None: nothing is asked for. `like`: of the variants that match it alone, and `likeness`
    says what they do. `few`: of the variants, only those that --quick tries. `alone`: of each peer,
    only the fastest runs in all rounds."""

    def __init__(self, problem, ratio=None, against=None, like=".*", likeness="", quick=True,
                 few=False, alone=False):
        self.problem, self.ratio, self.against = problem, ratio, against or problem
        self.like, self.likeness = re.compile(like), likeness
        self.quick, self.few, self.alone = quick, few, alone


# What resizes with all of the source's pixels.
ANTIALIASED = {"like": r"(pillow|pillow_simd|torchvision|opencv_area)/.*", "likeness": "antialiased"}
ROWS = [
    Row("tokens", 3),
    Row("tokens_uint16", quick=False, few=True),
    Row("cifar", 3),
    Row("jpeg", 1, **ANTIALIASED),
    Row("jpeg_bilinear", 1, against="jpeg"),
    Row("jpeg_large", 1, **ANTIALIASED, quick=False, few=True),
    Row("jpeg_large_bilinear", 1, against="jpeg_large", quick=False),
    Row("jpeg_scaled", 1.5, against="jpeg_large", quick=False),
]
PROBLEMS = [row.problem for row in ROWS]
# Leat's, as the peers have them in their scripts: the arguments of feed_bench.cpp.
VARIANTS = {f"workers_{workers}/" + (f"fiber_{fiber}" if fiber else "thread"):
            f"workers:{workers}/fiber:{fiber}/ahead:4" for workers in (1, 2) for fiber in (0, 1, 2)}
# Of the problems with small batches: further ahead.
SMALL = ("tokens",)
AHEAD = {f"{name}/ahead_16": arguments.replace("ahead:4", "ahead:16") for name, arguments in VARIANTS.items()}

# Of one program each: the benchmark, the counter in microseconds, and the most that it may be.
LATENCIES = [
    ("handover", "handover_to_fiber", "p50_us", 2),
    ("handover", "handover_to_thread", "p50_us", 2),
    ("leave", "leave_files", "p99_us", 50e3),
    ("leave", "leave_slow", "p99_us", 50e3),
    ("leave", "leave_queued", "p99_us", 50e3),
]

PILLOW_SIMD = "pillow-simd==12.1.1.post0"  # has Pillow's names, hence a folder of its own
PEERS = ("torch", "webdataset", "spdl", "grain", "litdata")
# The variants that --quick tries.
QUICK = re.compile(r"get_batch|((collate|getitems|slices|opencv_linear)/0|blocks/[02]|simplejpeg/[02]"
                   r"|samples/[02]|pillow_simd/(threads_)?2|torchvision/2|(batches|ffmpeg)/2|(slices|simplejpeg)/threads_2"
                   r"|slices/threads_0)$")
FINALISTS = 2  # of each peer's variants, which run in every round; and the best that reads ahead

# Variants that read in the loop's own thread, when it asks.
INLINE = re.compile(r"get_batch|.*/(threads_)?0")

# Where a figure is not quite the row's: program, problem, variant.
NOTES = [
    ("webdataset", "", ".*", "its order is that of a buffer of 1000 samples, and of the shards"),
    ("torch|spdl|grain", "cifar", "(getitems|slices|batches).*",
     "from two arrays in its own memory; the others read the mapped files"),
    ("litdata", "tokens", ".*", "its order is that of 256 neighbours in a chunk, and of the chunks"),
    ("torch", "tokens", "get_batch", "nanoGPT's, in place of a loader"),
    (".*", ".*", INLINE, "in the loop's own thread: nothing is read ahead"),
    ("spdl", "jpeg|jpeg_large", "ffmpeg.*", "FFmpeg's decoder and its bicubic scaler"),
]
