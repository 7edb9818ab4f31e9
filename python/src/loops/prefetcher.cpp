#include "leat/python/loops/prefetcher.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/prefetcher.h"
#include "leat/feeder/state.h"
#include "leat/feeder/trace.h"
#include "leat/gpu/error.h"
#include "leat/python/calls/text.h"
#include "leat/python/calls/waiting.h"
#include "leat/python/datasets/datasets.h"
#include "leat/python/loops/loop.h"

namespace leat::python {
namespace nb = nanobind;
using namespace std::string_view_literals;

namespace {

template <class T>
void read(const nb::dict& options, const char* name, T& member) {
  member = nb::cast<T>(options[name]);
}

// `names` are those of the enumerators, in their order.
template <class Enum, std::size_t n>
void read(const nb::dict& options, const char* name, Enum& member,
          const std::array<std::string_view, n>& names) {
  const auto value = nb::cast<std::string>(options[name]);
  const auto at = std::ranges::find(names, value);
  if (at == names.end()) throw nb::value_error(name);
  member = static_cast<Enum>(at - names.begin());
}

feeder::FailureBudget budget(const nb::dict& options, const char* name) {
  return {.count = nb::cast<std::uint64_t>(options[name].attr("count")),
          .rate = nb::cast<double>(options[name].attr("rate"))};
}

feeder::PrefetcherOptions options_of(const nb::dict& from) {
  feeder::PrefetcherOptions options;
  read(from, "batch_size", options.batch_size);
  read(from, "prefetch_depth", options.prefetch_depth);
  read(from, "max_leases", options.max_leases);
  read(from, "workers", options.workers);
  read(from, "pinned_slots", options.pinned_slots);
  read(from, "order", options.order, std::array{"sequential"sv, "shuffled"sv, "drawn"sv});
  read(from, "seed", options.seed);
  read(from, "last_batch", options.last_batch,
       std::array{"partial"sv, "drop"sv, "pad"sv, "wrap"sv});
  read(from, "delivery", options.delivery, std::array{"in_order"sv, "as_completed"sv});
  read(from, "rank", options.rank);
  read(from, "world_size", options.world_size);
  read(from, "copy_chunk_bytes", options.copy_chunk_bytes);
  read(from, "max_pinned_bytes", options.max_pinned_bytes);
  read(from, "max_device_bytes", options.max_device_bytes);
  read(from, "resume", options.resume);
  read(from, "check_slots", options.check_slots, std::array{"no"sv, "yes"sv, "read_only"sv});
  read(from, "sample_every", options.sample_every);
  read(from, "read_across_epochs", options.read_across_epochs);
  read(from, "pad_to", options.pad_to, std::array{"field"sv, "batch"sv});
  read(from, "trace", options.trace);
  options.read_failures = budget(from, "read_failures");
  options.transform_failures = budget(from, "transform_failures");
  if (const nb::object packing = from["packing"]; !packing.is_none()) {
    options.packing = {.most_samples = nb::cast<std::size_t>(packing.attr("most_samples"))};
  }
  if (const nb::object tune = from["autotune"]; !tune.is_none()) {
    options.autotune = {
        .max_workers = nb::cast<std::size_t>(tune.attr("max_workers")),
        .max_prefetch_depth = nb::cast<std::size_t>(tune.attr("max_prefetch_depth")),
        .every = nb::cast<std::size_t>(tune.attr("every"))};
  }
  if (const nb::object live = from["live"]; !live.is_none()) {
    options.live = {.fd = nb::cast<int>(live.attr("fd")),
                    .batches = nb::cast<std::uint64_t>(live.attr("batches"))};
  }
  return options;
}

std::optional<Duration> duration_of(const std::optional<double>& seconds) {
  constexpr double kLongest = 1e9;  // as good as for ever
  if (!seconds.has_value()) return std::nullopt;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(*seconds, kLongest)));
}

// Calls `function`. A plain Error from it is about a state that the caller gave: ValueError.
template <class Function>
auto of_states(Function&& function) {
  try {
    return function();
  } catch (const gpu::GpuError&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    throw nb::value_error(error.what());
  }
}

void warn(const std::string& text) {
  nb::module_::import_("logging").attr("getLogger")("leat").attr("warning")("%s", to_str(text));
}

}  // namespace

PrefetcherObject::PrefetcherObject(nb::object dataset, const std::string& device,
                                   const nb::object& framework, const nb::dict& options,
                                   bool copies_escapes, std::optional<double> timeout)
    : dataset_(std::move(dataset)),
      device_(open_device(device)),
      options_(options_of(options)),
      copies_escapes_(copies_escapes),
      timeout_(duration_of(timeout)) {
  const InCall inside;
  framework_ = nb::module_::import_("leat.frameworks").attr("adapter")(framework, device_.name());
  feeding_ =
      options_.resume.has_value() ? of_states([this] { return make_feeding(); }) : make_feeding();
  batches_ = Feeding::Call(*feeding_)->batches_per_epoch();
  if (options_.resume.has_value()) note_rests(*options_.resume);
}

