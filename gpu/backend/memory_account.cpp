#include "leat/gpu/backend/memory_account.h"

#include <string>

#include "leat/gpu/backend/backend.h"
#include "leat/gpu/error.h"

namespace leat::gpu {

void reserve_memory(Backend& backend, MemorySpace space, std::size_t bytes) {
  MemoryAccount& account = backend.account(space);
  if (account.reserve(bytes)) return;
  throw GpuError(0, "over the cap",
                 "allocate " + std::to_string(bytes) + " bytes of " + to_string(space) + " memory",
                 backend.info().name,
                 std::to_string(account.taken()) + " of " + std::to_string(account.figures().cap) +
                     " bytes are in use; raise MemoryCaps::" + to_string(space) +
                     "_bytes, or use smaller batches or fewer slots");
}

}  // namespace leat::gpu
