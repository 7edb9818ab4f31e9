// What the copier sends to a consumer.
#pragma once

#include <cstdint>
#include <exception>

namespace leat::feeder {

struct DeviceSlot;

/// A staged batch, or (null) the error of one, or the end of an epoch.
struct Staged {
  DeviceSlot* slot = nullptr;
  std::uint64_t generation = 0;  // the request's that it serves
  std::uint64_t epoch = 0;
  std::exception_ptr error = nullptr;  // of one batch of a batch source
};

}  // namespace leat::feeder
