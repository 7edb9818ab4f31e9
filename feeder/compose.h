// Datasets of datasets: parts, sequences, mixtures, weighted draws.
//
// Example: train on a mixture of two datasets, and keep a tenth of one for tests
//   const auto web = leat::feeder::split(all_web, {.9, .1});
//   const leat::feeder::Mixture train({{web[0], .7}, {books, .3}}, {.samples = 1'000'000});
//   leat::feeder::Prefetcher feed(train, device, {.batch_size = 256, .seed = 7});
//
// Which sample a number stands for is a pure function of (seed, epoch, number). So these datasets
// resume, and are read by ranks and workers, as others are.
//
// Thread safety: const functions are thread-safe if those of the parts are.
// Ownership: datasets are kept by reference. They must outlive what is composed of them.
// Errors: std::invalid_argument, when it is made, for what cannot be composed: a part that makes
// its batches as a whole (feeder/batch_source.h); fields that differ; numbers and weights as told
// below. A read rethrows unchanged what the read of the part throws; a prefetcher adds part and
// number.
//
// Blocking: reads block as often as those of the part that blocks most. So samples of a part of
// Blocking::kNever may be read on a thread, where waiting by Leat's means blocks the thread.
//
// Random numbers: Sample::random() follows from the number in the composed dataset. A sample that
// comes several times in an epoch of a mixture is augmented anew each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leat/feeder/dataset.h"

namespace leat::feeder {

class PartList;

/// What datasets of datasets have in common: each of their samples is one of a part. The datasets
/// below say which.
class Composed : public Dataset {
 public:
  ~Composed() override;

  [[nodiscard]] std::string_view name() const noexcept override { return name_; }
  /// Returns those of the parts; of variable length, the longest.
  [[nodiscard]] std::span<const Field> fields() const noexcept override;
  /// Returns that of the part that blocks most.
  [[nodiscard]] Blocking blocking() const noexcept override;
  /// Returns whether the numbers of the parts are an order.
  [[nodiscard]] bool is_ordered() const noexcept override;
  /// Returns whether one of the parts varies.
  [[nodiscard]] bool varies_by_epoch() const noexcept override;
  /// Follows from the digests and sizes of the parts, and from how they are composed. Not 0.
  [[nodiscard]] std::uint64_t digest() const noexcept override { return digest_; }
  /// Throws leat::Error if there is no sample `index`, and what the part throws.
  void read(std::uint64_t index, Sample& out) const override;
  [[nodiscard]] std::string origin(std::uint64_t index, std::uint64_t seed,
                                   std::uint64_t epoch) const override;
  void will_read(std::uint64_t index, std::uint64_t seed,
                 std::uint64_t epoch) const noexcept override;
  std::uint64_t announce(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept override;
  /// Returns the length in the part; std::nullopt if the dataset varies by epoch.
  [[nodiscard]] std::optional<std::size_t> length(std::uint64_t index,
                                                  std::size_t field) const override;

 protected:
  /// A sample of a part, and the epoch that it is read for.
  struct Found {
    std::size_t part = 0;
    std::uint64_t number = 0;
    std::uint64_t epoch = 0;
  };
  /// `parts` are kept by reference. `kind` is for messages: "Subset".
  Composed(std::vector<const Dataset*> parts, const char* kind, std::string name);
  /// Returns which sample of which part `index` < size() stands for.
  [[nodiscard]] virtual Found find(std::uint64_t index, std::uint64_t seed,
                                   std::uint64_t epoch) const noexcept = 0;
  [[nodiscard]] const PartList& parts() const noexcept { return *parts_; }
  /// Makes digest() follow from these numbers, too: how the parts are composed.
  void compose_digest(std::initializer_list<std::uint64_t> numbers,
                      std::span<const std::uint64_t> more = {}) noexcept;

 private:
  std::unique_ptr<const PartList> parts_;
  std::string name_;
  std::uint64_t digest_;
};

/// Some samples of a dataset. Packs, if the dataset does.
class Subset final : public Composed {
  struct Rule;

 public:
  /// The samples of these numbers, in this order; a number may come several times. Takes 8 bytes a
  /// number. Throws std::invalid_argument for a number that is not below `from.size()`.
  Subset(const Dataset& from, std::vector<std::uint64_t> numbers);
  /// Sample i is `from`'s sample first + i * step, for `count` samples. Takes no memory. Throws
  /// std::invalid_argument if one of them is not in 0 .. from.size() - 1.
  [[nodiscard]] static Subset range(const Dataset& from, std::uint64_t first, std::uint64_t count,
                                    std::int64_t step = 1);
  /// For range() and split().
  Subset(const Dataset& from, Rule rule);
  ~Subset() override;

