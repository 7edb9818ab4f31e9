// A rank of "mpi".
#include <utility>

#include "tests/comm/mpi/process.h"

namespace leat::comm::support {

const char* process_title() { return "Mpi"; }

Communicator open_process(const OpenOptions& options) {
  return std::move(open("mpi", options).front());
}

}  // namespace leat::comm::support
