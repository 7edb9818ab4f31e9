// What the tests of a prefetcher share: epochs, as they come and as they should, in every place
// that a prefetcher may run in.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/scheduler.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/prefetcher.h"
#include "tests/support/numbers.h"
#include "tests/support/places.h"

namespace leat::feeder {

using Batches = std::vector<std::vector<std::uint64_t>>;

// The batches that are left of an epoch, as the CPU reads them.
inline Batches rest_of(Prefetcher& feed) {
  Batches batches;
  while (std::optional<Lease> batch = feed.next())
    batches.push_back(support::NumbersView(*batch).samples());
  return batches;
}

inline Batches epoch_of(Prefetcher& feed, std::uint64_t number) {
  Batches batches;
  for (Lease& batch : feed.epoch(number)) {
    EXPECT_EQ(batch.epoch(), number);
    EXPECT_EQ(batch.index(), batches.size());
    batches.push_back(support::NumbersView(batch).samples());
    EXPECT_EQ(batch.size(), batches.back().size());
  }
  return batches;
}

inline Batches expected_epoch(const Dataset& data, const PrefetcherOptions& options,
                              std::uint64_t number) {
  Batches batches;
  for (std::uint64_t first = 0; first < data.size(); first += options.batch_size) {
    if (options.last_batch == LastBatch::kDrop && first + options.batch_size > data.size()) break;
    batches.push_back(support::expected_samples(data, options, number, batches.size()));
  }
  return batches;
}

inline void expect_contains(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* const part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << '"' << text << "\" lacks \"" << part << '"';
  }
}

class PrefetcherTest : public support::PlaceTest {
 protected:
  // Readers finish in another order than they began: in virtual time each sample takes its own, on
  // real workers each lets others go first.
  static std::function<void(std::uint64_t)> uneven_reads() {
    if (GetParam() == support::Place::kPlainThread) {
      return [](std::uint64_t sample) {
        for (std::uint64_t i = 0; i < sample % 5; ++i) yield();
      };
    }
    return [](std::uint64_t sample) { sleep_for(Duration(sample * 7919 % 97)); };
  }
};

}  // namespace leat::feeder
