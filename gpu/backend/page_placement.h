// Where the kernel has placed the pages of a mapping: a figure for reports.
#pragma once

#include "leat/gpu/backend/page_mapping.h"
#include "leat/gpu/memory.h"

namespace leat::gpu {

/// Asks the kernel about every page (move_pages(2), /proc/self/smaps): milliseconds for a gigabyte.
[[nodiscard]] PagePlacement placement_of(const PageMapping& mapping);

}  // namespace leat::gpu
