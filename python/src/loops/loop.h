// The loop over an epoch: `for batch in feed.epoch(0)`.
//
// When a batch counts as trained on. The batch in hand is the one that the loop gave last. It
// counts once the loop asks for the next one. What else may happen to it:
//
// | the loop is left by | the batch in hand |
// |---|---|
// | break, return | counts: the iterator is dropped, and no exception is pending |
// | an exception | does not count: it is pending while `for` drops the iterator |
// | the end of a generator that loops (tqdm) | counts: what is pending is GeneratorExit |
// | these, and a name holds the iterator | counts when another loop begins, or it is dropped |
// | the end of a with block | counts unless an exception ends the block |
// | commit() of the batch | counts, at once |
//
// So an exception is also seen below enumerate, zip, islice and map, because `for` drops them in
// the same moment. Below a generator it is not seen.
//
// A loop that ends after its first batch, though more follow, is mostly meant to look at the batch.
// One warning says what counts, and names peek().
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "leat/feeder/lease.h"
#include "leat/feeder/receipt.h"
#include "leat/gpu/stream.h"
#include "leat/python/batches/batch.h"
#include "leat/python/batches/share.h"
#include "leat/python/loops/caller.h"
#include "leat/python/loops/feeding.h"

namespace leat::python {

class PrefetcherObject;

/// `leat.Loop`: an iterator over the batches of one epoch. With the GIL, as all objects of Python.
class Loop {
 public:
  /// Who decides about the batch in hand when the loop is left.
  enum class Leaving : std::uint8_t {
    kDropped,  // the iterator's end, by the exception that is pending
    kBlock,    // the with block's end
    kLook,     // nobody: it is no loop, but Prefetcher.peek(), and gives no batch away
  };
  /// Begins `epoch` of `owner`, a leat.Prefetcher. Ends the loop before. A look does not; it must
  /// not outlive `owner`.
  Loop(nanobind::handle owner, std::uint64_t epoch, Leaving leaving);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// The next batch, a leat.Batch. Throws nanobind::stop_iteration at the epoch's end.
  [[nodiscard]] nanobind::object next();
  /// A copy of the batch that next() gives next, a leat.Batch without a lease; invalid at the
  /// epoch's end. That batch is kept for next().
  [[nodiscard]] nanobind::object peek();
  /// Takes the batch that was peeked at, of a look at the same epoch.
  void take_over(Loop& look) noexcept;
  /// Whether next() may still give a batch.
  [[nodiscard]] bool goes_on() const noexcept;
  /// The epoch that it is over.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }
  /// Whether it is a look.
  [[nodiscard]] bool is_look() const noexcept { return leaving_ == Leaving::kLook; }
  /// How many batches next() has still to give.
  [[nodiscard]] std::uint64_t left() const noexcept { return is_over_ ? 0 : left_; }
  /// Throws TypeError if nobody knows how many batches there are.
  void require_length() const;
  /// The end of the with block. `counts`: no exception ended it.
  void end_block(bool counts) noexcept;
  /// Another loop begins on the same prefetcher.
  void supersede(std::uint64_t by_epoch) noexcept;
  /// The receipt of the batch in hand; null if none is.
  [[nodiscard]] const feeder::Receipt* in_hand() const noexcept;
  /// Whether it is a loop over `feeding`, and not over one before.
  [[nodiscard]] bool is_of(const Feeding& feeding) const noexcept {
    return feeding_.get() == &feeding;
  }
  /// What counts the batch in hand; null if none is.
  [[nodiscard]] std::shared_ptr<const Counting> counting() const noexcept { return pending_; }
  /// For the garbage collector.
  int traverse(visitproc visit, void* arg) const;
  /// For the garbage collector: leaves the loop, and drops what it holds.
  void clear() noexcept;

 private:
  // A batch without its leat.Batch.
  struct Taken {
    std::shared_ptr<Share> share;
    std::shared_ptr<Counting> counting;
    bool copies;  // it is copied, as too many are held
  };
  [[nodiscard]] bool take(Feeding::Turn& turn, const std::optional<gpu::StreamRef>& stream);
  [[nodiscard]] bool take_unmade(Feeding::Turn& turn, Place asked_at);
  [[nodiscard]] std::string only_looked();
  [[nodiscard]] bool take_unless_ended(Feeding::Turn& turn);
  [[nodiscard]] bool has_to_copy() const;
  template <class Ask>
  [[nodiscard]] bool make_here(const std::optional<TimePoint>& deadline, const Ask& ask);
  [[noreturn]] void time_out(Feeding::Turn& turn) const;
  void decide(bool counts) noexcept;
  void drop_ready() noexcept;
  void check_goes_on();  // throws if the loop was ended

  nanobind::object owner_object_;  // not of a look, which it has
  PrefetcherObject* owner_;
  std::shared_ptr<Feeding> feeding_;
  const std::uint64_t epoch_;
  const Leaving leaving_;
  std::uint64_t left_ = 0;
  bool is_over_ = false;                // next() has said that the epoch has ended
  bool is_at_end_ = false;              // the epoch has ended, as the feed says once
  bool is_asking_ = false;              // a call of next() waits, and uses ready_
  std::string ended_why_;               // it was ended before
  std::optional<feeder::Lease> ready_;  // taken, and a wait for its copy was interrupted
  std::optional<Taken> unmade_;         // and making its leat.Batch was
  std::shared_ptr<Counting> pending_;   // of the batch in hand
  bool has_given_ = false;              // a batch
  std::optional<Place> only_;           // what asked for it, while it asks for no other
  Caller caller_;
};

/// A leat.Loop (see its constructor).
[[nodiscard]] nanobind::object make_loop(nanobind::handle owner, std::uint64_t epoch,
                                         Loop::Leaving leaving);

/// `leat.Epoch`: what `feed.epoch(n)` gives. Each iter() begins the epoch.
class Epoch {
 public:
  Epoch(nanobind::object owner, std::uint64_t number);
  /// A loop, which begins the epoch.
  [[nodiscard]] nanobind::object iter() const;
  /// The loop of a with block, which begins the epoch.
  [[nodiscard]] nanobind::object enter();
  /// The end of the with block. `counts`: no exception ended it.
  void exit(bool counts);
  /// How many batches a loop that begins now has.
  [[nodiscard]] std::uint64_t size() const;
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// As "<leat.Epoch 0: 938 batches>".
  [[nodiscard]] std::string text() const;
  /// For the garbage collector.
  int traverse(visitproc visit, void* arg) const;
  /// For the garbage collector.
  void clear() noexcept;

 private:
  nanobind::object owner_;
  const std::uint64_t number_;
  nanobind::object block_;  // the loop of the with block
};

}  // namespace leat::python
