#include "examples/03_mnist/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace mnist {
namespace {

[[noreturn]] void fail(int reason) {
  throw std::system_error(reason, std::generic_category(), "cannot write to standard output");
}

}  // namespace

void require_output() {
  if (fcntl(STDOUT_FILENO, F_GETFD) == -1) fail(errno);
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  fail(errno != 0 ? errno : EIO);  // EIO: an earlier write took its reason along
}

}  // namespace mnist
