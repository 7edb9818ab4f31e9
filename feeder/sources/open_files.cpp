#include "leat/feeder/sources/open_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "leat/feeder/sources/checks.h"

namespace leat::feeder {

OpenFile::OpenFile(const std::filesystem::path& file)
    : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) cannot_read(file, std::strerror(errno), advice_for_unreadable());
}

OpenFile::~OpenFile() { close(descriptor_); }

OpenFile::Read OpenFile::read(std::uint64_t offset, std::span<std::byte> out) const noexcept {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {.bytes = done, .error = errno};
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return {.bytes = done, .error = 0};
}

OpenFiles::OpenFiles(std::span<const std::filesystem::path> files, std::size_t most)
    : files_(files), most_(most), open_(files.size()) {}

std::shared_ptr<const OpenFile> OpenFiles::get(std::size_t file) {
  {
    const std::lock_guard lock(mutex_);
    if (open_[file]) return open_[file];
  }
  auto opened =
      std::make_shared<const OpenFile>(files_[file]);  // without the lock: it may take long
  std::shared_ptr<const OpenFile> closed;              // destroyed without the lock, too
  const std::lock_guard lock(mutex_);
  if (open_[file] || most_ == 0) return opened;  // another thread has opened it meanwhile
  if (order_.size() == most_) {
    closed = std::exchange(open_[order_.front()], nullptr);
    order_.pop_front();
  }
  open_[file] = opened;
  order_.push_back(file);
  return opened;
}

}  // namespace leat::feeder
