// What a thread has computed of mixtures lately. A reader asks for the place of a sample two or
// three times (an announcement, a hint, the read), and for the visits of a part one after the
// other.
//
// For one thread: nothing is shared, and nobody waits. The memory is found anew in each call, as a
// fiber may go on on another thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat::feeder {

/// Values by keys, the latest for each remainder of `number`. Keys are of four numbers; the first
/// is not 0.
template <class Value, std::size_t kMost>
class Lately {
 public:
  struct Key {
    std::uint64_t of[4] = {};
  };

  /// Returns the value of `key`: that of the latest call with it, or what make() returns.
  ///
  /// ThreadSanitizer takes the fibers of a thread for threads, which share this. Hence nothing in
  /// here may be a call but make().
  template <class Make>
  __attribute__((noinline, no_sanitize("thread"))) Value get(const Key& key, std::uint64_t number,
                                                             const Make& make) {
    Entry& entry = entries_[number % kMost];
    bool is_there = true;
    for (int i = 0; i < 4; ++i) is_there = is_there && entry.key.of[i] == key.of[i];
    if (!is_there) {
      entry.value = make();
      entry.key = key;
    }
    return entry.value;
  }

 private:
  struct Entry {
    Key key;
    Value value{};
  };
  Entry entries_[kMost];
};

}  // namespace leat::feeder
