// What `leat.Prefetcher` is made of: options, the feed that runs, and the state to resume from.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leat/csp/clock.h"
#include "leat/feeder/prefetcher_options.h"
#include "leat/gpu/device.h"
#include "leat/python/loops/feeding.h"

namespace leat::python {

class Counting;
class Loop;

/// `leat._core.Prefetcher`, the base of leat.Prefetcher. With the GIL, as all objects of Python.
///
/// It has one Feeding at a time: a state that is loaded takes effect with the next loop, which
/// closes the feeding and makes another.
class PrefetcherObject {
 public:
  /// What leat.Prefetcher passes. `framework` is a name of leat.frameworks or None; `options` has
  /// their checked values by name.
  PrefetcherObject(nanobind::object dataset, const std::string& device,
                   const nanobind::object& framework, const nanobind::dict& options,
                   bool copies_escapes, std::optional<double> timeout);
  ~PrefetcherObject();
  PrefetcherObject(const PrefetcherObject&) = delete;
  PrefetcherObject& operator=(const PrefetcherObject&) = delete;

  /// Begins `epoch` for `loop`, with the state that was loaded, if there is one. Ends the loop
  /// before. Returns the feeding, and in `left` how many batches the loop has.
  [[nodiscard]] std::shared_ptr<Feeding> begin(Loop& loop, std::uint64_t epoch,
                                               std::uint64_t& left);
  /// A copy of the batch that comes next: of the loop that runs, or else of the next epoch. It is
  /// delivered all the same. `self` is this object.
  [[nodiscard]] nanobind::object peek(nanobind::handle self);
  /// `loop` is left.
  void leave(const Loop& loop) noexcept;
  /// How many batches a loop over `epoch` would have if it began now.
  [[nodiscard]] std::uint64_t batches_of(std::uint64_t epoch) const;
  /// The epoch that `iter(feed)` begins.
  [[nodiscard]] std::uint64_t next_epoch() const noexcept { return next_epoch_; }

  /// The state, as C++ writes it. `in_hand`: with the batch in hand. Where no loop runs, a state
  /// that was loaded takes effect.
  [[nodiscard]] std::string state(bool in_hand);
  /// `text` takes effect with the next loop. Throws nanobind::value_error for the state of another
  /// run.
  void load(std::string text, bool accept_dataset);
  /// Ends the feed, and waits for the reads that are under way.
  void close();

  /// The feed that runs.
  [[nodiscard]] Feeding& feeding() const noexcept { return *feeding_; }
  [[nodiscard]] const nanobind::object& dataset() const noexcept { return dataset_; }
  [[nodiscard]] const nanobind::object& framework() const noexcept { return framework_; }
  [[nodiscard]] const feeder::PrefetcherOptions& options() const noexcept { return options_; }
  [[nodiscard]] const gpu::Device& device() const noexcept { return device_; }
  [[nodiscard]] std::optional<Duration> timeout() const noexcept { return timeout_; }
  /// What to do when a batch is asked for while max_leases - 1 are held: copy it, or throw.
  [[nodiscard]] bool copies_escapes() const noexcept { return copies_escapes_; }
  /// Batches that were copied since the beginning.
  [[nodiscard]] std::uint64_t copies() const noexcept { return copies_; }
  /// A batch will be copied: warns, the first time. Throws what a handler of the log raises.
  void warn_of_copies();
  /// A loop has ended after its first batch: warns with `text`, the first time. For destructors,
  /// too.
  void warn_of_look(const std::string& text) noexcept;
  /// Who asks for batches also makes them: calls `step`, which makes one, if one is wanted now, and
  /// says whether it did.
  void read_in_caller(nanobind::object step) { step_ = std::move(step); }
  /// What was given to read_in_caller(); invalid: others make them.
  [[nodiscard]] const nanobind::object& step() const noexcept { return step_; }
  /// A batch was copied.
  void count_copy() noexcept { ++copies_; }
  /// Whether it is known how many batches an epoch has: not where the caller or the readers decide.
  [[nodiscard]] bool has_length() const noexcept { return options_.order != feeder::Order::kDrawn; }
  /// Throws TypeError unless has_length().
  void require_length() const;
  /// Batches of a whole epoch.
  [[nodiscard]] std::uint64_t batches_per_epoch() const noexcept { return batches_; }

  /// For the garbage collector.
  int traverse(visitproc visit, void* arg) const;
  /// For the garbage collector.
  void clear() noexcept;

 private:
  struct Rest {
    std::uint64_t epoch = 0;
    std::uint64_t batches = 0;  // that are left
  };
  [[nodiscard]] std::shared_ptr<Feeding> make_feeding() const;
  void end_device() noexcept;
  void drop_look() noexcept;
  void note_rests(const std::string& state);
  [[nodiscard]] bool is_rest(std::uint64_t epoch) const;
  // What state() returns while nothing but a look has begun since.
  struct BeforeLook {
    std::string without;                      // the batch in hand
    std::string with;                         // it, if there was one
    std::shared_ptr<const Counting> in_hand;  // null: there was none
  };
  // The state that was loaded takes effect; loops over the feeding before end, and say `why`.
  void take_loaded(const std::string& why);

  nanobind::object dataset_;
  nanobind::object framework_;
  nanobind::object step_;
  gpu::Device device_;
  feeder::PrefetcherOptions options_;
  const bool copies_escapes_;
  const std::optional<Duration> timeout_;
  std::shared_ptr<Feeding> feeding_;
  std::uint64_t batches_ = 0;
  std::optional<std::string> loaded_;  // takes effect with the next loop
  std::uint64_t next_epoch_ = 0;
  std::vector<Rest> rests_;  // of the epochs of the state that was resumed from
  Loop* latest_ = nullptr;   // if it is not left
  std::uint64_t copies_ = 0;
  std::shared_ptr<Loop> peeked_;           // the look that has begun next_epoch_
  std::optional<BeforeLook> before_look_;  // with peeked_. Beginning an epoch ends the one before
  bool has_warned_of_copies_ = false;
  bool has_warned_of_look_ = false;
  bool has_begun_ = false;  // a loop or a look
  bool is_taking_ = false;  // a call is in take_loaded()
};

/// As leat.merge_states(), of texts. Throws nanobind::value_error for a text that is no state, and
/// for states that do not go together.
[[nodiscard]] std::string merge_states(const std::vector<std::string>& texts);

}  // namespace leat::python
