// The interface for tests, and what several processes share.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "tests/comm/nccl/stand_in/state.h"

namespace leat::nccl_stand_in {

void die(const std::string& what) {
  static_cast<void>(std::fprintf(stderr, "NCCL stand-in: %s\n", what.c_str()));
  std::abort();
}

Globals& all() {
  static Globals* const made = new Globals;  // threads of streams may come later
  return *made;
}

namespace {

constexpr std::size_t kMapped = sizeof(Group) + Group::kMostRanks * Group::kMostBytes;

std::shared_ptr<Group> map(int file) {
  void* const memory = mmap(nullptr, kMapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) die("no memory for a group");
  return {static_cast<Group*>(memory), [](Group* group) { munmap(group, kMapped); }};
}

}  // namespace

GroupName make_group() {
  const GroupName name{.process = getpid(), .file = memfd_create("nccl stand-in", MFD_CLOEXEC)};
  if (name.file < 0 || ftruncate(name.file, kMapped) != 0) die("no file for a group");
  const std::shared_ptr<Group> mapped = map(name.file);
  auto* const group = new (mapped.get()) Group{};
  pthread_mutexattr_t shared;
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&group->mutex, &shared);
  pthread_condattr_t also;
  pthread_condattr_init(&also);
  pthread_condattr_setpshared(&also, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&group->progress, &also);
  return name;
}

std::shared_ptr<Group> open_group(const GroupName& name) {
  const std::string path =
      "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) die("a communicator of a name that nobody has made");
  const std::shared_ptr<Group> group = map(file);
  close(file);
  return group;
}

void reset() {
  const Lock lock(all().mutex);
  if (all().live != 0) die("reset() while communicators are left");
  all().version = NCCL_VERSION_CODE;
  all().fails_in = all().never_ends_in = all().operations = 0;
  all().never_ends_with_error = all().has_failed = all().never_inits = false;
  all().words.clear();
}
void set_version(int version) {
  const Lock lock(all().mutex);
  all().version = version;
}
void fail_call(std::uint64_t n) {
  const Lock lock(all().mutex);
  all().fails_in = n;
  all().has_failed = false;
}
bool has_failed() {
  const Lock lock(all().mutex);
  return all().has_failed;
}
void never_end(std::uint64_t n, bool with_error) {
  const Lock lock(all().mutex);
  all().never_ends_in = n;
  all().never_ends_with_error = with_error;
}
void never_init() {
  const Lock lock(all().mutex);
  all().never_inits = true;
}
std::uint64_t live() {
  const Lock lock(all().mutex);
  return all().live;
}
std::uint64_t operations() {
  const Lock lock(all().mutex);
  return all().operations;
}

}  // namespace leat::nccl_stand_in
