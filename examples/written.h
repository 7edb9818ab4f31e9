// Standard output that is not lost in silence, on a full disk for instance. C and C++.
#pragma once

#include <stdio.h>  // NOLINT(modernize-deprecated-headers): C includes this too

/// The exit status of a program that has printed all there was to print: `status`; or 1, with the
/// reason on stderr, if it could not be written.
static inline int if_written(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  perror("cannot write to standard output");
  return 1;
}
