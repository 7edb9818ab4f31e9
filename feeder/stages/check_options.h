// Checks of a prefetcher's options, and the defaults that depend on other options.
#pragma once

#include <cstddef>

#include "leat/feeder/batch_source.h"
#include "leat/feeder/prefetcher_options.h"

namespace leat::feeder {

/// Returns the default number of pinned slots of each device.
[[nodiscard]] std::size_t pinned_for(std::size_t workers, std::size_t prefetch_depth,
                                     std::size_t devices);

/// Returns the options with defaults filled in, for `devices` devices and `source`, if the dataset
/// is a batch source. Throws std::invalid_argument, with the option's name, for a value that cannot
/// work.
[[nodiscard]] PrefetcherOptions checked(PrefetcherOptions options, std::size_t devices,
                                        const BatchSource* source);

/// Throws std::invalid_argument, with the option `name`, if the slots of all devices take more than
/// `cap` bytes. A `cap` of 0 stands for 2^62. `kind` is "pinned" or "device". Each device takes
/// `checks` bytes more.
void check_cap(std::size_t cap, std::size_t slots, std::size_t slot_bytes, std::size_t devices,
               std::size_t checks, const char* kind, const char* name);

}  // namespace leat::feeder
