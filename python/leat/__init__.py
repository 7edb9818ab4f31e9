"""Feeds batches to torch, JAX, NumPy and CuPy without a copy."""

from leat._core import DeviceInfo, __version__, cuda_status, devices

__all__ = ["DeviceInfo", "__version__", "cuda_status", "devices"]
