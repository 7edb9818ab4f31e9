// comm::open("mpi") where the system has no more threads: an error that says so, before MPI is
// touched. So the process has not opened it: the next call is the first again.
#include "tests/support/thread_limit.h"

#include <cstdio>
#include <string>

#include "leat/comm/communicator.h"
#include "leat/csp/error.h"
#include "tests/support/child.h"

int main() {
  namespace support = leat::support;
  const std::string wrong = support::in_child([]() -> std::string {
    support::allow_threads(false);
    for (int i = 0; i < 2; ++i) {
      const std::string text = support::text_thrown_by<leat::Error>(
          [] { static_cast<void>(leat::comm::open("mpi", {})); });
      if (!text.starts_with("leat: cannot start the thread that owns MPI: ")) return text;
    }
    return "";
  });
  if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
  return wrong.empty() ? 0 : 1;
}
