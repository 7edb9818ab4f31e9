// A bell: rung by those who have changed something, waited for by the one who looks at it.
//
// Example
//   leat::Bell changed("table");
//   leat::go([&] { table.update(); changed.ring(); });
//   for (changed.wait(); !table.is_full(); changed.wait()) print(table);
//
// Thread-safe: any fiber or plain thread may ring and wait. The bell must outlive every call.
//
// Errors: Cancelled where a fiber waits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/clock.h"
#include "leat/csp/select.h"

namespace leat {

/// A bell that remembers that it was rung, once, until somebody hears it. Who hears it sees what
/// was written before each ring() so far. One of several that wait hears a ring.
class Bell {
 public:
  /// Whom a deadlock report expects to ring: who has used the bell, or also others, such as peers.
  enum class RungBy : std::uint8_t { kUsers, kOutsiders };
  /// `name` appears in reports. Throws std::bad_alloc; the calls below allocate nothing.
  explicit Bell(std::string_view name, RungBy by = RungBy::kUsers) : rung_(1, name) {
    if (by == RungBy::kOutsiders) rung_.core().get()->expect_only(nullptr);
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  /// Never waits. No effect on a bell that was rung and not heard.
  void ring() noexcept { static_cast<void>(rung_.try_send(0)); }
  /// Waits for a ring; returns at once if there was one that nobody has heard. Throws Cancelled.
  void wait() { static_cast<void>(rung_.recv()); }
  /// As wait(), but at most until `deadline` (of the caller's clock: leat::now()). Returns whether
  /// it heard a ring. Throws Cancelled.
  bool wait_until(TimePoint deadline) {
    std::optional<char> ring;
    return rung_.recv_until(ring, deadline) == ChannelStatus::ok;
  }
  /// Whether it heard a ring, without waiting.
  bool try_wait() {
    std::optional<char> ring;
    return rung_.try_recv(ring) == ChannelStatus::ok;
  }
  /// A case of select() that hears a ring, and then calls handler().
  template <class F = NoHandler>
  [[nodiscard]] auto on_ring(F handler = {}) {
    return on_recv(rung_, [handler = std::move(handler)](auto&&) mutable { handler(); });
  }

 private:
  const Channel<char> rung_;
};

}  // namespace leat
