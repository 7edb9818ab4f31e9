// Selector: a select over a list of cases that is made at run time.
//
// Example
//   leat::Selector any;
//   for (const auto& shard : shards) any.add(leat::on_recv(shard, handle));
//   while (open > 0) any.select();
//
// Semantics: as select.h. Exactly one case takes effect, each ready case is chosen with equal
// probability, and then its handler runs.
//
// Thread safety: a Selector is used by one fiber or thread at a time. Its handlers may change it.
//
// Ownership and lifetime: a Selector owns its cases with their values, and keeps their channels
// alive. Only add() and set() allocate; selecting does not, except for cases of descriptors (io.h).
//
// Errors: as select.h; std::out_of_range for an index that add() has not returned;
// std::length_error for too many cases.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "leat/csp/channel/core.h"
#include "leat/csp/clock.h"
#include "leat/csp/select.h"

namespace leat {

/// A list of cases, such as on_recv, on_send and on_readable, to select over, again and again.
///
/// Each case has an index, in the order of add(). A disabled case is never ready. An on_send case
/// is disabled once it has been chosen, because its value is gone; set() gives it the next one.
///
/// Cost: O(n log n) for n cases.
class Selector {
 public:
  /// The largest number of cases, which is also Go's.
  static constexpr std::size_t kMostCases = 65'536;

  /// Adds a case and returns its index. Throws std::length_error beyond kMostCases.
  template <SelectCase C>
  std::size_t add(C one) {
    static_assert(C::kIsChannelCase, "timeouts are select_until, otherwise is try_select");
    return add_erased(erase(std::move(one).owned()));
  }
  /// Replaces the case at `index`. Throws std::out_of_range.
  template <SelectCase C>
  void set(std::size_t index, C one) {
    static_assert(C::kIsChannelCase, "timeouts are select_until, otherwise is try_select");
    entries_.at(index) = erase(std::move(one).owned());
  }
  /// Disables the case at `index` until set() replaces it. Throws std::out_of_range.
  void disable(std::size_t index) { entries_.at(index).reset(); }
  /// Returns the number of cases, disabled ones included.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Removes all cases.
  void clear() noexcept { entries_.clear(); }

  /// Waits until one of the cases can proceed, performs it, runs its handler, and returns its
  /// index. Throws as leat::select(). If all cases are disabled, it waits for ever.
  std::size_t select() { return *select_by(Deadline::never()); }
  /// As select(), but waits at most until `deadline` (of the scheduler's clock). Returns
  /// std::nullopt if no case was ready by then.
  std::optional<std::size_t> select_until(TimePoint deadline) {
    return select_by(Deadline(deadline));
  }
  /// As select(), but never waits. Returns std::nullopt if no case is ready. All channels are
  /// compared at one instant.
  std::optional<std::size_t> try_select() { return select_by(Deadline::now()); }

 private:
  class Entry {
   public:
    Entry() = default;
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    virtual ~Entry() = default;
    virtual void describe(Case& one, Deadline deadline) = 0;
    virtual void act(const Case& chosen) = 0;
    [[nodiscard]] virtual bool once() const noexcept = 0;
  };
  template <class C>
  class Erased final : public Entry {
   public:
    explicit Erased(C one) : case_(std::move(one)) {}
    void describe(Case& one, Deadline deadline) override {
      begin_select(deadline, case_);
      case_.describe(one);
    }
    void act(const Case& chosen) override { case_.act(chosen); }
    [[nodiscard]] bool once() const noexcept override { return C::kOnce; }

   private:
    C case_;
  };

  template <class C>
  static std::shared_ptr<Entry> erase(C owned) {
    return std::make_shared<Erased<C>>(std::move(owned));
  }
  std::size_t add_erased(std::shared_ptr<Entry> entry);
  std::optional<std::size_t> select_by(Deadline deadline);

  std::vector<std::shared_ptr<Entry>> entries_;  // null: disabled
  std::vector<Case> cases_;  // for one select at a time; handlers may begin another
};

}  // namespace leat