PrefetcherObject::~PrefetcherObject() {
  clear();
  end_device();
}

// Batches and tensors that live on keep the memory alone, and no thread of a device.
void PrefetcherObject::end_device() noexcept {
  std::optional<gpu::Device> open(device_);
  device_ = device_.for_memory();
  if (!feeding_->is_here()) return leak(std::move(open));  // its threads are the parent's
  const InCall inside(InCall::to_the_end);
  const nb::gil_scoped_release others_run;
  open.reset();
}

std::shared_ptr<Feeding> PrefetcherObject::make_feeding() const {
  return Feeding::make(to_dataset(dataset_), device_, options_);
}

// Notes how many batches the epochs of `state` have left, and that its first epoch comes next, or
// the one after it if nothing is left of that.
void PrefetcherObject::note_rests(const std::string& state) {
  const feeder::State parsed = feeder::State::parse(state);
  next_epoch_ = parsed.next_epoch();
  rests_.clear();
  for (const feeder::EpochReleases& one : parsed.epochs) {
    rests_.push_back(
        {.epoch = one.epoch, .batches = batches_ - std::min(batches_, one.batches.count())});
  }
  if (!rests_.empty() && rests_.front().batches == 0) ++next_epoch_;
}

// While it waits, other threads and signal handlers call this object. One call at a time makes a
// feeding; close() meanwhile drops loaded_.
void PrefetcherObject::take_loaded(const std::string& why) {
  if (!feeding_->is_here()) feeding_->check_open();
  if (is_taking_) {
    throw Error(
        "leat: another call, in another thread or below a signal handler, begins a loop with the "
        "state that was loaded: a feed has one loop at a time");
  }
  const Mark taking(is_taking_);
  drop_look();
  feeding_->close(why);
  if (!loaded_.has_value()) feeding_->check_open();  // throws
  options_.resume = *loaded_;
  if (has_begun_) options_.trace = nullptr;  // it has the batches of the feeding that was
  std::shared_ptr<Feeding> made = make_feeding();
  if (!loaded_.has_value()) {
    made.reset();
    feeding_->check_open();  // throws
  }
  feeding_ = std::move(made);
  loaded_.reset();
}

std::shared_ptr<Feeding> PrefetcherObject::begin(Loop& loop, std::uint64_t epoch,
                                                 std::uint64_t& left) {
  // What a look has read may be old by now. One that has begun while a batch was in hand has kept
  // that batch's epoch in the state, though it may never count.
  const bool takes_over = !loop.is_look() && peeked_ != nullptr && peeked_->epoch() == epoch &&
                          options_.read_across_epochs && before_look_->in_hand == nullptr;
  // An epoch that was resumed has its rest in the pass that is begun first. If a look has begun it,
  // it is taken back.
  if (!loop.is_look() && !takes_over && peeked_ != nullptr && is_rest(peeked_->epoch()) &&
      !loaded_.has_value()) {
    loaded_ = state(true);
  }
  if (loaded_.has_value()) {
    take_loaded("this loop has ended: another loop, over epoch " + std::to_string(epoch) +
                ", has begun with the state that was loaded");
  }
  Feeding::Turn turn(*feeding_);
  has_begun_ = true;
  left = batches_of(epoch);
  if (loop.is_look()) {
    if (latest_ != nullptr && latest_->goes_on()) {
      throw Error("leat: a loop over epoch " + std::to_string(latest_->epoch()) +
                  " has begun meanwhile: a feed has one loop at a time");
    }
    const bool is_ours = latest_ != nullptr && latest_->is_of(*feeding_);
    const feeder::Receipt* const receipt = is_ours ? latest_->in_hand() : nullptr;
    before_look_ = {
        .without = turn->state(),
        .with = receipt == nullptr ? turn->state() : turn->state(std::span(&receipt, 1)),
        .in_hand = receipt == nullptr ? nullptr : latest_->counting()};
    turn->start(epoch);
    return feeding_;
  }
  if (latest_ != nullptr) std::exchange(latest_, nullptr)->supersede(epoch);
  if (takes_over && peeked_ != nullptr) {
    loop.take_over(*peeked_);
    drop_look();
  } else {
    drop_look();  // first: the epoch that begins ends that of the look
    turn->start(epoch);
  }
  std::erase_if(rests_, [&](const Rest& one) { return one.epoch == epoch; });
  next_epoch_ = epoch + 1;
  latest_ = &loop;
  return feeding_;
}

