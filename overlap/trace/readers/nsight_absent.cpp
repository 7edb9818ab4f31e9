// Stands in for nsight.cpp in a build without SQLite.
#include "leat/overlap/trace/readers/bytes.h"
#include "leat/overlap/trace/readers/nsight.h"

namespace overlap::trace {

Trace read_nsight(const std::filesystem::path& file, const Rules& /*rules*/) {
  throw Unreadable(file.string() +
                   ": Leat was built without SQLite; install libsqlite3-dev and build again");
}

}  // namespace overlap::trace
