#include "leat/python/loops/feeding.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "leat/csp/base/start_thread.h"
#include "leat/csp/error.h"
#include "leat/csp/notification.h"

namespace leat::python {
namespace nb = nanobind;

namespace {

// What is static here is never destroyed: objects of Python may outlive static destructors.
template <class T>
T& lasting() {
  static T* const it = new T;
  return *it;
}

using Feedings = std::vector<Feeding*>;

}  // namespace

gpu::Device open_device(const std::string& name) {
  const InCall inside;
  const nb::gil_scoped_release others_run;
  return gpu::open(name);
}

void stop_all() {
  begin_exit();
  std::vector<std::shared_ptr<Feeding>> all;
  for (Feeding* const one : lasting<Feedings>()) {
    if (std::shared_ptr<Feeding> feeding = one->weak_from_this().lock()) {
      if (feeding->is_here()) all.push_back(std::move(feeding));
    }
  }
  for (const auto& one : all) one->stop();
  std::exception_ptr interruption;
  for (const auto& one : all) {
    if (one->is_closed())
      continue;  // what was interrupted, or is in a call, is not waited for here
    try {
      one->close("the interpreter exits");
    } catch (...) {  // Ctrl-C: a read does not end
      interruption = std::current_exception();
    }
  }
  await_calls(std::chrono::seconds(10));  // those in copies, and in destructors
  if (interruption != nullptr) std::rethrow_exception(interruption);
}

struct Feeding::Parts {
  gpu::Device device;
  const feeder::PrefetcherOptions options;
  std::optional<feeder::Prefetcher> prefetcher = std::nullopt;
  Notification ended = {};  // the prefetcher was destroyed

  void end() noexcept {
    prefetcher.reset();
    ended.notify();
  }
};

Feeding::Feeding(const feeder::Dataset& data, const gpu::Device& device,
                 const feeder::PrefetcherOptions& options)
    : parts_(new Parts{.device = device.for_memory(), .options = options}),
      leases_(std::make_shared<Leases>()) {
  const InCall inside;
  const nb::gil_scoped_release others_run;
  parts_->prefetcher.emplace(data, device, options);
}

std::shared_ptr<Feeding> Feeding::make(const feeder::Dataset& data, const gpu::Device& device,
                                       const feeder::PrefetcherOptions& options) {
  // The registry does not see a feeding whose constructor has not ended. A thread that makes one
  // while the interpreter exits is in a call: stop_all() waits for that, and then it is too late.
  std::shared_ptr<Feeding> made(new Feeding(data, device, options));
  if (is_exiting()) made->close("the interpreter exits");
  lasting<Feedings>().push_back(made.get());
  return made;
}

Feeding::~Feeding() {
  std::erase(lasting<Feedings>(), this);
  if (!home_.is_here()) {
    // The threads are not here, and locks may be locked: it leaks.
    leak(std::move(parts_));
    return;
  }
  static_cast<void>(finish("the feed was closed"));
  const InCall inside(InCall::to_the_end);
  const nb::gil_scoped_release others_run;
  parts_.reset();  // the last handle of a device may wait
}

void Feeding::stop() noexcept {
  if (parts_->prefetcher.has_value()) parts_->prefetcher->stop();
}

// Destroys the prefetcher, once and after all calls.
void Feeding::end() noexcept {
  const InCall inside(InCall::to_the_end);
  const nb::gil_scoped_release others_run;
  parts_->end();
}

// As end(), without waiting: a thread does it, so that signals are handled meanwhile. Where no
// thread can be started, this one does it: Ctrl-C then waits for the reads that are under way.
void Feeding::begin_end() noexcept {
  try {
    start_thread("the thread that closes a feed", [parts = parts_] { parts->end(); }).detach();
  } catch (const std::exception&) {
    end();
  }
}

void Feeding::close(std::string_view why) {
  const bool was_closed = is_closed();
  closed_why_ = why;  // the latest reason holds
  if (!home_.is_here()) return;
  if (!was_closed) {
    stop();
    if (calls_ == 0) begin_end();
  }
  if (calls_ > 0 && InCall::is_in_one()) return;
  const InCall inside(InCall::to_the_end);
  wait_in_slices(std::nullopt, [&](TimePoint until) { return parts_->ended.wait_until(until); });
}

bool Feeding::finish(std::string_view why) noexcept {
  if (!home_.is_here()) return true;  // no thread reads
  if (closed_why_.empty()) {
    closed_why_ = why;
    stop();
    if (calls_ == 0) end();
  }
  if (parts_->ended.has_been_notified()) return true;
  if (calls_ > 0 || is_exiting()) return false;
  const InCall inside(InCall::to_the_end);
  const nb::gil_scoped_release others_run;
  parts_->ended.wait();
  return true;
}

void Feeding::check_open() const {
  if (!home_.is_here()) {
    throw Error("leat: a Prefetcher does not survive fork(): make one in the child");
  }
  if (!closed_why_.empty()) throw Error("leat: " + closed_why_);
}

const gpu::Device& Feeding::device() const noexcept { return parts_->device; }

const feeder::PrefetcherOptions& Feeding::options() const noexcept { return parts_->options; }

Feeding::Call::Call(Feeding& feeding) : feeding_(feeding.shared_from_this()) {
  feeding_->check_open();
  ++feeding_->calls_;
}

Feeding::Call::~Call() {
  if (--feeding_->calls_ == 0 && feeding_->is_closed()) feeding_->end();
}

feeder::Prefetcher* Feeding::Call::operator->() const noexcept {
  return &*feeding_->parts_->prefetcher;
}

Feeding::Turn::Turn(Feeding& feeding) : feeding_(feeding), call_(feeding) {
  if (feeding_.is_taken_) {
    throw Error(
        "leat: another call asks this feed for a batch, in another thread or in a signal handler: "
        "a feed has one loop at a time");
  }
  feeding_.is_taken_ = true;
}

Feeding::Turn::~Turn() { feeding_.is_taken_ = false; }

}  // namespace leat::python
