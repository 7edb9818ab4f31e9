#include "leat/feeder/sources/open_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "leat/feeder/sources/announce.h"
#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

// Returns a descriptor, or -errno.
int open_for_reading(const std::filesystem::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  return descriptor < 0 ? -errno : descriptor;
}

// Whether there are too many open files, in the process or on the machine.
bool is_shortage(int descriptor) { return descriptor == -EMFILE || descriptor == -ENFILE; }

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& file) : OpenFile(file, open_for_reading(file)) {}

OpenFile::OpenFile(const std::filesystem::path& file, int descriptor) : descriptor_(descriptor) {
  if (descriptor_ < 0) {
    refuse_address(file.native(), -descriptor_);
    cannot_read(file, std::strerror(-descriptor_),
                is_shortage(descriptor_)
                    ? "raise the limit of open files (ulimit -n), or have fewer of them open"
                    : advice_for_unreadable());
  }
  struct stat status {};
  const char* problem = nullptr;
  if (fstat(descriptor_, &status) != 0) {
    problem = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    problem = S_ISDIR(status.st_mode) ? "it is a directory" : "it is no regular file";
  }
  if (problem != nullptr) {
    close(descriptor_);
    cannot_read(file, problem, "name a file");
  }
  stamp_ = FileStamp(status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

OpenFile::~OpenFile() { close(descriptor_); }

std::shared_ptr<const OpenFile> OpenFile::open_if_descriptors_are_left(
    const std::filesystem::path& file) {
  const int descriptor = open_for_reading(file);
  if (is_shortage(descriptor)) return nullptr;
  return std::shared_ptr<const OpenFile>(new OpenFile(file, descriptor));
}

bool OpenFile::is_rewritten(const FileStamp& before) const noexcept {
  struct stat status {};
  return fstat(descriptor_, &status) == 0 && before.is_rewritten(FileStamp(status));
}

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

std::uint64_t OpenFile::announce(std::uint64_t offset, std::uint64_t count) const noexcept {
  for (std::uint64_t at = 0; at < count; at += kMostAnnounced) {
    const int error = posix_fadvise(descriptor_, static_cast<off_t>(offset + at),
                                    static_cast<off_t>(std::min(count - at, kMostAnnounced)),
                                    POSIX_FADV_WILLNEED);
    if (error != 0) return at;
  }
  return count;
}

OpenFiles::OpenFiles(std::span<const std::filesystem::path> files, std::size_t most)
    : files_(files), most_(most), open_(files.size()) {}

OpenFiles::Files OpenFiles::take_oldest(std::size_t most) {
  Files taken;
  for (; order_.size() > most; order_.pop_front()) {
    taken.push_back(std::exchange(open_[order_.front()], nullptr));
  }
  return taken;
}

std::shared_ptr<const OpenFile> OpenFiles::open(std::size_t file) {
  for (;;) {
    if (auto opened = OpenFile::open_if_descriptors_are_left(files_[file])) return opened;
    Files closed;
    {
      const std::lock_guard lock(mutex_);
      // Half, not one: the rest of the program needs descriptors, too.
      most_ = order_.size() / 2;
      closed = take_oldest(most_);
    }
    if (closed.empty()) return std::make_shared<const OpenFile>(files_[file]);  // mostly throws
  }
}

std::shared_ptr<const OpenFile> OpenFiles::get(std::size_t file) {
  {
    const std::lock_guard lock(mutex_);
    if (open_[file]) return open_[file];
  }
  auto opened = open(file);  // without the lock: it may take long
  Files closed;              // destroyed without the lock, too
  const std::lock_guard lock(mutex_);
  if (open_[file] || most_ == 0) return opened;  // another thread has opened it meanwhile
  closed = take_oldest(most_ - 1);
  open_[file] = opened;
  order_.push_back(file);
  return opened;
}

}  // namespace leat::feeder
