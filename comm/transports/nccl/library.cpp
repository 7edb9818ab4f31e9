#include "leat/comm/transports/nccl/library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "leat/csp/error.h"

namespace leat::comm::nccl {
namespace {

// The first whose communicators can be made, and ended, without blocking, and report errors well.
constexpr int kOldest = NCCL_VERSION(2, 18, 0);

constexpr const char* kAdvice =
    "; install NCCL 2.18 or newer (libnccl2), or let LEAT_NCCL_LIBRARY name its libnccl.so.2";

}  // namespace

std::string version_text(int version) {
  const int major = version < 10'000 ? version / 1'000 : version / 10'000;
  const int rest = version < 10'000 ? version % 1'000 : version % 10'000;
  return std::to_string(major) + '.' + std::to_string(rest / 100) + '.' +
         std::to_string(rest % 100);
}

std::shared_ptr<const Library> Library::open(const std::string& name) {
  const char* const wanted = std::getenv("LEAT_NCCL_LIBRARY");
  const std::string path = wanted != nullptr && *wanted != '\0' ? wanted : "libnccl.so.2";
  const auto refuse = [&](const std::string& why) {
    throw Error("leat: comm::open(\"" + name + "\"): " + why + kAdvice);
  };
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const why = dlerror();
    refuse("NCCL's library cannot be opened: " + std::string(why != nullptr ? why : path));
  }
  std::shared_ptr<Library> library(new Library);
  const auto find = [&](const char* symbol, auto& function) {
    void* const found = dlsym(handle, symbol);
    if (found == nullptr) refuse(path + " lacks " + symbol);
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find("ncclGetVersion", library->get_version);
  int version = 0;
  if (library->get_version(&version) != ncclSuccess || version < kOldest) {
    refuse(path + " is NCCL " + version_text(version) + ", which is too old");
  }
  find("ncclGetUniqueId", library->get_unique_id);
  find("ncclGetErrorString", library->get_error_string);
  find("ncclGetLastError", library->get_last_error);
  find("ncclCommInitRankConfig", library->comm_init);
  find("ncclCommGetAsyncError", library->comm_get_async_error);
  find("ncclCommFinalize", library->comm_finalize);
  find("ncclCommDestroy", library->comm_destroy);
  find("ncclCommAbort", library->comm_abort);
  find("ncclRedOpCreatePreMulSum", library->red_op_create);
  find("ncclRedOpDestroy", library->red_op_destroy);
  find("ncclGroupStart", library->group_start);
  find("ncclGroupEnd", library->group_end);
  find("ncclAllReduce", library->all_reduce);
  find("ncclReduceScatter", library->reduce_scatter);
  find("ncclAllGather", library->all_gather);
  find("ncclReduce", library->reduce);
  find("ncclBroadcast", library->broadcast);
  find("ncclSend", library->send);
  find("ncclRecv", library->recv);
  return library;
}

}  // namespace leat::comm::nccl
