// A backend's own streams and events, as the value types of gpu/ hold them.
#pragma once

#include <cstdint>

namespace leat::gpu {

/// A stream of a Backend.
enum class StreamHandle : std::uintptr_t { kNone = 0 };
/// An event of a Backend.
enum class EventHandle : std::uintptr_t { kNone = 0 };

}  // namespace leat::gpu
