// Files that the page cache has let go of, for what is promised about cold data.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace leat::support {

/// Bytes that the kernel has the disk fetch because of the calling thread, so far.
inline std::uint64_t fetched_bytes() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::uint64_t>(usage.ru_inblock) * 512;
}

/// Has the page cache let go of `file`, which nobody maps. Returns whether a read of it then goes
/// to a disk: not on tmpfs.
inline bool make_cold(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  const auto let_go = [&] {
    return fsync(descriptor) == 0 && posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0;
  };
  std::vector<std::byte> page(4096);
  // Without read-ahead: pages that are still on their way are not let go of.
  const bool could = posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM) == 0 && let_go();
  const std::uint64_t before = fetched_bytes();
  const bool is_cold = could && pread(descriptor, page.data(), page.size(), 0) > 0 &&
                       fetched_bytes() > before && let_go();
  close(descriptor);
  return is_cold;
}

}  // namespace leat::support

/// Makes `file` cold, or skips the test.
#define LEAT_MAKE_COLD(file)                                                             \
  if (!::leat::support::make_cold(file)) {                                               \
    GTEST_SKIP() << "the folder for temporary files is not on a disk that counts reads"; \
  }
