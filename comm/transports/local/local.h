// The transport "local": all ranks are in this process, and read each other's memory.
#pragma once

#include <memory>
#include <vector>

#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"

namespace leat::comm {

/// The ends of the communicator of `ranks` ranks, 1 to 4096, by rank. Any fiber or thread may use
/// an end. Throws as World's constructor.
[[nodiscard]] std::vector<std::shared_ptr<Transport>> open_local(int ranks,
                                                                 const OpenOptions& options);

}  // namespace leat::comm
