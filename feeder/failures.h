// The samples that failed: those that were left out, and the one that ended a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "leat/csp/error.h"

namespace leat::feeder {

/// Where a sample may fail.
enum class FailingStage : std::uint8_t {
  kRead,       // Dataset::read
  kTransform,  // a host transform (feeder/map.h)
};
/// "read", "transform".
[[nodiscard]] const char* to_string(FailingStage stage) noexcept;

/// A sample that was left out because it failed, within the budget
/// (PrefetcherOptions::read_failures, PrefetcherOptions::transform_failures).
struct FailedSample {
  FailingStage stage = FailingStage::kRead;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;   // the batch that lacks the sample
  std::uint64_t sample = 0;  // the sample's number in the dataset
  std::string error;         // what() of the exception
};

/// A sample failed, and its stage has no budget left for it. what() names the sample, its dataset
/// and the reason. The exception of the dataset or of the transform is nested in it
/// (std::rethrow_if_nested).
class SampleError : public Error {
 public:
  /// `text` is what().
  SampleError(const std::string& text, FailedSample sample)
      : Error(text), sample_(std::move(sample)) {}

  /// Which sample failed, where, and the text of the cause.
  [[nodiscard]] const FailedSample& sample() const noexcept { return sample_; }

 private:
  FailedSample sample_;
};

/// The most samples that Prefetcher::failed_samples() lists. Without a limit a long run would grow
/// the list for ever: a bad sample fails in every epoch, and a budget by rate has no end.
constexpr std::size_t kMostListed = 10'000;

}  // namespace leat::feeder
