// DLPack's structs, as its specification (https://dmlc.github.io/dlpack) defines them: the struct
// of version 1.0, and the unversioned one from before 1.0.
//
// Leat declares the structs here, in a namespace, because a program already includes its
// framework's <dlpack/dlpack.h>, whose version Leat cannot know. Many distributions' dlpack.h is
// too old for the versioned struct. The layouts are the same: dlpack::hand_over
// (feeder/interop/dlpack.h) compares them, and returns the program's own type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat::feeder::dlpack {

/// The kind of a device: DLPack's numbers for the kinds of memory that Leat has.
enum DLDeviceType : std::int32_t { kDLCPU = 1, kDLCUDA = 2 };
/// The device that a tensor lies on.
struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;
};

/// The kind of a tensor's elements: DLPack's numbers for the kinds that Leat has.
enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLBool = 6
};
/// The type of a tensor's elements.
struct DLDataType {
  std::uint8_t code;  // a DLDataTypeCode
  std::uint8_t bits;
  std::uint16_t lanes;
};

/// A view of a tensor.
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements
  std::uint64_t byte_offset;
};

/// A tensor and its deleter, from before DLPack 1.0.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

/// The version of DLPack that a tensor follows.
struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

/// In DLManagedTensorVersioned::flags: the tensor is a copy, made for the consumer.
inline constexpr std::uint64_t kDLPackFlagIsCopied = 1U << 1U;
/// A tensor and its deleter, since DLPack 1.0.
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

static_assert(sizeof(void*) == 8);
static_assert(sizeof(DLTensor) == 48 && offsetof(DLTensor, ndim) == 16 &&
              offsetof(DLTensor, dtype) == 20 && offsetof(DLTensor, shape) == 24 &&
              offsetof(DLTensor, byte_offset) == 40);
static_assert(sizeof(DLManagedTensor) == 64 && offsetof(DLManagedTensor, deleter) == 56);
static_assert(sizeof(DLManagedTensorVersioned) == 80 &&
              offsetof(DLManagedTensorVersioned, deleter) == 16 &&
              offsetof(DLManagedTensorVersioned, dl_tensor) == 32);

}  // namespace leat::feeder::dlpack
