#include "leat/feeder/trace/ranges.h"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "leat/gpu/backend/nvtx.h"

namespace leat::feeder {
namespace {

// A batch has at most one range at a time, whose number is in its record.
class Ranges final : public Observer {
 public:
  void read_begins(BatchRecord& batch) noexcept override { start("leat read ", batch); }
  void read(BatchRecord& batch) noexcept override { end(batch); }
  void copy_begins(BatchRecord& batch) noexcept override { start("leat copy ", batch); }
  void copied(BatchRecord& batch) noexcept override { end(batch); }
  void abandoned(BatchRecord& batch) noexcept override { end(batch); }
  void handed_out(BatchRecord& batch) noexcept override { start("leat step ", batch); }
  void given_back(BatchRecord& batch) noexcept override { end(batch); }

 private:
  static void start(std::string_view what, BatchRecord& batch) noexcept {
    std::array<char, 32> name{};  // the longest number has 20 digits
    std::memcpy(name.data(), what.data(), what.size());
    std::to_chars(name.data() + what.size(), name.data() + name.size() - 1, batch.batch.index);
    batch.range = gpu::nvtx::start(name.data());
  }
  static void end(BatchRecord& batch) noexcept {
    if (batch.range != 0) gpu::nvtx::end(std::exchange(batch.range, 0));
  }
};

}  // namespace

Observer* profiler_ranges() {
  // Never destroyed: leases may live until the process ends.
  static Observer* const ranges = gpu::nvtx::is_recording() ? new Ranges : nullptr;
  return ranges;
}

}  // namespace leat::feeder
