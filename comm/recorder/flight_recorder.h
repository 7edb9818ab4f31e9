// The flight recorder: what a rank's last 1,024 operations were, and which of them ended.
//
// World records the beginning and the end of every operation here, in less than 100 ns together.
// The file that write() makes is text, a line for each operation, so that one that was cut off can
// be read as far as it goes; leat-comm-report joins the files of several ranks.
//
// Thread-safe. Allocates in its constructor and in write() only.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "leat/comm/error.h"
#include "leat/comm/transports/operation.h"
#include "leat/csp/clock.h"
#include "leat/csp/wait/spin_lock.h"

namespace leat::comm {

/// One rank's recorder.
class FlightRecorder {
 public:
  static constexpr std::size_t kEntries = 1024;

  FlightRecorder(int rank, int size);

  /// Records that an operation of communicator `context` begins at `at`. Returns its entry.
  [[nodiscard]] std::uint64_t begin(const Operation& operation, std::uint64_t context,
                                    TimePoint at) noexcept;
  /// Records that it has ended, or failed. Without effect if the entry was overwritten since.
  void end(std::uint64_t entry, TimePoint at, bool failed) noexcept;
  /// The records, the oldest first, as the text of a file. `failure`: why it is written, or null.
  [[nodiscard]] std::string text(const Failure* failure) const;
  /// Writes text() to rank-<rank>.leat-comm in `directory`, by way of a temporary name: who opens
  /// that file sees all of it. Returns false if that fails.
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

  const int rank_;
  const int size_;
  mutable SpinLock lock_;
  std::uint64_t last_ LEAT_GUARDED_BY(lock_) = 0;
  std::unique_ptr<std::array<Entry, kEntries>> entries_ LEAT_GUARDED_BY(lock_);
};

}  // namespace leat::comm
