#include "leat/comm/transports/mpi_hook.h"

namespace leat::comm {

std::shared_ptr<Transport> open_mpi(const OpenOptions& options) {
  if (leat_comm_mpi_open == nullptr) {
    throw Error(
        "leat: comm::open(\"mpi\"): this program was linked without MPI; link leat::comm_mpi, "
        "which "
        "is built where CMake finds MPI (Debian and Ubuntu: apt-get install libopenmpi-dev)");
  }
  const std::unique_ptr<std::shared_ptr<Transport>> opened(leat_comm_mpi_open(&options));
  return std::move(*opened);
}

}  // namespace leat::comm
