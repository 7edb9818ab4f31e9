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
#include "leat/python/batches/memory.h"

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

/// A tensor of a batch, or a copy of one. Has no Python object in it: who imports it shares its
/// memory, not this object. Used with the GIL held.
class Tensor {
 public:
  /// Its first byte is `data`, in `memory`, which is not null.
  Tensor(TensorInfo info, std::shared_ptr<Memory> memory, std::byte* data);

  /// Name, type and shape.
  [[nodiscard]] const TensorInfo& info() const noexcept { return info_; }
  /// The memory that it shares.
  [[nodiscard]] Memory& memory() const noexcept { return *memory_; }
  /// The first byte.
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// A tensor with memory of its own on the same device. See copy_of().
  [[nodiscard]] Tensor copy() const;

  /// Gives up the share of the memory: for a tensor that was lent for a copy, which has failed.
  /// Capsules keep their own share; views by the buffer protocol have none and must be gone.
  void end() { memory_ = ended_memory(); }

  /// The tensor's strides in bytes.
  [[nodiscard]] const std::vector<std::int64_t>& strides() const noexcept { return strides_; }

  /// A capsule "dltensor" for a consumer that uses the streams that are bound already. Throws
  /// BufferError if none is bound.
  [[nodiscard]] nanobind::object capsule() const;
  /// Python's `__dlpack__`. Throws BufferError, ValueError and TypeError; its docstring in
  /// leat/_core.pyi says when.
  [[nodiscard]] nanobind::object dlpack(nanobind::handle stream, nanobind::handle max_version,
                                        nanobind::handle dl_device, nanobind::handle copy) const;
  /// Python's `__array__`. `self` is the tensor's Python object.
  [[nodiscard]] static nanobind::object array(nanobind::handle self, nanobind::handle dtype,
                                              nanobind::handle copy);
  /// The buffer protocol's bf_getbuffer.
  static int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;

 private:
  [[nodiscard]] nanobind::object exported(bool versioned, bool is_copy) const;

  TensorInfo info_;
  std::shared_ptr<Memory> memory_;
  std::byte* data_;
  std::vector<std::int64_t> strides_;  // in bytes
};

/// The argument `copy` of `function`: None, True or False. Throws TypeError for anything else.
[[nodiscard]] std::optional<bool> copy_argument(nanobind::handle value, const char* function);
/// The stream that Python code means by `stream`: None and 1 are the legacy default stream, numbers
/// above 2 a cudaStream_t, -1 is none. An object with `cuda_stream` (torch), `ptr` (CuPy) or
/// `__cuda_stream__` is that stream; a handle of 0 is there the legacy default stream. Throws
/// BufferError for 2, the per-thread default stream; ValueError for other numbers; TypeError for
/// other objects; GpuError for a number that is not a stream of `device`, which is a GPU.
[[nodiscard]] std::optional<gpu::StreamRef> stream_of(const gpu::Device& device,
                                                      nanobind::handle stream);
/// As stream_of(), for the handle of a framework's stream: 0 is the legacy default stream.
[[nodiscard]] gpu::StreamRef stream_of_handle(const gpu::Device& device, std::int64_t handle);

}  // namespace leat::python
