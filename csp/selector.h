// select over a list of cases that is made at run time.
//
// Example
//   leat::Selector any;
//   for (const auto& shard : shards) any.add(leat::on_recv(shard, handle));
//   while (open > 0) any.select();
//
// Semantics are those of select.h: exactly one case takes effect, chosen uniformly among those that
// are ready, and its handler runs.
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

/// A list of on_recv and on_send cases to select over, again and again. Keeps its channels alive.
///
/// A case has an index, in the order of add(). A disabled case is never ready, as one of the nil
/// channel. An on_send that owns its value is disabled when it has been chosen, since its value is
/// gone; one that borrows sends what its variable holds then.
///
/// Used by one fiber or thread at a time; handlers may change it. Allocates in add() and set()
/// only. Cost: O(n log n) for n cases.
class Selector {
 public:
  /// As many cases as Go allows.
  static constexpr std::size_t kMostCases = 65'536;

  /// Adds a case and returns its index. Throws std::length_error beyond kMostCases.
  template <SelectCase C>
  std::size_t add(C one) {
    static_assert(C::kIsChannelCase, "timeouts are select_until, otherwise is try_select");
    one.own();
    return add_erased(std::make_shared<Erased<C>>(std::move(one)));
  }
  /// Puts another case in the place of `index`. Throws std::out_of_range.
  template <SelectCase C>
  void set(std::size_t index, C one) {
    static_assert(C::kIsChannelCase, "timeouts are select_until, otherwise is try_select");
    one.own();
    entries_.at(index) = std::make_shared<Erased<C>>(std::move(one));
  }
  /// The case of `index` is never ready any more, until set(). Throws std::out_of_range.
  void disable(std::size_t index) { entries_.at(index).reset(); }
  /// Cases, also those disabled.
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// No cases any more.
  void clear() noexcept { entries_.clear(); }

  /// Waits for one of the cases; runs its handler; returns its index. Throws what the handler
  /// throws, Cancelled, and what select() does. Without a case that can ever be ready it waits for
  /// ever.
  std::size_t select() { return *select_by(Deadline::never()); }
  /// Waits at most until `deadline` (of the scheduler's clock): nullopt if none was ready by then.
  std::optional<std::size_t> select_until(TimePoint deadline) {
    return select_by(Deadline(deadline));
  }
  /// nullopt if no case is ready now, decided at one instant for all channels.
  std::optional<std::size_t> try_select() { return select_by(Deadline::now()); }

 private:
  class Entry {
   public:
    Entry() = default;
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    virtual ~Entry() = default;
    virtual void describe(Case& one) noexcept = 0;
    virtual void act(const Case& chosen) = 0;
    [[nodiscard]] virtual bool once() const noexcept = 0;
  };
  template <class C>
  class Erased final : public Entry {
   public:
    explicit Erased(C one) : case_(std::move(one)) {}
    void describe(Case& one) noexcept override { case_.describe(one); }
    void act(const Case& chosen) override { case_.act(chosen); }
    [[nodiscard]] bool once() const noexcept override { return C::kOwnsValue; }

   private:
    C case_;
  };

  std::size_t add_erased(std::shared_ptr<Entry> entry);
  std::optional<std::size_t> select_by(Deadline deadline);

  std::vector<std::shared_ptr<Entry>> entries_;  // null: disabled
  std::vector<Case> cases_;  // for one select at a time; handlers may begin another
};

}  // namespace leat
