// Puts a trace together: what readers have in common.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "leat/overlap/trace/model.h"

namespace overlap::trace {

/// Collects what a reader finds, in any order.
class Builder {
 public:
  /// Fills `trace`, which must outlive it.
  explicit Builder(Trace& trace) : trace_(trace) {}

  /// What ties an op to its call: equal in both. `number` 0: nothing does.
  struct Correlation {
    std::uint64_t process = 0;
    std::uint64_t number = 0;
    // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 finds a 0 in what the compiler writes
    [[nodiscard]] auto operator<=>(const Correlation&) const = default;
  };

  /// Adds an op of that device and stream; Op::stream and Op::call are set here.
  void add(std::int64_t device, std::string_view stream, Op op, Correlation of);
  void add(const Call& call, Correlation of);
  void add(const Range& range) { trace_.ranges.push_back(range); }
  /// Returns the number of a thread.
  [[nodiscard]] std::uint32_t thread(const Thread& of);
  void name_device(std::int64_t device, std::string_view name) { names_[device] = name; }
  /// Sorts everything and finds the ops' calls. Once, at the end.
  void finish();

 private:
  struct DeviceOps {
    std::vector<Op> ops;
    std::vector<Correlation> of;  // by op
    std::vector<std::string> streams;
    std::map<std::string, std::uint32_t, std::less<>> numbers;  // of the streams
  };

  Trace& trace_;
  std::map<std::int64_t, DeviceOps> devices_;
  std::map<std::int64_t, std::string> names_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> threads_;
  std::vector<Correlation> calls_;  // by Trace::calls
};

}  // namespace overlap::trace
