// A CUDA program that has a stream of its own: what a trainer changes to get its batches from a
// prefetcher. Needs the CUDA Toolkit. The tests run it on a stand-in for the CUDA runtime.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "leat/feeder/prefetcher.h"
#include "leat/feeder/sources/mnist.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace {

void check(cudaError_t code) {
  if (code != cudaSuccess) throw std::runtime_error(cudaGetErrorString(code));
}

// The user's stream.
class MyStream {
 public:
  MyStream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~MyStream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  MyStream(const MyStream&) = delete;
  MyStream& operator=(const MyStream&) = delete;
  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// The user's step. Instead of kernels it enqueues a copy of the labels back to the host.
class Trainer {
 public:
  explicit Trainer(std::size_t labels) : size_(labels) {
    check(cudaHostAlloc(&labels_, labels, cudaHostAllocDefault));
  }
  ~Trainer() { static_cast<void>(cudaFreeHost(labels_)); }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  void step(const std::uint8_t* /*images*/, const std::uint8_t* labels, std::size_t batch_size,
            cudaStream_t stream) {
    if (batch_size > size_ - done_) throw std::logic_error("more labels than announced");
    check(cudaMemcpyAsync(static_cast<std::byte*>(labels_) + done_, labels, batch_size,
                          cudaMemcpyDeviceToHost, stream));
    done_ += batch_size;
  }
  // Of the steps that have run.
  [[nodiscard]] std::span<const std::uint8_t> labels() const noexcept {
    return {static_cast<const std::uint8_t*>(labels_), done_};
  }

 private:
  std::size_t size_;
  std::size_t done_ = 0;
  void* labels_ = nullptr;
};

std::uint64_t sum(std::span<const std::uint8_t> labels) {
  return std::accumulate(labels.begin(), labels.end(), std::uint64_t{0});
}

int train(const std::string& folder) {
  constexpr std::uint64_t kEpochs = 2;
  const MyStream mine;
  cudaStream_t const my_stream = mine.get();
  Trainer trainer(kEpochs * 60'000);

  // [own_stream]
  const leat::feeder::Mnist training(folder, leat::feeder::Mnist::kTrain);
  const leat::gpu::Device device = leat::gpu::open("cuda:0");
  const auto stream = leat::gpu::StreamRef::from_native(device, my_stream);  // your cudaStream_t
  leat::feeder::Prefetcher feed(training, device, {.batch_size = 64, .prefetch_depth = 2});

  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (leat::feeder::Lease& batch : feed.epoch(epoch, stream)) {  // my_stream waits for the copy
      trainer.step(batch["image"].data<std::uint8_t>(), batch["label"].data<std::uint8_t>(),
                   batch.size(), my_stream);
    }  // the slot is free once the work enqueued above has run; the host does not wait
  }
  // [/own_stream]

  check(cudaStreamSynchronize(my_stream));
  std::printf("%zu images in %llu epochs\n", trainer.labels().size(),
              static_cast<unsigned long long>(kEpochs));
  if (trainer.labels().size() == kEpochs * training.size() &&
      sum(trainer.labels()) == kEpochs * sum(training.labels())) {
    return 0;
  }
  std::fputs("own_stream: the labels are not those of the dataset\n", stderr);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "examples/data/mnist");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "own_stream: %s\n", e.what());
    return 1;
  }
}