// What next() gives next is kept: by the loop that runs, or by a look, whose place a loop over its
// epoch takes.
nb::object PrefetcherObject::peek(nb::handle self) {
  if (latest_ != nullptr && latest_->goes_on()) {
    const nb::object loop = nb::find(latest_);  // others may drop it meanwhile
    nb::object batch = nb::inst_ptr<Loop>(loop)->peek();
    if (batch.is_valid()) return batch;
  }
  if (peeked_ == nullptr || loaded_.has_value()) {
    peeked_ = std::make_shared<Loop>(self, next_epoch_, Loop::Leaving::kLook);
  }
  const std::shared_ptr<Loop> look = peeked_;
  nb::object batch = look->peek();
  if (batch.is_valid()) return batch;
  throw Error("leat: epoch " + std::to_string(look->epoch()) + " has no batch to peek at");
}

void PrefetcherObject::drop_look() noexcept {
  peeked_.reset();
  before_look_.reset();
}

void PrefetcherObject::leave(const Loop& loop) noexcept {
  if (latest_ == &loop) latest_ = nullptr;
}

void PrefetcherObject::require_length() const {
  if (has_length()) return;
  throw nb::type_error("leat: how many batches an epoch has is known to its dataset alone");
}

bool PrefetcherObject::is_rest(std::uint64_t epoch) const {
  return std::ranges::find(rests_, epoch, &Rest::epoch) != rests_.end();
}

std::uint64_t PrefetcherObject::batches_of(std::uint64_t epoch) const {
  const auto rest = std::ranges::find(rests_, epoch, &Rest::epoch);
  return rest == rests_.end() ? batches_ : rest->batches;
}

// The state that was loaded, as this rank has it: it may come from other ranks.
std::string PrefetcherObject::state(bool in_hand) {
  if (loaded_.has_value() && latest_ == nullptr && !is_taking_) take_loaded("a state was loaded");
  if (loaded_.has_value()) return *loaded_;
  Feeding::Call call(*feeding_);
  if (peeked_ != nullptr) {
    const Counting* const one = before_look_->in_hand.get();
    const bool is_in_hand = latest_ != nullptr && latest_->in_hand() != nullptr;
    const bool counts = one != nullptr && (one->is_committed() || (in_hand && is_in_hand));
    return counts ? before_look_->with : before_look_->without;
  }
  const feeder::Receipt* const receipt =
      in_hand && latest_ != nullptr ? latest_->in_hand() : nullptr;
  if (receipt == nullptr) return call->state();
  return call->state(std::span(&receipt, 1));
}

void PrefetcherObject::load(std::string text, bool accept_dataset) {
  Feeding::Call call(*feeding_);
  of_states([&] {
    if (accept_dataset) {
      feeder::State state = feeder::State::parse(text);
      state.dataset = to_dataset(dataset_).digest();
      text = state.text();
    }
    call->check_resume(text);
  });
  note_rests(text);
  loaded_ = std::move(text);
}

void PrefetcherObject::close() {
  loaded_.reset();
  drop_look();
  if (!feeding_->is_here()) feeding_->check_open();
  feeding_->close("the feed was closed");
  end_device();
}

void PrefetcherObject::warn_of_copies() {
  if (std::exchange(has_warned_of_copies_, true)) return;
  const std::optional<HeldBatch> oldest = feeding_->leases()->oldest();
  const std::string text =
      "leat: a batch is copied, and so are all that are asked for while " +
      std::to_string(options_.max_leases - 1) + " are held (max_leases - 1); the oldest is " +
      (oldest.has_value() ? oldest->text() : std::string("gone")) +
      ": drop or release() batches, copy what is to be kept, or raise max_leases";
  warn(text);
}

void PrefetcherObject::warn_of_look(const std::string& text) noexcept {
  if (std::exchange(has_warned_of_look_, true)) return;
  const InCall inside(InCall::to_the_end);
  const nb::error_scope pending;  // a generator's GeneratorExit
  try {
    warn(text);
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("leat: a warning");
  }
}

int PrefetcherObject::traverse(visitproc visit, void* arg) const {
  Py_VISIT(dataset_.ptr());
  Py_VISIT(framework_.ptr());
  Py_VISIT(step_.ptr());
  return 0;
}

// The prefetcher reads the dataset: it ends first, also where a loop of the same garbage has it
// still. No thread is in a call then.
void PrefetcherObject::clear() noexcept {
  drop_look();
  if (feeding_ != nullptr && !feeding_->finish("the feed was closed")) {
    static_cast<void>(dataset_.release());  // it is read still
  }
  dataset_.reset();
  framework_.reset();
  step_.reset();
}

std::string merge_states(const std::vector<std::string>& texts) {
  return of_states([&] {
    std::vector<feeder::State> states;
    states.reserve(texts.size());
    for (const std::string& text : texts) states.push_back(feeder::State::parse(text));
    return feeder::State::merge(states).text();
  });
}

}  // namespace leat::python
