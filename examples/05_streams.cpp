// A device without a prefetcher: pinned memory, two streams, an event between them, and a select
// that waits for the device beside a timer.
//
//   example_05_streams [device]     auto, cuda:N or host:N; auto where it is not said

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "examples/written.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/event.h"
#include "leat/gpu/on_done.h"
#include "leat/gpu/pinned_arena.h"
#include "leat/gpu/stream.h"

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kImages = 1'000'000;
constexpr std::size_t kLabels = 1'000;

void echo(const char* name) {
  // [streams]
  const leat::gpu::Device device = leat::gpu::open(name, {.pinned_bytes = 4'000'000});
  leat::gpu::PinnedArena arena(device, 2'100'000);  // page-locked once, on the device's NUMA node
  const leat::gpu::PinnedSpan images = arena.take(kImages);
  const leat::gpu::PinnedSpan labels = arena.take(kLabels);
  const leat::gpu::PinnedSpan result = arena.take(kImages);
  const leat::gpu::DeviceBuffer batch(device, kImages + kLabels);
  const leat::gpu::Stream copies(device);
  const leat::gpu::Stream compute(device);
  const leat::gpu::Event copied(device);
  const leat::gpu::Event computed(device);

  std::ranges::fill(images.bytes(), std::byte{3});
  std::ranges::fill(labels.bytes(), std::byte{1});
  const std::array<leat::gpu::CopyToDevice, 2> tensors{{
      {batch.subspan(0, kImages), images},
      {batch.subspan(kImages, kLabels), labels},
  }};
  leat::gpu::copy_async(copies, tensors);  // both as one operation
  copied.record(copies);
  compute.wait(copied);  // the stream waits, on the device; the host does not block

  // Where a trainer launches kernels: kernel<<<..., cudaStream_t(compute.native_handle())>>>(...)
  leat::gpu::copy_async(compute, result, batch.subspan(0, kImages));
  computed.record(compute);

  leat::select(leat::gpu::on_done(computed,
                                  [&] {
                                    const auto threes =
                                        std::ranges::count(result.bytes(), std::byte{3});
                                    std::printf("%td bytes came back\n", threes);
                                  }),
               leat::on_timeout(10s, [] { throw std::runtime_error("the device is stuck"); }));
  // [/streams]
}

}  // namespace

int main(int argc, char** argv) {
  try {
    leat::run([&] { echo(argc > 1 ? argv[1] : "auto"); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return if_written(0);
}
