// Files that are mapped, also those that shrink. SIGBUS of others: foreign_bus_error_test.cpp.
#include "leat/feeder/sources/mapped_file.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "leat/csp/error.h"
#include "leat/csp/scheduler.h"
#include "leat/csp/task_group.h"
#include "leat/feeder/sources/mapped_memory.h"
#include "tests/feeder/sources/idx_files.h"
#include "tests/support/cold_file.h"

namespace leat::feeder {
namespace mapped_file_test {

namespace fs = std::filesystem;

const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

std::uint8_t value(std::size_t offset) { return static_cast<std::uint8_t>(offset * 7 + 1); }

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = value(i);
  return bytes;
}

// Reads, and checks that what was read is right.
void expect_reads(const MappedFile& file, std::size_t offset, std::size_t count) {
  std::vector<std::byte> out(count);
  file.read(offset, out);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(std::to_integer<unsigned>(out[i]), value(offset + i)) << offset + i;
  }
}

std::string error_of_reading(const MappedFile& file, std::size_t offset, std::size_t count) {
  std::vector<std::byte> out(count);
  return error_of([&] { file.read(offset, out); });
}

// It could not be told apart from memory that stays.
TEST(FileMappings, WithoutADescriptorTheyAreAnError) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string error = error_of([] { const FileMappings mappings; });
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(error.find("cannot open /proc/self/maps"), std::string::npos) << error;
}

TEST(MappedFile, IsTheBytesOfTheFile) {
  const TemporaryDirectory directory;
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{100}, kPage, kPage + 1, 5 * kPage, 40 * kPage + 3}) {
    const MappedFile file(directory.write("a", pattern(size)), Access::kSequential);
    EXPECT_EQ(file.size(), size);
    EXPECT_EQ(file.bytes().size(), size);
    EXPECT_EQ(file.path(), directory.path() / "a");
    expect_reads(file, 0, size);
    expect_reads(file, size - 1, 1);
    expect_reads(file, size, 0);
    for (const std::size_t offset : {std::size_t{1}, size / 2, kPage - 1, kPage + 7}) {
      if (offset < size) expect_reads(file, offset, size - offset);
    }
  }
}

TEST(MappedFile, WhatNeverWasInTheFileIsACallersError) {
  const TemporaryDirectory directory;
  const MappedFile file(directory.write("a", pattern(100)));
  std::byte out{};
  EXPECT_THROW(file.read(100, {&out, 1}), std::out_of_range);
  EXPECT_THROW(file.read(~std::uint64_t{0}, {&out, 1}), std::out_of_range);
  EXPECT_THROW(file.check(99, 2), std::out_of_range);
  EXPECT_THROW(file.check(1, ~std::uint64_t{0}), std::out_of_range);
}

TEST(MappedFile, WhatCannotBeMappedIsNamed) {
  const TemporaryDirectory directory;
  const auto error = [](const fs::path& path) {
    return error_of([&] { const MappedFile file(path); });
  };
  const fs::path missing = directory.path() / "missing";
  expect_contains(error(missing), {"cannot read " + missing.string(), "No such file or directory"});
  expect_contains(error(directory.path()), {directory.path().string(), "it is a directory"});
  const fs::path empty = directory.write("empty", {});
  expect_contains(error(empty), {empty.string(), "it is empty (0 bytes)"});
  const fs::path pipe = directory.path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_contains(error(pipe), {pipe.string(), "it is no regular file"});
  const fs::path below = empty / "file";
  expect_contains(error(below), {below.string(), "Not a directory"});
  if (geteuid() != 0) {
    const fs::path secret = directory.write("secret", {1});
    fs::permissions(secret, fs::perms::none);
    expect_contains(error(secret), {secret.string(), "Permission denied"});
  }
}

TEST(MappedFile, CutOffAtAnyByteIsAnErrorForWhatIsGoneAndForNothingElse) {
  const TemporaryDirectory directory;
  const std::size_t size = 3 * kPage + 500;
  const MappedFile other(directory.write("other", pattern(size)));
  for (const std::size_t left : {size - 1, 3 * kPage + 1, 3 * kPage, 3 * kPage - 1, kPage + 7,
                                 kPage, std::size_t{1}, std::size_t{0}}) {
    SCOPED_TRACE("cut off at byte " + std::to_string(left));
    const fs::path path = directory.write("a", pattern(size));
    const MappedFile file(path);
    if (left % 2 == 0) expect_reads(file, 0, size);  // and where nothing was read before
    fs::resize_file(path, left);
    for (int repeat = 0; repeat < 2; ++repeat) {
      expect_contains(error_of_reading(file, left, 1),
                      {"cannot read " + path.string() + ": it was cut off while it was mapped",
                       "it had " + std::to_string(size) + " bytes, and has " + std::to_string(left),
                       "bytes " + std::to_string(left) + " to " + std::to_string(left + 1)});
      expect_contains(error_of_reading(file, 0, size), {"cut off"});
      expect_contains(error_of_reading(file, size - 1, 1), {"cut off"});
      expect_reads(file, 0, left);  // what is there is there
      if (left > 0) expect_reads(file, left - 1, 1);
      expect_reads(other, 0, size);
    }
  }
}

