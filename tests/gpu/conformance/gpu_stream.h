// The fixture of the tests of streams, which several files share. stream_test.cpp instantiates it.
#pragma once

#include <cstddef>

#include "tests/support/backends.h"

namespace leat::gpu::gpu_stream {

constexpr std::size_t kBytes = 10'007;
constexpr std::byte kPoison{0xA5};

class GpuStream : public support::BackendTest {};

}  // namespace leat::gpu::gpu_stream
