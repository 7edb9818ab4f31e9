// A reader: fills slots with the samples of their batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "leat/csp/channel.h"
#include "leat/feeder/dataset.h"
#include "leat/feeder/plan/sampler.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/feeder/sample.h"
#include "leat/feeder/slots/failures.h"
#include "leat/feeder/slots/layout.h"
#include "leat/feeder/slots/slots.h"
#include "leat/feeder/stages/announcer.h"
#include "leat/feeder/stages/fill_meter.h"
#include "leat/feeder/stages/reading.h"

namespace leat::feeder {

/// One reader, with its working memory, which is allocated once. Keeps references. For one fiber.
/// Notes in a Reading which sample it reads.
///
/// While the data is cold, it announces samples ahead of their reads. If the window reaches beyond
/// the end of a batch, the reader takes its next slot before that end, provided that the dataset
/// has announced something and there are slots for all other readers: several readers keep the disk
/// busy by themselves. With autotune, which may want fewer readers next, it takes none.
class Reader {
 public:
  /// What the readers of a prefetcher share.
  struct Shared {
    const Dataset& dataset;
    const PrefetcherOptions& options;
    const Sampler& sampler;
    const Failures& failures;
    const Channel<PinnedSlot*>& work;  // slots to fill
    bool is_virtual;                   // the time
  };
  Reader(const Shared& shared, Reading& reading, std::stop_token stop);

  /// Returns the next slot to fill; waits for it. Throws Cancelled.
  [[nodiscard]] PinnedSlot& next();

  /// Reads the samples that the slot names from `source`, which has those of the dataset, and
  /// updates the slot's batch. Throws leat::Error, with the sample, for a failure beyond the
  /// budget; Cancelled once a stop is requested. With `bypasses_cache`, large copies go past the
  /// CPU's caches (slots/copy.h); past_cache_bytes() then returns the bytes of these.
  ReadCost fill(PinnedSlot& slot, const BatchLayout& layout, const Dataset& source,
                bool bypasses_cache);
  [[nodiscard]] std::uint64_t past_cache_bytes() const noexcept { return past_cache_bytes_; }

 private:
  void list_samples(const PinnedSlot& slot, std::vector<std::uint64_t>& samples) const;
  void announce_ahead(const PinnedSlot& slot);
  void take_early();
  void close_rows(PinnedSlot& slot, const BatchLayout& layout) const;
  void pad(PinnedSlot& slot, const BatchLayout& layout) const;
  void fill_samples(PinnedSlot& slot, const BatchLayout& layout);
  void fill_pieces(PinnedSlot& slot, const BatchLayout& layout);
  void read(PinnedSlot& slot, std::uint64_t sample, std::uint64_t* past_cache);
  void check_bools() const;
  void write_length(std::size_t field, PinnedSlot& slot, const BatchLayout& layout,
                    std::size_t row) const;
  void copy_piece(const Piece& piece, std::uint64_t sample, std::span<std::byte> memory,
                  const BatchLayout& layout, std::uint64_t element) const;
  void set_aside_or_throw(PinnedSlot& slot, std::uint64_t sample);

  const Dataset& dataset_;
  const PrefetcherOptions& options_;
  const Sampler& sampler_;
  const Failures& failures_;
  const Channel<PinnedSlot*>& work_;
  Reading& reading_;
  const std::stop_token stop_;
  const Dataset* source_ = nullptr;  // of the batch
  std::uint64_t past_cache_bytes_ = 0;
  std::uint64_t* past_cache_ = nullptr;  // where copies count, if they go past the caches
  std::vector<std::span<std::byte>> rooms_;
  std::vector<std::size_t> lengths_;
  std::vector<std::uint64_t> samples_;  // the batch's
  std::size_t announced_ = 0;           // the first of them that is not announced
  const PinnedSlot* listed_ = nullptr;  // whose samples are listed before it is filled
  PinnedSlot* early_ = nullptr;         // the next slot, taken before its turn
  std::vector<std::uint64_t> early_samples_;
  std::size_t early_announced_ = 0;
  Announcer announcer_;
  FillMeter meter_;
  Scratch scratch_;
};

}  // namespace leat::feeder
