// Copies that hide behind compute, exactly: the host device with a modelled link, in virtual time.
//
// 100 batches; a batch takes 2 ms to copy and 3 ms to compute. One device slot makes them take
// turns; with two slots the next batch is copied while the current one is computed.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "examples/written.h"
#include "leat/csp/clock.h"
#include "leat/csp/scheduler.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "leat/gpu/device.h"
#include "leat/gpu/host_model.h"
#include "leat/gpu/stream.h"

using namespace std::chrono_literals;
using namespace leat::feeder;

namespace {

// [dataset]
// 200,000 samples of 1,000 bytes that cost nothing to read.
class Blank final : public Dataset {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "blank"; }
  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return 200'000; }
  void read(std::uint64_t /*index*/, Sample& /*out*/) const override {}

 private:
  std::vector<Field> fields_{{"payload", DType::kUint8, {1000}}};
};
// [/dataset]

// [overlap]
leat::Duration train(std::size_t prefetch_depth) {
  leat::VirtualClock clock;
  return leat::run(
      [&] {
        const Blank data;
        const auto device = leat::gpu::open_host({.h2d_bandwidth = 1e9});  // 2 MB in 2 ms
        const leat::gpu::Stream stream(device);
        Prefetcher feed(data, device, {.batch_size = 2000, .prefetch_depth = prefetch_depth});
        for (Lease& batch : feed.epoch(0, stream)) {
          stream.launch_host([data = batch["payload"].data<std::uint8_t>()] { (void)data; }, 3ms);
        }
        stream.sync();
        std::fputs(feed.stats().table().c_str(), stdout);
        return clock.elapsed();
      },
      {.workers = 1, .clock = &clock});  // one worker: every run is the same
}
// [/overlap]

}  // namespace

int main() {
  const auto one = train(1);
  std::printf("one slot:  %lld us = 100 (Tx + Tc)\n\n", static_cast<long long>(one / 1us));
  const auto two = train(2);
  std::printf("two slots: %lld us = Tx + 99 max(Tx, Tc) + Tc\n", static_cast<long long>(two / 1us));
  return if_written(one == 100 * (2ms + 3ms) && two == 2ms + 99 * 3ms + 3ms ? 0 : 1);
}
