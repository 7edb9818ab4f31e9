// Mapped files that may shrink. Who touches a page of a mapping that the file no longer has, or
// that the disk cannot give, gets SIGBUS, which ends the program. In a guarded range it gets zeros
// instead, and the range knows which bytes were lost.
//
// The first range installs a handler of SIGBUS for the process. A fault at any other address, and a
// SIGBUS that somebody sent, go to the handler that was there before, or to the default. A handler
// that is installed later and does not call ours takes the protection away.
//
// Always true:
//  - The handler takes no lock and allocates nothing: it walks a list of nodes, which are added,
//    used again, and never freed. A node tells with its version whether it is being changed, as a
//    sequence lock does; the node of a range that is being read is not, since whoever reads keeps
//    the range alive. All accesses are sequentially consistent, as a fence would have to be, which
//    ThreadSanitizer does not know: they happen once a range and once a fault.
//  - The bytes are noted as lost before the zeros are put in their place: who reads such a zero,
//    and looks then, finds it noted. (The exchange of a page in the kernel orders the two.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat::feeder {

/// While one lives, [data, data + size) is guarded; whole pages, from mmap. Its data may be read by
/// any thread; is_lost() and the like too.
class GuardedRange {
 public:
  /// Throws leat::Error if the handler cannot be installed.
  GuardedRange(const std::byte* data, std::size_t size);
  ~GuardedRange();
  GuardedRange(const GuardedRange&) = delete;
  GuardedRange& operator=(const GuardedRange&) = delete;

  /// Whether any byte was lost so far.
  [[nodiscard]] bool is_damaged() const noexcept;
  /// Whether one of the bytes [from, to) may have been: the lost ones are held as one interval.
  [[nodiscard]] bool is_lost(std::size_t from, std::size_t to) const noexcept;
  /// Where that interval begins.
  [[nodiscard]] std::size_t first_lost() const noexcept;

  struct Node;

 private:
  Node* node_;
};

}  // namespace leat::feeder
