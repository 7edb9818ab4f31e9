"""What is compared, and what is asked of it."""

from rows import Row

ROUNDS = 9
FINALISTS = 3  # of Leat's variants, in C++ and in Python, which run in every round
# Samples per second. `ratio`: Python's best to the best of the C++ loop.
SMALL = Row("tokens", 0.75)
LARGE = [Row(problem, 0.95, few=True, alone=True) for problem in ("tokens_large", "cifar_large", "jpeg")]
ROWS = [SMALL, *LARGE]
LARGE_FROM = 1e-3  # seconds that a batch of LARGE takes in C++, or the row is not what it says
BATCHES = {"tokens": 32, "tokens_large": 2048, "cifar_large": 4096, "jpeg": 32}  # samples of each
CPP, LEAT = "c++", "leat"

# Ways of handover.py -> the most microseconds, at p50, of next() and both tensors. They were asked for on a
# machine where PyTorch's loader took 715; the part of PyTorch's time in the same run tells more.
HANDOVERS = {"leat_torch": 25, "leat_numpy": 25, "leat_none": None, "torch_1": None, "torch_2": None}
OF_TORCH = 25 / 715

# Memory after the last epoch, over that after the fifth.
MEMORY = [("tokens", "torch/workers_1"), ("tokens", "numpy/workers_2"), ("jpeg", "torch/workers_2")]
GROWTH = 1.02
EPOCHS = 50

NAMES = [row.problem for row in ROWS] + ["handover", "memory"]
