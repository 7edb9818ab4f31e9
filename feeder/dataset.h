// Datasets: where samples come from.
//
// Example: a dataset of one's own (for a function alone, there is sources/function.h)
//   class Squares final : public leat::feeder::Dataset {
//    public:
//     std::string_view name() const noexcept override { return "squares"; }
//     std::span<const Field> fields() const noexcept override { return fields_; }
//     std::uint64_t size() const noexcept override { return 1000; }
//     void read(std::uint64_t index, Sample& out) const override {
//       out.as<std::int64_t>(0)[0] = static_cast<std::int64_t>(index * index);
//     }
//    private:
//     std::vector<Field> fields_{{"square", DType::kInt64, {}}};
//   };
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "leat/feeder/field.h"
#include "leat/feeder/sample.h"

namespace leat::feeder {

/// Samples by number.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// For error messages and reports.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The tensors of a sample; constant over the dataset's life.
  [[nodiscard]] virtual std::span<const Field> fields() const noexcept = 0;
  /// Number of samples; constant.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Writes sample `index` < size() into `out`, whose fields are fields(): straight into pinned
  /// memory, so decode there. Called from several fibers or threads at the same time. Throws
  /// leat::Error, saying file and offset. May park, where reads_block() is false.
  ///
  /// A function of `index`, `out.epoch()` and what `out.random()` gives: on that rest the same
  /// batches after a resume.
  virtual void read(std::uint64_t index, Sample& out) const = 0;

  /// Whether read() may block its thread for longer than it computes (a file, a page that is not
  /// in memory): a batch of such samples is then read on a thread of its own (csp/blocking.h), and
  /// read() runs on no fiber.
  [[nodiscard]] virtual bool reads_block() const noexcept { return false; }
  /// The length that read() will set in field `field`, which has a variable one; std::nullopt where
  /// only reading tells. Cheap: samples are packed by it (PrefetcherOptions::packing).
  [[nodiscard]] virtual std::optional<std::size_t> length(std::uint64_t /*index*/,
                                                          std::size_t /*field*/) const {
    return std::nullopt;
  }
};

}  // namespace leat::feeder
