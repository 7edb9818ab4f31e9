// The flight recorder: what a rank's last 1,024 operations were, and which of them ended.
//
// World records the beginning and the end of every operation here, in less than 100 ns together.
// write() makes a text file with a line for each communicator and each operation. A file that was
// cut off can be read as far as it goes. leat-comm-report joins the files of several ranks.
//
// Thread-safe. begin(), end() and left() allocate nothing.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "leat/comm/error.h"
#include "leat/comm/transports/operation.h"
#include "leat/csp/base/spin_lock.h"
#include "leat/csp/clock.h"

namespace leat::comm {

/// One rank's recorder.
class FlightRecorder {
 public:
  static constexpr std::size_t kEntries = 1024;

  /// The recorder of rank `rank` of a world of `size` ranks.
  FlightRecorder(int rank, int size);

  /// Records that this rank is one of `members` (ranks of the world, in their order) of
  /// communicator `context`. Of those that it has left, the last 64 are kept. Throws
  /// std::bad_alloc.
  void joined(std::uint64_t context, std::span<const int> members);
  /// Records that this rank has left communicator `context`. Idempotent.
  void left(std::uint64_t context) noexcept;
  /// Records that an operation of communicator `context` begins at `at`. Returns its entry.
  [[nodiscard]] std::uint64_t begin(const Operation& operation, std::uint64_t context,
                                    TimePoint at) noexcept;
  /// Records that it has ended, or failed. Without effect if the entry was overwritten since.
  void end(std::uint64_t entry, TimePoint at, bool failed) noexcept;
  /// The records, the oldest first, as the text of a file. `failure`: why it is written, or null.
  [[nodiscard]] std::string text(const Failure* failure) const;
  /// Writes text() to rank-<rank>.leat-comm in `directory`, by way of a temporary name: whoever
  /// opens that file sees all of it. Returns false if that fails.
  bool write(const std::filesystem::path& directory, const Failure* failure) const noexcept;

 private:
  struct Entry {
    std::uint64_t number = 0;  // 1, 2, …; 0: never used
    Signature signature;
    std::uint64_t context = 0;
    int peer = -1;
    std::array<char, 64> label = {};  // the first bytes, of whole characters
    TimePoint began;
    TimePoint ended = TimePoint::min();
    bool failed = false;
  };

  struct Membership {
    std::uint64_t context = 0;
    std::vector<int> members;
    bool has_left = false;
  };

  const int rank_;
  const int size_;
  mutable std::mutex memberships_mutex_;
  std::vector<Membership> memberships_;  // memberships_mutex_; the oldest first
  mutable SpinLock lock_;
  std::uint64_t last_ LEAT_GUARDED_BY(lock_) = 0;
  std::unique_ptr<std::array<Entry, kEntries>> entries_ LEAT_GUARDED_BY(lock_);
};

}  // namespace leat::comm
