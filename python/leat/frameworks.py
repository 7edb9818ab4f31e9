"""What leat needs of each framework: its current stream, and arrays made of a leat.Tensor.

The names that `framework=` takes are in NAMES. `adapter()` imports the framework.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal, Protocol

from leat._core import Tensor

Name = Literal["torch"] | Literal["numpy"] | Literal["jax"] | Literal["cupy"]
NAMES: tuple[Name, ...] = ("torch", "numpy", "jax", "cupy")


class Framework(Protocol):
    """A framework, for the loop. Called from C++ for each batch."""

    @property
    def name(self) -> str | None:
        """As `framework=` takes it."""

    def stream(self, device: str) -> int | None:
        """The handle of the stream that is current on `device` ("cuda:0"). 0: the default stream.

        None: the framework has none; arrays name their stream themselves (`__dlpack__`).
        """

    def take(self, tensor: Tensor) -> Any:
        """An array of the framework in the tensor's memory. TypeError for a dtype that it lacks."""

    def copy(self, tensor: Tensor) -> Any:
        """An array in memory of its own, filled once the current stream's work is done."""


def adapter(framework: str | None, device: str) -> Framework:
    """The framework of that name, for batches on `device` ("host:0", "cuda:0").

    ValueError: no such name, or it cannot use the device. ModuleNotFoundError: not installed.
    """
    if framework is None:
        return _Leat()
    if not isinstance(framework, str) or framework not in _ADAPTERS:
        names = ", ".join(repr(name) for name in NAMES)
        raise ValueError(f"framework has to be {names} or None, not {framework!r}")
    made: Framework = _ADAPTERS[framework](device)
    return made


def _import(framework: str, module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"framework={framework!r} needs the package {package}, which is not installed "
            f"(python3 -m pip install {package}); framework=None needs none",
            name=error.name,
            path=error.path,
        ) from error


def _lacks(framework: str, tensor: Tensor, advice: str) -> TypeError:
    return TypeError(f"{framework} has no type {tensor.dtype}, which tensor {tensor.name!r} has: {advice}")


def _has(module: Any, tensor: Tensor) -> bool:
    """Whether the module surely has the tensor's type: older ones have bool, but not from DLPack."""
    return tensor.dtype != "bool" and hasattr(module, tensor.dtype)


class _Leat:
    """framework=None: the tensors as they are."""

    name = None

    def stream(self, device: str) -> int | None:
        return None

    def take(self, tensor: Tensor) -> Tensor:
        return tensor

    def copy(self, tensor: Tensor) -> Tensor:
        return tensor.copy()


class _Torch:
    name = "torch"

    def __init__(self, device: str) -> None:
        self._torch = _import("torch", "torch", "torch")
        self._from_dlpack = _import("torch", "torch.utils.dlpack", "torch").from_dlpack
        if device.startswith("cuda") and not self._torch.cuda.is_available():
            raise ValueError(
                f"framework='torch' cannot use {device}: torch {self._torch.__version__} has no CUDA here "
                "(torch.cuda.is_available() is False)"
            )

    def stream(self, device: str) -> int | None:
        handle: int = self._torch.cuda.current_stream(device).cuda_stream
        return handle

    def take(self, tensor: Tensor) -> Any:
        if tensor.nbytes == 0 and hasattr(self._torch, tensor.dtype):
            # Of one without an address, torch 1.13 keeps the capsule, and so the batch, for ever.
            place = tensor.device.replace("host:0", "cpu")
            return self._torch.empty(tensor.shape, dtype=getattr(self._torch, tensor.dtype), device=place)
        # A capsule, and no call of tensor.__dlpack__(): its stream is bound already.
        try:
            return self._from_dlpack(tensor._capsule())
        except (RuntimeError, AttributeError) as error:
            if _has(self._torch, tensor):
                raise
            if tensor.dtype == "bool" and tensor.device.startswith("host"):  # torch 1.13 has it, but not by DLPack
                return self._torch.from_numpy(importlib.import_module("numpy").asarray(tensor))
            advice = "a newer torch has it, or take framework=None and convert the tensor"
            raise _lacks(f"torch {self._torch.__version__}", tensor, advice) from error

    def copy(self, tensor: Tensor) -> Any:
        return self.take(tensor).clone()


class _Numpy:
    name = "numpy"

    def __init__(self, device: str) -> None:
        numpy = _import("numpy", "numpy", "numpy")
        self._asarray, self._array = numpy.asarray, numpy.array
        if not device.startswith("host"):
            raise ValueError(f"framework='numpy' cannot use {device}: NumPy's arrays are on the CPU (device 'cpu')")

    def stream(self, device: str) -> int | None:
        return None

    def take(self, tensor: Tensor) -> Any:
        self._check(tensor)
        return self._asarray(tensor)

    def copy(self, tensor: Tensor) -> Any:
        self._check(tensor)
        return self._array(tensor)

    def _check(self, tensor: Tensor) -> None:
        if tensor.dtype == "bfloat16":
            raise _lacks("numpy", tensor, "take framework='torch', 'jax' or None")


class _Jax:
    name = "jax"

    def __init__(self, device: str) -> None:
        jax = _import("jax", "jax", "jax")
        self._from_dlpack = _import("jax", "jax.dlpack", "jax").from_dlpack
        self._version = jax.__version__
        if device.startswith("cuda"):
            try:
                jax.local_devices(backend="cuda")
            except RuntimeError as error:
                raise ValueError(f"framework='jax' cannot use {device}: jax {jax.__version__}: {error}") from error

    def stream(self, device: str) -> int | None:
        return None  # jax passes a stream to __dlpack__

    def take(self, tensor: Tensor) -> Any:
        try:
            return self._from_dlpack(tensor)
        except (TypeError, RuntimeError) as error:
            if tensor.dtype != "bool":
                raise
            raise _lacks(f"jax {self._version}", tensor, "a newer jax has it, or make it uint8") from error

    def copy(self, tensor: Tensor) -> Any:
        # Leat's copy: jax would copy later, on a thread of its own, and keep the batch until then.
        return self.take(tensor.copy())


class _Cupy:
    name = "cupy"

    def __init__(self, device: str) -> None:
        self._cupy = _import("cupy", "cupy", "cupy-cuda12x")
        if not device.startswith("cuda"):
            raise ValueError(f"framework='cupy' cannot use {device}: CuPy's arrays are on a GPU (device 'cuda')")

    def stream(self, device: str) -> int | None:
        with self._cupy.cuda.Device(int(device.partition(":")[2])):
            handle: int = self._cupy.cuda.get_current_stream().ptr
        return handle

    def take(self, tensor: Tensor) -> Any:
        try:
            return self._cupy.from_dlpack(tensor)
        except (TypeError, RuntimeError, BufferError, ValueError) as error:
            if _has(self._cupy, tensor):
                raise
            raise _lacks("cupy", tensor, "take framework=None and convert the tensor") from error

    def copy(self, tensor: Tensor) -> Any:
        return self.take(tensor).copy()


_ADAPTERS: dict[str, Any] = {"torch": _Torch, "numpy": _Numpy, "jax": _Jax, "cupy": _Cupy}
