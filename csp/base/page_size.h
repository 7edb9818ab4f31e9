// The size of a page of memory.
#pragma once

#include <cstddef>

namespace leat {

/// Returns the size of a page of memory in bytes: a power of two. The first call asks the system.
/// Later calls only read a variable.
[[nodiscard]] std::size_t page_size() noexcept;

}  // namespace leat