  [[nodiscard]] std::uint64_t size() const noexcept override;

 private:
  friend std::deque<Subset> split(const Dataset& from, std::span<const double> parts,
                                  std::uint64_t seed);
  [[nodiscard]] Found find(std::uint64_t index, std::uint64_t seed,
                           std::uint64_t epoch) const noexcept override;

  std::unique_ptr<const Rule> rule_;
};

/// Divides a dataset at random into parts that have no sample in common: each sample is in one of
/// them. `parts` are their shares, relative to each other; the sizes are by the largest remainder.
/// The parts depend on `seed` alone, which is none of the run's, and are the same in each epoch. So
/// nothing leaks from one into another. Takes no memory. Throws std::invalid_argument for a share
/// that is negative, infinite, not a number, or so small that its part has no sample, and for a
/// dataset whose numbers stand for other samples in each epoch: divide its parts.
[[nodiscard]] std::deque<Subset> split(const Dataset& from, std::span<const double> parts,
                                       std::uint64_t seed = 0);
/// The same, for a list in braces.
[[nodiscard]] std::deque<Subset> split(const Dataset& from, std::initializer_list<double> parts,
                                       std::uint64_t seed = 0);

/// Datasets one after the other; one may come several times. The fields are equal, in names, types,
/// shapes and order; of variable length, the longest counts. Packs, if all parts do: a part that is
/// given twice is the way to weight what is packed.
class Concat final : public Composed {
 public:
  /// Throws std::invalid_argument if there is no part, or if some parts are mixtures, which bring
  /// an order along, and others are not.
  explicit Concat(const std::vector<std::reference_wrapper<const Dataset>>& of);

  [[nodiscard]] std::uint64_t size() const noexcept override { return ends_.back(); }

 private:
  [[nodiscard]] Found find(std::uint64_t index, std::uint64_t seed,
                           std::uint64_t epoch) const noexcept override;

  std::vector<std::uint64_t> ends_;  // by part: one behind its last sample
};

/// A part of a mixture, kept by reference.
struct MixturePart {
  std::reference_wrapper<const Dataset> dataset;
  /// Its share of an epoch, relative to the others'. All parts have one, or none: then their sizes
  /// are the weights.
  std::optional<double> weight = std::nullopt;
};

/// Weights from an epoch on. A value.
struct MixtureStage {
  std::uint64_t first_epoch = 0;
  std::vector<double> weights;  ///< one for each part
};

/// How a mixture is made. A value.
struct MixtureOptions {
  /// Samples in an epoch. nullopt: as many as the parts have together.
  std::optional<std::uint64_t> samples = std::nullopt;
  /// A curriculum: other weights from later epochs on, ascending. The parts' own weights are those
  /// from epoch 0 on, unless the first stage is. A stage that is appended changes nothing before
  /// it; as the dataset is another then, a run resumes on it only if told to (State::dataset).
  std::vector<MixtureStage> stages = {};
  /// Whether each pass through a part has an order of its own; else it is that of the numbers.
  bool shuffle = true;
};

/// Several datasets, evenly mixed by weights. The fields are equal, as in Concat.
///
/// An epoch has as many samples of each part as its weight says, rounded by the largest remainder,
/// at places that are evenly spread: a part's samples among any in a row differ from its share by
/// at most ceil(log2 parts). With neither weights nor `samples`, an epoch has each sample once.
///
/// Each part is passed through completely, shuffled anew for each pass, before it begins again, and
/// epochs go on with the pass where the last one stopped. So at no time a sample was visited more
/// than once more than another of its part. A last batch that is dropped is passed over: have
/// `samples` be a multiple of the batch size.
///
/// The order is the mixture's own: PrefetcherOptions::order has no effect, and its seed has.
///
/// A part whose numbers stand for other samples in each epoch (a mixture, weighted draws) is read
/// as if each pass were an epoch. One that has an order keeps it.
///
/// Ranks get slices of a batch. If the batch is a multiple of the period of the weights, a rank has
/// the same places of the period for ever, and so may never have some parts; the whole batch has
/// all of them.
///
/// Cannot be packed: pack a Concat with parts that come several times, or mix windows of a fixed
/// length (TokenShards).
class Mixture final : public Composed {
 public:
  /// Throws std::invalid_argument if there is no part; for weights that are negative, infinite, not
  /// a number, or all 0; for one above 0 that gives no sample in an epoch, or that an empty part
  /// has; for stages that do not ascend, or have another number of weights.
  explicit Mixture(const std::vector<MixturePart>& of, const MixtureOptions& options = {});
  ~Mixture() override;

