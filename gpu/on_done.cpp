#include "leat/gpu/on_done.h"

namespace leat::gpu {

DoneSubscription::DoneSubscription(const EventRef& event)
    : device_(event.device()), signal_(device_.backend()->take_signal()) {
  signal_->expect_from(device_.backend()->scheduler());
  device_.backend()->subscribe(event.handle(), signal_);
}

DoneSubscription::~DoneSubscription() {
  if (signal_) device_.backend()->unsubscribe(*signal_);
}

}  // namespace leat::gpu
