#include "leat/comm/exchange/plan.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "leat/comm/transports/reduce.h"

namespace leat::comm {
namespace {

[[noreturn]] void refuse_plan(const std::string& what) {
  throw std::invalid_argument("leat: GradientExchange: " + what);
}

void check(const ExchangeOptions& options) {
  if (options.partition_bytes == 0) refuse_plan("partition_bytes is 0; it is at least 1");
  if (options.credit_bytes == 0) refuse_plan("credit_bytes is 0; it is at least 1");
  if (options.policy != Policy::kBucketed) return;
  if (options.bucket_bytes.empty()) refuse_plan("bucket_bytes is empty; give a limit");
  if (std::ranges::count(options.bucket_bytes, std::size_t{0}) > 0) {
    refuse_plan("a limit of bucket_bytes is 0; it is at least 1");
  }
}

void check(const Gradient& one, std::size_t index, Weights weights) {
  const std::string which = "gradient " + std::to_string(index) + " (\"" + one.name + "\")";
  if (one.name.empty()) refuse_plan("gradient " + std::to_string(index) + " has no name");
  if (!is_reducible(one.dtype)) {
    refuse_plan(which + " is of " + gpu::to_string(one.dtype) + ", which cannot be summed");
  }
  const bool is_integer = one.dtype == DType::kInt32 || one.dtype == DType::kInt64;
  if (is_integer && weights == Weights::kSamples) {
    refuse_plan(which + " is of " + gpu::to_string(one.dtype) +
                ", of which there is no mean; use Weights::kOnes, a sum");
  }
  require_whole_elements(one);
}

}  // namespace

void require_whole_elements(const Gradient& one) {
  if (one.data.size() % gpu::size_of(one.dtype) == 0) return;
  refuse_plan("\"" + one.name + "\" has " + std::to_string(one.data.size()) +
              " bytes, no multiple of those of a " + gpu::to_string(one.dtype));
}

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const std::size_t> sizes,
                                                     std::span<const gpu::DType> dtypes,
                                                     std::span<const std::size_t> limits) {
  if (limits.empty()) throw std::invalid_argument("leat: buckets need at least one limit");
  if (sizes.size() != dtypes.size()) {
    throw std::invalid_argument("leat: there must be one dtype for each size");
  }
  std::vector<std::vector<std::size_t>> buckets;
  struct OpenBucket {
    std::vector<std::size_t> indices;
    std::size_t bytes = 0;
    std::size_t closed = 0;  // buckets of this dtype before it
  };
  std::map<gpu::DType, OpenBucket> open;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    OpenBucket& bucket = open[dtypes[i]];
    bucket.indices.push_back(i);
    bucket.bytes += sizes[i];
    if (bucket.bytes < limits[std::min(bucket.closed, limits.size() - 1)]) continue;
    buckets.push_back(std::exchange(bucket.indices, {}));
    bucket.bytes = 0;
    ++bucket.closed;
  }
  for (auto& [dtype, bucket] : open) {
    if (!bucket.indices.empty()) buckets.push_back(std::move(bucket.indices));
  }
  std::ranges::sort(buckets, {}, [](const auto& bucket) { return bucket.front(); });
  return buckets;
}

Plan::Plan(std::vector<Gradient> given, const ExchangeOptions& options)
    : gradients(std::move(given)), unit_of(gradients.size()) {
  check(options);
  for (std::size_t i = 0; i < gradients.size(); ++i) check(gradients[i], i, options.weights);
  const auto tensors = static_cast<std::uint32_t>(gradients.size());

  if (options.policy == Policy::kBucketed) {
    std::vector<std::size_t> sizes;
    std::vector<DType> dtypes;
    for (std::uint32_t i = tensors; i-- > 0;) {  // the last declared is ready first
      sizes.push_back(gradients[i].data.size());
      dtypes.push_back(gradients[i].dtype);
    }
    for (const auto& bucket : assign_buckets(sizes, dtypes, options.bucket_bytes)) {
      Unit unit;
      for (const std::size_t place : bucket) {
        unit.tensors.push_back(tensors - 1 - static_cast<std::uint32_t>(place));
        unit.bytes += sizes[place];
      }
      unit.piece_bytes = unit.bytes;
      unit.pieces = unit.bytes > 0 ? 1 : 0;
      units.push_back(std::move(unit));
    }
  } else {
    for (std::uint32_t i = 0; i < tensors; ++i) {
      const std::uint64_t bytes = gradients[i].data.size();
      const std::uint64_t size = gpu::size_of(gradients[i].dtype);
      const std::uint64_t piece = std::max(size, options.partition_bytes / size * size);
      units.push_back({.tensors = {i},
                       .bytes = bytes,
                       .piece_bytes = piece,
                       .pieces = static_cast<std::uint32_t>((bytes + piece - 1) / piece)});
    }
  }
  for (std::uint32_t u = 0; u < units.size(); ++u) {
    for (const std::uint32_t tensor : units[u].tensors) unit_of[tensor] = u;
    largest_piece = std::max(largest_piece, std::min(units[u].piece_bytes, units[u].bytes));
    units[u].first_piece = pieces;
    pieces += units[u].pieces;
  }
}

}  // namespace leat::comm
