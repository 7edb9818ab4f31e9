#include "bench/gpu/cuda/raw_events.h"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace bench::cuda {
namespace {

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(code));
}

class CudaRawEvents final : public RawEvents {
 public:
  explicit CudaRawEvents(int device) {
    // Kinds of stream and event are those of gpu/cuda/.
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&producer_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaStreamCreateWithFlags(&consumer_, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
  }
  ~CudaRawEvents() override {
    static_cast<void>(cudaEventDestroy(event_));
    static_cast<void>(cudaStreamDestroy(consumer_));
    static_cast<void>(cudaStreamDestroy(producer_));
  }

  void record_and_wait(int pairs) override {
    for (int i = 0; i < pairs; ++i) {
      check(cudaEventRecord(event_, producer_), "cudaEventRecord");
      check(cudaStreamWaitEvent(consumer_, event_, 0), "cudaStreamWaitEvent");
    }
  }
  void record(int times) override {
    for (int i = 0; i < times; ++i) check(cudaEventRecord(event_, producer_), "cudaEventRecord");
  }
  void wait(int times) override {
    for (int i = 0; i < times; ++i) {
      check(cudaStreamWaitEvent(consumer_, event_, 0), "cudaStreamWaitEvent");
    }
  }
  void sync() override {
    check(cudaStreamSynchronize(producer_), "cudaStreamSynchronize");
    check(cudaStreamSynchronize(consumer_), "cudaStreamSynchronize");
  }

 private:
  cudaStream_t producer_ = nullptr;
  cudaStream_t consumer_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

std::unique_ptr<RawEvents> make_raw_events(int device) {
  return std::make_unique<CudaRawEvents>(device);
}

}  // namespace bench::cuda
