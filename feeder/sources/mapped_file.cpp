#include "leat/feeder/sources/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "leat/csp/base/page_size.h"
#include "leat/csp/error.h"
#include "leat/feeder/sources/announce.h"
#include "leat/feeder/sources/checks.h"

namespace leat::feeder {
namespace {

// The size from which expect() is worth its system call also where most data is in memory. Pieces
// of 64 KiB, in random order:
//
//             without   with
//   SSD       1100 us   180 us
//   in memory    6 us     7 us
constexpr std::uint64_t kWorthAdvice = std::uint64_t{32} << 10;

constexpr std::uint64_t kCacheLine = 64;
// The most bytes that fetch_into_cache() fetches. For a larger sample, the processor recognises the
// sequence and fetches the rest by itself.
constexpr std::uint64_t kMostInCache = std::uint64_t{8} << 10;

// The bytes after which check_unchanged() asks again.
constexpr std::uint64_t kAskEvery = std::uint64_t{1} << 20;

}  // namespace

void MappedFile::Unmap::operator()(void* pages) const noexcept { munmap(pages, size); }

MappedFile::MappedFile(std::filesystem::path path, Access access)
    : path_(std::move(path)), access_(access) {
  std::error_code error;  // set if the working directory was deleted; ignored
  absolute_ = std::filesystem::absolute(path_, error);
  if (error) absolute_ = path_;
  const OpenFile file(path_);
  const std::uint64_t size = file.size();
  if (size == 0) {
    cannot_read(path_, "it is empty (0 bytes)", "write or fetch it again, or leave it out");
  }
  if (size > std::numeric_limits<std::size_t>::max() / 2) {
    cannot_read(path_, "its " + std::to_string(size) + " bytes cannot be mapped", "split it");
  }
  size_ = static_cast<std::size_t>(size);
  device_ = file.device();
  inode_ = file.inode();
  stamp_ = file.stamp();

  void* const pages = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (pages == MAP_FAILED) {
    const int code = errno;
    const std::string problem = std::string("mapping it failed: ") + std::strerror(code);
    const char* const advice =
        "if files are many, raise vm.max_map_count; else check the limits of address space";
    if (code == ENOMEM) lacks_memory(path_, size_, problem, advice);
    cannot_read(path_, problem, advice);
  }
  pages_ = {pages, Unmap{size_}};
  // Only advice, so a failure is ignored.
  madvise(pages, size_, access == Access::kRandom ? MADV_RANDOM : MADV_SEQUENTIAL);
  last_page_ = size - 1 - (size - 1) % page_size();
  guard_ = std::make_unique<GuardedRange>(static_cast<const std::byte*>(pages), size_, true);
}

std::uint64_t MappedFile::announce(std::uint64_t offset, std::uint64_t count) const noexcept {
  if (access_ != Access::kRandom || offset >= size_ || count > size_ - offset) return 0;
  return announce_mapped(bytes().subspan(offset, count)) ? count : 0;
}

void MappedFile::expect(std::uint64_t offset, std::uint64_t count) const noexcept {
  if (count >= kWorthAdvice) announce(offset, count);
}

void MappedFile::fetch_into_cache(std::uint64_t offset, std::uint64_t count) const noexcept {
  const std::byte* const first = bytes().data() + offset;
  const std::byte* const end = first + std::min<std::uint64_t>(count, kMostInCache);
  // A prefetch of a page that is not in memory has no effect and causes no fault.
  for (const std::byte* line = first; line < end; line += kCacheLine) __builtin_prefetch(line);
  if (count > 0) __builtin_prefetch(end - 1);
}

void MappedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_ || out.size() > size_ - offset) check_with_size(offset, out.size());
  expect(offset, out.size());
  if (!out.empty()) std::memcpy(out.data(), bytes().data() + offset, out.size());
  check(offset, out.size());
}

void MappedFile::check(std::uint64_t offset, std::uint64_t count) const {
  // Keeps the compiler from moving the caller's reads of the bytes behind the check.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  static_cast<void>(*static_cast<const volatile std::byte*>(&bytes()[size_ - 1]));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool is_before_last_page = offset < last_page_ && count <= last_page_ - offset;
  const bool is_rewritten = is_rewritten_.load(std::memory_order_relaxed);
  if (is_before_last_page && !guard_->is_damaged() && !is_rewritten) return;
  check_with_size(offset, count);
}

void MappedFile::check_with_size(std::uint64_t offset, std::uint64_t count) const {
  if (offset > size_ || count > size_ - offset) {
    throw std::out_of_range("leat: " + path_.string() + " has " + std::to_string(size_) +
                            " bytes; " + std::to_string(count) + " from byte " +
                            std::to_string(offset) + " on are not among them");
  }
  const std::optional<FileStamp> now = stamp_now();
  const std::uint64_t size_now = now.has_value() ? now->bytes : size_;
  const std::uint64_t end = offset + count;
  if (end > size_now) {
    cannot_read(path_,
                "it was cut off while it was mapped: it had " + std::to_string(size_) +
                    " bytes, and has " + std::to_string(size_now) + " now; bytes " +
                    std::to_string(offset) + " to " + std::to_string(end) + " were wanted",
                "replace files by renaming new ones, and start again");
  }
  if (guard_->is_lost(static_cast<std::size_t>(offset), static_cast<std::size_t>(end))) {
    cannot_read(path_,
                "bytes " + std::to_string(offset) + " to " + std::to_string(end) +
                    " could not be had: the page at byte " + std::to_string(guard_->first_lost()) +
                    " was missing, because of an I/O error or because the file was cut off",
                "look into the kernel's log, and do not change files that are in use");
  }
  if (is_rewritten_.load(std::memory_order_relaxed)) fail_rewritten();
}

// If the name leads to another file or to none, the mapped file was replaced or removed. Its
// content is then unchanged.
std::optional<FileStamp> MappedFile::stamp_now() const {
  struct stat status = {};
  if (stat(absolute_.c_str(), &status) != 0) return std::nullopt;
  if (status.st_dev != device_ || status.st_ino != inode_) return std::nullopt;
  return FileStamp(status);
}

void MappedFile::check_unchanged(std::uint64_t number, std::uint64_t bytes) const {
  const std::uint64_t every =
      std::max<std::uint64_t>(kAskEvery / std::max<std::uint64_t>(bytes, 1), 1);
  if (number % every != 0) return;
  const std::optional<FileStamp> now = stamp_now();
  if (!now.has_value() || !stamp_.is_rewritten(*now)) return;
  is_rewritten_.store(true, std::memory_order_relaxed);
  fail_rewritten();
}

void MappedFile::fail_rewritten() const {
  cannot_read(path_, "it was written again, or touched, while it was mapped",
              "replace files by renaming new ones, and start again");
}

}  // namespace leat::feeder
