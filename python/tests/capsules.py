"""DLPack's capsules, for tests that look into them."""

import ctypes
from typing import Any

_api = ctypes.pythonapi
_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", _api))
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Deletable(ctypes.Structure):
    deleter: int
    dl_tensor: Tensor

    @property
    def address(self) -> int:
        return ctypes.addressof(self)

    def delete(self) -> None:
        """As a consumer does, once. Releases the GIL meanwhile."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.deleter)(self.address)


class Managed(_Deletable):
    """DLManagedTensor."""

    _fields_ = (("dl_tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(_Deletable):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("dl_tensor", Tensor),
    )


def name_of(capsule: Any) -> str:
    return bytes(_name(capsule)).decode()


def read(capsule: Any) -> Managed | Versioned:
    """What the capsule has. Valid as long as the capsule."""
    name = name_of(capsule)
    kind = Versioned if name == "dltensor_versioned" else Managed
    return kind.from_address(_pointer(capsule, name.encode()))


_USED = {"dltensor": b"used_dltensor", "dltensor_versioned": b"used_dltensor_versioned"}


def consume(capsule: Any) -> Managed | Versioned:
    """As a consumer does: the caller has to delete() what it gets."""
    managed = read(capsule)
    assert _rename(capsule, _USED[name_of(capsule)]) == 0
    return managed
