#include "leat/feeder/live/one_per_terminal.h"

#include <sys/stat.h>

#include <algorithm>
#include <mutex>
#include <tuple>
#include <vector>

namespace leat::feeder {
namespace {

// One terminal may be open under several descriptors. (/dev/tty is another device than what it is.)
using Identity = std::tuple<dev_t, dev_t, ino_t>;

struct Taken {
  struct One {
    const OnePerTerminal* by;
    Identity identity;
  };
  std::mutex mutex;
  std::vector<One> all;
};

// Never destroyed: a prefetcher may be a static object.
Taken& taken() {
  static Taken& all = *new Taken;
  return all;
}

}  // namespace

OnePerTerminal::~OnePerTerminal() {
  if (!has_it_) return;
  const std::scoped_lock lock(taken().mutex);
  std::erase_if(taken().all, [&](const Taken::One& one) { return one.by == this; });
}

bool OnePerTerminal::take() {
  if (has_it_) return true;
  struct stat status {};
  if (fstat(fd_, &status) != 0) return true;
  const Identity identity(status.st_rdev, status.st_dev, status.st_ino);
  const std::scoped_lock lock(taken().mutex);
  if (std::ranges::find(taken().all, identity, &Taken::One::identity) != taken().all.end()) {
    return false;
  }
  taken().all.push_back({this, identity});
  has_it_ = true;
  return true;
}

}  // namespace leat::feeder
