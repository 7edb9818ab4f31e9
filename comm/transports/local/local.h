// The transport between ranks of one process: they read each other's memory.
#pragma once

#include <memory>
#include <vector>

#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"

namespace leat::comm {

/// A world of `ranks` ranks, 1 to 4096, and the ends of all of them, in order.
[[nodiscard]] std::vector<std::shared_ptr<Transport>> open_local(int ranks,
                                                                 const OpenOptions& options);

}  // namespace leat::comm
