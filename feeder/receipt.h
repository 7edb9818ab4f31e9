// A receipt: counts a batch as trained on, apart from its slot.
//
// Example: a program that gives each slot back at once, and knows later whether the step was good
//   leat::feeder::Lease batch = *feed.next();
//   leat::feeder::Receipt receipt = batch.receipt();
//   copy_elsewhere(batch);
//   batch.release();                              // the slot goes back; the batch does not count
//   if (step()) receipt.commit();                 // now it counts
//   save(checkpoint, feed.state());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "leat/feeder/plan/packing.h"

namespace leat::feeder {

class ReleaseLog;
struct BatchId;
enum class PassId : std::uint64_t;

/// Counts a batch as trained on (feeder/state.h), apart from its slot: for programs that give a
/// slot back before they know whether its batch counts. Made by Lease::receipt(). Move-only; empty
/// after a move and after commit(). It may outlive its lease and its prefetcher, and it may be used
/// on another thread than the lease; one thread at a time.
///
/// While a receipt exists, its batch is missing in states, like a leased batch. So if the consumer
/// is in a later epoch already, states list the receipt's epoch and all epochs after it.
class Receipt {
 public:
  /// Empty.
  Receipt() noexcept = default;
  Receipt(Receipt&& other) noexcept;
  /// Drops the receipt that this object had: that batch does not count.
  Receipt& operator=(Receipt&& other) noexcept;
  /// Ends the receipt. The batch does not count, unless commit() was called.
  ~Receipt();

  /// Counts the batch as trained on, also after its lease has ended and after the prefetcher is
  /// gone. Has no effect if the receipt is empty. Does not wait. Does not allocate if batches are
  /// counted nearly in order.
  void commit() noexcept { end(true); }
  /// False after commit(), and after a move from this receipt.
  explicit operator bool() const noexcept { return log_ != nullptr; }
  /// Returns the epoch of the batch. Throws std::logic_error if empty, as index() does.
  [[nodiscard]] std::uint64_t epoch() const;
  /// Returns the global batch's number within its epoch.
  [[nodiscard]] std::uint64_t index() const;

 private:
  friend class Lease;
  friend class ReleaseLog;
  void check_not_empty() const;
  [[nodiscard]] BatchId batch() const noexcept;
  void end(bool done) noexcept;

  std::shared_ptr<ReleaseLog> log_;  // null: empty
  std::size_t rank_ = 0;
  PassId pass_{};
  std::uint64_t epoch_ = 0;
  std::uint64_t index_ = 0;
  std::size_t elements_ = 0;  // packed
  Carry carry_;               // packed
};

}  // namespace leat::feeder
