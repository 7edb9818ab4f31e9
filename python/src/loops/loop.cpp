#include "leat/python/loops/loop.h"

#include <nanobind/stl/string.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <utility>

#include "leat/csp/channel.h"
#include "leat/csp/error.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/python/calls/collected.h"
#include "leat/python/calls/errors.h"
#include "leat/python/calls/text.h"
#include "leat/python/loops/prefetcher.h"
#include "leat/python/module.h"

namespace leat::python {
namespace nb = nanobind;

namespace {

std::string seconds_text(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%g s", std::chrono::duration<double>(time).count());
  return text;
}

// Whether an exception unwinds the frame that drops an object now. The end of a generator is none:
// it comes by GeneratorExit.
bool unwinds() {
  return PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_GeneratorExit) == 0;
}

}  // namespace

Loop::Loop(nb::handle owner, std::uint64_t epoch, Leaving leaving)
    : owner_object_(leaving == Leaving::kLook ? nb::object() : nb::borrow(owner)),
      owner_(nb::inst_ptr<PrefetcherObject>(owner)),
      epoch_(epoch),
      leaving_(leaving) {
  feeding_ = owner_->begin(*this, epoch, left_);
}

Loop::~Loop() {
  std::string looked;
  if (leaving_ == Leaving::kDropped && !unwinds()) looked = only_looked();
  const nb::object owner = owner_object_;
  clear();
  if (!looked.empty()) owner_->warn_of_look(looked);
}

void Loop::clear() noexcept {
  if (leaving_ == Leaving::kDropped) decide(!unwinds());
  decide(false);
  if (owner_object_.is_valid()) owner_->leave(*this);
  owner_object_.reset();
  caller_.clear();
  only_.reset();
  is_over_ = true;
}

// What to warn of, once: the loop has ended after its first batch, and more follow. Empty: nothing.
// A feed that ends with the loop has no batch that anybody misses.
std::string Loop::only_looked() {
  const std::optional<Place> place = std::exchange(only_, std::nullopt);
  if (!place.has_value() || left_ == 0 || is_exiting() || !feeding_->is_here() ||
      feeding_->is_closed() || Py_REFCNT(owner_object_.ptr()) == 1) {
    return {};
  }
  return "leat: the loop over epoch " + std::to_string(epoch_) + " at " + place->text() +
         " has ended after its first batch, with " + std::to_string(left_) +
         " more to come: that batch counts as trained on, and iter() begins epoch " +
         std::to_string(owner_->next_epoch()) +
         " next; peek() looks at a batch and changes nothing";
}

void Loop::decide(bool counts) noexcept {
  if (counts && pending_ != nullptr && feeding_->is_here()) pending_->commit();
  pending_.reset();
  if (!is_asking_) drop_ready();  // else next() does
}

void Loop::drop_ready() noexcept {
  unmade_.reset();
  if (!ready_.has_value()) return;
  if (feeding_->is_here()) {
    ready_->abandon();
  } else {
    leak(*std::move(ready_));  // its slot is the parent's
  }
  ready_.reset();
}

void Loop::check_goes_on() {
  if (ended_why_.empty()) return;
  drop_ready();
  throw Error("leat: this loop over epoch " + std::to_string(epoch_) + " has ended: " + ended_why_);
}

void Loop::end_block(bool counts) noexcept {
  const std::string looked = counts ? only_looked() : "";
  decide(counts);
  if (ended_why_.empty()) ended_why_ = "its with block has ended";
  if (!looked.empty()) owner_->warn_of_look(looked);
}

void Loop::supersede(std::uint64_t by_epoch) noexcept {
  const std::string looked = leaving_ == Leaving::kDropped ? only_looked() : "";
  decide(leaving_ == Leaving::kDropped);
  ended_why_ =
      "another loop, over epoch " + std::to_string(by_epoch) + ", has begun on the same feed";
  if (!looked.empty()) owner_->warn_of_look(looked);  // others may drop this loop meanwhile
}

const feeder::Receipt* Loop::in_hand() const noexcept {
  if (pending_ == nullptr || pending_->is_committed()) return nullptr;
  return &pending_->receipt();
}

