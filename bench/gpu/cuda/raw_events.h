// The calls of CUDA's that Leat's events are compared with.
#pragma once

#include <memory>

namespace bench::cuda {

/// Two streams and an event, used as a program without Leat would. By one thread.
class RawEvents {
 public:
  RawEvents() = default;
  RawEvents(const RawEvents&) = delete;
  RawEvents& operator=(const RawEvents&) = delete;
  virtual ~RawEvents() = default;

  /// `pairs` times cudaEventRecord on one stream and cudaStreamWaitEvent on the other.
  virtual void record_and_wait(int pairs) = 0;
  /// `times` cudaEventRecord.
  virtual void record(int times) = 0;
  /// `times` cudaStreamWaitEvent, for what was recorded last.
  virtual void wait(int times) = 0;
  /// Blocks until both streams have run all of it.
  virtual void sync() = 0;
};

/// On the device of that number. Null in a build without the CUDA Toolkit. Throws
/// std::runtime_error with what CUDA complains of, as all of RawEvents does.
std::unique_ptr<RawEvents> make_raw_events(int device);

}  // namespace bench::cuda
