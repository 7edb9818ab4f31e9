// Standard output that is not lost in silence, on a full disk for instance.
#pragma once

#include <cstdio>

/// The exit status of a program that has printed all there was to print: `status`; or 1, with the
/// reason on stderr, if it could not be written.
inline int if_written(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::perror("cannot write to standard output");
  return 1;
}