// Each lost page on its own would take a mapping or two, of which a process has 65530.
TEST(MappedFile, ALargeFileThatIsCutOffIsAnErrorAtEveryRead) {
  const TemporaryDirectory directory;
  const std::size_t pages = 70'000;
  const fs::path path = directory.write("a", pattern(kPage));
  fs::resize_file(path, pages * kPage);
  const MappedFile file(path);
  fs::resize_file(path, kPage);
  std::byte out{};
  std::size_t errors = 0;
  for (std::size_t page = 2; page < pages; page += 2) {
    try {
      file.read(page * kPage, {&out, 1});
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_EQ(errors, pages / 2 - 1);
  expect_reads(file, 0, kPage);
}

TEST(MappedFile, GrownAgainIsStillAnErrorWhereZerosWereGiven) {
  const TemporaryDirectory directory;
  const fs::path path = directory.write("a", pattern(3 * kPage));
  const MappedFile file(path);
  const auto before = fs::last_write_time(path);
  fs::resize_file(path, kPage);
  expect_contains(error_of_reading(file, kPage, 10), {"cut off"});
  directory.write("b", pattern(3 * kPage));
  fs::copy_file(directory.path() / "b", path, fs::copy_options::overwrite_existing);
  fs::last_write_time(path, before);
  expect_contains(error_of_reading(file, kPage, 10),
                  {path.string(), "the page at byte " + std::to_string(kPage) + " was missing"});
  expect_reads(file, 0, kPage);
}

TEST(MappedFile, WrittenAgainInPlaceIsAnErrorFromTheNextQuestionOn) {
  const TemporaryDirectory directory;
  const std::size_t size = 3 * kPage;
  const fs::path path = directory.write("a", pattern(size));
  const MappedFile file(path);
  const std::uint64_t bytes = std::uint64_t{1} << 18;  // a sample's: one in four asks
  for (std::uint64_t i = 0; i < 9; ++i) file.check_unchanged(i, bytes);
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  for (const std::uint64_t quiet : {1U, 2U, 3U, 5U}) file.check_unchanged(quiet, bytes);
  expect_reads(file, 0, size);
  const auto expect_error = [&](const std::string& error) {
    expect_contains(error, {"cannot read " + path.string() + ": it was written again, or touched",
                            "replace files by renaming"});
  };
  for (const std::uint64_t asking : {0U, 4U, 8U}) {
    expect_error(error_of([&] { file.check_unchanged(asking, bytes); }));
  }
  expect_error(error_of([&] { file.check_unchanged(7, 8 * bytes); }));  // a large one asks always
  expect_error(error_of_reading(file, 1, 1));
  expect_error(error_of_reading(file, size - 1, 1));
}

TEST(MappedFile, ReplacedOrRemovedFilesStayWhatTheyWere) {
  const TemporaryDirectory directory;
  const fs::path path = directory.write("a", pattern(2 * kPage + 5));
  const MappedFile file(path);
  fs::rename(directory.write("b", {1, 2, 3}), path);
  expect_reads(file, 0, 2 * kPage + 5);
  fs::remove(path);
  expect_reads(file, 0, 2 * kPage + 5);
}

TEST(MappedFile, AnAnnouncementHasTheDiskFetchTheBytesAndThenNoReadWaits) {
  const TemporaryDirectory directory;
  const fs::path path = directory.write("a", pattern(64 * kPage));
  LEAT_MAKE_COLD(path);
  const MappedFile file(path);
  const std::uint64_t before = support::fetched_bytes();
  EXPECT_EQ(file.announce(3 * kPage + 10, 2 * kPage), 2 * kPage);  // in 3 pages
  const std::uint64_t announced = support::fetched_bytes();
  EXPECT_GE(announced - before, 3 * kPage);
  EXPECT_LT(announced - before, 64 * kPage);
  expect_reads(file, 3 * kPage + 10, 2 * kPage);
  EXPECT_LE(support::fetched_bytes(), announced + kPage);  // the last page, which check() touches
}

// Where there is nothing to announce, or nobody to listen.
TEST(MappedFile, AnAnnouncementThatFailsChangesNothing) {
  const TemporaryDirectory directory;
  const fs::path path = directory.write("a", pattern(3 * kPage));
  const MappedFile file(path);
  EXPECT_EQ(file.announce(3 * kPage, 1), 0U);
  EXPECT_EQ(file.announce(0, ~std::uint64_t{0}), 0U);
  EXPECT_EQ(file.announce(~std::uint64_t{0}, 2), 0U);
  EXPECT_EQ(MappedFile(path, Access::kSequential).announce(0, kPage), 0U);
  EXPECT_EQ(file.announce(0, 3 * kPage), 3 * kPage);

  // The kernel refuses the call, of this thread alone.
  std::thread([&] {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
      return;  // not allowed here
    }
    EXPECT_EQ(file.announce(0, kPage), 0U);
    expect_reads(file, 0, kPage);
  }).join();

  // A file in memory (tmpfs), and one that has shrunk, and one that is mapped no longer.
  const int memory = memfd_create("memory", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(memory, static_cast<off_t>(2 * kPage)), 0);
  const MappedFile in_memory("/proc/self/fd/" + std::to_string(memory));
  EXPECT_EQ(in_memory.announce(0, 2 * kPage), 2 * kPage);
  EXPECT_EQ(in_memory.bytes()[kPage], std::byte{0});
  close(memory);

  fs::resize_file(path, kPage);
  file.announce(0, 3 * kPage);
  file.announce(2 * kPage, kPage);
  expect_reads(file, 0, kPage);
  expect_contains(error_of_reading(file, 2 * kPage, 1), {"cut off"});

  void* const pages = const_cast<std::byte*>(file.bytes().data());
  ASSERT_EQ(munmap(pages, 3 * kPage), 0);
  EXPECT_EQ(file.announce(0, 3 * kPage), 0U);
  // For the destructor, which unmaps it.
  mmap(pages, 3 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

TEST(MappedFile, WorkingDirectoryMayChange) {
  const TemporaryDirectory directory;
  directory.write("a", pattern(10));
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  const MappedFile file("a");
  fs::current_path(before);
  fs::resize_file(directory.path() / "a", 5);
  expect_contains(error_of_reading(file, 5, 1), {"cannot read a: it was cut off"});
}

TEST(MappedFile, ManyThreadsReadWhileFilesAreCutOffAndOthersComeAndGo) {
  const TemporaryDirectory directory;
  const std::size_t size = 64 * kPage;
  std::vector<std::unique_ptr<MappedFile>> files;
  for (int i = 0; i < 4; ++i) {
    files.push_back(
        std::make_unique<MappedFile>(directory.write(std::to_string(i), pattern(size))));
  }
  std::atomic<bool> go{true};
  std::atomic<int> wrong{0};
  std::atomic<int> errors{0};
  std::atomic<int> after_cut{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> out(3 * kPage);
      for (std::size_t n = t; go; ++n) {
        const MappedFile& file = *files[n % files.size()];
        const std::size_t offset = n * 7919 % (size - out.size());
        try {
          file.read(offset, out);
          for (std::size_t i = 0; i < out.size(); i += 97) {
            if (std::to_integer<unsigned>(out[i]) != value(offset + i)) ++wrong;
          }
          if (errors > 0) ++after_cut;
        } catch (const Error&) {
          ++errors;
        }
      }
    });
  }
  for (std::size_t left = size; left > 0;) {
    left -= left > 8 * kPage ? 8 * kPage - 3 : left;
    fs::resize_file(files[1]->path(), left);
    const MappedFile passing(directory.write("passing", pattern(100)));
    expect_reads(passing, 0, 100);
  }
  while (errors < 10 || after_cut < 10) std::this_thread::yield();
  go = false;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  expect_reads(*files[0], 0, size);
}

// Fibers that take turns on a thread have its errno and its signal stack in common: that is no
// race, which ThreadSanitizer's build of this has to know.
TEST(MappedFile, FibersOnOneThreadAllHearOfWhatIsLost) {
  const TemporaryDirectory directory;
  constexpr std::size_t kFibers = 4;
  constexpr std::size_t kPages = 16;  // of each
  const MappedFile file(directory.write("a", pattern(kFibers * kPages * kPage)));
  fs::resize_file(file.path(), 0);
  std::atomic<std::size_t> errors{0};
  run(
      [&] {
        TaskGroup group;
        for (std::size_t fiber = 0; fiber < kFibers; ++fiber) {
          group.go([&, fiber] {
            for (std::size_t page = 0; page < kPages; ++page) {
              std::vector<std::byte> out(10);
              try {
                file.read((fiber * kPages + page) * kPage, out);
              } catch (const Error&) {
                ++errors;
              }
              yield();
            }
          });
        }
        group.wait();
      },
      {.workers = 1});
  EXPECT_EQ(errors, kFibers * kPages);
}

}  // namespace mapped_file_test
}  // namespace leat::feeder
