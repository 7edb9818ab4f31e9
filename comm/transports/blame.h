// Who is to blame for a wait that is too long: the rank at the end of the chain of waits.
//
//   rank 2 ── waits for ──► rank 1 ── waits for ──► rank 0, which does not answer: it is to blame
//
// A rank whose wait is too long asks those that it waits for what they wait for, then those, and so
// on. World carries the questions (World::accuse). Here is what is asked, and the search.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"
#include "leat/csp/notification.h"

namespace leat::comm {

/// A rank that is waited for, as open() counts: its trainer, or what it does for others. A trivial
/// value.
struct Wait {
  std::int32_t rank = -1;
  std::int32_t by = -1;       ///< with a context: the rank that waits
  std::uint64_t context = 0;  ///< of the exchange that it leads, or of the servers it is one of
  friend bool operator==(const Wait&, const Wait&) = default;
};

/// What a rank says that it waits for.
struct Answer {
  bool waits = false;
  std::vector<Wait> whom = {};  ///< as far as it is known
  /// Adds what another part of the rank says.
  void add(const Answer& other);
};

/// Questions that were asked together. Thread-safe.
class Inquiry {
 public:
  explicit Inquiry(std::size_t questions) : answers_(questions), open_(questions) {}
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;
  ~Inquiry() = default;

  /// Each question is answered at most once.
  void answer(std::size_t question, Answer answer);
  /// Waits until all have been answered, at most until `until`. Throws Cancelled.
  [[nodiscard]] std::vector<std::optional<Answer>> wait_until(TimePoint until);

 private:
  SpinLock lock_;
  std::vector<std::optional<Answer>> answers_ LEAT_GUARDED_BY(lock_);
  std::size_t open_ LEAT_GUARDED_BY(lock_);
  Notification all_here_;
};

/// Who is to blame.
struct Verdict {
  int peer = -1;     ///< as Failure::peer
  std::string text;  ///< "; rank 1 waits for rank 0, which does not answer: ..."
};

/// Follows the waits that begin with `missing`: to a rank that does not answer, else to one that
/// answers and waits for nobody, else to none. `ask` returns an answer for each question, or none.
[[nodiscard]] Verdict find_blame(
    std::span<const Wait> missing,
    const std::function<std::vector<std::optional<Answer>>(std::span<const Wait>)>& ask);

}  // namespace leat::comm
