// NCCL's functions, found at run time: the same program runs with and without the library.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

namespace leat::comm::nccl {

/// The opened library. Stays in the process: its threads may outlive all users. Thread-safe, as
/// NCCL.
class Library {
 public:
  /// Opens libnccl.so.2, or what LEAT_NCCL_LIBRARY names. Throws Error, as comm::open(name), if it
  /// is not there, lacks a function, or is older than 2.18.
  [[nodiscard]] static std::shared_ptr<const Library> open(const std::string& name);

  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclRedOpCreatePreMulSum) red_op_create = nullptr;
  decltype(&ncclRedOpDestroy) red_op_destroy = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) recv = nullptr;

 private:
  Library() = default;
};

/// The number of ncclGetVersion as text: "2.28.9".
[[nodiscard]] std::string version_text(int version);

}  // namespace leat::comm::nccl
