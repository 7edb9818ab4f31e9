// How comm::open("mpi") finds the library leat::comm_mpi, which a program links or not.
#pragma once

#include <memory>

#include "leat/comm/transports/transport.h"
#include "leat/comm/transports/world.h"
#include "leat/csp/error.h"

/// As open_mpi(). Null unless the program links leat::comm_mpi, which defines it; a link option
/// makes the linker look for it.
extern "C" __attribute__((weak)) void leat_comm_mpi_open(
    const leat::comm::OpenOptions& options, std::shared_ptr<leat::comm::Transport>& opened);

namespace leat::comm {

/// This process's end of the world that mpirun started. Throws leat::Error if the program does not
/// link leat::comm_mpi, or if MPI cannot be used.
[[nodiscard]] inline std::shared_ptr<Transport> open_mpi(const OpenOptions& options) {
  if (leat_comm_mpi_open == nullptr) {
    throw Error(
        "leat: comm::open(\"mpi\"): this program was linked without MPI; link leat::comm_mpi, "
        "which "
        "is built where CMake finds MPI (Debian and Ubuntu: apt-get install libopenmpi-dev)");
  }
  std::shared_ptr<Transport> opened;
  leat_comm_mpi_open(options, opened);
  return opened;
}

}  // namespace leat::comm
