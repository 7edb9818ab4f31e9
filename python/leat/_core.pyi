import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, final

from numpy import uint8
from numpy.typing import DTypeLike, NDArray
from typing_extensions import disjoint_base

__version__: str

_Path: TypeAlias = str | bytes | os.PathLike[str]
_Files: TypeAlias = _Path | Sequence[_Path]
_Split: TypeAlias = Literal["train", "test"]

# devices.cpp

@final
class DeviceInfo:
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def memory_bytes(self) -> int: ...

def cuda_status() -> str: ...
def devices() -> list[DeviceInfo]: ...

# datasets.cpp

@final
class Field:
    def __init__(
        self, name: str, dtype: DTypeLike, shape: Sequence[int] = (), *, variable_length: bool = False
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def variable_length(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Dataset:
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> dict[str, NDArray[Any]]: ...
    def read(self, index: int, *, seed: int = 0, epoch: int = 0) -> dict[str, NDArray[Any]]: ...
    @property
    def name(self) -> str: ...
    @property
    def fields(self) -> tuple[Field, ...]: ...
    @property
    def digest(self) -> int: ...

# sources.cpp

@final
class TokenShards(Dataset):
    def __init__(
        self,
        files: _Files,
        *,
        sequence_length: int,
        stride: int = 0,
        header: Literal["auto", "none", "llm.c"] = "auto",
        token: DTypeLike = "uint16",
        dtype: DTypeLike = "int32",
        vocabulary: int = 0,
        extension: str = ".bin",
    ) -> None: ...
    @property
    def token(self) -> str: ...
    @property
    def tokens(self) -> int: ...

@final
class FixedRecords(Dataset):
    def __init__(
        self,
        files: _Files,
        *,
        fields: Sequence[Field],
        header_bytes: int = 0,
        extension: str = ".bin",
        name: str | None = None,
    ) -> None: ...

@final
class Cifar10(Dataset):
    def __init__(self, files: _Files, split: _Split | None = None, *, label: DTypeLike = "uint8") -> None: ...

@final
class Cifar100(Dataset):
    def __init__(self, files: _Files, split: _Split | None = None, *, label: DTypeLike = "uint8") -> None: ...

@final
class Mnist(Dataset):
    def __init__(self, files: _Files, split: _Split | None = None) -> None: ...
    @property
    def images(self) -> NDArray[uint8]: ...
    @property
    def labels(self) -> NDArray[uint8]: ...

# arrays.cpp

@final
class InMemory(Dataset):
    def __init__(self, arrays: Mapping[str, Any] = ..., /, *, name: Any = "in memory", **fields: Any) -> None: ...