nb::object Loop::next() {
  if (is_over_) throw nb::stop_iteration();
  if (is_at_end_ && !unmade_.has_value() && ended_why_.empty()) {  // peek() has come to the end
    decide(true);
    is_over_ = true;
    throw nb::stop_iteration();
  }
  Feeding::Turn turn(*feeding_);
  Place place = caller_.place();  // before there is a batch to lose: signal handlers may run in it
  check_goes_on();
  if (pending_ != nullptr) pending_->commit();  // the next batch is asked for
  pending_.reset();
  only_.reset();
  std::optional<Place> first;
  if (!has_given_) first = place;
  if (!unmade_.has_value()) {
    if (!take_unmade(turn, std::move(place))) {
      is_over_ = true;
      throw nb::stop_iteration();
    }
  } else {
    const std::shared_ptr<Share> share = unmade_->share;
    share->set_asked_at(std::move(place));
    if (const auto stream = current_stream(owner_->framework(), owner_->device())) {
      share->lease().on(*stream);
    }
    check_goes_on();
    if (unmade_->copies) {  // it is one of those that are held; others may have gone
      unmade_->copies = feeding_->leases()->held() > owner_->options().max_leases - 1;
    }
  }
  Taken taken = *std::exchange(unmade_, std::nullopt);  // before others may end the loop
  nb::object batch;
  try {
    batch = make_batch({.share = taken.share,
                        .counting = taken.counting,
                        .framework = owner_->framework(),
                        .copy = taken.copies});
  } catch (...) {  // of the framework's Python code; the next call tries again
    if (ended_why_.empty()) unmade_ = std::move(taken);
    throw;
  }
  pending_ = std::move(taken.counting);
  if (taken.copies) owner_->count_copy();
  if (left_ > 0) --left_;
  only_ = std::move(first);
  has_given_ = true;
  return batch;
}

void Loop::require_length() const { owner_->require_length(); }

bool Loop::goes_on() const noexcept { return !is_over_ && !is_at_end_ && ended_why_.empty(); }

nb::object Loop::peek() {
  Feeding::Turn turn(*feeding_);
  Place place = caller_.place();
  if (!goes_on()) return {};
  if (!unmade_.has_value() && !take_unmade(turn, std::move(place))) return {};
  const Taken taken = *unmade_;  // others may end the loop
  return make_batch(
      {.share = taken.share, .counting = nullptr, .framework = owner_->framework(), .copy = true});
}

void Loop::take_over(Loop& look) noexcept {
  ready_.swap(look.ready_);
  unmade_.swap(look.unmade_);
  is_at_end_ = look.is_at_end_;
}

// Takes the next batch into unmade_. Returns false at the epoch's end.
bool Loop::take_unmade(Feeding::Turn& turn, Place asked_at) {
  if (is_at_end_) return false;
  const bool copies = has_to_copy();
  if (copies) owner_->warn_of_copies();
  if (!take_unless_ended(turn)) {
    is_at_end_ = true;
    return false;
  }
  feeder::Lease lease = *std::exchange(ready_, std::nullopt);
  auto counting = std::make_shared<Counting>(lease.receipt());
  unmade_ = {std::make_shared<Share>(feeding_->leases(), std::move(lease), std::move(asked_at)),
             std::move(counting), copies};
  return true;
}

// As take(). While it waits, a signal handler or another thread may end the loop.
bool Loop::take_unless_ended(Feeding::Turn& turn) {
  bool has_come = false;
  try {
    const Mark asking(is_asking_);
    has_come = take(turn, current_stream(owner_->framework(), owner_->device()));
  } catch (const nb::python_error&) {  // what a signal handler raised
    if (!ended_why_.empty()) drop_ready();
    throw;
  } catch (...) {
    check_goes_on();
    throw;
  }
  check_goes_on();
  return has_come;
}

// Whether as many leases are held as leave one for this batch alone.
bool Loop::has_to_copy() const {
  const std::size_t most = owner_->options().max_leases - 1;
  if (feeding_->leases()->held() < most) return false;
  if (owner_->copies_escapes()) return true;
  const std::optional<HeldBatch> oldest = feeding_->leases()->oldest();
  throw TooManyLeases("leat: a batch is asked for while " + std::to_string(most) +
                      " are held, which is max_leases - 1; the oldest is " +
                      (oldest.has_value() ? oldest->text() : std::string("gone")) +
                      ": drop or release() batches, or raise max_leases");
}

// Takes the next batch into ready_, on the CPU once its copy is done. Returns false at the epoch's
// end. An interruption changes nothing: the next call goes on.
bool Loop::take(Feeding::Turn& turn, const std::optional<gpu::StreamRef>& stream) {
  std::optional<TimePoint> deadline;
  if (const auto timeout = owner_->timeout()) deadline = from_now(*timeout);
  if (!ready_.has_value()) {
    ChannelStatus status = ChannelStatus::timed_out;
    const auto ask = [&](TimePoint until) {
      status = stream.has_value() ? turn->next_until(ready_, until, *stream)
                                  : turn->next_until(ready_, until);
      return status != ChannelStatus::timed_out;
    };
    try {
      // A batch that is there is taken without a release of the GIL, which another thread could
      // then keep for 5 ms. (Checks wait for copies.)
      const bool is_there =
          owner_->options().check_slots == feeder::CheckSlots::kNo && ask(TimePoint::min());
      const auto wait = [&] {
        return owner_->step().is_valid() ? make_here(deadline, ask) : wait_in_slices(deadline, ask);
      };
      if (!is_there && !wait()) time_out(turn);
    } catch (...) {
      feeding_->check_open();  // its reason, where the feed was closed meanwhile
      throw;
    }
    if (status == ChannelStatus::closed) return false;
  }
  if (feeding_->device().capabilities().device_memory_is_host_memory) {
    const auto is_copied = [&](TimePoint until) { return ready_->await_until(until); };
    if (!is_copied(TimePoint::min()) && !wait_in_slices(deadline, is_copied)) time_out(turn);
  }
  return true;
}

