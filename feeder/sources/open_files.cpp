#include "leat/feeder/sources/open_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "leat/csp/error.h"

namespace leat::feeder {

OpenFile::OpenFile(const std::filesystem::path& file)
    : descriptor_(open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) {
    throw Error("leat: cannot read " + file.string() + ": " + std::strerror(errno) +
                "; check that it is a file and may be read");
  }
}

OpenFile::~OpenFile() { close(descriptor_); }

OpenFiles::OpenFiles(std::span<const std::filesystem::path> files, std::size_t most)
    : files_(files), most_(most), open_(files.size()) {}

std::shared_ptr<const OpenFile> OpenFiles::get(std::size_t file) {
  {
    const std::lock_guard lock(mutex_);
    if (open_[file]) return open_[file];
  }
  auto opened = std::make_shared<const OpenFile>(files_[file]);  // not under the lock: it may take
  std::shared_ptr<const OpenFile> closed;                        // nor is one closed under it
  const std::lock_guard lock(mutex_);
  if (open_[file] || most_ == 0) return opened;  // somebody else was faster
  if (order_.size() == most_) {
    closed = std::exchange(open_[order_.front()], nullptr);
    order_.pop_front();
  }
  open_[file] = opened;
  order_.push_back(file);
  return opened;
}

}  // namespace leat::feeder
