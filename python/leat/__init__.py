"""Feeds batches to torch, JAX, NumPy and CuPy without a copy."""

from leat._core import (
    Batch,
    Cifar10,
    Cifar100,
    Dataset,
    DeviceInfo,
    Field,
    FixedRecords,
    InMemory,
    Mnist,
    Tensor,
    TokenShards,
    __version__,
    cuda_status,
    devices,
)
from leat.errors import Error, GpuError, SampleError, Timeout, TooManyLeases

__all__ = [
    "Batch",
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
    "Tensor",
    "Timeout",
    "TokenShards",
    "TooManyLeases",
    "__version__",
    "cuda_status",
    "devices",
]
