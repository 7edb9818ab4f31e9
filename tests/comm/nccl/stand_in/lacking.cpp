// A library that says it is NCCL, and has nothing else of it.
#include <nccl.h>

extern "C" ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
