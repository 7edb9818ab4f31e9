#include "leat/comm/exchange/agreement.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "leat/csp/wait/random.h"

namespace leat::comm {
namespace {

constexpr std::array<const char*, 8> kOptions = {
    "policy",          "urgency",      "weights",      "synchronous",
    "partition_bytes", "credit_bytes", "bucket_bytes", "the number of gradients"};
constexpr std::size_t kBucketBytes = 6;  // in kOptions; compared by a hash

std::int64_t hash(std::string_view text) {
  std::uint64_t value = text.size();
  for (const char c : text) value = mix(value * 0x100000001B3U + static_cast<unsigned char>(c));
  return static_cast<std::int64_t>(value);
}

// A row of what each rank has, by rank. All have rows of one length.
class Table {
 public:
  Table(const Communicator& ranks, const std::vector<std::int64_t>& mine)
      : columns_(mine.size()), all_(static_cast<std::size_t>(ranks.size()) * mine.size()) {
    ranks.all_gather(mine, all_).await();
  }
  [[nodiscard]] std::int64_t at(std::size_t rank, std::size_t column) const {
    return all_[rank * columns_ + column];
  }

 private:
  const std::size_t columns_;
  std::vector<std::int64_t> all_;
};

// The first bytes of a name, for a row.
constexpr std::size_t kWords = 16;

std::vector<std::int64_t> packed(const std::string& name) {
  std::vector<std::int64_t> words(kWords);
  std::memcpy(words.data(), name.data(), std::min(name.size(), kWords * sizeof(std::int64_t)));
  return words;
}

std::string unpacked(const Table& table, std::size_t rank) {
  std::string name;
  for (std::size_t i = 0; i < kWords; ++i) {
    const std::int64_t word = table.at(rank, i);
    name.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return name.substr(0, name.find('\0'));
}

}  // namespace

std::vector<int> agree(const Communicator& ranks, const Plan& plan,
                       const ExchangeOptions& options) {
  const Transport& end = *ranks.transport();
  const auto size = static_cast<std::size_t>(ranks.size());
  std::vector<int> in_world;
  // All ranks look at all of it, so that all find the same difference.
  const auto compare = [&](std::int64_t first, std::int64_t other, std::size_t rank,
                           const std::string& tensor, const auto& describe) {
    if (first == other) return;
    const auto on = [&](std::size_t one) { return " on rank " + std::to_string(in_world[one]); };
    end.world().fail({.is_mismatch = true,
                      .peer = in_world[rank],
                      .operation = "GradientExchange",
                      .tensor = tensor,
                      .what = "the exchanges differ: " + describe(first) + on(0) + ", " +
                              describe(other) + on(rank) +
                              "; give all ranks the same gradients and options"});
    end.world().require_alive(end.world_rank());
  };

  std::int64_t limits = 0;
  for (const std::size_t limit : options.bucket_bytes) {
    limits = static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(limits) * 31 + limit));
  }
  const Table table(
      ranks, {static_cast<std::int64_t>(options.policy), static_cast<std::int64_t>(options.urgency),
              static_cast<std::int64_t>(options.weights), options.synchronous ? 1 : 0,
              static_cast<std::int64_t>(options.partition_bytes),
              static_cast<std::int64_t>(options.credit_bytes), limits,
              static_cast<std::int64_t>(plan.gradients.size()), end.world_rank()});
  for (std::size_t rank = 0; rank < size; ++rank) {
    in_world.push_back(static_cast<int>(table.at(rank, kOptions.size())));
  }
  for (std::size_t i = 0; i < kOptions.size(); ++i) {
    for (std::size_t rank = 1; rank < size; ++rank) {
      compare(table.at(0, i), table.at(rank, i), rank, "", [i](std::int64_t value) {
        const std::string what = kOptions[i];
        return i == kBucketBytes ? what + " of other sizes" : what + ' ' + std::to_string(value);
      });
    }
  }

  std::vector<std::int64_t> mine;
  for (const Gradient& one : plan.gradients) {
    mine.insert(mine.end(), {hash(one.name), static_cast<std::int64_t>(one.dtype),
                             static_cast<std::int64_t>(one.count())});
  }
  const Table gradients(ranks, mine);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const Gradient& here = plan.gradients[i / 3];
    const std::string which = "gradient " + std::to_string(i / 3) + " is ";
    for (std::size_t rank = 1; rank < size; ++rank) {
      const std::int64_t first = gradients.at(0, i);
      const std::int64_t other = gradients.at(rank, i);
      if (first == other) continue;
      if (i % 3 == 0) {
        const Table names(ranks, packed(here.name));
        const auto name = [&](std::int64_t of) { return unpacked(names, of == first ? 0 : rank); };
        compare(first, other, rank, name(first),
                [&](std::int64_t of) { return which + '"' + name(of) + '"'; });
      }
      compare(first, other, rank, here.name, [&](std::int64_t value) {
        return which + '"' + here.name + "\" of " +
               (i % 3 == 1 ? gpu::to_string(static_cast<DType>(value))
                           : std::to_string(value) + " elements");
      });
    }
  }
  return in_world;
}

}  // namespace leat::comm
