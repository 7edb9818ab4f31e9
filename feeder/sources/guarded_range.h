// Protection from SIGBUS for mapped files that may shrink. A program gets SIGBUS and ends if it
// touches a mapped page that the file no longer has, or that the disk cannot read. In a guarded
// range it reads zeros instead, and the range knows which bytes were lost.
//
// The first range installs a SIGBUS handler for the process. A fault at any other address, and a
// SIGBUS that was sent by kill(), go to the handler that was installed before, or to the default. A
// handler that is installed later and does not call this one removes the protection.
//
// Invariants:
//  - The handler takes no lock and allocates nothing. It walks a list of nodes, which are added and
//    reused, but never freed. As in a sequence lock, a node's version says whether the node is
//    being changed. While a range is being read, its node does not change: the reader keeps the
//    range alive. All accesses are sequentially consistent, because ThreadSanitizer does not know
//    fences; they happen once for a range and once for a fault.
//  - Ranges may overlap: a loss is recorded in all that have the page. One that is given up and
//    made anew in that moment may be told of a loss that is not its own.
//  - Zeros are given as a mapping of /dev/zero that no other looks like. The reads of these pages
//    do not fault again, but a range that is made over them knows them by /proc/self/maps. (Where
//    there is no /dev/zero, it does not. One that is made while a page is exchanged is told just
//    after the exchange.)
//  - Bytes are recorded as lost before zeros replace them. A thread that has read such a zero and
//    then asks finds the record. (The exchange of the page in the kernel orders the two.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat::feeder {

/// Guards [data, data + size), whole pages from mmap, while it lives. Const functions are
/// thread-safe, and any thread may read the data.
class GuardedRange {
 public:
  /// `is_new`: nobody else can have read the memory, as it has just been mapped. Else bytes that
  /// were lost in earlier ranges are lost in this one, too: it takes longer if there are any near
  /// it. Throws leat::Error if the handler cannot be installed, or /proc/self/maps not opened.
  [[nodiscard]] GuardedRange(const std::byte* data, std::size_t size, bool is_new = false);
  ~GuardedRange();
  GuardedRange(const GuardedRange&) = delete;
  GuardedRange& operator=(const GuardedRange&) = delete;

  /// Returns whether any byte has been lost so far.
  [[nodiscard]] bool is_damaged() const noexcept;
  /// Returns whether bytes of [from, to) may have been lost. (The lost bytes are kept as an
  /// interval; and where many pages are missing, those behind them are given up, too.)
  [[nodiscard]] bool is_lost(std::size_t from, std::size_t to) const noexcept;
  /// Returns the first lost byte.
  [[nodiscard]] std::size_t first_lost() const noexcept;

  struct Node;

 private:
  explicit GuardedRange(Node* node) noexcept;

  Node* node_;
};

}  // namespace leat::feeder
