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

/// Whether reading may keep its thread for longer than it computes, and hence where it is done.
enum class Blocking : std::uint8_t {
  kNever,  // memory, arithmetic. On the reader's fiber, where a read may park. Meanwhile it has one
           // of the scheduler's threads: what is long holds up all that runs there
  kSeldom,  // a file that is mostly in memory. On the fiber as long as whole batches take less than
            // a millisecond, else on a thread of its own. A read must not park
  kOften,   // on a thread of its own, always, with a thread's stack (csp/blocking.h). Nothing there
            // is a fiber's: a read that waits blocks the thread
};

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
  /// leat::Error, saying file and offset. Where it runs, blocking() tells.
  ///
  /// A function of `index`, `out.epoch()` and what `out.random()` gives: on that rest the same
  /// batches after a resume.
  virtual void read(std::uint64_t index, Sample& out) const = 0;

  /// Constant.
  [[nodiscard]] virtual Blocking blocking() const noexcept { return Blocking::kNever; }
  /// Sample `index` < size() will be read soon by the calling reader, after one or two others: a
  /// chance to have the processor fetch it into its cache meanwhile. Does nothing that waits or
  /// throws, and need not do anything.
  virtual void will_read(std::uint64_t /*index*/) const noexcept {}
  /// The length that read() will set in field `field`, which has a variable one; std::nullopt where
  /// only reading tells. Cheap: samples are packed by it (PrefetcherOptions::packing).
  [[nodiscard]] virtual std::optional<std::size_t> length(std::uint64_t /*index*/,
                                                          std::size_t /*field*/) const {
    return std::nullopt;
  }
};

}  // namespace leat::feeder
