// What a thread has computed of mixtures lately. A reader asks for the place of a sample two or
// three times (an announcement, a hint, the read), and for the visits of a part one after the
// other.
//
// For one thread: nothing is shared, and nobody waits. The memory is found anew in each call, as a
// fiber may go on on another thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace leat::feeder {

/// Values by keys, the latest for each remainder of `number`. Keys are of four numbers; the first
/// is not 0.
template <class Value, std::size_t kMost>
class Lately {
 public:
  using Key = std::array<std::uint64_t, 4>;

  /// Returns the value of `key`: that of the latest call with it, or what make() returns.
  template <class Make>
  [[gnu::noinline]] const Value& get(const Key& key, std::uint64_t number, const Make& make) {
    Entry& entry = entries_[number % kMost];
    if (entry.key != key) {
      entry.value = make();
      entry.key = key;
    }
    return entry.value;
  }

 private:
  struct Entry {
    Key key{};
    Value value{};
  };
  std::array<Entry, kMost> entries_{};
};

}  // namespace leat::feeder
