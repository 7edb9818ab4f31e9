// Datasets: samples by number.
//
// Derive from Dataset to feed a format of your own. sources/ has datasets for common formats;
// sources/function.h makes a dataset of one function.
//
// Example
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
//
// Thread safety: const functions are called from several fibers and threads at the same time.
// Ownership: a dataset outlives the prefetchers that read from it.
// Errors: read() throws leat::Error, with file and offset, for a sample that cannot be read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "leat/feeder/field.h"
#include "leat/feeder/sample.h"

namespace leat::feeder {

class BatchSource;

/// How often read() blocks its thread, for instance on the disk. Decides where read() is called.
enum class Blocking : std::uint8_t {
  /// Never: memory, arithmetic. Called on the reader's fiber; a read may park. A long read occupies
  /// one of the scheduler's threads, and delays the other fibers of that thread.
  kNever,
  /// Seldom: a file that is mostly in memory. Called on the reader's fiber while whole batches take
  /// less than a millisecond, else on a thread of its own. A read must not park.
  kSeldom,
  /// Often. Called on a thread of its own, with the stack of a thread (csp/blocking.h). That thread
  /// is not a fiber: a read that waits blocks the thread.
  kOften,
};

/// Samples by number. The base class of all sources.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// Returns the name for error messages and reports.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// Returns the tensors of a sample. Constant over the life of the dataset.
  [[nodiscard]] virtual std::span<const Field> fields() const noexcept = 0;
  /// Returns the number of samples. Constant.
  [[nodiscard]] virtual std::uint64_t size() const noexcept = 0;
  /// Writes sample `index` < size() into `out`, whose fields are fields(). The memory of `out` is
  /// the pinned memory of the batch: decode straight into it. Called from several fibers or threads
  /// at the same time; blocking() says where. Throws leat::Error, with file and offset.
  ///
  /// The sample must depend on `index`, `out.seed()`, `out.epoch()` and the numbers of
  /// `out.random()` alone, so that a resumed run reads the same batches.
  virtual void read(std::uint64_t index, Sample& out) const = 0;

  /// Returns how often read() blocks. Constant.
  [[nodiscard]] virtual Blocking blocking() const noexcept { return Blocking::kNever; }
  /// A number that tells datasets apart. A state keeps it, and a run resumes only on a dataset with
  /// the same digest. Sources of files compute it from the names, without folders, and the sizes of
  /// their files; datasets of datasets, from those of their parts and how they are composed. 0: not
  /// known, and not compared. Constant.
  [[nodiscard]] virtual std::uint64_t digest() const noexcept { return 0; }
  /// Returns whether the numbers are an order already, as those of a mixture are. Then the
  /// prefetcher takes the samples by number, whatever PrefetcherOptions::order says. Constant.
  [[nodiscard]] virtual bool is_ordered() const noexcept { return false; }
  /// Returns whether a number stands for another sample in another epoch (feeder/compose.h). Such a
  /// dataset cannot be packed: its epochs have different numbers of elements. Constant.
  [[nodiscard]] virtual bool varies_by_epoch() const noexcept { return false; }
  /// Returns where read() takes sample `index` of `epoch` from, for messages: "number 3 of part 1,
  /// "photos"". Empty: the dataset has it itself. `seed` is PrefetcherOptions::seed. Thread-safe.
  [[nodiscard]] virtual std::string origin(std::uint64_t /*index*/, std::uint64_t /*seed*/,
                                           std::uint64_t /*epoch*/) const {
    return {};
  }
  /// Returns this dataset as one that makes batches as a whole (feeder/batch_source.h); null: its
  /// samples are read one by one. Constant.
  [[nodiscard]] virtual const BatchSource* as_batch_source() const noexcept { return nullptr; }
  /// A hint: the calling reader will read sample `index` < size() of `epoch` soon, after one or two
  /// other samples. `seed` is PrefetcherOptions::seed. An override may ask the processor to fetch
  /// the sample into its cache. It must not wait.
  virtual void will_read(std::uint64_t /*index*/, std::uint64_t /*seed*/,
                         std::uint64_t /*epoch*/) const noexcept {}
  /// Announces that the calling reader will read sample `index` < size() of `epoch`, after up to 63
  /// other samples. An override has the disk fetch the sample's bytes, by madvise(2) or
  /// posix_fadvise(2) with WILLNEED, and does not wait for them; it may open a file. Returns how
  /// many bytes it has announced, 0 if none. Readers keep about 2 MiB announced.
  ///
  /// Called on the fiber or thread that calls read(), and only while the reader's data is cold, so
  /// data in memory costs nothing. Data of Blocking::kNever counts as hot. An announcement changes
  /// no sample: without it, read() reads the same.
  virtual std::uint64_t announce(std::uint64_t /*index*/, std::uint64_t /*seed*/,
                                 std::uint64_t /*epoch*/) const noexcept {
    return 0;
  }
  /// Returns the length that read() will set in field `field` of variable length; std::nullopt if
  /// only the read tells it. Must be cheap: packing calls it for every sample
  /// (PrefetcherOptions::packing).
  [[nodiscard]] virtual std::optional<std::size_t> length(std::uint64_t /*index*/,
                                                          std::size_t /*field*/) const {
    return std::nullopt;
  }
};

}  // namespace leat::feeder
