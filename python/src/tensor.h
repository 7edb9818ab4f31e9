// leat.Tensor: a tensor of a batch, for every framework that reads DLPack or the buffer protocol.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/feeder/field.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"
#include "leat/python/memory.h"

namespace leat::python {

/// What a tensor is, without its memory. A value.
struct TensorInfo {
  std::string name;
  feeder::DType dtype = feeder::DType::kUint8;
  std::vector<std::int64_t> shape;  ///< [rows, shape of the field ...], row-major

  /// Elements times the size of one.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// As "x int32 [32, 1024]".
  [[nodiscard]] std::string text() const;
};

/// A tensor of a batch, or a copy of one. Has no Python object in it: whoever imports it shares its
/// memory, not this object. Used with the GIL held.
class Tensor {
 public:
  Tensor(TensorInfo info, std::shared_ptr<Memory> memory, std::byte* data) noexcept;

  /// Name, type and shape.
  [[nodiscard]] const TensorInfo& info() const noexcept { return info_; }
  /// The memory that it shares.
  [[nodiscard]] Memory& memory() const noexcept { return *memory_; }
  /// The first byte.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// A tensor with memory of its own on the same device. See copy_of().
  [[nodiscard]] Tensor copy() const;
  /// A capsule "dltensor", for a consumer that uses the streams that are bound already. Throws
  /// BufferError if none is bound.
  [[nodiscard]] nanobind::object capsule() const;
  /// Python's `__dlpack__`. Throws BufferError and ValueError, as its docstring says.
  [[nodiscard]] nanobind::object dlpack(const nanobind::object& stream,
                                        const nanobind::object& max_version,
                                        const nanobind::object& dl_device,
                                        const nanobind::object& copy) const;

 private:
  TensorInfo info_;
  std::shared_ptr<Memory> memory_;
  std::byte* data_;
};

/// The stream that Python code means by `stream`, by DLPack's numbers: None and 1 are the legacy
/// default stream, numbers above 2 a cudaStream_t, -1 is none. An object with `cuda_stream`
/// (torch), `ptr` (CuPy) or `__cuda_stream__` is that stream; a handle of 0 is the legacy default
/// stream. Throws BufferError for 2, which is the per-thread default stream; ValueError for other
/// numbers, and for a stream of a device that is the CPU; TypeError for other objects.
[[nodiscard]] std::optional<gpu::StreamRef> stream_of(const gpu::Device& device,
                                                      nanobind::handle stream);

}  // namespace leat::python
