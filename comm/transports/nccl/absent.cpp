// Stands in for the whole folder in a build without nccl.h or without CUDA.
#include <string>

#include "leat/comm/transports/nccl/nccl.h"
#include "leat/csp/error.h"

namespace leat::comm::nccl {
namespace {

[[noreturn]] void refuse(const std::string& name) {
  throw Error("leat: comm::open(\"" + name +
              "\"): this Leat was built without NCCL; build it where CMake finds the CUDA Toolkit "
              "and nccl.h (Debian and Ubuntu: libnccl-dev)");
}

}  // namespace

std::vector<std::shared_ptr<Transport>> open_here(
    int ranks, const OpenOptions& /*options*/,
    const std::function<std::vector<std::shared_ptr<Transport>>()>& /*beside*/) {
  refuse("nccl:" + std::to_string(ranks));
}

std::vector<std::shared_ptr<Transport>> open_in_process(
    const OpenOptions& /*options*/, const std::function<std::shared_ptr<Transport>()>& /*beside*/) {
  refuse("nccl");
}

}  // namespace leat::comm::nccl
