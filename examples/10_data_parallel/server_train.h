// The training with parameter servers, in place of an exchange.
#pragma once

#include "examples/10_data_parallel/options.h"
#include "examples/10_data_parallel/train.h"
#include "leat/comm/communicator.h"
#include "leat/feeder/dataset.h"
#include "leat/gpu/device.h"

namespace data_parallel {

/// train(), with options.servers > 0. Throws std::invalid_argument, too, for options that the
/// servers refuse, and if there is no rank that trains.
[[nodiscard]] Outcome train_with_servers(const leat::comm::Communicator& ranks,
                                         const leat::gpu::Device& device,
                                         const leat::feeder::Dataset& data,
                                         const leat::feeder::Dataset* test, const Options& options);

}  // namespace data_parallel
