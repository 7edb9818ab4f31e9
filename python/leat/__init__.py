"""Feeds batches to torch, JAX, NumPy and CuPy without a copy."""

from leat._core import (
    Cifar10,
    Cifar100,
    Dataset,
    DeviceInfo,
    Field,
    FixedRecords,
    InMemory,
    Mnist,
    TokenShards,
    __version__,
    cuda_status,
    devices,
)
from leat.errors import Error, GpuError, SampleError, Timeout, TooManyLeases

__all__ = [
    "Cifar10",
    "Cifar100",
    "Dataset",
    "DeviceInfo",
    "Error",
    "Field",
    "FixedRecords",
    "GpuError",
    "InMemory",
    "Mnist",
    "SampleError",
    "Timeout",
    "TokenShards",
    "TooManyLeases",
    "__version__",
    "cuda_status",
    "devices",
]