  /// A sample of a part.
  struct Place {
    std::size_t part = 0;
    std::uint64_t number = 0;  ///< in the part
    std::uint64_t pass = 0;    ///< through the part: how often all its samples came before
  };
  /// Returns which sample has number `index` < size() in `epoch` of a run with `seed`.
  [[nodiscard]] Place at(std::uint64_t index, std::uint64_t seed,
                         std::uint64_t epoch) const noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept override;
  [[nodiscard]] bool is_ordered() const noexcept override { return true; }
  [[nodiscard]] bool varies_by_epoch() const noexcept override { return true; }

 private:
  [[nodiscard]] Found find(std::uint64_t index, std::uint64_t seed,
                           std::uint64_t epoch) const noexcept override;

  struct Plan;
  std::unique_ptr<const Plan> plan_;
};

/// How samples are drawn. A value.
struct WeightedOptions {
  /// Samples in an epoch. nullopt: as many as the dataset has.
  std::optional<std::uint64_t> samples = std::nullopt;
  /// Draw each sample independently of the others. Else each comes as often as its weight says,
  /// rounded down or up.
  bool replacement = false;
};

/// Samples of a dataset, as often as their weights say, for instance so that rare classes are as
/// frequent as others. Each epoch draws anew, by the seed of the run. Without `replacement` the
/// samples come in the order of their numbers, which the prefetcher shuffles. Takes 8 bytes a
/// sample of the dataset. Cannot be packed, as a Mixture cannot.
class Weighted final : public Composed {
 public:
  /// Sample i of `from` has the weight `weights[i]`. Throws std::invalid_argument for another
  /// number of weights; for weights that are negative, infinite, not a number, or all 0, or have an
  /// infinite sum; for `samples` of 0; for a dataset that varies by epoch.
  Weighted(const Dataset& from, std::span<const double> weights,
           const WeightedOptions& options = {});

  /// Returns which sample of the dataset has number `index` < size() in `epoch` of a run with
  /// `seed`.
  [[nodiscard]] std::uint64_t at(std::uint64_t index, std::uint64_t seed,
                                 std::uint64_t epoch) const noexcept;

  [[nodiscard]] std::uint64_t size() const noexcept override { return size_; }
  [[nodiscard]] bool varies_by_epoch() const noexcept override { return true; }

 private:
  [[nodiscard]] Found find(std::uint64_t index, std::uint64_t seed,
                           std::uint64_t epoch) const noexcept override;

  std::uint64_t size_;
  bool replacement_;
  std::vector<std::uint64_t> ends_;  // by sample: the integer weights up to it
};

/// A dataset, and in each sample its number: a field "number", an int64, behind the others. Of a
/// Mixture, the number is that in the part, and a field "source", an int64, has the part; of a
/// Weighted, the number is that in the dataset.
class Numbered final : public Composed {
 public:
  /// Throws std::invalid_argument if `from` has a field of such a name.
  explicit Numbered(const Dataset& from);

  [[nodiscard]] std::span<const Field> fields() const noexcept override { return fields_; }
  [[nodiscard]] std::uint64_t size() const noexcept override { return from_.size(); }
  void read(std::uint64_t index, Sample& out) const override;
  /// Returns the origin in the dataset, which has the same numbers.
  [[nodiscard]] std::string origin(std::uint64_t index, std::uint64_t seed,
                                   std::uint64_t epoch) const override {
    return from_.origin(index, seed, epoch);
  }

 private:
  [[nodiscard]] Found find(std::uint64_t index, std::uint64_t /*seed*/,
                           std::uint64_t epoch) const noexcept override {
    return {.number = index, .epoch = epoch};
  }

  const Dataset& from_;
  const Mixture* mixture_;    // from_, if it is one
  const Weighted* weighted_;  // likewise
  std::vector<Field> fields_;
};

}  // namespace leat::feeder
