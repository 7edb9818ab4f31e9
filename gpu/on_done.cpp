#include "leat/gpu/on_done.h"

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/event.h"

namespace leat::gpu {

DoneSubscription::DoneSubscription(const EventRef& event)
    : device_(event.device()), signal_(device_.backend()->take_signal()) {
  signal_->set_notifier(device_.backend()->scheduler());
  device_.backend()->subscribe(event.handle(), signal_);
}

DoneSubscription::~DoneSubscription() {
  if (signal_) device_.backend()->unsubscribe(*signal_);
}

}  // namespace leat::gpu
