#include "leat/comm/exchange/buckets.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace leat::comm {
namespace {

// The bucket of one dtype that is still open.
struct OpenBucket {
  std::vector<std::size_t> indices;
  std::size_t bytes = 0;
  std::size_t closed = 0;  // buckets of this dtype before it
};

}  // namespace

std::vector<std::vector<std::size_t>> assign_buckets(std::span<const std::size_t> sizes,
                                                     std::span<const gpu::DType> dtypes,
                                                     std::span<const std::size_t> limits) {
  if (limits.empty()) throw std::invalid_argument("leat: buckets need at least one limit");
  if (sizes.size() != dtypes.size()) {
    throw std::invalid_argument("leat: there must be one dtype for each size");
  }
  std::vector<std::vector<std::size_t>> buckets;
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

}  // namespace leat::comm
