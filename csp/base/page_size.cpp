#include "leat/csp/base/page_size.h"

#include <unistd.h>

namespace leat {

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace leat
