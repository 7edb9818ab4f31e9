// This process's rank of "nccl", under mpirun.
#pragma once

#include <memory>

#include "leat/comm/transports/transport.h"

namespace leat::comm::support {

/// The transport below open_process(), which numbers its collectives: others work on a subset().
[[nodiscard]] const std::shared_ptr<Transport>& nccl_of_process();

}  // namespace leat::comm::support
