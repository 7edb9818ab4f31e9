// What the copier sends to a consumer.
#pragma once

#include <cstdint>

namespace leat::feeder {

struct DeviceSlot;

/// A staged batch, or (null) the end of an epoch.
struct Staged {
  DeviceSlot* slot = nullptr;
  std::uint64_t generation = 0;  // the request's that it serves
  std::uint64_t epoch = 0;
};

}  // namespace leat::feeder
