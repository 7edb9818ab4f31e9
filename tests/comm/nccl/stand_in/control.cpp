// The interface for tests.
#include <cstdio>
#include <cstdlib>

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

void reset() {
  const Lock lock(all().mutex);
  if (all().live != 0) die("reset() while communicators are left");
  all().version = NCCL_VERSION_CODE;
  all().fails_in = all().never_ends_in = all().operations = 0;
  all().never_ends_with_error = all().has_failed = all().never_inits = false;
  all().words.clear();
  all().groups.clear();
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