// Makes the batch that is due, in this thread, as wait_in_slices() waits. No batch is made before
// it is asked for, as a rule: one that was made may be of an epoch that was left, and then the next
// is made. It is waited for as long as a copy of a large batch takes.
template <class Ask>
bool Loop::make_here(const std::optional<TimePoint>& deadline, const Ask& ask) {
  const nb::object step = owner_->step();
  for (;;) {
    const bool has_made = nb::cast<bool>(step());  // else the slot may not have come to the reader
    const TimePoint most =
        from_now(has_made ? std::chrono::microseconds(20'000) : std::chrono::microseconds(200));
    if (wait_in_slices(deadline.has_value() ? std::min(*deadline, most) : most, ask)) return true;
    if (deadline.has_value() && RuntimeClock::now() >= *deadline) return false;
  }
}

void Loop::time_out(Feeding::Turn& turn) const {
  std::string text = "leat: the next batch of epoch " + std::to_string(epoch_) +
                     " did not come within the timeout of " + seconds_text(*owner_->timeout()) +
                     "\n" + turn->stages();
  while (text.back() == '\n') text.pop_back();
  throw Timeout(text);
}

int Loop::traverse(visitproc visit, void* arg) const {
  Py_VISIT(owner_object_.ptr());
  return caller_.traverse(visit, arg);
}

Epoch::Epoch(nb::object owner, std::uint64_t number) : owner_(std::move(owner)), number_(number) {}

nb::object make_loop(nb::handle owner, std::uint64_t epoch, Loop::Leaving leaving) {
  auto loop = std::make_unique<Loop>(owner, epoch, leaving);
  return nb::cast(loop.release(), nb::rv_policy::take_ownership);
}

nb::object Epoch::iter() const { return make_loop(owner_, number_, Loop::Leaving::kDropped); }

nb::object Epoch::enter() {
  nb::object loop = make_loop(owner_, number_, Loop::Leaving::kBlock);
  block_ = loop;
  return loop;
}

void Epoch::exit(bool counts) {
  if (!block_.is_valid()) return;
  nb::inst_ptr<Loop>(std::exchange(block_, nb::object()))->end_block(counts);
}

std::uint64_t Epoch::size() const {
  auto& owner = *nb::inst_ptr<PrefetcherObject>(owner_);
  owner.require_length();
  return owner.batches_of(number_);
}

std::string Epoch::text() const {
  const bool has_length = nb::inst_ptr<PrefetcherObject>(owner_)->has_length();
  return "<leat.Epoch " + std::to_string(number_) +
         (has_length ? ": " + std::to_string(size()) + " batches>" : std::string(">"));
}

int Epoch::traverse(visitproc visit, void* arg) const {
  Py_VISIT(owner_.ptr());
  Py_VISIT(block_.ptr());
  return 0;
}

void Epoch::clear() noexcept {
  owner_.reset();
  block_.reset();
}

void bind_loop(nb::module_& module) {
  nb::class_<Loop>(module, "Loop", nb::type_slots(kCollected<Loop>),
                   "An iterator over the batches of one epoch.")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", &Loop::next,
           "The next batch. The one before counts as trained on from here on.")
      .def(
          "__len__",
          [](const Loop& self) {
            self.require_length();
            return self.left();
          },
          "How many batches are left. TypeError for a dataset with __iter__.");
  nb::class_<Epoch>(
      module, "Epoch", nb::type_slots(kCollected<Epoch>),
      "The batches of one epoch: for a loop, or for a with block, which decides at its "
      "end whether the batch in hand counts.")
      .def_prop_ro("number", &Epoch::number)
      .def("__iter__", &Epoch::iter, "Begins the epoch.")
      .def("__enter__", &Epoch::enter, "Begins the epoch.")
      .def(
          "__exit__",
          [](Epoch& self, nb::handle type, nb::handle, nb::handle) { self.exit(type.is_none()); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          "Ends the loop. The batch in hand counts unless an exception ends the block.")
      .def("__len__", &Epoch::size, "How many batches a loop has that begins now.")
      .def("__repr__", &Epoch::text);
}

}  // namespace leat::python
