// What a prefetcher refuses of its options, and the numbers that they leave to it.
#pragma once

#include <cstddef>

#include "leat/feeder/prefetcher_options.h"

namespace leat::feeder {

/// Pinned slots of each device, where the options do not say.
[[nodiscard]] std::size_t pinned_for(std::size_t workers, std::size_t prefetch_depth,
                                     std::size_t devices);

/// The options with their defaults filled in, for so many devices. Throws std::invalid_argument,
/// naming the option, for those that cannot work.
[[nodiscard]] PrefetcherOptions checked(PrefetcherOptions options, std::size_t devices);

/// Throws std::invalid_argument, naming `name`, if the slots of all devices take more than `cap`
/// bytes (0: than any memory has). `kind` is "pinned" or "device".
void check_cap(std::size_t cap, std::size_t slots, std::size_t slot_bytes, std::size_t devices,
               const char* kind, const char* name);

}  // namespace leat::feeder
