// A user's program: only the installed headers and leat::leat.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>

#include "leat/csp/channel.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/select.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/buffer.h"
#include "leat/gpu/device.h"
#include "leat/gpu/stream.h"

namespace {

using namespace std::chrono_literals;

int sum_through_a_channel() {
  leat::Channel<int> numbers(2, "numbers");
  leat::go([out = leat::Sender(numbers)] {
    for (int i = 1; i <= 10; ++i) out.send(i);
    out.close();
  });
  int total = 0;
  bool open = true;
  while (open) {
    leat::select(leat::on_recv(numbers,
                               [&](std::optional<int> number) {
                                 open = number.has_value();
                                 total += number.value_or(0);
                               }),
                 leat::on_timeout(10s, [&] { open = false; }));
  }
  return total;
}

std::byte copied_to_a_device_and_back() {
  const leat::gpu::Device device = leat::gpu::open("host");
  const leat::gpu::Stream stream(device);
  const leat::gpu::PinnedBuffer there(device, 1);
  const leat::gpu::PinnedBuffer back(device, 1);
  const leat::gpu::DeviceBuffer memory(device, 1);
  there.span().bytes()[0] = std::byte{55};
  leat::gpu::copy_async(stream, memory.span(), there.span());
  leat::gpu::copy_async(stream, back.span(), memory.span());
  stream.sync();
  return back.span().bytes()[0];
}

}  // namespace

int main() {
  const int sum = leat::run(sum_through_a_channel);
  const auto byte = std::to_integer<int>(copied_to_a_device_and_back());
  std::printf("%d %d\n", sum, byte);
  return sum == 55 && byte == 55 ? 0 : 1;
}
